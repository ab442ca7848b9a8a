//! What SQLite can do on a disk of the simulation: all that the store asks of it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use g2_sim::{
    Chance,
    disk::{Disk, Fault, Image, Kind},
};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, backup::Backup};

const AT: &str = "/data/g2.sqlite";

fn writer(disk: &Disk) -> Connection {
    let connection = disk.connect(AT).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
}

fn reader(disk: &Disk) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(AT, flags, disk.vfs_name()).unwrap()
}

fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// Whether a checkpoint was held up, the frames of the log, and those that are in the store.
fn checkpoint(connection: &Connection, how: &str) -> (i64, i64, i64) {
    connection
        .query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap()
}

fn size(disk: &Disk, path: &str) -> Option<usize> {
    disk.get(path).map(|image| image.len())
}

fn is_sound(connection: &Connection) -> bool {
    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)) == Ok("ok".to_owned())
}

fn code(outcome: rusqlite::Result<impl Sized>) -> ErrorCode {
    outcome.err().unwrap().sqlite_error_code().unwrap()
}

#[test]
fn readers_see_the_moment_at_which_they_began_and_hold_a_checkpoint_up() {
    let disk = Disk::new(1);
    let writer = writer(&disk);
    writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    let readers = [reader(&disk), reader(&disk), reader(&disk)];
    readers[0].execute_batch("BEGIN").unwrap();
    assert_eq!(count(&readers[0]), 1);
    writer.execute("INSERT INTO t VALUES (2)", []).unwrap();
    readers[1].execute_batch("BEGIN").unwrap();
    assert_eq!(count(&readers[1]), 2);
    writer.execute("INSERT INTO t VALUES (3)", []).unwrap();
    assert_eq!(readers.each_ref().map(count), [1, 2, 3]);
    let (_, frames, copied) = checkpoint(&writer, "PASSIVE");
    assert!(copied < frames, "{copied} of {frames}");
    assert_eq!(checkpoint(&writer, "TRUNCATE").0, 1, "readers are in the way");
    assert_eq!(readers.each_ref().map(count), [1, 2, 3]);
    readers[0].execute_batch("COMMIT").unwrap();
    readers[1].execute_batch("COMMIT").unwrap();
    assert_eq!(readers.each_ref().map(count), [3, 3, 3]);
    assert_eq!(checkpoint(&writer, "TRUNCATE"), (0, 0, 0));
    assert_eq!(size(&disk, "/data/g2.sqlite-wal"), Some(0));
    assert_eq!(readers.each_ref().map(count), [3, 3, 3]);
    drop(readers);
    writer.close().unwrap();
    assert_eq!(disk.names(), [AT]);
}

#[test]
fn two_writers_are_one_after_the_other_and_a_timeout_takes_no_time() {
    for mode in ["WAL", "DELETE"] {
        let disk = Disk::new(1);
        let mut one = writer(&disk);
        one.pragma_update(None, "journal_mode", mode).unwrap();
        one.execute_batch("CREATE TABLE t (x)").unwrap();
        let other = disk.connect(AT).unwrap();
        other.busy_timeout(Duration::from_secs(5)).unwrap();
        let writing = one.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        writing.execute("INSERT INTO t VALUES (1)", []).unwrap();
        assert_eq!(code(other.execute("INSERT INTO t VALUES (2)", [])), ErrorCode::DatabaseBusy);
        assert!(disk.slept() > Duration::from_secs(4), "{:?}", disk.slept());
        writing.commit().unwrap();
        other.execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert_eq!(count(&one), 2);
    }
}

