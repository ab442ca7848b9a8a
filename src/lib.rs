#![doc = include_str!("README.md")]

pub mod clock;
pub mod domain;
pub mod ipc;
pub mod sandbox;
