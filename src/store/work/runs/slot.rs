//! A task's slot, when its run has ended: done, tried again, or given up.

use ipc_handlers::{Schedule, Time};
use rusqlite::{Connection, params};

use super::{ActiveRun, EndOfRun};
use crate::domain::{
    host::zone::Zones,
    rows::Task,
    runs::judge::{self, Batch, Ended, Judgement, Reached, Said},
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
    ended: &Ended,
    error: Option<&str>,
    zones: &Zones,
    now: Time,
) -> Result<()> {
    let group = run.group.as_str();
    let Some(row) = tasks::task(c, &run.group, task)? else { return Ok(()) };
    let (tries, slot): (u32, Option<i64>) = c
        .prepare_cached("SELECT tries, slot FROM tasks WHERE id = ?1 AND group_folder = ?2")?
        .query_row([task, group], |r| Ok((r.get("tries")?, r.get("slot")?)))?;
    let asked: bool = c.query_row(
        "SELECT EXISTS (SELECT 1 FROM receipts WHERE run_id = ?1 AND outcome = 'applied')",
        [end.run],
        |r| r.get(0),
    )?;
    let said = if asked || said_after(c, end.run, 0)? { Said::Something } else { Said::Nothing };
    let judgement = if run.handled {
        Judgement::Done
    } else {
        // A slot is judged as a batch that lay on stdin. Nobody counts its free returns, so it has none.
        let batch = Batch { reached: Reached::OnStdin, said, tries, free_returns: judge::MAX_FREE_RETURNS };
        let (_, judgements) = judge::judge(ended, &[batch], end.retry_base_ms);
        judgements.into_iter().next().unwrap_or(Judgement::Done)
    };
    // A new schedule came while it ran: the slot that it has now is none of this run's.
    let ran: Option<i64> = c.query_row("SELECT slot FROM runs WHERE id = ?1", [end.run], |r| r.get(0))?;
    let moved_on = slot != ran;
    let over = |c: &Connection| -> Result<()> {
        if moved_on {
            return Ok(());
        }
        c.prepare_cached(
            // One that was paused meanwhile has run all the same.
            "UPDATE tasks SET slot = NULL, tries = 0, status = iif(schedule_type = 'once', 'completed', status),
               pause_reason = iif(schedule_type = 'once', NULL, pause_reason) WHERE id = ?1 AND group_folder = ?2",
        )?
        .execute([task, group])?;
        Ok(())
    };
    match judgement {
        Judgement::Done => {
            c.prepare_cached(
                "UPDATE tasks SET last_result = coalesce(last_result, 'Completed') WHERE id = ?1 AND group_folder = ?2",
            )?
            .execute([task, group])?;
            over(c)
        }
        Judgement::Returned { .. } if moved_on => Ok(()),
        Judgement::Returned { tries, rest_ms, .. } => {
            let again = now.plus_ms(rest_ms);
            let zone = zone_of(c, &row.group, zones)?.zone;
            let next = slot.and_then(|slot| next_slot(&row, Time(slot), now, &zone));
            match next {
                // The next occurrence is as near as another try of this one.
                Some(next) if next <= again => over(c),
                Some(_) | None => {
                    c.prepare_cached(
                        "UPDATE tasks SET next_run = ?2, tries = ?3 WHERE id = ?1 AND status <> 'completed' AND group_folder = ?4",
                    )?
                    .execute(params![task, again.0, tries, group])?;
                    Ok(())
                }
            }
        }
        Judgement::Failed { .. } => {
            let reason = error.unwrap_or("its run failed");
            let short: String = format!("Error: {reason}").chars().take(200).collect();
            c.prepare_cached("UPDATE tasks SET last_result = ?2 WHERE id = ?1 AND group_folder = ?3")?
                .execute(params![task, short, group])?;
            let text = judge::task_notice(ended, task, &row.prompt, tries, said);
            let cause = format!("notice: task {task} failed");
            crossing::said::said(
                c,
                &Key::TaskFailed { run: end.run },
                &Say {
                    chat_jid: &row.chat_jid,
                    text: &text,
                    cause: &cause,
                    run: Some(end.run),
                    ..Say::default()
                },
                now,
            )?;
            over(c)
        }
    }
}
