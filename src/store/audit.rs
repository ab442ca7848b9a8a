//! Changes and their authors, chained (`domain::shown::audit`). A row is never changed; only the oldest are removed.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::{Result, Store, at_most, columns::Columns as _, oldest_first};
use crate::domain::{
    kept::prune::DAY_MS,
    rows::{rfc3339, rfc3339_option},
    shown::audit::{AuditRow, Entry, Hash, OF_AGENT, Origin, Step},
};

/// The name in `meta` of the row before the oldest that is kept: its number and its hash.
const ANCHOR: &str = "audit_anchor";

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Done,
    Failed,
    /// The daemon died over it, or is at it.
    Unfinished,
}

/// A change: what was asked for, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub id: i64,
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub origin: Origin,
    pub who: String,
    pub what: String,
    pub outcome: Ended,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Time>,
    pub why: Option<String>,
}

/// Which changes are listed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub since: Option<Time>,
    pub until: Option<Time>,
    pub origin: Option<Origin>,
    /// A part of what was changed, or of who changed it.
    pub grep: Option<String>,
    pub limit: Option<usize>,
    /// Only rows with a smaller number.
    pub before: Option<i64>,
}

/// Where the chain begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The row before the oldest that is kept; 0 where none was removed.
    pub before: i64,
    pub hash: Hash,
    /// The last number that was given.
    pub newest: i64,
}

/// Appends a row; returns its number and its hash.
pub(in crate::store) fn append(c: &Connection, entry: Entry) -> Result<(i64, Hash)> {
    let newest = c
        .prepare_cached("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1")?
        .query_row([], |r| Ok((r.get("id")?, Hash(r.get("hash")?))))
        .optional()?;
    let (last, prev) = match newest {
        Some(newest) => newest,
        None => anchor(c)?,
    };
    let row = AuditRow::after(prev, last + 1, entry.cut());
    let AuditRow { id, entry, prev, hash } = row;
    c.prepare_cached(
        "INSERT INTO audit (id, at, origin, who, what, step, asked, why, agent, prev, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        id, entry.at.0, entry.origin.as_str(), entry.who, entry.what, entry.step.as_str(), entry.asked, entry.why, entry.agent,
        prev.0, hash.0
    ])?;
    Ok((id, hash))
}

/// Appends what an agent changed by a command. Of one that changes much, the first of a day alone are told: `false`, and at this
/// instant no other one is told either.
pub(in crate::store) fn append_of_agent(
    c: &Connection,
    agent: &Folder,
    who: String,
    what: String,
    now: Time,
) -> Result<bool> {
    let nth: Option<Time> = c
        .prepare_cached("SELECT at FROM audit INDEXED BY audit_agents WHERE agent = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2")?
        .query_row(params![agent.as_str(), i64::try_from(OF_AGENT).unwrap_or(i64::MAX) - 1], |r| r.time("at"))
        .optional()?;
    if nth.is_some_and(|at| now.ms_since(at) < DAY_MS) {
        return Ok(false);
    }
    let entry = Entry {
        at: now,
        origin: Origin::Agent,
        who,
        what,
        step: Step::Done,
        asked: None,
        why: None,
        agent: Some(agent.to_string()),
    };
    append(c, entry)?;
    Ok(true)
}

/// Appends what a person changed in a chat.
pub(in crate::store) fn append_in_chat(c: &Connection, who: &str, what: String, now: Time) -> Result<()> {
    let entry = Entry {
        at: now,
        origin: Origin::Chat,
        who: who.to_owned(),
        what,
        step: Step::Done,
        asked: None,
        why: None,
        agent: None,
    };
    append(c, entry).map(drop)
}

fn anchor(c: &Connection) -> Result<(i64, Hash)> {
    let text: Option<String> = c
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([ANCHOR], |r| r.get(0))
        .optional()?;
    let read = |text: String| {
        let (id, hash) = text.split_once(' ')?;
        Some((id.parse().ok()?, Hash::parse(hash)?))
    };
    // One that can't be read is as none: the check finds that rows are missing.
    Ok(text.and_then(read).unwrap_or((0, Hash::NONE)))
}

fn row(r: &Row<'_>) -> rusqlite::Result<AuditRow> {
    let entry = Entry {
        at: r.time("at")?,
        origin: r.word("audit", "origin")?,
        who: r.get("who")?,
        what: r.get("what")?,
        step: r.word("audit", "step")?,
        asked: r.get("asked")?,
        why: r.get("why")?,
        agent: r.get("agent")?,
    };
    Ok(AuditRow { id: r.get("id")?, entry, prev: Hash(r.get("prev")?), hash: Hash(r.get("hash")?) })
}

