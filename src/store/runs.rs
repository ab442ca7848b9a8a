//! The run ledger: from the row's making to its end. Every ending goes through [`Store::end_run`].

use ipc_handlers::{Folder, Time, wire};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    Result, Store, StoreError, folder,
    lanes::{WaitingLane, waiting},
    outbox::{Say, say},
};
use crate::domain::{
    health::{self, KILLS_WITHIN_MS, KillLoop, Readiness, Runner},
    judge::{self, Batch, BatchState, Cause, End, Ended, Judgement, RunStatus, Said},
    rows::{Run, Task},
};

/// A run that has not ended, as a restart or a supervisor needs it.
#[derive(Clone, Debug)]
pub struct ActiveRun {
    pub id: i64,
    pub group: Folder,
    pub lane: Option<i64>,
    pub kind: String,
    pub source: String,
    pub generation: i64,
    pub status: String,
    pub owner: Option<String>,
    pub sandbox: String,
    pub container: Option<String>,
    pub started: bool,
    pub ready: bool,
    pub closing: bool,
    pub deferred: bool,
    /// The turn of a task's run is over.
    pub handled: bool,
    pub protocol: Option<u32>,
    pub last_seq: u64,
    /// Batches it was handed and has not finished: (id, `stdin` or `input`).
    pub open: Vec<(i64, String)>,
}

impl ActiveRun {
    /// Whether its agent has finished with everything it was handed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ready
            && !self.deferred
            && if self.kind == "message" { self.open.is_empty() } else { self.handled }
    }

    /// Returns the task's id when it is a task's run.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.source.strip_prefix("task:")
    }
}

/// What a record changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    Applied {
        /// Something went into the outbox.
        said: bool,
        /// The agent has finished with everything it was handed.
        idle: bool,
    },
    /// The record was applied before.
    Known,
    /// Records between are missing: the run can't be trusted any more.
    Gap { expected: u64 },
}

/// What is known about a run whose container is certainly dead.
#[derive(Clone, Debug)]
pub struct EndOfRun {
    pub run: i64,
    pub end: End,
    pub cause: Cause,
    /// Batches of its `input/` that it had not taken.
    pub unread: Vec<i64>,
    /// First rest after a failure, ms.
    pub retry_base_ms: i64,
}

/// What follows from an end.
#[derive(Clone, Debug)]
pub struct RunEnded {
    /// What was wrong, if something was.
    pub error: Option<String>,
    /// The group's lanes in which something waits now.
    pub waiting: Vec<WaitingLane>,
}

