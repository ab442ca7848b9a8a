//! One record of a run, applied in one transaction.

use std::{borrow::Cow, collections::BTreeSet};

use ipc_handlers::{
    Time,
    names::is_session_id,
    outbound::{is_all_internal, so_far, strip_internal},
    wire,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{ACTIVE, ActiveRun, active_row, task_batch, tool::note_tool, with_batches};
use crate::domain::runs::heartbeat;
use crate::store::{
    Result, StoreError,
    crossing::said::{Key, may_grow, newest_of, said_between, said_so_far, said_whole, says_no_more},
    talk::outbox::{Say, TextCause},
    work::failing,
};

/// How much of what a run of a task said is in its row, bytes; what is longer is whole in a file.
const RESULT_IN_ROW: usize = 16 << 10;
/// How much is kept of what a run of a task said, bytes.
const LONGEST_RESULT: usize = 64 << 20;
/// How much of an answer is said in one transaction, bytes: as much as a command file may say.
const LONGEST_PART: usize = 1 << 20;
/// How far before the end of a part a line may end for it to end there, bytes.
const NEAR: usize = 64 << 10;

/// What a record changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    Applied {
        /// Something went into the outbox.
        said: bool,
        /// The agent has finished all batches that it was given.
        idle: bool,
        /// Lanes of the group whose rest is over: they waited for the end of a limit of the model.
        woken: Vec<i64>,
    },
    /// The record was applied before.
    Known,
    /// Records between are missing: the run can't be trusted any more.
    Gap { expected: u64 },
}

/// What an answer says, as it may leave the host. Made beside the writer: a record is as long as 10 MiB.
pub(super) struct Answer {
    /// At most [`LONGEST_PART`] bytes each; together they are the text. None: nothing is said.
    parts: Vec<String>,
    /// It has a text, all of which is internal.
    unsaid: bool,
    /// The beginning of the text that comes next.
    so_far: Option<String>,
}

/// What a run of a task has said so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    /// The beginning of it: at most 16 KiB.
    pub beginning: String,
    /// How long the whole is, bytes.
    pub bytes: usize,
    /// The newest record that it is of.
    pub last_seq: u64,
}

impl KeptResult {
    /// Whether the beginning is the whole.
    #[must_use]
    pub fn is_in_row(&self) -> bool {
        self.beginning.len() == self.bytes
    }

    /// Whether the whole is in the row still when this is added.
    #[must_use]
    pub fn has_room_for(&self, text: &str) -> bool {
        self.is_in_row() && self.bytes + 1 + text.len() <= RESULT_IN_ROW
    }
}

/// Returns what a record of a task's run adds to its history: its answer, or below the first line of an error what its
/// script printed. As much as 64 MiB leave room for beside what is `before` it.
#[must_use]
pub fn result_of(record: &wire::Record, before: usize) -> Option<String> {
    let mut text = match record.status {
        wire::Status::Error => record.error.as_deref()?.split_once('\n')?.1.to_owned(),
        wire::Status::Success => strip_internal(record.answer()?),
    };
    text.truncate(text.floor_char_boundary(LONGEST_RESULT.saturating_sub(before + 1)));
    (!text.is_empty()).then_some(text)
}

/// Reads what a run has said so far, if it is a task's.
pub(super) fn kept_result(c: &Connection, run: i64) -> Result<Option<KeptResult>> {
    Ok(c.prepare_cached("SELECT result, result_bytes, last_seq FROM runs WHERE id = ?1 AND kind = 'task'")?
        .query_row([run], |r| {
            Ok(KeptResult {
                beginning: r.get::<_, Option<String>>("result")?.unwrap_or_default(),
                bytes: r.get("result_bytes")?,
                last_seq: r.get("last_seq")?,
            })
        })
        .optional()?)
}

impl Answer {
    pub(super) fn of(record: &wire::Record) -> Self {
        let beginning = record
            .result
            .as_deref()
            .filter(|text| record.kind == wire::Kind::SoFar && text.len() <= wire::LONGEST_SO_FAR);
        let so_far = beginning.map(so_far).filter(|text| !text.is_empty());
        let Some(result) = record.answer() else { return Self { parts: Vec::new(), unsaid: false, so_far } };
        let text = strip_internal(result);
        let unsaid = text.is_empty() && is_all_internal(result);
        Self { parts: parts(text), unsaid, so_far }
    }

