//! Who is heard: which message wakes which agent, and who may decide that.

pub mod access;
pub mod approvals;
pub mod engage;
pub mod hearing;
pub mod js_regex;
pub mod people;
pub mod sender_list;
