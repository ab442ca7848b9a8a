//! The log beside the store's file: how it is asked for, and how it is made to last before a daemon acts on what is in it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use rustix::fs::{Access, access};

use super::{Result, StoreError, place::LOG_WAIT};

/// How much of it is in memory at once, bytes.
const PIECE: usize = 1 << 20;
/// How often it is written: the first sync may tell of a failure that nobody was told of.
const TIMES: usize = 2;

/// Has a file keep a log. SQLite tells of this in a row, and does it after that, so the statement goes to its end.
pub(super) fn keep_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma(None, "journal_mode", "WAL", |_| Ok(()))
}

/// Makes sure that all of the log of the store at `path` is on the disk, then puts it into the store. To be called before a daemon
/// reads the store.
///
/// A process that died may have left there what it had not synced yet, or what it could not sync. The next one reads it as
/// committed. After a sync that failed the system takes the bytes for written, so that no later sync writes them: they are
/// written anew, as they are. Costs nothing where the log is empty.
///
/// # Errors
/// The disk's, and another program's that writes to the store for longer than a second. The store is as it was.
pub fn make_log_durable(path: &Path) -> Result<()> {
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let is_empty = log.symlink_metadata().map_or(true, |is| is.len() == 0);
    if is_empty || access(path, Access::WRITE_OK).is_err() {
        return Ok(());
    }
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(LOG_WAIT)?;
        // Of a log that could not be made to last nothing is put into the store here.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // No other process writes to the log meanwhile, or cuts it.
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(connection)
    };
    let connection =
        open().map_err(|source| StoreError::Open { path: path.to_owned(), source: source.into() })?;
    write_anew(&log).map_err(|error| StoreError::Log { path: log, error })?;
    connection.execute_batch("ROLLBACK")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

fn write_anew(log: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(log)?;
    let mut outcome = Ok(());
    for _ in 0..TIMES {
        outcome = write_same(&file).and_then(|()| file.sync_data());
        if outcome.is_ok() {
            break;
        }
    }
    outcome?;
    log.parent().map_or(Ok(()), sync_folder)
}

#[expect(clippy::disallowed_methods, reason = "syncs the store's own folder, which no container can write")]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Writes each byte of a file where it is.
fn write_same(file: &File) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    loop {
        let read = match file.read_at(&mut piece, at) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome?,
        };
        file.write_all_at(&piece[..read], at)?;
        at += read as u64;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test plays the process that dies")]
mod tests {
    use std::fs;

    use super::*;

    /// A store of somebody who died: `count` rows, all of them in the log.
    fn left(folder: &Path, count: i64) -> PathBuf {
        let (path, copy) = (folder.join("living.sqlite"), folder.join("g2.sqlite"));
        let living = Connection::open(&path).unwrap();
        keep_log(&living).unwrap();
        living.execute_batch("CREATE TABLE t (n, filling)").unwrap();
        for n in 0..count {
            living.execute("INSERT INTO t VALUES (?1, zeroblob(3000))", [n]).unwrap();
        }
        for end in ["", "-wal"] {
            fs::copy(format!("{}{end}", path.display()), format!("{}{end}", copy.display())).unwrap();
        }
        copy
    }

    fn log_bytes(path: &Path) -> Option<u64> {
        fs::metadata(format!("{}-wal", path.display())).ok().map(|is| is.len())
    }

    #[test]
    fn what_a_dead_process_left_in_the_log_is_in_the_store() {
        let folder = tempfile::tempdir().unwrap();
        // More than one piece of it.
        let path = left(folder.path(), 400);
        assert!(log_bytes(&path) > Some(PIECE as u64), "{:?}", log_bytes(&path));
        make_log_durable(&path).unwrap();
        assert_eq!(log_bytes(&path), Some(0));
        let alone = folder.path().join("alone.sqlite");
        fs::copy(&path, &alone).unwrap();
        let count: i64 =
            Connection::open(&alone).unwrap().query_row("SELECT count(*) FROM t", [], |r| r.get(0)).unwrap();
        assert_eq!(count, 400);
    }

    #[test]
    fn without_a_log_nothing_is_opened_or_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g2.sqlite");
        make_log_durable(&path).unwrap();
        fs::write(&path, "no store").unwrap();
        make_log_durable(&path).unwrap();
        fs::write(folder.path().join("g2.sqlite-wal"), "").unwrap();
        make_log_durable(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"no store");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_somebody_else_writes_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = left(folder.path(), 1);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2, NULL)").unwrap();
        assert!(matches!(make_log_durable(&path), Err(StoreError::Open { .. })));
        other.execute_batch("COMMIT").unwrap();
        make_log_durable(&path).unwrap();
        assert_eq!(log_bytes(&path), Some(0));
        let count: i64 = other.query_row("SELECT count(*) FROM t", [], |r| r.get(0)).unwrap();
        assert_eq!(count, 2);
    }
}
