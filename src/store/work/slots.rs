//! A task among its slots: where it stands, and what became of those that did not run.

use ipc_handlers::{Folder, Refusal, Schedule, ScheduleKind, TaskStatus, Time, effect::CatchUp};
use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::{
    runs::slots::{self, Moment, Next, Passed, Plan, Rules, Stand, WINDOW_MS},
    states::SlotReason,
    time::zone::Zones,
};
use crate::store::{Result, columns::Columns as _};

/// By which clocks tasks run.
#[derive(Clone, Debug)]
pub struct TaskClock {
    pub zones: Zones,
    /// Since when the daemon has been up without a break.
    pub up_since: Time,
    /// How long after one slot that is made up for the next one is, ms.
    pub spacing_ms: i64,
}

/// How far apart slots are that are made up for, where the settings don't say: a minute, ms.
const SPACING_MS: i64 = 60_000;

impl From<Zones> for TaskClock {
    /// The clocks of a daemon that was never down.
    fn from(zones: Zones) -> Self {
        Self { zones, up_since: Time(i64::MIN), spacing_ms: SPACING_MS }
    }
}

impl TaskClock {
    /// Returns this instant, for a task whose group has had something left of its budget since `left_since`.
    pub(in crate::store) fn at(&self, now: Time, left_since: Option<Time>) -> Moment {
        let (up_since, down) = match left_since {
            Some(left) if left > self.up_since => (left, SlotReason::Budget),
            Some(_) | None => (self.up_since, SlotReason::HostDown),
        };
        Moment { now, up_since, down, spacing_ms: self.spacing_ms }
    }
}

/// Where a task stands, as its row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Standing {
    kind: ScheduleKind,
    value: String,
    catch_up: CatchUp,
    window_ms: i64,
    status: TaskStatus,
    next_run: Option<Time>,
    next_slot: Option<Time>,
    /// The slot of its newest run, until that is through.
    slot: Option<Time>,
    accounted: Option<Time>,
    asked_slot: Option<Time>,
    pub(in crate::store) tries: i64,
    /// Its tries that did not count.
    pub(in crate::store) free_returns: i64,
}

pub(in crate::store) fn standing(c: &Connection, group: &Folder, id: &str) -> Result<Option<Standing>> {
    Ok(c.prepare_cached(
        "SELECT schedule_type, schedule_value, catch_up, catch_up_window_ms, status, next_run, next_slot, slot, accounted, asked_slot, tries, free_returns
         FROM tasks WHERE id = ?1 AND group_folder = ?2",
    )?
    .query_row([id, group.as_str()], |r| {
        Ok(Standing {
            kind: r.word("tasks", "schedule_type")?,
            value: r.get("schedule_value")?,
            catch_up: r.word("tasks", "catch_up")?,
            window_ms: r.get::<_, Option<i64>>("catch_up_window_ms")?.unwrap_or(WINDOW_MS),
            status: r.word("tasks", "status")?,
            next_run: r.time_or_null("next_run")?,
            next_slot: r.time_or_null("next_slot")?,
            slot: r.time_or_null("slot")?,
            accounted: r.time_or_null("accounted")?,
            asked_slot: r.time_or_null("asked_slot")?,
            tries: r.get("tries")?,
            free_returns: r.get("free_returns")?,
        })
    })
    .optional()?)
}

/// The same of a task whose run is under way.
pub(in crate::store) fn running(c: &Connection, group: &Folder, id: &str) -> Result<Option<Standing>> {
    let is_running: bool = c
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_one_per_group WHERE for_task = ?1 AND group_folder = ?2 AND status IN ('queued', 'running'))")?
        .query_row([id, group.as_str()], |r| r.get(0))?;
    if is_running { standing(c, group, id) } else { Ok(None) }
}

impl Standing {
    /// Whether it runs at the times of an expression.
    pub(in crate::store) fn is_cron(&self) -> bool {
        self.kind == ScheduleKind::Cron
    }

    /// Whether it is to be started now.
    pub(in crate::store) fn is_due(&self, now: Time) -> bool {
        self.status == TaskStatus::Active && self.next_run.is_some_and(|at| at <= now)
    }

    /// Decides what it does now that it is due; walks through slots, so beside the writer.
    ///
    /// # Errors
    /// Its schedule can't be read.
    pub(in crate::store) fn plan(
        &self,
        zone: &TimeZone,
        moment: Moment,
    ) -> std::result::Result<Plan, Refusal> {
        let schedule = self.schedule(zone, moment.now)?;
        let due = self.next_slot.or(self.next_run).unwrap_or(moment.now);
        let stand = match self.slot {
            Some(slot) => Stand::Again { slot, accounted: self.accounted.unwrap_or(slot) },
            None if self.asked_slot == Some(due) => Stand::Asked(due),
            None => Stand::Due(due),
        };
        Ok(slots::plan(self.rules(&schedule, zone), stand, moment))
    }

    /// Returns what becomes of the slots that have come since the start of its run, which is under way; `None`: none has, or
    /// what is due is none of the grid.
    pub(in crate::store) fn skip(&self, zone: &TimeZone, now: Time) -> Option<Plan> {
        let due = self.next_run.filter(|_| self.is_due(now) && self.next_slot.is_none())?;
        let schedule = self.schedule(zone, now).ok().filter(|_| self.asked_slot != Some(due))?;
        Some(slots::skipped(self.rules(&schedule, zone), due, now))
    }

