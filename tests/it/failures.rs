//! What goes wrong with agents: each run ends with its reason, nothing is lost, and the chat is told once.

#![expect(clippy::disallowed_methods, reason = "changes what agents do, and the schema, from outside")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod failing;
mod faults;
mod reads;
mod stuck;
