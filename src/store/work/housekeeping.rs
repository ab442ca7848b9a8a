//! What housekeeping asks: which sessions of a group are needed, which runs have files; and what each group takes on the disk.

use std::collections::BTreeSet;

use ipc_handlers::{Folder, Time};
use rusqlite::{Row, params};

use crate::{
    domain::kept::housekeeping::GroupDisk,
    store::{Result, Store, columns::Columns as _, talk::groups},
};

/// What of a group's sessions something needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Those that its lanes have, and the archived ones, which can be taken up again.
    pub sessions: BTreeSet<String>,
    /// Since when it has had a run without a break; what was changed since is that run's.
    pub busy_since: Option<Time>,
}

/// A run that has ended and that has files in `data/runs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesOfRun {
    pub run: i64,
    pub group: Folder,
    pub ended_at: Time,
    pub bytes: u64,
}

impl Store {
    /// Returns what of a group's sessions something needs, as it was at one instant.
    pub fn needed_sessions(&self, group: &Folder) -> Result<Needed> {
        self.read(|c| {
            let mut needed = Needed::default();
            let mut rows = c.prepare_cached(
                "SELECT session_id, NULL AS since FROM sessions WHERE group_folder = ?1 AND session_id IS NOT NULL
                 UNION ALL SELECT session_id, NULL FROM archives WHERE group_folder = ?1
                 UNION ALL SELECT NULL, created_at FROM runs WHERE group_folder = ?1 AND status IN ('queued', 'running')",
            )?;
            let mut rows = rows.query([group.as_str()])?;
            while let Some(row) = rows.next()? {
                needed.sessions.extend(row.get::<_, Option<String>>("session_id")?);
                needed.busy_since = needed.busy_since.or(row.time_or_null("since")?);
            }
            Ok(needed)
        })
    }

    /// Returns the runs that have ended and that have files: those whose row says so, and those of `folders`.
    pub fn runs_with_files(&self, folders: &BTreeSet<i64>) -> Result<Vec<FilesOfRun>> {
        self.read(|c| {
            c.prepare_cached(
                "SELECT id, group_folder, ended_at, files_bytes FROM runs INDEXED BY runs_with_files
                   WHERE files_bytes > 0 AND ended_at IS NOT NULL
                 UNION SELECT r.id, r.group_folder, r.ended_at, r.files_bytes FROM json_each(?1) f JOIN runs r ON r.id = f.value
                   WHERE r.ended_at IS NOT NULL",
            )?
            .query_map([serde_json::json!(folders).to_string()], |r| {
                Ok(FilesOfRun {
                    run: r.get("id")?,
                    group: r.folder("group_folder")?,
                    ended_at: r.time("ended_at")?,
                    bytes: r.get("files_bytes")?,
                })
            })?
            .collect::<rusqlite::Result<_>>()
            .map_err(Into::into)
        })
    }

    /// Notes that runs have no files any more.
    pub async fn runs_without_files(&self, runs: Vec<i64>) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE runs SET files_bytes = 0 WHERE id IN (SELECT value FROM json_each(?1)) AND ended_at IS NOT NULL")?
                .execute([serde_json::json!(runs).to_string()])?;
            Ok(())
        })
        .await
    }

    /// Returns how many bytes the files of a group's runs have, of those that have ended.
    pub fn bytes_of_runs(&self, group: &Folder) -> Result<u64> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT coalesce(sum(files_bytes), 0) FROM runs INDEXED BY runs_with_files WHERE group_folder = ?1 AND files_bytes > 0",
            )?
            .query_row([group.as_str()], |r| r.get(0))?)
        })
    }

    /// Notes what groups take on the disk, each with when it was weighed. Of a group that is gone by now, nothing is noted.
    pub async fn weighed(&self, weighed: Vec<(Folder, GroupDisk, Time)>) -> Result<()> {
        if weighed.is_empty() {
            return Ok(());
        }
        self.write(move |c| {
            let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            let mut note = c.prepare_cached(
                "INSERT OR REPLACE INTO group_disk (group_folder, working_folder, sessions, runs, media, mailbox, partial, weighed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?;
            for (group, disk, at) in &weighed {
                if !groups::is_known(c, group)? {
                    continue;
                }
                note.execute(params![
                    group.as_str(),
                    bytes(disk.working_folder),
                    bytes(disk.sessions),
                    bytes(disk.runs),
                    bytes(disk.media),
                    bytes(disk.mailbox),
                    disk.partial,
                    at.0
                ])?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the groups that took most on the disk when they were weighed last, the largest first, and when that was.
    pub fn largest_groups(&self, most: usize) -> Result<Vec<(Folder, GroupDisk, Time)>> {
        self.read(|c| {
            c.prepare_cached(
                "SELECT * FROM group_disk ORDER BY working_folder + sessions + runs + media + mailbox DESC, group_folder LIMIT ?1",
            )?
            .query_map([most], disk_row)?
            .collect::<rusqlite::Result<_>>()
            .map_err(Into::into)
        })
    }
}

fn disk_row(r: &Row<'_>) -> rusqlite::Result<(Folder, GroupDisk, Time)> {
    let disk = GroupDisk {
        working_folder: r.get("working_folder")?,
        sessions: r.get("sessions")?,
        runs: r.get("runs")?,
        media: r.get("media")?,
        mailbox: r.get("mailbox")?,
        partial: r.get("partial")?,
    };
    Ok((r.folder("group_folder")?, disk, r.time("weighed_at")?))
}
