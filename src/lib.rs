#![doc = include_str!("README.md")]
#![warn(clippy::print_stderr)]

pub mod app;
pub mod channels;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod failpoint;
pub mod gateway;
pub mod ipc;
pub mod loops;
pub mod memory;
pub mod mounts;
pub mod ops;
pub mod root;
pub mod sandbox;
pub mod senders;
pub mod store;
