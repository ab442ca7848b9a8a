//! The mailbox of a group as its container sees it.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use agent_runner::{FileError, world::Folder};
use g2::ipc::twin::{Hands, Twin};
use rustix::{fs::FileType, io::Errno};

/// What a container does with files in its mailbox. `place` is a folder of it, as `input`.
pub trait Mailbox: Send {
    /// Returns the names in a folder, in order.
    fn names(&self, place: &str) -> Vec<String>;

    /// Returns what a file holds, where it is there.
    fn read(&self, place: &str, name: &str) -> Option<Vec<u8>>;

    /// Renames a file within its folder. Returns whether it was there.
    fn rename(&self, place: &str, name: &str, to: &str) -> bool;

    /// Removes a file, where it is there.
    fn remove(&self, place: &str, name: &str);

    /// Writes a file beside its place, and renames it there.
    ///
    /// # Errors
    /// The disk is full, or the folder is gone.
    fn publish(&self, place: &str, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Opens a folder for our own runner, to which it is `path`.
    ///
    /// # Errors
    /// There is no such folder.
    fn folder(&self, place: &str, path: &Path) -> Result<Box<dyn Folder>, FileError>;
}

/// A mailbox in the twin.
pub struct InTwin {
    twin: Twin,
    folder: PathBuf,
}

/// How much of a file a container reads, bytes.
const MOST: usize = 16 << 20;
/// User and group of agents.
const AGENT: (u32, u32) = (1000, 1000);

impl InTwin {
    /// Returns the mailbox that the host has in `folder`.
    #[must_use]
    pub const fn new(twin: Twin, folder: PathBuf) -> Self {
        Self { twin, folder }
    }

    fn act<T>(&self, act: impl FnOnce(&mut Hands<'_>, &Path) -> T) -> T {
        self.twin.hands(|hands| {
            hands.act_as(AGENT.0, AGENT.1);
            act(hands, &self.folder)
        })
    }
}

impl Mailbox for InTwin {
    fn names(&self, place: &str) -> Vec<String> {
        let names = self.act(|hands, folder| hands.names(folder.join(place)));
        let mut names: Vec<String> =
            names.unwrap_or_default().into_iter().filter_map(|name| String::from_utf8(name).ok()).collect();
        names.sort();
        names
    }

    fn read(&self, place: &str, name: &str) -> Option<Vec<u8>> {
        self.act(|hands, folder| hands.read_some(folder.join(place).join(name), MOST)).ok()
    }

    fn rename(&self, place: &str, name: &str, to: &str) -> bool {
        let folder = self.folder.join(place);
        self.act(|hands, _| hands.rename(folder.join(name), folder.join(to))).is_ok()
    }

    fn remove(&self, place: &str, name: &str) {
        // It may be gone.
        let _ = self.act(|hands, folder| hands.unlink(folder.join(place).join(name)));
    }

    fn publish(&self, place: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(place);
        let made = folder.join(format!(".{name}.tmp"));
        self.act(|hands, _| {
            hands.write(&made, bytes)?;
            hands.rename(&made, folder.join(name))
        })?;
        Ok(())
    }
    fn folder(&self, place: &str, path: &Path) -> Result<Box<dyn Folder>, FileError> {
        let folder =
            FolderInTwin { twin: self.twin.clone(), at: self.folder.join(place), path: path.to_owned() };
        let is = folder.act("opening the folder", OsStr::new(""), |hands, at| hands.stat(at))?;
        match FileType::from_raw_mode(is.0.st_mode) {
            FileType::Directory => Ok(Box::new(folder)),
            _ => Err(folder.failed("opening the folder", OsStr::new(""), Errno::NOTDIR)),
        }
    }
}

/// A folder of the twin, as our own runner has it.
struct FolderInTwin {
    twin: Twin,
    /// Where the host has it.
    at: PathBuf,
    path: PathBuf,
}

impl FolderInTwin {
    fn act<T>(
        &self,
        doing: &'static str,
        name: &OsStr,
        act: impl FnOnce(&mut Hands<'_>, &Path) -> rustix::io::Result<T>,
    ) -> Result<T, FileError> {
        let done = self.twin.hands(|hands| {
            hands.act_as(AGENT.0, AGENT.1);
            act(hands, &self.at.join(name))
        });
        done.map_err(|error| self.failed(doing, name, error))
    }

    fn failed(&self, doing: &'static str, name: &OsStr, error: Errno) -> FileError {
        FileError::Io { doing, path: self.path.join(name), source: error.into() }
    }
}

/// Returns whether something was there.
fn there(done: rustix::io::Result<()>) -> rustix::io::Result<bool> {
    match done {
        Err(Errno::NOENT) => Ok(false),
        done => done.map(|()| true),
    }
}

impl Folder for FolderInTwin {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> Result<Vec<OsString>, FileError> {
        let names = self.act("listing", OsStr::new(""), |hands, at| hands.names(at))?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }

    fn has(&self, name: &OsStr) -> bool {
        self.act("looking at", name, |hands, at| hands.stat(at)).is_ok()
    }

    fn read(&self, name: &OsStr, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
        enum Read {
            Whole(Vec<u8>),
            Nothing,
            NotRegular,
            TooLarge,
        }
        let read = self.act("reading", name, |hands, at| {
            let is = match hands.stat(at) {
                Err(Errno::NOENT) => return Ok(Read::Nothing),
                is => is?,
            };
            if FileType::from_raw_mode(is.0.st_mode) != FileType::RegularFile {
                return Ok(Read::NotRegular);
            }
            if u64::try_from(is.0.st_size).is_ok_and(|size| size > limit) {
                return Ok(Read::TooLarge);
            }
            hands.read(at).map(Read::Whole)
        })?;
        let path = self.path.join(name);
        match read {
            Read::Whole(bytes) => Ok(Some(bytes)),
            Read::Nothing => Ok(None),
            Read::NotRegular => Err(FileError::NotRegular { path }),
            Read::TooLarge => Err(FileError::TooLarge { path, limit }),
        }
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<bool, FileError> {
        self.act("renaming", from, |hands, at| there(hands.rename(at, self.at.join(to))))
    }

    fn remove(&self, name: &OsStr) -> Result<(), FileError> {
        self.act("removing", name, |hands, at| there(hands.unlink(at)).map(drop))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let made = self.at.join(format!(".{name}.tmp"));
        self.act("writing", OsStr::new(name), |hands, at| {
            hands.write(&made, bytes)?;
            hands.rename(&made, at)
        })
    }

    fn touch(&self, name: &str) -> Result<(), FileError> {
        self.act("touching", OsStr::new(name), |hands, at| hands.write(at, b""))
    }
}
