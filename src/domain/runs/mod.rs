//! Runs: their launch, their work, their health, and the meaning of their end.

pub mod budget;
pub mod calendar;
pub mod group_config;
mod group_keys;
pub mod health;
pub mod heartbeat;
pub mod hindrance;
pub mod judge;
pub mod lanes;
pub mod life;
pub mod model_limit;
pub mod mounts;
pub mod output;
pub mod outside;
pub mod placed;
pub mod prompt;
pub mod retry;
pub mod run_settings;
pub mod slots;
pub mod stop;
pub mod tasks;
pub mod tool_servers;
pub mod usage;
pub mod used;
pub mod wake;
pub mod when;
pub mod work;
