//! A disk in use: what SQLite asks of it, and what it answers. Safe code; `vfs` translates.

use std::{
    ffi::c_int,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use rusqlite::ffi;

use super::{
    locks::{Busy, Level, Open},
    model::{Ino, Model, Region},
    vfs::Place,
};
use crate::Chance;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A file is opened, or made.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is made durable.
    Sync,
    /// A size is set.
    Truncate,
    /// A name is removed.
    Delete,
    /// Shared memory gets a piece more.
    Map,
    /// Time is to pass, `len` µs. Only [`Fault::Die`] has an effect.
    Sleep,
}

/// All kinds.
pub const KINDS: [Kind; 8] =
    [Kind::Open, Kind::Read, Kind::Write, Kind::Sync, Kind::Truncate, Kind::Delete, Kind::Map, Kind::Sleep];

/// A call that SQLite makes.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What it asks for.
    pub kind: Kind,
    /// Which file; `None` for one that SQLite needs for a while.
    pub path: Option<&'a str>,
    /// The first is 1; all kinds count.
    pub number: u64,
    /// Where in the file.
    pub at: usize,
    /// How many bytes; the size that is set.
    pub len: usize,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk fails. Of a write and of a sync a part may have been done.
    Io,
    /// There is no room left. Of a write a part may have been done.
    Full,
    /// The programs die before it is done: see [`super::Disk::die`].
    Die,
}

/// How often a disk was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; KINDS.len()]);

impl Counts {
    /// For one kind.
    #[must_use]
    pub const fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// For all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

type Decides = Box<dyn FnMut(&Call<'_>) -> Option<Fault> + Send>;

/// Who decides what becomes of calls.
pub(super) enum Hook {
    Nobody,
    There(Decides),
    /// It is being asked.
    Asked,
}

/// All that changes.
pub(super) struct State {
    pub(super) model: Model,
    open: Open,
    chance: Chance,
    pub(super) hook: Hook,
    pub(super) is_dead: bool,
    pub(super) lies: bool,
    pub(super) counts: Counts,
    pub(super) slept: Duration,
    pub(super) now: i64,
}

impl State {
    pub(super) fn die(&mut self) {
        self.is_dead = true;
        // Connections that are dead keep the memory, and nobody sees what they do there.
        self.model.forget_shared();
        self.open.close_all();
        self.sweep();
    }

    pub(super) fn sweep(&mut self) {
        self.model.sweep(|ino| self.open.has(ino));
    }

    /// The file of an opening that is not dead.
    fn ino(&self, id: u64) -> Result<Ino, c_int> {
        self.open.get(id).map(|opened| opened.ino).ok_or(ffi::SQLITE_IOERR)
    }
}

/// Why a call is not done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Io,
    Full,
    Dead,
}

impl Wrong {
    /// How SQLite is told, where the kind of call has codes of its own.
    const fn code(self, io: c_int, full: c_int) -> c_int {
        match self {
            Self::Io => io,
            Self::Full => full,
            Self::Dead => ffi::SQLITE_IOERR,
        }
    }
}

/// The disk that all handles and files of it share.
pub(super) struct Machine {
    place: &'static Place,
    seed: u64,
    state: Mutex<State>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.place.give_back();
    }
}

/// A file that SQLite has open.
pub(super) struct Handle {
    machine: Arc<Machine>,
    id: u64,
    path: Option<Arc<str>>,
    /// SQLite writes to them without asking, also when the disk is dead.
    regions: Mutex<Vec<Region>>,
}

impl Machine {
    pub(super) fn new(place: &'static Place, seed: u64) -> Self {
        let state = State {
            model: Model::default(),
            open: Open::default(),
            chance: Chance::new(seed),
            hook: Hook::Nobody,
            is_dead: false,
            lies: false,
            counts: Counts::default(),
            slept: Duration::ZERO,
            now: 0,
        };
        Self { place, seed, state: Mutex::new(state) }
    }

