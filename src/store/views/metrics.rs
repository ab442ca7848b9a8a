//! Figures for Prometheus that rows tell: how much there is, how much waits and since when.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};
use rusqlite::Connection;

use super::turns::LanesShown;
use crate::domain::{
    shown::metrics::{Total, WaitCause},
    states::RunStatus,
};
use crate::store::{Result, Store, columns::Columns as _};

/// What rows tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub groups: i64,
    /// Tasks by their status.
    pub tasks: Vec<(String, i64)>,
    /// What was ever stored of each: messages, outbox, runs.
    pub given: BTreeMap<String, i64>,
    /// Runs under way by status.
    pub active: Vec<(RunStatus, i64)>,
    /// Texts that are not sent, by status, with the age of the oldest.
    pub outbox: Vec<(String, i64)>,
    pub oldest_text: Option<Time>,
    pub questions: i64,
    pub oldest_question: Option<Time>,
    /// Who waits, by what for.
    pub waits: BTreeMap<WaitCause, i64>,
    pub totals: Vec<(Total, String, String, i64)>,
}

impl Store {
    /// Returns what rows tell; `is_lost`: whether a group's folder is. The work is in proportion to what is open, and to the numbers of groups and tasks.
    pub fn figures(&self, now: Time, is_lost: impl Fn(&Folder) -> bool) -> Result<Figures> {
        let waits = self.waits(now, is_lost)?;
        self.read(|c| {
            let (oldest_text, oldest_question) = (
                "SELECT min(created_at) FROM outbox INDEXED BY outbox_open WHERE (status = 'pending' OR status = 'sending' OR status = 'unknown')",
                "SELECT min(created_at) FROM approvals WHERE state = 'pending'",
            );
            Ok(Figures {
                groups: one(c, "SELECT count(*) FROM groups")?,
                tasks: counted(c, "SELECT status AS what, count(*) AS count FROM tasks GROUP BY status")?,
                given: counted(c, "SELECT name AS what, seq AS count FROM sqlite_sequence WHERE name IN ('messages', 'outbox', 'runs')")?
                    .into_iter()
                    .collect(),
                active: c
                    .prepare_cached("SELECT status, count(*) AS count FROM runs INDEXED BY runs_one_per_group WHERE status IN ('queued', 'running') GROUP BY status")?
                    .query_map([], |r| Ok((r.word("runs", "status")?, r.get("count")?)))?
                    .collect::<rusqlite::Result<_>>()?,
                outbox: counted(
                    c,
                    "SELECT status AS what, count(*) AS count FROM outbox INDEXED BY outbox_open WHERE (status = 'pending' OR status = 'sending' OR status = 'unknown') GROUP BY status",
                )?,
                oldest_text: at(c, oldest_text)?,
                questions: one(c, "SELECT count(*) FROM approvals WHERE state = 'pending'")?,
                oldest_question: at(c, oldest_question)?,
                waits,
                totals: c
                    .prepare_cached("SELECT what, label, kind, count FROM totals ORDER BY what, label, kind")?
                    .query_map([], |r| Ok((r.word("totals", "what")?, r.get("label")?, r.get("kind")?, r.get("count")?)))?
                    .collect::<rusqlite::Result<_>>()?,
            })
        })
    }

    /// Counts the lanes in which something waits, by what for.
    fn waits(&self, now: Time, is_lost: impl Fn(&Folder) -> bool) -> Result<BTreeMap<WaitCause, i64>> {
        let mut waits: BTreeMap<WaitCause, i64> =
            WaitCause::CHOICES.iter().map(|(_, cause)| (*cause, 0)).collect();
        for mut lane in self.shown_lanes(None, LanesShown::Busy, None, now)? {
            lane.wait_for_folder(&is_lost);
            let Some(cause) = lane.wait_cause else { continue };
            *waits.entry(cause).or_default() += 1;
        }
        Ok(waits)
    }
}

fn one(c: &Connection, sql: &str) -> Result<i64> {
    Ok(c.prepare_cached(sql)?.query_row([], |r| r.get(0))?)
}

fn at(c: &Connection, sql: &str) -> Result<Option<Time>> {
    Ok(c.prepare_cached(sql)?.query_row([], |r| r.time_or_null(0))?)
}

fn counted(c: &Connection, sql: &str) -> Result<Vec<(String, i64)>> {
    Ok(c.prepare_cached(sql)?
        .query_map([], |r| Ok((r.get("what")?, r.get("count")?)))?
        .collect::<rusqlite::Result<_>>()?)
}
