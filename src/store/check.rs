//! A look at a store that changes nothing: for `g2 doctor`, with a daemon at work or none.

use std::{
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode};

use super::{Result, Store, StoreError, Version, migrate, place::StoreFile};

/// How many faults are told.
const FAULTS: usize = 5;

/// What a look at a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub schema: Version,
    /// The version that this program writes.
    pub known: Version,
    pub soundness: Soundness,
}

/// Whether the file's structure is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Soundness {
    Sound,
    /// SQLite's own words.
    Damaged(Vec<String>),
    /// The store is too large to be read in the time given; what was read is sound.
    NotReadToTheEnd,
}

/// Which schema a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    pub found: Version,
    /// The version that this program writes.
    pub known: Version,
}

/// Returns which schema the store at `path` has. Nothing is made, migrated or written.
///
/// # Errors
/// [`StoreError::Open`] when it can't be opened or is no database.
pub fn schema_of(path: &Path) -> Result<Schema> {
    let failed = |error: rusqlite::Error| StoreError::Open { path: path.to_owned(), source: error.into() };
    let connection = StoreFile::of(path, None)?.connect()?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
    let found = Version::read(&connection).map_err(failed)?;
    Ok(Schema { found, known: migrate::version() })
}

/// Looks at the store at `path`, for `limit` at most. Nothing is made, migrated or written.
///
/// # Errors
/// [`StoreError::Open`] when it can't be opened or is no database.
pub fn inspect(path: &Path, limit: Duration) -> Result<Inspection> {
    let failed = |error: rusqlite::Error| StoreError::Open { path: path.to_owned(), source: error.into() };
    let place = StoreFile::of(path, None)?;
    let connection = place.connect()?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
    let schema = Version::read(&connection).map_err(failed)?;
    Ok(Inspection {
        schema,
        known: migrate::version(),
        soundness: soundness(&connection, limit).map_err(failed)?,
    })
}

fn soundness(connection: &Connection, limit: Duration) -> rusqlite::Result<Soundness> {
    let interrupt = connection.get_interrupt_handle();
    let (done, waits) = mpsc::channel::<()>();
    let timer = std::thread::spawn(move || {
        let mut wait = limit;
        // Again and again: an interruption is lost on a statement that has not begun.
        while waits.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            interrupt.interrupt();
            wait = Duration::from_millis(1);
        }
    });
    let told = quick_check(connection);
    drop(done);
    let _ = timer.join();
    match told {
        Ok(told) if told == ["ok"] => Ok(Soundness::Sound),
        Ok(told) => Ok(Soundness::Damaged(told)),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Ok(Soundness::NotReadToTheEnd),
            Some(ErrorCode::DatabaseCorrupt) => Ok(Soundness::Damaged(vec![error.to_string()])),
            Some(_) | None => Err(error),
        },
    }
}

fn quick_check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare(&format!("PRAGMA quick_check({FAULTS})"))?;
    check.query_map([], |row| row.get(0))?.collect()
}

impl Store {
    /// Returns how many rows each table has.
    ///
    /// # Errors
    /// The store's.
    pub fn counts(&self) -> Result<std::collections::BTreeMap<String, i64>> {
        self.read(|c| {
            let names: Vec<String> = c
                .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let count = |name: String| {
                let rows = c.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get(0))?;
                Ok((name, rows))
            };
            names.into_iter().map(count).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_store_that_is_as_it_should_be_is_sound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        drop(Store::open(&path).unwrap());
        let found = inspect(&path, LONG).unwrap();
        assert_eq!((found.schema, &found.soundness), (found.known, &Soundness::Sound));
    }

    #[test]
    fn a_look_makes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        assert!(matches!(inspect(&path, LONG), Err(StoreError::Open { .. })));
        assert!(!path.exists());
    }

    #[test]
    fn a_look_ends_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t (a); CREATE INDEX i ON t (a);
                 WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n LIMIT 300000) INSERT INTO t SELECT a FROM n",
            )
            .unwrap();
        assert_eq!(inspect(&path, Duration::ZERO).unwrap().soundness, Soundness::NotReadToTheEnd);
    }
}
