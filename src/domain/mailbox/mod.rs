//! The mailbox: which files of a group are taken, and when.

pub mod bucket;
pub mod holds;
pub mod scan;
pub mod search;
pub mod transcript;
