//! The power goes off under load, again and again: `data/` lies on a disk that forgets what was not synced, by a seed.
//!
//! After each loss the store is sound, and all is there that somebody was told of: replies, accepted messages, answers to
//! questions, files beside texts. What nobody was told of its writer tries again. At the end everything was done once and
//! said once. `G2_POWER_LOSSES` says how often (25), `G2_SEED` when. With `G2_FAILING_CALLS=1` some writes and syncs fail, too: a
//! command that copies a file is refused then, which this test takes for a fault.
//!
//! Needs FUSE. Says so and is over where there is none, unless `G2_REQUIRE_FUSE=1`.
#![expect(
    clippy::disallowed_methods,
    reason = "the test is the machine: it has the clock, the disk and the power"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod check;
mod load;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use g2_forgetful::{Call, Failed, Failure, Fault, Faults, Forgetful, Lie, Slowness, folder};

use super::{
    client::{Client, rest},
    random::{Random, number},
    scene::{all_settled, nobody_left},
};
use crate::support::{Daemon, Root, wait_for};
use load::{Asker, Load, Talker, Writer};

/// Steps at which a daemon ends itself, so that the power goes off there.
const POINTS: [&str; 18] = [
    "ipc.linked",
    "ipc.claimed",
    "ipc.read",
    "ipc.decided",
    "ipc.committed",
    "ipc.replied",
    "ipc.set_aside",
    "media.copied",
    "media.named",
    "media.kept",
    "message.stored",
    "message.judged",
    "run.handed",
    "run.started",
    "run.record",
    "deliver.saying",
    "deliver.said",
    "feed.committed",
];

/// How many power losses it may take to find a lie out.
const LIES: u64 = 20;

/// A root whose `data/` forgets. The disk goes first when it is over.
struct Machine {
    disk: Forgetful,
    root: Root,
}

/// Says that there is no FUSE.
fn skipped(why: &Failed) {
    let required = std::env::var_os("G2_REQUIRE_FUSE").is_some_and(|value| value == "1");
    assert!(!required, "G2_REQUIRE_FUSE is set: {why}");
    eprintln!("skipped: no FUSE ({why})");
}

impl Machine {
    fn new() -> Option<Self> {
        let root = Root::new("");
        for group in ["w1", "t1", "t2", "family"] {
            root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
        }
        let ask = "UPDATE chats SET unknown_sender_policy = 'request_approval' WHERE jid = 'local:family'";
        root.change_store(ask);
        // Lays the boxes out.
        assert_eq!(root.serve().terminate(), Some(0));
        let disk = folder::read(&root.data("")).unwrap();
        match Forgetful::mount(disk, &root.data("")) {
            Ok(disk) => Some(Self { disk, root }),
            Err(why @ (Failed::NoDevice(_) | Failed::NotMounted(..))) => {
                skipped(&why);
                None
            }
            Err(why) => panic!("{why:?}"),
        }
    }
}

/// Who works on the machine, and what they remember.
struct People {
    writers: Vec<Writer>,
    talkers: Vec<Talker>,
    asker: Asker,
}

impl People {
    fn new(root: &Path, random: &mut Random) -> Self {
        let mut seed = || Random(random.below(u64::MAX));
        Self {
            writers: ["main", "w1"].map(|group| Writer::new(root, group, seed())).into(),
            talkers: ["t1", "t2"].map(|group| Talker::new(group, seed())).into(),
            asker: Asker::default(),
        }
    }

    /// Has all of them work until `end`.
    fn work(&mut self, root: &Root, load: &Load, end: impl FnOnce()) {
        thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(move || writer.work(root, load));
            }
            for talker in &mut self.talkers {
                scope.spawn(move || talker.work(root, load));
            }
            let asker = &mut self.asker;
            scope.spawn(move || asker.work(root, load));
            end();
        });
    }
}

/// Waits until a daemon serves or is dead; returns whether it serves.
fn serves(root: &Root, daemon: &Daemon) -> bool {
    wait_for("the daemon to be ready, or dead", || {
        if daemon.has_ended() {
            return Some(false);
        }
        let status = serde_json::json!({"op": "status"});
        Client::connect(root).and_then(|mut client| client.call(&status)).ok().map(|_| true)
    })
}

/// Some writes or syncs that fail, of the daemon or of those who write to it.
fn fault(random: &mut Random) -> Fault {
    let call = [Call::Write, Call::Sync, Call::Make][usize::try_from(random.below(3)).unwrap()];
    let how = [Failure::Broken, Failure::Full][usize::try_from(random.below(2)).unwrap()];
    Fault { call, how, after: random.below(100), times: 1 + random.below(4) }
}

