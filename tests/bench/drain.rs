//! How fast waiting command files are taken in.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    Effort, floor,
    report::{Reached, Table},
    rig::{self, Root},
};

/// What the files ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    SendMessage,
    ScheduleTask,
    /// With a `requestId`: every one is answered.
    AnsweredTask,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::SendMessage => "`send_message`",
            Self::ScheduleTask => "`schedule_task`",
            Self::AnsweredTask => "`schedule_task` with replies",
        }
    }

    fn command(self, group: &str, n: usize) -> Value {
        match self {
            Self::SendMessage => {
                json!({ "type": "send_message", "chatJid": format!("local:{group}"), "text": format!("message {n}") })
            }
            Self::ScheduleTask | Self::AnsweredTask => {
                let mut task = json!({
                    "type": "schedule_task", "prompt": format!("look after thing {n}"), "schedule_type": "interval",
                    "schedule_value": "86400000", "targetJid": format!("local:{group}"),
                });
                if self == Self::AnsweredTask {
                    task["requestId"] = json!(format!("r{n}"));
                }
                task
            }
        }
    }
}

/// When the files are written.
#[derive(Clone, Copy)]
enum Daemon {
    Down,
    Up,
}

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let files = effort.pick(5_000, 20_000);
    let sample = Kind::SendMessage.command("main", 1).to_string();
    let floor = floor::drained_per_second(files, sample.as_bytes());
    let mut cases = Vec::new();
    for kind in [Kind::SendMessage, Kind::ScheduleTask] {
        cases.extend([1, 100, 1_000].map(|groups| (kind, groups, Daemon::Down)));
    }
    cases.push((Kind::SendMessage, 100, Daemon::Up));
    cases.push((Kind::ScheduleTask, 100, Daemon::Up));
    cases.push((Kind::AnsweredTask, 1, Daemon::Down));
    cases.push((Kind::AnsweredTask, 100, Daemon::Down));
    for (kind, groups, daemon) in cases {
        let rate = match daemon {
            Daemon::Down => waiting(kind, groups, files),
            Daemon::Up => arriving(kind, groups, files),
        };
        let how = match daemon {
            Daemon::Down => "waiting at the start",
            Daemon::Up => "written while it is up",
        };
        table.row(
            format!("{files} files {how}, {}, {groups} groups", kind.name()),
            format!("{rate:.0} /s"),
            format!("{floor:.0} /s (one thread: move, read, 64 to a durable commit, unlink)"),
            format!("{:.2}", rate / floor),
            "≥ 10 000 /s, durable",
            Reached::when(rate >= 10_000.0),
        );
    }
}

/// Files that lie there when the daemon starts: from its start as a process to the last receipt.
fn waiting(kind: Kind, groups: usize, files: usize) -> f64 {
    let root = Root::new(groups);
    root.serve().stop();
    write(&root, kind, files);
    let store = root.look();
    let daemon = root.serve();
    let last = all_settled(&root, &store, files);
    files as f64 / (last - daemon.spawned).as_secs_f64()
}

/// Files that come while it is up: from the first to the last receipt.
fn arriving(kind: Kind, groups: usize, files: usize) -> f64 {
    let root = Root::new(groups);
    let daemon = root.serve();
    let store = root.look();
    let began = Instant::now();
    write(&root, kind, files);
    let last = all_settled(&root, &store, files);
    drop(daemon);
    files as f64 / (last - began).as_secs_f64()
}

fn write(root: &Root, kind: Kind, files: usize) {
    for (n, group) in (0..files).zip(root.groups.iter().cycle()) {
        root.put(group, &format!("{n:08}.json"), kind.command(group, n).to_string().as_bytes());
    }
}

fn receipts(store: &Connection) -> usize {
    let mut count = store.prepare_cached("SELECT count(*) FROM receipts").unwrap();
    count.query_row([], |row| row.get::<_, i64>(0)).unwrap() as usize
}

/// Waits for the last receipt, then for the last claimed file's end; returns when the receipt was there.
fn all_settled(root: &Root, store: &Connection, files: usize) -> Instant {
    let mut last = None;
    rig::wait_until("every receipt", || {
        std::thread::sleep(Duration::from_millis(10));
        if receipts(store) >= files {
            last = Some(Instant::now());
        }
        last.is_some()
    });
    let refused: i64 = store
        .query_row("SELECT count(*) FROM receipts WHERE outcome <> 'applied'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(refused, 0, "commands were refused");
    rig::wait_until("the last claimed file's end", || {
        std::fs::read_dir(root.data("claimed")).unwrap().next().is_none()
    });
    last.unwrap()
}
