//! The adapter against a WhatsApp of the tests' own.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and read files")]

mod account;
mod chats;
mod daemon;
mod fake;
mod foreign;
mod kills;
