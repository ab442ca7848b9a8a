//! The adapter against a WhatsApp of the tests' own.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run programs, and read files and the clock"
)]

mod account;
mod chats;
mod daemon;
mod fake;
mod foreign;
mod kills;
