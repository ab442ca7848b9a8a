//! Work of the daemon's own that can't be done just now and is tried again. `status` names it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ipc_handlers::Folder;

use crate::{domain::host::problems::Problem, system::clock};

/// A read that fails for longer than this is told to a person.
const LASTS: Duration = Duration::from_secs(10);

/// The work that is in trouble.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// This can't be read from the store.
    Unread(&'static str),
    /// A fault of our own keeps messages from being judged.
    Judging,
    /// A fault of our own ends the work on what is said to a chat.
    Chat(String),
    /// A fault of our own ends the work on a group's commands.
    Commands(Folder),
    /// A command of a group met a fault of our own, and so did its refusal: it stays claimed.
    Stranded(Folder),
    /// A fault of our own is in the way of a run of a group, or of its end.
    Run(Folder),
}

/// Each trouble with its begin and its last reason.
#[derive(Debug, Default)]
pub struct Troubles(Mutex<BTreeMap<Trouble, (Instant, String)>>);

impl Troubles {
    /// Notes that something failed; returns whether it is new. What lasts need not be logged again.
    pub fn note(&self, trouble: Trouble, why: String) -> bool {
        match self.all().entry(trouble) {
            Entry::Occupied(mut known) => {
                known.get_mut().1 = why;
                false
            }
            Entry::Vacant(free) => {
                free.insert((clock::monotonic(), why));
                true
            }
        }
    }

    /// Notes that it works again.
    pub fn is_over(&self, trouble: &Trouble) {
        self.all().remove(trouble);
    }

    /// Returns what a person is told.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let now = clock::monotonic();
        let told = |(trouble, (since, why)): (&Trouble, &(Instant, String))| {
            let why = why.clone();
            match trouble {
                Trouble::Unread(what) => {
                    (now.duration_since(*since) >= LASTS).then_some(Problem::Unreadable { what, why })
                }
                Trouble::Judging => Some(Problem::Unjudged { why }),
                Trouble::Chat(chat) => Some(Problem::Mute { chat: chat.clone(), why }),
                Trouble::Run(group) => Some(Problem::Unended { group: group.clone(), why }),
                Trouble::Commands(group) | Trouble::Stranded(group) => {
                    Some(Problem::Unsettled { group: group.clone(), why })
                }
            }
        };
        self.all().iter().filter_map(told).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Trouble, (Instant, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
