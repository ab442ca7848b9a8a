//! Which message wakes which agent, and which people may decide that.

pub mod access;
pub mod approvals;
pub mod bots;
pub mod chat_commands;
pub mod claims;
pub mod edits;
pub mod engage;
pub mod hearing;
pub mod js_regex;
pub mod origin;
pub mod people;
pub mod questions;
pub mod same;
pub mod sender_list;
