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
pub mod homeserver;
pub mod mail;
pub mod peers;
pub mod signal;
pub mod slack;
pub mod synapse;
pub mod telegram;

/// Stands in a text for one half of a surrogate pair, which JSON may hold and no string of ours.
pub const HALF: char = '\u{e000}';

/// Stands in a text for an escape that is none: what holds it is no JSON.
pub const BROKEN: char = '\u{e001}';

/// Writes an answer as the platform writes it.
fn on_the_wire(json: &serde_json::Value) -> String {
    json.to_string().replace(HALF, "\\ud800").replace(BROKEN, "\\x")
}
