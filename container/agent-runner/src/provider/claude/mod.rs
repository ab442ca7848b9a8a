//! `claude`: the native Claude Code CLI, driven over JSON lines on its stdin and stdout.
//!
//! `start` calls it, makes our tools and hooks known and waits until it has taken note; a session that it does not
//! know is dropped there and a fresh one begun. `run` hands it turns, in the middle of others too, and leaves when it
//! is idle and there are no more. A turn that failed ends the run: its batches go back to the host.
//!
//! Never shows what the CLI says of itself as an answer, and never lets what people write become one of its commands.

mod event;
mod failure;
mod hooks;
mod mcp;
mod say;
mod setup;
mod talk;

mod beside;
mod driver;

mod archive;
mod folders;

#[cfg(test)]
mod samples;

pub(super) use driver::Claude;
pub use driver::ClaudeError;
