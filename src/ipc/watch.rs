//! Hints that something waits in a box, from the kernel.
//!
//! A hint only ever makes the host look sooner. Hints may be lost (the queue is bounded, a network file system has
//! none) and containers can make any number of them; a look decides which files are claimed.

mod hints;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use ipc_handlers::Folder;
use notify::{
    Config, ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind, RenameMode},
};

pub use self::hints::{Hint, HintSender, Hints, hints};
use super::{
    boxes::GroupBoxes,
    names::{CommandBox, is_command_name, without_hand},
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
    NoWatcher(#[source] notify::Error),
    #[error("watching {path} failed, it is scanned instead")]
    Failed {
        path: PathBuf,
        #[source]
        source: notify::Error,
    },
}

/// One watcher for the command boxes of all groups, so that events of both boxes come in one order.
#[derive(Debug)]
pub struct Watch {
    /// `None`: there is none to be had by now.
    watcher: Mutex<Option<RecommendedWatcher>>,
    watched: Watched,
    sender: HintSender,
}

/// Which box each watched folder is.
type Watched = Arc<RwLock<HashMap<PathBuf, (Folder, CommandBox)>>>;

impl Watch {
    /// Returns a watch on nothing that sends its hints to `sender`.
    #[must_use]
    pub fn new(sender: HintSender) -> Self {
        Self { watcher: Mutex::default(), watched: Watched::default(), sender }
    }

    /// Starts the watcher's thread, which sends hints and never waits for anybody, where there is none.
    ///
    /// # Errors
    /// [`WatchError::NoWatcher`]; worth another try later.
    pub fn begin(&self) -> Result<(), WatchError> {
        let mut watcher = self.watcher();
        if watcher.is_none() {
            let (known, sender) = (Arc::clone(&self.watched), self.sender.clone());
            let handler = move |event| translate(&known, event, |hint| sender.send(hint));
            let config = Config::default().with_follow_symlinks(false);
            *watcher = Some(RecommendedWatcher::new(handler, config).map_err(WatchError::NoWatcher)?);
        }
        Ok(())
    }

    /// Watches a group's command boxes, and starts the watcher if needed. To repair a lost watch, open the group anew and
    /// watch it again.
    ///
    /// Look into the boxes after this: what came before is not told.
    ///
    /// # Errors
    /// [`WatchError`]; the group is then not watched at all.
    pub fn watch_group(&self, boxes: &GroupBoxes) -> Result<(), WatchError> {
        self.begin()?;
        self.unwatch(boxes);
        for b in CommandBox::ALL {
            let path = boxes.path_of(b.name());
            self.write_watched().insert(path.clone(), (boxes.folder().clone(), b));
            let added = self.watcher().as_mut().map(|w| w.watch(&path, RecursiveMode::NonRecursive));
            if let Some(Err(source)) = added {
                self.unwatch(boxes);
                return Err(match source.kind {
                    ErrorKind::MaxFilesWatch => WatchError::TooManyWatches { path },
                    _ => WatchError::Failed { path, source },
                });
            }
        }
        Ok(())
    }

    /// Stops watching a group. That it was not watched is no error.
    pub fn unwatch(&self, boxes: &GroupBoxes) {
        for b in CommandBox::ALL {
            let path = boxes.path_of(b.name());
            if self.write_watched().remove(&path).is_some() {
                // It went away by itself, or the box did.
                let _ = self.watcher().as_mut().map(|watcher| watcher.unwatch(&path));
            }
        }
    }

    fn watcher(&self) -> std::sync::MutexGuard<'_, Option<RecommendedWatcher>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_watched(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<PathBuf, (Folder, CommandBox)>> {
        self.watched.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what an event means for us, if anything.
fn translate(watched: &Watched, event: notify::Result<Event>, mut tell: impl FnMut(Hint)) {
    let event = match event {
        // The kernel's own queue overflowed; such an event has no paths.
        Ok(event) if event.need_rescan() => return tell(Hint::Rescan),
        Ok(event) => event,
        Err(_) => return tell(Hint::Rescan),
    };
    let Some(path) = event.paths.first() else { return };
    let watched = watched.read().unwrap_or_else(PoisonError::into_inner);
    let hint = match event.kind {
        // Of a rename within the box there is a third event, `Both`, which says nothing new.
        EventKind::Modify(ModifyKind::Name(RenameMode::To))
        | EventKind::Access(AccessKind::Close(AccessMode::Write)) => file_hint(&watched, path),
        // Of the box itself; of a file in it, it is nothing to us.
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
            watched.get(path).map(|(folder, _)| Hint::Lost { folder: folder.clone() })
        }
        // Our own reads among them, which must not make us read again.
        EventKind::Any
        | EventKind::Access(_)
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Other => None,
    };
    drop(watched);
    if let Some(hint) = hint {
        tell(hint);
    }
}

fn file_hint(watched: &HashMap<PathBuf, (Folder, CommandBox)>, path: &Path) -> Option<Hint> {
    // What we let go of ourselves is found by a scan: an event for each try would be the cause of the next one.
    let name = path.file_name().filter(|name| is_command_name(name) && without_hand(name) == *name)?;
    let (folder, in_box) = watched.get(path.parent()?)?;
    Some(Hint::File { folder: folder.clone(), in_box: *in_box, name: name.to_owned() })
}

#[cfg(test)]
mod tests;
