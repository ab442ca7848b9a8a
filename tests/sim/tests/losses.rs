//! Programs die and the power goes off at any call: what was committed is there, and nothing is there by half.
//!
//! `G2_SEEDS` says how many seeds (100), `G2_SEED` which is the first (1).
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "the number of seeds is asked for by the environment")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use g2_sim::{
    Chance,
    disk::{Disk, Fault, Kind},
};
use rusqlite::{Connection, TransactionBehavior, params};

const AT: &str = "/data/g2.sqlite";

/// What a store has: how many rows each batch, and how many transactions there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    batches: BTreeMap<i64, i64>,
    transactions: i64,
}

/// How a store keeps its promise.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Log,
    /// Durable only with `EXTRA`: with `FULL`, the name of a journal that is done may come back.
    Journal,
}

fn open(disk: &Disk, mode: Mode) -> rusqlite::Result<Connection> {
    let connection = disk.connect(AT)?;
    let (journal, synchronous) = match mode {
        Mode::Log => ("wal", "FULL"),
        Mode::Journal => ("delete", "EXTRA"),
    };
    // The change is committed after the row of the answer. `pragma_update` does not ask for what comes after a row, so it would
    // say nothing of a commit that failed.
    let mut set = connection.prepare(&format!("PRAGMA journal_mode = {journal}"))?;
    let mut rows = set.query([])?;
    while let Some(row) = rows.next()? {
        assert_eq!(row.get::<_, String>(0)?, journal);
    }
    drop(rows);
    drop(set);
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", 30)?;
    connection.pragma_update(None, "cache_size", 20)?;
    connection.execute_batch(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS rows (batch, filler);
         CREATE INDEX IF NOT EXISTS rows_batch ON rows (batch);
         CREATE TABLE IF NOT EXISTS transactions (n);
         INSERT INTO transactions SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM transactions);
         COMMIT",
    )?;
    Ok(connection)
}

fn content(connection: &Connection) -> rusqlite::Result<Content> {
    let batches = connection
        .prepare("SELECT batch, count(*) FROM rows GROUP BY batch")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let transactions = connection.query_row("SELECT n FROM transactions", [], |row| row.get(0))?;
    Ok(Content { batches, transactions })
}

/// One transaction; `after` is what there is if it is committed.
fn transact(store: &mut Connection, after: &mut Content, chance: &mut Chance) -> rusqlite::Result<()> {
    after.transactions += 1;
    let batch = after.transactions;
    let rows = i64::try_from(1 + chance.below(8)).unwrap();
    let oldest = after.batches.keys().next().copied().filter(|_| chance.one_of(3));
    let undoes = chance.one_of(4);
    let large = chance.one_of(6);
    after.batches.insert(batch, rows);
    if let Some(oldest) = oldest {
        after.batches.remove(&oldest);
    }
    let tx = store.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for _ in 0..rows {
        let len = if large { chance.below(20_000) } else { chance.below(600) };
        tx.execute(
            "INSERT INTO rows VALUES (?1, randomblob(?2))",
            params![batch, i64::try_from(len).unwrap()],
        )?;
    }
    if undoes {
        tx.execute_batch("SAVEPOINT s; DELETE FROM rows; ROLLBACK TO s; RELEASE s")?;
    }
    if let Some(oldest) = oldest {
        tx.execute("DELETE FROM rows WHERE batch = ?1", [oldest])?;
    }
    tx.execute("UPDATE transactions SET n = n + 1", [])?;
    tx.commit()
}

#[derive(Default)]
struct Told {
    losses: u64,
    forgotten: u64,
    committed: u64,
    /// How often one that ended with an error was there.
    in_doubt: u64,
    failed: u64,
}

/// What a store may have: all that was committed. What failed since is there or not, and may go or come with every death until
/// a later transaction is committed.
struct May {
    committed: Content,
    doubtful: Vec<Content>,
    seen: Content,
}

impl May {
    fn be(&mut self, found: Content, told: &mut Told) -> Result<(), String> {
        if found != self.committed {
            if !self.doubtful.contains(&found) {
                let Self { committed, doubtful, .. } = self;
                return Err(format!("there is {found:?}, and not {committed:?} or one of {doubtful:?}"));
            }
            told.in_doubt += 1;
        }
        self.seen = found;
        Ok(())
    }
}

