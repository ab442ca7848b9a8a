//! The one door to stores of other programs. A store is copied, and the copy is read: plain tables alone, by our own statements,
//! with bounds on each value and on the work of each step.
//!
//! Views, triggers and virtual tables are named, and never run. A table or a column that a newer version brought is named
//! as well. What can't be read in the middle of a table is passed over, and told.

mod copy;
mod read;
mod schema;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rusqlite::{Connection, OpenFlags, config::DbConfig, limits::Limit};
use tempfile::TempDir;

use super::installation::Installation;
use crate::domain::moved::{findings::Finding, rows::Kind};

pub use copy::NoCopy;
pub use read::{Page, Read};
use schema::Tables;

/// A longer value is not read, bytes.
pub const LONGEST_VALUE: usize = 4 << 20;
/// Steps of SQLite's machine between two looks at the bound.
const LOOK_EVERY: i32 = 1_000;
/// Looks within which a page of rows has to be there.
const LOOKS: u64 = 100_000;

/// Why a store can't be read at all.
#[derive(Debug, thiserror::Error)]
pub enum NotReadable {
    #[error("{0}")]
    Copy(#[from] NoCopy),
    #[error("it is no SQLite database, or a broken one: {0}")]
    NoStore(#[source] rusqlite::Error),
}

/// A store of another program, as it was at one instant.
#[derive(Debug)]
pub struct Foreign {
    c: Bounded,
    name: String,
    tables: Tables,
    _folder: TempDir,
}

impl Foreign {
    /// Reads the store `inner` of an installation, with what there is to tell of it.
    ///
    /// # Errors
    /// [`NotReadable`].
    pub fn open(installation: &Installation, inner: &str) -> Result<(Self, Vec<Finding>), NotReadable> {
        let copied = copy::copy(installation, inner)?;
        let path = copied.folder.path().join(copy::NAME);
        let mut findings = Vec::new();
        let looks = LOOKS + copied.bytes / 4096;
        let read = connect(&path).and_then(|c| {
            let tables = schema::tables(&c, inner, &mut findings)?;
            if copied.has_log {
                schema::check(&c, looks)?;
                schema::belongs(&schema::bare(&path), &tables)?;
            }
            Ok((c, tables))
        });
        let (c, tables) = match read {
            Ok(read) => read,
            Err(_) if copied.has_log => {
                // The log may be another store's: what it lays over this one makes no sense.
                findings.clear();
                for end in ["-wal", "-shm"] {
                    remove(&copied.folder.path().join(format!("{}{end}", copy::NAME)));
                }
                findings.push(Finding::left(
                    Kind::Source,
                    format!("{inner}-wal"),
                    "the log beside the store is broken or belongs to another one: the store is read without it",
                ));
                let c = connect(&path).map_err(NotReadable::NoStore)?;
                let tables = schema::tables(&c, inner, &mut findings).map_err(NotReadable::NoStore)?;
                (c, tables)
            }
            Err(error) => return Err(NotReadable::NoStore(error)),
        };
        if let Some(missing) = copied.missing {
            let why = format!("it ends {missing} bytes too early; rows of it are missing");
            findings.push(Finding::left(Kind::Source, inner, why));
        }
        Ok((Self { c, name: inner.to_owned(), tables, _folder: copied.folder }, findings))
    }

    /// Whether it has a plain table of this name.
    #[must_use]
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Whether a table has a column of this name.
    #[must_use]
    pub fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.iter().any(|name| name == column))
    }

    /// Tells of tables and columns that are none of these.
    #[must_use]
    pub fn unknown(&self, known: &[(&str, &[&str])]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (table, columns) in &self.tables {
            let Some((_, names)) = known.iter().find(|(name, _)| name == table) else {
                findings.push(Finding::left(
                    Kind::Source,
                    format!("{}: {table}", self.name),
                    "a table that no known version has; it is not read",
                ));
                continue;
            };
            for column in columns.iter().filter(|column| !names.contains(&column.as_str())) {
                findings.push(Finding::left(
                    Kind::Source,
                    format!("{}: {table}.{column}", self.name),
                    "a column that no known version has; it is not read",
                ));
            }
        }
        findings
    }

    /// Returns about how many rows a table has.
    #[must_use]
    pub fn rows(&self, table: &str) -> u64 {
        read::last_row(self, table)
    }
}

#[expect(clippy::disallowed_methods, reason = "removes a file of the private copy")]
fn remove(path: &Path) {
    // If it is still there, the store is told as broken.
    let _ = std::fs::remove_file(path);
}

/// Opens the copy. Nothing of its schema may run code, and nothing is written.
fn connect(path: &Path) -> rusqlite::Result<Bounded> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut c = Connection::open_with_flags(path, flags)?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        // A log that turns out to be another store's must not be laid over the copy for good.
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        c.set_db_config(config, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, i32::try_from(LONGEST_VALUE * 16).unwrap_or(i32::MAX)),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_COLUMN, 200),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        c.set_limit(limit, most)?;
    }
    c.execute_batch("PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA cache_size = -16384")?;
    let left = Arc::new(AtomicU64::new(LOOKS));
    let looked = Arc::clone(&left);
    let is_over = move || {
        looked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    };
    c.progress_handler(LOOK_EVERY, Some(is_over))?;
    Ok(Bounded { c, left })
}

/// A connection whose steps end once they have taken a bounded amount of work.
#[derive(Debug)]
struct Bounded {
    c: Connection,
    left: Arc<AtomicU64>,
}

impl Bounded {
    /// Lets the next step take so much work.
    fn bound(&self, looks: u64) -> &Connection {
        self.left.store(looks, Ordering::Relaxed);
        &self.c
    }
}
