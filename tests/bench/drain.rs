//! How fast waiting command files are taken in: every command, from few groups and from many.

use std::{
    fs,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use crate::{
    Effort,
    commands::{self, is_mains},
    floor,
    report::{Reached, Table},
    rig::{self, Root},
};

/// From how many groups.
const GROUPS: [usize; 3] = [1, 100, 1_000];

/// How the files come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// They lie there when the daemon starts; nobody waits for an answer.
    Waiting,
    /// The same, each with a `requestId`: every one is answered.
    Answered,
    /// They are written, one after the other, while it is up.
    Arriving,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting at the start",
            Self::Answered => "waiting at the start, each with a reply",
            Self::Arriving => "written one by one while it is up",
        }
    }
}

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let files = 20_000;
    let sample = commands::command("send_message", "main", 1, &[], false).to_string();
    let drained = GROUPS.map(|groups| floor::drained(files, groups, sample.as_bytes()));
    let written = floor::written_per_second(files, sample.as_bytes());
    let called = [false, true]
        .map(|wants| GROUPS.map(|groups| floor::called(files, groups, sample.as_bytes(), wants)));
    for (rates, what) in called.iter().zip(["", ", each with a reply"]) {
        table.row(
            format!(
                "{files} files{what}: the calls alone that each needs, one thread; from 1 / 100 / 1000 groups"
            ),
            format!(
                "{} /s ({} µs of processor each)",
                each(rates, |r| r.per_second),
                each(rates, |r| r.cost_us)
            ),
            "",
            "",
            "–",
            Reached::Open,
        );
    }
    // Removed at the end: some file systems make files slowly where many were just removed.
    let mut roots = Vec::new();
    for how in [How::Waiting, How::Answered, How::Arriving] {
        let (floor, of) = match how {
            How::Waiting | How::Answered => (
                drained.each_ref().map(|rate| rate.per_second),
                "one thread: move, read, 64 to a durable commit, unlink",
            ),
            How::Arriving => ([written; 3], "one thread writes and renames them, another one unlinks them"),
        };
        for name in commands::wanted() {
            // The short form measures what agents do most.
            let is_usual =
                matches!(name, "send_message" | "schedule_task" | "list_tasks" | "archive_session");
            if effort == Effort::Quick && how != How::Waiting && !is_usual
                || how == How::Arriving && !is_usual
            {
                continue;
            }
            let drains = GROUPS.map(|groups| {
                let root = Root::new(groups.max(2));
                let drain = drain(&root, groups, name, files, how);
                roots.push(root);
                drain
            });
            let slowest = drains.iter().map(|drain| drain.rate).fold(f64::INFINITY, f64::min);
            let ratios = [0, 1, 2].map(|n| drains[n].rate / floor[n]);
            table.row(
                format!("{files} files {}, `{name}`; from 1 / 100 / 1000 groups", how.name()),
                format!(
                    "{} /s ({} µs of processor each)",
                    each(&drains, |d| d.rate),
                    each(&drains, |d| d.cost_us)
                ),
                format!("{} /s ({of})", each(&floor, |rate| *rate)),
                ratios.map(|ratio| format!("{ratio:.2}")).join(" / "),
                "≥ 0.5, ≥ 10 000 /s, durable",
                Reached::when(slowest >= 10_000.0 && ratios.iter().all(|ratio| *ratio >= 0.5)),
            );
        }
    }
}

/// A figure for each number of groups.
fn each<T>(of: &[T; 3], figure: impl Fn(&T) -> f64) -> String {
    of.each_ref().map(|one| format!("{:.0}", figure(one))).join(" / ")
}

/// What draining came to.
struct Drain {
    /// Files settled a second.
    rate: f64,
    /// What one took of a processor's time, µs, until nothing was left to do: whatever else the machine does, that is
    /// much the same.
    cost_us: f64,
}

/// Settles files and says how fast: those that wait from the start of the daemon as a process, those that come from the
/// first one's being written, until the last receipt is durable.
fn drain(root: &Root, groups: usize, name: &str, files: usize, how: How) -> Drain {
    let all = &root.groups[..groups];
    let writers = if is_mains(name) { &all[..1] } else { all };
    // Makes the boxes.
    root.serve().stop();
    commands::prepare(&mut root.store(), name, files, writers);
    let write = || {
        for (n, group) in (0..files).zip(writers.iter().cycle()) {
            let command = commands::command(name, group, n, all, how == How::Answered);
            root.put(group, &format!("{n:08}.json"), command.to_string().as_bytes());
        }
    };
    let store = root.look();
    let (daemon, began) = if how == How::Arriving {
        let daemon = root.serve();
        let began = Instant::now();
        write();
        (daemon, began)
    } else {
        write();
        let daemon = root.serve();
        let began = daemon.spawned;
        (daemon, began)
    };
    let last = all_settled(root, &store, files);
    let used = daemon.processor_time_in_all();
    let each = |all: Duration| all.as_secs_f64() / files as f64;
    Drain { rate: each(last - began).recip(), cost_us: each(used) * 1e6 }
}

fn receipts(store: &Connection, least: usize) -> usize {
    // Counting all of them costs the daemon time; the newest one is found at once, and claims are numbered one by one.
    let mut newest = store.prepare_cached("SELECT coalesce(max(claim_id), 0) FROM receipts").unwrap();
    let newest = newest.query_row([], |row| row.get::<_, i64>(0)).unwrap() as usize;
    if newest < least {
        return 0;
    }
    let mut count = store.prepare_cached("SELECT count(*) FROM receipts").unwrap();
    count.query_row([], |row| row.get::<_, i64>(0)).unwrap() as usize
}

/// Waits for the last receipt, then for the last claimed file's end; returns when the receipt was there.
fn all_settled(root: &Root, store: &Connection, files: usize) -> Instant {
    let mut last = None;
    rig::wait_until("every receipt", || {
        std::thread::sleep(Duration::from_millis(10));
        if receipts(store, files) >= files {
            last = Some(Instant::now());
        }
        last.is_some()
    });
    let refused: i64 = store
        .query_row("SELECT count(*) FROM receipts WHERE outcome <> 'applied'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(refused, 0, "commands were refused");
    rig::wait_until("the last claimed file's end", || {
        fs::read_dir(root.data("claimed")).unwrap().next().is_none()
    });
    last.unwrap()
}
