//! How a run ends: its row, and the judgement of each batch that it has not finished, in one transaction.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, params};

use super::{ACTIVE, ActiveRun, active_row, slot::judge_task};
use crate::domain::{
    runs::{
        health::{self, KILLS_WITHIN_MS, KillLoop, Readiness, Runner},
        hindrance::{Refused, STEP_MS, Then},
        judge::{self, Batch, Cause, End, Ended, Fault, Final, Judgement, Reached, Said, Went},
        lanes::{LaneId, Work},
        model_limit, retry,
        stop::{Stop, StopThen},
        wake::{self, Against},
    },
    states::{BatchState, RunStatus, Via},
    time::zone::Zones,
};
use crate::store::{
    Result, StoreError,
    columns::Columns as _,
    crossing::{
        fallbacks,
        said::{Key, newest_of, said, said_after, says_no_more},
        waiting::{WaitingLane, waiting},
    },
    talk::{
        groups,
        outbox::{Say, TextCause},
    },
    totals,
    work::{
        failing,
        hindrances::{self, Met},
        tasks,
    },
};

/// The facts about a run whose container is certainly dead.
#[derive(Clone, Debug)]
pub struct EndOfRun {
    pub run: i64,
    pub end: End,
    pub cause: Cause,
    /// What was found of its `input/`; `None`: it could not be read, and what was put there counts as taken.
    pub input: Option<Vec<LeftInput>>,
    /// How many bytes its files for people have.
    pub files_bytes: u64,
    /// First rest after a failure, ms.
    pub retry_base_ms: i64,
    /// An owner is told once of a message whose next attempt is that long away, ms; `None`: never.
    pub tell_retry_ms: Option<i64>,
}

/// A batch whose file was found in `input/` when its run was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftInput {
    pub batch: i64,
    /// The runner had taken it.
    pub taken: bool,
}

/// The effects of an end.
#[derive(Clone, Debug)]
pub struct RunEnded {
    /// What was wrong, if something was.
    pub error: Option<String>,
    /// The group's lanes in which something waits now.
    pub waiting: Vec<WaitingLane>,
    /// Lanes of the group whose rest is over: they waited for the end of a limit of the model.
    pub woken: Vec<i64>,
}

