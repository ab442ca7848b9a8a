//! Brings a database file to this program's schema: forward only, one transaction a step.

#![expect(clippy::disallowed_methods, reason = "keeps copies beside the store, where no container can write")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{StoreError, Version, place::escaped};
use crate::system::failpoint;

/// Every migration, in order; the number in its name is its version.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_init", include_str!("../../migrations/0001_init.sql")),
    ("0002_typed", include_str!("../../migrations/0002_typed.sql")),
    ("0003_amends", include_str!("../../migrations/0003_amends.sql")),
    ("0004_limits", include_str!("../../migrations/0004_limits.sql")),
    ("0005_meant", include_str!("../../migrations/0005_meant.sql")),
    ("0006_questions", include_str!("../../migrations/0006_questions.sql")),
    ("0007_gone", include_str!("../../migrations/0007_gone.sql")),
    ("0008_owner", include_str!("../../migrations/0008_owner.sql")),
    ("0009_models", include_str!("../../migrations/0009_models.sql")),
    ("0010_used", include_str!("../../migrations/0010_used.sql")),
    ("0011_moved", include_str!("../../migrations/0011_moved.sql")),
    ("0012_reach", include_str!("../../migrations/0012_reach.sql")),
];

/// What becomes of a store that has the last schema of before `0001_init.sql`.
const RENUMBERED: &str = "The schema has the number 1 from now on, and no table is another one";

/// The migration of the program that comes next, which tests play.
const NEXT: (&str, &str) =
    ("next", "-- A table that nobody uses.\nCREATE TABLE next_version (n INTEGER) STRICT;");

/// Every migration of this program: name and SQL.
fn migrations() -> impl Iterator<Item = (&'static str, &'static str)> {
    MIGRATIONS.iter().copied().chain(failpoint::is_next_version().then_some(NEXT))
}

/// The schema version that this program writes.
pub(super) fn version() -> Version {
    Version::of(migrations().count())
}

/// What is done to a store of schema `from`: the version after each step, its name and its SQL.
fn steps(from: Version) -> impl Iterator<Item = (Version, &'static str, &'static str)> {
    let all = migrations().zip(1..).map(|((name, sql), number)| (Version::of(number), name, sql));
    all.skip(from.number())
}

/// What a step is about for a store of schema `from`: the first sentence of its comment.
fn about(from: Version, to: Version, sql: &'static str) -> String {
    if from == Version::LAST_OF_BEFORE && to == Version::of(1) {
        return RENUMBERED.to_owned();
    }
    let lines = sql.lines().map_while(|line| line.strip_prefix("-- "));
    let text = lines.collect::<Vec<_>>().join(" ");
    let end = text.find([';', ':']).into_iter().chain(text.find(". ")).min().unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// Applies what is missing. A copy of a store that holds something is kept beside it first.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let at = Version::read(connection)?;
    at.check(path)?;
    if at == version() {
        return Ok(());
    }
    if at == Version::LAST_OF_BEFORE {
        recognise(connection, path)?;
    }
    if at > Version::NONE {
        keep_copy(connection, path, at)?;
    }
    for (to, name, sql) in steps(at) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
        let now_at = Version::read(&transaction)?;
        if now_at >= to {
            continue;
        }
        // That one has the tables of the first migration.
        if now_at != Version::LAST_OF_BEFORE {
            transaction
                .execute_batch(sql)
                .map_err(|error| StoreError::Migration { name, source: error.into() })?;
        }
        to.write(&transaction)?;
        if at > Version::NONE {
            note(&transaction, at, to)?;
        }
        transaction.commit()?;
        failpoint::reach("store.migrated");
        if at > Version::NONE {
            tracing::info!(name, about = about(at, to, sql), "the store is changed for this version");
        }
    }
    Ok(())
}

/// Refuses a store that has the number of the last schema of before, and another schema.
fn recognise(store: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = Version::LAST_OF_BEFORE;
    match odd_part(store, found)? {
        Some(odd) => Err(StoreError::Odd { path: path.to_owned(), found, odd }),
        None => Ok(()),
    }
}

/// Notes what was changed until the schema is `upto`, for `status`.
fn note(connection: &Connection, from: Version, upto: Version) -> Result<(), StoreError> {
    let done = steps(from).take_while(|(to, ..)| *to <= upto);
    let changes: Vec<String> = done.map(|(to, _, sql)| about(from, to, sql)).collect();
    let noted = serde_json::json!({"from": from, "to": upto, "changes": changes}).to_string();
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('upgraded', json_insert(?1, '$.at', CAST(unixepoch('subsec') * 1000 AS INTEGER)))
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [noted],
    )?;
    Ok(())
}

