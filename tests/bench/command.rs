//! From a command file's rename to its reply, when its effect is durable.

use std::time::Duration;

use serde_json::json;

use crate::{
    Effort,
    events::Events,
    floor::Floor,
    report::{Reached, Samples, Table, millis, ratio},
    rig::Root,
};

/// Rest between two commands, so that each finds the daemon idle.
const REST: Duration = Duration::from_millis(4);

pub(crate) fn take(effort: Effort, table: &mut Table) {
    for groups in [1, 100, 1_000] {
        let (samples, floor) = measure(groups, effort.pick(150, 1_000));
        let (median, tail) =
            (ratio(samples.median(), floor.median()), ratio(samples.quantile(0.99), floor.quantile(0.99)));
        table.row(
            format!(
                "command file renamed → effect durable, reply there; {groups} groups (median / p95 / p99)"
            ),
            samples.to_string(),
            format!("{floor} (inotify + one durable commit)"),
            format!("{median:.1} × median, {tail:.1} × p99"),
            "≤ 2 × median, ≤ 5 × p99",
            Reached::when(median <= 2.0 && tail <= 5.0),
        );
    }
}

fn measure(groups: usize, count: usize) -> (Samples, Samples) {
    let root = Root::new(groups);
    let _daemon = root.serve();
    let mut events = Events::new();
    for group in &root.groups {
        events.watch(&root.in_box(group, "responses"));
    }
    let mut floor = Floor::new();
    let (mut taken, mut floors) = (Vec::new(), Vec::new());
    // The first ones warm both sides up.
    let warm = 20;
    for n in 0..count + warm {
        // Neighbours in the list are not neighbours in anything that the daemon keeps.
        let group = &root.groups[n * 37 % groups];
        let id = format!("r{n}");
        let command = json!({ "type": "send_message", "chatJid": format!("local:{group}"), "text": "hello", "requestId": id });
        let before = root.put(group, &format!("{id}.json"), command.to_string().as_bytes());
        let (after, _) = events.wait(&root.in_box(group, "responses"), |name| name == format!("{id}.json"));
        std::thread::sleep(REST);
        let beside = floor.sample();
        if n >= warm {
            taken.push(after - before);
            floors.push(beside);
        }
    }
    let samples = Samples::new(taken);
    if groups == 1 {
        eprintln!("slowest command: {} ms", millis(samples.max()));
    }
    (samples, Samples::new(floors))
}