pub(super) fn finish(c: &Connection, end: &EndOfRun, zones: &Zones, now: Time) -> Result<RunEnded> {
    let row = c
        .prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?
        .query_row([end.run], active_row)
        .optional()?
        .ok_or_else(|| StoreError::NotFound { what: "run", id: end.run.to_string() })?;
    if row.status.is_over() {
        return Ok(RunEnded { error: None, waiting: waiting(c, Some(&row.group))?, woken: Vec::new() });
    }
    let stopped;
    let end = match &row.stop {
        Some(Stop { by, then, .. }) => {
            stopped = EndOfRun { cause: Cause::Cancelled { by: by.clone(), then: *then }, ..end.clone() };
            &stopped
        }
        None => end,
    };
    let zone = groups::zone_of(c, &row.group, zones)?;
    let error_record = error_record(c, end.run)?;
    let ended = Ended {
        end: end.end.clone(),
        cause: with_limit(&end.cause, error_record.as_deref(), |error| {
            let is_script = row.task().is_some() && !model_limit::is_of_an_agent(error);
            // The script of a task has limits of its own.
            if is_script { None } else { model_limit::of_error(error, now, zones, Some(&zone.name)) }
        }),
        runner: match (row.protocol, row.life.is_ready()) {
            (Some(1), _) => Runner::One,
            (_, true) => Runner::Two(Readiness::Ready),
            (_, false) => Runner::Two(Readiness::NotYet),
        },
        error_record,
    };
    let open = open_batches(c, end)?;
    let batches: Vec<Batch> = open.iter().map(|(_, _, batch)| *batch).collect();
    let (mut last, mut judgements) = judge::judge(&ended, &batches, end.retry_base_ms);
    if row.task().is_some() && !row.handled && last.went == Went::Well {
        last = judge::judge_run(&ended, 1);
    }
    let mut met = None;
    if let Some((what, why)) = judge::hindrance(&ended).zip(last.error.clone()) {
        let until = if let Cause::Refused(refused) = &ended.cause { refused.until } else { None };
        let mut refused = Refused { what, why, until };
        let rests = match fallbacks::met(c, (&row.group, end.run), &refused, now)? {
            Then::Rest { until } => {
                refused.until = until;
                let Met { since, rest_ms, ends } =
                    hindrances::met(c, &row.group, &refused, end.retry_base_ms, now)?;
                Rests { since, rest_ms, notice: what.notice(rest_ms, ends, now, &zone.zone) }
            }
            Then::GoOn | Then::FallBack { .. } => Rests { since: now, rest_ms: 0, notice: None },
        };
        (_, judgements) = judge::judge(&ended, &batches, rests.rest_ms.min(STEP_MS));
        met = Some(rests);
    }
    says_no_more(c, end.run)?;
    let status = RunStatus::from(last.went).as_str();
    let killed = matches!(end.cause, Cause::Unwell { .. } | Cause::NeverReady { .. }).then_some(now.0);
    c.prepare_cached("UPDATE runs SET status = ?2, ended_at = ?3, error = ?4, killed_at = ?5, files_bytes = ?6 WHERE id = ?1")?
        .execute(params![end.run, status, now.0, last.error, killed, end.files_bytes])?;
    totals::run_ended(c, row.kind, RunStatus::from(last.went), &end.cause)?;
    note_on_session(c, &row, &ended, &last, now)?;
    for ((batch, lane, facts), judgement) in open.iter().zip(judgements) {
        if matches!(end.cause, Cause::Cancelled { then: StopThen::AskAgain, .. })
            && facts.reached != Reached::FileUnread
        {
            let key = Key::Stopped { run: end.run };
            tell(c, *lane, (&key, "was stopped"), end.run, judge::STOPPED_AND_ASKED_AGAIN, now)?;
        }
        if let Judgement::Returned { tries, rest_ms, .. } = judgement
            && tries > facts.tries
            && end.tell_retry_ms.is_some_and(|least| rest_ms >= least)
        {
            tell_of_retry(c, &row, &ended, *batch, (tries, rest_ms), now)?;
        }
        if let (Judgement::Returned { .. }, Some(Rests { since, notice: Some(text), .. })) =
            (&judgement, &met)
        {
            let key = Key::Hindered { lane: *lane, since: *since };
            tell(c, *lane, (&key, "could not ask the model"), end.run, text, now)?;
        }
        keep_judgement(c, end.run, *batch, *lane, judgement, now)?;
    }
    // A run that died with its daemon, or that somebody ended, tells nothing.
    let woken = match last.went {
        Went::Well => failing::works_again(c, &row.group, row.task(), now)?,
        Went::Wrong if judge::fault(&ended) != Fault::Nobodys => {
            failing::has_failed(c, &row.group, row.task(), end.run, now)?;
            Vec::new()
        }
        Went::Wrong | Went::Cancelled => Vec::new(),
    };
    if let Some(task) = row.task() {
        let rests_ms = met.map(|rests| rests.rest_ms);
        judge_task(c, &row, task, end, (&ended, rests_ms), last.error.as_deref(), zones, now)?;
    }
    if killed.is_some() {
        rest_after_kills(c, &row, now)?;
    }
    Ok(RunEnded { error: last.error, waiting: waiting(c, Some(&row.group))?, woken })
}

/// What follows for a group's work from what kept its run from the model.
struct Rests {
    /// Since when its runs meet that.
    since: Time,
    /// How long it rests, ms; 0: it goes on at once, with another model than that of the run.
    rest_ms: i64,
    /// What its chats are told.
    notice: Option<String>,
}

/// Returns what a run was ended for, or ended by itself for: the limit of the model, where its error speaks of one.
fn with_limit(
    cause: &Cause,
    error: Option<&str>,
    limit: impl FnOnce(&str) -> Option<model_limit::ModelLimit>,
) -> Cause {
    let Some(error) = error else { return cause.clone() };
    match cause {
        Cause::Itself | Cause::Closed => limit(error)
            .map_or_else(|| cause.clone(), |limit| Cause::Refused(Refused::by_limit(limit, error))),
        // The words may name a time that the answer of the host did not.
        Cause::Refused(refused) if refused.what.is_weather() && refused.until.is_none() => {
            let until = limit(error).and_then(|limit| limit.until);
            Cause::Refused(Refused { until, ..refused.clone() })
        }
        _ => cause.clone(),
    }
}

