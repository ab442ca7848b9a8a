//! One piece of work, with a call that goes wrong: each of its calls, in each way. The store is never damaged.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeSet;

use g2_sim::{
    Chance,
    disk::{Disk, Fault},
};
use rusqlite::Connection;

const AT: &str = "/data/g2.sqlite";

fn open(disk: &Disk) -> rusqlite::Result<Connection> {
    let connection = disk.connect(AT)?;
    let mut set = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = set.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    drop(set);
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA cache_size = 10; PRAGMA temp_store = FILE;
         CREATE TABLE IF NOT EXISTS halves (n, half, filler, UNIQUE (n, half))",
    )?;
    Ok(connection)
}

fn write(store: &mut Connection, n: i64) -> rusqlite::Result<()> {
    let tx = store.transaction()?;
    let filler = if n % 3 == 0 { 14_000 } else { 50 };
    tx.execute("INSERT INTO halves VALUES (?1, 0, randomblob(?2))", [n, filler])?;
    tx.execute_batch("SAVEPOINT s; UPDATE halves SET filler = randomblob(1500); ROLLBACK TO s; RELEASE s")?;
    tx.execute("INSERT INTO halves VALUES (?1, 1, randomblob(?2))", [n, filler])?;
    tx.commit()
}

/// Works, and goes on after errors. Returns what was committed.
fn work(disk: &Disk) -> BTreeSet<i64> {
    let mut committed = BTreeSet::new();
    let mut store = None;
    for n in 0..6 {
        if store.is_none() {
            store = open(disk).ok();
        }
        let Some(open) = &mut store else { continue };
        if write(open, n).is_ok() {
            committed.insert(n);
        }
        match n {
            2 => drop(open.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")),
            4 => store = None,
            5 => drop(open.execute_batch("SELECT filler FROM halves ORDER BY filler; PRAGMA wal_checkpoint")),
            _ => {}
        }
    }
    committed
}

/// What is there by its halves.
fn found(disk: &Disk) -> BTreeSet<i64> {
    let store = open(disk).unwrap();
    let sound: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut halves = store.prepare("SELECT n, count(*) FROM halves GROUP BY n").unwrap();
    let all: Vec<(i64, i64)> =
        halves.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    assert!(all.iter().all(|(_, halves)| *halves == 2), "{all:?}");
    all.into_iter().map(|(n, _)| n).collect()
}

#[test]
fn no_call_that_goes_wrong_damages_the_store_or_loses_what_was_committed() {
    let whole = Disk::new(1);
    assert_eq!(work(&whole).len(), 6);
    let calls = whole.counts().total();
    assert!(calls > 250, "{:?}", whole.counts());
    let (mut came_back, mut failed) = (0, 0);
    for wrong in 1..=calls {
        for fault in [Fault::Io, Fault::Full, Fault::Die] {
            // Once, or from then on. Nobody dies once.
            for lasts in [false, true].into_iter().filter(|lasts| *lasts || fault != Fault::Die) {
                let disk = Disk::new(1);
                disk.on_call(move |call| {
                    (call.number == wrong || lasts && call.number > wrong).then_some(fault)
                });
                let committed = work(&disk);
                match wrong % 3 {
                    0 => disk.die(),
                    1 => drop(disk.lose_power(&mut Chance::new(wrong))),
                    _ => {}
                }
                disk.heal();
                disk.revive();
                let found = found(&disk);
                assert!(
                    found.is_superset(&committed),
                    "{fault:?} at call {wrong}, lasts: {lasts}: {found:?}, not {committed:?}"
                );
                failed += 6 - committed.len();
                came_back += found.len() - committed.len();
            }
        }
    }
    println!("{calls} calls; {failed} transactions failed, {came_back} of them are there");
    assert!(came_back > 0 && came_back < failed);
}
