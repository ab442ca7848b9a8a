//! Runs the adapter that the first argument names, on standard input and output.

use std::process::ExitCode;

/// The adapters of this program.
const NAMES: [&str; 0] = [];

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    eprintln!(
        "g2-channels has no adapter {asked:?}; it has {NAMES:?}. G2 starts it: see `g2 channels --help`"
    );
    ExitCode::from(2)
}
