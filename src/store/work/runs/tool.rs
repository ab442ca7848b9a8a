//! The tools that agents use, as their records say.

use ipc_handlers::{Time, wire};
use rusqlite::{Connection, params};

use super::ActiveRun;
use crate::{
    domain::runs::used::{LONGEST_NAME, Used},
    store::Result,
};

/// How many tools are kept of a run: the newest.
const KEPT: i64 = 1_000;

/// Notes the use of a tool that a record tells of, if it tells of one: its beginning as a row, its end in that row.
pub(super) fn note_tool(
    c: &Connection,
    run: &ActiveRun,
    seq: i64,
    record: &wire::Record,
    now: Time,
) -> Result<()> {
    let blocked = record.result.as_deref().filter(|_| record.kind == wire::Kind::BlockedTool);
    let (used, call) = match (blocked, Used::of(record)) {
        (Some(name), _) => {
            let name: String = name.chars().take(LONGEST_NAME).collect();
            (Used { name, ..Used::default() }, None)
        }
        (None, Some(used)) => used,
        (None, None) => return Ok(()),
    };
    if let Some((outcome, took)) = used.end {
        // One whose beginning is not there any more has no row.
        c.prepare_cached(
            "UPDATE tools SET outcome = ?3, took_ms = ?4 WHERE run_id = ?1 AND n = (SELECT max(n) FROM tools WHERE run_id = ?1 AND call = ?2) AND outcome IS NULL",
        )?
        .execute(params![run.id, call, outcome.as_str(), took])?;
        return Ok(());
    }
    if used.name.is_empty() {
        return Ok(());
    }
    c.prepare_cached(
        "INSERT INTO tools (run_id, n, group_folder, name, call, about, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![run.id, seq, run.group.as_str(), used.name, call, used.about, now.0])?;
    // Numbers of records have gaps between tools: the row that has `KEPT` newer ones goes.
    c.prepare_cached(
        "DELETE FROM tools WHERE run_id = ?1 AND n <= (SELECT n FROM tools WHERE run_id = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute([run.id, KEPT])?;
    Ok(())
}
