//! Runs: what is launched, with what in hand, whether it is well, and what its end means.

pub mod group_config;
pub mod health;
pub mod judge;
pub mod lanes;
pub mod life;
pub mod mounts;
pub mod prompt;
pub mod retry;
pub mod run_settings;
pub mod tasks;
pub mod usage;
