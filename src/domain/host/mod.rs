//! The machine and its owner: room, time, deaths, the unit of the service, who is let in at the page, and problems that a person has to fix.

pub mod audit;
pub mod backups;
pub mod clocks;
pub mod deaths;
pub mod disk;
pub mod elf;
pub mod errors;
pub mod feed;
pub mod folders;
pub mod held_back;
pub mod housekeeping;
pub mod image;
pub mod mend;
pub mod metrics;
pub mod pages;
pub mod problems;
pub mod prune;
pub mod repeats;
pub mod report;
pub mod screen;
pub mod setup;
pub mod times;
pub mod unit;
pub mod web;
pub mod writing;
pub mod zone;
