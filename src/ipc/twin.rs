//! The twin of the kernel: a file system in memory, in which a simulation of the daemon has its boxes.
//!
//! Before each call of the daemon's a [`Before`] decides what comes of it. It may act as containers do meanwhile ([`Hands`]), may have
//! the call fail, and may end the life of the process: its descriptors are closed then, and each later call fails and changes nothing,
//! until [`Twin::revive`]. Nothing else makes a call fail that the real kernel would do. Property tests compare the two, call by call.

mod bytes;
mod disk;
mod hands;
mod opened;
mod walk;
mod watch;

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use ipc_handlers::Time;
use rustix::io::{Errno, Result};

use self::{
    disk::{Disk, Number, Who},
    watch::Watches,
};
pub use self::{
    hands::{Hands, Held, Is},
    watch::{Notice, Told},
};
use super::{files::Files, names};
use crate::system::locked::Locked as _;

/// What a file system can do, and what a process may. Clones share the clock.
#[derive(Clone)]
pub struct Settings {
    /// The clock by which files are stamped.
    pub now: Arc<dyn Fn() -> Time + Send + Sync>,
    /// The user and group of the daemon.
    pub daemon: (u32, u32),
    /// No mode keeps the daemon out, and it may give files away.
    pub daemon_is_root: bool,
    /// The bits that no file is made with.
    pub umask: u32,
    /// Files have handles.
    pub handles: bool,
    /// Files have attributes of users.
    pub attributes: bool,
    /// Files and folders have flags and projects.
    pub flags: bool,
    /// Files can be made without a name.
    pub unnamed: bool,
    /// Why not in a folder that was removed; `None`: there too.
    pub unnamed_in_removed: Option<Errno>,
    /// A rename can fail where something stands.
    pub renames_new: bool,
    /// The kernel says whether somebody writes.
    pub leases: bool,
    /// Files say when they were made.
    pub births: bool,
    /// A file that a user could not change gets no other name from them.
    pub protects_links: bool,
    /// The number of an inode that is gone is used again.
    pub reuses_inodes: bool,
    /// The names that the daemon gives to files on their way come from this seed.
    pub names: u64,
    /// Names are listed by a hash of theirs with this seed; `None`: as they came.
    pub scatters: Option<u64>,
}

impl Settings {
    /// Those of ext4 as a daemon has it that is root.
    #[must_use]
    pub fn of(now: Arc<dyn Fn() -> Time + Send + Sync>) -> Self {
        Self {
            now,
            daemon: (0, 0),
            daemon_is_root: true,
            umask: 0o022,
            handles: true,
            attributes: true,
            flags: true,
            unnamed: true,
            unnamed_in_removed: Some(Errno::PERM),
            renames_new: true,
            leases: true,
            births: true,
            protects_links: true,
            reuses_inodes: true,
            names: 0,
            scatters: Some(0),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settings")
    }
}

/// What a call of the daemon's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the call of the trait that has its name")]
pub enum Op {
    Open,
    MakeFolder,
    StatAt,
    ChmodAt,
    Link,
    LinkItself,
    Rename,
    Unlink,
    RemoveFolder,
    Names,
    Stat,
    Birth,
    Handle,
    Writer,
    Chmod,
    Chown,
    Read,
    Write,
    Sync,
    SyncAll,
    Attribute,
    SetAttribute,
    Flags,
    SetFlags,
    Extended,
    SetExtended,
    Copy,
    AddWatch,
    RemoveWatch,
}

/// A call of the daemon's that is about to be made.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub op: Op,
    /// The folder that it is made in; nothing of a file.
    pub folder: PathBuf,
    /// The path in it, or the name that a file gets; nothing where it is about what is open.
    pub path: &'a OsStr,
}

/// What comes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is made.
    Made,
    /// It fails, and changes nothing.
    Fails(Errno),
    /// The process dies before it.
    Dies,
}

/// Decides what comes of each call, and what happens before it.
pub trait Before: Send {
    /// Is asked before each call. It must not drop anything that is open in the twin.
    fn call(&mut self, call: &Call<'_>, hands: &mut Hands<'_>) -> Fate;
}

