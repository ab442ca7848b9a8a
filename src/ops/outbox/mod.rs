//! Texts for chats.

pub mod retry;
