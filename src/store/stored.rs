//! How much each group has put into the store, and into the files of its runs, by its commands and records. Triggers keep it, in the transaction that
//! writes (`migrations/0012_stored.sql`), so that whatever writes or removes a row is counted.

use std::collections::BTreeMap;

use ipc_handlers::Folder;
use rusqlite::{Connection, OptionalExtension};

use super::{Result, Store, columns::Columns as _};

impl Store {
    /// Returns how many bytes are stored of each group of which something is, also of those that were removed.
    pub fn stored(&self) -> Result<BTreeMap<Folder, u64>> {
        self.read(|c| {
            c.prepare_cached("SELECT group_folder, bytes FROM stored WHERE bytes > 0")?
                .query_map([], |r| Ok((r.folder("group_folder")?, r.get("bytes")?)))?
                .collect::<rusqlite::Result<_>>()
                .map_err(Into::into)
        })
    }

    /// Counts the same anew, from all rows that there are. What differs was counted wrongly.
    pub fn recounted(&self) -> Result<BTreeMap<Folder, u64>> {
        self.read(|c| {
            c.prepare(
                "SELECT group_folder, sum(bytes) AS total FROM (
                   SELECT group_folder, 512 + octet_length(name) + coalesce(octet_length(request_id), 0)
                     + coalesce(octet_length(reason), 0) + coalesce(octet_length(hint), 0)
                     + coalesce(octet_length(reply), 0) AS bytes FROM receipts UNION ALL
                   SELECT group_folder, 512 + octet_length(text) FROM outbox WHERE group_folder IS NOT NULL UNION ALL
                   SELECT group_folder, 512 + octet_length(prompt) + coalesce(octet_length(script), 0) FROM tasks UNION ALL
                   SELECT group_folder, 512 + octet_length(name) + octet_length(content) FROM archives UNION ALL
                   SELECT group_folder, 512 + result_bytes + files_bytes + coalesce(octet_length(error), 0) FROM runs UNION ALL
                   SELECT group_folder, 512 FROM slots UNION ALL
                   SELECT group_folder, 128 + octet_length(name) FROM tools UNION ALL
                   SELECT group_folder, 512 + size FROM attachments WHERE group_folder IS NOT NULL
                 ) GROUP BY group_folder",
            )?
            .query_map([], |r| Ok((r.folder("group_folder")?, r.get("total")?)))?
            .collect::<rusqlite::Result<_>>()
            .map_err(Into::into)
        })
    }

    /// Returns how many bytes are stored of a group.
    pub fn stored_by(&self, group: &Folder) -> Result<u64> {
        self.read(|c| stored_by(c, group))
    }
}

/// Returns how many bytes are stored of a group.
pub(super) fn stored_by(c: &Connection, group: &Folder) -> Result<u64> {
    let bytes: Option<i64> = c
        .prepare_cached("SELECT bytes FROM stored WHERE group_folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?;
    Ok(u64::try_from(bytes.unwrap_or(0)).unwrap_or(0))
}
