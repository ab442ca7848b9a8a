//! The store of a backup becomes that of a new root: what may be done elsewhere by now is held back, in one transaction.

use std::path::Path;

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::domain::{
    heard::engage::Rule,
    kept::held_back::{HeldCount, PassedOver},
    time::zone::Zones,
};
use crate::store::{
    Result, Store, StoreError, Version,
    columns::Columns as _,
    crossing::said::says_no_more,
    migrate,
    talk::{groups::zone_of, restored::WHY},
    work::{folders::forget_folders, slots},
};

/// The error of a run, and of a text, that a restore ends.
const ENDED: &str = "it was under way when the backup was made that was restored";
const UNSENT: &str =
    "it was unsent when the backup was made that was restored; `g2 restored resume` sends it";

/// What a restore held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    pub held: HeldCount,
    pub passed_over: Vec<PassedOver>,
}

/// Checks that a store out of an archive has our schema and nothing else, such as a trigger of somebody's own.
///
/// # Errors
/// [`StoreError::Newer`]; [`StoreError::TooOld`]; [`StoreError::Refused`] for another schema, or a damaged file.
pub fn check_foreign(path: &Path) -> Result<()> {
    let failed = |error: rusqlite::Error| StoreError::Open { path: path.to_owned(), source: error.into() };
    let connection = migrate::open_foreign(path).map_err(failed)?;
    let found = Version::read(&connection).map_err(failed)?;
    found.check(path)?;
    if let Some(odd) = migrate::odd_part(&connection, found)? {
        return Err(StoreError::refused(format!("the store in the archive is none of ours: {odd}"), ""));
    }
    let told: Vec<String> = connection
        .prepare("PRAGMA integrity_check(5)")
        .and_then(|mut check| check.query_map([], |row| row.get(0))?.collect())
        .map_err(failed)?;
    if told != ["ok"] {
        return Err(StoreError::refused(
            format!("the store in the archive is damaged ({})", told.join("; ")),
            "",
        ));
    }
    Ok(())
}

impl Store {
    /// Reads what a daemon reads at its start, for somebody who wants to know that it could.
    ///
    /// # Errors
    /// What can't be read.
    pub async fn rehearse_start(&self) -> Result<()> {
        for group in self.groups().await? {
            self.rules_outside(&group.folder, &[])?;
        }
        self.wirings().await?;
        self.chats(None).await?;
        self.approvals(true).await?;
        self.connections().await?;
        self.holds()?;
        self.active_runs()?;
        self.waiting_lanes()?;
        self.last_claim()?;
        self.stored()?;
        Ok(())
    }
}