/// How many copies of older stores are kept.
const COPIES: usize = 2;

/// Copies of the store as it was before a newer program changed its schema, the oldest first.
pub(super) fn kept_copies(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let beginning = format!("{}.before-", name.to_string_lossy());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_copy = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(&beginning).is_some_and(|version| version.parse::<usize>().is_ok())
    };
    let mut copies: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_copy).collect();
    copies.sort();
    copies
}

/// Keeps a copy of the store as it is, checked before it gets its name, and removes the oldest copies. One that a death in the
/// middle of these migrations left is the whole store as it was before them, and stays.
fn keep_copy(connection: &Connection, path: &Path, at: Version) -> Result<(), StoreError> {
    let copy = path.with_extension(format!("sqlite.before-{}", version().digits()));
    let version_of = |path: &Path| -> rusqlite::Result<Version> {
        // Nothing is made beside it.
        let name = format!("file:{}?immutable=1", escaped(path));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Version::read(&Connection::open_with_flags(name, flags)?)
    };
    let is_older = |kept: Version| Version::NONE < kept && kept < at;
    if copy.exists() && version_of(&copy).is_ok_and(is_older) {
        return Ok(());
    }
    let failed = |error: std::io::Error| StoreError::KeptCopy { path: copy.clone(), error };
    let unfinished = path.with_extension("sqlite.before");
    let none = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    std::fs::remove_file(&unfinished)
        .or_else(|error| if none(&error) { Ok(()) } else { Err(error) })
        .map_err(failed)?;
    connection.backup("main", &unfinished, None::<fn(rusqlite::backup::Progress)>)?;
    let check = Connection::open(&unfinished)?;
    let told: String = check.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
    drop(check);
    if told != "ok" {
        return Err(StoreError::refused(
            format!("the store is damaged ({told}), so it is not changed to the schema of this g2"),
            "`g2 doctor` says how to go on",
        ));
    }
    std::fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(failed)?;
    failpoint::reach("store.copied");
    std::fs::rename(&unfinished, &copy).map_err(failed)?;
    let copies = kept_copies(path);
    for old in copies.iter().take(copies.len().saturating_sub(COPIES)) {
        std::fs::remove_file(old).map_err(failed)?;
    }
    Ok(())
}

/// Opens a store that somebody else may have made, to look at it: nothing in its schema is trusted.
pub(super) fn open_foreign(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Returns what a store of version `at` has that a store of ours has not, or lacks; `None`: its schema is ours.
pub(super) fn odd_part(store: &Connection, at: Version) -> Result<Option<String>, StoreError> {
    let number = if at == Version::LAST_OF_BEFORE { 1 } else { at.number() };
    let ours = Connection::open_in_memory()?;
    for (name, sql) in migrations().take(number) {
        ours.execute_batch(sql).map_err(|error| StoreError::Migration { name, source: error.into() })?;
    }
    let (theirs, ours) = (parts(store)?, parts(&ours)?);
    let odd = theirs.symmetric_difference(&ours).next();
    Ok(odd.map(|(kind, name, _)| format!("{kind} {name}")))
}

/// The parts of a schema: kind, name, and its text as [`bare`] leaves it.
fn parts(c: &Connection) -> Result<BTreeSet<(String, String, String)>, StoreError> {
    let mut all = c.prepare(
        "SELECT type, name, coalesce(sql, '') AS sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'",
    )?;
    let parts = all.query_map([], |r| {
        let sql: String = r.get("sql")?;
        Ok((r.get("type")?, r.get("name")?, bare(&sql)))
    })?;
    Ok(parts.collect::<rusqlite::Result<_>>()?)
}

/// Returns SQL without comments, and without blanks and quotes, which versions of SQLite set differently. What begins a comment
/// is none within quotes.
fn bare(sql: &str) -> String {
    let (mut bare, mut quote) = (String::new(), None);
    let mut left = sql.chars().peekable();
    while let Some(c) = left.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '-') if left.peek() == Some(&'-') => {
                left.by_ref().find(|c| *c == '\n');
                continue;
            }
            _ => {}
        }
        if !c.is_whitespace() && c != '"' {
            bare.push(c);
        }
    }
    bare
}

#[cfg(test)]
mod tests;
