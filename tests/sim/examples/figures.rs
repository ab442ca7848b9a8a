//! What the disk costs: `cargo run --release -p g2-sim --example figures`.
#![expect(clippy::print_stdout, reason = "figures are to be read")]
#![expect(clippy::disallowed_methods, reason = "figures are read from the clock")]
#![expect(clippy::unwrap_used, reason = "a disk that fails here has no figures")]

use std::time::Instant;

use g2_sim::disk::Disk;

const AT: &str = "/data/g2.sqlite";

fn figure(what: &str, times: u32, mut work: impl FnMut(u32)) {
    let begin = Instant::now();
    (0..times).for_each(&mut work);
    println!("{what}: {:.1} µs", begin.elapsed().as_secs_f64() * 1e6 / f64::from(times));
}

fn main() {
    let disk = Disk::new(1);
    let store = disk.connect(AT).unwrap();
    store.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").unwrap();
    for n in 0..100 {
        store
            .execute_batch(&format!(
                "CREATE TABLE t{n} (x INTEGER PRIMARY KEY, y, z); CREATE INDEX i{n} ON t{n} (y)"
            ))
            .unwrap();
    }
    figure("a small durable commit", 20_000, |n| {
        store.prepare_cached("INSERT INTO t1 (y, z) VALUES (?1, ?2)").unwrap().execute([n, n]).unwrap();
    });
    figure("a connection, and a read (100 tables, others open)", 1000, |_| {
        let reader = disk.connect(AT).unwrap();
        reader.query_row("SELECT count(*) FROM t2", [], |_| Ok(())).unwrap();
    });
    store.close().unwrap();
    let template = disk.get(AT).unwrap();
    figure(
        &format!("a disk with a template of {} KiB, a first commit, and the end", template.len() >> 10),
        1000,
        |n| {
            let disk = Disk::new(n.into());
            disk.put(AT, &template);
            let store = disk.connect(AT).unwrap();
            store.execute_batch("PRAGMA synchronous = FULL; INSERT INTO t2 (y) VALUES (1)").unwrap();
        },
    );
    let disk = Disk::new(1);
    disk.put(AT, &template);
    figure("a loss, opened again, a commit", 1000, |n| {
        disk.lose_power(&mut g2_sim::Chance::new(n.into()));
        disk.revive();
        let store = disk.connect(AT).unwrap();
        store.execute_batch("PRAGMA synchronous = FULL; INSERT INTO t2 (y) VALUES (1)").unwrap();
    });
}
