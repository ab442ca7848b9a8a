//! Which of the files in a group's boxes may be taken, and when.
//!
//! Events name files in the order in which those were published, and a named file is taken at once. A look knows
//! that order only by stamps and names, and sees files while they are still being published. So it takes them strictly in
//! turn; what it can't be sure of yet waits, with all that is younger. Some files wait though no event will tell of them.
//! Files that an event tells of wait behind these.
//!
//! A file whose writer is still at work is taken like any other. If it is half written, it waits once it is claimed, and is
//! read again before younger files are taken.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use ipc_handlers::Time;

#[cfg(test)]
mod tests;

/// How long an event may be on its way. Events come in the order in which files were published; a look that was faster
/// could only guess it.
pub const EVENT_LAG: Duration = Duration::from_secs(1);
/// The most files that were told of and are kept behind others; of more, a look has to find the order.
const KEPT: usize = 4096;

/// What a look may take of what it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// What was seen a while ago: an event may still be on its way for the rest.
    Second,
    /// Everything that was there before the look: there are no events for it, or they were lost.
    First,
}

/// A look into a group's boxes. Stamps are nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub sight: Sight,
    /// There are younger files that it does not show.
    pub more: bool,
    /// Files of older stamps were published before it was asked for.
    pub begun: i64,
    /// It missed no file of an older stamp: those were published before the boxes were read.
    pub complete_until: i64,
    /// When it was, on a clock that only goes forward.
    pub now: Duration,
}

/// A file that a look has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<K> {
    pub key: K,
    /// When it was published, at the latest: nanoseconds since the epoch.
    pub ctime: i64,
}

/// What a look comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<K> {
    /// To be taken now, in this order.
    pub take: Vec<K>,
    /// Something was too new to be sure of its turn: another look within the moment.
    pub too_new: bool,
}

/// The facts about a group's boxes between two looks.
#[derive(Clone, Debug)]
pub struct Turns<K> {
    /// Files that only looks have shown, with when the first did.
    seen: BTreeMap<K, Duration>,
    /// Those of which nobody will tell.
    untold: BTreeSet<K>,
    /// What was told of since those wait, in its order.
    told: Vec<K>,
    /// There are more files of which nobody will tell: the next look has to be a [`Sight::First`].
    incomplete: bool,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { seen: BTreeMap::new(), untold: BTreeSet::new(), told: Vec::new(), incomplete: false }
    }
}

impl<K: Ord + Clone> Turns<K> {
    /// Whether something waits for its turn, so that another look is due soon.
    #[must_use]
    pub fn anything_waits(&self) -> bool {
        !self.seen.is_empty() || self.incomplete
    }

    /// Returns what a look that was asked for has to be.
    #[must_use]
    pub fn sight(&self, asked: Sight) -> Sight {
        if self.incomplete { Sight::First } else { asked }
    }

    /// Takes in of which files events have told, in that order, and returns which may be taken now: all that were told
    /// of, or none.
    pub fn told(&mut self, files: Vec<K>) -> Vec<K> {
        if self.told.is_empty() {
            self.told = files;
        } else {
            self.told.extend(files);
        }
        if self.untold.is_empty() && !self.incomplete {
            return mem::take(&mut self.told);
        }
        if self.told.len() > KEPT {
            self.told = Vec::new();
            self.incomplete = true;
        }
        Vec::new()
    }

    /// Forgets all of it: a [`Sight::First`] look comes before anything is taken.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Decides about what a look has found, which is in the order of stamps and names: each file waits for those before
    /// it, however long it was known itself, as a listing can miss an older file and show a younger one.
    pub fn look(&mut self, look: Look, found: Vec<Found<K>>) -> Turn<K> {
        let is_first = look.sight == Sight::First;
        let mut turn = Turn { take: Vec::new(), too_new: false };
        let (mut seen, mut untold) = (BTreeMap::new(), BTreeSet::new());
        for Found { key, ctime } in found {
            let since = self.seen.get(&key).copied().unwrap_or(look.now);
            let age = look.now.saturating_sub(since);
            let of_before = is_first && ctime < look.begun;
            let complete = is_first && ctime < look.complete_until;
            turn.too_new |= of_before && !complete && age < EVENT_LAG;
            if seen.is_empty() && (complete || age >= EVENT_LAG) {
                turn.take.push(key);
                continue;
            }
            if of_before || self.untold.contains(&key) {
                untold.insert(key.clone());
            }
            seen.insert(key, since);
        }
        if is_first {
            self.incomplete = look.more && !seen.is_empty();
        }
        (self.seen, self.untold) = (seen, untold);
        turn
    }
}

/// Returns a stamp, in nanoseconds, that is above that of every file published before `now`, which counts whole
/// milliseconds: of one that came earlier in this millisecond there may never be an event.
#[must_use]
pub fn stamp_after(now: Time) -> i64 {
    now.plus_ms(1).0.saturating_mul(1_000_000)
}
