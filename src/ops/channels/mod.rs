//! Accounts on chat platforms.

pub mod restart;