/// Makes the store at `path`, which nobody serves and which has the newest schema, that of a new root.
///
/// # Errors
/// The store's; nothing is changed then.
pub fn settle_restored(path: &Path, zones: &Zones, now: Time) -> Result<HeldBack> {
    let failed = |error: rusqlite::Error| StoreError::Open { path: path.to_owned(), source: error.into() };
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_folders(&transaction)?;
    end_runs(&transaction, now)?;
    hold_messages(&transaction, now)?;
    transaction.execute(
        "UPDATE outbox SET status = 'failed', held_back = 1, error = ?1, next_try_at = NULL, begun_at = NULL WHERE (status = 'pending' OR status = 'sending' OR status = 'unknown')",
        [UNSENT],
    )?;
    // They may have been answered since.
    transaction.execute("UPDATE questions SET state = 'expired' WHERE state = 'open'", [])?;
    let passed_over = pass_over(&transaction, zones, now)?;
    // One that was ended since the backup was made would be let in again.
    transaction.execute("DELETE FROM web_sessions", [])?;
    transaction.execute("DELETE FROM web_tokens", [])?;
    // A code may have been used since, and problems were another machine's.
    for table in ["claims", "pushes", "notices", "noted"] {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    // A folder that had no files may be missing in the backup.
    forget_folders(&transaction)?;
    // It is another instance, wherever it lies, and adopts nothing.
    transaction.execute("DELETE FROM meta WHERE key IN ('instance', 'place')", [])?;
    transaction.execute(
        "INSERT INTO meta (key, value) VALUES ('restored_at', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
        [now.0.to_string()],
    )?;
    let held = transaction.query_row(
        "SELECT (SELECT count(*) FROM outbox WHERE held_back = 1) AS texts, (SELECT count(*) FROM inbox WHERE rule = 'restored') AS messages",
        [],
        |r| Ok(HeldCount { texts: r.get("texts")?, messages: r.get("messages")? }),
    )?;
    transaction.commit()?;
    Ok(HeldBack { held, passed_over })
}

/// Refuses a store in which a group's folder is none: paths are made of it.
fn check_folders(c: &Connection) -> Result<()> {
    let columns: Vec<(String, String)> = c
        .prepare(
            "SELECT m.name AS table_name, p.name AS column_name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS p
             WHERE m.type = 'table' AND (p.name = 'folder' OR p.name LIKE '%group_folder') ORDER BY m.name <> 'groups', m.name, p.name",
        )?
        .query_map([], |r| Ok((r.get("table_name")?, r.get("column_name")?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (table, column) in columns {
        let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE {column} <> ''");
        let folders: Vec<String> =
            c.prepare(&sql)?.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
        if let Some(why) = folders.iter().find_map(|folder| Folder::parse(folder).err()) {
            return Err(StoreError::refused(
                format!("the store in the archive is none of ours: {table}.{column} names no group"),
                why.to_string(),
            ));
        }
    }
    Ok(())
}

/// Ends the runs that were under way: their containers are elsewhere, or gone.
fn end_runs(c: &Connection, now: Time) -> Result<()> {
    let runs: Vec<i64> = c
        .prepare("SELECT id FROM runs WHERE status IN ('queued', 'running')")?
        .query_map([], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for run in runs {
        says_no_more(c, run)?;
        c.execute(
            "UPDATE runs SET status = 'cancelled', ended_at = ?2, error = ?3 WHERE id = ?1",
            params![run, now.0, ENDED],
        )?;
    }
    Ok(())
}

/// Passes over each message that an agent has in hand, that waits for one, or that was not judged.
fn hold_messages(c: &Connection, now: Time) -> Result<()> {
    let hold = |which: &str| -> Result<()> {
        let sql = format!("UPDATE inbox SET verdict = 'ignore', rule = ?1, reason = ?2 WHERE {which}");
        c.execute(&sql, params![Rule::Restored.as_str(), WHY])?;
        Ok(())
    };
    hold(
        "verdict = 'wake' AND EXISTS (SELECT 1 FROM batches b WHERE b.lane_id = inbox.lane_id AND inbox.n BETWEEN b.first AND b.last
           AND (b.state = 'handed' OR b.state = 'claimed' OR b.state = 'returned'))",
    )?;
    hold("verdict = 'wake' AND n > (SELECT cursor FROM lanes l WHERE l.id = inbox.lane_id)")?;
    hold("verdict IS NULL")?;
    c.execute("DELETE FROM file_holds", [])?;
    c.execute(
        "UPDATE batches SET state = 'failed', ended_at = ?1, said_from = outbox_mark, said_to = outbox_mark WHERE (state = 'handed' OR state = 'claimed' OR state = 'returned')",
        [now.0],
    )?;
    c.execute("UPDATE sessions SET rest_until = NULL WHERE rest_until IS NOT NULL", [])?;
    Ok(())
}

/// Has each task go on with its first time after now; those until now are in its history.
fn pass_over(c: &Connection, zones: &Zones, now: Time) -> Result<Vec<PassedOver>> {
    let tasks: Vec<(Folder, String)> = c
        .prepare(
            "SELECT group_folder, id FROM tasks WHERE status = 'active' AND (next_run <= ?1 OR slot IS NOT NULL OR next_slot IS NOT NULL) ORDER BY n",
        )?
        .query_map([now.0], |r| Ok((r.folder("group_folder")?, r.get("id")?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut all = Vec::new();
    for (group, task) in tasks {
        let zone = zone_of(c, &group, zones)?.zone;
        let Some(standing) = slots::standing(c, &group, &task)? else { continue };
        // One whose schedule can't be read is paused when it is due.
        let Some(plan) = standing.pass_over(&zone, now) else { continue };
        slots::go_on(c, &group, &task, &plan, now)?;
        c.execute(
            "UPDATE tasks SET slot = NULL, tries = 0, free_returns = 0, held_up_since = NULL, rest_until = NULL,
               status = iif(next_run IS NULL, 'completed', status) WHERE id = ?1 AND group_folder = ?2",
            params![task, group.as_str()],
        )?;
        all.push(PassedOver {
            group,
            task,
            count: plan.passed.iter().map(|passed| passed.count).sum(),
            at_least: plan.passed.iter().any(|passed| passed.at_least),
            next: plan.next.map(|next| next.at),
        });
    }
    Ok(all)
}
