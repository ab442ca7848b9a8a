//! The machine and its owner: room, time, deaths, and what a person has to mend.

pub mod deaths;
pub mod errors;
pub mod feed;
pub mod problems;
pub mod prune;
pub mod repeats;
pub mod room;
pub mod screen;
pub mod zone;
