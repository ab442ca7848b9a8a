//! Groups: agents with a folder, memory and mailbox.

pub mod add;
pub mod remove;
pub mod restart;
pub mod set;
