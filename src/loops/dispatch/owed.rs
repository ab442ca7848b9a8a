//! What could not be read of the store, or done, and is looked at again when the engine says so.

use std::collections::BTreeSet;

use ipc_handlers::Folder;

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unread {
    /// What came in and is not judged.
    Inbox,
    /// In which lanes something waits.
    Waiting,
    /// Which tasks are due.
    Due,
    /// How the session of this lane stands, which was cleared.
    Session(i64),
    /// How the sessions of all runs stand, as any of them may have been cleared.
    Sessions,
    /// Whether the run of this group is idle, as its supervisor says.
    Idle(Folder),
    /// Which questions nobody answered in time.
    Questions,
}

/// Reads that failed and are to be made again, each once.
pub(super) type Owed = BTreeSet<Unread>;
