//! What the open files of a disk hold against each other: SQLite's two kinds of locks.

use std::collections::BTreeMap;

use super::model::Ino;

/// How much of a file somebody has locked. Each of them has all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

/// Somebody else is in the way.
pub(super) struct Busy;

/// A file that somebody has open.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) ino: Ino,
    pub(super) level: Level,
    /// Whether it has the shared memory of its file.
    pub(super) is_mapped: bool,
    /// Slots of the shared memory that it holds, a bit each.
    shared: u32,
    exclusive: u32,
}

/// All that is open, by the number of its opening. Numbers are never given twice, so one that is not there is dead.
#[derive(Default)]
pub(super) struct Open {
    all: BTreeMap<u64, Opened>,
    last: u64,
}

impl Open {
    pub(super) fn add(&mut self, ino: Ino) -> u64 {
        self.last += 1;
        self.all.insert(self.last, Opened { ino, ..Opened::default() });
        self.last
    }

    pub(super) fn get(&self, id: u64) -> Option<&Opened> {
        self.all.get(&id)
    }

    pub(super) fn close(&mut self, id: u64) {
        self.all.remove(&id);
    }

    pub(super) fn close_all(&mut self) {
        self.all.clear();
    }

    pub(super) fn has(&self, ino: Ino) -> bool {
        self.all.values().any(|opened| opened.ino == ino)
    }

    /// The same file as others opened it.
    fn others(&self, id: u64, ino: Ino) -> impl Iterator<Item = &Opened> {
        self.all.iter().filter(move |(other, opened)| **other != id && opened.ino == ino).map(|(_, o)| o)
    }

    /// Takes a lock.
    pub(super) fn lock(&mut self, id: u64, level: Level) -> Result<(), Busy> {
        let Some(own) = self.all.get(&id).filter(|own| own.level < level) else { return Ok(()) };
        let highest = self.others(id, own.ino).map(|other| other.level).max().unwrap_or_default();
        let (reached, outcome) = match level {
            Level::None => (level, Ok(())),
            Level::Shared if highest >= Level::Pending => return Err(Busy),
            // One at a time is on the way to write.
            Level::Reserved | Level::Pending | Level::Exclusive if highest >= Level::Reserved => {
                return Err(Busy);
            }
            // Nobody can begin to read from now on; those that read already are waited for.
            Level::Exclusive if highest == Level::Shared => (Level::Pending, Err(Busy)),
            Level::Shared | Level::Reserved | Level::Pending | Level::Exclusive => (level, Ok(())),
        };
        if let Some(own) = self.all.get_mut(&id) {
            own.level = reached;
        }
        outcome
    }

    pub(super) fn unlock(&mut self, id: u64, level: Level) {
        if let Some(own) = self.all.get_mut(&id) {
            own.level = own.level.min(level);
        }
    }

    /// Whether anybody is on the way to write.
    pub(super) fn is_reserved(&self, ino: Ino) -> bool {
        self.all.values().any(|opened| opened.ino == ino && opened.level >= Level::Reserved)
    }

    pub(super) fn map(&mut self, id: u64) {
        if let Some(own) = self.all.get_mut(&id) {
            own.is_mapped = true;
        }
    }

    /// Gives shared memory back, with the slots. Whether nobody has it any more.
    pub(super) fn unmap(&mut self, id: u64) -> bool {
        let Some(own) = self.all.get_mut(&id).filter(|own| own.is_mapped) else { return false };
        *own = Opened { ino: own.ino, level: own.level, ..Opened::default() };
        let ino = own.ino;
        !self.others(id, ino).any(|other| other.is_mapped)
    }

    /// Takes slots of the shared memory.
    pub(super) fn take_slots(&mut self, id: u64, slots: u32, is_exclusive: bool) -> Result<(), Busy> {
        let Some(own) = self.all.get(&id) else { return Ok(()) };
        let in_the_way = |other: &Opened| {
            let held = if is_exclusive { other.shared | other.exclusive } else { other.exclusive };
            held & slots != 0
        };
        if self.others(id, own.ino).any(in_the_way) {
            return Err(Busy);
        }
        if let Some(own) = self.all.get_mut(&id) {
            *(if is_exclusive { &mut own.exclusive } else { &mut own.shared }) |= slots;
        }
        Ok(())
    }

    pub(super) fn give_slots(&mut self, id: u64, slots: u32) {
        if let Some(own) = self.all.get_mut(&id) {
            own.shared &= !slots;
            own.exclusive &= !slots;
        }
    }
}