#[test]
fn a_reader_of_a_rollback_journal_holds_the_commit_up() {
    let disk = Disk::new(1);
    let (writer, reader) = (disk.connect(AT).unwrap(), disk.connect(AT).unwrap());
    writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader), 1);
    writer.busy_timeout(Duration::ZERO).unwrap();
    reader.busy_timeout(Duration::ZERO).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(code(writer.execute_batch("COMMIT")), ErrorCode::DatabaseBusy);
    let third = disk.connect(AT).unwrap();
    third.busy_timeout(Duration::ZERO).unwrap();
    assert_eq!(code(third.query_row("SELECT count(*) FROM t", [], |_| Ok(()))), ErrorCode::DatabaseBusy);
    reader.execute_batch("COMMIT").unwrap();
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!([&writer, &reader, &third].map(count), [2, 2, 2]);
}

#[test]
fn large_sorts_savepoints_and_temporary_tables_leave_nothing() {
    let disk = Disk::new(1);
    let writer = writer(&disk);
    writer.pragma_update(None, "temp_store", "FILE").unwrap();
    writer.pragma_update(None, "cache_size", 10).unwrap();
    writer
        .execute_batch(
            "CREATE TABLE t (x INTEGER PRIMARY KEY, y);
             CREATE TEMP TABLE u (y);
             WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 20000)
               INSERT INTO t SELECT x, hex(randomblob(50)) FROM n;
             INSERT INTO u SELECT y FROM t ORDER BY y;
             BEGIN; SAVEPOINT s; UPDATE t SET y = y || 'a'; ROLLBACK TO s; COMMIT;
             CREATE INDEX t_y ON t (y);",
        )
        .unwrap();
    assert!(is_sound(&writer));
    let of_files: i64 = writer.query_row("SELECT count(*) FROM u", [], |row| row.get(0)).unwrap();
    assert_eq!(of_files, 20_000);
    // More was opened than there are names for.
    assert!(disk.counts().of(Kind::Open) > 3, "{:?}", disk.counts());
    writer.close().unwrap();
    assert_eq!(disk.names(), [AT]);
}

#[test]
fn a_full_text_index_in_a_file_beside_is_attached() {
    let disk = Disk::new(1);
    let store = writer(&disk);
    store
        .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES ('a pear and an apple'), ('a plum')")
        .unwrap();
    store
        .execute_batch(
            "ATTACH '/data/search.sqlite' AS search;
             CREATE VIRTUAL TABLE search.words USING fts5 (x, tokenize = 'trigram');
             INSERT INTO search.words SELECT x FROM t;",
        )
        .unwrap();
    let found: String = store
        .query_row("SELECT snippet(words, 0, '[', ']', '', 9) FROM words WHERE words MATCH 'apple' ORDER BY bm25(words)", [], |row| row.get(0))
        .unwrap();
    assert!(found.contains("[apple]"), "{found}");
    // A transaction of both files.
    store.execute_batch("BEGIN; DELETE FROM t; DELETE FROM search.words; COMMIT").unwrap();
    assert_eq!(count(&store), 0);
    assert!(disk.names().contains(&"/data/search.sqlite".to_owned()));
}

#[test]
fn copies_are_made_by_vacuum_and_by_backup() {
    let disk = Disk::new(1);
    let store = writer(&disk);
    store.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000)), (2)").unwrap();
    store.execute("VACUUM INTO ?1", ["/data/copy.sqlite"]).unwrap();
    let mut other = disk.connect("/data/other.sqlite").unwrap();
    Backup::new(&store, &mut other).unwrap().run_to_completion(5, Duration::ZERO, None).unwrap();
    drop(other);
    for path in ["/data/copy.sqlite", "/data/other.sqlite"] {
        let copy = disk.connect(path).unwrap();
        assert_eq!(count(&copy), 2);
        assert!(is_sound(&copy));
    }
    store.execute_batch("DELETE FROM t; VACUUM").unwrap();
    assert!(is_sound(&store));
}

