//! Where a store's file lies, and how it is opened there to be read. On a file system that nobody writes to, SQLite can't
//! make the index of the store's log; so it is done without.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::{
    fs::{Access, access},
    io::Errno,
};
use tempfile::TempDir;

use super::{Result, StoreError};

/// Where a store is read.
pub(super) struct StoreFile {
    path: PathBuf,
    /// How SQLite is told of it.
    name: String,
    is_read_only: bool,
    /// Removed when the store is closed.
    _copy: Option<TempDir>,
}

impl StoreFile {
    /// Finds out how the store at `path` can be read.
    ///
    /// # Errors
    /// [`StoreError::Copy`] where it has to be read from a copy and none can be made.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let plain = |is_read_only| Self {
            path: path.to_owned(),
            name: path.to_string_lossy().into_owned(),
            is_read_only,
            _copy: None,
        };
        if access(path, Access::WRITE_OK) != Err(Errno::ROFS) {
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

    /// Opens a connection that only reads.
    pub(super) fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | if self.name.starts_with("file:") { OpenFlags::SQLITE_OPEN_URI } else { OpenFlags::empty() };
        Connection::open_with_flags(&self.name, flags)
            .map_err(|error| StoreError::Open { path: self.path.clone(), source: error.into() })
    }
}

#[expect(clippy::disallowed_methods, reason = "copies the store's own files, which no container can write")]
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to).map(drop)
}

/// A path as it stands in an address.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
