//! The watch of the twin: what inotify tells, of the files of the twin.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use rustix::{
    fs::inotify::ReadFlags,
    io::{Errno, Result},
    path::Arg as _,
};

use super::{
    Op, Twin,
    disk::{Disk, Event, Number, READ, ROOT},
    walk::How,
};
use crate::ipc::watch::{Hint, Number as Mark, Source, Watched};

/// How many notices the kernel keeps of one that reads none.
const MOST: usize = 16_384;

/// Something that a watch is about to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The folder that is watched, as it is called now.
    pub folder: PathBuf,
    /// The name in it; nothing of the folder's own end.
    pub name: Option<OsString>,
    /// What happened there.
    pub events: ReadFlags,
}

/// What comes of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is told at once, behind those that wait.
    Once,
    /// It is told two times.
    Twice,
    /// It is lost.
    Never,
    /// It waits for [`Twin::tell_later_ones`], and so do those behind it.
    Later,
    /// It is lost, and the watch is told that some were.
    Overflow,
}

/// Decides what comes of a notice.
type Telling = Box<dyn FnMut(&Notice) -> Told + Send>;

/// The watches of the daemon.
#[derive(Default)]
pub(super) struct Watches {
    watches: BTreeMap<u64, Queue>,
    next: u64,
    telling: Option<Telling>,
}

#[derive(Default)]
struct Queue {
    folders: BTreeMap<Mark, Number>,
    next: Mark,
    told: VecDeque<Notified>,
    later: VecDeque<Notified>,
    wakes: Option<Waker>,
}

pub(super) type Notified = (Mark, ReadFlags, Option<OsString>);

/// What the kernel tells where its queue was full.
const OVERFLOW: Notified = (-1, ReadFlags::QUEUE_OVERFLOW, None);

impl Queue {
    /// Queues a notice, unless the last one says the same.
    fn push(&mut self, notice: Notified) {
        let notice = if self.told.len() >= MOST { OVERFLOW } else { notice };
        if self.told.back() != Some(&notice) {
            self.told.push_back(notice);
        }
        if let Some(waker) = self.wakes.take() {
            waker.wake();
        }
    }

    fn push_as(&mut self, notice: Notified, told: Told) {
        match told {
            Told::Never => {}
            Told::Overflow => self.push(OVERFLOW),
            Told::Later => self.later.push_back(notice),
            Told::Once | Told::Twice if !self.later.is_empty() => self.later.push_back(notice),
            Told::Once => self.push(notice),
            Told::Twice => {
                self.push(notice.clone());
                self.told.push_back(notice);
            }
        }
    }
}

impl Watches {
    /// Forgets all watches, as their process ended.
    pub(super) fn end(&mut self) {
        self.watches.clear();
    }

    pub(super) fn tell(&mut self, disk: &Disk, event: &Event) {
        let (folder, name, events) = match event {
            Event::MovedTo(folder, name) => (*folder, Some(name), ReadFlags::MOVED_TO),
            Event::Written(folder, name) => (*folder, Some(name), ReadFlags::CLOSE_WRITE),
            Event::Moved(folder) => (*folder, None, ReadFlags::MOVE_SELF),
            Event::Gone(folder) => (*folder, None, ReadFlags::DELETE_SELF),
        };
        let name = name.map(|name| OsString::from_vec(name.clone()));
        for queue in self.watches.values_mut() {
            let Some(number) = queue.folders.iter().find(|(_, is)| **is == folder).map(|(number, _)| *number)
            else {
                continue;
            };
            let told = match &mut self.telling {
                None => Told::Once,
                Some(telling) => {
                    let path = OsString::from_vec(disk.path_of(folder)).into();
                    telling(&Notice { folder: path, name: name.clone(), events })
                }
            };
            queue.push_as((number, events, name.clone()), told);
            if events == ReadFlags::DELETE_SELF {
                queue.folders.remove(&number);
                queue.push_as((number, ReadFlags::IGNORED, None), told);
            }
        }
    }
}

