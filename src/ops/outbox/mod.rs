//! Texts for chats.

pub mod drop;
pub mod retry;
pub mod say;
