//! Where a store's file lies, and how it is opened there to be read. On a file system that nobody writes to, SQLite can't
//! make the index of the store's log; so it is done without.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use rustix::{
    fs::{Access, access},
    io::Errno,
};
use tempfile::TempDir;

use super::{Result, StoreError};

/// How long others are waited for before the log is emptied.
pub(super) const LOG_WAIT: Duration = Duration::from_secs(1);

/// Where a store is read.
pub(super) struct StoreFile {
    path: PathBuf,
    /// How SQLite is told of it.
    name: String,
    is_read_only: bool,
    /// Device and inode of the file once it is in use; every connection must lead to it.
    in_use: Option<(u64, u64)>,
    /// SQLite's name of the file system that it lies on; `None`: the machine's. On another one nothing else can take the file's place.
    disk: Option<Box<str>>,
    /// Removed when the store is closed.
    _copy: Option<TempDir>,
}

impl StoreFile {
    /// Finds out how the store at `path` can be read. `disk`: SQLite's name of the file system that it lies on; `None`: the machine's.
    ///
    /// # Errors
    /// [`StoreError::Copy`] where it has to be read from a copy and none can be made.
    pub(super) fn of(path: &Path, disk: Option<&str>) -> Result<Self> {
        let plain = |is_read_only| Self {
            path: path.to_owned(),
            name: path.to_string_lossy().into_owned(),
            is_read_only,
            in_use: None,
            disk: disk.map(Into::into),
            _copy: None,
        };
        if disk.is_some() || access(path, Access::WRITE_OK) != Err(Errno::ROFS) {
            return Ok(plain(false));
        }
        let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
        let size = |path: &Path| path.symlink_metadata().map_or(0, |meta| meta.len());
        if size(&beside("-wal")) == 0 {
            // All of it is in the one file, which nobody changes.
            return Ok(Self { name: format!("file:{}?immutable=1", escaped(path)), ..plain(true) });
        }
        let with_its_log = plain(true);
        if with_its_log.connect().is_ok_and(|c| c.query_row("PRAGMA user_version", [], |_| Ok(())).is_ok()) {
            return Ok(with_its_log);
        }
        let failed = |error| StoreError::Copy { path: path.to_owned(), error };
        let folder = TempDir::with_prefix("g2-").map_err(failed)?;
        let copy = folder.path().join("g2.sqlite");
        for end in ["", "-wal"] {
            let to = folder.path().join(format!("g2.sqlite{end}"));
            copy_file(&beside(end), &to).map_err(failed)?;
        }
        Ok(Self { name: copy.to_string_lossy().into_owned(), _copy: Some(folder), ..plain(true) })
    }

    /// Where the store itself lies, be it a copy that is read.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing can be written there.
    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// To be called once a connection to it is open: no other file is opened in its place from then on.
    pub(super) fn keep_to_it(&mut self) {
        self.in_use = self.disk.is_none().then(|| which(&self.path).ok()).flatten();
    }

    /// Has all of the log written into the store, so that the one file has everything. Waits for readers at most a second; what they
    /// hold up stays in the log.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(super) fn empty_log(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.check()?;
        let connection = self.connect_to_write()?;
        connection.busy_timeout(LOG_WAIT)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// Refuses another file in the place of the one in use.
    fn check(&self) -> Result<()> {
        let Some(in_use) = self.in_use else { return Ok(()) };
        let is_other = match which(&self.path) {
            Ok(there) => there != in_use,
            // Opening it tells of any other obstacle.
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_other { Err(StoreError::Replaced { path: self.path.clone() }) } else { Ok(()) }
    }

    /// Opens a connection that only reads.
    ///
    /// # Errors
    /// [`StoreError::Replaced`], besides what SQLite can't do.
    pub(super) fn connect(&self) -> Result<Connection> {
        self.check()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | if self.name.starts_with("file:") { OpenFlags::SQLITE_OPEN_URI } else { OpenFlags::empty() };
        self.open(Path::new(&self.name), flags)
    }

    /// Opens a connection that writes, too; makes the file where there is none.
    ///
    /// # Errors
    /// What SQLite can't do.
    pub(super) fn connect_to_write(&self) -> Result<Connection> {
        self.open(&self.path, OpenFlags::default())
    }

    fn open(&self, path: &Path, flags: OpenFlags) -> Result<Connection> {
        let opened = match &self.disk {
            None => Connection::open_with_flags(path, flags),
            Some(disk) => Connection::open_with_flags_and_vfs(path, flags, &**disk),
        };
        opened.map_err(|error| StoreError::Open { path: self.path.clone(), source: error.into() })
    }
}

#[expect(clippy::disallowed_methods, reason = "copies the store's own files, which no container can write")]
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to).map(drop)
}

/// Device and inode of the file that stands there.
#[expect(clippy::disallowed_methods, reason = "looks at the store's own file, which no container can write")]
fn which(path: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// A path as it stands in an address.
pub(super) fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test plays the user, who moves files")]
mod tests {
    use crate::store::{Store, StoreError};

    #[tokio::test]
    async fn a_file_that_came_into_the_place_of_the_store_in_use_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("g2.sqlite"), dir.path().join("aside"));
        let store = Store::open(&path).unwrap();
        std::fs::rename(&path, &aside).unwrap();
        for is_there in [false, true] {
            if is_there {
                std::fs::copy(&aside, &path).unwrap();
            }
            for outcome in [store.counts().map(drop), store.empty_log().await] {
                assert!(matches!(outcome, Err(StoreError::Replaced { .. })), "{outcome:?}");
            }
        }
        std::fs::rename(&aside, &path).unwrap();
        store.empty_log().await.unwrap();
        assert!(store.counts().is_ok());
        assert_eq!(std::fs::metadata(dir.path().join("g2.sqlite-wal")).unwrap().len(), 0);
    }
}
