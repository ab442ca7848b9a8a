//! Tasks: made, shown, changed, removed.

use ipc_handlers::{
    Folder, NewTask, NotApplied, Outcome, Schedule, Scope, TaskRow, TaskStatus, Time,
    effect::{CatchUp, ContextMode, OutputMode, TaskChange},
};
use rusqlite::{Connection, params};

use super::{super::super::tasks, Applied, Changes, within};

/// Stores a new task, under its own id or one that we make.
pub(super) fn create(c: &Connection, new: &NewTask, changes: &mut Changes, now: Time) -> Applied {
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
    changes.tasks.insert(new.group.clone());
    Ok(Ok(Outcome::TaskCreated { task_id, next_run: new.next_run }))
}

/// Reads the tasks that the caller may see.
pub(super) fn list(c: &Connection, scope: &Scope) -> Applied {
    let rows = tasks::tasks(c, within(scope))?;
    Ok(Ok(Outcome::Tasks(rows.into_iter().map(TaskRow::from).collect())))
}

/// Removes a task.
pub(super) fn cancel(c: &Connection, id: &str, scope: &Scope, changes: &mut Changes) -> Applied {
    let Some(group) = tasks::cancel(c, id, within(scope))? else {
        return Ok(Err(NotApplied::TaskGone { id: id.to_owned() }));
    };
    changes.tasks.insert(group);
    Ok(Ok(Outcome::TaskCancelled { task_id: id.to_owned() }))
}

/// Changes a task. A new `next_run` is a new slot, with all its tries.
pub(super) fn change(
    c: &Connection,
    id: &str,
    scope: &Scope,
    change: &TaskChange,
    changes: &mut Changes,
) -> Applied {
    let changed = c
        .prepare_cached(
            "UPDATE tasks SET prompt = coalesce(?3, prompt), script = CASE WHEN ?4 IS NULL THEN script ELSE nullif(?4, '') END,
               schedule_type = coalesce(?5, schedule_type), schedule_value = coalesce(?6, schedule_value),
               context_mode = coalesce(?7, context_mode), catch_up = coalesce(?8, catch_up), output = coalesce(?9, output),
               status = coalesce(?10, status), next_run = coalesce(?11, next_run),
               slot = CASE WHEN ?11 IS NULL OR ?11 = next_run THEN slot END, tries = CASE WHEN ?11 IS NULL OR ?11 = next_run THEN tries ELSE 0 END
             WHERE id = ?1 AND (?2 IS NULL OR group_folder = ?2)",
        )?
        .execute(params![
            id,
            within(scope).map(Folder::as_str),
            change.prompt,
            change.script,
            change.schedule.as_ref().map(Schedule::type_name),
            change.schedule.as_ref().map(Schedule::value),
            change.context_mode.map(ContextMode::as_str),
            change.catch_up.map(CatchUp::as_str),
            change.output.map(OutputMode::as_str),
            change.status.map(TaskStatus::as_str),
            change.next_run.map(|at| at.0),
        ])?;
    let Some(task) = tasks::task(c, id)?.filter(|_| changed > 0) else {
        return Ok(Err(NotApplied::TaskGone { id: id.to_owned() }));
    };
    changes.tasks.insert(task.group.clone());
    let row = TaskRow::from(task);
    Ok(Ok(Outcome::TaskChanged { task_id: row.id, status: row.status, next_run: row.next_run }))
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
            status: TaskStatus::from_name(&task.status).unwrap_or(TaskStatus::Active),
            next_run: task.next_run,
        }
    }
}