#[test]
fn a_template_is_made_once_and_put_on_every_disk() {
    let template = {
        let disk = Disk::new(0);
        let store = writer(&disk);
        store.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        store.close().unwrap();
        disk.get(AT).unwrap()
    };
    let before = template.to_vec();
    for seed in 0..20 {
        let disk = Disk::new(seed);
        disk.put(AT, &template);
        let store = writer(&disk);
        store.execute("INSERT INTO t VALUES (2)", []).unwrap();
        checkpoint(&store, "TRUNCATE");
        assert_eq!(count(&store), 2);
        drop(store);
        disk.lose_power(&mut Chance::new(seed));
        disk.revive();
        assert_eq!(count(&disk.connect(AT).unwrap()), 2);
    }
    assert_eq!(template.to_vec(), before);
    assert_eq!(Image::from(&*before), template);
}

#[test]
fn disks_do_not_see_each_other_and_have_names_after_one_another() {
    const fn goes_anywhere<T: Send + Sync>() {}
    const { goes_anywhere::<Disk>() }
    let names: Vec<String> = (0..50)
        .map(|seed| {
            let disk = Disk::new(seed);
            let store = writer(&disk);
            store.execute_batch("CREATE TABLE t (x)").unwrap();
            let other = Disk::new(seed);
            assert_eq!(other.names(), Vec::<String>::new());
            assert_ne!(disk.vfs_name(), other.vfs_name());
            disk.vfs_name().to_owned()
        })
        .collect();
    // Other tests of this file have disks at the same time.
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert!(different.len() < 40, "{different:?}");
    // A connection that stays keeps its disk.
    let store = {
        let disk = Disk::new(1);
        writer(&disk)
    };
    let other = Disk::new(2);
    store.execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(other.names(), Vec::<String>::new());
    assert_eq!(count(&store), 0);
}

#[test]
fn the_dead_do_nothing_any_more() {
    let disk = Disk::new(1);
    let mut store = writer(&disk);
    store.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    let reader = reader(&disk);
    assert_eq!(count(&reader), 1);
    let writing = store.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    writing.execute("INSERT INTO t VALUES (2)", []).unwrap();
    disk.die();
    let seen =
        |disk: &Disk| disk.names().iter().map(|name| (name.clone(), disk.get(name))).collect::<Vec<_>>();
    let before = seen(&disk);
    assert_eq!(code(writing.commit()), ErrorCode::SystemIoFailure);
    assert_eq!(code(reader.query_row("SELECT count(*) FROM t", [], |_| Ok(()))), ErrorCode::SystemIoFailure);
    assert!(disk.connect(AT).and_then(|c| c.query_row("SELECT count(*) FROM t", [], |_| Ok(()))).is_err());
    disk.revive();
    // Locks of the dead are gone, and what they still write nobody sees.
    let again = writer(&disk);
    again.execute("INSERT INTO t VALUES (3)", []).unwrap();
    assert_eq!(code(store.execute("INSERT INTO t VALUES (4)", [])), ErrorCode::SystemIoFailure);
    assert_eq!(code(reader.query_row("SELECT count(*) FROM t", [], |_| Ok(()))), ErrorCode::SystemIoFailure);
    drop((store, reader));
    assert_eq!(count(&again), 2);
    assert!(is_sound(&again));
    assert_eq!(before.len(), 2, "the store and its log");
}

#[test]
fn a_hook_decides_about_each_call_and_may_use_the_disk() {
    let disk = Disk::new(1);
    let store = writer(&disk);
    store.execute_batch("CREATE TABLE t (x)").unwrap();
    disk.on_call(|call| (call.kind == Kind::Sync).then_some(Fault::Io));
    assert_eq!(code(store.execute("INSERT INTO t VALUES (1)", [])), ErrorCode::SystemIoFailure);
    disk.on_call(|call| (call.kind == Kind::Write).then_some(Fault::Full));
    assert_eq!(code(store.execute("INSERT INTO t VALUES (1)", [])), ErrorCode::DiskFull);
    disk.heal();
    store.execute("INSERT INTO t VALUES (1)", []).unwrap();
    let same = disk.clone();
    disk.on_call(move |call| {
        assert!(call.number <= same.counts().total());
        if call.kind == Kind::Sync {
            same.die();
        }
        None
    });
    assert_eq!(code(store.execute("INSERT INTO t VALUES (2)", [])), ErrorCode::SystemIoFailure);
    assert!(disk.is_dead());
    disk.heal();
    disk.revive();
    let store = writer(&disk);
    // It was written, and a process that dies takes no write back.
    assert_eq!(count(&store), 2);
}

