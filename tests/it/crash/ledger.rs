//! The store as the next daemon finds it: columns that no command shows.
#![expect(clippy::disallowed_methods, reason = "tests copy the store")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use rusqlite::{Connection, OpenFlags, types::FromSql};

use crate::support::Root;

/// A store that is looked at and not touched.
pub(super) struct Ledger {
    connection: Connection,
    _copy: Option<tempfile::TempDir>,
}

/// A batch as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) state: String,
    pub(super) via: String,
    pub(super) tries: u32,
    pub(super) free_returns: u32,
}

impl Ledger {
    /// Opens a copy: to look does not recover or checkpoint what the next daemon is to find. Nobody may be writing.
    pub(super) fn of_the_dead(root: &Root) -> Self {
        let copy = tempfile::tempdir().unwrap();
        for name in ["g2.sqlite", "g2.sqlite-wal"] {
            let from = root.data(name);
            if from.exists() {
                fs::copy(from, copy.path().join(name)).unwrap();
            }
        }
        let connection = Connection::open(copy.path().join("g2.sqlite")).unwrap();
        Self { connection, _copy: Some(copy) }
    }

    /// Reads beside a daemon that lives.
    pub(super) fn of_the_living(root: &Root) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(root.data("g2.sqlite"), flags).unwrap();
        connection.busy_timeout(crate::support::DEADLINE).unwrap();
        Self { connection, _copy: None }
    }

    /// Returns a list of one column.
    pub(super) fn column<T: FromSql>(&self, sql: &str) -> Vec<T> {
        let mut rows = self.connection.prepare(sql).unwrap();
        rows.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// Returns a list of two columns.
    pub(super) fn pairs<A: FromSql, B: FromSql>(&self, sql: &str) -> Vec<(A, B)> {
        let mut rows = self.connection.prepare(sql).unwrap();
        rows.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    /// Returns one number.
    pub(super) fn number(&self, sql: &str) -> i64 {
        self.column(sql)[0]
    }

    /// Returns every batch, oldest first.
    pub(super) fn batches(&self) -> Vec<Batch> {
        let mut rows = self
            .connection
            .prepare("SELECT state, via, tries, free_returns FROM batches ORDER BY id")
            .unwrap();
        rows.query_map([], |r| {
            Ok(Batch { state: r.get(0)?, via: r.get(1)?, tries: r.get(2)?, free_returns: r.get(3)? })
        })
        .unwrap()
        .map(Result::unwrap)
        .collect()
    }
}
