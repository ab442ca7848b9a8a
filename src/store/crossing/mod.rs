//! Where talk and work meet: from the inbox to a batch (`handover`, and `waiting`, which looks for it), from a
//! task that is due to a run (`due`), and from a run, a
//! command or a task to the outbox (`said`); a message that a person has passed over (`skip`), and one that a person writes to a run (`attach`); and what a group's budget comes to (`budget`). How the agent of a run is woken is decided where the run is made (`wake`). `words` does what an owner asks for in a chat. Each crossing has a key that a unique index holds, so that to cross again
//! changes nothing.

pub(super) mod attach;
pub(super) mod budget;
pub(super) mod due;
pub(super) mod handover;
pub(super) mod said;
pub(super) mod skip;
pub(super) mod waiting;
mod wake;
pub(super) mod words;
