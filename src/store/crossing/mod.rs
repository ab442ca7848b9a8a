//! Where talk and work meet. Each crossing has a key that a unique index holds, so that to cross again changes nothing.
//!
//! - `handover`: from the inbox to a batch; `waiting` looks for what waits.
//! - `due`: from a task that is due to a run. `wake` decides, where a run is made, how its agent is woken.
//! - `said`: from a run, a command or a task to the outbox.
//! - `skip`: a person has a message passed over. `attach`: a person writes to a run. `chat_commands`: an owner asks in a chat.
//! - `gone`: from a text that could not be said to the agent, the tasks and an owner.
//! - `budget`: the notices about a group's budget. `fallbacks`: the model of its runs while its own is at a limit.

pub(super) mod attach;
pub(super) mod budget;
pub(super) mod chat_commands;
pub(super) mod due;
pub(super) mod fallbacks;
pub(super) mod gone;
pub(super) mod handover;
pub(super) mod notices;
pub(super) mod said;
pub(super) mod skip;
pub(super) mod waiting;
mod wake;
