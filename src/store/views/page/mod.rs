//! What the operator's page lists. Each list is a piece of bounded length, found by an index; the next piece begins where it
//! ends. Of long texts the beginning is read.

mod chats;
mod outbox;
mod questions;
mod runs;
mod tasks;
#[cfg(test)]
mod tests;

pub use chats::{ChatShown, Chats, Transcript, Utterance, Whence};
pub use outbox::{OutboxShown, OutboxWanted};
pub use questions::QuestionShown;
pub use tasks::TaskShown;
