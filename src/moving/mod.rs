#![doc = include_str!("README.md")]

mod rehearse;
pub mod source;

pub use rehearse::rehearse;
pub use source::{Batch, Place, Source, Tree};
