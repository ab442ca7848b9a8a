//! One seed is one story. The only test of its program: SQLite's own chance belongs to the process.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::{Arc, Mutex};

use g2_sim::{
    Chance,
    disk::{Call, Disk, Image},
};

const AT: &str = "/data/g2.sqlite";

/// All that can be seen of a story.
#[derive(Debug, PartialEq, Eq)]
struct Story {
    calls: Vec<String>,
    files: Vec<(String, Option<Image>)>,
    random: String,
}

fn files(disk: &Disk) -> Vec<(String, Option<Image>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.get(&name))).collect()
}

fn story(seed: u64) -> Story {
    let disk = Disk::new(seed);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&calls);
    disk.on_call(move |call: &Call<'_>| {
        heard.lock().unwrap().push(format!("{call:?}"));
        None
    });
    let mut files_of_moments = Vec::new();
    let mut random = String::new();
    for life in 0..3 {
        let mut store = disk.connect(AT).unwrap();
        store.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t (x, y)").unwrap();
        store
            .execute_batch("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (x, tokenize = 'trigram')")
            .unwrap();
        for n in 0..20 {
            let tx = store.transaction().unwrap();
            tx.execute("INSERT INTO t VALUES (random(), randomblob(?1))", [n * 100]).unwrap();
            tx.execute("INSERT INTO words SELECT lower(hex(y)) FROM t ORDER BY rowid DESC LIMIT 1", [])
                .unwrap();
            tx.commit().unwrap();
        }
        let blob: String =
            store.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0)).unwrap();
        random += &blob;
        files_of_moments.extend(files(&disk));
        if life == 1 {
            store.execute("VACUUM INTO '/data/copy.sqlite'", []).unwrap();
        }
        disk.lose_power(&mut Chance::new(seed));
        disk.revive();
        files_of_moments.extend(files(&disk));
    }
    let calls = calls.lock().unwrap().clone();
    Story { calls, files: files_of_moments, random }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let all: Vec<Story> = (0..5).map(story).collect();
    for (seed, first) in all.iter().enumerate() {
        let again = story(seed as u64);
        assert_eq!(again.random, first.random);
        assert_eq!(again.calls, first.calls);
        assert!(again == *first, "seed {seed}: other bytes");
        assert!(all.iter().enumerate().all(|(other, story)| other == seed || story.random != first.random));
    }
}
