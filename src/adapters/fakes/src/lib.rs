//! Chat platforms on loopback: see `README.md`.
#![expect(clippy::unwrap_used, reason = "of tests alone: a test that can't go on fails")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "of tests alone: they start servers, and say what is skipped"
)]

pub mod adapter;
pub mod discord;
pub mod peers;
pub mod synapse;
pub mod telegram;
