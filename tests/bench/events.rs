//! File events, read by the thread that waits for them: no thread between the kernel and the clock.

use std::{
    collections::HashMap,
    mem::MaybeUninit,
    path::{Path, PathBuf},
    time::Instant,
};

use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
};

/// Watched folders.
pub(crate) struct Events {
    fd: OwnedFd,
    watched: HashMap<PathBuf, i32>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { fd: inotify::init(CreateFlags::CLOEXEC).unwrap(), watched: HashMap::new() }
    }

    /// Watches for files that are renamed into a folder.
    pub(crate) fn watch(&mut self, folder: &Path) {
        let id = inotify::add_watch(&self.fd, folder, WatchFlags::MOVED_TO).unwrap();
        self.watched.insert(folder.to_owned(), id);
    }

    /// Watches for files that are renamed into a folder or made there.
    pub(crate) fn watch_files(&mut self, folder: &Path) {
        let id = inotify::add_watch(&self.fd, folder, WatchFlags::MOVED_TO | WatchFlags::CREATE).unwrap();
        self.watched.insert(folder.to_owned(), id);
    }

    /// Waits for any event.
    pub(crate) fn any(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        Reader::new(&self.fd, &mut buffer).next().unwrap();
    }

    /// Waits for a name in a watched folder that `fits`; returns when it was heard of, and the name.
    pub(crate) fn wait(&self, folder: &Path, fits: impl Fn(&str) -> bool) -> (Instant, String) {
        let wanted = self.watched[folder];
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        loop {
            let event = reader.next().unwrap();
            let now = Instant::now();
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "events were lost");
            let name = event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            if event.wd() == wanted && fits(name) {
                return (now, name.to_owned());
            }
        }
    }
}
