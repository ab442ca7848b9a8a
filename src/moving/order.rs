//! Rows of one or more stores in the order of a key, such as their time, on the disk. Memory does not grow with them.

use std::{
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// Values, to be taken out in the order of their keys; those of one key as they came.
#[derive(Debug)]
pub struct Order {
    c: Connection,
    taken: i64,
    _folder: TempDir,
}

/// Makes a folder in `scratch` for copies that nobody else can look into, whatever the umask says. It goes with what is returned;
/// one that a killed process left goes with the next start of the daemon, if `scratch` is `data/tmp`.
///
/// # Errors
/// The operating system's.
pub(super) fn private_folder(scratch: &Path) -> std::io::Result<TempDir> {
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(scratch)?;
    tempfile::Builder::new().prefix("moving-").permissions(mode).tempdir_in(scratch)
}

impl Order {
    /// Makes an empty one, on the disk of `scratch`.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn new(scratch: &Path) -> anyhow::Result<Self> {
        let folder = private_folder(scratch)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let c = Connection::open_with_flags(folder.path().join("order"), flags)?;
        c.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;
             CREATE TABLE spots (key TEXT NOT NULL, value TEXT NOT NULL);
             CREATE TABLE sorted (n INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL);
             BEGIN",
        )?;
        Ok(Self { c, taken: 0, _folder: folder })
    }

    /// Takes one in.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn add(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        self.c.prepare_cached("INSERT INTO spots (key, value) VALUES (?1, ?2)")?.execute((key, value))?;
        Ok(())
    }

    /// Sorts them; no more are taken in.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn sort(&mut self) -> anyhow::Result<()> {
        self.c.execute_batch(
            "INSERT INTO sorted (key, value) SELECT key, value FROM spots ORDER BY key, rowid;
             DROP TABLE spots;
             COMMIT",
        )?;
        Ok(())
    }

    /// Returns the next ones, each with its key.
    ///
    /// # Errors
    /// The disk can't be read.
    pub fn take(&mut self, most: usize) -> anyhow::Result<Vec<(String, String)>> {
        let sql = "SELECT n, key, value FROM sorted WHERE n > ?1 ORDER BY n LIMIT ?2";
        let mut statement = self.c.prepare_cached(sql)?;
        let mut rows = statement.query((self.taken, most))?;
        let mut taken = Vec::new();
        while let Some(row) = rows.next()? {
            self.taken = row.get(0)?;
            taken.push((row.get(1)?, row.get(2)?));
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_their_keys_and_those_of_one_key_as_they_came() {
        let dir = tempfile::tempdir().unwrap();
        let mut order = Order::new(&dir.path().join("a/b")).unwrap();
        for (key, value) in [("2026-02", "a"), ("2026-01", "b"), ("2026-02", "c"), ("", "d")] {
            order.add(key, value).unwrap();
        }
        order.sort().unwrap();
        let mut values =
            |most| -> Vec<String> { order.take(most).unwrap().into_iter().map(|(_, value)| value).collect() };
        assert_eq!(values(3), ["d", "b", "a"]);
        assert_eq!(values(3), ["c"]);
        assert!(values(3).is_empty());
    }
}
