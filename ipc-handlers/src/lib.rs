#![doc = include_str!("../README.md")]

pub mod names;
pub mod time;
pub mod wire;

pub use names::{Folder, InvalidFolder};
pub use time::Time;
