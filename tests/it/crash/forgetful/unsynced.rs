//! What a daemon could not sync is read by the next one as committed: it has to be on the disk before it is acted on.

use std::{
    io::Write as _,
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use g2_forgetful::{Call, Disk, Failure, Fault, Faults, Forgotten, Random, Slowness, folder};
use rusqlite::Connection;

use super::{
    super::{client::send, scene::nobody_left},
    machine::{Machine, mounted, serves},
};
use crate::support::{Root, wait_for};

/// More often than any daemon tries.
const ALWAYS: u64 = 1 << 20;
/// How often the power goes off at one moment.
const SEEDS: u64 = 4;

/// A machine whose daemon was told something, could not sync it, and is dead. The log is empty besides.
fn left() -> Option<Machine> {
    let root = Root::new("");
    let daemon = root.serve();
    send(&root, "local:main", "one");
    assert_eq!(daemon.terminate(), Some(0));
    let machine = mounted(root)?;
    let root = &machine.root;
    let daemon = root.spawn(&[]);
    assert!(serves(root, &daemon).is_some(), "{}", root.log());
    let fault = Fault { call: Call::Sync, how: Failure::Broken, after: 0, times: ALWAYS };
    machine.disk.faults(|faults| faults.add(fault));
    // Nobody waits for the answer, which never comes.
    let mut client = UnixStream::connect(root.data("g2.sock")).unwrap();
    client
        .write_all(
            b"{\"op\":\"send\",\"chat\":\"local:main\",\"sender\":\"me\",\"text\":\"two\",\"key\":\"two\"}\n",
        )
        .unwrap();
    wait_for("a sync to fail", || (machine.disk.faults(|faults| faults.left()) < ALWAYS).then_some(()));
    daemon.kill();
    machine.disk.faults(Faults::clear);
    nobody_left(root);
    Some(machine)
}

/// The texts in the store on a disk whose power goes off.
fn texts_after(disk: &Disk, seed: u64) -> (Vec<String>, Forgotten) {
    let mut disk = disk.clone();
    let forgotten = disk.lose_power(&mut Random::new(seed));
    let copy = tempfile::tempdir().unwrap();
    folder::write(&disk, copy.path()).unwrap();
    let store = Connection::open(copy.path().join("g2.sqlite")).unwrap();
    let column = |sql: &str| -> Vec<String> {
        let mut rows = store.prepare(sql).unwrap();
        rows.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(column("PRAGMA integrity_check"), ["ok"], "{forgotten:?}");
    (
        column(
            "SELECT text FROM messages WHERE chat_jid = 'local:main' AND text IN ('one', 'two', 'three') ORDER BY seq",
        ),
        forgotten,
    )
}

#[test]
fn the_power_may_go_off_at_any_moment_of_the_start_after_a_sync_that_failed() {
    let Some(machine) = left() else { return };
    let root = &machine.root;
    let slow = Slowness { most: Duration::from_millis(40), random: Random::new(1) };
    machine.disk.faults(|faults| faults.slow(Some(slow)));
    let daemon = root.spawn(&[]);
    // The disk at each moment at which something had changed.
    let mut moments: Vec<(Forgotten, Disk)> = Vec::new();
    let serving = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !serving.load(Ordering::Relaxed) {
                machine.disk.with(|disk| {
                    let stake = disk.at_stake();
                    if moments.last().is_none_or(|(last, _)| *last != stake) {
                        moments.push((stake, disk.clone()));
                    }
                });
                thread::sleep(Duration::from_millis(1));
            }
        });
        let status = serves(root, &daemon);
        serving.store(true, Ordering::Relaxed);
        assert!(status.is_some(), "{}", root.log());
    });
    machine.disk.faults(|faults| faults.slow(None));
    // What it acts on it has read, and from now on it is there.
    send(root, "local:main", "three");
    daemon.kill();
    moments.push(machine.disk.with(|disk| (disk.at_stake(), disk.clone())));
    println!("{} moments", moments.len());
    let (last, before) = moments.split_last().unwrap();
    for (_, disk) in before {
        for seed in 0..SEEDS {
            let (texts, forgotten) = texts_after(disk, seed);
            assert!(texts == ["one"] || texts == ["one", "two"], "{texts:?}, {forgotten:?}");
        }
    }
    for seed in 0..SEEDS {
        let (texts, forgotten) = texts_after(&last.1, seed);
        assert_eq!(texts, ["one", "two", "three"], "{forgotten:?}");
    }
}
