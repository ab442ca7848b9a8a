//! Decisions. Nothing here waits, reads a clock, or touches the world: values and `now` go in, values come out.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod heard;
pub mod host;
pub mod mailbox;
pub mod platforms;
pub mod rows;
pub mod runs;
pub mod states;