    pub(super) const fn place(&self) -> &'static Place {
        self.place
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the hook decide. The state is free meanwhile.
    fn ask(&self, kind: Kind, path: Option<&str>, at: usize, len: usize) -> Result<(), Wrong> {
        let mut state = self.state();
        if state.is_dead {
            return Err(Wrong::Dead);
        }
        state.counts.0[kind as usize] += 1;
        if !matches!(state.hook, Hook::There(_)) {
            return Ok(());
        }
        let number = state.counts.total();
        let Hook::There(mut hook) = std::mem::replace(&mut state.hook, Hook::Asked) else { return Ok(()) };
        drop(state);
        let fault = hook(&Call { kind, path, number, at, len });
        let mut state = self.state();
        if matches!(state.hook, Hook::Asked) {
            state.hook = Hook::There(hook);
        }
        match fault {
            None if state.is_dead => Err(Wrong::Dead),
            None => Ok(()),
            Some(Fault::Io) => Err(Wrong::Io),
            Some(Fault::Full) => Err(Wrong::Full),
            Some(Fault::Die) => {
                state.die();
                Err(Wrong::Dead)
            }
        }
    }

    pub(super) fn open(self: &Arc<Self>, path: Option<&str>, flags: c_int) -> Result<Handle, c_int> {
        self.ask(Kind::Open, path, 0, 0)
            .map_err(|wrong| wrong.code(ffi::SQLITE_CANTOPEN, ffi::SQLITE_CANTOPEN))?;
        let path: Option<Arc<str>> = path.map(Into::into);
        let mut state = self.state();
        let there = path.as_ref().and_then(|path| state.model.named(path));
        let may_make = path.is_none() || flags & ffi::SQLITE_OPEN_CREATE != 0;
        let ino = match there {
            Some(_) if flags & ffi::SQLITE_OPEN_EXCLUSIVE != 0 => return Err(ffi::SQLITE_CANTOPEN),
            Some(ino) => ino,
            None if may_make => state.model.make(path.as_ref()),
            None => return Err(ffi::SQLITE_CANTOPEN),
        };
        let id = state.open.add(ino);
        drop(state);
        Ok(Handle { machine: Arc::clone(self), id, path, regions: Mutex::default() })
    }

    pub(super) fn delete(&self, path: &str, syncs_names: bool) -> Result<(), c_int> {
        self.ask(Kind::Delete, Some(path), 0, 0)
            .map_err(|wrong| wrong.code(ffi::SQLITE_IOERR_DELETE, ffi::SQLITE_IOERR_DELETE))?;
        let mut state = self.state();
        if !state.model.unlink(path) {
            return Err(ffi::SQLITE_IOERR_DELETE_NOENT);
        }
        if syncs_names && !state.lies {
            state.model.sync_names();
        }
        state.sweep();
        Ok(())
    }

    /// Whether there is a file; with `has_bytes`, one that is not empty.
    pub(super) fn exists(&self, path: &str, has_bytes: bool) -> Result<bool, c_int> {
        let state = self.state();
        if state.is_dead {
            return Err(ffi::SQLITE_IOERR);
        }
        let file = state.model.named(path).and_then(|ino| state.model.file(ino));
        Ok(file.is_some_and(|file| !has_bytes || !file.seen.is_empty()))
    }

    pub(super) fn fill(&self, bytes: &mut [u8]) {
        self.state().chance.fill(bytes);
    }

    pub(super) fn sleep(&self, micros: u64) {
        let len = usize::try_from(micros).unwrap_or(usize::MAX);
        if self.ask(Kind::Sleep, None, 0, len) != Err(Wrong::Dead) {
            self.state().slept += Duration::from_micros(micros);
        }
    }
}

impl Handle {
    fn ask(&self, kind: Kind, at: usize, len: usize) -> Result<(), Wrong> {
        // It may have died while the disk lives on, with other connections.
        if self.machine.state().open.get(self.id).is_none() {
            return Err(Wrong::Dead);
        }
        self.machine.ask(kind, self.path.as_deref(), at, len)
    }

    fn state(&self) -> Result<(MutexGuard<'_, State>, Ino), c_int> {
        let state = self.machine.state();
        let ino = state.ino(self.id)?;
        Ok((state, ino))
    }

