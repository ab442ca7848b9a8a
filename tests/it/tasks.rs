//! Scheduled prompts, from the file that asks for one to what its run leaves.

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

const PAST: &str = "2020-01-01T00:00:00";

fn schedule(root: &Root, id: &str, fields: &Value) {
    let mut command = json!({"type": "schedule_task", "requestId": id, "taskId": id, "prompt": "stretch", "schedule_type": "once",
                             "schedule_value": PAST, "targetJid": "local:main"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        command[name] = value.clone();
    }
    root.put_command("main", "tasks", &format!("{id}.json"), &command);
    // Not by the reply: a task that is due at once makes a container, and `responses/` is emptied before each.
    let row = wait_for("the command to be settled", || {
        root.rows(&["ipc", "list"])
            .into_iter()
            .find(|row| row["request_id"] == id && row["state"] != "waiting" && row["state"] != "claimed")
    });
    assert_eq!(row["state"], "applied", "{row}");
}

fn ended_runs(root: &Root, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} ended task runs"), || {
        let runs: Vec<Value> = root
            .rows(&["runs", "list"])
            .into_iter()
            .filter(|r| r["kind"] == "task" && !r["ended_at"].is_null())
            .collect();
        (runs.len() >= count).then_some(runs)
    })
}

#[test]
fn a_tasks_text_stays_in_its_history_unless_it_is_for_the_chat() {
    let root = Root::new("");
    let _daemon = root.serve();
    schedule(&root, "quiet", &json!({"prompt": "quiet"}));
    schedule(&root, "loud", &json!({"prompt": "loud", "output": "chat"}));
    ended_runs(&root, 2);
    wait_for("the loud one", || (root.said("local:main") == ["echo: loud"]).then_some(()));
    let tasks = root.rows(&["tasks", "list"]);
    for task in &tasks {
        assert_eq!((&task["status"], &task["next_run"]), (&json!("completed"), &Value::Null), "{task}");
        assert!(task["last_result"].as_str().is_some_and(|text| text.starts_with("echo: ")), "{task}");
    }
}

#[test]
fn an_id_that_several_groups_have_is_told_apart_by_the_group() {
    let root = Root::new("");
    root.g2(&["init"]);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for group in ["main", "family"] {
        let schedule = ["--type", "interval", "--value", "3600000", "--id", "t", group];
        let made = root.json(&[&["tasks", "add", "--group", group], &schedule[..]].concat());
        assert_eq!((&made["id"], &made["group"]), (&json!("t"), &json!(group)));
    }
    for command in ["show", "pause", "resume", "cancel", "run", "history"] {
        let refused = root.run(&["tasks", command, "t"]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(told.contains("groups family, main have a task t; say which with --group"), "{told}");
    }
    assert_eq!(root.json(&["tasks", "pause", "t", "--group", "family"])["status"], "paused");
    assert_eq!(root.json(&["tasks", "update", "t", "--group", "family", "--prompt", "new"])["prompt"], "new");
    assert_eq!(root.json(&["tasks", "show", "t", "--group", "main"])["status"], "active");
    root.g2(&["tasks", "cancel", "t", "--group", "main"]);
    assert_eq!(root.json(&["tasks", "show", "t"])["group"], "family");
    assert_eq!(root.run(&["tasks", "show", "t", "--group", "main"]).status.code(), Some(1));
}

#[test]
fn a_task_reaches_the_chat_by_a_file() {
    let root = Root::new("");
    root.script(
        None,
        &json!([{"do": [{"command": {"box": "messages", "json": {"type": "send_message", "requestId": "m", "chatJid": "{{chat_jid}}", "text": "time to {{text}}"}}}]}]),
    );
    let _daemon = root.serve();
    schedule(&root, "t", &json!({}));
    wait_for("the message", || (root.said("local:main") == ["time to stretch"]).then_some(()));
    assert_eq!(ended_runs(&root, 1)[0]["status"], "succeeded");
}

#[test]
fn an_interval_stays_on_its_grid_and_each_slot_runs_once() {
    let root = Root::new("");
    let _daemon = root.serve();
    schedule(&root, "t", &json!({"schedule_type": "interval", "schedule_value": "1000"}));
    let first: jiff::Timestamp =
        root.rows(&["tasks", "list"])[0]["next_run"].as_str().unwrap_or_default().parse().unwrap_or_default();
    let runs = ended_runs(&root, 2);
    let next: jiff::Timestamp =
        root.rows(&["tasks", "list"])[0]["next_run"].as_str().unwrap_or_default().parse().unwrap_or_default();
    assert_eq!((next.as_millisecond() - first.as_millisecond()) % 1000, 0);
    assert!(next > first);
    let started: Vec<&str> = runs.iter().filter_map(|r| r["started_at"].as_str()).collect();
    assert!(started.windows(2).all(|pair| pair[0] < pair[1]), "{started:?}");
}

#[test]
fn a_task_takes_the_place_of_an_idle_container() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    schedule(&root, "t", &json!({}));
    let task = &ended_runs(&root, 1)[0];
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((&runs[0]["kind"], &runs[0]["status"]), (&json!("message"), &json!("succeeded")));
    assert!(runs[0]["ended_at"].as_str() <= task["started_at"].as_str(), "one container per group");
}

#[test]
fn a_task_that_is_cancelled_does_not_run() {
    let root = Root::new("");
    let _daemon = root.serve();
    schedule(&root, "t", &json!({"schedule_value": "2999-01-01T00:00:00"}));
    root.put_command(
        "main",
        "messages",
        "c.json",
        &json!({"type": "cancel_task", "requestId": "c", "taskId": "t"}),
    );
    assert_eq!(root.reply("main", "c")["result"], json!({"taskId": "t"}));
    assert!(root.rows(&["tasks", "list"]).is_empty());
    let path = root.data("ipc/main/current_tasks.json");
    wait_for("an empty snapshot", || (read(&path) == json!([])).then_some(()));
}

#[expect(clippy::disallowed_methods, reason = "tests look where a user looks")]
fn read(path: &std::path::Path) -> Value {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

#[test]
fn a_task_that_fails_is_tried_again_and_its_chat_is_told_once_at_the_end() {
    let root = Root::new("[limits]\nretry_base_ms = 1\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    schedule(&root, "t", &json!({}));
    let said = wait_for("the notice", || Some(root.said("local:main")).filter(|said| !said.is_empty()));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("task t") && said[0].contains("failed"), "{said:?}");
    let runs = ended_runs(&root, 4);
    assert_eq!(runs.len(), 4, "the first try and three more");
    assert!(
        runs.iter()
            .all(|run| run["status"] == "failed" && run["error"].as_str().is_some_and(|e| e.contains('3')))
    );
    let task = &root.rows(&["tasks", "list"])[0];
    assert_eq!(task["status"], "completed", "{task}");
}

#[test]
fn only_a_task_in_the_groups_context_runs_in_its_session() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    schedule(&root, "alone", &json!({}));
    ended_runs(&root, 1);
    schedule(&root, "together", &json!({"context_mode": "group"}));
    let runs = ended_runs(&root, 2);
    let session =
        |run: &Value| read(&root.data(&format!("runs/{}/launch.json", run["id"])))["sessionId"].clone();
    assert_eq!(session(&runs[0]), Value::Null);
    assert!(session(&runs[1]).is_string(), "{runs:?}");
}
