//! The power goes off under load, again and again: `data/` lies on a disk that forgets what was not synced, by a seed.
//!
//! After each loss the store is sound, and all is there that somebody was told of: replies, accepted messages, answers to
//! questions, files beside texts. What nobody was told of its writer tries again, and so it does what was refused as a call
//! of the disk failed. At the end everything was done once and said once.
//!
//! `G2_POWER_LOSSES` says how often (200). They are parted among roots, two of which live at once; each has a seed of its own,
//! one more than the one before, from `G2_SEED` on (1). The long run:
//! `G2_POWER_LOSSES=10000 cargo test --test it crash::forgetful -- --nocapture`. To see one root again:
//! `G2_SEED=SEED G2_POWER_LOSSES=50`.
//!
//! Needs FUSE. Says so and is over where there is none, unless `G2_REQUIRE_FUSE=1`.
#![expect(
    clippy::disallowed_methods,
    reason = "the test is the machine: it has the clock, the disk and the power"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod check;
mod load;
mod machine;
mod unsynced;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use g2_forgetful::Lie;

use super::{
    client::rest,
    random::{Random, number},
    scene::{all_settled, nobody_left},
};
use crate::support::wait_for;
use check::Sums;
use load::Load;
use machine::{Machine, People, live, release, serves};

/// How many losses a root lives through: a long life makes each of them slow.
const OF_A_ROOT: u64 = 50;
/// How many roots live at once.
const AT_ONCE: u64 = 2;
/// How many power losses it may take to find a lie out.
const LIES: u64 = 20;

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

/// One root, through some power losses to an end in order. `None`: there is no FUSE.
#[expect(clippy::print_stdout, reason = "what went wrong on purpose is part of the story of a failure")]
fn life_of_a_root(seed: u64, losses: u64) -> Option<Sums> {
    let mut machine = Machine::new()?;
    let mut random = Random(seed);
    let mut people = People::new(machine.root.path(), &mut random);
    let load = Load::new();
    let mut sums = Sums::default();
    let mut healthy = BTreeSet::new();
    for loss in 0..losses {
        let faults = live(&machine, &mut people, &mut random, &load);
        let forgotten = machine.disk.lose_power(random.below(u64::MAX)).unwrap();
        println!(
            "seed {seed}, loss {loss}: forgot {} changes and {} writes {faults:?}",
            forgotten.changes, forgotten.writes
        );
        sums.add_loss(forgotten, !faults.is_empty());
        check::after_a_loss(&machine.root, &people);
        if healthy.is_empty() {
            healthy = check::complaints(&machine.root);
        }
    }

    let root = &machine.root;
    machine.disk.faults(|faults| faults.slow(None));
    let last = root.spawn(&[]);
    let status = serves(root, &last).unwrap_or_else(|| panic!("it ended by itself:\n{}", root.log()));
    release(root, &status);
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
    check::at_the_end(root, &people, &mut sums);
    Some(sums)
}

/// Has the others begin no root any more once one has failed.
struct Stops<'a>(&'a AtomicU64);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_was_answered_is_there_after_any_power_loss_and_nothing_is_done_twice() {
    let first = number("G2_SEED").unwrap_or(1);
    let losses = number("G2_POWER_LOSSES").unwrap_or(200);
    println!("{losses} power losses; again with G2_SEED={first}");
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let work = || {
        let _stops = Stops(&next);
        let mut sums = Sums::default();
        loop {
            let root = next.fetch_add(1, Ordering::Relaxed);
            let left = losses.saturating_sub(root.saturating_mul(OF_A_ROOT)).min(OF_A_ROOT);
            if left == 0 {
                return Some(sums);
            }
            sums.add(&life_of_a_root(first + root, left)?);
        }
    };
    let all: Option<Vec<Sums>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let Some(all) = all else { return };
    let mut sums = Sums::default();
    all.iter().for_each(|of_one| sums.add(of_one));
    println!("{sums} in {:?}", begun.elapsed());
}