    /// The parts that are said before the record is applied, each with its place.
    pub(super) fn all_but_last(&self) -> impl Iterator<Item = (usize, &str)> {
        let before = self.parts.split_last().map_or(&[][..], |(_, before)| before);
        (0..).zip(before.iter().map(String::as_str))
    }
}

/// Cuts a text into parts of at most [`LONGEST_PART`] bytes, behind a line's end where one is near.
fn parts(text: String) -> Vec<String> {
    if text.len() <= LONGEST_PART {
        return if text.is_empty() { Vec::new() } else { vec![text] };
    }
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while rest.len() > LONGEST_PART {
        let most = rest.floor_char_boundary(LONGEST_PART);
        let near = rest.floor_char_boundary(most - NEAR);
        let end = rest[near..most].rfind('\n').map_or(most, |at| near + at + 1);
        let (part, behind) = rest.split_at(end);
        parts.push(part.to_owned());
        rest = behind;
    }
    parts.push(rest.to_owned());
    parts
}

/// Says one part of a long answer before its record is applied, unless it was said already.
pub(super) fn say_part(c: &Connection, run: i64, n: u64, (at, part): (usize, &str), now: Time) -> Result<()> {
    let row = row_of(c, run)?;
    if n != row.last_seq + 1 || row.status.is_over() || !is_for_a_chat(c, &row)? {
        return Ok(());
    }
    let next = "UPDATE runs SET said_parts = said_parts + 1 WHERE id = ?1 AND said_parts = ?2";
    if c.prepare_cached(next)?.execute(params![run, at])? == 1 {
        put(c, &row, (n, at), part, now)?;
    }
    Ok(())
}

fn row_of(c: &Connection, run: i64) -> Result<ActiveRun> {
    c.prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?
        .query_row([run], active_row)
        .optional()?
        .ok_or_else(|| StoreError::NotFound { what: "run", id: run.to_string() })
}

