//! What the machine can do: file events, and durable commits on the disk that the roots are on.

use std::{
    fs,
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, params};

use crate::{events::Events, rig};

/// A folder and a database, beside the root that is measured.
pub(crate) struct Floor {
    dir: tempfile::TempDir,
    store: Connection,
    seen: mpsc::Receiver<Instant>,
    made: u64,
}

impl Floor {
    pub(crate) fn new() -> Self {
        let dir = rig::temporary();
        let store = store(&dir.path().join("floor.sqlite"));
        let watched = dir.path().join("box");
        fs::create_dir(&watched).unwrap();
        let mut events = Events::new();
        events.watch(&watched);
        let (tell, seen) = mpsc::channel();
        std::thread::spawn(move || while tell.send(events.wait(&watched, |_| true).0).is_ok() {});
        Self { dir, store, seen, made: 0 }
    }

    /// One file renamed into a watched folder until somebody knows, and one row committed durably.
    pub(crate) fn sample(&mut self) -> Duration {
        self.made += 1;
        let temporary = self.dir.path().join("new");
        let to = self.dir.path().join("box").join(self.made.to_string());
        fs::write(&temporary, "{}").unwrap();
        let before = Instant::now();
        fs::rename(&temporary, &to).unwrap();
        let event = self.seen.recv().unwrap() - before;
        fs::remove_file(to).unwrap();
        event + self.commit()
    }

    /// One row committed durably.
    pub(crate) fn commit(&mut self) -> Duration {
        self.made += 1;
        let before = Instant::now();
        insert(&self.store, self.made);
        before.elapsed()
    }
}

/// Files per second that one thread can take in: moved out of their folder, read, written down 64 to a durable commit,
/// removed.
pub(crate) fn drained_per_second(files: usize, bytes: &[u8]) -> f64 {
    let dir = rig::temporary();
    let store = store(&dir.path().join("floor.sqlite"));
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    for n in 0..files {
        fs::write(from.join(n.to_string()), bytes).unwrap();
    }
    let before = Instant::now();
    for some in (0..files as u64).collect::<Vec<_>>().chunks(64) {
        store.execute_batch("BEGIN IMMEDIATE").unwrap();
        for n in some {
            fs::rename(from.join(n.to_string()), to.join(n.to_string())).unwrap();
            assert!(!fs::read(to.join(n.to_string())).unwrap().is_empty());
            insert(&store, *n);
        }
        store.execute_batch("COMMIT").unwrap();
        for n in some {
            fs::remove_file(to.join(n.to_string())).unwrap();
        }
    }
    files as f64 / before.elapsed().as_secs_f64()
}

/// Files per second that one thread can write and rename into its place, while another one removes them.
pub(crate) fn written_per_second(files: usize, bytes: &[u8]) -> f64 {
    let dir = rig::temporary();
    let (temporary, place) = (dir.path().join(".new"), dir.path().to_owned());
    let (tell, written) = mpsc::channel::<usize>();
    let removing = std::thread::spawn(move || {
        for n in written {
            fs::remove_file(place.join(n.to_string())).unwrap();
        }
    });
    let before = Instant::now();
    for n in 0..files {
        fs::write(&temporary, bytes).unwrap();
        fs::rename(&temporary, dir.path().join(n.to_string())).unwrap();
        tell.send(n).unwrap();
    }
    drop(tell);
    removing.join().unwrap();
    files as f64 / before.elapsed().as_secs_f64()
}

fn store(path: &Path) -> Connection {
    let store = Connection::open(path).unwrap();
    store.pragma_update(None, "journal_mode", "WAL").unwrap();
    store.pragma_update(None, "synchronous", "FULL").unwrap();
    store.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT NOT NULL)").unwrap();
    store
}

fn insert(store: &Connection, n: u64) {
    let mut insert = store.prepare_cached("INSERT INTO t (n, text) VALUES (?1, ?2)").unwrap();
    insert.execute(params![n as i64, "x".repeat(200)]).unwrap();
}
