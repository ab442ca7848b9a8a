//! What could not be read of the store, or done, and is looked at again: all of it together once a second, until it can be.

use std::{collections::BTreeSet, time::Duration};

use ipc_handlers::Folder;
use tokio::time::Instant;

/// How long after a read failed it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

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
    /// What is left to do of this run of a group, as its supervisor failed.
    Abandoned(Folder, i64),
}

/// What is to be read again, each once.
#[derive(Debug, Default)]
pub(super) struct Owed {
    unread: BTreeSet<Unread>,
    at: Option<Instant>,
}

impl Owed {
    pub(super) fn add(&mut self, unread: Unread, now: Instant) {
        self.unread.insert(unread);
        // What fails later does not put off what failed before.
        self.at.get_or_insert(now + AGAIN);
    }

    /// Returns when it is read again; `None`: nothing is owed.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Whether this is owed, and nothing else.
    pub(super) fn is_only(&self, unread: &Unread) -> bool {
        self.unread.len() == 1 && self.unread.contains(unread)
    }

    /// Returns all that is owed, which then no longer is.
    pub(super) fn take(&mut self) -> BTreeSet<Unread> {
        self.at = None;
        std::mem::take(&mut self.unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_read_again_a_second_after_the_first_failure_each_once() {
        let (mut owed, began) = (Owed::default(), Instant::now());
        assert_eq!((owed.at(), owed.take()), (None, BTreeSet::new()));
        let idle = |group: &str| Unread::Idle(Folder::parse(group).unwrap());
        for (unread, ms) in
            [(idle("main"), 0), (Unread::Waiting, 900), (idle("main"), 990), (Unread::Due, 990)]
        {
            owed.add(unread, began + Duration::from_millis(ms));
            assert_eq!(owed.at(), Some(began + AGAIN));
        }
        assert_eq!(owed.take(), [Unread::Waiting, Unread::Due, idle("main")].into());
        // It fails again.
        owed.add(Unread::Due, began + AGAIN);
        assert_eq!(owed.at(), Some(began + 2 * AGAIN));
        assert_eq!(owed.take(), [Unread::Due].into());
        assert_eq!(owed.at(), None);
    }
}
