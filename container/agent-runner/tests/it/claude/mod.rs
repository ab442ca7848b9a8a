//! The provider `claude`: the same suite with a fake CLI and, where it can be had, with the real one in front of a
//! scripted model.

pub(crate) mod cli;
mod faults;
mod real;
pub(crate) mod servers;
mod suite;

/// Runs each test with the fake and with the real CLI.
macro_rules! with_both {
    ($($test:ident)*) => {
        mod fake {
            $(#[test] fn $test() { super::$test(&crate::claude::cli::Cli::fake()); })*
        }
        mod real {
            $(#[test] fn $test() {
                if let Some(cli) = crate::claude::cli::Cli::real() { super::$test(&cli); }
            })*
        }
    };
}
pub(crate) use with_both;