impl Store {
    /// Appends a row; returns its number and its hash once they are durable.
    pub async fn audit(&self, entry: Entry) -> Result<(i64, Hash)> {
        self.write(move |c| append(c, entry)).await
    }

    /// Returns changes, oldest first.
    pub fn changes(&self, changes: &Changes) -> Result<Vec<Change>> {
        let Changes { since, until, origin, grep, limit, before } = changes;
        self.read(|c| {
            let mut rows = c.prepare_cached(
                "SELECT a.id, a.at, a.origin, a.who, a.what, a.step, coalesce(e.why, a.why) AS why, e.step AS end_step, e.at AS end_at
                 FROM audit a LEFT JOIN audit e ON e.asked = a.id
                 WHERE a.asked IS NULL AND (?1 IS NULL OR a.at >= ?1) AND (?2 IS NULL OR a.at <= ?2) AND (?3 IS NULL OR a.origin = ?3)
                   AND (?4 IS NULL OR instr(lower(a.what), lower(?4)) > 0 OR instr(lower(a.who), lower(?4)) > 0)
                   AND (?6 IS NULL OR a.id < ?6)
                 ORDER BY a.id DESC LIMIT ?5",
            )?;
            oldest_first(rows.query_map(
                params![since.map(|at| at.0), until.map(|at| at.0), origin.map(Origin::as_str), grep, at_most(*limit), before],
                |r| {
                    let at = r.time("at")?;
                    let (outcome, ended_at) = match r.word::<Step>("audit", "step")? {
                        Step::Done => (Ended::Done, Some(at)),
                        Step::Failed => (Ended::Failed, Some(at)),
                        Step::Asked => match r.word_or_null::<Step>("audit", "end_step")? {
                            Some(Step::Done) => (Ended::Done, r.time_or_null("end_at")?),
                            Some(Step::Failed) => (Ended::Failed, r.time_or_null("end_at")?),
                            Some(Step::Asked) | None => (Ended::Unfinished, None),
                        },
                    };
                    Ok(Change {
                        id: r.get("id")?,
                        at,
                        origin: r.word("audit", "origin")?,
                        who: r.get("who")?,
                        what: r.get("what")?,
                        outcome,
                        ended_at,
                        why: r.get("why")?,
                    })
                },
            )?)
        })
    }

    /// Returns at most `most` rows behind a number, as they are stored.
    pub fn audit_rows(&self, after: i64, most: usize) -> Result<Vec<AuditRow>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT * FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2")?
                .query_map(params![after, at_most(Some(most))], row)?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns where the chain begins and ends.
    pub fn audit_ends(&self) -> Result<Ends> {
        self.read(|c| {
            let (before, hash) = anchor(c)?;
            let given: Option<i64> = c
                .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'audit'")?
                .query_row([], |r| r.get(0))
                .optional()?;
            Ok(Ends { before, hash, newest: given.unwrap_or(before).max(before) })
        })
    }

    /// Counts the oldest rows that are of before an instant.
    pub fn audit_until(&self, before: Time) -> Result<usize> {
        self.read(|c| {
            Ok(c.query_row(
                "SELECT count(*) FROM audit WHERE id < coalesce((SELECT min(id) FROM audit WHERE at > ?1), (SELECT max(id) FROM audit))",
                [before.0],
                |r| r.get(0),
            )?)
        })
    }

    /// Removes a bounded number of those rows, oldest first, and keeps the place of the last; returns how many. The newest row
    /// stays.
    pub async fn remove_audit(&self, before: Time, most: usize) -> Result<usize> {
        self.write(move |c| {
            let last: Option<(i64, Hash)> = c
                .prepare_cached(
                    "SELECT id, hash FROM (SELECT id, at, hash FROM audit ORDER BY id LIMIT ?2)
                     WHERE id < coalesce((SELECT min(id) FROM audit WHERE at > ?1), (SELECT max(id) FROM audit)) ORDER BY id DESC LIMIT 1",
                )?
                .query_row(params![before.0, at_most(Some(most))], |r| Ok((r.get("id")?, Hash(r.get("hash")?))))
                .optional()?;
            let Some((id, hash)) = last else { return Ok(0) };
            c.prepare_cached("INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2")?
                .execute(params![ANCHOR, format!("{id} {hash}")])?;
            Ok(c.prepare_cached("DELETE FROM audit WHERE id <= ?1")?.execute([id])?)
        })
        .await
    }
}
