//! The world that a runner works in: folders, hints that they have changed, and time. The machine's is one of them; a
//! simulation has another.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    time::Duration,
};

use crate::{
    clock,
    files::{Dir, FileError},
    hints::Watch,
};

/// What a runner finds around it. Its threads share it.
pub trait World: Send + Sync {
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// [`FileError`] when it is not, or is no folder.
    fn folder(&self, path: &Path) -> Result<Box<dyn Folder>, FileError>;

    /// Opens a folder, after trying to make it.
    ///
    /// # Errors
    /// As above.
    fn made_folder(&self, path: &Path) -> Result<Box<dyn Folder>, FileError>;

    /// Begins to watch a folder.
    fn hints(&self, folder: &Path) -> Box<dyn Hints>;

    /// Returns the wall-clock time, ms since the epoch.
    fn wall_ms(&self) -> i64;

    /// Returns how much time has passed since some beginning.
    fn passed(&self) -> Duration;
}

/// An opened folder, into which others may put anything: no link is followed, nothing blocks, and others see a file whole or
/// not at all.
pub trait Folder: Send + Sync {
    /// Returns its path, for watches and for messages.
    fn path(&self) -> &Path;

    /// Returns the names in it, in no order.
    ///
    /// # Errors
    /// [`FileError`], as of each of these.
    fn names(&self) -> Result<Vec<OsString>, FileError>;

    /// Returns whether anything of that name is there.
    fn has(&self, name: &OsStr) -> bool;

    /// Returns a file's bytes, at most `limit` of them, or `None` when there is no such name.
    ///
    /// # Errors
    /// As above.
    fn read(&self, name: &OsStr, limit: u64) -> Result<Option<Vec<u8>>, FileError>;

    /// Renames within the folder; `Ok(false)` when `from` is not there (any more).
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<bool, FileError>;

    /// Removes a name. A missing one is no error.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, name: &OsStr) -> Result<(), FileError>;

    /// Makes `bytes` appear under `name` at once.
    ///
    /// # Errors
    /// As above.
    fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), FileError>;

    /// Creates the file if need be and sets its time to now.
    ///
    /// # Errors
    /// As above.
    fn touch(&self, name: &str) -> Result<(), FileError>;
}

/// Hints that a folder has changed. They carry no data, and may be missing or superfluous: it is looked at after each.
pub trait Hints: Send {
    /// Waits for a hint, `at_most` this long.
    fn wait(&mut self, at_most: Duration);

    /// Something was there: more may come soon.
    fn found(&mut self);
}

/// The machine.
pub(crate) struct Machine;

impl World for Machine {
    fn folder(&self, path: &Path) -> Result<Box<dyn Folder>, FileError> {
        Ok(Box::new(Dir::open(path)?))
    }

    fn made_folder(&self, path: &Path) -> Result<Box<dyn Folder>, FileError> {
        Ok(Box::new(Dir::open_or_make(path)?))
    }

    fn hints(&self, folder: &Path) -> Box<dyn Hints> {
        Box::new(Watch::on(folder))
    }

    fn wall_ms(&self) -> i64 {
        clock::wall_ms()
    }

    fn passed(&self) -> Duration {
        clock::passed()
    }
}
