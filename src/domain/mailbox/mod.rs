//! The mailbox: what of a group's files is taken, and when.

pub mod bucket;
pub mod holds;
pub mod scan;
pub mod search;
pub mod transcript;
