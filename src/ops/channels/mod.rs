//! Accounts on chat platforms.

pub mod add;
pub mod remove;
pub mod restart;
pub mod table;