/// Notes on a session that a run of it has ended, and whether that counts against it.
fn note_on_session(c: &Connection, row: &ActiveRun, ended: &Ended, last: &Final, now: Time) -> Result<()> {
    let died = last.went == Went::Wrong && wake::against(ended, row.task().is_some()) == Against::Session;
    if died {
        c.prepare_cached("UPDATE runs SET died = 1 WHERE id = ?1")?.execute([row.id])?;
    }
    // A session that has finished something in this run can be resumed. It was silent since the run had nothing in hand.
    c.prepare_cached(
        "UPDATE sessions SET active_at = coalesce(
             (SELECT CASE WHEN count(*) = count(b.ended_at) THEN max(b.ended_at) END FROM batches b WHERE b.run_id = ?5), ?3),
           failed_resumes = failed_resumes + (?4 AND (SELECT wake = 'resume' AND handled_at IS NULL FROM runs WHERE id = ?5)
           AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.run_id = ?5 AND b.state = 'done'))
         WHERE lane_id = ?1 AND generation = ?2",
    )?
    .execute(params![row.lane, row.generation, now.0, died, row.id])?;
    Ok(())
}

/// The error of the run's last record, when that was an error record.
fn error_record(c: &Connection, run: i64) -> Result<Option<String>> {
    Ok(c.prepare_cached("SELECT error FROM runs WHERE id = ?1")?.query_row([run], |r| r.get(0))?)
}

/// The batches that a run has not finished, as (id, lane, facts).
fn open_batches(c: &Connection, end: &EndOfRun) -> Result<Vec<(i64, i64, Batch)>> {
    let batches: Vec<(i64, i64, Batch, i64)> = c
        .prepare_cached(
        "SELECT b.id, b.lane_id, b.tries, b.free_returns, b.via, b.outbox_mark,
                EXISTS (SELECT 1 FROM receipts r WHERE r.run_id = b.run_id AND r.outcome = 'applied' AND r.claim_id > b.claim_mark) AS said
         FROM batches b WHERE b.run_id = ?1 AND b.state IN ('handed', 'claimed') ORDER BY b.id",
    )?
    .query_map([end.run], |r| {
        let (id, via) = (r.get("id")?, r.word("batches", "via")?);
        let batch = Batch {
            reached: match via {
                Via::Stdin => Reached::OnStdin,
                Via::Input => match end.input.as_ref().map(|left| left.iter().find(|input| input.batch == id)) {
                    Some(Some(LeftInput { taken: false, .. })) => Reached::FileUnread,
                    Some(None) => Reached::FileAbsent,
                    Some(Some(_)) | None => Reached::FileTaken,
                },
            },
            said: if r.get("said")? { Said::Something } else { Said::Nothing },
            tries: r.get("tries")?,
            free_returns: r.get("free_returns")?,
            retries: retry::MAX_RETRIES,
        };
        Ok((id, r.get("lane_id")?, batch, r.get("outbox_mark")?))
    })?
    .collect::<rusqlite::Result<_>>()?;
    batches
        .into_iter()
        .map(|(id, lane, batch, mark)| match said_after(c, end.run, mark)? {
            true => Ok((id, lane, Batch { said: Said::Something, ..batch })),
            false => Ok((id, lane, batch)),
        })
        .collect()
}

