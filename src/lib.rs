#![doc = include_str!("README.md")]
#![warn(clippy::print_stderr)]

pub mod allowlists;
pub mod app;
pub mod backup;
pub mod channels;
pub mod cli;
pub mod config;
pub mod engine;
pub mod gateway;
pub mod ipc;
pub mod loops;
pub mod moving;
pub mod ops;
pub mod root;
pub mod sandbox;
pub mod store;
pub mod system;
pub mod web;

/// Decisions, a crate of their own.
pub use g2_domain as domain;
