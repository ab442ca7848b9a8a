//! A runner of v1's kind, unchanged: its markers, no numbers, input files that it unlinks.

use serde_json::json;

use crate::support::{Root, wait_for};

/// A root whose agents are v1 runners, as plain children.
fn root() -> Root {
    let runner = crate::support::example("v1-runner");
    Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [{:?}]\n",
        runner.display().to_string()
    ))
}

#[test]
fn a_v1_runner_answers_takes_a_follow_up_and_leaves_when_asked() {
    let root = root();
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "v1 echo: one\n");
    assert_eq!(root.ask("local:main", "two"), "v1 echo: two\n");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(
        (runs.len(), &runs[0]["status"]),
        (1, &json!("running")),
        "the follow-up reached the live run"
    );
    assert_eq!(daemon.terminate(), Some(0));
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs[0]["status"], "succeeded", "{runs:?}");
}

#[test]
fn a_task_of_a_v1_runner_runs_once_and_its_container_is_closed() {
    let root = root();
    let _daemon = root.serve();
    root.put_command(
        "main",
        "tasks",
        "t.json",
        &json!({"type": "schedule_task", "requestId": "t", "prompt": "stretch", "schedule_type": "once",
                "schedule_value": "2020-01-01T00:00:00", "targetJid": "local:main", "output": "chat"}),
    );
    let run = wait_for("the task's run to end", || {
        root.rows(&["runs", "list"])
            .into_iter()
            .find(|run| run["kind"] == "task" && !run["ended_at"].is_null())
    });
    assert_eq!(run["status"], "succeeded", "{run}");
    let said = wait_for("its answer", || root.said("local:main").into_iter().next());
    assert!(said.starts_with("v1 echo: ") && said.contains("stretch"), "{said}");
    assert_eq!(root.rows(&["tasks", "list"])[0]["status"], "completed");
}

#[test]
fn what_a_v1_runner_did_not_take_before_it_died_is_answered_by_the_next() {
    let root = root();
    let daemon = root.serve();
    root.ask("local:main", "one");
    daemon.kill();
    let daemon = root.serve();
    for text in ["two", "three"] {
        root.g2(&["send", text]);
    }
    assert!(root.ask("local:main", "four").contains("v1 echo: four"));
    drop(daemon);
    let handed = root.rows(&["messages", "list"]).len();
    assert_eq!(handed, 4);
    for seq in 1..=4 {
        let why = root.json(&["why", &seq.to_string()]);
        assert_eq!(why["wirings"][0]["batch_state"], "done", "{why}");
    }
}
