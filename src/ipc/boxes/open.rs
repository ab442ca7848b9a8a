//! The descriptors of a group's folder and boxes: opened when they are needed, and kept open for the groups that needed them
//! last. However many groups there are, a bounded number of files is open for them.
//!
//! A box is opened by its name in a folder that only we write to, never through a link, and has to be the one that was
//! opened first: what stands at its path later is another box.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    fs::{Mode, Stat},
    io::{Errno, Result},
    process::{Resource, getrlimit},
};

use crate::ipc::{
    dir,
    files::Fd,
    host::{Owner, give_to_known},
    names::FileKind,
};
use crate::system::locked::Locked as _;

/// How many descriptors a group has while all of its boxes are open.
pub const GROUP_FILES: u64 = 6;
/// How many groups keep theirs at most.
pub const GROUPS_KEPT: u64 = 256;

/// How many groups keep their descriptors, of `files` that this process may have open: these are at most half of them.
#[must_use]
pub fn groups_kept(files: Option<u64>) -> u64 {
    files.map_or(GROUPS_KEPT, |files| (files / 2 / GROUP_FILES).clamp(1, GROUPS_KEPT))
}

/// Which folder is meant, whatever its name leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which {
    device: u64,
    inode: u64,
}

impl Which {
    /// Makes a folder in one that only we write to, opens it, and sees to its owner and mode.
    pub(super) fn make(at: &Fd, name: &str, mode: u32, owner: Option<Owner>) -> Result<(Self, Fd)> {
        let fd = match dir::make_dir(at, name, mode) {
            Err(Errno::ACCESS) => open_locked(at, name, mode)?,
            other => other?,
        };
        let stat = fd.stat()?;
        give_to_known(&fd, &stat, owner)?;
        if stat.st_mode & 0o7777 != mode {
            fd.chmod(Mode::from_raw_mode(mode))?;
        }
        Ok((Self { device: stat.st_dev, inode: stat.st_ino }, fd))
    }

    pub(super) fn is(self, stat: &Stat) -> bool {
        (stat.st_dev, stat.st_ino) == (self.device, self.inode)
    }

    /// Opens it by its name; `STALE` if that leads to another one.
    pub(super) fn open(self, at: &Fd, name: &str, mode: u32) -> Result<Fd> {
        let fd = match dir::open_dir(at, name) {
            Err(Errno::ACCESS) => open_locked(at, name, mode)?,
            other => other?,
        };
        if self.is(&fd.stat()?) { Ok(fd) } else { Err(Errno::STALE) }
    }
}

/// Opens a folder whose owner (us, if we are not root) took its own rights away.
fn open_locked(at: &Fd, name: &str, mode: u32) -> Result<Fd> {
    if FileKind::of(&dir::stat(at, name)?) != FileKind::Directory {
        return Err(Errno::ACCESS);
    }
    dir::chmod(at, name, mode)?;
    dir::open_dir(at, name)
}

/// The folder of a group, and those of its boxes that were needed.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) group: Arc<Fd>,
    pub(super) boxes: [OnceLock<Arc<Fd>>; 5],
}

/// The place of a group's descriptors.
#[derive(Debug, Default)]
pub(super) struct Slot {
    open: Mutex<Option<Arc<Open>>>,
    /// They were needed since it was last asked who gives way.
    used: AtomicBool,
}

impl Slot {
    /// Returns them if they are open.
    pub(super) fn get(&self) -> Option<Arc<Open>> {
        let open = self.open.locked().clone();
        if open.is_some() {
            self.used.store(true, Ordering::Relaxed);
        }
        open
    }

    /// Puts them there, unless another thread was faster; returns those that are there, and whether they are new.
    fn fill(&self, opened: Open) -> (Arc<Open>, bool) {
        let mut open = self.open.locked();
        let is_new = open.is_none();
        let there = Arc::clone(open.get_or_insert_with(|| Arc::new(opened)));
        // One that is needed once only gives way first.
        self.used.store(false, Ordering::Relaxed);
        (there, is_new)
    }

    fn empty(&self) -> Option<Arc<Open>> {
        self.open.locked().take()
    }
}

/// The groups that keep their descriptors, by when they opened them.
#[derive(Debug)]
pub(in crate::ipc) struct Kept {
    places: usize,
    groups: Mutex<VecDeque<Weak<Slot>>>,
}

impl Kept {
    /// As many as the limit on open files allows.
    pub(in crate::ipc) fn new() -> Self {
        let places = groups_kept(getrlimit(Resource::Nofile).current);
        Self { places: usize::try_from(places).unwrap_or(usize::MAX), groups: Mutex::default() }
    }

    /// Keeps what was opened. Those give way that were not needed for the longest time, about.
    pub(super) fn keep(&self, slot: &Arc<Slot>, opened: Open) -> Arc<Open> {
        let (there, is_new) = slot.fill(opened);
        if is_new {
            // Closed once nobody has the lock any more.
            drop(self.take_a_place(slot));
        }
        there
    }

    fn take_a_place(&self, slot: &Arc<Slot>) -> Vec<Option<Arc<Open>>> {
        let mut groups = self.groups.locked();
        groups.push_back(Arc::downgrade(slot));
        let (mut left, mut spared) = (Vec::new(), groups.len());
        while groups.len() > self.places {
            let Some(next) = groups.pop_front() else { break };
            let Some(slot) = next.upgrade() else { continue };
            if spared > 0 && slot.used.swap(false, Ordering::Relaxed) {
                spared -= 1;
                groups.push_back(next);
            } else {
                left.push(slot.empty());
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::files::Files;

    fn open() -> Open {
        let here = Files::real().at("/".as_ref()).open().unwrap();
        Open { group: Arc::new(here), boxes: [const { OnceLock::new() }; 5] }
    }

    #[test]
    fn half_of_the_files_are_for_boxes_and_of_few_groups_at_least_one() {
        assert_eq!(
            [None, Some(1_048_576), Some(1_024), Some(120), Some(0)].map(groups_kept),
            [256, 256, 85, 10, 1]
        );
    }

    #[test]
    fn a_group_that_is_needed_stays_open_while_others_come_and_go() {
        let kept = Kept { places: 2, groups: Mutex::default() };
        let slots: Vec<Arc<Slot>> = (0..20).map(|_| Arc::default()).collect();
        let hot = &slots[0];
        kept.keep(hot, open());
        for slot in &slots[1..] {
            assert!(hot.get().is_some());
            kept.keep(slot, open());
        }
        assert!(hot.get().is_some());
        assert_eq!(slots.iter().filter(|slot| slot.get().is_some()).count(), 2);
        // A group that is gone closes its own, and its place is free.
        drop(slots);
        let coming: Arc<Slot> = Arc::default();
        kept.keep(&coming, open());
        kept.keep(&Arc::default(), open());
        assert!(coming.get().is_some());
    }
}
