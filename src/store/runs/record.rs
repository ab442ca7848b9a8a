//! One record of a run, applied in one transaction.

use std::collections::BTreeSet;

use ipc_handlers::{
    Time,
    names::is_session_id,
    outbound::{is_all_internal, strip_internal},
    wire,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        Result, StoreError, health,
        outbox::{Say, say},
    },
    ACTIVE, ActiveRun, active_row, task_batch, with_batches,
};

/// How much is kept of what a run of a task said, characters.
const LONGEST_RESULT: i64 = 16 << 10;

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

pub(super) fn apply(c: &Connection, run: i64, n: u64, record: &wire::Record, now: Time) -> Result<Recorded> {
    let row = c
        .prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?
        .query_row([run], active_row)
        .optional()?
        .ok_or_else(|| StoreError::NotFound { what: "run", id: run.to_string() })?;
    if n <= row.last_seq || row.status.is_over() {
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
    let unsaid = record.answer().is_some_and(is_all_internal);
    if unsaid && record.handled.is_empty() {
        c.prepare_cached(
            "UPDATE batches SET unsaid = 1 WHERE run_id = ?1 AND state IN ('handed', 'claimed')",
        )?
        .execute([run])?;
    }
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
    let handled: BTreeSet<&str> = record.handled.iter().map(String::as_str).collect();
    if handled.contains(task_batch(run).as_str()) {
        c.prepare_cached("UPDATE runs SET handled_at = coalesce(handled_at, ?2) WHERE id = ?1")?
            .execute([run, now.0])?;
    }
    // Of what it has in hand: it may name whatever else it likes, and that costs nothing here.
    let handled: BTreeSet<i64> = handled.into_iter().filter_map(|batch| batch.parse().ok()).collect();
    let open = if handled.is_empty() { Vec::new() } else { with_batches(c, row.clone())?.open };
    // What was said since the last batch was finished is about those that are finished now.
    let (from, to): (i64, i64) = c
        .prepare_cached(
            "SELECT answered, max(answered, coalesce((SELECT max(id) FROM outbox WHERE run_id = ?1), 0)) AS newest FROM runs WHERE id = ?1",
        )?
        .query_row([run], |r| Ok((r.get("answered")?, r.get("newest")?)))?;
    for (batch, _) in open.iter().filter(|(batch, _)| handled.contains(batch)) {
        c.prepare_cached(
            "UPDATE batches SET state = 'done', ended_at = ?3, unsaid = max(unsaid, ?4), said_from = max(outbox_mark, ?5), said_to = max(outbox_mark, ?6)
             WHERE id = ?1 AND run_id = ?2 AND state IN ('handed', 'claimed')",
        )?
        .execute(params![batch, run, now.0, unsaid, from, to])?;
    }
    if !record.handled.is_empty() {
        c.prepare_cached("UPDATE runs SET answered = ?2 WHERE id = ?1 AND answered <> ?2")?
            .execute([run, to])?;
        if record.status != wire::Status::Error {
            health::works_again(c, &row.group, row.task())?;
        }
    }
    if let Some(row) = said.filter(|_| !record.handled.is_empty()) {
        not_about_the_rest(c, run, row)?;
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
    Ok(Recorded::Applied { said: said.is_some(), idle: with_batches(c, after)?.is_idle() })
}

/// An answer that finishes some batches is about those: of what is still in hand nothing was said by it, unless something
/// was before.
fn not_about_the_rest(c: &Connection, run: i64, row: i64) -> Result<()> {
    c.prepare_cached(
        "UPDATE batches SET outbox_mark = ?2 WHERE run_id = ?1 AND state IN ('handed', 'claimed') AND outbox_mark < ?2
           AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.run_id = ?1 AND o.id > batches.outbox_mark AND o.id < ?2)",
    )?
    .execute([run, row])?;
    Ok(())
}

/// Puts what a result says into the outbox, and returns its row; a task's only where its `output` is `chat`.
fn say_result(
    c: &Connection,
    run: &ActiveRun,
    n: i64,
    record: &wire::Record,
    now: Time,
) -> Result<Option<i64>> {
    let Some(result) = record.answer() else { return Ok(None) };
    let text = strip_internal(result);
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(task) = run.task() {
        let short: String = text.chars().take(200).collect();
        let group = run.group.as_str();
        c.prepare_cached("UPDATE tasks SET last_result = ?2 WHERE id = ?1 AND group_folder = ?3")?
            .execute(params![task, short, group])?;
        c.prepare_cached(
            "UPDATE runs SET result = substr(coalesce(result || char(10), '') || ?2, 1, ?3) WHERE id = ?1",
        )?
        .execute(params![run.id, text, LONGEST_RESULT])?;
        let to_chat: bool = c
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND group_folder = ?2 AND output = 'chat')",
            )?
            .query_row([task, group], |r| r.get(0))?;
        if !to_chat {
            return Ok(None);
        }
    }
    let (chat, thread): (String, String) = c
        .prepare_cached("SELECT chat_jid, thread FROM runs WHERE id = ?1")?
        .query_row([run.id], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
    let cause = format!("run {} record {n}", run.id);
    let row = say(
        c,
        &Say {
            chat_jid: &chat,
            thread: &thread,
            text: &text,
            cause: &cause,
            run: Some(run.id),
            group: Some(run.group.as_str()),
            ..Say::default()
        },
        now,
    )?;
    Ok(Some(row))
}