/// One life of the daemon under load, to its end.
#[expect(clippy::print_stdout, reason = "what went wrong on purpose is part of the story of a failure")]
fn live(machine: &Machine, people: &mut People, random: &mut Random, load: &Load) {
    let root = &machine.root;
    let mark = root.path().join("reached");
    let _ = fs::remove_file(&mark);
    let at_point = random.below(2) == 0;
    let point = POINTS[usize::try_from(random.below(POINTS.len() as u64)).unwrap()];
    let point = format!("{point}:{}", 1 + random.below(12));
    let daemon = if at_point {
        root.spawn(&[("G2_FAILPOINT", &point), ("G2_FAILPOINT_FILE", mark.to_str().unwrap())])
    } else {
        root.spawn(&[])
    };
    let slow = Slowness {
        most: Duration::from_micros(1 + random.below(4) * 2000),
        random: g2_forgetful::Random::new(random.below(u64::MAX)),
    };
    machine.disk.faults(|faults| faults.slow(Some(slow)));
    let fault = (number("G2_FAILING_CALLS") == Some(1) && random.below(6) == 0).then(|| fault(random));
    if let Some(fault) = fault {
        println!("{fault:?}");
        machine.disk.faults(|faults| faults.add(fault));
    }
    let may_end = || mark.exists() || fault.is_some();
    if serves(root, &daemon) {
        check::release(root);
        let enough = load.done.load(Ordering::Relaxed) + 1 + random.below(40);
        load.stop.store(false, Ordering::Relaxed);
        people.work(root, load, || {
            wait_for("enough to be done", || {
                (daemon.has_ended() || load.done.load(Ordering::Relaxed) >= enough).then_some(())
            });
            assert!(!daemon.has_ended() || may_end(), "it ended by itself:\n{}", root.log());
            daemon.kill();
            load.stop.store(true, Ordering::Relaxed);
        });
    } else {
        assert!(may_end(), "it ended by itself:\n{}", root.log());
    }
    machine.disk.faults(Faults::clear);
    nobody_left(root);
}

/// Whether a disk that lies about syncs is found out within some losses.
fn is_found_out(lie: Lie) -> Option<bool> {
    let mut machine = Machine::new()?;
    machine.disk.faults(|faults| faults.lie(Some(lie)));
    let mut random = Random(1);
    let mut people = People::new(machine.root.path(), &mut random);
    let load = Load::new();
    Some((0..LIES).any(|_| {
        let lost = || {
            live(&machine, &mut people, &mut random, &load);
            machine.disk.lose_power(random.below(u64::MAX)).unwrap();
            check::after_a_loss(&machine.root, &people);
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(lost)).is_err()
    }))
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    for lie in [Lie::Files, Lie::Folders] {
        assert!(is_found_out(lie).unwrap_or(true), "{lie:?}");
    }
}

#[test]
fn what_was_answered_is_there_after_any_power_loss_and_nothing_is_done_twice() {
    let seed = number("G2_SEED").unwrap_or(1);
    let losses = number("G2_POWER_LOSSES").unwrap_or(25);
    println!("{losses} power losses; again with G2_SEED={seed}");
    let begun = Instant::now();
    let Some(mut machine) = Machine::new() else { return };
    let mut random = Random(seed);
    let mut people = People::new(machine.root.path(), &mut random);
    let load = Load::new();
    let (mut changes, mut writes) = (0, 0);
    let mut healthy = BTreeSet::new();
    for loss in 0..losses {
        live(&machine, &mut people, &mut random, &load);
        let forgotten = machine.disk.lose_power(random.below(u64::MAX)).unwrap();
        changes += forgotten.changes;
        writes += forgotten.writes;
        println!("loss {loss}: forgot {} changes and {} writes", forgotten.changes, forgotten.writes);
        check::after_a_loss(&machine.root, &people);
        if healthy.is_empty() {
            healthy = check::complaints(&machine.root);
        }
    }
    let took = begun.elapsed();

    let root = &machine.root;
    let last = root.serve();
    check::release(root);
    load.stop.store(true, Ordering::Relaxed);
    people.writers.iter_mut().for_each(|writer| writer.finish(root));
    people.talkers.iter_mut().for_each(|talker| talker.finish(root));
    all_settled(root);
    people.asker.finish(root);
    let open = || ["pending", "sending"].map(|state| root.rows(&["outbox", "list", "--state", state]).len());
    wait_for("all to be said", || (open() == [0, 0]).then_some(()));
    for chat in ["local:main", "local:w1", "local:t1", "local:t2", "local:family"] {
        rest(root, chat);
    }
    wait_for("all to be said", || (open() == [0, 0]).then_some(()));
    let complaints = check::complaints(root);
    assert!(complaints.is_subset(&healthy), "doctor: {complaints:?}, at first {healthy:?}");
    assert_eq!(last.terminate(), Some(0));
    nobody_left(root);
    let report = check::at_the_end(root, &people);
    println!("{losses} power losses in {took:?}: {changes} changes and {writes} writes forgotten; {report}");
}
