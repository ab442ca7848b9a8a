//! What happened since the root was made, counted. Both halves add to it, in the transaction of what they count.

use rusqlite::{Connection, params};

use super::Result;
use crate::domain::{
    runs::{judge::Cause, usage::Sum},
    shown::metrics::{OTHERS, Total},
    states::{RunKind, RunStatus},
};

/// How many labels a total has: agents choose the names of models.
const MOST_LABELS: i64 = 50;

/// Counts an end of a run.
pub(in crate::store) fn run_ended(
    c: &Connection,
    kind: RunKind,
    status: RunStatus,
    cause: &Cause,
) -> Result<()> {
    add(c, Total::Runs, kind.as_str(), status.as_str(), 1)?;
    match cause.verdict() {
        Some(verdict) => add(c, Total::Kills, verdict, "", 1),
        None => Ok(()),
    }
}

/// Counts what was used of a model.
pub(in crate::store) fn used(c: &Connection, model: &str, sum: &Sum, refused: u64) -> Result<()> {
    for (kind, count) in
        [("answered", sum.requests.saturating_sub(sum.errors)), ("failed", sum.errors), ("refused", refused)]
    {
        add(c, Total::Requests, "all", kind, count)?;
    }
    let tokens = &sum.tokens;
    for (kind, count) in [
        ("input", tokens.input),
        ("output", tokens.output),
        ("cache_read", tokens.cache_read),
        ("cache_creation", tokens.cache_creation),
    ] {
        add(c, Total::Tokens, model, kind, count)?;
    }
    Ok(())
}

fn add(c: &Connection, what: Total, label: &str, kind: &str, count: u64) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let known: bool = c
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM totals WHERE what = ?1 AND label = ?2)
               OR (SELECT count(DISTINCT label) FROM totals WHERE what = ?1) < ?3 AS known",
        )?
        .query_row(params![what.as_str(), label, MOST_LABELS], |r| r.get(0))?;
    let label = if known { label } else { OTHERS };
    c.prepare_cached(
        "INSERT INTO totals (what, label, kind, count) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (what, label, kind) DO UPDATE SET count = count + excluded.count",
    )?
    .execute(params![what.as_str(), label, kind, count])?;
    Ok(())
}
