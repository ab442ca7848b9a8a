//! From a command file's rename to its reply, when its effect is durable: every command, with few groups and with many.

use std::{collections::BTreeMap, fs, time::Duration};

use serde_json::Value;

use crate::{
    Effort,
    commands::{self, is_mains},
    events::Events,
    floor::Floor,
    report::{Reached, Samples, Table, ratio},
    rig::Root,
};

/// Rest between two commands, so that each finds the daemon idle.
const REST: Duration = Duration::from_millis(4);
/// How many rounds come before the first that counts.
const WARM: usize = 10;

/// The commands in an order in which each finds what it acts on: a task that was scheduled before, a session that was
/// archived before.
const ROUND: [&str; 14] = [
    "send_message",
    "media",
    "schedule_task",
    "update_task",
    "pause_task",
    "resume_task",
    "list_tasks",
    "cancel_task",
    "archive_session",
    "search_sessions",
    "resume_session",
    "clear_session",
    "register_group",
    "refresh_groups",
];

/// What was measured of one command.
#[derive(Default)]
struct Times {
    taken: Vec<Duration>,
    floors: Vec<Duration>,
}

pub(crate) fn take(effort: Effort, table: &mut Table) {
    for groups in [1, 100, 1_000] {
        for (name, times) in measure(groups, effort.pick(40, 300)) {
            let (samples, floor) = (Samples::new(times.taken), Samples::new(times.floors));
            let (median, tail) = (
                ratio(samples.median(), floor.median()),
                ratio(samples.quantile(0.99), floor.quantile(0.99)),
            );
            table.row(
                format!(
                    "`{name}` renamed → effect durable, reply there; {groups} groups (median / p95 / p99)"
                ),
                samples.to_string(),
                format!("{floor} (inotify + one durable commit)"),
                format!("{median:.1} × median, {tail:.1} × p99"),
                "≤ 2 × median, ≤ 5 × p99",
                Reached::when(median <= 2.0 && tail <= 5.0),
            );
        }
    }
}

fn measure(groups: usize, rounds: usize) -> Vec<(&'static str, Times)> {
    assert!(commands::names().all(|name| ROUND.contains(&name)), "a new command has a place in the round");
    // Who is registered again is not who gives commands.
    let root = Root::new(groups.max(2));
    let _daemon = root.serve();
    let mut events = Events::new();
    for group in &root.groups[..groups] {
        events.watch(&root.in_box(group, "responses"));
    }
    let mut floor = Floor::new();
    let mut times = BTreeMap::<&str, Times>::new();
    for n in 0..rounds + WARM {
        // Neighbours in the list are not neighbours in anything that the daemon keeps.
        let group = &root.groups[n * 37 % groups];
        let (mut task, mut archive) = (Value::Null, Value::Null);
        for name in ROUND {
            let group = if is_mains(name) { &root.groups[0] } else { group };
            let mut command = commands::command(name, group, n, &root.groups, true);
            for (field, value) in [("taskId", &task), ("sessionHistoryId", &archive)] {
                if command.get(field).is_some() {
                    command[field] = value.clone();
                }
            }
            let id = command["requestId"].as_str().unwrap().to_owned();
            let answer = root.in_box(group, "responses").join(format!("{id}.json"));
            let before = root.put(group, &format!("{id}.json"), command.to_string().as_bytes());
            let (after, _) = events.wait(answer.parent().unwrap(), |name| name == format!("{id}.json"));
            let reply: Value = serde_json::from_slice(&fs::read(answer).unwrap()).unwrap();
            // A list comes bare, as v1 sent it.
            assert!(reply.is_array() || reply["ok"] == true, "{reply}");
            match name {
                "schedule_task" => task = reply["result"]["taskId"].clone(),
                "archive_session" => archive = reply["result"]["id"].clone(),
                _ => {}
            }
            std::thread::sleep(REST);
            let beside = floor.sample();
            if n >= WARM {
                let times = times.entry(name).or_default();
                times.taken.push(after - before);
                times.floors.push(beside);
            }
        }
    }
    commands::names().filter_map(|name| times.remove_entry(name)).collect()
}
