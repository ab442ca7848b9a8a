//! A machine whose power goes off, those who work on it, and a life of its daemon.

use std::{fs, path::Path, sync::atomic::Ordering, thread, time::Duration};

use g2_forgetful::{Call, Failed, Failure, Fault, Faults, Forgetful, Slowness, folder};
use serde_json::{Value, json};

use super::{
    super::{client::Client, random::Random, scene::nobody_left},
    load::{Asker, Load, Talker, Writer},
};
use crate::support::{Daemon, Root, wait_for};

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

/// A root whose `data/` forgets. The disk goes first when it is over.
pub(super) struct Machine {
    pub(super) disk: Forgetful,
    pub(super) root: Root,
}

/// Says that there is no FUSE.
fn skipped(why: &Failed) {
    let required = std::env::var_os("G2_REQUIRE_FUSE").is_some_and(|value| value == "1");
    assert!(!required, "G2_REQUIRE_FUSE is set: {why}");
    eprintln!("skipped: no FUSE ({why})");
}

/// Mounts what is in `data/` of a root over it. `None`: there is no FUSE, and it is said.
pub(super) fn mounted(root: Root) -> Option<Machine> {
    let disk = folder::read(&root.data("")).unwrap();
    match Forgetful::mount(disk, &root.data("")) {
        Ok(disk) => Some(Machine { disk, root }),
        Err(why @ (Failed::NoDevice(_) | Failed::NotMounted(..))) => {
            skipped(&why);
            None
        }
        Err(why) => panic!("{why:?}"),
    }
}

impl Machine {
    pub(super) fn new() -> Option<Self> {
        let root = Root::new("");
        for group in ["w1", "t1", "t2", "family"] {
            root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
        }
        let ask = "UPDATE chats SET unknown_sender_policy = 'request_approval' WHERE jid = 'local:family'";
        root.change_store(ask);
        // Lays the boxes out.
        assert_eq!(root.serve().terminate(), Some(0));
        mounted(root)
    }
}

/// Who works on the machine, and what they remember.
pub(super) struct People {
    pub(super) writers: Vec<Writer>,
    pub(super) talkers: Vec<Talker>,
    pub(super) asker: Asker,
}

impl People {
    pub(super) fn new(root: &Path, random: &mut Random) -> Self {
        let mut seed = || Random(random.below(u64::MAX));
        Self {
            writers: ["main", "w1"].map(|group| Writer::new(root, group, seed())).into(),
            talkers: ["t1", "t2"].map(|group| Talker::new(group, seed())).into(),
            asker: Asker::default(),
        }
    }

    /// Has all of them work until `end`.
    fn work(&mut self, machine: &Machine, load: &Load, end: impl FnOnce()) {
        let root = &machine.root;
        thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(move || writer.work(machine, load));
            }
            for talker in &mut self.talkers {
                scope.spawn(move || talker.work(root, load));
            }
            let asker = &mut self.asker;
            scope.spawn(move || asker.work(root, load));
            let _ends = Ends(load);
            end();
        });
    }
}

/// Has all of them end, also where the test fails.
struct Ends<'a>(&'a Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Waits until a daemon serves or is dead; returns its status if it serves.
pub(super) fn serves(root: &Root, daemon: &Daemon) -> Option<Value> {
    wait_for("the daemon to be ready, or dead", || {
        if daemon.has_ended() {
            return Some(None);
        }
        Client::connect(root).and_then(|mut client| client.call(&json!({"op": "status"}))).ok().map(Some)
    })
}

/// Dead twice in a row over the same, a daemon sets it aside. A person who knows why lets it go on.
pub(super) fn release(root: &Root, status: &Value) {
    let held = status["held"].as_array().into_iter().flatten();
    for group in held.filter_map(Value::as_str).filter(|held| !held.contains('/')) {
        let _ = root.run(&["ipc", "release", group]);
    }
}

fn one<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[usize::try_from(random.below(of.len() as u64)).unwrap()]
}

/// Some calls that fail, of the daemon or of those who write to it; in half of all lives there are none.
fn faults(random: &mut Random) -> Vec<Fault> {
    let many = one(random, &[0, 0, 0, 1, 1, 2]);
    let fault = |_| Fault {
        call: one(random, &[Call::Write, Call::Sync, Call::Make]),
        how: one(random, &[Failure::Broken, Failure::Full]),
        after: random.below(80),
        times: one(random, &[1, 2, 4, 12]),
    };
    (0..many).map(fault).collect()
}

/// How long syncs take: no time, some, or now and then long.
fn slowness(random: &mut Random) -> Option<Slowness> {
    let most = one(random, &[0, 0, 1, 2, 4, 8, 8, 30]);
    let random = g2_forgetful::Random::new(random.below(u64::MAX));
    (most > 0).then_some(Slowness { most: Duration::from_millis(most), random })
}

/// One life of the daemon under load, to its end. Returns what failed on purpose.
pub(super) fn live(machine: &Machine, people: &mut People, random: &mut Random, load: &Load) -> Vec<Fault> {
    let root = &machine.root;
    let mark = root.path().join("reached");
    let _ = fs::remove_file(&mark);
    let at_point = random.below(2) == 0;
    let point = format!("{}:{}", one(random, &POINTS), 1 + random.below(12));
    let slow = slowness(random);
    let faults = faults(random);
    // Counted from the start on, or once it serves.
    let while_it_starts = random.below(3) == 0;
    let enough = 1 + random.below(30);
    let arm = || machine.disk.faults(|of_disk| faults.iter().for_each(|fault| of_disk.add(*fault)));
    machine.disk.faults(|of_disk| of_disk.slow(slow));
    if while_it_starts {
        arm();
    }
    let daemon = if at_point {
        root.spawn(&[("G2_FAILPOINT", &point), ("G2_FAILPOINT_FILE", mark.to_str().unwrap())])
    } else {
        root.spawn(&[])
    };
    let may_end = || mark.exists() || !faults.is_empty();
    if let Some(status) = serves(root, &daemon) {
        release(root, &status);
        if !while_it_starts {
            arm();
        }
        let enough = load.done.load(Ordering::Relaxed) + enough;
        load.stop.store(false, Ordering::Relaxed);
        people.work(machine, load, || {
            wait_for(&format!("enough to be done with {faults:?}"), || {
                (daemon.has_ended() || load.done.load(Ordering::Relaxed) >= enough).then_some(())
            });
            assert!(!daemon.has_ended() || may_end(), "it ended by itself:\n{}", root.log());
            daemon.kill();
        });
    } else {
        assert!(may_end(), "it ended by itself:\n{}", root.log());
    }
    machine.disk.faults(Faults::clear);
    nobody_left(root);
    faults
}
