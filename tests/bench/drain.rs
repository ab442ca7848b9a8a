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
    let drained = floor::drained_per_second(files, sample.as_bytes());
    let written = floor::written_per_second(files, sample.as_bytes());
    // Removed at the end: some file systems make files slowly where many were just removed.
    let mut roots = Vec::new();
    for how in [How::Waiting, How::Answered, How::Arriving] {
        let (floor, of) = match how {
            How::Waiting | How::Answered => {
                (drained, "one thread: move, read, 64 to a durable commit, unlink")
            }
            How::Arriving => (written, "one thread writes and renames them, another one unlinks them"),
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
            let rates = drains.each_ref().map(|drain| format!("{:.0}", drain.rate)).join(" / ");
            let costs = drains.each_ref().map(|drain| format!("{:.0}", drain.cost_us)).join(" / ");
            table.row(
                format!("{files} files {}, `{name}`; from 1 / 100 / 1000 groups", how.name()),
                format!("{rates} /s ({costs} µs of processor each)"),
                format!("{floor:.0} /s ({of})"),
                format!("{:.2}", slowest / floor),
                "≥ 10 000 /s, durable",
                Reached::when(slowest >= 10_000.0),
            );
        }
    }
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