    fn regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads, and fills what is beyond the end with zeros. Whether all was there.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) -> Result<bool, c_int> {
        self.ask(Kind::Read, at, to.len())
            .map_err(|wrong| wrong.code(ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_READ))?;
        let (state, ino) = self.state()?;
        let read = state.model.file(ino).map_or(0, |file| file.seen.read(at, to));
        to[read..].fill(0);
        Ok(read == to.len())
    }

    pub(super) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), c_int> {
        let asked = self.ask(Kind::Write, at, bytes.len());
        let (mut state, ino) = self.state()?;
        match asked {
            Ok(()) => state.model.write(ino, at, bytes),
            Err(Wrong::Dead) => {}
            Err(Wrong::Io | Wrong::Full) => {
                let part = state.chance.part(bytes.len());
                state.model.write(ino, at, &bytes[..part]);
            }
        }
        asked.map_err(|wrong| wrong.code(ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_FULL))
    }

    pub(super) fn truncate(&self, len: usize) -> Result<(), c_int> {
        self.ask(Kind::Truncate, 0, len)
            .map_err(|wrong| wrong.code(ffi::SQLITE_IOERR_TRUNCATE, ffi::SQLITE_IOERR_TRUNCATE))?;
        let (mut state, ino) = self.state()?;
        state.model.set_len(ino, len);
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), c_int> {
        let asked = self.ask(Kind::Sync, 0, 0);
        let (mut guard, ino) = self.state()?;
        let state = &mut *guard;
        match asked {
            Ok(()) if !state.lies => state.model.sync(ino),
            Ok(()) | Err(Wrong::Dead) => {}
            Err(Wrong::Io | Wrong::Full) => state.model.fail_to_sync(ino, &mut state.chance),
        }
        asked.map_err(|wrong| wrong.code(ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_FSYNC))
    }

    pub(super) fn len(&self) -> Result<usize, c_int> {
        let (state, ino) = self.state()?;
        Ok(state.model.file(ino).map_or(0, |file| file.seen.len()))
    }

    pub(super) fn lock(&self, level: Level) -> Result<(), c_int> {
        let (mut state, _) = self.state()?;
        state.open.lock(self.id, level).map_err(|Busy| ffi::SQLITE_BUSY)
    }

    pub(super) fn unlock(&self, level: Level) -> Result<(), c_int> {
        let (mut state, _) = self.state()?;
        state.open.unlock(self.id, level);
        Ok(())
    }

    pub(super) fn is_reserved(&self) -> Result<bool, c_int> {
        let (state, ino) = self.state()?;
        Ok(state.open.is_reserved(ino))
    }

    /// Whether the name leads to another file, or nowhere.
    pub(super) fn has_moved(&self) -> Result<bool, c_int> {
        let (state, ino) = self.state()?;
        Ok(self.path.as_ref().is_some_and(|path| state.model.named(path) != Some(ino)))
    }

    /// Returns a piece of the shared memory. Without `extends` it may be that there is none. It stays where it is as long as
    /// this handle has it: until [`Self::unmap`], or until it is dropped.
    pub(super) fn map(&self, region: usize, bytes: usize, extends: bool) -> Result<Option<Region>, c_int> {
        let (mut state, ino) = self.state()?;
        let there = state.model.file(ino).map_or(0, |file| file.shared.len());
        if region >= there {
            if !extends {
                state.open.map(self.id);
                return Ok(None);
            }
            drop(state);
            self.ask(Kind::Map, region * bytes, bytes)
                .map_err(|wrong| wrong.code(ffi::SQLITE_IOERR_SHMMAP, ffi::SQLITE_IOERR_SHMSIZE))?;
            (state, _) = self.state()?;
        }
        state.open.map(self.id);
        let file = state.model.file_mut(ino).ok_or(ffi::SQLITE_IOERR)?;
        while file.shared.len() <= region {
            file.shared.push((0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect());
        }
        let region = Arc::clone(&file.shared[region]);
        self.regions().push(Arc::clone(&region));
        Ok(Some(region))
    }

    pub(super) fn unmap(&self) {
        self.regions().clear();
        let Ok((mut state, ino)) = self.state() else { return };
        if state.open.unmap(self.id)
            && let Some(file) = state.model.file_mut(ino)
        {
            file.shared.clear();
        }
    }

    pub(super) fn take_slots(&self, slots: u32, is_exclusive: bool) -> Result<(), c_int> {
        let (mut state, _) = self.state()?;
        state.open.take_slots(self.id, slots, is_exclusive).map_err(|Busy| ffi::SQLITE_BUSY)
    }

    pub(super) fn give_slots(&self, slots: u32) -> Result<(), c_int> {
        let (mut state, _) = self.state()?;
        state.open.give_slots(self.id, slots);
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.unmap();
        let mut state = self.machine.state();
        state.open.close(self.id);
        state.sweep();
    }
}
