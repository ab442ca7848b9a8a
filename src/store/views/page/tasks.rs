//! Tasks: those that run next, and those that do not run.

use ipc_handlers::{Folder, ScheduleKind, TaskStatus, Time};
use rusqlite::{Row, params};

use crate::domain::states::TaskOrigin;
use crate::store::{Result, Store, at_most, columns::Columns as _};

/// How much of a prompt is shown, characters.
const SHOWN: usize = 200;
/// Among how many of the newest tasks those are looked for that do not run.
const LOOKED_AT: i64 = 5_000;

/// A task with the beginning of its prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskShown {
    pub id: String,
    pub group: Folder,
    pub chat: String,
    pub prompt: String,
    pub kind: ScheduleKind,
    pub value: String,
    pub origin: TaskOrigin,
    pub status: TaskStatus,
    pub next_run: Option<Time>,
    pub last_run: Option<Time>,
    pub failures: u32,
    pub rest_until: Option<Time>,
    pub paused_for: Option<String>,
}

const TASK: &str = "SELECT id, group_folder, chat_jid, substr(prompt, 1, ?2) AS prompt, schedule_type, substr(schedule_value, 1, ?2) AS schedule_value, origin, status, next_run, last_run, failures, rest_until, paused_for FROM tasks";

fn task_row(r: &Row<'_>) -> rusqlite::Result<TaskShown> {
    Ok(TaskShown {
        id: r.get("id")?,
        group: r.folder("group_folder")?,
        chat: r.get("chat_jid")?,
        prompt: r.get("prompt")?,
        kind: r.word("tasks", "schedule_type")?,
        value: r.get("schedule_value")?,
        origin: r.word("tasks", "origin")?,
        status: r.word("tasks", "status")?,
        next_run: r.time_or_null("next_run")?,
        last_run: r.time_or_null("last_run")?,
        failures: r.get("failures")?,
        rest_until: r.time_or_null("rest_until")?,
        paused_for: r.get("paused_for")?,
    })
}

impl Store {
    /// Returns the tasks that run next, soonest first.
    pub fn tasks_to_come(&self, most: usize) -> Result<Vec<TaskShown>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!(
                "{TASK} INDEXED BY tasks_due WHERE status = 'active' AND next_run IS NOT NULL ORDER BY next_run LIMIT ?1"
            ))?;
            Ok(rows.query_map(params![at_most(Some(most)), SHOWN], task_row)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns tasks that do not run: paused, or over. The newest are first; those that are very old are left out.
    pub fn tasks_at_rest(&self, most: usize) -> Result<Vec<TaskShown>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!(
                "{TASK} WHERE n > (SELECT coalesce(max(n), 0) FROM tasks) - ?3 AND (status <> 'active' OR next_run IS NULL) ORDER BY n DESC LIMIT ?1"
            ))?;
            let given = params![at_most(Some(most)), SHOWN, LOOKED_AT];
            Ok(rows.query_map(given, task_row)?.collect::<rusqlite::Result<_>>()?)
        })
    }
}
