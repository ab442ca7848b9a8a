#![doc = include_str!("README.md")]

pub mod foreign;
pub mod installation;
pub mod moment;
pub mod order;
mod rehearse;
pub mod source;
pub mod sources;

pub use rehearse::rehearse;
pub use source::{Batch, Place, Source, Tree};
