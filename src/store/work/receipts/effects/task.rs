//! Tasks: made, shown, changed, removed.

use ipc_handlers::{
    Folder, NewTask, NotApplied, Outcome, Schedule, Scope, TaskStatus, Time,
    effect::{CatchUp, ContextMode, OutputMode, TaskChange},
};
use rusqlite::{Connection, params};

use super::{super::LONGEST_REPLY, Applied, within};
use crate::domain::{
    runs::tasks::TaskLimits,
    time::zone::{Zone, Zones},
};
use crate::store::{
    Result,
    stored::tasks_of,
    work::{failing, tasks},
};

/// Stores a new task, under its own id or one that we make: `task-N`, with the row's number.
pub(in crate::store) fn create(
    c: &Connection,
    new: &NewTask,
    limits: &TaskLimits,
    clock: &Zone,
    now: Time,
) -> Applied {
    let group = new.group.as_str();
    if let Some(too_long) = too_long(Some(&new.prompt), new.script.as_ref(), limits) {
        return Ok(Err(too_long));
    }
    // The row comes first, so that no id has to be looked for. Nobody else sees it before it has its own.
    let inserted = c
        .prepare_cached(
            "INSERT INTO tasks (id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, catch_up, catch_up_window_ms, output, status, next_run, asked_slot, created_at)
             VALUES (coalesce(?1, 'new-' || lower(hex(randomblob(16)))), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?13, ?10, 'active', ?11, iif(?11 <= ?12, ?11, NULL), ?12)
             ON CONFLICT (id, group_folder) DO NOTHING",
        )?
        .execute(params![
            new.id, group, new.chat_jid, new.prompt, new.script, new.schedule.kind().as_str(), new.schedule.value(),
            new.context_mode.as_str(), new.catch_up.as_str(), new.output.as_str(), new.next_run.0, now.0, new.catch_up_window_ms
        ])?;
    if inserted == 0 {
        return Ok(Err(NotApplied::TaskIdTaken { id: new.id.clone().unwrap_or_default() }));
    }
    let (count, bytes) = tasks_of(c, &new.group)?;
    if count > limits.count {
        return Ok(Err(NotApplied::TooManyTasks { group: new.group.clone(), most: limits.count }));
    }
    if bytes > limits.bytes {
        return Ok(Err(NotApplied::TasksTooLarge { group: new.group.clone(), most: limits.bytes }));
    }
    let task_id = match &new.id {
        Some(id) => id.clone(),
        None => name(c, c.last_insert_rowid(), group)?,
    };
    let in_words = new.schedule.in_words(&clock.zone, &clock.name);
    Ok(Ok(Outcome::TaskCreated { task_id, group: new.group.clone(), next_run: new.next_run, in_words }))
}

/// Names a new row by its number. Where its group has called another one so, letters that nobody can foresee are added:
/// one look is enough, whatever names were taken beforehand.
fn name(c: &Connection, n: i64, group: &str) -> Result<String> {
    Ok(c.prepare_cached(
        "UPDATE tasks SET id = 'task-' || ?1 ||
           CASE WHEN EXISTS (SELECT 1 FROM tasks t WHERE t.id = 'task-' || ?1 AND t.group_folder = ?2) THEN '-' || lower(hex(randomblob(4))) ELSE '' END
         WHERE n = ?1 RETURNING id",
    )?
    .query_row(params![n, group], |r| r.get(0))?)
}

/// Says what is longer than it may be, if something is.
fn too_long(prompt: Option<&String>, script: Option<&String>, limits: &TaskLimits) -> Option<NotApplied> {
    let fields = [("prompt", prompt, limits.prompt), ("script", script, limits.script)];
    fields.into_iter().find_map(|(field, text, most)| {
        let bytes = text?.len();
        (bytes > most).then_some(NotApplied::TaskTooLong { field, bytes, most })
    })
}

/// How many tasks a page has at most.
const MOST_LISTED: usize = 1_000;

/// Reads a page of the tasks that the caller may see.
pub(super) fn list(
    c: &Connection,
    scope: &Scope,
    after: Option<i64>,
    limit: Option<i64>,
    zones: &Zones,
) -> Applied {
    let limit =
        limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MOST_LISTED).clamp(1, MOST_LISTED);
    let (tasks, next) = tasks::page_of(c, within(scope), after, limit, LONGEST_REPLY, zones)?;
    Ok(Ok(Outcome::Tasks { tasks, next }))
}

