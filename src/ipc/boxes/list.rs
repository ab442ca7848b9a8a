//! What waits in a command box.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    ffi::OsString,
    ops::ControlFlow,
};

use rustix::{fs::Stat, io::Errno};

use super::GroupBoxes;
use crate::ipc::{
    dir,
    names::{CommandBox, FileKind, without_hand},
    world_fault::WorldFault,
};

/// How many names are looked at in one listing; a box that holds more is listed in part.
const LOOKED_AT: usize = 200_000;
/// How many directories named like commands are returned; the rest are counted.
const DIRECTORIES: usize = 16;

/// One `*.json` name in a box, by `lstat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub kind: FileKind,
    /// When the inode last changed, which a rename does too: nanoseconds since the epoch, by our clock. Of one that was
    /// being claimed before, when it was written.
    pub ctime: i64,
    /// Bytes.
    pub size: u64,
    pub ino: u64,
}

/// The names that may stand for commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The first of them by (ctime, name), as many as were asked for; of all kinds but directories.
    pub entries: Vec<Entry>,
    /// Some of the directories that are named like commands: never opened, never claimed, to be reported.
    pub directories: Vec<Entry>,
    /// How many there are beside directories, those in `entries` included (at least: see `partial`).
    pub waiting: usize,
    /// How large all of those are together, bytes.
    pub bytes: u64,
    /// The box holds more names than are looked at in one go, so the order is that of the names seen.
    pub partial: bool,
}

impl Listing {
    /// Whether something waits that `entries` does not hold.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.waiting > self.entries.len() || self.partial
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.ctime, &self.name, self.ino).cmp(&(other.ctime, &other.name, other.ino))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Entry {
    fn new(name: OsString, stat: &Stat) -> Self {
        let stamp = |seconds: i64, nanos| {
            seconds.saturating_mul(1_000_000_000).saturating_add(i64::try_from(nanos).unwrap_or(0))
        };
        let mut ctime = stamp(stat.st_ctime, stat.st_ctime_nsec);
        // Taking it in hand changed it. It was the oldest then, and goes before what came later.
        if without_hand(&name) != name {
            ctime = ctime.min(stamp(stat.st_mtime, stat.st_mtime_nsec));
        }
        Self {
            name,
            kind: FileKind::of(stat),
            ctime,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            ino: stat.st_ino,
        }
    }
}

impl GroupBoxes {
    /// Lists the `*.json` names of a box, oldest first, at most `limit` of them.
    ///
    /// Opens nothing. Memory is bounded by `limit`, work by 200 000 names.
    ///
    /// # Errors
    /// [`WorldFault`] when the box, or what stands at one of the names, can't be read.
    pub fn list(&self, b: CommandBox, limit: usize) -> Result<Listing, WorldFault> {
        let mut oldest = BinaryHeap::new();
        let mut found = self.look(b, |entry| {
            oldest.push(entry);
            if oldest.len() > limit {
                oldest.pop();
            }
        })?;
        found.entries = oldest.into_sorted_vec();
        Ok(found)
    }

    /// The same from the other end: the newest first.
    ///
    /// # Errors
    /// [`WorldFault`] when the box can't be read.
    pub fn list_newest(&self, b: CommandBox, limit: usize) -> Result<Listing, WorldFault> {
        let mut newest = BinaryHeap::new();
        let mut found = self.look(b, |entry| {
            newest.push(Reverse(entry));
            if newest.len() > limit {
                newest.pop();
            }
        })?;
        found.entries = newest.into_sorted_vec().into_iter().map(|Reverse(entry)| entry).collect();
        Ok(found)
    }

    /// Whether there is no name at all in the command boxes.
    ///
    /// # Errors
    /// [`WorldFault`] when a box can't be read.
    pub fn are_empty(&self) -> Result<bool, WorldFault> {
        let mut are_empty = true;
        for b in CommandBox::ALL {
            let reading = |e| WorldFault::new("reading", self.path_of(b.name()).display().to_string(), e);
            let found = |_: &_, _| {
                are_empty = false;
                ControlFlow::Break(())
            };
            let held = self.open_anew(b.name()).map_err(reading)?;
            dir::each_name_of(&held, found).map_err(reading)?;
        }
        Ok(are_empty)
    }

    /// Goes through a box; returns all of a listing but its entries, of which it tells one by one.
    fn look(&self, b: CommandBox, mut tell: impl FnMut(Entry)) -> Result<Listing, WorldFault> {
        let mut found = Listing::default();
        let (mut looked_at, mut failed) = (0_usize, Ok(()));
        let reading = |e| WorldFault::new("reading", self.path_of(b.name()).display().to_string(), e);
        let held = &self.open_anew(b.name()).map_err(reading)?;
        dir::each_name_of(held, |name, _| {
            looked_at += 1;
            if looked_at > LOOKED_AT {
                found.partial = true;
                return ControlFlow::Break(());
            }
            if !self.host.files().hands().is_command_name(dir::os(name)) {
                return ControlFlow::Continue(());
            }
            let stat = match dir::stat(held, name) {
                Ok(stat) => stat,
                // Its writer took it back: not ours to list.
                Err(Errno::NOENT) => return ControlFlow::Continue(()),
                // What counts as not there is not looked for again.
                Err(error) => {
                    failed = Err(error);
                    return ControlFlow::Break(());
                }
            };
            let entry = Entry::new(dir::os(name).to_owned(), &stat);
            if entry.kind == FileKind::Directory {
                if found.directories.len() < DIRECTORIES {
                    found.directories.push(entry);
                }
            } else {
                found.waiting += 1;
                found.bytes = found.bytes.saturating_add(entry.size);
                tell(entry);
            }
            ControlFlow::Continue(())
        })
        .and(failed)
        .map_err(reading)?;
        found.directories.sort();
        Ok(found)
    }
}
