//! Other installations move in.

pub mod import;
mod settings;
