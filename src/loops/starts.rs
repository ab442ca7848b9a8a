//! What a start takes in of what it found, written down while that is under way: a start that dies over it is told of by
//! `data/starts.json`, and [`crate::domain::machine::deaths`] decides who is set aside for it.
//!
//! The file is written before the work begins and removed when all is taken in, so a start that finds nothing writes none,
//! and no command or record costs a look at it. Nobody waits for the disk: what a power cut takes of it was no attack.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use ipc_handlers::{Folder, Time};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    domain::{
        machine::deaths::{self, Death},
        shown::errors::chain,
    },
    root,
    system::locked::Locked as _,
};

/// A kind of work that a start takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Its claimed commands.
    Claims,
    /// What its run has said.
    Output,
}

/// What a start found, by group.
pub type Found = BTreeSet<(Folder, What)>;

/// What a start takes in.
pub struct Starts {
    data: PathBuf,
    state: Mutex<State>,
    /// The turns. After a death there is one at a time.
    turns: Arc<Semaphore>,
}

/// How many may be at it at a time where no start has died.
const AT_A_TIME: usize = 1 << 16;

struct State {
    /// The starts that died before this one.
    before: Vec<Death>,
    since: Time,
    /// The work to be taken in, at work included.
    left: Found,
    at_work: Found,
    /// Whether there is a file.
    written: bool,
}

impl Starts {
    /// Begins to take in the work that was found. Returns the groups that are set aside: nothing of them is taken in.
    #[must_use]
    pub fn begin(data: PathBuf, found: Found, now: Time) -> (Self, BTreeSet<Folder>) {
        let known = root::read_starts(&data).unwrap_or_else(|error| {
            tracing::warn!(error = %chain(&error), "data/starts.json can't be read; earlier starts count as well ended");
            None
        });
        let written = known.is_some();
        let read = known.map(|text| serde_json::from_slice(&text)).transpose();
        let before: Vec<Death> = read
            .unwrap_or_else(|error| {
                tracing::warn!(error = %chain(&error), "data/starts.json is broken; earlier starts count as well ended");
                None
            })
            .unwrap_or_default();
        let before = deaths::in_a_row(&before, now).to_vec();
        let groups = found.iter().map(|(group, _)| group.clone()).collect();
        let aside = deaths::set_aside(&before, &groups);
        let left = found.into_iter().filter(|(group, _)| !aside.contains(group)).collect();
        let turns = Arc::new(Semaphore::new(if before.is_empty() { AT_A_TIME } else { 1 }));
        let state = Mutex::new(State { before, since: now, left, at_work: Found::new(), written });
        let this = Self { data, state, turns };
        this.change(|_| {});
        (this, aside)
    }

    /// Whether this of a group was found and is not taken in.
    #[must_use]
    pub fn is_left(&self, group: &Folder, what: What) -> bool {
        self.state().left.contains(&(group.clone(), what))
    }

    /// Waits for a turn to take something in; [`Starts::taking`] says what. If the start before this one died, there is one turn
    /// at a time, so that another death names the group.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// This of a group is taken in from now on, if it was found.
    pub fn taking(&self, group: &Folder, what: What) {
        let one = (group.clone(), what);
        let is_new = |state: &State| state.left.contains(&one) && !state.at_work.contains(&one);
        if is_new(&self.state()) {
            self.change(|state| {
                state.at_work.insert(one);
            });
        }
    }

    /// This of a group is not at work any more, and is left for later.
    pub fn rests(&self, group: &Folder, what: What) {
        self.change(|state| {
            state.at_work.remove(&(group.clone(), what));
        });
    }

    /// This of a group is taken in.
    pub fn taken(&self, group: &Folder, what: What) {
        if self.state().left.is_empty() {
            return;
        }
        self.change(|state| {
            let one = (group.clone(), what);
            state.left.remove(&one);
            state.at_work.remove(&one);
        });
    }

    /// The daemon stops in order: this start did not die.
    pub fn end(&self) {
        self.change(|state| {
            state.left.clear();
            state.at_work.clear();
        });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.locked()
    }

    /// Changes the state, and writes it to the file.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        if state.left.is_empty() {
            state.before.clear();
            if std::mem::take(&mut state.written)
                && let Err(error) = root::write_starts(&self.data, None)
            {
                tracing::warn!(error = %chain(&error), "data/starts.json can't be removed");
            }
            return;
        }
        let over: BTreeSet<Folder> = state.at_work.iter().map(|(group, _)| group.clone()).collect();
        let now = (!over.is_empty()).then_some(Death { at: state.since, over });
        let all: Vec<&Death> = state.before.iter().chain(&now).collect();
        // Names and times are always written; what is no list counts as well ended.
        let text = serde_json::to_vec(&all).unwrap_or_default();
        if let Err(error) = root::write_starts(&self.data, Some(&text)) {
            tracing::warn!(error = %chain(&error), "data/starts.json can't be written; a death of this start is not known to the next");
        }
        state.written = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    fn found(names: &[&str]) -> Found {
        names.iter().map(|name| (Folder::parse(name).unwrap(), What::Claims)).collect()
    }

    #[test]
    fn who_was_at_work_at_two_deaths_is_set_aside_and_a_start_that_gets_through_forgets_them() {
        let dir = tempfile::tempdir().unwrap();
        let begin = |names: &[&str]| Starts::begin(dir.path().to_owned(), found(names), NOW);
        let folder = |name: &str| Folder::parse(name).unwrap();
        let file = dir.path().join("starts.json");
        let dies = |over: &[&str], found: &[&str]| {
            let (start, aside) = begin(found);
            over.iter().for_each(|name| start.taking(&folder(name), What::Claims));
            (start.turns.available_permits() == 1, aside)
        };
        assert_eq!(dies(&["evil", "good"], &["evil", "good"]), (false, BTreeSet::new()));
        assert_eq!(dies(&["evil"], &["evil", "good"]), (true, BTreeSet::new()));
        let (start, aside) = begin(&["evil", "good"]);
        assert_eq!(aside, [folder("evil")].into());
        start.taking(&folder("good"), What::Claims);
        assert!(file.exists());
        start.taken(&folder("good"), What::Claims);
        assert!(!file.exists(), "all of it is taken in, but what is set aside");

        // Nobody is at work: it says nothing of anybody.
        assert_eq!(dies(&[], &["evil"]), (false, BTreeSet::new()));
        assert_eq!(dies(&["evil"], &["evil"]), (false, BTreeSet::new()));
        let (start, _) = begin(&["evil"]);
        start.taking(&folder("evil"), What::Claims);
        start.end();
        assert!(!file.exists(), "an orderly stop is no death");
        assert_eq!(begin(&[]).1, BTreeSet::new());
        assert!(!file.exists(), "nothing was found");
        root::write_starts(dir.path(), Some(b"[half")).unwrap();
        assert_eq!(dies(&["evil"], &["evil"]), (false, BTreeSet::new()));
    }
}
