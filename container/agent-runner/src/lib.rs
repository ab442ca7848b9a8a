#![doc = include_str!("../README.md")]

mod program;
mod runner;

mod host;
mod ids;
mod inbox;
mod mailbox;
pub mod mcp;
mod prompt;
pub mod provider;
mod records;
mod state;
mod task_script;
mod tools;
mod turns;
mod uses;

mod clock;
mod files;
mod hints;
mod life;
mod outside;
mod seat;
pub mod world;

pub use files::FileError;
pub use host::{Event, Host};
pub use mailbox::{CommandBox, Mailbox, MailboxError, Reply};
pub use program::program;
pub use records::OutputGone;
pub use runner::{live_in, main};
pub use turns::{Turn, Turns};

/// Which runner this is: its version and a number made of its sources, as `0.1.0+0123456789abcdef`. Images carry it as
/// the label `g2.runner`.
pub const ID: &str = env!("G2_RUNNER");
