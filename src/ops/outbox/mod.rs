//! What is said to chats.

pub mod retry;
