//! Decisions. Nothing here waits, reads a clock, or touches the world: values and `now` go in, values come out.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod access;
pub mod approvals;
pub mod bucket;
pub mod chats;
pub mod deaths;
pub mod engage;
pub mod errors;
pub mod group_config;
pub mod health;
pub mod hearing;
pub mod holds;
pub mod js_regex;
pub mod judge;
pub mod lanes;
pub mod mounts;
pub mod people;
pub mod problems;
pub mod prompt;
pub mod prune;
pub mod repeats;
pub mod retry;
pub mod room;
pub mod rows;
pub mod run_settings;
pub mod scan;
pub mod screen;
pub mod search;
pub mod sender_list;
pub mod states;
pub mod tasks;
pub mod transcript;
pub mod typing;
pub mod usage;
pub mod zone;
