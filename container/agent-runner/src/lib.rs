#![doc = include_str!("../README.md")]

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

mod clock;
mod files;
mod hints;
mod life;
mod seat;

pub use files::FileError;
pub use host::{Event, Host};
pub use mailbox::{CommandBox, Mailbox, MailboxError, Reply};
pub use records::OutputGone;
pub use runner::main;
pub use turns::{Turn, Turns};
