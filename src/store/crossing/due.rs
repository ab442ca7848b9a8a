//! A task that is due: it starts, for the slot that its catch-up rule says; or what has passed is noted alone; or it can't run, and
//! is paused. A chat is told of what it waits for in vain.

use ipc_handlers::{CRON_ENDS, Folder, Refusal, Time, effect::ContextMode};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    handover::{HandedTask, NO_GENERATION, Seat, seat},
    said::{Key, said},
    wake,
};
use crate::domain::{
    rows::Task,
    runs::{
        judge,
        slots::{Passed, Plan},
    },
    states::{RunKind, SandboxName, SlotReason, TaskOrigin},
};
use crate::store::{
    Result, Store,
    talk::{groups::zone_of, outbox::Say},
    work::{
        budgets,
        slots::{self, Standing, TaskClock},
        tasks::task,
    },
};

/// What came of a task that was due.
#[derive(Debug)]
pub struct TaskStart {
    pub what: Started,
    /// Its slots that have passed and do not run.
    pub passed: Vec<Passed>,
}

/// Whether it runs.
#[derive(Debug)]
pub enum Started {
    Run(Box<HandedTask>),
    /// None of the slots that have passed is made up for.
    Passed,
    /// It can't run, for this reason.
    Paused {
        reason: String,
    },
    /// It is not due any more: cancelled, paused, taken.
    NotDue,
}

impl TaskStart {
    const NOT_DUE: Self = Self { what: Started::NotDue, passed: Vec::new() };

    /// Returns the run, if there is one.
    #[must_use]
    pub fn run(self) -> Option<HandedTask> {
        match self.what {
            Started::Run(handed) => Some(*handed),
            Started::Passed | Started::Paused { .. } | Started::NotDue => None,
        }
    }
}

impl Store {
    /// Starts a run for a due task and moves its `next_run` on, in one transaction. Which slot it is for is decided before,
    /// beside the writer: where the task was changed meanwhile, nothing happens.
    pub async fn start_task(
        &self,
        group: &Folder,
        id: &str,
        sandbox: SandboxName,
        owner: &str,
        clock: impl Into<TaskClock>,
        now: Time,
    ) -> Result<TaskStart> {
        let clock = clock.into();
        let Some((standing, planned)) = self.read(|c| planned(c, group, id, &clock, now))? else {
            return Ok(TaskStart::NOT_DUE);
        };
        let (group, id, owner) = (group.clone(), id.to_owned(), owner.to_owned());
        let fresh_after_ms = self.bounds_now().fresh_after_ms;
        self.write(move |c| {
            let same = slots::standing(c, &group, &id)?.is_some_and(|now| now == standing);
            let Some(due) = task(c, &group, &id)?.filter(|_| same) else { return Ok(TaskStart::NOT_DUE) };
            let plan = match planned {
                Ok(plan) => plan,
                Err(refusal) => {
                    let reason = format!("its schedule can't be read: {}", refusal.message);
                    return pause(c, &due, reason, now);
                }
            };
            let Some(slot) = plan.run else { return pass(c, &due, plan, now) };
            match seat_of(c, &due)? {
                Some(seat) => {
                    let at = Start {
                        seat,
                        slot,
                        attempt: standing.tries + standing.free_returns + 1,
                        sandbox,
                        owner: &owner,
                        fresh_after_ms,
                    };
                    start(c, due, at, plan, now)
                }
                None => {
                    let reason = format!("its chat {} is not wired to group {group} any more", due.chat_jid);
                    pause(c, &due, reason, now)
                }
            }
        })
        .await
    }

    /// Passes over the slots that have come since the start of a task's run, which is under way; returns them.
    pub async fn skip_slots(
        &self,
        group: &Folder,
        id: &str,
        clock: &TaskClock,
        now: Time,
    ) -> Result<Vec<Passed>> {
        let found = self.read(|c| {
            let Some(standing) = slots::running(c, group, id)? else { return Ok(None) };
            let zone = zone_of(c, group, &clock.zones)?.zone;
            Ok(standing.skip(&zone, now).map(|plan| (standing, plan)))
        })?;
        let Some((standing, plan)) = found else { return Ok(Vec::new()) };
        let (group, id) = (group.clone(), id.to_owned());
        self.write(move |c| {
            // Where the run has ended meanwhile, what is due may be its next try.
            if slots::running(c, &group, &id)?.is_none_or(|now| now != standing) {
                return Ok(Vec::new());
            }
            slots::go_on(c, &group, &id, &plan, now)?;
            Ok(plan.passed)
        })
        .await
    }
}

/// Decides what a task does that is due, if it is; `Err`: its schedule can't be read.
fn planned(
    c: &Connection,
    group: &Folder,
    id: &str,
    clock: &TaskClock,
    now: Time,
) -> Result<Option<(Standing, std::result::Result<Plan, Refusal>)>> {
    let is_due = |standing: &Standing| standing.is_due(now) && (now < CRON_ENDS || !standing.is_cron());
    let Some(standing) = slots::standing(c, group, id)?.filter(is_due) else {
        return Ok(None);
    };
    let zone = zone_of(c, group, &clock.zones)?.zone;
    let plan = standing.plan(&zone, clock.at(now, budgets::left_since(c, group)?));
    Ok(Some((standing, plan)))
}