impl<F: FnMut(&Call<'_>, &mut Hands<'_>) -> Fate + Send> Before for F {
    fn call(&mut self, call: &Call<'_>, hands: &mut Hands<'_>) -> Fate {
        self(call, hands)
    }
}

/// A file system in memory. Clones are the same one.
#[derive(Clone)]
pub struct Twin(Arc<Mutex<State>>);

/// The daemon's process, which gives names of its own to files in boxes.
#[derive(Debug)]
struct Process {
    twin: Twin,
    hands: names::Hands,
    us: (u32, u32),
}

struct State {
    disk: Disk,
    watches: Watches,
    before: Option<Box<dyn Before>>,
    is_dead: bool,
    /// How often it died.
    life: u64,
    calls: u64,
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Twin")
    }
}

impl Twin {
    /// Returns one that holds its root alone.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(State {
            disk: Disk::new(settings),
            watches: Watches::default(),
            before: None,
            is_dead: false,
            life: 0,
            calls: 0,
        })))
    }

    /// Returns it as a file system for the daemon's present life.
    #[must_use]
    pub fn files(&self) -> Files {
        let state = self.state();
        let process = u32::try_from(state.life + 1).unwrap_or(u32::MAX);
        let Settings { names, daemon: us, .. } = state.disk.settings;
        drop(state);
        let hands = names::Hands::seeded(process, names);
        Files::of(Process { twin: self.clone(), hands, us })
    }

    /// Has this decide what comes of each call from now on.
    pub fn before(&self, before: impl Before + 'static) {
        self.state().before = Some(Box::new(before));
    }

    /// Has each call be made from now on.
    pub fn before_nothing(&self) {
        self.state().before = None;
    }

    /// Returns how many calls there were.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Acts on the files as a container does, or a person.
    pub fn hands<T>(&self, act: impl FnOnce(&mut Hands<'_>) -> T) -> T {
        let mut state = self.state();
        let done = act(&mut Hands::of(&mut state.disk));
        state.tell();
        done
    }

    /// Ends the life of the process.
    pub fn die(&self) {
        self.state().die();
    }

    /// Whether the process is dead.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// Begins another life of the process: what it opens from now on works.
    pub fn revive(&self) {
        self.state().is_dead = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.locked()
    }
}

impl State {
    /// Who the daemon is.
    fn daemon(&self) -> Who {
        let Settings { daemon: (user, group), daemon_is_root, .. } = self.disk.settings;
        Who { user, group, all: daemon_is_root }
    }

    fn die(&mut self) {
        self.is_dead = true;
        self.life += 1;
        self.watches.end();
        self.disk.close_daemons();
        self.tell();
    }

    /// Makes a call, if nothing is against it.
    fn call<T>(
        &mut self,
        op: Op,
        folder: Option<Number>,
        path: &[u8],
        act: impl FnOnce(&mut Disk, Who) -> Result<T>,
    ) -> Result<T> {
        if self.is_dead {
            return Err(Errno::IO);
        }
        self.calls += 1;
        if let Some(mut before) = self.before.take() {
            let folder = folder.map(|folder| self.disk.path_of(folder)).unwrap_or_default();
            let folder = Path::new(OsStr::from_bytes(&folder)).to_owned();
            let call = Call { op, folder, path: OsStr::from_bytes(path) };
            let fate = before.call(&call, &mut Hands::of(&mut self.disk));
            self.before = Some(before);
            self.tell();
            match fate {
                Fate::Made => {}
                Fate::Fails(error) => return Err(error),
                Fate::Dies => {
                    self.die();
                    return Err(Errno::IO);
                }
            }
        }
        let who = self.daemon();
        let done = act(&mut self.disk, who);
        self.tell();
        done
    }

    /// Tells the watches what has happened.
    fn tell(&mut self) {
        for event in std::mem::take(&mut self.disk.events) {
            self.watches.tell(&self.disk, &event);
        }
    }
}

#[cfg(test)]
mod tests;
