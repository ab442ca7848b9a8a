//! How much each group has put into the store, into the files of its runs, and into the index of what was said, by its commands and
//! records. Triggers count rows and files, in the transaction that writes (`migrations/0001_init.sql`), so that whatever writes or
//! removes a row is counted. The index is counted by its keeper.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{Result, Store, StoreError, columns::Columns as _, talk::attachments::media_use};
use crate::domain::platforms::attachments::MediaUse;

/// The counts of a group. A number below zero was counted wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How much it has put here, bytes.
    pub bytes: i64,
    /// How many tasks it has.
    pub tasks: i64,
    /// How much it wrote of them, bytes.
    pub task_bytes: i64,
}

impl Store {
    /// Returns how many bytes are stored of each group of which something is.
    pub fn stored(&self) -> Result<BTreeMap<Folder, u64>> {
        let mut stored: BTreeMap<Folder, u64> = self.read(|c| {
            let all =
                "SELECT group_folder, bytes FROM stored JOIN groups ON folder = group_folder WHERE bytes > 0";
            c.prepare_cached(all)?
                .query_map([], |r| Ok((r.folder("group_folder")?, r.get("bytes")?)))?
                .collect::<rusqlite::Result<_>>()
                .map_err(StoreError::from)
        })?;
        for (group, bytes) in self.index_weights() {
            stored.entry(group).and_modify(|stored| *stored = stored.saturating_add(bytes));
        }
        Ok(stored)
    }

    /// Returns all that is counted of each group of which something is, also of those that were removed.
    pub fn counted(&self) -> Result<BTreeMap<Folder, Counted>> {
        self.read(|c| {
            c.prepare("SELECT group_folder, bytes, tasks, task_bytes FROM stored WHERE bytes <> 0 OR tasks <> 0 OR task_bytes <> 0")?
                .query_map([], counted)?
                .collect::<rusqlite::Result<_>>()
                .map_err(Into::into)
        })
    }

    /// Counts the same anew, from all rows that there are. What differs was counted wrongly.
    pub fn recounted(&self) -> Result<BTreeMap<Folder, Counted>> {
        self.read(|c| {
            c.prepare(
                "SELECT group_folder, sum(bytes) AS bytes, sum(tasks) AS tasks, sum(task_bytes) AS task_bytes FROM (
                   SELECT group_folder, 512 + octet_length(name) + coalesce(octet_length(request_id), 0)
                     + coalesce(octet_length(reason), 0) + coalesce(octet_length(hint), 0)
                     + coalesce(octet_length(reply), 0) AS bytes, 0 AS tasks, 0 AS task_bytes FROM receipts UNION ALL
                   SELECT group_folder, 512 + octet_length(text), 0, 0 FROM outbox WHERE group_folder IS NOT NULL UNION ALL
                   SELECT group_folder, 512 + octet_length(prompt) + coalesce(octet_length(script), 0), 1,
                     octet_length(prompt) + coalesce(octet_length(script), 0) + octet_length(schedule_value) FROM tasks UNION ALL
                   SELECT group_folder, 512 + octet_length(name) + octet_length(content), 0, 0 FROM archives UNION ALL
                   SELECT group_folder, 512 + result_bytes + files_bytes + coalesce(octet_length(error), 0), 0, 0 FROM runs UNION ALL
                   SELECT group_folder, 512, 0, 0 FROM slots UNION ALL
                   SELECT group_folder, 128 + octet_length(name) + coalesce(octet_length(call), 0) + coalesce(octet_length(about), 0), 0, 0 FROM tools UNION ALL
                   SELECT group_folder, 512 + size, 0, 0 FROM attachments WHERE group_folder IS NOT NULL
                 ) GROUP BY group_folder",
            )?
            .query_map([], counted)?
            .collect::<rusqlite::Result<_>>()
            .map_err(Into::into)
        })
    }

    /// Returns how many bytes are stored of a group.
    pub fn stored_by(&self, group: &Folder) -> Result<u64> {
        Ok(self.read(|c| stored_by(c, group))?.saturating_add(self.index_weight_of(group)))
    }

    /// Returns how much of files there is, and how many bytes are stored of a group: files that it sends to a chat are measured by
    /// both. It is read in place, by the thread that takes their command in.
    pub fn room_taken(&self, group: &Folder, chat: &str, now: Time) -> Result<(MediaUse, u64)> {
        let (media, stored) = self.read(|c| Ok((media_use(c, chat, now)?, stored_by(c, group)?)))?;
        Ok((media, stored.saturating_add(self.index_weight_of(group))))
    }
}

fn counted(r: &Row<'_>) -> rusqlite::Result<(Folder, Counted)> {
    let counted =
        Counted { bytes: r.get("bytes")?, tasks: r.get("tasks")?, task_bytes: r.get("task_bytes")? };
    Ok((r.folder("group_folder")?, counted))
}

/// Returns how many bytes are stored of a group.
pub(super) fn stored_by(c: &Connection, group: &Folder) -> Result<u64> {
    let bytes: Option<i64> = c
        .prepare_cached("SELECT bytes FROM stored WHERE group_folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?;
    Ok(u64::try_from(bytes.unwrap_or(0)).unwrap_or(0))
}

/// Returns how many tasks a group has, and how many bytes it wrote of them.
pub(super) fn tasks_of(c: &Connection, group: &Folder) -> Result<(usize, u64)> {
    let of: Option<(i64, i64)> = c
        .prepare_cached("SELECT tasks, task_bytes FROM stored WHERE group_folder = ?1")?
        .query_row([group.as_str()], |r| Ok((r.get("tasks")?, r.get("task_bytes")?)))
        .optional()?;
    let (count, bytes) = of.unwrap_or_default();
    Ok((usize::try_from(count).unwrap_or(0), u64::try_from(bytes).unwrap_or(0)))
}
