//! How things go: what failed of late, what rests, and what waits. For `status` and the list of problems.

use ipc_handlers::{TaskStatus, Time};
use rusqlite::{Connection, OptionalExtension};

use crate::domain::{
    kept::prune::DAY_MS,
    problems::{Failing, Halted, Ledger, Resting, TaskTrouble, Unsaid},
};
use crate::store::{Result, Store, columns::Columns as _, crossing::waiting::waiting};

/// How things go, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When an agent's answer reached a chat last.
    pub last_answer_at: Option<Time>,
    /// When the message came that waits longest for an agent.
    pub oldest_waiting_at: Option<Time>,
    /// Runs that failed within a day.
    pub failed_24h: i64,
    /// Messages that were given up within a day.
    pub given_up_24h: i64,
}

impl Store {
    /// Returns how things go, in numbers. Each is found by an index.
    pub fn health(&self, now: Time) -> Result<Health> {
        self.read(|c| {
            let failed_24h = c
                .prepare_cached("SELECT count(*) FROM runs INDEXED BY runs_failed WHERE status = 'failed' AND ended_at > ?1")?
                .query_row([now.plus_ms(-DAY_MS).0], |r| r.get(0))?;
            let last: Option<i64> = c
                .prepare_cached(
                    "SELECT sent_at FROM outbox INDEXED BY outbox_answers WHERE status = 'sent' AND cause_kind = 'record' ORDER BY sent_at DESC LIMIT 1",
                )?
                .query_row([], |r| r.get(0))
                .optional()?
                .flatten();
            // `CROSS`, as SQLite would begin with all messages that ever woke somebody.
            let oldest: Option<i64> = c
                .prepare_cached(
                    "SELECT min(m.received_at) FROM (
                       SELECT (SELECT i.seq FROM inbox i INDEXED BY inbox_unjudged WHERE i.verdict IS NULL ORDER BY i.n LIMIT 1) AS seq
                       UNION ALL SELECT (SELECT i.seq FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake' ORDER BY i.n LIMIT 1)
                         FROM wirings w CROSS JOIN lanes l ON l.group_folder = w.group_folder AND l.chat_jid = w.chat_jid
                       UNION ALL SELECT (SELECT min(i.seq) FROM batches b INDEXED BY batches_open CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = l.id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
                                         WHERE b.lane_id = l.id AND b.state = 'returned')
                         FROM wirings w CROSS JOIN lanes l ON l.group_folder = w.group_folder AND l.chat_jid = w.chat_jid
                     ) q CROSS JOIN messages m ON m.seq = q.seq",
                )?
                .query_row([], |r| r.get(0))?;
            let (given_up_24h, _) = given_up(c, now)?;
            Ok(Health {
                last_answer_at: last.map(Time),
                oldest_waiting_at: oldest.map(Time),
                failed_24h,
                given_up_24h,
            })
        })
    }

    /// Returns what went wrong of late, and what rests.
    pub fn ledger(&self, now: Time) -> Result<Ledger> {
        self.read(|c| {
            let (given_up, newest_given_up) = given_up(c, now)?;
            Ok(Ledger {
                failing: failing(c)?,
                resting: resting(c, now)?,
                tasks: tasks_in_trouble(c, now)?,
                given_up,
                newest_given_up,
                failed: failed(c, now)?,
                unknown: unknown(c)?,
            })
        })
    }
}

