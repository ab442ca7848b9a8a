//! An installation is only read: not one byte, name or time of it changes, and its program never waits.
#![expect(clippy::disallowed_methods, reason = "a test looks at all of an installation")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use g2::domain::moved::rows::{Part, Row};

use super::samples::{Sample, read};

/// Its number, its rights, when it was written and changed, its bytes.
type Seen = (u64, u32, (i64, i64), (i64, i64), Vec<u8>);

/// What can be seen of each file and folder, but for the time of the last look at it.
fn seen(path: &Path, all: &mut BTreeMap<PathBuf, Seen>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let bytes = if meta.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    let times = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    all.insert(path.to_owned(), (meta.ino(), meta.mode(), times.0, times.1, bytes));
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            seen(&entry.unwrap().path(), all);
        }
    }
}

#[test]
fn not_one_byte_name_or_time_of_an_installation_changes() {
    for name in ["nanoclaw", "nanoclaw-january", "g2", "nanoclaw-v2", "nanoclaw-v2-april"] {
        let sample = Sample::of(name);
        // A log that was not taken into its store, and a journal of a write that was interrupted.
        let store = if name.starts_with("nanoclaw-v2") { "data/v2.db" } else { "store/messages.db" };
        let writer = rusqlite::Connection::open(sample.path(store)).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE later (a)").unwrap();
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        seen(sample.dir.path(), &mut before);
        let (rows, _) = sample.read();
        assert!(!rows.is_empty());
        drop(sample.open().trees());
        seen(sample.dir.path(), &mut after);
        assert!(before == after, "{name} has changed");
        drop(writer);
    }
}

/// A program that writes all the time, and puts its log into the store again and again: it is never held up, and what is read
/// is a state that there was.
#[test]
fn a_program_that_writes_meanwhile_is_not_held_up_and_is_read_at_one_instant() {
    for journal in ["wal", "delete"] {
        let sample = Sample::of("nanoclaw");
        let store = sample.path("store/messages.db");
        let writer = rusqlite::Connection::open(&store).unwrap();
        writer.busy_timeout(std::time::Duration::ZERO).unwrap();
        writer.pragma_update(None, "journal_mode", journal).unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 20).unwrap();
        let (stop, written, reads) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let (stop, written, reads) = (&stop, &written, &reads);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut n = 0;
                // As much again with each read, so that the store stays small.
                while !stop.load(Ordering::Relaxed) {
                    if n >= 40 * (1 + reads.load(Ordering::Relaxed)) {
                        thread::yield_now();
                        continue;
                    }
                    n += 1;
                    // Both or none.
                    writer
                        .execute_batch(&format!(
                            "BEGIN IMMEDIATE;
                             INSERT INTO messages (id, chat_jid, sender, content, timestamp, is_from_me) VALUES ('a{n}', 'tg:-1001234567890', '77', hex(randomblob(400)), '2026-05-20T09:58:00.000Z', 0);
                             INSERT INTO messages (id, chat_jid, sender, content, timestamp, is_from_me) VALUES ('b{n}', 'tg:-1001234567890', '77', hex(randomblob(400)), '2026-05-20T09:58:00.000Z', 0);
                             COMMIT"
                        ))
                        .unwrap();
                    written.store(n, Ordering::Relaxed);
                }
            });
            for _ in 0..10 {
                let at_least = written.load(Ordering::Relaxed);
                let (rows, findings) = read(&mut *sample.open(), &[Part::Messages]);
                reads.fetch_add(1, Ordering::Relaxed);
                let ids: Vec<&str> = rows
                    .iter()
                    .filter_map(|row| match &row.row {
                        Row::Message(message) => Some(message.id.as_str()),
                        _ => None,
                    })
                    .collect();
                let of = |letter: char| ids.iter().filter(|id| id.starts_with(letter)).count() as u64;
                assert_eq!(of('a'), of('b'), "{journal}: half a change was read");
                assert!(of('a') >= at_least, "{journal}: {} of {at_least}", of('a'));
                assert!(findings.iter().all(|finding| !finding.why.contains("damaged")), "{findings:?}");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