/// After a sync that failed nobody may open the log as it is seen: it may not be on the disk, and no sync puts it there. SQLite
/// would take it for durable, and copy it into the store.
fn write_log_anew(disk: &Disk, sync_failed: &AtomicBool) {
    let log = format!("{AT}-wal");
    if sync_failed.swap(false, Ordering::Relaxed)
        && let Some(bytes) = disk.get(&log)
    {
        disk.put(&log, &bytes);
    }
}

/// Lives a seed through. An error says what is wrong.
fn live(seed: u64, mode: Mode, lies: bool, told: &mut Told) -> Result<(), String> {
    let mut chance = Chance::new(seed);
    let disk = Disk::new(seed);
    disk.lie(lies);
    let mut may = May { committed: Content::default(), doubtful: Vec::new(), seen: Content::default() };
    let sync_failed = Arc::new(AtomicBool::new(false));
    for life in 0..6 {
        let wrong = |what: String| format!("seed {seed}, {mode:?}, life {life}: {what}");
        let dies_at = disk.counts().total() + 1 + chance.below(600);
        let fails = chance.one_of(2);
        let failed = Arc::clone(&sync_failed);
        let mut faults = Chance::new(chance.number());
        disk.on_call(move |call| {
            if call.number >= dies_at {
                return Some(Fault::Die);
            }
            let may_fail = matches!(call.kind, Kind::Write | Kind::Sync | Kind::Truncate | Kind::Delete);
            if !(fails && may_fail && faults.one_of(40)) {
                return None;
            }
            failed.fetch_or(call.kind == Kind::Sync, Ordering::Relaxed);
            Some(if faults.one_of(2) { Fault::Io } else { Fault::Full })
        });
        while !disk.is_dead() {
            write_log_anew(&disk, &sync_failed);
            let Ok(mut store) = open(&disk, mode) else { continue };
            let Ok(found) = content(&store) else { continue };
            may.be(found, told).map_err(wrong)?;
            for _ in 0..10 {
                let mut after = may.seen.clone();
                match transact(&mut store, &mut after, &mut chance) {
                    Ok(()) => {
                        may = May { committed: after.clone(), doubtful: Vec::new(), seen: after };
                        told.committed += 1;
                    }
                    Err(_) => {
                        may.doubtful.push(after);
                        told.failed += 1;
                    }
                }
                // A connection is used on after an error, or closed.
                if disk.is_dead() || (chance.one_of(4) && !may.doubtful.is_empty()) {
                    break;
                }
            }
            if chance.one_of(3) {
                let _ = store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            }
        }
        if !chance.one_of(3) {
            let forgotten = disk.lose_power(&mut chance);
            // What is seen is on the disk now.
            sync_failed.store(false, Ordering::Relaxed);
            told.losses += 1;
            told.forgotten += (forgotten.names + forgotten.writes) as u64;
        }
        disk.heal();
        disk.revive();
        write_log_anew(&disk, &sync_failed);
        let store = open(&disk, mode).map_err(|error| wrong(format!("it can't be opened: {error}")))?;
        let sound: String = store
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .map_err(|error| wrong(format!("it can't be checked: {error}")))?;
        if sound != "ok" {
            return Err(wrong(sound));
        }
        let found = content(&store).map_err(|error| wrong(format!("it can't be read: {error}")))?;
        may.be(found, told).map_err(wrong)?;
    }
    Ok(())
}

fn number(name: &str, without: u64) -> u64 {
    std::env::var(name).map_or(without, |number| number.parse().unwrap())
}

fn seeds() -> std::ops::Range<u64> {
    let first = number("G2_SEED", 1);
    first..first + number("G2_SEEDS", 100)
}

#[test]
fn what_was_committed_is_there_and_nothing_by_half() {
    let mut told = Told::default();
    for seed in seeds() {
        for mode in [Mode::Log, Mode::Journal] {
            live(seed, mode, false, &mut told).unwrap();
        }
    }
    let Told { losses, forgotten, committed, in_doubt, failed } = told;
    println!(
        "{losses} losses forgot {forgotten} writes and names; {committed} transactions, {failed} failed, \
         found there {in_doubt} times"
    );
    assert!(losses > 0 && forgotten > losses && in_doubt > 0);
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    for mode in [Mode::Log, Mode::Journal] {
        let found = (1..=20).filter(|seed| live(*seed, mode, true, &mut Told::default()).is_err()).count();
        assert!(found > 10, "{mode:?}: {found} of 20 seeds");
    }
}
