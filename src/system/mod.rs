//! The machine beneath: its clock, disks, memory and processes, and files by their contents. Nothing here knows of groups or stores.

pub mod background;
pub mod bounds;
pub mod clock;
pub mod confine;
pub mod control_group;
pub mod disk;
pub mod editor;
pub mod errand;
pub mod failpoint;
pub mod family;
pub mod group;
pub mod hook;
pub mod leftovers;
pub mod locked;
pub mod manager;
pub mod media;
pub mod memory;
pub mod panics;
pub mod pictures;
pub mod process;
pub mod processes;
pub mod socket;
pub mod tree;
pub mod world;
