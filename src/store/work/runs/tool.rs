//! The tools that agents began to use, as their records say.

use ipc_handlers::{Time, wire};
use rusqlite::{Connection, params};

use super::ActiveRun;
use crate::store::Result;

/// How many tools are kept of a run: the newest.
const KEPT: i64 = 1_000;
/// How much of a tool's name is kept, characters.
const LONGEST_NAME: usize = 100;

/// Notes the tool that a record names, if it names one.
pub(super) fn note_tool(
    c: &Connection,
    run: &ActiveRun,
    seq: i64,
    record: &wire::Record,
    now: Time,
) -> Result<()> {
    let named = match record.kind {
        wire::Kind::BlockedTool => record.result.as_deref(),
        _ => record.tool.as_deref(),
    };
    let name: String = named.unwrap_or_default().chars().take(LONGEST_NAME).collect();
    if name.is_empty() {
        return Ok(());
    }
    c.prepare_cached("INSERT INTO tools (run_id, n, group_folder, name, at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![run.id, seq, run.group.as_str(), name, now.0])?;
    // Numbers of records have gaps between tools: the row that has `KEPT` newer ones goes.
    c.prepare_cached(
        "DELETE FROM tools WHERE run_id = ?1 AND n <= (SELECT n FROM tools WHERE run_id = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute([run.id, KEPT])?;
    Ok(())
}
