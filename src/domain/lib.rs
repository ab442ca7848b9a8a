//! Decisions. Nothing here waits, reads a clock, or touches the world: values and `now` go in, values come out.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod heard;
pub mod kept;
pub mod machine;
pub mod mailbox;
pub mod moved;
pub mod platforms;
pub mod problems;
pub mod rows;
pub mod runs;
pub mod shown;
pub mod states;
pub mod time;
