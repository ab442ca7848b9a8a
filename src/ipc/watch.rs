//! Hints that something waits in a box, from the kernel.
//!
//! A hint only ever makes the host look sooner. Hints may be lost (the kernel's queue is bounded, a network file system has
//! none) and containers can make any number of them; a look decides which files are claimed.

mod hints;

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    ffi::OsStr,
    fmt, io,
    mem::MaybeUninit,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use ipc_handlers::Folder;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};
use tokio::{io::unix::AsyncFd, time::Instant};

pub use self::hints::{Hint, HintSender, Hints, hints};
use super::{
    boxes::GroupBoxes,
    kernel::awaited,
    names::{CommandBox, without_hand},
};

/// Why a box is not watched. The scan finds what comes, only later.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(
        "no more folders can be watched (at {path}); raise fs.inotify.max_user_watches, until then boxes are scanned five times a second"
    )]
    TooManyWatches { path: PathBuf },
    #[error(
        "watching files can't begin; is fs.inotify.max_user_instances ({instances}) used up? until then boxes are scanned five times a second",
        instances = "128 by default"
    )]
    NoWatcher(#[source] io::Error),
    #[error("watching {path} failed, it is scanned instead")]
    Failed {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The bytes of events that are read at a time: at most 512 events.
const READ: usize = 16 << 10;
/// The bytes of the longest event, with a name of 255 bytes.
const LONGEST: usize = 16 + 256;
/// After this many reads in a row that told nothing, a rest comes before each further read, until one finds no event or tells
/// something: each claim makes an event that tells nothing. While events are left to read there is no rest. A read that finds no
/// event counts only after a rest: of two events that come fast the second has been read by then.
const IDLE_READS: u32 = 16;
const REST: Duration = Duration::from_millis(1);

/// What the kernel tells of a box: a file that was renamed into it or closed by its writer, and its own end. No event of
/// reading, making or removing a file. Of a claim one event tells: its rename within the box.
pub(super) const TOLD: WatchFlags = WatchFlags::MOVED_TO
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// What tells of changes in folders: inotify, or its twin in a simulation.
pub trait Source: Any + fmt::Debug + Send {
    /// Watches the folder at a path, no link.
    ///
    /// # Errors
    /// Those of the kernel.
    fn add(&mut self, path: &Path) -> Result<Number, Errno>;

    /// Watches a folder no more, if it still does.
    fn remove(&mut self, number: Number);

    /// Waits until there is something to read, for ever where nothing is watched; reads it, and tells what it means. `more`: the last
    /// read left something, and nothing was told since. Returns whether this one may have. Safe to cancel.
    fn read<'a>(
        &'a mut self,
        watched: &'a mut Watched,
        told: &'a mut VecDeque<Hint>,
        more: bool,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

    /// Begins to watch, if need be.
    ///
    /// # Errors
    /// It can't.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One watch on the command boxes of all groups, so that events of both boxes come in one order.
#[derive(Debug)]
pub struct Watch {
    source: Box<dyn Source>,
    watched: Watched,
    /// Read and not taken yet.
    told: VecDeque<Hint>,
}

/// One inotify instance. Its events are read by the task that asks for the next hint: no thread stands between.
///
/// `notify` offers no choice of events, and each folder takes it two rounds through a thread of its own.
#[derive(Debug)]
pub(super) struct Inotify {
    /// `None`: there is none to be had by now.
    instance: Option<Instance>,
    buffer: Box<[MaybeUninit<u8>]>,
    /// How many reads in a row told nothing.
    idle: u32,
}

/// An inotify instance.
#[derive(Debug)]
enum Instance {
    /// Its events wake the task that waits for them.
    Awaited(AsyncFd<OwnedFd>),
    /// Its events wake nobody: to wake a thread for each costs as much as the claim that makes it.
    Rests { instance: OwnedFd, until: Instant },
}

impl Instance {
    /// Has its events wake nobody for a while.
    fn rest(self) -> Self {
        let until = Instant::now() + REST;
        match self {
            Self::Awaited(instance) => Self::Rests { instance: instance.into_inner(), until },
            Self::Rests { instance, .. } => Self::Rests { instance, until },
        }
    }

    /// Has its events wake who waits for them, those that are there already too. `None`: the kernel lets nobody wait.
    fn wait(self) -> Option<Self> {
        match self {
            Self::Awaited(_) => Some(self),
            Self::Rests { instance, .. } => awaited(instance).ok().map(Self::Awaited),
        }
    }
}

impl AsFd for Instance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Awaited(instance) => instance.as_fd(),
            Self::Rests { instance, .. } => instance.as_fd(),
        }
    }
}