/// A batch that ends with its run: all that the run said since the last one that it finished is about this one.
fn end_batch(state: BatchState) -> String {
    format!(
        "UPDATE batches SET state = '{state}', ended_at = ?2, said_from = max(outbox_mark, (SELECT answered FROM runs r WHERE r.id = batches.run_id)),
           said_to = max(outbox_mark, ?3, (SELECT answered FROM runs r WHERE r.id = batches.run_id))
         WHERE id = ?1"
    )
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
            let newest = newest_of(c, run)?;
            c.prepare_cached(&end_batch(BatchState::Done))?.execute([batch, now.0, newest])?;
        }
        Judgement::Returned { tries, free_returns, rest_ms } => {
            c.prepare_cached(
                "UPDATE batches SET state = 'returned', tries = ?2, free_returns = ?3 WHERE id = ?1",
            )?
            .execute(params![batch, tries, free_returns])?;
            if rest_ms > 0 {
                c.prepare_cached(
                    "UPDATE sessions SET rest_until = max(coalesce(rest_until, 0), ?2) WHERE lane_id = ?1",
                )?
                .execute(params![lane, now.plus_ms(rest_ms).0])?;
            }
        }
        Judgement::Failed { notice } => {
            let newest = newest_of(c, run)?;
            c.prepare_cached(&end_batch(BatchState::Failed))?.execute([batch, now.0, newest])?;
            let (chat, thread): (String, String) = c
                .prepare_cached("SELECT chat_jid, thread FROM sessions WHERE lane_id = ?1")?
                .query_row([lane], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
            said(
                c,
                &Key::GivenUp { batch },
                &Say {
                    chat_jid: &chat,
                    thread: &thread,
                    text: &notice,
                    cause: TextCause::BatchFailed(batch),
                    run: Some(run),
                    ..Say::default()
                },
                now,
            )?;
        }
    }
    Ok(())
}

/// Tells the chat of a lane what became of a run.
fn tell(c: &Connection, lane: i64, (key, what): (&Key, &str), run: i64, text: &str, now: Time) -> Result<()> {
    let (chat, thread): (String, String) = c
        .prepare_cached("SELECT chat_jid, thread FROM sessions WHERE lane_id = ?1")?
        .query_row([lane], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
    let cause = format!("run {run} {what}");
    said(c, key, &Say::notice(&chat, &thread, text, &cause), now)?;
    Ok(())
}

/// Tells an owner that a message is tried again: in its own chat if that is main's, otherwise in main's chat. Once a message.
fn tell_of_retry(
    c: &Connection,
    run: &ActiveRun,
    ended: &Ended,
    batch: i64,
    (tries, rest_ms): (u32, i64),
    now: Time,
) -> Result<()> {
    let (chat, thread): (String, String) = c
        .prepare_cached("SELECT chat_jid, thread FROM runs WHERE id = ?1")?
        .query_row([run.id], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
    let (told, whose) = match groups::main_and_its_chat(c)? {
        Some((main, _)) if main == run.group => ((chat.clone(), thread), None),
        Some((_, Some(of_main))) => ((of_main, String::new()), Some(run.group.as_str())),
        Some((_, None)) | None => return Ok(()),
    };
    let text = judge::retry_notice(ended, whose, &chat, tries, rest_ms);
    let cause = format!("batch {batch} is tried again");
    said(c, &Key::Retried { batch }, &Say::notice(&told.0, &told.1, &text, &cause), now)?;
    Ok(())
}

/// No kill loops: a lane or a task whose runs were killed three times in an hour rests, and its chat is told so once.
fn rest_after_kills(c: &Connection, run: &ActiveRun, now: Time) -> Result<()> {
    let of_lane = if let Work::Lane(LaneId(lane)) = run.work { Some(lane) } else { None };
    let kills: Vec<Time> = c
        .prepare_cached(
            "SELECT killed_at FROM runs INDEXED BY runs_killed
             WHERE group_folder = ?1 AND for_lane IS ?2 AND for_task IS ?3 AND killed_at > ?4 AND killed_at IS NOT NULL ORDER BY killed_at",
        )?
        .query_map(params![run.group.as_str(), of_lane, run.task(), now.plus_ms(-KILLS_WITHIN_MS).0], |r| r.get(0).map(Time))?
        .collect::<rusqlite::Result<_>>()?;
    let KillLoop::RestUntil(until) = health::kill_loop(&kills, now) else { return Ok(()) };
    if let Some(task) = run.task() {
        return tasks::rest(c, run, task, until, now);
    }
    let Some(lane) = run.lane else { return Ok(()) };
    c.prepare_cached("UPDATE sessions SET rest_until = max(coalesce(rest_until, 0), ?2) WHERE lane_id = ?1")?
        .execute([lane, until.0])?;
    if kills.len() == health::MAX_KILLS {
        let text = "I got stuck three times within an hour, so I rest for an hour before I try again. A message of an owner wakes me at once.";
        tell(c, lane, (&Key::Killed { run: run.id }, "was killed"), run.id, text, now)?;
    }
    Ok(())
}
