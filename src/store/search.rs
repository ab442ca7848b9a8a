//! Archived sessions, found by what was said in them.
//!
//! One file beside the store has the full-text index (FTS5) of all groups. Each group has tables of its own, so a search never
//! reads texts of other groups. An [`Indexer`] keeps the file on a thread of its own, not on the store's writer: it follows
//! the feed, and indexes a piece of one group's sessions after the other, the newest first. The file need not last: if it is
//! missing, broken or of another version, it is made anew, and a file that is new to the process is compared with the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ipc_handlers::{Folder, Unsearched, shown::FoundSession};
use tokio::sync::{Notify, watch};

use super::{Follower, News, Result, Store, StoreError, fault::Fault, talk::events::newest};
use crate::domain::shown::{errors::chain, feed::EventKind};
use crate::system::locked::Locked as _;

mod file;
mod query;

use file::{FileId, Index};

/// Changes that the index depends on.
const FOLLOWED: [EventKind; 2] = [EventKind::Session, EventKind::Group];
/// How much of one group is indexed before the next group's turn, bytes. A MiB takes a third of a second, and some seconds if
/// its text was chosen for that.
const PIECE: usize = 64 << 10;
/// How often an indexer is asked to look at the feed while somebody waits for it.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// At most this many sessions of one group are indexed in one turn.
const AT_ONCE: usize = 256;
/// How many connections to the index stay open.
const HELD: usize = 4;

/// Whether a search must stop. It is called often.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a search found, best first, and why that may not be all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub sessions: Vec<FoundSession>,
    pub unsearched: Option<Unsearched>,
}

/// The index of a root, as all who use it in one process share it.
pub(super) struct Search {
    /// `data/search.sqlite`; `None`: in memory, as nothing can be written there.
    path: Option<PathBuf>,
    progress: Mutex<Progress>,
    /// Something was indexed.
    moved: watch::Sender<()>,
    /// The file is another one, or somebody waits for what the feed has by now.
    renewed: Notify,
    idle: Mutex<Vec<Index>>,
    /// Held while the file is opened or removed: of two threads that find it broken, one makes it anew.
    renewing: Mutex<()>,
    /// Why the index could not be opened at the last try.
    fault: Mutex<Option<String>>,
}

/// How far the indexer is.
#[derive(Default)]
struct Progress {
    /// The last event that is taken in; `None`: the index is still to be compared with the store.
    reached: Option<i64>,
    /// Sessions that may not be in the index as they are now.
    due: BTreeMap<Folder, BTreeSet<i64>>,
    /// Whose turn was last.
    last: Option<Folder>,
    /// What the index takes on the disk for each group, bytes.
    weights: BTreeMap<Folder, u64>,
    /// The file that this is about.
    file: FileId,
}

impl Progress {
    /// Whether all of a group's is indexed that was archived up to this event.
    fn has_all(&self, group: &Folder, event: i64) -> bool {
        self.reached.is_some_and(|reached| reached >= event) && !self.due.contains_key(group)
    }

    /// Returns the group whose turn it is.
    fn next(&self) -> Option<Folder> {
        let after = |last: &Folder| self.due.keys().find(|group| *group > last).cloned();
        self.last.as_ref().and_then(after).or_else(|| self.due.keys().next().cloned())
    }

    /// Returns the sessions of a group that are indexed in its next turn, the newest first.
    fn newest(&self, group: &Folder) -> Vec<i64> {
        self.due.get(group).map_or_else(Vec::new, |due| due.iter().rev().take(AT_ONCE).copied().collect())
    }

    /// Notes the sessions that were indexed in a group's turn.
    fn done(&mut self, group: Folder, sessions: &[i64]) {
        if let Some(due) = self.due.get_mut(&group) {
            for session in sessions {
                due.remove(session);
            }
            if due.is_empty() {
                self.due.remove(&group);
            }
        }
        self.last = Some(group);
    }
}

impl Search {
    /// The index that lies beside the store at `path`.
    pub(super) fn beside(path: &Path, is_read_only: bool) -> Self {
        Self {
            path: (!is_read_only).then(|| path.with_file_name("search.sqlite")),
            progress: Mutex::default(),
            moved: watch::Sender::new(()),
            renewed: Notify::new(),
            idle: Mutex::default(),
            renewing: Mutex::default(),
            fault: Mutex::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.locked()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Index>> {
        self.idle.locked()
    }

    fn renewing(&self) -> MutexGuard<'_, ()> {
        self.renewing.locked()
    }

    fn fault(&self) -> MutexGuard<'_, Option<String>> {
        self.fault.locked()
    }

    /// Works on the index; on a new one, once more, where it turns out to be broken.
    fn with<T>(&self, mut work: impl FnMut(&mut Index) -> Result<T>) -> Result<T> {
        match self.attempt(&mut work) {
            Err((file, error)) if is_broken(&error) && self.path.is_some() => {
                self.give_up(file, &error)?;
                self.attempt(&mut work).map_err(|(_, error)| error)
            }
            outcome => outcome.map_err(|(_, error)| error),
        }
    }

