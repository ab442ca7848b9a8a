//! How the figures stand when the store is ten and a hundred times as large.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Effort,
    client::Client,
    events::Events,
    floor::Floor,
    launch,
    report::{Reached, Samples, Table, millis},
    rest,
    rig::Root,
};

mod fill;

use fill::{OLD_RUNS, fill};

/// How many groups there are at each size.
const GROUPS: usize = 100;
/// Up to this ratio to the smallest store a figure does not grow: times of some milliseconds are not taken more exactly.
const FLAT: f64 = 1.5;

/// A figure at one size: how it reads, and the number of which ratios are taken.
struct Taken {
    what: &'static str,
    shown: String,
    number: f64,
    /// It is in proportion to the store, or to an answer that is.
    grows: bool,
}

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let sizes: &[usize] = effort.pick(&[100_000, 1_000_000], &[100_000, 1_000_000, 10_000_000]);
    let mut columns: Vec<Vec<Taken>> = Vec::new();
    let mut rows = Vec::new();
    for size in sizes {
        // One store lies on the disk at a time.
        let root = Root::new(GROUPS);
        let began = Instant::now();
        rows.push(fill(&root, *size));
        eprintln!("growth: {} rows after {:.0} s", rows[rows.len() - 1], began.elapsed().as_secs_f64());
        let mut column = Column::default();
        starts(&root, effort, &mut column);
        at_rest(&root, &mut column);
        works(&root, effort, &mut column);
        people(&root, effort, &mut column);
        removal(&root, &mut column);
        columns.push(column.0);
    }
    let sizes = rows.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ");
    for n in 0..columns[0].len() {
        let of_sizes: Vec<&Taken> = columns.iter().map(|column| &column[n]).collect();
        let first = of_sizes[0].number.max(1e-9);
        let ratios: Vec<f64> = of_sizes.iter().map(|taken| taken.number / first).collect();
        let grows = of_sizes[0].grows;
        table.row(
            format!("{}; {sizes} rows stored", of_sizes[0].what),
            of_sizes.iter().map(|taken| taken.shown.as_str()).collect::<Vec<_>>().join(" / "),
            "",
            format!("{} ×", ratios.iter().map(|ratio| format!("{ratio:.1}")).collect::<Vec<_>>().join(" / ")),
            if grows { "grows: GROWTH.md".to_owned() } else { format!("≤ {FLAT} ×") },
            if grows { Reached::Open } else { Reached::when(ratios.iter().all(|ratio| *ratio <= FLAT)) },
        );
    }
}

/// The figures at one size, in the order of the table.
#[derive(Default)]
struct Column(Vec<Taken>);

