//! What the machine can do: file events, and durable commits on the disk that the roots are on.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    os::fd::AsRawFd as _,
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, params};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, unlinkat},
    time::{ClockId, clock_gettime},
};

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

/// What one thread does with files.
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// What one file took of a processor's time, µs.
    pub(crate) cost_us: f64,
}

/// Files that one thread takes in, from as many folders: moved out of theirs, read, written down 64 to a durable commit, removed.
pub(crate) fn drained(files: usize, folders: usize, bytes: &[u8]) -> Rate {
    let dir = rig::temporary();
    let store = store(&dir.path().join("floor.sqlite"));
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    let from = |n: usize| dir.path().join(format!("from-{}", n % folders));
    (0..folders).for_each(|n| fs::create_dir(from(n)).unwrap());
    for n in 0..files {
        fs::write(from(n).join(n.to_string()), bytes).unwrap();
    }
    rate(files, || {
        for some in (0..files).collect::<Vec<_>>().chunks(64) {
            store.execute_batch("BEGIN IMMEDIATE").unwrap();
            for n in some {
                fs::rename(from(*n).join(n.to_string()), to.join(n.to_string())).unwrap();
                assert!(!fs::read(to.join(n.to_string())).unwrap().is_empty());
                insert(&store, *n as u64);
            }
            store.execute_batch("COMMIT").unwrap();
            for n in some {
                fs::remove_file(to.join(n.to_string())).unwrap();
            }
        }
    })
}

/// The same with the calls that a command can't do without, and nothing else: taken out of a folder that its writer can change
/// (renamed there, linked out of it, that name removed), answered there if it `wants` a reply, and of the newest 100 of each folder a
/// copy and the reply kept.
pub(crate) fn called(files: usize, folders: usize, bytes: &[u8], wants: bool) -> Rate {
    const KEPT: usize = 100;
    let dir = rig::temporary();
    let store = store(&dir.path().join("floor.sqlite"));
    let open = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        File::open(path).unwrap()
    };
    let (claimed, made) = (open("claimed"), open("made"));
    let boxes: Vec<[File; 3]> =
        (0..folders).map(|n| ["box", "responses", "done"].map(|name| open(&format!("{name}-{n}")))).collect();
    for n in 0..files {
        fs::write(dir.path().join(format!("box-{}/{n}", n % folders)), bytes).unwrap();
    }
    let write = |at: &File, name: &str| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        File::from(openat(at, name, flags, Mode::from_raw_mode(0o600)).unwrap()).write_all(bytes).unwrap();
    };
    let none = AtFlags::empty();
    rate(files, || {
        for some in (0..files).collect::<Vec<_>>().chunks(64) {
            store.execute_batch("BEGIN IMMEDIATE").unwrap();
            for n in some {
                let [from, ..] = &boxes[n % folders];
                let (name, hand) = (n.to_string(), format!(".{n}"));
                renameat(from, &name, from, &hand).unwrap();
                linkat(from, &hand, &claimed, &name, none).unwrap();
                unlinkat(from, &hand, none).unwrap();
                let file = openat(&claimed, &name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
                let mut read = Vec::with_capacity(4096);
                File::from(file).read_to_end(&mut read).unwrap();
                assert_eq!(read, bytes);
                insert(&store, *n as u64);
            }
            store.execute_batch("COMMIT").unwrap();
            for n in some {
                let [_, responses, done] = &boxes[n % folders];
                let name = n.to_string();
                if wants {
                    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
                    let mut reply =
                        File::from(openat(&made, c".", flags, Mode::from_raw_mode(0o600)).unwrap());
                    reply.write_all(bytes).unwrap();
                    let reply = format!("/proc/self/fd/{}", reply.as_raw_fd());
                    linkat(CWD, reply, responses, format!(".{n}"), AtFlags::SYMLINK_FOLLOW).unwrap();
                    renameat(responses, format!(".{n}"), responses, &name).unwrap();
                }
                if n / folders + KEPT >= files / folders {
                    write(done, &name);
                    write(done, &format!("{n}.reply"));
                }
                unlinkat(&claimed, &name, none).unwrap();
            }
        }
    })
}

fn rate(files: usize, act: impl FnOnce()) -> Rate {
    let used = || {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap())
    };
    let (before, used_before) = (Instant::now(), used());
    act();
    let each = |all: Duration| all.as_secs_f64() / files as f64;
    Rate { per_second: each(before.elapsed()).recip(), cost_us: each(used() - used_before) * 1e6 }
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
