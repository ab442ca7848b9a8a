//! Chats, as platforms list them.

pub mod refresh;
