//! A process that keeps one processor busy, as others on a user's machine do.

use std::process::{Child, Command};

/// The argument by which the bench starts itself as this process.
pub(crate) const BUSY: &str = "--keep-busy";

/// It is at work until this is dropped.
pub(crate) struct Busy(Child);

impl Busy {
    /// Starts it where `G2_BENCH_BUSY` is set, and says so.
    pub(crate) fn begin() -> Option<Self> {
        std::env::var_os("G2_BENCH_BUSY")?;
        println!("One processor is kept busy by another process.\n");
        let spinning = Command::new(std::env::current_exe().unwrap()).arg(BUSY).spawn().unwrap();
        Some(Self(spinning))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keeps a processor busy for as long as the bench lives, whatever its end.
pub(crate) fn run() {
    let bench = rustix::process::getppid();
    while rustix::process::getppid() == bench {
        for n in 0..1_000_000_u32 {
            std::hint::black_box(n);
        }
    }
}