fn failing(c: &Connection) -> Result<Vec<Failing>> {
    Ok(c.prepare_cached(
        "SELECT f.group_folder, f.task, f.times, f.run_id, f.at, (SELECT r.error FROM runs r WHERE r.id = f.run_id) AS error FROM failing f
         WHERE f.task = '' OR EXISTS (SELECT 1 FROM tasks t WHERE t.id = f.task AND t.group_folder = f.group_folder AND t.status = 'active')",
    )?
    .query_map([], |r| {
        let task: String = r.get("task")?;
        Ok(Failing {
            group: r.folder("group_folder")?,
            task: (!task.is_empty()).then_some(task),
            times: r.get("times")?,
            run: r.get("run_id")?,
            at: r.time("at")?,
            error: r.get("error")?,
        })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

/// Lanes that rest although something waits in them.
fn resting(c: &Connection, now: Time) -> Result<Vec<Resting>> {
    let mut found = Vec::new();
    for lane in waiting(c, None)? {
        if let Some(until) = lane.rest_until.filter(|until| *until > now) {
            let (chat, thread) = c
                .prepare_cached("SELECT chat_jid, thread FROM lanes WHERE id = ?1")?
                .query_row([lane.lane], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
            found.push(Resting { group: lane.group, chat, thread, until });
        }
    }
    Ok(found)
}

/// Tasks that rest, or that the host has paused.
fn tasks_in_trouble(c: &Connection, now: Time) -> Result<Vec<TaskTrouble>> {
    let mut found = Vec::new();
    let mut rows = c.prepare_cached(
        "SELECT group_folder, id, status, rest_until, paused_for FROM tasks INDEXED BY tasks_in_trouble
         WHERE (rest_until IS NOT NULL OR paused_for IS NOT NULL) ORDER BY n",
    )?;
    let mut rows = rows.query([])?;
    while let Some(r) = rows.next()? {
        let status: TaskStatus = r.word("tasks", "status")?;
        let then = match (status, r.get("paused_for")?, r.time_or_null("rest_until")?) {
            (TaskStatus::Paused, Some(why), _) => Halted::Paused(why),
            (TaskStatus::Active, _, Some(until)) if until > now => Halted::Rests(until),
            (TaskStatus::Active | TaskStatus::Paused | TaskStatus::Completed, _, _) => continue,
        };
        found.push(TaskTrouble { group: r.folder("group_folder")?, task: r.get("id")?, then });
    }
    Ok(found)
}

/// Counts the messages that were given up within a day, and names the newest. Those of a run that a person stopped are no trouble.
fn given_up(c: &Connection, now: Time) -> Result<(i64, Option<i64>)> {
    Ok(c.prepare_cached(
        "SELECT count(*) AS count, max(i.seq) AS newest FROM batches b INDEXED BY batches_failed
         CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
         WHERE b.state = 'failed' AND b.ended_at > ?1
           AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = b.run_id AND r.stop_by IS NOT NULL)",
    )?
    .query_row([now.plus_ms(-DAY_MS).0], |r| Ok((r.get("count")?, r.get("newest")?)))?)
}

/// What could not be said within a day.
fn failed(c: &Connection, now: Time) -> Result<Option<Unsaid>> {
    let (count, newest): (i64, Option<i64>) = c
        .prepare_cached("SELECT count(*) AS count, max(id) AS newest FROM outbox INDEXED BY outbox_failed WHERE status = 'failed' AND held_back = 0 AND created_at > ?1")?
        .query_row([now.plus_ms(-DAY_MS).0], |r| Ok((r.get("count")?, r.get("newest")?)))?;
    unsaid(c, count, newest)
}

/// What may or may not have been said.
fn unknown(c: &Connection) -> Result<Option<Unsaid>> {
    let (count, newest): (i64, Option<i64>) = c
        .prepare_cached(
            "SELECT count(*) AS count, max(id) AS newest FROM outbox INDEXED BY outbox_open WHERE status = 'unknown'",
        )?
        .query_row([], |r| Ok((r.get("count")?, r.get("newest")?)))?;
    unsaid(c, count, newest)
}

fn unsaid(c: &Connection, count: i64, newest: Option<i64>) -> Result<Option<Unsaid>> {
    let Some(newest) = newest else { return Ok(None) };
    let (chat, error) = c
        .prepare_cached("SELECT chat_jid, error FROM outbox WHERE id = ?1")?
        .query_row([newest], |r| Ok((r.get("chat_jid")?, r.get("error")?)))?;
    Ok(Some(Unsaid { count, newest, chat, error }))
}
