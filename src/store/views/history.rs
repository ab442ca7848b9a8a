//! What became of each slot of a task: its runs, with what they sent, and the slots that did not run.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, params};

use crate::domain::{
    rows::{SentText, TaskSlot},
    states::SlotOutcome,
};
use crate::store::{Result, Store, at_most, columns::Columns as _};

/// How many texts that a run sent are shown, and how much of each, characters.
const SENT_SHOWN: usize = 20;
const TEXT_SHOWN: usize = 200;

impl Store {
    /// Returns what became of the slots of a task of a group, in their order; of one that was cancelled too. With `limit`, the
    /// newest rows.
    pub fn task_history(&self, group: &Folder, id: &str, limit: Option<usize>) -> Result<Vec<TaskSlot>> {
        self.read(|c| {
            // Both are of one state.
            let c = c.unchecked_transaction()?;
            let mut all = runs(&c, group, id, limit)?;
            all.extend(others(&c, group, id, limit)?);
            all.sort_by_key(|slot| (slot.due, slot.run.is_some(), slot.attempt));
            if let Some(limit) = limit {
                all.drain(..all.len().saturating_sub(limit));
            }
            for slot in &mut all {
                if let Some(run) = slot.run {
                    slot.sent = sent(&c, run)?;
                }
            }
            Ok(all)
        })
    }
}

fn runs(c: &Connection, group: &Folder, id: &str, limit: Option<usize>) -> Result<Vec<TaskSlot>> {
    let mut newest = c.prepare_cached(
        "SELECT id, slot, attempt, status, created_at, started_at, ended_at, result, result_bytes, error FROM runs
         WHERE for_task = ?1 AND group_folder = ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let rows = newest.query_map(params![id, group.as_str(), at_most(limit)], |r| {
        let due = r.time_or_null("slot")?;
        let (started, ended) = (r.time_or_null("started_at")?, r.time_or_null("ended_at")?);
        let since = |from: Option<Time>, to: Option<Time>| Some(to?.ms_since(from?).max(0));
        let run: i64 = r.get("id")?;
        let result: Option<String> = r.get("result")?;
        let is_longer = result.as_ref().map_or(0, String::len) < r.get("result_bytes")?;
        Ok(TaskSlot {
            outcome: started.map(|_| SlotOutcome::Ran),
            due,
            last_due: due,
            slots: 1,
            at_least: false,
            reason: None,
            run: Some(run),
            attempt: Some(r.get("attempt")?),
            status: Some(r.word("runs", "status")?),
            started_at: started,
            waited_ms: since(due, started),
            ended_at: ended,
            duration_ms: since(started, ended),
            result,
            result_file: is_longer.then(|| format!("data/results/{run}.txt")),
            error: r.get("error")?,
            sent: Vec::new(),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Slots that did not run.
fn others(c: &Connection, group: &Folder, id: &str, limit: Option<usize>) -> Result<Vec<TaskSlot>> {
    let mut newest = c.prepare_cached(
        "SELECT first, last, count, at_least, outcome, reason FROM slots WHERE group_folder = ?1 AND task = ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let rows = newest.query_map(params![group.as_str(), id, at_most(limit)], |r| {
        Ok(TaskSlot {
            outcome: Some(r.word("slots", "outcome")?),
            due: Some(r.time("first")?),
            last_due: Some(r.time("last")?),
            slots: r.get("count")?,
            at_least: r.get("at_least")?,
            reason: Some(r.word("slots", "reason")?),
            run: None,
            attempt: None,
            status: None,
            started_at: None,
            waited_ms: None,
            ended_at: None,
            duration_ms: None,
            result: None,
            result_file: None,
            error: None,
            sent: Vec::new(),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// What a run sent, by its answers and by its commands.
fn sent(c: &Connection, run: i64) -> Result<Vec<SentText>> {
    let mut first = c.prepare_cached(
        "SELECT id, chat_jid, substr(text, 1, ?2) AS text, status FROM outbox INDEXED BY outbox_by_run WHERE run_id = ?1 ORDER BY id LIMIT ?3",
    )?;
    let rows = first.query_map(params![run, TEXT_SHOWN, SENT_SHOWN], |r| {
        Ok(SentText {
            id: r.get("id")?,
            chat_jid: r.get("chat_jid")?,
            text: r.get("text")?,
            status: r.word("outbox", "status")?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
