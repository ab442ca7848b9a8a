//! Adapters of chat platforms: see `README.md`.

pub use adapter_kit as kit;

pub mod discord;
pub mod http;
pub mod mail;
pub mod matrix;
pub mod signal;
pub mod slack;
pub mod telegram;
pub mod webhook;