/// Returns where a task runs; `None`: its chat is no chat of its group any more.
fn seat_of(c: &Connection, due: &Task) -> Result<Option<Seat>> {
    c.prepare_cached("INSERT INTO lanes (group_folder, chat_jid) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM chats WHERE jid = ?2) ON CONFLICT DO NOTHING")?
        .execute(params![due.group.as_str(), due.chat_jid])?;
    let lane: Option<i64> = c
        .prepare_cached("SELECT id FROM lanes WHERE group_folder = ?1 AND chat_jid = ?2 AND thread = ''")?
        .query_row(params![due.group.as_str(), due.chat_jid], |r| r.get(0))
        .optional()?;
    Ok(lane.map(|lane| seat(c, lane)).transpose()?.flatten().filter(|seat| seat.wired))
}

/// With what a run is made.
struct Start<'a> {
    seat: Seat,
    slot: Time,
    /// Of the same slot.
    attempt: i64,
    sandbox: SandboxName,
    owner: &'a str,
    fresh_after_ms: Option<i64>,
}

fn start(c: &Connection, due: Task, at: Start<'_>, plan: Plan, now: Time) -> Result<TaskStart> {
    let Start { mut seat, slot, attempt, sandbox, owner, fresh_after_ms } = at;
    let kind = match due.origin {
        TaskOrigin::Asked => RunKind::Task,
        TaskOrigin::Heartbeat => RunKind::Heartbeat,
    };
    let in_group = due.context_mode == ContextMode::Group;
    let generation = if in_group { seat.generation } else { NO_GENERATION };
    // Before the run is there: what has passed lies behind the run before it.
    slots::go_on(c, &due.group, &due.id, &plan, now)?;
    c.prepare_cached(
        "INSERT INTO runs (group_folder, lane_id, chat_jid, kind, for_task, slot, attempt, status, owner, sandbox, generation, created_at)
         VALUES (?1, ?2, ?3, ?11, ?4, ?5,
           -- Whatever came between: a slot can be asked for again, and tried anew.
           max(?6, 1 + coalesce((SELECT max(r.attempt) FROM runs r INDEXED BY runs_slot_once
             WHERE r.group_folder = ?1 AND r.for_task = ?4 AND r.slot = ?5 AND r.slot IS NOT NULL AND r.started_at IS NOT NULL), 0)),
           'queued', ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        due.group.as_str(), seat.lane, due.chat_jid, due.id, slot.0, attempt, owner, sandbox.as_str(), generation, now.0,
        kind.as_str()
    ])?;
    let run = c.last_insert_rowid();
    c.prepare_cached(
        "UPDATE tasks SET slot = ?2, last_run = ?3, last_result = NULL, rest_until = NULL WHERE id = ?1 AND group_folder = ?4",
    )?
    .execute(params![due.id, slot.0, now.0, due.group.as_str()])?;
    let earlier = match in_group {
        true => {
            let decided = wake::decide(c, &seat, fresh_after_ms, now)?;
            wake::keep(c, &mut seat, run, decided, i64::MAX, now)?
        }
        false => Vec::new(),
    };
    let handed = HandedTask {
        earlier,
        run,
        is_main: seat.is_main,
        lane: seat.lane,
        generation,
        session_id: seat.session_id.filter(|_| in_group),
        task: due,
    };
    Ok(TaskStart { what: Started::Run(Box::new(handed)), passed: plan.passed })
}

/// Nothing of what has passed runs. A task without a next time is over, and its chat is told.
fn pass(c: &Connection, due: &Task, plan: Plan, now: Time) -> Result<TaskStart> {
    slots::go_on(c, &due.group, &due.id, &plan, now)?;
    if plan.next.is_none() {
        let reason = plan.passed.last().map_or(SlotReason::HostDown, |passed| passed.reason);
        c.prepare_cached(
            "UPDATE tasks SET status = 'completed', last_result = ?3 WHERE id = ?1 AND group_folder = ?2",
        )?
        .execute([&due.id, due.group.as_str(), &format!("Missed: {}", reason.says())])?;
        tell(c, due, "missed", &judge::missed_notice(reason), now)?;
    }
    Ok(TaskStart { what: Started::Passed, passed: plan.passed })
}

fn pause(c: &Connection, due: &Task, reason: String, now: Time) -> Result<TaskStart> {
    slots::pause(c, &due.group, &due.id, &reason)?;
    tell(c, due, "paused", &format!("is paused: {reason}."), now)?;
    Ok(TaskStart { what: Started::Paused { reason }, passed: Vec::new() })
}

/// Tells a task's chat what became of it.
fn tell(c: &Connection, task: &Task, what: &'static str, text: &str, now: Time) -> Result<()> {
    let text = format!("{} {text}", judge::task_named(&task.id, &task.prompt));
    let cause = format!("task {} {what}", task.id);
    let key = Key::Task { group: task.group.clone(), id: task.id.clone(), what, at: now };
    said(c, &key, &Say::notice(&task.chat_jid, "", &text, &cause), now)?;
    Ok(())
}
