//! What the daemon costs when nothing happens, and how soon it is there.

use std::time::{Duration, Instant};

use crate::{
    Effort,
    floor::Floor,
    report::{Reached, Samples, Table, millis, ratio},
    rig::{Daemon, Root},
};

/// However long it takes until a daemon rests.
const SETTLES: Duration = Duration::from_secs(30);

pub(crate) fn take(effort: Effort, table: &mut Table) {
    // A start must not mind the messages that are stored.
    let sizes = [(1, 100_000, 15, 100), (100, 100_000, 15, 150), (1_000, 1_000_000, 30, 200)];
    for (groups, messages, most_mib, most_ms) in sizes {
        let root = Root::new(groups);
        root.fill_with_messages(messages);
        starts(&root, effort, messages, most_ms, table);
        idle(&root, effort, most_mib, table);
    }
}

fn starts(root: &Root, effort: Effort, messages: usize, most_ms: u64, table: &mut Table) {
    // The first one makes the boxes.
    root.serve().stop();
    let mut floor = Floor::new();
    let mut floors = Vec::new();
    let taken = (0..effort.pick(3, 7))
        .map(|_| {
            floors.push(floor.commit());
            let daemon = root.serve();
            let taken = daemon.ready - daemon.spawned;
            daemon.stop();
            taken
        })
        .collect();
    let (samples, floor) = (Samples::new(taken), Samples::new(floors));
    table.row(
        format!("start → ready; {} groups, {messages} messages stored (median, longest)", root.groups.len()),
        format!("{} ms, {} ms", millis(samples.median()), millis(samples.max())),
        format!("{} ms (one durable commit)", millis(floor.median())),
        format!("{:.0} ×", ratio(samples.median(), floor.median())),
        format!("≤ {most_ms} ms"),
        Reached::when(samples.median() <= Duration::from_millis(most_ms)),
    );
}

fn idle(root: &Root, effort: Effort, most_mib: u64, table: &mut Table) {
    let daemon = root.serve();
    settle(&daemon);
    let window = Duration::from_secs(effort.pick(10, 60));
    let share = daemon.share(window) * 100.0;
    let mib = daemon.resident_kib() as f64 / 1024.0;
    let groups = root.groups.len();
    table.row(
        format!("resident memory, idle; {groups} groups"),
        format!("{mib:.1} MiB"),
        "",
        "",
        format!("≤ {most_mib} MiB"),
        Reached::when(mib <= most_mib as f64),
    );
    table.row(
        format!("processor, idle over {} s; {groups} groups", window.as_secs()),
        format!("{share:.3} %"),
        "",
        "",
        "≤ 0.1 %",
        Reached::when(share <= 0.1),
    );
}

/// Waits until what a start leaves for later is done: at leisure, some ten seconds with many groups, half a minute where a million rows
/// are too old.
pub(crate) fn is_through(daemon: &Daemon) {
    let since = Instant::now();
    while daemon.share(Duration::from_secs(1)) > 0.01 && since.elapsed() < SETTLES {}
}

/// Waits until a daemon that has just started rests. Groups are weighed a minute after the start, and each hour from then on.
pub(crate) fn settle(daemon: &Daemon) {
    // Threads that the start needed leave after ten seconds without work, and within half a minute every idle group's
    // boxes were looked at once more.
    std::thread::sleep(Duration::from_secs(35));
    is_through(daemon);
}
