//! The machine and its owner: room, time, deaths, the unit of the service, and problems that a person has to fix.

pub mod audit;
pub mod clocks;
pub mod deaths;
pub mod disk;
pub mod errors;
pub mod feed;
pub mod metrics;
pub mod problems;
pub mod prune;
pub mod repeats;
pub mod screen;
pub mod unit;
pub mod zone;
