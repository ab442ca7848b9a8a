//! A task's slot, when its run has ended: done, tried again, or given up.

use ipc_handlers::{Schedule, Time};
use rusqlite::{Connection, params};

use super::{ActiveRun, EndOfRun};
use crate::domain::{
    rows::Task,
    runs::{
        hindrance::{Hindrance, TOLD_FROM_MS},
        judge::{self, Batch, Cause, Ended, Fault, Judgement, Reached, Said},
        retry,
        stop::StopThen,
        tasks::{GaveUp, HeldUp, Then, Told, after_failures, held_up},
    },
    time::{times, zone::Zones},
};
use crate::store::{
    Result,
    crossing::{
        self,
        said::{Key, said_after},
    },
    talk::{groups::zone_of, outbox::Say},
    work::tasks,
};

/// Returns the slot of a task that follows `slot` and is still to come.
fn next_slot(task: &Task, slot: Time, now: Time, zone: &jiff::tz::TimeZone) -> Option<Time> {
    let schedule = Schedule::parse(task.schedule_type.as_str(), &task.schedule_value, zone, now).ok()?;
    schedule.next_after(slot, now, zone)
}

/// What becomes of a task's slot: done, tried again after a rest, or given up and told.
#[expect(clippy::too_many_arguments, reason = "one step of `finish`, with its values")]
pub(super) fn judge_task(
    c: &Connection,
    run: &ActiveRun,
    task: &str,
    end: &EndOfRun,
    (ended, rests_ms): (&Ended, Option<i64>),
    error: Option<&str>,
    zones: &Zones,
    now: Time,
) -> Result<()> {
    let group = run.group.as_str();
    let Some(row) = tasks::task(c, &run.group, task)? else { return Ok(()) };
    let (tries, free_returns, slot): (u32, u32, Option<i64>) = c
        .prepare_cached("SELECT tries, free_returns, slot FROM tasks WHERE id = ?1 AND group_folder = ?2")?
        .query_row([task, group], |r| Ok((r.get("tries")?, r.get("free_returns")?, r.get("slot")?)))?;
    let asked: bool = c.query_row(
        "SELECT EXISTS (SELECT 1 FROM receipts WHERE run_id = ?1 AND outcome = 'applied')",
        [end.run],
        |r| r.get(0),
    )?;
    let said = if asked || said_after(c, end.run, 0)? { Said::Something } else { Said::Nothing };
    // A new schedule came while it ran: the slot that it has now is none of this run's.
    let ran: Option<i64> = c.query_row("SELECT slot FROM runs WHERE id = ?1", [end.run], |r| r.get(0))?;
    let moved_on = slot != ran;
    let may_wait = !run.handled && said == Said::Nothing && !moved_on;
    let is_nobodys = matches!(ended.cause, Cause::OwnerGone | Cause::OutOfBudget);
    let judgement = if run.handled {
        Judgement::Done
    } else {
        // A slot is judged as a batch that lay on stdin. It comes back at no cost from our own death, or with the budget.
        let free_returns = if is_nobodys { free_returns } else { judge::MAX_FREE_RETURNS };
        let retries = retry::TASK_RETRIES;
        let batch = Batch { reached: Reached::OnStdin, said, tries, free_returns, retries };
        let (_, judgements) = judge::judge(ended, &[batch], end.retry_base_ms);
        judgements.into_iter().next().unwrap_or(Judgement::Done)
    };
    let over = |c: &Connection| -> Result<()> {
        if moved_on {
            return Ok(());
        }
        c.prepare_cached(
            // One that was paused meanwhile has run all the same.
            "UPDATE tasks SET slot = NULL, tries = 0, free_returns = 0, held_up_since = NULL, status = iif(schedule_type = 'once', 'completed', status),
               paused_for = iif(schedule_type = 'once', NULL, paused_for) WHERE id = ?1 AND group_folder = ?2",
        )?
        .execute([task, group])?;
        Ok(())
    };
    if may_wait && judge::could_not_begin(ended) {
        let rests_ms = rests_ms.filter(|_| judge::hindrance(ended).is_some_and(Hindrance::is_weather));
        let off = PutOff { row: &row, run, ended, error, base_ms: end.retry_base_ms, rests_ms, zones };
        return match off.put_off(c, now)? {
            HeldUp::Waits { .. } => Ok(()),
            HeldUp::Over => over(c),
        };
    }
    if let (Cause::Cancelled { by, then }, false) = (&ended.cause, run.handled) {
        match then {
            StopThen::GiveUp => over(c)?,
            StopThen::AskAgain if moved_on => {}
            StopThen::AskAgain => {
                c.prepare_cached(
                    "UPDATE tasks SET next_run = ?2 WHERE id = ?1 AND group_folder = ?3 AND status = 'active'",
                )?
                .execute(params![task, now.0, group])?;
            }
        }
        c.prepare_cached("UPDATE tasks SET last_result = ?3 WHERE id = ?1 AND group_folder = ?2")?
            .execute(params![task, group, format!("Stopped by {by}")])?;
        return tell(c, &row, run, &judge::stop_notice(task, &row.prompt, *then), now);
    }
    match judgement {
        Judgement::Done => {
            c.prepare_cached(
                "UPDATE tasks SET last_result = coalesce(last_result, 'Completed'), failures = 0, failures_told = 0 WHERE id = ?1 AND group_folder = ?2",
            )?
            .execute([task, group])?;
            over(c)
        }
        Judgement::Returned { .. } if moved_on => Ok(()),
        Judgement::Returned { tries: spent, rest_ms, free_returns: free } => {
            let again = now.plus_ms(rest_ms);
            let zone = zone_of(c, &row.group, zones)?.zone;
            let next = slot.and_then(|slot| next_slot(&row, Time(slot), now, &zone));
            // The next occurrence is as near as another try of this one.
            if spent > tries && next.is_some_and(|next| next <= again) {
                over(c)?;
                let failed = Failed { how: GaveUp::ForTheNext, row: &row, run, ended, error };
                return failed.count(c, tries, said, now);
            }
            let free = if is_nobodys { free } else { free_returns };
            c.prepare_cached(
                "UPDATE tasks SET next_run = ?2, tries = ?3, free_returns = ?5, held_up_since = NULL
                 WHERE id = ?1 AND status <> 'completed' AND group_folder = ?4",
            )?
            .execute(params![task, again.0, spent, group, free])?;
            Ok(())
        }
        Judgement::Failed { .. } => {
            over(c)?;
            Failed { how: GaveUp::ForGood, row: &row, run, ended, error }.count(c, tries, said, now)
        }
    }
}