impl Column {
    fn add(&mut self, what: &'static str, time: Duration, grows: bool) {
        let shown = format!("{} ms", millis(time));
        eprintln!("growth: {what}: {shown}");
        self.0.push(Taken { what, shown, number: time.as_secs_f64(), grows });
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    Samples::new(times.collect()).median()
}

fn starts(root: &Root, effort: Effort, column: &mut Column) {
    // The first one makes the boxes.
    root.serve().stop();
    let taken = (0..effort.pick(3, 7)).map(|_| {
        let daemon = root.serve();
        let taken = daemon.ready - daemon.spawned;
        daemon.stop();
        taken
    });
    column.add("start → ready (median)", median(taken), false);
}

fn at_rest(root: &Root, column: &mut Column) {
    let daemon = root.serve();
    rest::settle(&daemon);
    let mib = daemon.resident_kib() as f64 / 1024.0;
    eprintln!("growth: at rest: {mib:.1} MiB");
    column.0.push(Taken {
        what: "resident memory, idle",
        shown: format!("{mib:.1} MiB"),
        number: mib,
        grows: false,
    });
}

fn works(root: &Root, effort: Effort, column: &mut Column) {
    let _daemon = root.serve_with("debug");
    let mut events = Events::new();
    for group in &root.groups {
        events.watch(&root.in_box(group, "responses"));
    }
    let rounds = effort.pick(60, 300);
    for name in ["send_message", "schedule_task"] {
        let taken = (0..rounds).map(|n| {
            let group = &root.groups[n * 37 % root.groups.len()];
            let file = format!("{}-{n}.json", name.replace('_', "-"));
            let command = crate::commands::command(name, group, n, &root.groups, true);
            let before = root.put(group, &file, command.to_string().as_bytes());
            let (after, _) = events.wait(&root.in_box(group, "responses"), |name| name == file);
            std::thread::sleep(Duration::from_millis(4));
            after - before
        });
        let what = if name == "send_message" {
            "`send_message` → reply (median)"
        } else {
            "`schedule_task` → reply (median)"
        };
        column.add(what, median(taken), name == "schedule_task");
    }
    let mut client = Client::connect(root.path());
    let (asked, _) = launch::asked_for(root, &mut client, &mut Floor::new(), effort.pick(20, 60));
    column.add("message → container asked for (median)", asked.median(), false);
}

/// What people ask, beside the daemon. The program's own start is part of each.
fn people(root: &Root, effort: Effort, column: &mut Column) {
    let _daemon = root.serve();
    let newest: i64 = root.look().query_row("SELECT max(seq) - 8 FROM messages", [], |r| r.get(0)).unwrap();
    let (newest, old) = (newest.to_string(), (OLD_RUNS * 4 + 1).to_string());
    let trace = format!("c-{old}");
    let asked: [(&'static str, &[&str], bool); 16] = [
        ("`g2 why`, a new message", &["why", &newest], false),
        ("`g2 why`, an old message", &["why", &old], false),
        ("`g2 status`", &["status"], false),
        ("`g2 doctor`", &["doctor"], true),
        ("`g2 runs list --limit 20`", &["runs", "list", "--limit", "20"], false),
        ("the same of one group", &["runs", "list", "--group", "g0042", "--limit", "20"], false),
        ("the same of those that failed", &["runs", "list", "--state", "failed", "--limit", "20"], false),
        (
            "`g2 messages list --chat` `--limit 20`",
            &["messages", "list", "--chat", "local:g0042", "--limit", "20"],
            false,
        ),
        (
            "`g2 messages list --unanswered --limit 20`",
            &["messages", "list", "--unanswered", "--limit", "20"],
            true,
        ),
        ("`g2 outbox list --limit 20`", &["outbox", "list", "--limit", "20"], false),
        ("`g2 ipc list --limit 20`", &["ipc", "list", "--limit", "20"], false),
        ("`g2 ipc trace`, an old request id", &["ipc", "trace", &trace], false),
        ("`g2 activity --since 15m --limit 20`", &["activity", "--since", "15m", "--limit", "20"], false),
        ("`g2 usage --by group`", &["usage", "--by", "group"], false),
        ("`g2 lanes list`", &["lanes", "list"], false),
        ("`g2 prune --dry-run`", &["prune", "--dry-run", "--older-than", "365"], true),
    ];
    for (what, arguments, grows) in asked {
        // What is in proportion to the store takes long enough to be taken once.
        let times = (0..if grows { 1 } else { effort.pick(3, 5) }).map(|_| timed(root, arguments));
        column.add(what, median(times), grows);
    }
}

fn timed(root: &Root, arguments: &[&str]) -> Duration {
    let before = Instant::now();
    let status = root.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    // A store that is filled has failures to tell; 1 says so.
    assert!(matches!(status.code(), Some(0 | 1)), "g2 {arguments:?}: {status}");
    before.elapsed()
}

/// The removal of the same few rows, and a neighbour's command meanwhile.
fn removal(root: &Root, column: &mut Column) {
    let _daemon = root.serve();
    let mut events = Events::new();
    events.watch(&root.in_box("main", "responses"));
    let mut prune = root
        .command(&["prune", "--older-than", "365", "--yes"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let mut beside = Vec::new();
    let took = loop {
        let file = format!("beside-{}.json", beside.len());
        let id = file.trim_end_matches(".json");
        let command =
            json!({ "type": "send_message", "requestId": id, "chatJid": "local:main", "text": "beside" });
        let before = root.put("main", &file, command.to_string().as_bytes());
        let (after, _) = events.wait(&root.in_box("main", "responses"), |name| name == file);
        beside.push(after - before);
        if prune.try_wait().unwrap().is_some() {
            break began.elapsed();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    column.add("`g2 prune` of the same 1 000 messages and their runs", took, true);
    column.add("`send_message` → reply beside it (longest)", Samples::new(beside).max(), false);
    // Main's stay where one of its commands was claimed as the pruning began: its token may name any of them.
    let of_others = "SELECT count(*) FROM runs WHERE id <= ?1 AND group_folder <> 'main'";
    let left: usize = root.look().query_row(of_others, [OLD_RUNS], |r| r.get(0)).unwrap();
    assert_eq!(left, 0, "old runs are left");
}
