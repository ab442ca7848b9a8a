#![doc = include_str!("README.md")]

pub mod source;

pub use source::{Batch, Place, Source, Tree};
