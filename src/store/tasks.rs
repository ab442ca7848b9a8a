//! Scheduled prompts.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Result, Store, StoreError, folder};
use crate::domain::rows::Task;

impl Store {
    /// Returns tasks in the order in which they were made, of one group or all.
    pub fn tasks(&self, group: Option<&Folder>) -> Result<Vec<Task>> {
        self.read(|c| tasks(c, group))
    }

    /// Shows tasks one by one, newest first, of one group or all, until `visit` says `false`.
    pub fn each_task(&self, group: Option<&Folder>, mut visit: impl FnMut(Task) -> bool) -> Result<()> {
        self.read(|c| {
            let mut all = c.prepare_cached(&all_tasks(group))?;
            let mut rows = all.query_map([group.map(Folder::as_str)], task_row)?;
            while let Some(task) = rows.next().transpose()? {
                if !visit(task) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Returns one task.
    pub fn task(&self, id: &str) -> Result<Option<Task>> {
        self.read(|c| task(c, id))
    }

    /// Returns the tasks that are due and whose source has no active run, oldest first, at most `limit`, as
    /// (group, id).
    pub fn due_tasks(&self, now: Time, limit: usize) -> Result<Vec<(Folder, String)>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT group_folder, id FROM tasks t WHERE status = 'active' AND next_run IS NOT NULL AND next_run <= ?1
                   AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.source = 'task:' || t.id AND r.status IN ('queued', 'running'))
                 ORDER BY next_run, n LIMIT ?2",
            )?
            .query_map(params![now.0, limit], |r| Ok((folder(r.get(0)?)?, r.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns when the next task that is not due yet will be.
    pub fn next_due(&self, after: Time) -> Result<Option<Time>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT min(next_run) FROM tasks WHERE status = 'active' AND next_run > ?1")?
                .query_row([after.0], |r| r.get::<_, Option<i64>>(0))?
                .map(Time))
        })
    }

    /// Deletes a task from the command line.
    pub async fn cancel_task(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.write(move |c| {
            if cancel(c, &id, None)? { Ok(()) } else { Err(StoreError::NotFound { what: "task", id }) }
        })
        .await
    }
}

/// Deletes a task within the caller's scope; whether there was one.
pub(super) fn cancel(c: &Connection, id: &str, scope: Option<&Folder>) -> Result<bool> {
    let deleted = c
        .prepare_cached("DELETE FROM tasks WHERE id = ?1 AND (?2 IS NULL OR group_folder = ?2)")?
        .execute(params![id, scope.map(Folder::as_str)])?;
    Ok(deleted > 0)
}

fn all_tasks(group: Option<&Folder>) -> String {
    let which = if group.is_some() { "WHERE group_folder = ?1" } else { "WHERE ?1 IS NULL" };
    format!("{TASK} {which} ORDER BY n DESC")
}

pub(super) fn tasks(c: &Connection, group: Option<&Folder>) -> Result<Vec<Task>> {
    Ok(c.prepare_cached(&all_tasks(group))?
        .query_map([group.map(Folder::as_str)], task_row)?
        .collect::<rusqlite::Result<_>>()?)
}

pub(super) fn task(c: &Connection, id: &str) -> Result<Option<Task>> {
    Ok(c.prepare_cached(&format!("{TASK} WHERE id = ?1"))?.query_row([id], task_row).optional()?)
}

const TASK: &str = "SELECT id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, catch_up, output, status, next_run, last_run, last_result FROM tasks";

fn task_row(r: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: r.get(0)?,
        group: folder(r.get(1)?)?,
        chat_jid: r.get(2)?,
        prompt: r.get(3)?,
        script: r.get(4)?,
        schedule_type: r.get(5)?,
        schedule_value: r.get(6)?,
        context_mode: r.get(7)?,
        catch_up: r.get(8)?,
        output: r.get(9)?,
        status: r.get(10)?,
        next_run: r.get::<_, Option<i64>>(11)?.map(Time),
        last_run: r.get::<_, Option<i64>>(12)?.map(Time),
        last_result: r.get(13)?,
    })
}
