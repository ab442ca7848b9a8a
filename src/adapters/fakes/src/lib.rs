//! Chat platforms on loopback: see `README.md`.
#![expect(clippy::unwrap_used, reason = "of tests alone: a test that can't go on fails")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "of tests alone: they start servers, and say what is skipped"
)]

use std::path::PathBuf;

pub mod discord;
pub mod synapse;
pub mod telegram;

/// Returns where `tests/peers.sh` puts what others wrote.
#[must_use]
pub fn peers() -> PathBuf {
    // `target/PROFILE/deps/TEST`, or `target/PROFILE/examples/PROGRAM`.
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(3).unwrap().join("peers")
}
