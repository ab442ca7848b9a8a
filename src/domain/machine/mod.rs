//! The machine and the daemon on it: its unit, images and programs, its loops, its deaths, and entry at the page.

pub mod deaths;
pub mod elf;
pub mod image;
pub mod loops;
pub mod setup;
pub mod unit;
pub mod web;
