//! What fails now: how often the newest runs for messages of a group, or the newest runs of a task, failed in a row. A task's
//! failures are its own.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, params};

use super::hindrances;
use crate::store::{Result, talk::groups};

/// A run of a group has failed: its task's, or one for messages.
pub(in crate::store) fn has_failed(
    c: &Connection,
    group: &Folder,
    task: Option<&str>,
    run: i64,
    now: Time,
) -> Result<()> {
    if !groups::is_known(c, group)? {
        return Ok(());
    }
    let mut once_more = c.prepare_cached(
        "INSERT INTO failing (group_folder, task, times, run_id, at) VALUES (?1, ?2, 1, ?3, ?4)
         ON CONFLICT (group_folder, task) DO UPDATE SET times = times + 1, run_id = excluded.run_id, at = excluded.at",
    )?;
    once_more.execute(params![group.as_str(), task.unwrap_or_default(), run, now.0])?;
    Ok(())
}

/// How often a task failed counts no more.
pub(in crate::store) fn forget(c: &Connection, group: &Folder, task: &str) -> Result<()> {
    c.prepare_cached("DELETE FROM failing WHERE group_folder = ?1 AND task = ?2")?
        .execute([group.as_str(), task])?;
    Ok(())
}

/// A run of a group, and of a task if it is one's, has done what it was to do. Returns lanes whose rest is over with that.
pub(in crate::store) fn works_again(
    c: &Connection,
    group: &Folder,
    task: Option<&str>,
    now: Time,
) -> Result<Vec<i64>> {
    c.prepare_cached("DELETE FROM failing WHERE group_folder = ?1 AND task IN ('', ?2)")?
        .execute([group.as_str(), task.unwrap_or_default()])?;
    hindrances::over(c, group, now)
}
