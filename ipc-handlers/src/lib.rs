#![doc = include_str!("../README.md")]
#![warn(clippy::wildcard_enum_match_arm)]

// In reading order: input, commands, facts, decisions, answers.
pub mod envelope;
mod fields;
pub mod file;
mod json;
pub mod names;
pub mod refusal;
pub mod seen;

pub mod commands;
pub mod schedule;
pub mod token;

pub mod caller;
pub mod facts;

pub mod effect;
pub mod outbound;
pub mod outcome;
pub mod reply;
pub mod schema;
pub mod shown;

pub mod time;
pub mod used;
pub mod wire;
pub mod words;

pub use caller::{Caller, RunSeat, Scope};
pub use commands::Command;
pub use effect::{Effect, NewTask};
pub use envelope::{Envelope, Fault, Rejected, parse};
pub use facts::{Facts, Wants};
pub use names::{Folder, InvalidFolder, RequestId};
pub use outcome::{NotApplied, Outcome, TaskRow, TaskStatus, Unsearched};
pub use refusal::{Code, Refusal};
pub use schedule::{CRON_ENDS, Schedule, ScheduleKind};
pub use time::Time;
pub use words::{UnknownWord, Word};

/// Returns what `command` changes when `caller` asks for it, given the `facts` it wanted.
///
/// Facts are what [`Command::wants`] named, read in the transaction that applies the effects. They are
/// applied in order, or none of them.
///
/// # Errors
/// A [`Refusal`] with a hint, ready to be answered. Nothing is changed then.
pub fn decide(caller: &Caller, command: &Command, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
    command.decide(caller, facts)
}