/// Removes a task.
pub(super) fn cancel(c: &Connection, group: &Folder, id: &str) -> Applied {
    if !tasks::cancel(c, group, id)? {
        return Ok(Err(NotApplied::TaskGone { id: id.to_owned() }));
    }
    Ok(Ok(Outcome::TaskCancelled { task_id: id.to_owned() }))
}

/// The statement that changes a task, after what `$words` changes of it.
macro_rules! change {
    ($words:literal) => {
        concat!(
            "UPDATE tasks SET ",
            $words,
            "context_mode = coalesce(?7, context_mode), catch_up = coalesce(?8, catch_up), output = coalesce(?9, output),
             catch_up_window_ms = coalesce(?13, catch_up_window_ms), status = coalesce(?10, status),
             next_run = coalesce(CASE WHEN ?12 AND ?5 IS NULL AND rest_until IS NOT NULL THEN slot END, ?11, next_run),
             rest_until = CASE WHEN ?11 IS NULL AND NOT ?12 THEN rest_until END,
             failures = iif(?12, 0, failures), failures_told = iif(?12, 0, failures_told),
             paused_for = CASE WHEN ?10 IS NULL THEN paused_for END,
             next_slot = CASE WHEN ?11 IS NULL OR ?11 = next_run THEN next_slot END, accounted = iif(?11 IS NULL OR ?11 = next_run, accounted, ?14),
             asked_slot = CASE WHEN ?11 IS NULL THEN asked_slot WHEN ?11 <= ?14 THEN ?11 END,
             slot = CASE WHEN ?11 IS NULL OR ?11 = next_run THEN slot END, tries = iif(?11 IS NULL OR ?11 = next_run, tries, 0),
             free_returns = iif(?11 IS NULL OR ?11 = next_run, free_returns, 0), held_up_since = iif(?11 IS NULL OR ?11 = next_run, held_up_since, NULL)
             WHERE id = ?1 AND group_folder = ?2",
        )
    };
}

/// Changes a task whose prompt, script and schedule stay as they are.
const CHANGE: &str = change!("");
/// Changes any task.
const CHANGE_WITH_WORDS: &str = change!(
    "prompt = coalesce(?3, prompt), script = CASE WHEN ?4 IS NULL THEN script ELSE nullif(?4, '') END,
     schedule_type = coalesce(?5, schedule_type), schedule_value = coalesce(?6, schedule_value), "
);

/// Changes a task. A new `next_run` is a new slot, with all its tries; one that is due already was asked for. If its rest ends,
/// the occurrence that was put off is due when it was due, unless the schedule is new.
pub(in crate::store) fn change(
    c: &Connection,
    group: &Folder,
    id: &str,
    change: &TaskChange,
    limits: &TaskLimits,
    clock: &Zone,
    now: Time,
) -> Applied {
    if let Some(too_long) = too_long(change.prompt.as_ref(), change.script.as_ref(), limits) {
        return Ok(Err(too_long));
    }
    let (_, before) = tasks_of(c, group)?;
    // What stays as it is costs no page of the indexes that hold its length.
    let words = change.prompt.is_some() || change.script.is_some() || change.schedule.is_some();
    let changed = c.prepare_cached(if words { CHANGE_WITH_WORDS } else { CHANGE })?.execute(params![
        id,
        group.as_str(),
        change.prompt,
        change.script,
        change.schedule.as_ref().map(|schedule| schedule.kind().as_str()),
        change.schedule.as_ref().map(Schedule::value),
        change.context_mode.map(ContextMode::as_str),
        change.catch_up.map(CatchUp::as_str),
        change.output.map(OutputMode::as_str),
        change.status.map(TaskStatus::as_str),
        change.next_run.map(|at| at.0),
        change.afresh,
        change.catch_up_window_ms,
        now.0,
    ])?;
    if change.afresh {
        failing::forget(c, group, id)?;
    }
    let task = tasks::facts_of(c, id, Some(group), group)?.into_iter().next();
    let Some(task) = task.filter(|_| changed > 0) else {
        return Ok(Err(NotApplied::TaskGone { id: id.to_owned() }));
    };
    // A group beyond its limit can still make its tasks smaller.
    let (_, after) = tasks_of(c, group)?;
    if after > limits.bytes && after > before {
        return Ok(Err(NotApplied::TasksTooLarge { group: task.group, most: limits.bytes }));
    }
    let in_words = tasks::in_words(task.schedule_type, &task.schedule_value, clock);
    Ok(Ok(Outcome::TaskChanged { task_id: task.id, status: task.status, next_run: task.next_run, in_words }))
}
