//! Scheduled prompts.

use ipc_handlers::{Folder, Schedule, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Result, Store, StoreError, folder, groups::zone_of};
use crate::domain::{
    rows::{Task, TaskRun},
    zone::Zones,
};

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

    /// Returns of each group the task that is due longest and whose source has no active run, longest due first, as
    /// (group, id). A group runs one at a time, so more of them would only be carried about.
    pub fn due_tasks(&self, now: Time) -> Result<Vec<(Folder, String)>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!(
                "SELECT group_folder, id FROM groups g JOIN tasks ON tasks.n = ({FIRST_DUE}) ORDER BY next_run, n"
            ))?
            .query_map([now.0], |r| Ok((folder(r.get(0)?)?, r.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns the task of a group that is due longest and whose source has no active run.
    pub fn due_task_of(&self, group: &Folder, now: Time) -> Result<Option<String>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!(
                "SELECT id FROM groups g JOIN tasks ON tasks.n = ({FIRST_DUE}) WHERE g.folder = ?2"
            ))?
            .query_row(params![now.0, group.as_str()], |r| r.get(0))
            .optional()?)
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
}

impl Store {
    /// Has a task run now; returns whose it is. A paused one, or one whose run is under way, is refused.
    pub async fn run_task_now(&self, id: &str, now: Time) -> Result<Folder> {
        let id = id.to_owned();
        self.write(move |c| {
            let task = task(c, &id)?.ok_or_else(|| StoreError::NotFound { what: "task", id: id.clone() })?;
            let running: bool = c
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM runs WHERE source = 'task:' || ?1 AND status IN ('queued', 'running'))")?
                .query_row([&id], |r| r.get(0))?;
            if running {
                return Err(StoreError::Refused(format!("task {id} is running already; see `g2 tasks history {id}`")));
            }
            if task.status == "paused" {
                return Err(StoreError::Refused(format!("task {id} is paused; resume it with `g2 tasks resume {id}`")));
            }
            c.prepare_cached("UPDATE tasks SET status = 'active', next_run = ?2, slot = NULL, tries = 0 WHERE id = ?1")?
                .execute(params![id, now.0])?;
            Ok(task.group)
        })
        .await
    }

    /// Has cron tasks run by the clocks of these zones from now on, where everybody's is another than at the last start.
    pub async fn set_zone(&self, zones: Zones, now: Time) -> Result<()> {
        self.write(move |c| {
            let name = zones.of(None).name;
            let before: Option<String> =
                c.query_row("SELECT value FROM meta WHERE key = 'zone'", [], |r| r.get(0)).optional()?;
            if before.as_ref() == Some(&name) {
                return Ok(());
            }
            c.execute(
                "INSERT INTO meta (key, value) VALUES ('zone', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
                [name],
            )?;
            read_clocks_again(c, None, &zones, now)
        })
        .await
    }

    /// Returns each time a task ran, oldest first; of one that was cancelled too.
    pub fn task_history(&self, id: &str) -> Result<Vec<TaskRun>> {
        self.read(|c| {
            let time = |r: &Row<'_>, at| r.get::<_, Option<i64>>(at).map(|at| at.map(Time));
            Ok(c.prepare_cached(
                "SELECT id, slot, attempt, status, started_at, ended_at, result, error FROM runs WHERE source = 'task:' || ?1 ORDER BY id",
            )?
            .query_map([id], |r| {
                Ok(TaskRun {
                    run: r.get(0)?,
                    due: time(r, 1)?,
                    attempt: r.get(2)?,
                    status: r.get(3)?,
                    started_at: time(r, 4)?,
                    ended_at: time(r, 5)?,
                    result: r.get(6)?,
                    error: r.get(7)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// Finds the number of the task of group `g.folder` that is due longest at ?1 and can be started, by walking the index
/// in its order.
const FIRST_DUE: &str = "SELECT t.n FROM tasks t INDEXED BY tasks_due_by_group
    WHERE t.group_folder = g.folder AND t.status = 'active' AND t.next_run IS NOT NULL AND t.next_run <= ?1
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.source = 'task:' || t.id AND r.status IN ('queued', 'running'))
      AND EXISTS (SELECT 1 FROM chats c WHERE c.jid = t.chat_jid)
    ORDER BY t.next_run, t.n LIMIT 1";

/// Deletes a task within the caller's scope; returns whose it was.
pub(super) fn cancel(c: &Connection, id: &str, scope: Option<&Folder>) -> Result<Option<Folder>> {
    Ok(c.prepare_cached(
        "DELETE FROM tasks WHERE id = ?1 AND (?2 IS NULL OR group_folder = ?2) RETURNING group_folder",
    )?
    .query_row(params![id, scope.map(Folder::as_str)], |r| folder(r.get(0)?))
    .optional()?)
}

/// Finds anew when cron tasks run next, of one group or of all, after their clocks were set to another zone. What is due
/// already, or tried again, stays as it is.
pub(super) fn read_clocks_again(
    c: &Connection,
    group: Option<&Folder>,
    zones: &Zones,
    now: Time,
) -> Result<()> {
    let coming = tasks(c, group)?
        .into_iter()
        .filter(|task| task.schedule_type == "cron" && task.next_run.is_some_and(|at| at > now));
    for task in coming {
        let zone = zone_of(c, &task.group, zones)?.zone;
        let next = Schedule::parse(&task.schedule_type, &task.schedule_value, &zone, now)
            .ok()
            .and_then(|schedule| schedule.next_after(now, now, &zone));
        if let Some(next) = next {
            c.prepare_cached("UPDATE tasks SET next_run = ?2 WHERE id = ?1 AND slot IS NULL")?
                .execute(params![task.id, next.0])?;
        }
    }
    Ok(())
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