/// An occurrence that failed.
struct Failed<'a> {
    how: GaveUp,
    row: &'a Task,
    run: &'a ActiveRun,
    ended: &'a Ended,
    error: Option<&'a str>,
}

impl Failed<'_> {
    /// Counts it with those before it, tells the chat where that is due, and pauses the task that fails each time.
    fn count(&self, c: &Connection, tries: u32, said: Said, now: Time) -> Result<()> {
        let Self { how, row, run, ended, error } = *self;
        let (task, group) = (row.id.as_str(), row.group.as_str());
        let failures = row.failures + u32::from(judge::fault(ended) == Fault::Agents);
        let then = after_failures(failures, how, told(c, row)?, row.schedule_type);
        let reason = error.unwrap_or("its run failed");
        let short = shortened(reason);
        let paused_for = (then == Then::Pause)
            .then(|| format!("failed {failures} times in a row, the last time: {reason}"));
        c.prepare_cached(
            "UPDATE tasks SET last_result = ?3, failures = ?4, failures_told = max(failures_told, ?5),
               status = CASE WHEN ?6 IS NOT NULL AND status = 'active' THEN 'paused' ELSE status END,
               paused_for = CASE WHEN ?6 IS NOT NULL AND status = 'active' THEN ?6 ELSE paused_for END
             WHERE id = ?1 AND group_folder = ?2",
        )?
        .execute(params![task, group, short, failures, then != Then::Quiet, paused_for])?;
        let text = match then {
            Then::Quiet => return Ok(()),
            Then::Tell => {
                judge::task_notice(ended, task, &row.prompt, tries.max(failures.saturating_sub(1)), said)
            }
            Then::Pause => judge::pause_notice(ended, task, &row.prompt, failures),
        };
        tell(c, row, run, &text, now)
    }
}