    /// Passes over each slot up to now, and the one that was under way, or was to be tried again. `None`: its schedule can't be read.
    pub(in crate::store) fn pass_over(&self, zone: &TimeZone, now: Time) -> Option<Plan> {
        let schedule = self.schedule(zone, now).ok()?;
        let (slot, first) = match (self.slot, self.next_slot.or(self.next_run)) {
            (Some(slot), _) => {
                let known = self.accounted.map_or(slot, |at| at.max(slot));
                (slot, schedule.next_after(slot, known, zone))
            }
            (None, Some(due)) => (due, Some(due)),
            (None, None) => return None,
        };
        let rules = self.rules(&schedule, zone);
        let passed = first.and_then(|first| slots::passed(rules, first, now, SlotReason::HostDown));
        Some(Plan {
            run: None,
            next: schedule.next_after(slot, now, zone).map(|at| Next { at, slot: None }),
            passed: passed.into_iter().collect(),
            accounted: now,
        })
    }

    /// Returns the slots that came while it was paused.
    fn paused(&self, zone: &TimeZone, now: Time) -> Option<Passed> {
        let is_paused = self.status == TaskStatus::Paused && self.kind != ScheduleKind::Once;
        let due = self.next_run.filter(|at| is_paused && *at <= now)?;
        let schedule = self.schedule(zone, now).ok()?;
        let first = match (self.slot, self.next_slot) {
            // It was to be tried again: it is in the history already.
            (Some(slot), _) => {
                schedule.next_after(slot, self.accounted.map_or(slot, |at| at.max(slot)), zone)?
            }
            (None, Some(missed)) => missed,
            (None, None) => due,
        };
        slots::passed(self.rules(&schedule, zone), first, now, SlotReason::Paused)
    }

    fn schedule(&self, zone: &TimeZone, now: Time) -> std::result::Result<Schedule, Refusal> {
        Schedule::parse(self.kind.as_str(), &self.value, zone, now)
    }

    fn rules<'a>(&self, schedule: &'a Schedule, zone: &'a TimeZone) -> Rules<'a> {
        Rules { schedule, zone, catch_up: self.catch_up, window_ms: self.window_ms }
    }
}

/// Writes down that a task goes on as planned: when it is due next, and what became of the slots that have passed.
pub(in crate::store) fn go_on(
    c: &Connection,
    group: &Folder,
    id: &str,
    plan: &Plan,
    now: Time,
) -> Result<()> {
    let (at, slot) = (plan.next.map(|next| next.at.0), plan.next.and_then(|next| next.slot));
    c.prepare_cached(
        "UPDATE tasks SET next_run = ?3, next_slot = ?4, accounted = ?5, asked_slot = NULL WHERE id = ?1 AND group_folder = ?2",
    )?
    .execute(params![id, group.as_str(), at, slot.map(|slot| slot.0), plan.accounted.0])?;
    for passed in &plan.passed {
        note(c, group, id, passed, now)?;
    }
    Ok(())
}

/// Notes the slots that came while a task was paused, before it is resumed.
pub(in crate::store) fn note_paused(
    c: &Connection,
    group: &Folder,
    id: &str,
    zone: &TimeZone,
    now: Time,
) -> Result<()> {
    match standing(c, group, id)?.and_then(|standing| standing.paused(zone, now)) {
        Some(passed) => note(c, group, id, &passed, now),
        None => Ok(()),
    }
}

/// Has the host pause a task that can't run.
pub(in crate::store) fn pause(c: &Connection, group: &Folder, id: &str, reason: &str) -> Result<()> {
    c.prepare_cached(
        "UPDATE tasks SET status = 'paused', paused_for = ?3 WHERE id = ?1 AND group_folder = ?2 AND status = 'active'",
    )?
    .execute([id, group.as_str(), reason])?;
    Ok(())
}

/// The same for all tasks of a group that are for a chat; returns them.
pub(in crate::store) fn pause_of_chat(
    c: &Connection,
    group: &Folder,
    chat: &str,
    reason: &str,
) -> Result<Vec<String>> {
    Ok(c.prepare_cached(
        "UPDATE tasks SET status = 'paused', paused_for = ?3 WHERE group_folder = ?1 AND chat_jid = ?2 AND status = 'active' RETURNING id",
    )?
    .query_map([group.as_str(), chat, reason], |r| r.get("id"))?
    .collect::<rusqlite::Result<_>>()?)
}

/// Notes slots that did not run. Where the row before is about the same, with no run between, they are added to it.
fn note(c: &Connection, group: &Folder, id: &str, passed: &Passed, now: Time) -> Result<()> {
    let after_run: i64 = c
        .prepare_cached("SELECT coalesce(max(id), 0) FROM runs WHERE for_task = ?1 AND group_folder = ?2")?
        .query_row([id, group.as_str()], |r| r.get(0))?;
    let added = c
        .prepare_cached(
            "UPDATE slots SET last = ?3, count = count + ?4, at_least = max(at_least, ?5), at = ?6
             WHERE id = (SELECT max(id) FROM slots WHERE group_folder = ?1 AND task = ?2) AND reason = ?7 AND after_run = ?8 AND last < ?9",
        )?
        .execute(params![
            group.as_str(), id, passed.last.0, passed.count, passed.at_least, now.0, passed.reason.as_str(), after_run, passed.first.0
        ])?;
    if added == 0 {
        c.prepare_cached(
            "INSERT INTO slots (group_folder, task, first, last, count, at_least, outcome, reason, after_run, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            group.as_str(),
            id,
            passed.first.0,
            passed.last.0,
            passed.count,
            passed.at_least,
            passed.reason.outcome().as_str(),
            passed.reason.as_str(),
            after_run,
            now.0
        ])?;
    }
    Ok(())
}
