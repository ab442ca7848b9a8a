//! From a message that is stored to a container that is asked for, and to a live agent that has taken it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    Effort,
    client::Client,
    events::Events,
    floor::Floor,
    report::{Reached, Samples, Table, millis, ratio},
    rig::{self, Root},
};

pub(crate) fn take(effort: Effort, table: &mut Table) {
    for groups in [1, 1_000] {
        let root = Root::new(groups);
        // Of long ago, in all groups together.
        let messages = effort.pick(100_000, 1_000_000);
        root.fill_with_messages(messages);
        let _daemon = root.serve_with("debug");
        let mut client = Client::connect(root.path());
        let mut floor = Floor::new();
        let asked = asked_for(&root, &mut client, &mut floor, effort.pick(20, 60));
        row(
            table,
            &format!("message stored → container asked for; {groups} groups, {messages} messages stored"),
            asked,
            "two durable commits",
        );
        let taken = follow_ups(&root, &mut client, &mut floor, effort.pick(60, 300));
        row(
            table,
            &format!("follow-up stored → taken by the live runner; {groups} groups"),
            taken,
            "two durable commits, inotify",
        );
    }
}

fn row(table: &mut Table, what: &str, (samples, floor): (Samples, Samples), of: &str) {
    table.row(
        format!("{what} (median / p95 / p99)"),
        samples.to_string(),
        format!("{} ms ({of})", millis(floor.median())),
        format!("{:.1} × median", ratio(samples.median(), floor.median())),
        "≤ 5 ms median",
        Reached::when(samples.median() <= Duration::from_millis(5)),
    );
}

/// Messages to groups that have no container. When one is asked for is in the log.
pub(crate) fn asked_for(
    root: &Root,
    client: &mut Client,
    floor: &mut Floor,
    count: usize,
) -> (Samples, Samples) {
    let (mut stored, mut floors) = (Vec::new(), Vec::new());
    for n in 0..count {
        let group = &root.groups[n * 37 % root.groups.len()];
        let chat = format!("local:{group}");
        client.send(&chat, "hello");
        stored.push(rig::wall_ms());
        client.rest(&chat);
        end_run(root, group, n);
        floors.push(floor.commit() + floor.commit());
    }
    let asked: Vec<f64> = root
        .log()
        .iter()
        .filter(|line| line["message"] == "asking for a container")
        .map(rig::logged_at_ms)
        .collect();
    assert_eq!(asked.len(), stored.len(), "a container for each message");
    let taken = stored
        .iter()
        .zip(asked)
        .map(|(stored, asked)| Duration::from_secs_f64((asked - stored).max(0.0) / 1e3));
    (Samples::new(taken.collect()), Samples::new(floors))
}

/// Ends a group's idle run by clearing its session, and waits for the end.
fn end_run(root: &Root, group: &str, n: usize) {
    root.put(group, &format!("clear-{n}.json"), json!({ "type": "clear_session" }).to_string().as_bytes());
    let store = root.look();
    rig::wait_until("the run's end", || {
        store
            .query_row(
                "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE status IN ('queued', 'running'))",
                [],
                |row| row.get(0),
            )
            .unwrap()
    });
    // The lanes hear of it a moment later.
    std::thread::sleep(Duration::from_millis(20));
}

/// Messages to a group whose agent is up and idle.
fn follow_ups(root: &Root, client: &mut Client, floor: &mut Floor, count: usize) -> (Samples, Samples) {
    let group = &root.groups[root.groups.len() / 2];
    let chat = format!("local:{group}");
    client.send(&chat, "hello");
    client.rest(&chat);
    let input = root.in_box(group, "input");
    let mut events = Events::new();
    events.watch(&input);
    let (mut taken, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..count {
        client.send(&chat, "and this");
        let stored = Instant::now();
        let (at, _) = events.wait(&input, |name| name.ends_with(".claimed"));
        taken.push(at.saturating_duration_since(stored));
        client.rest(&chat);
        std::thread::sleep(Duration::from_millis(3));
        floors.push(floor.sample() + floor.commit());
    }
    (Samples::new(taken), Samples::new(floors))
}
