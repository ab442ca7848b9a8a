//! `acp`: any agent that speaks the Agent Client Protocol, version 1: JSON-RPC on its stdin and stdout, a line each.
//!
//! `start` calls the program, says hello, logs in if it is told how, and goes on with the session or begins one. `run` hands it
//! turns, one after the other: the protocol takes no message in the middle of a turn. The agent asks before it uses a tool, and
//! the group's rules answer. A turn that failed ends the run: its batch goes back to the host.
//!
//! The protocol's own crate is not used: it turns a feature of `serde_json` on that would change the order of keys in all of G2.

mod driver;
mod failure;
mod talk;

pub(super) use driver::Acp;
pub use failure::AcpError;
