//! Work of the daemon's own that can't be done just now and is tried again. `status` names it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, MutexGuard},
};

use ipc_handlers::Folder;

use crate::domain::problems::Problem;
use crate::system::locked::Locked as _;

/// The work that is in trouble.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A fault of our own keeps messages from being judged.
    Judging,
    /// A fault of our own ends the work on a group's commands.
    Commands(Folder),
    /// A command of a group met a fault of our own, and so did its refusal: it stays claimed.
    Stranded(Folder),
}

/// Each trouble with its last reason.
#[derive(Debug, Default)]
pub struct Troubles(Mutex<BTreeMap<Trouble, String>>);

impl Troubles {
    /// Notes that something failed; returns whether it is new. What lasts need not be logged again.
    pub fn note(&self, trouble: Trouble, why: String) -> bool {
        match self.all().entry(trouble) {
            Entry::Occupied(mut known) => {
                *known.get_mut() = why;
                false
            }
            Entry::Vacant(free) => {
                free.insert(why);
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
        let told = |(trouble, why): (&Trouble, &String)| match trouble {
            Trouble::Judging => Problem::Unjudged { why: why.clone() },
            Trouble::Commands(group) | Trouble::Stranded(group) => {
                Problem::Unsettled { group: group.clone(), why: why.clone() }
            }
        };
        self.all().iter().map(told).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Trouble, String>> {
        self.0.locked()
    }
}
