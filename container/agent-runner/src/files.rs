//! The runner's one door to files: everything happens relative to an opened folder.
//!
//! The agent beside us may put anything into these folders. A name is never followed when it is a link, opening never
//! blocks, reading is bounded, and other processes see a file whole or not at all.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW},
    io::Errno,
};

use crate::world::Folder;

/// A file can't be used the way it is.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("{doing} {} failed", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A link, folder, FIFO, socket or device stands where a file should be.
    #[error("{} is no regular file", path.display())]
    NotRegular { path: PathBuf },
    /// The file is larger than the limit for such a file.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
}

/// An opened folder.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens a folder that is there.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = sys::openat(CWD, path, flags, Mode::empty()).map_err(|e| FileError::Io {
            doing: "opening the folder",
            path: path.to_owned(),
            source: e.into(),
        })?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a folder, after trying to make it.
    pub(crate) fn open_or_make(path: &Path) -> Result<Self, FileError> {
        // In a container it is a mount point and there; what went wrong otherwise, opening will say.
        let _ = sys::mkdirat(CWD, path, Mode::from_raw_mode(0o755));
        Self::open(path)
    }

    fn io(&self, doing: &'static str, name: &OsStr, source: impl Into<io::Error>) -> FileError {
        FileError::Io { doing, path: self.path.join(name), source: source.into() }
    }
}

impl Folder for Dir {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> Result<Vec<OsString>, FileError> {
        let entries = sys::Dir::read_from(&self.fd).map_err(|e| self.io("listing", OsStr::new(""), e))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.io("listing", OsStr::new(""), e))?;
            names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        }
        Ok(names)
    }

    fn has(&self, name: &OsStr) -> bool {
        sys::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn read(&self, name: &OsStr, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match sys::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            // A link, and a socket.
            Err(Errno::LOOP | Errno::NXIO) => {
                return Err(FileError::NotRegular { path: self.path.join(name) });
            }
            Err(e) => return Err(self.io("opening", name, e)),
        };
        let stat = sys::fstat(&fd).map_err(|e| self.io("looking at", name, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotRegular { path: self.path.join(name) });
        }
        let mut bytes = Vec::new();
        File::from(fd)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| self.io("reading", name, e))?;
        if bytes.len() as u64 > limit {
            return Err(FileError::TooLarge { path: self.path.join(name), limit });
        }
        Ok(Some(bytes))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<bool, FileError> {
        match sys::renameat(&self.fd, from, &self.fd, to) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(self.io("renaming", from, e)),
        }
    }

    fn remove(&self, name: &OsStr) -> Result<(), FileError> {
        match sys::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(self.io("removing", name, e)),
        }
    }

    /// Written to `.<name>.tmp` in the same folder, then renamed.
    fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let temp = format!(".{name}.tmp");
        let (temp, name) = (OsStr::new(&temp), OsStr::new(name));
        self.remove(temp)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = sys::openat(&self.fd, temp, flags, Mode::from_raw_mode(0o644))
            .map_err(|e| self.io("creating", temp, e))?;
        let written = File::from(fd)
            .write_all(bytes)
            .and_then(|()| sys::renameat(&self.fd, temp, &self.fd, name).map_err(io::Error::from));
        written.map_err(|e| {
            let _ = self.remove(temp);
            self.io("writing", name, e)
        })
    }

    fn touch(&self, name: &str) -> Result<(), FileError> {
        let name = OsStr::new(name);
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        sys::openat(&self.fd, name, flags, Mode::from_raw_mode(0o644))
            .and_then(|fd| sys::futimens(&fd, &Timestamps { last_access: now, last_modification: now }))
            .map_err(|e| self.io("touching", name, e))
    }
}