/// The kernel's number of a watch.
pub(super) type Number = i32;

/// Which box each watch is on.
#[derive(Debug, Default)]
pub struct Watched {
    boxes: HashMap<Number, (Folder, CommandBox)>,
    /// A watch stays among them when its box went away: the kernel may still have it.
    groups: HashMap<Folder, Vec<Number>>,
}

impl Default for Watch {
    /// Returns a watch of the real kernel on nothing.
    fn default() -> Self {
        Self::of(Box::new(Inotify::default()))
    }
}

impl Watch {
    pub(super) fn of(source: Box<dyn Source>) -> Self {
        Self { source, watched: Watched::default(), told: VecDeque::new() }
    }

    /// Waits for the next hint; for ever while nothing can be watched. Safe to cancel.
    pub async fn next(&mut self) -> Hint {
        // There may be more to read than the last read took.
        let mut more = false;
        loop {
            // Containers may see to it that there is always something to read.
            tokio::task::coop::consume_budget().await;
            if let Some(hint) = self.told.pop_front() {
                return hint;
            }
            more = self.source.read(&mut self.watched, &mut self.told, more).await;
        }
    }

    /// Watches a group's command boxes, and begins watching if needed. To repair a lost watch, open the group anew and watch
    /// it again.
    ///
    /// Look into the boxes after this: what came before is not told.
    ///
    /// # Errors
    /// [`WatchError`], worth another try later; the group is then not watched at all.
    pub fn watch_group(&mut self, boxes: &GroupBoxes) -> Result<(), WatchError> {
        let numbers = CommandBox::ALL.map(|in_box| {
            let path = boxes.path_of(in_box.name());
            self.source.begin().map_err(WatchError::NoWatcher)?;
            self.source.add(&path).map_err(|error| match error {
                Errno::NOSPC => WatchError::TooManyWatches { path },
                _ => WatchError::Failed { path, source: error.into() },
            })
        });
        let watched: Vec<Number> =
            numbers.iter().filter_map(|number| number.as_ref().ok()).copied().collect();
        // Of a box that is still the same, the kernel gave the same watch: nothing that it has told of is lost.
        let before = self.watched.groups.insert(boxes.folder().clone(), watched.clone()).unwrap_or_default();
        self.end(boxes.folder(), before.into_iter().filter(|number| !watched.contains(number)));
        for (in_box, number) in CommandBox::ALL.into_iter().zip(numbers) {
            match number {
                Ok(number) => drop(self.watched.boxes.insert(number, (boxes.folder().clone(), in_box))),
                Err(error) => {
                    self.unwatch(boxes.folder());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Stops watching a group. That it was not watched is no error.
    pub fn unwatch(&mut self, group: &Folder) {
        let numbers = self.watched.groups.remove(group).unwrap_or_default();
        self.end(group, numbers);
    }

    fn end(&mut self, group: &Folder, numbers: impl IntoIterator<Item = Number>) {
        for number in numbers {
            // A box that was moved to another group is watched as that group's by now.
            if self.watched.boxes.get(&number).is_some_and(|(now, _)| now != group) {
                continue;
            }
            self.watched.boxes.remove(&number);
            self.source.remove(number);
        }
    }
}

impl Default for Inotify {
    fn default() -> Self {
        Self { instance: None, buffer: Box::new_uninit_slice(READ), idle: 0 }
    }
}

impl Inotify {
    /// Reads once, as the trait says.
    async fn read_once(&mut self, watched: &mut Watched, told: &mut VecDeque<Hint>, more: bool) -> bool {
        let events = match &self.instance {
            None => return std::future::pending().await,
            Some(Instance::Awaited(instance)) => {
                let Ok(mut ready) = instance.readable().await else {
                    return std::future::pending().await;
                };
                let events = read(instance, &mut self.buffer, watched, told);
                if !events.more {
                    ready.clear_ready();
                }
                events
            }
            Some(Instance::Rests { instance, until }) => {
                tokio::time::sleep_until(*until).await;
                read(instance, &mut self.buffer, watched, told)
            }
        };
        let after_a_rest = !more && matches!(self.instance, Some(Instance::Rests { .. }));
        if !told.is_empty() || events.count == 0 && after_a_rest {
            self.idle = 0;
        } else if events.count > 0 && !events.more {
            self.idle = self.idle.saturating_add(1);
        }
        if events.more {
            return true;
        }
        let instance = self.instance.take();
        self.instance = match self.idle >= IDLE_READS {
            true => instance.map(Instance::rest),
            false => instance.and_then(Instance::wait),
        };
        if self.instance.is_none() {
            watched.lose_all(told);
        }
        false
    }
}

impl Source for Inotify {
    fn begin(&mut self) -> io::Result<()> {
        if self.instance.is_none() {
            let instance = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            self.instance = Some(Instance::Awaited(awaited(instance)?));
        }
        Ok(())
    }

    fn add(&mut self, path: &Path) -> Result<Number, Errno> {
        inotify::add_watch(self.instance.as_ref().ok_or(Errno::BADF)?, path, TOLD)
    }

    fn remove(&mut self, number: Number) {
        // It went away by itself, or the box did.
        let _ = self.instance.as_ref().map(|instance| inotify::remove_watch(instance, number));
    }

    fn read<'a>(
        &'a mut self,
        watched: &'a mut Watched,
        told: &'a mut VecDeque<Hint>,
        more: bool,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(self.read_once(watched, told, more))
    }
}

/// What a read found.
struct Events {
    count: usize,
    /// There may be more to read.
    more: bool,
}

/// Reads as many events as there is room for, and says what they mean.
fn read(
    instance: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    watched: &mut Watched,
    told: &mut VecDeque<Hint>,
) -> Events {
    let mut reader = Reader::new(instance, buffer);
    let mut count = 0;
    loop {
        match reader.next() {
            Ok(event) => {
                count += 1;
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                told.extend(watched.hint(event.wd(), event.events(), name));
            }
            Err(Errno::AGAIN) => return Events { count, more: false },
            // The next event is waited for: an error that stays keeps nobody busy.
            Err(_) => {
                told.push_back(Hint::Rescan);
                return Events { count, more: false };
            }
        }
        if reader.is_buffer_empty() {
            // There was room for one more: what comes from now on makes it readable anew.
            return Events { count, more: (count + 1) * LONGEST > READ };
        }
    }
}

impl Watched {
    /// Tells of each group that it is watched no more.
    fn lose_all(&mut self, told: &mut VecDeque<Hint>) {
        let watched = std::mem::take(self);
        told.extend(watched.groups.into_keys().map(|folder| Hint::Lost { folder }));
    }

    /// Says what an event means for us, if anything.
    pub(super) fn hint(&mut self, number: Number, events: ReadFlags, name: Option<&OsStr>) -> Option<Hint> {
        const END: ReadFlags = ReadFlags::DELETE_SELF
            .union(ReadFlags::MOVE_SELF)
            .union(ReadFlags::UNMOUNT)
            .union(ReadFlags::IGNORED);
        // The kernel's queue was full; such an event is of no box.
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Some(Hint::Rescan);
        }
        if events.intersects(END) {
            let (folder, _) = self.boxes.remove(&number)?;
            return Some(Hint::Lost { folder });
        }
        // What we let go of ourselves is found by a scan: an event for each try would be the cause of the next one.
        let name = name.filter(|name| name.as_bytes().ends_with(b".json") && without_hand(name) == *name)?;
        let (folder, in_box) = self.boxes.get(&number)?;
        Some(Hint::File { folder: folder.clone(), in_box: *in_box, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests;