impl Store {
    /// The container is made: its id goes on the row before it is started.
    pub async fn run_created(&self, run: i64, container: &str) -> Result<()> {
        let container = container.to_owned();
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE runs SET status = 'running', container = ?2 WHERE id = ?1 AND status = 'queued'",
            )?
            .execute(params![run, container])?;
            Ok(())
        })
        .await
    }

    /// The container was started.
    pub async fn run_started(&self, run: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE runs SET started_at = coalesce(started_at, ?2) WHERE id = ?1 AND ended_at IS NULL",
            )?
            .execute(params![run, now.0])?;
            Ok(())
        })
        .await
    }

    /// A runner that announces no protocol counts as ready once it was started.
    pub async fn run_ready_without_saying_so(&self, run: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE runs SET ready_at = coalesce(ready_at, ?2), protocol = coalesce(protocol, 1) WHERE id = ?1 AND ended_at IS NULL")?
                .execute(params![run, now.0])?;
            c.prepare_cached("UPDATE batches SET state = 'claimed' WHERE run_id = ?1 AND via = 'stdin' AND state = 'handed'")?
                .execute([run])?;
            Ok(())
        })
        .await
    }

    /// The runner was asked to leave: nothing more is handed to it.
    pub async fn run_closing(&self, run: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE runs SET closing_at = coalesce(closing_at, ?2) WHERE id = ?1 AND ended_at IS NULL",
            )?
            .execute(params![run, now.0])?;
            Ok(())
        })
        .await
    }

    /// The runner has taken these input files.
    pub async fn batches_claimed(&self, run: i64, batches: Vec<i64>) -> Result<()> {
        self.write(move |c| {
            for batch in batches {
                c.prepare_cached(
                    "UPDATE batches SET state = 'claimed' WHERE id = ?1 AND run_id = ?2 AND state = 'handed'",
                )?
                .execute([batch, run])?;
            }
            Ok(())
        })
        .await
    }

    /// Applies record number `n` of a run in one transaction: its number, what it says, the batches it has finished
    /// and, where the generation holds, the session.
    pub async fn record(&self, run: i64, n: u64, record: wire::Record, now: Time) -> Result<Recorded> {
        self.write(move |c| apply(c, run, n, &record, now)).await
    }

    /// A follow-up could not be placed: it waits again, at no cost.
    pub async fn take_back(&self, run: i64, batch: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE batches SET state = 'returned' WHERE id = ?1 AND run_id = ?2 AND state = 'handed'",
            )?
            .execute([batch, run])?;
            Ok(())
        })
        .await
    }

    /// Returns every run that has not ended, in order.
    pub fn active_runs(&self) -> Result<Vec<ActiveRun>> {
        self.read(|c| {
            let mut rows =
                c.prepare_cached(&format!("{ACTIVE} WHERE status IN ('queued', 'running') ORDER BY id"))?;
            let runs = rows.query_map([], active_row)?.collect::<rusqlite::Result<Vec<_>>>()?;
            runs.into_iter().map(|run| with_batches(c, run)).collect()
        })
    }

    /// Returns one run if it has not ended.
    pub fn active_run(&self, run: i64) -> Result<Option<ActiveRun>> {
        self.read(|c| {
            let found = c
                .prepare_cached(&format!("{ACTIVE} WHERE id = ?1 AND status IN ('queued', 'running')"))?
                .query_row([run], active_row)
                .optional()?;
            found.map(|run| with_batches(c, run)).transpose()
        })
    }

    /// Ends a run and judges each batch that it has not finished, in one transaction.
    pub async fn end_run(&self, end: EndOfRun, zone: jiff::tz::TimeZone, now: Time) -> Result<RunEnded> {
        self.write(move |c| finish(c, &end, &zone, now)).await
    }

    /// Returns runs, newest last; with `limit`, the newest ones.
    pub fn runs(&self, limit: Option<usize>) -> Result<Vec<Run>> {
        self.read(|c| {
            let limit = limit.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
            let mut rows = c.prepare_cached(
                "SELECT * FROM (SELECT id, group_folder, chat_jid, thread, kind, source, status, owner, sandbox, container, started_at, ended_at, last_seq, error
                 FROM runs ORDER BY id DESC LIMIT ?1) ORDER BY id",
            )?;
            Ok(rows
                .query_map([limit], |r| {
                    let (chat, thread): (String, String) = (r.get(2)?, r.get(3)?);
                    Ok(Run {
                        id: r.get(0)?,
                        group: folder(r.get(1)?)?,
                        lane: if thread.is_empty() { chat } else { format!("{chat}#{thread}") },
                        kind: r.get(4)?,
                        source: r.get(5)?,
                        status: r.get(6)?,
                        owner: r.get(7)?,
                        sandbox: r.get(8)?,
                        container: r.get(9)?,
                        started_at: r.get::<_, Option<i64>>(10)?.map(Time),
                        ended_at: r.get::<_, Option<i64>>(11)?.map(Time),
                        records: r.get(12)?,
                        error: r.get(13)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Counts runs that a restart found without their container since `since`.
    pub fn stale_recoveries(&self, since: Time) -> Result<i64> {
        self.read(|c| {
            Ok(c.query_row(
                "SELECT count(*) FROM runs WHERE ended_at >= ?1 AND error LIKE 'recovered stale active run%'",
                [since.0],
                |r| r.get(0),
            )?)
        })
    }
}

const ACTIVE: &str = "SELECT id, group_folder, lane_id, kind, source, generation, status, owner, sandbox, container, started_at IS NOT NULL, ready_at IS NOT NULL, closing_at IS NOT NULL, deferred, handled_at IS NOT NULL, protocol, last_seq FROM runs";

fn active_row(r: &Row<'_>) -> rusqlite::Result<ActiveRun> {
    Ok(ActiveRun {
        id: r.get(0)?,
        group: folder(r.get(1)?)?,
        lane: r.get(2)?,
        kind: r.get(3)?,
        source: r.get(4)?,
        generation: r.get(5)?,
        status: r.get(6)?,
        owner: r.get(7)?,
        sandbox: r.get(8)?,
        container: r.get(9)?,
        started: r.get(10)?,
        ready: r.get(11)?,
        closing: r.get(12)?,
        deferred: r.get(13)?,
        handled: r.get(14)?,
        protocol: r.get(15)?,
        last_seq: u64::try_from(r.get::<_, i64>(16)?).unwrap_or(0),
        open: Vec::new(),
    })
}

fn with_batches(c: &Connection, mut run: ActiveRun) -> Result<ActiveRun> {
    run.open = c
        .prepare_cached(
            "SELECT id, via FROM batches WHERE run_id = ?1 AND state IN ('handed', 'claimed') ORDER BY id",
        )?
        .query_map([run.id], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(run)
}

fn apply(c: &Connection, run: i64, n: u64, record: &wire::Record, now: Time) -> Result<Recorded> {
    let row = c
        .prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?
        .query_row([run], active_row)
        .optional()?
        .ok_or_else(|| StoreError::NotFound { what: "run", id: run.to_string() })?;
    if n <= row.last_seq || !matches!(row.status.as_str(), "queued" | "running") {
        return Ok(Recorded::Known);
    }
    if n != row.last_seq + 1 {
        return Ok(Recorded::Gap { expected: row.last_seq + 1 });
    }
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    c.prepare_cached("UPDATE runs SET last_seq = ?2 WHERE id = ?1")?.execute([run, n])?;
    if record.kind == wire::Kind::Ready {
        c.prepare_cached("UPDATE runs SET ready_at = coalesce(ready_at, ?2), protocol = ?3 WHERE id = ?1")?
            .execute(params![run, now.0, record.protocol.unwrap_or(wire::PROTOCOL)])?;
        c.prepare_cached(
            "UPDATE batches SET state = 'claimed' WHERE run_id = ?1 AND via = 'stdin' AND state = 'handed'",
        )?
        .execute([run])?;
    }
    let said = say_result(c, &row, n, record, now)?;
    // Only the last record's error tells how the run went.
    let error: Option<String> = match record.status {
        wire::Status::Error => {
            Some(record.error.as_deref().unwrap_or("an error without a text").chars().take(1000).collect())
        }
        wire::Status::Success => None,
    };
    c.prepare_cached("UPDATE runs SET error = ?2 WHERE id = ?1 AND error IS NOT ?2")?
        .execute(params![run, error])?;
    if let Some(session) = record.new_session_id.as_deref().filter(|id| is_session_id(id)) {
        c.prepare_cached("UPDATE lanes SET session_id = ?2 WHERE id = ?1 AND generation = ?3")?
            .execute(params![row.lane, session, row.generation])?;
    }
    for batch in &record.handled {
        if *batch == task_batch(run) {
            c.prepare_cached("UPDATE runs SET handled_at = coalesce(handled_at, ?2) WHERE id = ?1")?
                .execute([run, now.0])?;
        } else if let Ok(batch) = batch.parse::<i64>() {
            c.prepare_cached(
                "UPDATE batches SET state = 'done', ended_at = ?3 WHERE id = ?1 AND run_id = ?2 AND state IN ('handed', 'claimed')",
            )?
            .execute([batch, run, now.0])?;
        }
    }
    match record.kind {
        wire::Kind::Deferred => {
            c.prepare_cached("UPDATE runs SET deferred = 1 WHERE id = ?1")?.execute([run])?;
        }
        wire::Kind::Result => {
            c.prepare_cached("UPDATE runs SET deferred = 0 WHERE id = ?1 AND deferred = 1")?
                .execute([run])?;
        }
        wire::Kind::Ready | wire::Kind::Progress | wire::Kind::BlockedTool => {}
    }
    let after = c.prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?.query_row([run], active_row)?;
    Ok(Recorded::Applied { said, idle: with_batches(c, after)?.is_idle() })
}

/// Puts what a result says into the outbox; a task's only where its `output` is `chat`.
fn say_result(c: &Connection, run: &ActiveRun, n: i64, record: &wire::Record, now: Time) -> Result<bool> {
    let Some(result) = record.result.as_deref().filter(|_| record.kind == wire::Kind::Result) else {
        return Ok(false);
    };
    if record.status == wire::Status::Error {
        return Ok(false);
    }
    let text = ipc_handlers::outbound::strip_internal(result);
    if text.is_empty() {
        return Ok(false);
    }
    if let Some(task) = run.task() {
        let short: String = text.chars().take(200).collect();
        c.prepare_cached("UPDATE tasks SET last_result = ?2 WHERE id = ?1")?.execute(params![task, short])?;
        let to_chat: bool = c
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND output = 'chat')")?
            .query_row([task], |r| r.get(0))?;
        if !to_chat {
            return Ok(false);
        }
    }
    let (chat, thread): (String, String) = c
        .prepare_cached("SELECT chat_jid, thread FROM runs WHERE id = ?1")?
        .query_row([run.id], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let cause = format!("run {} record {n}", run.id);
    say(
        c,
        &Say {
            chat_jid: &chat,
            thread: &thread,
            text: &text,
            sender: None,
            reply_to: None,
            cause: &cause,
            run: Some(run.id),
        },
        now,
    )?;
    Ok(true)
}

fn is_session_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The id under which a batch is handed over: it also names a file, and v1's runners take files in the order of names.
#[must_use]
pub fn batch_name(batch: i64) -> String {
    format!("{batch:012}")
}

/// The batch id under which a task's prompt is handed over: it is no batch of a lane.
#[must_use]
pub fn task_batch(run: i64) -> String {
    format!("task-{run}")
}

/// Returns the occurrence of a task's schedule after `slot`, by its catch-up rule.
pub(super) fn next_slot(task: &Task, slot: Time, now: Time, zone: &jiff::tz::TimeZone) -> Option<Time> {
    let schedule =
        ipc_handlers::schedule::Schedule::parse(&task.schedule_type, &task.schedule_value, zone, now).ok()?;
    match task.catch_up.as_str() {
        "all" => {
            // At most the newest 24 missed occurrences are made up for.
            let mut slots = Vec::new();
            let mut at = slot;
            while let Some(next) = schedule.next_after(at, at, zone).filter(|next| *next <= now) {
                slots.push(next);
                at = next;
                if slots.len() > 10_000 {
                    break;
                }
            }
            let first_kept = slots.len().saturating_sub(24);
            slots.get(first_kept).copied().or_else(|| schedule.next_after(slot, now, zone))
        }
        _ => schedule.next_after(slot, now, zone),
    }
}

fn finish(c: &Connection, end: &EndOfRun, zone: &jiff::tz::TimeZone, now: Time) -> Result<RunEnded> {
    let row = c
        .prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?
        .query_row([end.run], active_row)
        .optional()?
        .ok_or_else(|| StoreError::NotFound { what: "run", id: end.run.to_string() })?;
    if !matches!(row.status.as_str(), "queued" | "running") {
        return Ok(RunEnded { error: None, waiting: waiting(c, Some(&row.group))? });
    }
    let ended = Ended {
        end: end.end.clone(),
        cause: end.cause.clone(),
        runner: match (row.protocol, row.ready) {
            (Some(1), _) => Runner::One,
            (_, true) => Runner::Two(Readiness::Ready),
            (_, false) => Runner::Two(Readiness::NotYet),
        },
        error_record: error_record(c, end.run)?,
    };
    let open = open_batches(c, end)?;
    let batches: Vec<Batch> = open.iter().map(|(_, _, batch)| *batch).collect();
    let (mut last, judgements) = judge::judge(&ended, &batches, end.retry_base_ms);
    if row.task().is_some() && !row.handled && last.status == RunStatus::Succeeded {
        last = judge::judge_run(&ended, 1);
    }
    let status = match last.status {
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    };
    let killed = matches!(end.cause, Cause::Unwell { .. } | Cause::NeverReady { .. }).then_some(now.0);
    c.prepare_cached("UPDATE runs SET status = ?2, ended_at = ?3, error = ?4, killed_at = ?5 WHERE id = ?1")?
        .execute(params![end.run, status, now.0, last.error, killed])?;
    for ((batch, lane, _), judgement) in open.iter().zip(judgements) {
        keep_judgement(c, end.run, *batch, *lane, judgement, now)?;
    }
    if killed.is_some() {
        rest_after_kills(c, &row, now)?;
    }
    if let Some(task) = row.task() {
        judge_task(c, &row, task, end, &ended, last.error.as_deref(), zone, now)?;
    }
    Ok(RunEnded { error: last.error, waiting: waiting(c, Some(&row.group))? })
}

/// The error of the run's last record, when that was an error record.
fn error_record(c: &Connection, run: i64) -> Result<Option<String>> {
    Ok(c.prepare_cached("SELECT error FROM runs WHERE id = ?1")?.query_row([run], |r| r.get(0))?)
}

/// The batches that a run has not finished, as (id, lane, what is known).
fn open_batches(c: &Connection, end: &EndOfRun) -> Result<Vec<(i64, i64, Batch)>> {
    Ok(c.prepare_cached(
        "SELECT b.id, b.lane_id, b.tries, b.free_returns, b.via,
                EXISTS (SELECT 1 FROM outbox o WHERE o.run_id = b.run_id AND o.id > b.outbox_mark)
             OR EXISTS (SELECT 1 FROM receipts r WHERE r.run_id = b.run_id AND r.outcome = 'applied' AND r.claim_id > b.claim_mark)
         FROM batches b WHERE b.run_id = ?1 AND b.state IN ('handed', 'claimed') ORDER BY b.id",
    )?
    .query_map([end.run], |r| {
        let (id, via): (i64, String) = (r.get(0)?, r.get(4)?);
        let batch = Batch {
            state: match via.as_str() {
                "stdin" => BatchState::OnStdin,
                _ if end.unread.contains(&id) => BatchState::FileUnread,
                _ => BatchState::FileTaken,
            },
            said: if r.get(5)? { Said::Something } else { Said::Nothing },
            tries: r.get(2)?,
            free_returns: r.get(3)?,
        };
        Ok((id, r.get(1)?, batch))
    })?
    .collect::<rusqlite::Result<_>>()?)
}

fn keep_judgement(
    c: &Connection,
    run: i64,
    batch: i64,
    lane: i64,
    judgement: Judgement,
    now: Time,
) -> Result<()> {
    match judgement {
        Judgement::Done => {
            c.prepare_cached("UPDATE batches SET state = 'done', ended_at = ?2 WHERE id = ?1")?
                .execute([batch, now.0])?;
        }
        Judgement::Returned { tries, free_returns, rest_ms } => {
            c.prepare_cached(
                "UPDATE batches SET state = 'returned', tries = ?2, free_returns = ?3 WHERE id = ?1",
            )?
            .execute(params![batch, tries, free_returns])?;
            if rest_ms > 0 {
                c.prepare_cached(
                    "UPDATE lanes SET rest_until = max(coalesce(rest_until, 0), ?2) WHERE id = ?1",
                )?
                .execute(params![lane, now.plus_ms(rest_ms).0])?;
            }
        }
        Judgement::Failed { notice } => {
            c.prepare_cached("UPDATE batches SET state = 'failed', ended_at = ?2 WHERE id = ?1")?
                .execute([batch, now.0])?;
            let (chat, thread): (String, String) = c
                .prepare_cached("SELECT chat_jid, thread FROM lanes WHERE id = ?1")?
                .query_row([lane], |r| Ok((r.get(0)?, r.get(1)?)))?;
            let cause = format!("notice: batch {batch} failed");
            say(
                c,
                &Say {
                    chat_jid: &chat,
                    thread: &thread,
                    text: &notice,
                    sender: None,
                    reply_to: None,
                    cause: &cause,
                    run: Some(run),
                },
                now,
            )?;
        }
    }
    Ok(())
}

/// No kill loops: a lane whose runs were killed three times in an hour rests, and its chat is told so once.
fn rest_after_kills(c: &Connection, run: &ActiveRun, now: Time) -> Result<()> {
    let Some(lane) = run.lane else { return Ok(()) };
    let kills: Vec<Time> = c
        .prepare_cached(
            "SELECT killed_at FROM runs WHERE lane_id = ?1 AND killed_at > ?2 ORDER BY killed_at",
        )?
        .query_map([lane, now.plus_ms(-KILLS_WITHIN_MS).0], |r| r.get(0).map(Time))?
        .collect::<rusqlite::Result<_>>()?;
    let KillLoop::RestUntil(until) = health::kill_loop(&kills, now) else { return Ok(()) };
    c.prepare_cached("UPDATE lanes SET rest_until = max(coalesce(rest_until, 0), ?2) WHERE id = ?1")?
        .execute([lane, until.0])?;
    if kills.len() == health::MAX_KILLS {
        let (chat, thread): (String, String) = c
            .prepare_cached("SELECT chat_jid, thread FROM lanes WHERE id = ?1")?
            .query_row([lane], |r| Ok((r.get(0)?, r.get(1)?)))?;
        let text = "I got stuck three times within an hour, so I rest for an hour before I try again.";
        let cause = format!("notice: run {} was killed", run.id);
        say(
            c,
            &Say {
                chat_jid: &chat,
                thread: &thread,
                text,
                sender: None,
                reply_to: None,
                cause: &cause,
                run: None,
            },
            now,
        )?;
    }
    Ok(())
}

/// What becomes of a task's slot: done, tried again after a rest, or given up and told.
#[expect(clippy::too_many_arguments, reason = "one step of `finish`, with its values")]
fn judge_task(
    c: &Connection,
    run: &ActiveRun,
    task: &str,
    end: &EndOfRun,
    ended: &Ended,
    error: Option<&str>,
    zone: &jiff::tz::TimeZone,
    now: Time,
) -> Result<()> {
    let Some(row) = super::tasks::task(c, task)? else { return Ok(()) };
    let tries: u32 = c.query_row("SELECT tries FROM tasks WHERE id = ?1", [task], |r| r.get(0))?;
    let slot: Option<i64> = c.query_row("SELECT slot FROM tasks WHERE id = ?1", [task], |r| r.get(0))?;
    let said: bool = c.query_row(
        "SELECT EXISTS (SELECT 1 FROM outbox WHERE run_id = ?1) OR EXISTS (SELECT 1 FROM receipts WHERE run_id = ?1 AND outcome = 'applied')",
        [end.run],
        |r| r.get(0),
    )?;
    let said = if said { Said::Something } else { Said::Nothing };
    let judgement = if run.handled {
        Judgement::Done
    } else {
        // A slot is judged as a batch that lay on stdin. Nobody counts its free returns, so it has none.
        let batch = Batch { state: BatchState::OnStdin, said, tries, free_returns: judge::MAX_FREE_RETURNS };
        let (_, judgements) = judge::judge(ended, &[batch], end.retry_base_ms);
        judgements.into_iter().next().unwrap_or(Judgement::Done)
    };
    let over = |c: &Connection| -> Result<()> {
        c.prepare_cached(
            "UPDATE tasks SET slot = NULL, tries = 0, status = CASE WHEN schedule_type = 'once' AND status = 'active' THEN 'completed' ELSE status END WHERE id = ?1",
        )?
        .execute([task])?;
        Ok(())
    };
    match judgement {
        Judgement::Done => {
            c.prepare_cached(
                "UPDATE tasks SET last_result = coalesce(last_result, 'Completed') WHERE id = ?1",
            )?
            .execute([task])?;
            over(c)
        }
        Judgement::Returned { tries, rest_ms, .. } => {
            let again = now.plus_ms(rest_ms);
            let next = slot.and_then(|slot| next_slot(&row, Time(slot), now, zone));
            match next {
                // The next occurrence is as near as another try of this one.
                Some(next) if next <= again => over(c),
                Some(_) | None => {
                    c.prepare_cached(
                        "UPDATE tasks SET next_run = ?2, tries = ?3 WHERE id = ?1 AND status = 'active'",
                    )?
                    .execute(params![task, again.0, tries])?;
                    Ok(())
                }
            }
        }
        Judgement::Failed { .. } => {
            let reason = error.unwrap_or("its run failed");
            let short: String = format!("Error: {reason}").chars().take(200).collect();
            c.prepare_cached("UPDATE tasks SET last_result = ?2 WHERE id = ?1")?
                .execute(params![task, short])?;
            let text = judge::task_notice(ended, task, &row.prompt, tries, said);
            let cause = format!("notice: task {task} failed");
            say(
                c,
                &Say {
                    chat_jid: &row.chat_jid,
                    thread: "",
                    text: &text,
                    sender: None,
                    reply_to: None,
                    cause: &cause,
                    run: Some(end.run),
                },
                now,
            )?;
            over(c)
        }
    }
}

impl Store {
    /// Returns the id of the group's active run.
    pub fn active_run_of(&self, group: &Folder) -> Result<Option<i64>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT id FROM runs WHERE group_folder = ?1 AND status IN ('queued', 'running')",
            )?
            .query_row([group.as_str()], |r| r.get(0))
            .optional()?)
        })
    }

    /// Returns the group that a lane belongs to.
    pub fn group_of_lane(&self, lane: i64) -> Result<Option<Folder>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT group_folder FROM lanes WHERE id = ?1")?
                .query_row([lane], |r| folder(r.get(0)?))
                .optional()?)
        })
    }
}
