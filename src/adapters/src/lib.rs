//! Adapters of chat platforms: see `README.md`.

pub mod kit;
