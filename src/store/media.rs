//! Which files of `data/media/` are named by rows, and how many bytes they have. Triggers keep it, in the transaction that writes
//! (`migrations/0001_init.sql`).

use rusqlite::Connection;

use super::{Result, Store};
use crate::domain::platforms::attachments::{Digest, MediaLimits};

impl Store {
    /// Returns how many bytes of files there may be.
    #[must_use]
    pub fn media_limits(&self) -> MediaLimits {
        self.bounds_now().media
    }

    /// Whether a row names this file.
    ///
    /// # Errors
    /// As every read.
    pub fn names_file(&self, digest: &Digest) -> Result<bool> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT EXISTS (SELECT 1 FROM media WHERE digest = ?1)")?
                .query_row([digest], |r| r.get(0))?)
        })
    }

    /// Returns how many bytes the files have that rows name, each counted once.
    ///
    /// # Errors
    /// As every read.
    pub fn media_bytes(&self) -> Result<u64> {
        self.read(bytes)
    }
}

pub(super) fn bytes(c: &Connection) -> Result<u64> {
    Ok(c.prepare_cached("SELECT bytes FROM media_size WHERE one = 1")?.query_row([], |r| r.get("bytes"))?)
}
