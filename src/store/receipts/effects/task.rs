//! Tasks: made, shown, removed.

use ipc_handlers::{NewTask, NotApplied, Outcome, Scope, TaskRow, TaskStatus, Time};
use rusqlite::{Connection, params};

use super::{
    super::{super::tasks, settle::Verdict},
    Applied, scope,
};

/// Stores a new task, under its own id or one that we make.
pub(super) fn create(c: &Connection, new: &NewTask, verdict: &mut Verdict, now: Time) -> Applied {
    let task_id = match &new.id {
        Some(id) => id.clone(),
        None => {
            let mut n: i64 = c
                .prepare_cached(
                    "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tasks'), 0) + 1",
                )?
                .query_row([], |r| r.get(0))?;
            while tasks::task(c, &format!("task-{n}"))?.is_some() {
                n += 1;
            }
            format!("task-{n}")
        }
    };
    let inserted = c
        .prepare_cached(
            "INSERT INTO tasks (id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, catch_up, output, status, next_run, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'active', ?11, ?12) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            task_id, new.group.as_str(), new.chat_jid, new.prompt, new.script, new.schedule.type_name(), new.schedule.value(),
            new.context_mode.as_str(), new.catch_up.as_str(), new.output.as_str(), new.next_run.0, now.0
        ])?;
    if inserted == 0 {
        return Ok(Err(NotApplied::TaskIdTaken { id: task_id }));
    }
    verdict.tasks_changed = true;
    Ok(Ok(Outcome::TaskCreated { task_id, next_run: new.next_run }))
}

/// Reads the tasks that the caller may see.
pub(super) fn list(c: &Connection, within: &Scope) -> Applied {
    let rows = tasks::tasks(c, scope(within))?;
    Ok(Ok(Outcome::Tasks(rows.into_iter().map(TaskRow::from).collect())))
}

/// Removes a task.
pub(super) fn cancel(c: &Connection, id: &str, within: &Scope, verdict: &mut Verdict) -> Applied {
    if !tasks::cancel(c, id, scope(within))? {
        return Ok(Err(NotApplied::TaskGone { id: id.to_owned() }));
    }
    verdict.tasks_changed = true;
    Ok(Ok(Outcome::TaskCancelled { task_id: id.to_owned() }))
}

impl From<crate::domain::rows::Task> for TaskRow {
    fn from(task: crate::domain::rows::Task) -> Self {
        Self {
            id: task.id,
            group_folder: task.group.to_string(),
            prompt: task.prompt,
            script: task.script,
            schedule_type: task.schedule_type,
            schedule_value: task.schedule_value,
            status: match task.status.as_str() {
                "paused" => TaskStatus::Paused,
                "completed" => TaskStatus::Completed,
                _ => TaskStatus::Active,
            },
            next_run: task.next_run,
        }
    }
}