pub(super) fn apply(
    c: &Connection,
    run: i64,
    n: u64,
    record: &wire::Record,
    answer: &Answer,
    now: Time,
) -> Result<Recorded> {
    let row = row_of(c, run)?;
    if n <= row.last_seq || row.status.is_over() {
        return Ok(Recorded::Known);
    }
    if n != row.last_seq + 1 {
        return Ok(Recorded::Gap { expected: row.last_seq + 1 });
    }
    let seq = i64::try_from(n).unwrap_or(i64::MAX);
    c.prepare_cached("UPDATE runs SET last_seq = ?2, said_parts = 0 WHERE id = ?1")?.execute([run, seq])?;
    if record.kind == wire::Kind::Ready {
        c.prepare_cached("UPDATE runs SET ready_at = coalesce(ready_at, ?2), protocol = ?3 WHERE id = ?1")?
            .execute(params![run, now.0, record.protocol.unwrap_or(wire::PROTOCOL)])?;
        c.prepare_cached(
            "UPDATE batches SET state = 'claimed' WHERE run_id = ?1 AND via = 'stdin' AND state = 'handed'",
        )?
        .execute([run])?;
    }
    if let Some(kept) = kept_result(c, run)?
        && let Some(text) = result_of(record, kept.bytes)
    {
        keep_result(c, run, &kept, &text)?;
    }
    if let Some(text) = &answer.so_far
        && row.task().is_none()
        && may_grow(c, run)?
    {
        put_so_far(c, &row, n, text, now)?;
    }
    let said = say_answer(c, &row, n, answer, now)?;
    if record.kind == wire::Kind::Result {
        says_no_more(c, run)?;
    }
    let unsaid = answer.unsaid;
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
        // Runners of version 1 may give a session that goes on another name.
        c.prepare_cached(
            "UPDATE runs SET wake = 'fresh' WHERE id = ?1 AND wake = 'resume' AND protocol > 1
               AND EXISTS (SELECT 1 FROM sessions WHERE lane_id = ?2 AND generation = ?3 AND session_id <> ?4)",
        )?
        .execute(params![run, row.lane, row.generation, session])?;
        c.prepare_cached("UPDATE sessions SET session_id = ?2 WHERE lane_id = ?1 AND generation = ?3")?
            .execute(params![row.lane, session, row.generation])?;
    }
    let handled: BTreeSet<&str> = record.handled.iter().map(String::as_str).collect();
    if handled.contains(task_batch(run).as_str()) {
        c.prepare_cached("UPDATE runs SET handled_at = coalesce(handled_at, ?2) WHERE id = ?1")?
            .execute([run, now.0])?;
    }
    // Only batches that this run has count. It may name any others; that changes nothing.
    let handled: BTreeSet<i64> = handled.into_iter().filter_map(|batch| batch.parse().ok()).collect();
    let open = if handled.is_empty() { Vec::new() } else { with_batches(c, row.clone())?.open };
    // What was said since the last batch was finished is about those that are finished now.
    let from: i64 =
        c.prepare_cached("SELECT answered FROM runs WHERE id = ?1")?.query_row([run], |r| r.get(0))?;
    let to = newest_of(c, run)?.max(from);
    for (batch, _) in open.iter().filter(|(batch, _)| handled.contains(batch)) {
        c.prepare_cached(
            "UPDATE batches SET state = 'done', ended_at = ?3, unsaid = max(unsaid, ?4), said_from = max(outbox_mark, ?5), said_to = max(outbox_mark, ?6)
             WHERE id = ?1 AND run_id = ?2 AND state IN ('handed', 'claimed')",
        )?
        .execute(params![batch, run, now.0, unsaid, from, to])?;
    }
    let mut woken = Vec::new();
    if !record.handled.is_empty() {
        c.prepare_cached("UPDATE runs SET answered = ?2 WHERE id = ?1 AND answered <> ?2")?
            .execute([run, to])?;
        if record.status != wire::Status::Error {
            c.prepare_cached(
                "UPDATE sessions SET failed_resumes = 0, fresh_why = NULL, proven = 1 WHERE lane_id = ?1 AND generation = ?2 AND (failed_resumes > 0 OR fresh_why IS NOT NULL OR NOT proven)",
            )?
            .execute(params![row.lane, row.generation])?;
            woken = failing::works_again(c, &row.group, row.task(), now)?;
        }
    }
    if let Some(row) = said.filter(|_| !record.handled.is_empty()) {
        not_about_the_rest(c, run, row, TextCause::Record { run, n })?;
    }
    match record.kind {
        wire::Kind::Deferred => {
            c.prepare_cached("UPDATE runs SET deferred = 1 WHERE id = ?1")?.execute([run])?;
        }
        wire::Kind::Result => {
            // The background work of a task has failed: what the task was to do is not done.
            let undone = row.task().is_some() && record.status == wire::Status::Error;
            c.prepare_cached(
                "UPDATE runs SET deferred = 0, handled_at = iif(?2, NULL, handled_at) WHERE id = ?1 AND deferred = 1",
            )?
            .execute(params![run, undone])?;
        }
        wire::Kind::Progress | wire::Kind::BlockedTool => note_tool(c, &row, seq, record, now)?,
        wire::Kind::Ready | wire::Kind::SoFar => {}
    }
    let after = c.prepare_cached(&format!("{ACTIVE} WHERE id = ?1"))?.query_row([run], active_row)?;
    Ok(Recorded::Applied { said: said.is_some(), idle: after.life.is_idle(), woken })
}