/// An occurrence that the host could not have run.
struct PutOff<'a> {
    row: &'a Task,
    run: &'a ActiveRun,
    ended: &'a Ended,
    error: Option<&'a str>,
    base_ms: i64,
    /// How long a limit of the model lasts.
    rests_ms: Option<i64>,
    zones: &'a Zones,
}

impl PutOff<'_> {
    /// Puts it off, at no cost, unless its time is over; tells the chat where that is due.
    fn put_off(&self, c: &Connection, now: Time) -> Result<HeldUp> {
        let Self { row, run, ended, error, base_ms, rests_ms, zones } = *self;
        let (task, group) = (row.id.as_str(), row.group.as_str());
        let since: Option<i64> = c
            .prepare_cached("SELECT held_up_since FROM tasks WHERE id = ?1 AND group_folder = ?2")?
            .query_row([task, group], |r| r.get("held_up_since"))?;
        let since = since.map_or(now, Time).min(now);
        let told = told(c, row)?;
        let becomes = held_up(since, now, row.schedule_type, row.catch_up_window_ms, base_ms, told);
        let is_long_limit = rests_ms.is_some_and(|ms| ms >= TOLD_FROM_MS);
        let (again, tells) = match becomes {
            HeldUp::Waits { rest_ms, then } => (
                Some(now.plus_ms(rests_ms.unwrap_or(rest_ms))),
                then != Then::Quiet || (is_long_limit && told == Told::NotYet),
            ),
            HeldUp::Over => (None, true),
        };
        c.prepare_cached(
            "UPDATE tasks SET next_run = ?3, held_up_since = ?4, last_result = ?5, failures_told = max(failures_told, ?6)
             WHERE id = ?1 AND group_folder = ?2 AND status <> 'completed'",
        )?
        .execute(params![
            task,
            group,
            again.map(|again| again.0),
            since.0,
            shortened(error.unwrap_or("the host could not have it run")),
            tells
        ])?;
        if tells {
            let zone = zone_of(c, &row.group, zones)?.zone;
            let hour = again.filter(|_| is_long_limit).map(|again| times::clock(again, now, &zone));
            let text = judge::held_up_notice(ended, task, &row.prompt, becomes, hour.as_deref());
            tell(c, row, run, &text, now)?;
        }
        Ok(becomes)
    }
}

/// Whether a task's chat knows that it fails or waits.
fn told(c: &Connection, row: &Task) -> Result<Told> {
    let told: bool = c
        .prepare_cached("SELECT failures_told FROM tasks WHERE id = ?1 AND group_folder = ?2")?
        .query_row([row.id.as_str(), row.group.as_str()], |r| r.get("failures_told"))?;
    Ok(if told { Told::Already } else { Told::NotYet })
}

/// Returns what a task's row has of an error.
fn shortened(reason: &str) -> String {
    format!("Error: {reason}").chars().take(200).collect()
}

/// Tells a task's chat what its run came to.
fn tell(c: &Connection, row: &Task, run: &ActiveRun, text: &str, now: Time) -> Result<()> {
    let (cause, key) = (format!("task {} failed", row.id), Key::TaskFailed { run: run.id });
    let say = Say { run: Some(run.id), ..Say::notice(&row.chat_jid, "", text, &cause) };
    crossing::said::said(c, &key, &say, now)?;
    Ok(())
}