    /// Works on the index. An error is said with the file that it is about.
    fn attempt<T>(
        &self,
        work: &mut impl FnMut(&mut Index) -> Result<T>,
    ) -> std::result::Result<T, (FileId, StoreError)> {
        let lies = file::id(self.path.as_deref());
        let opened = self.open();
        *self.fault() = opened.as_ref().err().filter(|error| is_shut(error)).map(|error| chain(error));
        let mut index = opened.map_err(|error| (lies, error))?;
        let outcome = work(&mut index).map_err(|error| (index.file, error))?;
        let mut idle = self.idle();
        if idle.len() < HELD {
            idle.push(index);
        }
        Ok(outcome)
    }

    /// Removes a broken file, unless another one lies there by now.
    fn give_up(&self, file: FileId, error: &StoreError) -> Result<()> {
        let Some(path) = self.path.as_deref() else { return Ok(()) };
        let _renewing = self.renewing();
        self.idle().retain(|index| index.file != file);
        if file::id(Some(path)) != file {
            return Ok(());
        }
        tracing::warn!(error = %chain(error), "the index of archived sessions is broken and made anew");
        file::remove(path)?;
        // The next file may get the number of this one, within one tick of the file system's clock.
        let mut progress = self.progress();
        (progress.file, progress.reached) = (None, None);
        Ok(())
    }

    /// Returns a connection to the file that lies there now, which may be another one than a moment ago.
    fn open(&self) -> Result<Index> {
        let idle = self.idle().pop();
        let index = match idle.filter(|index| index.file == file::id(self.path.as_deref())) {
            Some(index) => index,
            None => {
                let _renewing = self.renewing();
                Index::open(self.path.as_deref())?
            }
        };
        let mut progress = self.progress();
        if progress.file != index.file {
            progress.file = index.file;
            progress.reached = None;
            self.renewed.notify_one();
        }
        drop(progress);
        Ok(index)
    }
}

impl Store {
    /// Says why the index of archived sessions can't be used, as far as is known.
    #[must_use]
    pub fn index_fault(&self) -> Option<String> {
        let known = self.search.fault().clone();
        known.or_else(|| self.search.path.as_deref().and_then(file::obstacle))
    }

    /// Whether an [`Indexer`] has taken in all that is archived of a group by now. On a thread that may block.
    ///
    /// # Errors
    /// When the newest event can't be read.
    pub fn is_indexed(&self, group: &Folder) -> Result<bool> {
        let event = self.read(newest)?;
        Ok(self.has_taken_in(group, event))
    }

    /// Whether an [`Indexer`] has taken in all that is archived of a group up to an event. Events that are nothing to it wake none.
    fn has_taken_in(&self, group: &Folder, event: i64) -> bool {
        let mut progress = self.search.progress();
        if let Some(reached) = progress.reached
            && reached < event
            && self.feed.is_without(&FOLLOWED, reached, event)
        {
            progress.reached = Some(event);
        }
        progress.has_all(group, event)
    }

    /// Returns what the index takes on the disk for each group, bytes, as far as an [`Indexer`] of this process has looked.
    pub(super) fn index_weights(&self) -> BTreeMap<Folder, u64> {
        self.search.progress().weights.clone()
    }

    /// Returns the same of one group.
    pub(super) fn index_weight_of(&self, group: &Folder) -> u64 {
        self.search.progress().weights.get(group).copied().unwrap_or(0)
    }

    /// Waits until an [`Indexer`] has taken in all that is archived of a group by now. Safe to cancel.
    ///
    /// # Errors
    /// When the newest event can't be read.
    pub async fn indexed(&self, group: &Folder) -> Result<()> {
        let event = self.newest_event().await?;
        let mut moved = self.search.moved.subscribe();
        let mut ask = tokio::time::interval(ASK_AGAIN);
        while !self.has_taken_in(group, event) {
            tokio::select! {
                // The newest event may be of a kind that wakes no indexer.
                _ = ask.tick() => self.search.renewed.notify_one(),
                // The store that this holds keeps the sender.
                _ = moved.changed() => {}
            }
        }
        Ok(())
    }

    /// Finds archived sessions of a group in which all words occur, best first; without words, newest first. `is_whole`: all of
    /// them are indexed, as far as the caller knows. On a thread that may block.
    ///
    /// # Errors
    /// The store's. Why not all was searched is part of the result.
    pub fn search(
        &self,
        group: &Folder,
        query: &str,
        limit: i64,
        is_whole: bool,
        stop: &Stop,
    ) -> Result<Found> {
        let limit = usize::try_from(limit).unwrap_or(0);
        self.search.with(|index| {
            // The file may be a new one.
            let is_whole = is_whole && self.search.progress().has_all(group, 0);
            let stopped = Arc::new(AtomicBool::new(false));
            let (stop, told) = (Arc::clone(stop), Arc::clone(&stopped));
            let asked = move || {
                let stops = stop();
                told.fetch_or(stops, Ordering::Relaxed);
                stops
            };
            let sessions = self.read(|c| index.look(c, group, query, limit, asked))?;
            let unsearched = match stopped.load(Ordering::Relaxed) {
                true => Some(Unsearched::TooMuch),
                false if !is_whole => Some(Unsearched::NotIndexed),
                false => self.read(|c| index.lacks_old(c, group))?.then_some(Unsearched::Old),
            };
            Ok(Found { sessions, unsearched })
        })
    }