#[test]
fn time_is_what_it_was_set_to() {
    let disk = Disk::new(1);
    let store = disk.connect(AT).unwrap();
    let now = || {
        store
            .query_row("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')", [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    assert_eq!(now(), "1970-01-01 00:00:00.000");
    disk.set_time(1_800_000_000_123);
    assert_eq!(now(), "2027-01-15 08:00:00.123");
}

#[test]
fn names_and_bytes_are_forgotten_in_every_way() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let disk = Disk::new(seed);
        let store = disk.connect(AT).unwrap();
        store.pragma_update(None, "synchronous", "OFF").unwrap();
        store.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        drop(store);
        assert_eq!(disk.kept(AT), None, "nothing was synced");
        disk.lose_power(&mut Chance::new(seed));
        outcomes.insert(disk.get(AT).map(|image| image.len()));
    }
    assert_eq!(outcomes, [None, Some(0), Some(4096), Some(8192)].into());
}

/// The log of a sync that failed is seen by those who open it next, and no sync of theirs makes it durable: what they commit after it
/// goes with it. A checkpoint writes it elsewhere; if the power goes off meanwhile, the store has pages of it and no log for them.
#[test]
fn who_opens_a_log_whose_sync_failed_has_to_write_it_anew() {
    #[derive(Clone, Copy, PartialEq)]
    enum First {
        Nothing,
        Checkpoint,
        LostInCheckpoint,
        Anew,
        AnewLostInCheckpoint,
    }
    let harmed = |first: First| {
        let is_harmed = |seed: &u64| {
            let disk = Disk::new(*seed);
            let store = writer(&disk);
            store.execute_batch("CREATE TABLE t (x, y); CREATE INDEX i ON t (y)").unwrap();
            checkpoint(&store, "TRUNCATE");
            // The log has a head.
            store.execute("INSERT INTO t VALUES (0, 0)", []).unwrap();
            disk.on_call(|call| (call.kind == Kind::Sync).then_some(Fault::Io));
            let failed = store.execute("INSERT INTO t VALUES (1, randomblob(20000))", []);
            assert_eq!(code(failed), ErrorCode::SystemIoFailure);
            disk.heal();
            disk.die();
            disk.revive();
            if matches!(first, First::Anew | First::AnewLostInCheckpoint) {
                let log = format!("{AT}-wal");
                disk.put(&log, &disk.get(&log).unwrap());
            }
            let store = writer(&disk);
            let is_lost_there = matches!(first, First::LostInCheckpoint | First::AnewLostInCheckpoint);
            if is_lost_there {
                disk.on_call(|call| (call.kind == Kind::Sync && call.path == Some(AT)).then_some(Fault::Die));
                assert!(store.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).is_err());
                disk.heal();
            } else {
                if first == First::Checkpoint {
                    assert_eq!(checkpoint(&store, "TRUNCATE").0, 0);
                }
                store.execute("INSERT INTO t VALUES (2, 2)", []).unwrap();
            }
            disk.lose_power(&mut Chance::new(*seed));
            disk.revive();
            let store = disk.connect(AT).unwrap();
            let kept = "SELECT count(*) FROM t WHERE x = 2";
            let kept = store.query_row(kept, [], |row| row.get::<_, i64>(0));
            !is_sound(&store) || !is_lost_there && kept != Ok(1)
        };
        (0..100).filter(is_harmed).count()
    };
    assert!(harmed(First::Nothing) > 10);
    assert_eq!(harmed(First::Checkpoint), 0);
    assert!(harmed(First::LostInCheckpoint) > 10);
    assert_eq!(harmed(First::Anew), 0);
    assert_eq!(harmed(First::AnewLostInCheckpoint), 0);
}
