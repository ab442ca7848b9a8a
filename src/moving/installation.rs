//! The folder of another program's installation: its files are opened to be read, and no path in it leads out.

use std::{
    fs::File,
    io::Read as _,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat},
    io::Errno,
};

/// The longest file of settings that is read, bytes.
pub const LONGEST_TEXT: usize = 4 << 20;
/// As many names of a folder are looked at.
pub const MOST_NAMES: usize = 10_000;

/// Why a file of an installation is not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    #[error("it is not there")]
    Missing,
    #[error("it is a link, or lies behind one")]
    Link,
    #[error("it leads out of the installation")]
    LeadsOut,
    #[error("it is no plain file")]
    NoFile,
    #[error("it has more than {LONGEST_TEXT} bytes")]
    TooLong,
    #[error("it can't be read: {0}")]
    Io(#[from] std::io::Error),
}

/// An installation.
#[derive(Debug)]
pub struct Installation {
    path: PathBuf,
    dir: OwnedFd,
    scratch: PathBuf,
}

impl Installation {
    /// Opens the folder `path`. Copies of its stores are made in `scratch`.
    ///
    /// # Errors
    /// There is no such folder, or it can't be opened.
    pub fn open(path: &Path, scratch: &Path) -> std::io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let dir = openat(CWD, &path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path, dir, scratch: scratch.to_owned() })
    }

    /// Returns where it is, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where copies of its stores are made.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn entry(&self, inner: &str, flags: OFlags, links: ResolveFlags) -> Result<OwnedFd, Unread> {
        let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | links;
        match openat2(&self.dir, inner, flags, Mode::empty(), within) {
            Ok(fd) => Ok(fd),
            Err(Errno::NOENT) => Err(Unread::Missing),
            Err(Errno::NOTDIR) if !flags.contains(OFlags::DIRECTORY) => Err(Unread::Missing),
            Err(Errno::LOOP) => Err(Unread::Link),
            Err(Errno::XDEV) => Err(Unread::LeadsOut),
            Err(Errno::NXIO) => Err(Unread::NoFile),
            Err(error) => Err(Unread::Io(error.into())),
        }
    }

    /// Opens a plain file of it to be read. No part of its path may be a link: an agent that made one could have another's file be read
    /// as its own.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn file(&self, inner: &str) -> Result<File, Unread> {
        self.plain(inner, ResolveFlags::NO_SYMLINKS)
    }

    fn plain(&self, inner: &str, links: ResolveFlags) -> Result<File, Unread> {
        let file = File::from(self.entry(inner, OFlags::empty(), links)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(Unread::NoFile) }
    }

    /// Reads a short file of the user's own, such as `.env`, through links that lead out nowhere. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn text(&self, inner: &str) -> Result<String, Unread> {
        let mut bytes = Vec::new();
        let file = self.plain(inner, ResolveFlags::NO_MAGICLINKS)?;
        file.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > LONGEST_TEXT {
            return Err(Unread::TooLong);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the path of a folder of it; `None` where nothing is there. One that is a link, or lies behind one, or can't be read, is
    /// left out and told where it is copied.
    #[must_use]
    pub fn folder(&self, inner: &str) -> Option<PathBuf> {
        let opened = self.entry(inner, OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS);
        (!matches!(opened, Err(Unread::Missing))).then(|| self.path.join(inner))
    }

    /// Returns the names of the folders in a folder of it, sorted, and whether there were more than are looked at.
    #[must_use]
    pub fn folders(&self, inner: &str) -> (Vec<String>, bool) {
        let Ok(fd) = self.entry(inner, OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS) else {
            return (Vec::new(), false);
        };
        let Ok(dir) = Dir::read_from(&fd) else { return (Vec::new(), false) };
        let (mut names, mut seen) = (Vec::new(), 0_usize);
        for entry in dir {
            let Ok(entry) = entry else { break };
            seen += 1;
            if seen > MOST_NAMES {
                break;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_folder = statat(&fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            if is_folder && name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        (names, seen > MOST_NAMES)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write an installation")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_path_that_leads_out_and_a_pipe_are_refused_and_nobody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        fs::create_dir_all(inside.join("data/a")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(inside.join("data/own"), "own \u{1F3E1}").unwrap();
        symlink("../secret", inside.join("out")).unwrap();
        symlink("data/own", inside.join("within")).unwrap();
        symlink(dir.path(), inside.join("data/b")).unwrap();
        rustix::fs::mkfifoat(CWD, inside.join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        let installation = Installation::open(&inside, dir.path()).unwrap();
        assert_eq!(installation.text("data/own").unwrap(), "own \u{1F3E1}");
        for link in ["within", "out", "data/b/secret"] {
            assert!(matches!(installation.file(link), Err(Unread::Link)), "{link}");
        }
        assert_eq!(installation.text("within").unwrap(), "own \u{1F3E1}");
        assert!(matches!(installation.text("out"), Err(Unread::LeadsOut)));
        assert!(matches!(installation.text("../secret"), Err(Unread::LeadsOut)));
        assert!(matches!(installation.text("pipe"), Err(Unread::NoFile)));
        assert!(matches!(installation.text("data"), Err(Unread::NoFile)));
        assert!(matches!(installation.text("none"), Err(Unread::Missing)));
        assert_eq!(installation.folders("data"), (vec!["a".to_owned()], false));
        assert_eq!(installation.folder("data/none"), None);
        // The copy says of both what they are.
        for there in ["data/a", "data/b"] {
            assert_eq!(installation.folder(there), Some(installation.path().join(there)));
        }
    }
}