    /// Returns the indexer of this process. It begins with what the index lacks, whatever an earlier one knew.
    ///
    /// # Errors
    /// When the newest event can't be read.
    pub fn indexer(&self) -> Result<Indexer> {
        let feed = self.follow_kinds_from(&FOLLOWED, self.read(newest)?);
        self.search.progress().reached = None;
        Ok(Indexer { store: self.clone(), feed })
    }

    /// Waits until an [`Indexer`] is to look without an event that it follows: somebody waits for it, or the index is a new one.
    /// Safe to cancel.
    pub async fn index_is_wanted(&self) {
        self.search.renewed.notified().await;
    }
}

/// Keeps the index of archived sessions. A process has one at most; several processes may.
pub struct Indexer {
    store: Store,
    feed: Follower,
}

impl Indexer {
    /// Takes in what is new and does a piece of one group's; returns whether there is more to do. On a thread that may block.
    ///
    /// # Errors
    /// The store's, or the index's: what was to be done is still to be done.
    pub fn work(&mut self) -> Result<bool> {
        let search = Arc::clone(&self.store.search);
        search.with(|index| {
            loop {
                let store = &self.store;
                let news = self.feed.look_by(|feed, cursor, newest| store.read(|c| feed.read(c, cursor, newest)))?;
                self.take_in(&news, self.feed.cursor());
                if news.events.is_empty() && !news.missed {
                    break;
                }
            }
            if search.progress().reached.is_none() {
                let (due, weights) = (self.store.read(|c| index.due(c))?, index.weights()?);
                let mut progress = search.progress();
                // Unless the file is another one by now.
                if progress.file == index.file {
                    (progress.due, progress.weights) = (due, weights);
                    progress.reached = Some(self.feed.cursor());
                }
            }
            let Some(group) = search.progress().next() else {
                search.moved.send_replace(());
                return Ok(false);
            };
            let newest: Vec<i64> = search.progress().newest(&group);
            let work_off = |sessions: &[i64]| self.store.read(|c| index.work_off(c, sessions, PIECE));
            let first = &newest[..newest.len().min(1)];
            let done = match work_off(&newest) {
                // One of them; they were done together, so that nothing of any of them is in the index now.
                Err(error) if is_our_fault(&error) => work_off(first).or_else(|error| {
                    if !is_our_fault(&error) {
                        return Err(error);
                    }
                    tracing::error!(group = %group, session = first.first(), error = %chain(&error), "our own fault: a session can't be indexed; it is left out until a restart");
                    Ok(first.len())
                })?,
                done => done?,
            };
            let weight = index.weight_of(&group)?;
            let mut progress = search.progress();
            progress.weights.insert(group.clone(), weight);
            progress.done(group, &newest[..done]);
            search.moved.send_replace(());
            Ok(!progress.due.is_empty())
        })
    }

    fn take_in(&self, news: &News, cursor: i64) {
        let mut progress = self.store.search.progress();
        for event in news.events.iter().filter(|event| event.kind == EventKind::Session) {
            if let (Some(group), Ok(id)) = (&event.group, event.subject.parse()) {
                progress.due.entry(group.clone()).or_default().insert(id);
            }
        }
        // Of a group that is made or removed everything comes or goes.
        progress.reached = progress.reached.filter(|_| !news.any(&[EventKind::Group])).map(|_| cursor);
        drop(progress);
        self.store.search.moved.send_replace(());
    }
}

/// Whether neither the world nor a broken file is in the way: it would be so for ever, and for everybody.
fn is_our_fault(error: &StoreError) -> bool {
    !error.is_worlds_fault() && !is_broken(error)
}

/// Whether the index can't be opened, and not for want of room or time.
fn is_shut(error: &StoreError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match error {
        StoreError::Index { error, .. } => !matches!(error.kind(), StorageFull | QuotaExceeded),
        StoreError::Sqlite(fault) => fault.is_shut(),
        _ => false,
    }
}

/// Whether the index is broken, or lacks what it was made with.
fn is_broken(error: &StoreError) -> bool {
    let lost = |fault: &Fault| ["seen", "filled", "said_"].iter().any(|table| fault.lacks_table(table));
    matches!(error, StoreError::Sqlite(fault) if fault.is_broken() || lost(fault))
}

/// Does work that reads the store itself: an index is not to blame for its faults.
fn of_store<T>(work: impl FnOnce() -> rusqlite::Result<T>) -> Result<T> {
    work().map_err(|error| StoreError::Read(error.into()))
}

#[cfg(test)]
mod tests;
