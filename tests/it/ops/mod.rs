//! Operations: the same with the daemon up or down, described as they are, and right after a death in the middle.

mod died;
#[path = "../../../ipc-handlers/tests/fits/mod.rs"]
mod fits;
mod socket;
mod stop;
mod table;
