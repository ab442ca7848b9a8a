//! Slots: who has waited longest goes first, a slow chat delays no other, idle containers give way.

use serde_json::{Value, json};

use crate::support::{Root, Socket, wait_for};

/// Short rests, one message a batch, and this many containers at most.
fn limits(cap: usize) -> String {
    format!(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\nmax_concurrent_containers = {cap}\n"
    )
}

fn add_groups(root: &Root, count: usize) {
    for n in 0..count {
        root.g2(&["groups", "add", &format!("g{n}"), "--chat", &format!("local:c{n}")]);
    }
}

/// The most runs of the ledger that were under way at any one time.
fn most_at_once(runs: &[Value]) -> usize {
    let mut changes: Vec<(&str, i32)> = Vec::new();
    for run in runs {
        let Some(started) = run["started_at"].as_str() else { continue };
        changes.push((started, 1));
        if let Some(ended) = run["ended_at"].as_str() {
            changes.push((ended, -1));
        }
    }
    // At the same instant an end goes before a start.
    changes.sort();
    let mut now = 0;
    let peaks = changes.iter().map(|(_, change)| {
        now += change;
        now
    });
    usize::try_from(peaks.max().unwrap_or_default()).unwrap_or_default()
}

#[test]
fn after_a_restart_who_has_waited_longest_goes_first_also_with_a_message_that_came_back() {
    let root = Root::new("");
    root.close_gate(&limits(1));
    add_groups(&root, 3);
    let daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let first = socket.accepted("local:c0", "one", "one");
    wait_for("it to be handed over", || root.why(first)["wirings"][0]["run"].is_i64().then_some(()));
    for (chat, text) in [("c1", "two"), ("c2", "three"), ("c0", "four")] {
        root.judged(socket.accepted(&format!("local:{chat}"), text, text));
    }
    daemon.kill();
    root.open_gate();
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    (0..3).for_each(|n| socket.rest(&format!("local:c{n}")));
    assert_eq!(root.said("local:c0"), ["echo: one", "echo: four"]);
    let runs = root.rows(&["runs", "list"]);
    let groups: Vec<&Value> = runs.iter().take(4).map(|run| &run["group"]).collect();
    assert_eq!(groups, ["g0", "g0", "g1", "g2"], "{runs:#?}");
}

#[test]
fn an_idle_container_gives_way_to_a_group_that_waits() {
    let root = Root::new(&limits(2));
    add_groups(&root, 3);
    let _daemon = root.serve();
    for n in 0..3 {
        root.ask(&format!("local:c{n}"), "hello");
    }
    let runs = root.rows(&["runs", "list"]);
    let states: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(
        states,
        ["succeeded", "running", "running"],
        "the longest idle one leaves, and only that: {runs:?}"
    );
    // Its conversation goes on in a new container.
    root.ask("local:c0", "again");
    assert_eq!(root.said("local:c0"), ["echo: hello", "echo: again"]);
    assert_eq!(root.data_json("runs/4/launch.json")["sessionId"], "scripted-1");
    assert_eq!(most_at_once(&root.rows(&["runs", "list"])), 2);
}

#[test]
fn a_slow_chat_delays_no_other() {
    let root = Root::new(&limits(2));
    add_groups(&root, 4);
    root.script(Some("g0"), &json!([{"do": [{"hang": true}]}]));
    let _daemon = root.serve();
    let slow = root.send("local:c0", "take your time");
    wait_for("the slow one to run", || {
        (root.why(slow)["wirings"][0]["run_status"] == "running").then_some(())
    });
    for n in [1, 2, 3, 1, 2, 3] {
        assert_eq!(root.ask(&format!("local:c{n}"), "quick"), "echo: quick\n");
    }
    let answer = root.why(slow)["answer"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("an agent is at work on it since 20"), "{answer}");
    let status = root.json(&["status"]);
    assert_eq!(
        ["waiting", "messages_waiting", "files_waiting"].map(|name| status[name].clone()),
        [0, 0, 0].map(Value::from)
    );
}

#[test]
fn status_counts_conversations_messages_and_files_that_wait_with_the_daemon_up_or_down() {
    let root = Root::new("");
    root.close_gate(&limits(1));
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:other", "--engage", "pattern"]);
    let daemon = root.serve();
    root.g2(&["ipc", "hold", "main"]);
    let first = root.send("local:main", "keep the only container");
    wait_for("it to be launched", || root.why(first)["wirings"][0]["run"].is_i64().then_some(()));
    for text in ["one", "two", "three"] {
        root.judged(root.send("local:other", text));
    }
    for name in ["a.json", "b.json", "c.txt"] {
        root.put_command("main", "tasks", name, &json!({"type": "list_tasks"}));
    }
    let waits = || {
        let status = root.json(&["status"]);
        ["waiting", "messages_waiting", "files_waiting"].map(|name| status[name].clone())
    };
    assert_eq!(waits(), [json!(2), json!(3), json!(2)], "both groups wait for the same three messages");
    daemon.kill();
    assert_eq!(waits(), [Value::Null, json!(3), json!(2)]);
}

#[test]
fn follow_ups_go_into_the_live_run_while_it_is_at_work() {
    let root = Root::new("");
    root.close_gate(&limits(1));
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for n in 0..5 {
        socket.accepted("local:main", &n.to_string(), &n.to_string());
    }
    root.open_gate();
    socket.rest("local:main");
    assert_eq!(root.said("local:main"), ["echo: 0", "echo: 1", "echo: 2", "echo: 3", "echo: 4"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn an_idle_container_gives_way_to_other_work_of_its_group_and_to_waiting_groups() {
    let root = Root::new(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nmax_concurrent_containers = 1\n",
    );
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:second", "--engage", "pattern"]);
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "echo: one\n");
    assert_eq!(root.ask("local:second", "two"), "echo: two\n");
    assert_eq!(root.ask("local:other", "three"), "echo: three\n");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs.len(), 3);
    assert!(runs[..2].iter().all(|run| run["status"] == "succeeded"), "{runs:#?}");
    assert_eq!(most_at_once(&runs), 1);
}