/// An answer that finishes some batches is about those. The run's other batches stay without an answer, unless it said
/// something about them before.
fn not_about_the_rest(c: &Connection, run: i64, row: i64, cause: TextCause<'_>) -> Result<()> {
    let in_hand: Vec<(i64, i64)> = c
        .prepare_cached(
            "SELECT id, outbox_mark FROM batches WHERE run_id = ?1 AND state IN ('handed', 'claimed') AND outbox_mark < ?2",
        )?
        .query_map([run, row], |r| Ok((r.get("id")?, r.get("outbox_mark")?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (batch, mark) in in_hand {
        if !said_between(c, run, (mark, row), cause)? {
            c.prepare_cached("UPDATE batches SET outbox_mark = ?2 WHERE id = ?1")?.execute([batch, row])?;
        }
    }
    Ok(())
}

/// Puts the last part of an answer into the outbox, and returns its row.
fn say_answer(c: &Connection, run: &ActiveRun, n: u64, answer: &Answer, now: Time) -> Result<Option<i64>> {
    let Some(last) = answer.parts.last() else { return Ok(None) };
    if let Some(task) = run.task() {
        let text = &answer.parts[0];
        let short: String = text.chars().take(200).collect();
        c.prepare_cached("UPDATE tasks SET last_result = ?2 WHERE id = ?1 AND group_folder = ?3")?
            .execute(params![task, short, run.group.as_str()])?;
    }
    let place = answer.parts.len() - 1;
    let last = match run.task() {
        Some(_) if answer.parts.len() == 1 => heartbeat::to_say(last),
        Some(_) | None => Some(Cow::Borrowed(last.as_str())),
    };
    match last {
        Some(last) if is_for_a_chat(c, run)? => put(c, run, (n, place), &last, now).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// Adds a text to what a run of a task has said: as much of it to the row as has room there.
fn keep_result(c: &Connection, run: i64, kept: &KeptResult, text: &str) -> Result<()> {
    let between = if kept.bytes == 0 { "" } else { "\n" };
    let mut beginning = kept.beginning.clone();
    if kept.is_in_row() {
        beginning.push_str(between);
        let room = RESULT_IN_ROW.saturating_sub(beginning.len());
        beginning.push_str(&text[..text.floor_char_boundary(room)]);
    }
    c.prepare_cached("UPDATE runs SET result = ?2, result_bytes = ?3 WHERE id = ?1")?.execute(params![
        run,
        beginning,
        kept.bytes + between.len() + text.len()
    ])?;
    Ok(())
}

/// Whether what a run answers is said to its chat: a task's only where its `output` is `chat`.
fn is_for_a_chat(c: &Connection, run: &ActiveRun) -> Result<bool> {
    let Some(task) = run.task() else { return Ok(true) };
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND group_folder = ?2 AND output = 'chat')",
    )?
    .query_row([task, run.group.as_str()], |r| r.get(0))?)
}

/// Puts a part of a record into the outbox.
fn put(c: &Connection, run: &ActiveRun, (n, part): (u64, usize), text: &str, now: Time) -> Result<i64> {
    let key = Key::Record { run: run.id, n, part };
    with_say(c, run, n, text, |say| said_whole(c, run.id, &key, say, now))
}

/// Puts the beginning of a text there.
fn put_so_far(c: &Connection, run: &ActiveRun, n: u64, text: &str, now: Time) -> Result<()> {
    let key = Key::Record { run: run.id, n, part: 0 };
    with_say(c, run, n, text, |say| said_so_far(c, run.id, &key, say, now))
}

fn with_say<T>(
    c: &Connection,
    run: &ActiveRun,
    n: u64,
    text: &str,
    put: impl FnOnce(&Say<'_>) -> Result<T>,
) -> Result<T> {
    let (chat, thread): (String, String) = c
        .prepare_cached("SELECT chat_jid, thread FROM runs WHERE id = ?1")?
        .query_row([run.id], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
    put(&Say {
        chat_jid: &chat,
        thread: &thread,
        text,
        cause: TextCause::Record { run: run.id, n },
        run: Some(run.id),
        group: Some(run.group.as_str()),
        ..Say::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_end_behind_lines_and_make_up_the_text() {
        let lines = "a line of some words\n".repeat(120_000);
        for text in [String::new(), "short".into(), "x".repeat(LONGEST_PART), "ä".repeat(LONGEST_PART), lines]
        {
            let cut = parts(text.clone());
            assert!(cut.iter().all(|part| !part.is_empty() && part.len() <= LONGEST_PART));
            assert_eq!(cut.concat(), text);
            assert_eq!(cut.len(), text.len().div_ceil(LONGEST_PART));
            if text.contains('\n') {
                assert!(cut.iter().all(|part| part.ends_with('\n')));
            }
        }
    }
}