impl Twin {
    /// Has this decide what comes of each notice from now on.
    pub fn telling(&self, telling: impl FnMut(&Notice) -> Told + Send + 'static) {
        self.state().watches.telling = Some(Box::new(telling));
    }

    /// Has each notice be told from now on.
    pub fn telling_all(&self) {
        self.state().watches.telling = None;
    }

    /// Tells at most this many of the notices that wait for it; returns how many wait still.
    pub fn tell_later_ones(&self, most: usize) -> usize {
        let mut left = 0;
        for queue in self.state().watches.watches.values_mut() {
            for _ in 0..most {
                let Some(notice) = queue.later.pop_front() else { break };
                queue.push(notice);
            }
            left += queue.later.len();
        }
        left
    }

    /// Tells each watch that some notices were lost.
    pub fn overflow(&self) {
        self.state().watches.watches.values_mut().for_each(|queue| queue.push(OVERFLOW));
    }

    /// Returns a watch on nothing.
    pub(super) fn source(&self) -> Box<dyn Source> {
        let mut state = self.state();
        state.watches.next += 1;
        let id = state.watches.next;
        state.watches.watches.insert(id, Queue::default());
        Box::new(Watching { twin: self.clone(), id })
    }
}

#[cfg(test)]
impl Twin {
    /// Watches a folder, by the first watch that there is.
    pub(super) fn watch_for_tests(&self, path: &Path) -> Result<Mark> {
        if self.state().watches.watches.is_empty() {
            std::mem::forget(self.source());
        }
        let id = self.state().watches.watches.keys().next().copied().unwrap_or(0);
        let mut watching = std::mem::ManuallyDrop::new(Watching { twin: self.clone(), id });
        watching.add(path)
    }

    /// Reads what that was told.
    pub(super) fn told_for_tests(&self) -> Vec<Notified> {
        self.state().watches.watches.values_mut().flat_map(|queue| std::mem::take(&mut queue.told)).collect()
    }
}

/// A watch of the daemon's.
#[derive(Debug)]
struct Watching {
    twin: Twin,
    id: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.twin.state().watches.watches.remove(&self.id);
    }
}

impl Source for Watching {
    fn add(&mut self, path: &Path) -> Result<Mark> {
        let mut state = self.twin.state();
        let folder = path.into_with_c_str(|path| {
            let path = path.to_bytes();
            state.call(Op::AddWatch, Some(ROOT), path, |disk, who| {
                let folder = disk.find_at(ROOT, path, How::default(), who)?;
                disk.folder(folder)?;
                disk.ask(folder, who, READ)?;
                Ok(folder)
            })
        })?;
        let queue = state.watches.watches.get_mut(&self.id).ok_or(Errno::BADF)?;
        if let Some((number, _)) = queue.folders.iter().find(|(_, is)| **is == folder) {
            return Ok(*number);
        }
        queue.next += 1;
        queue.folders.insert(queue.next, folder);
        Ok(queue.next)
    }

    fn remove(&mut self, number: Mark) {
        let mut state = self.twin.state();
        if state.call(Op::RemoveWatch, None, b"", |_, _| Ok(())).is_err() {
            return;
        }
        if let Some(queue) = state.watches.watches.get_mut(&self.id)
            && queue.folders.remove(&number).is_some()
        {
            queue.push_as((number, ReadFlags::IGNORED, None), Told::Once);
        }
    }

    fn read<'a>(
        &'a mut self,
        watched: &'a mut Watched,
        told: &'a mut VecDeque<Hint>,
        _more: bool,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        let mut reads = move |context: &mut Context<'_>| {
            let mut state = self.twin.state();
            let Some(queue) = state.watches.watches.get_mut(&self.id) else { return Poll::Pending };
            if queue.told.is_empty() {
                queue.wakes = Some(context.waker().clone());
                return Poll::Pending;
            }
            let read = std::mem::take(&mut queue.told);
            told.extend(
                read.iter()
                    .filter_map(|(number, events, name)| watched.hint(*number, *events, name.as_deref())),
            );
            Poll::Ready(false)
        };
        Box::pin(std::future::poll_fn(move |context| reads(context)))
    }
}
