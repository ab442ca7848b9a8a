//! The tables of a foreign store: which of them are plain, and what stands in the way of the others.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, OpenFlags};

use super::{Bounded, LOOKS};
use crate::domain::moved::{findings::Finding, rows::Kind};

/// As many entries of a schema are looked at.
const MOST_ENTRIES: usize = 1_000;
/// A longer name is none of ours, bytes.
const LONGEST_NAME: usize = 128;

/// Plain tables with their columns.
pub(super) type Tables = BTreeMap<String, Vec<String>>;

/// Reads the schema.
pub(super) fn tables(c: &Bounded, store: &str, findings: &mut Vec<Finding>) -> rusqlite::Result<Tables> {
    let c = c.bound(LOOKS);
    let mut entries = Vec::new();
    {
        let mut statement = c.prepare(
            "SELECT type, name, coalesce(rootpage, 0) FROM sqlite_schema
              WHERE type IN ('table', 'view', 'trigger') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' AND octet_length(name) <= ?1
              LIMIT ?2",
        )?;
        let mut rows = statement.query((LONGEST_NAME, MOST_ENTRIES + 1))?;
        while let Some(row) = rows.next()? {
            entries.push((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?));
        }
    }
    let left = |name: &str, why: &str| Finding::left(Kind::Source, format!("{store}: {name}"), why);
    if entries.len() > MOST_ENTRIES {
        findings.push(left("schema", "it has more entries than are looked at; the others are not read"));
    }
    let mut tables = Tables::new();
    for (kind, name, root) in entries.into_iter().take(MOST_ENTRIES) {
        match kind.as_str() {
            "trigger" => findings.push(left(&name, "a trigger; it is not run")),
            "view" => findings.push(left(&name, "a view; it is not read")),
            _ if root <= 0 => findings.push(left(&name, "a virtual table; it is not read")),
            _ => match columns(c, &name)? {
                Some(columns) => drop(tables.insert(name, columns)),
                None => findings.push(left(
                    &name,
                    "a table with computed columns, or without row numbers; it is not read",
                )),
            },
        }
    }
    Ok(tables)
}

/// Returns the columns of a plain table; `None` for one whose columns are computed, or that has no row numbers.
fn columns(c: &Connection, table: &str) -> rusqlite::Result<Option<Vec<String>>> {
    let mut names = Vec::new();
    let mut is_plain = true;
    c.pragma(None, "table_xinfo", table, |row| {
        names.push(row.get::<_, String>(1)?);
        is_plain &= row.get::<_, i64>(6)? == 0;
        Ok(())
    })?;
    let has_numbers = c.prepare(&format!("SELECT _rowid_ FROM {} LIMIT 0", quoted(table))).is_ok()
        && !names.iter().any(|name| name.eq_ignore_ascii_case("_rowid_"));
    Ok((is_plain && has_numbers).then_some(names))
}

/// A name as SQL has it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the names of the tables that a store has without its log; none where it can't be read so.
pub(super) fn bare(path: &Path) -> Vec<String> {
    let name = format!("file:{}?immutable=1", path.display());
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let Ok(c) = Connection::open_with_flags(name, flags) else { return Vec::new() };
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND octet_length(name) <= ?1 LIMIT ?2";
    let Ok(mut statement) = c.prepare(sql) else { return Vec::new() };
    let rows = statement.query_map((LONGEST_NAME, MOST_ENTRIES), |row| row.get(0));
    rows.map_or_else(|_| Vec::new(), |rows| rows.map_while(Result::ok).collect())
}

/// Looks whether a store with its log is still the same: some table that it has without it is there.
///
/// # Errors
/// None is: the log is another store's.
pub(super) fn belongs(bare: &[String], with_log: &Tables) -> rusqlite::Result<()> {
    if bare.is_empty() || bare.iter().any(|name| with_log.contains_key(name)) {
        return Ok(());
    }
    let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(error, Some("its log has none of its tables".into())))
}

/// Looks whether the pages of a store fit together.
///
/// # Errors
/// They don't.
pub(super) fn check(c: &Bounded, looks: u64) -> rusqlite::Result<()> {
    let word: String = c.bound(looks).query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if word == "ok" {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(word)))
}
