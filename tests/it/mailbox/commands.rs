//! Each command of a live daemon's mailbox: its reply, what it changes, and where it can be looked up afterwards.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "tests look at what the daemon leaves on disk")]

use std::fs;

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

/// A root with a second group, which answers in `local:family`.
pub(super) fn two_groups() -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root
}

/// Puts a command and returns the reply.
pub(super) fn ask(root: &Root, group: &str, mut command: Value, id: &str) -> Value {
    command["requestId"] = id.into();
    root.put_command(group, "tasks", &format!("{id}.json"), &command);
    root.reply(group, id)
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn send_message_is_said_in_the_chat_and_answered_with_its_outbox_id() {
    let root = two_groups();
    let _daemon = root.serve();
    let hello =
        json!({"type": "send_message", "chatJid": "local:family", "text": "hello <internal>x</internal>"});
    let reply = ask(&root, "family", hello, "r1");
    assert_eq!(reply, json!({"requestId": "r1", "ok": true, "result": {"outboxId": 1}}));
    // v1's name of the command, and a chat of another group: main may.
    let reply =
        ask(&root, "main", json!({"type": "message", "chatJid": "local:family", "text": "two"}), "r2");
    assert_eq!(reply, json!({"requestId": "r2", "ok": true, "result": {"outboxId": 2}}));
    wait_for("both to be said", || (root.said("local:family").len() == 2).then_some(()));
    assert_eq!(root.said("local:family"), ["hello", "two"]);
    let rows = root.rows(&["outbox", "list"]);
    assert_eq!((&rows[0]["cause"], &rows[0]["attempts"]), (&json!("command 1"), &json!(1)));
}

#[test]
fn schedule_task_answers_with_the_first_occurrence_of_each_kind() {
    let root = Root::new("");
    let _daemon = root.serve();
    let schedule = |kind: &str, value: Value| json!({"type": "schedule_task", "prompt": "p", "schedule_type": kind, "schedule_value": value, "taskId": kind});
    let reply = ask(&root, "main", schedule("once", json!("2099-01-01T09:00:00")), "r1");
    assert_eq!(
        reply["result"],
        json!({"taskId": "once", "nextRun": "2099-01-01T09:00:00.000Z", "nextRunLocal": "2099-01-01T09:00:00+00:00", "scheduleInWords": "once on 2099-01-01 at 09:00 UTC"})
    );
    let reply = ask(&root, "main", schedule("cron", json!("0 9 * * *")), "r2");
    assert!(reply["result"]["nextRun"].as_str().unwrap().ends_with("T09:00:00.000Z"), "{reply}");
    let reply = ask(&root, "main", schedule("interval", json!(86_400_000)), "r3");
    assert_eq!(names(&reply["result"]), ["nextRun", "nextRunLocal", "scheduleInWords", "taskId"]);
    let tasks = root.rows(&["tasks", "list"]);
    let ids: Vec<&Value> = tasks.iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, ["once", "cron", "interval"]);
    assert_eq!(
        names(&tasks[0]),
        [
            "catch_up",
            "catch_up_window_ms",
            "chat_jid",
            "context_mode",
            "failures",
            "group",
            "id",
            "last_result",
            "last_run",
            "next_run",
            "origin",
            "output",
            "paused_for",
            "prompt",
            "rest_until",
            "schedule",
            "schedule_type",
            "schedule_value",
            "script",
            "status"
        ]
    );
    // A task without an id is given one.
    let mut unnamed = schedule("once", json!("2099-01-01T09:00:00"));
    unnamed.as_object_mut().unwrap().remove("taskId");
    assert_eq!(ask(&root, "main", unnamed, "r4")["result"]["taskId"], "task-4");
    // An id that is taken is a conflict.
    let reply = ask(&root, "main", schedule("once", json!("2099-01-01T10:00:00")), "r5");
    assert_eq!((&reply["ok"], &reply["error"]["code"]), (&json!(false), &json!("conflict")));
}

#[test]
fn list_tasks_and_the_snapshots_show_a_group_its_own_tasks_and_main_all() {
    let root = two_groups();
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    let _daemon = root.serve();
    let task = |id: &str| json!({"type": "schedule_task", "prompt": "p", "schedule_type": "once", "schedule_value": "2099-01-01T09:00:00Z", "taskId": id});
    ask(&root, "family", task("a"), "r1");
    ask(&root, "main", task("b"), "r2");
    let row = |id: &str, group: &str| {
        json!({"id": id, "groupFolder": group, "prompt": "p", "schedule_type": "once", "schedule_value": "2099-01-01T09:00:00Z",
               "scheduleInWords": "once on 2099-01-01 at 09:00 UTC", "status": "active", "next_run": "2099-01-01T09:00:00.000Z"})
    };
    let (a, b) = (row("a", "family"), row("b", "main"));
    assert_eq!(root.data_json("ipc/family/current_tasks.json"), json!([a]));
    assert_eq!(root.data_json("ipc/main/current_tasks.json"), json!([b, a]));
    assert_eq!(root.data_json("ipc/other/current_tasks.json"), json!([]));
    let list = || json!({"type": "list_tasks"});
    assert_eq!(ask(&root, "family", list(), "r3")["result"], json!({"tasks": [a]}));
    assert_eq!(ask(&root, "main", list(), "r4")["result"], json!({"tasks": [b, a]}));
    assert_eq!(ask(&root, "other", list(), "r5")["result"], json!({"tasks": []}));
}

#[test]
fn cancel_task_reaches_ones_own_tasks_only_and_the_snapshots_follow() {
    let root = two_groups();
    let _daemon = root.serve();
    let task = |id: &str| json!({"type": "schedule_task", "prompt": "p", "schedule_type": "interval", "schedule_value": "3600000", "taskId": id});
    ask(&root, "main", task("m"), "r1");
    ask(&root, "family", task("f"), "r2");
    let cancel = |id: &str| json!({"type": "cancel_task", "taskId": id});
    let foreign = ask(&root, "family", cancel("m"), "r3");
    let absent = ask(&root, "family", cancel("x"), "r4");
    assert_eq!(foreign["error"]["code"], "not_found");
    assert_eq!(
        foreign["error"]["message"].as_str().unwrap().replace("\"m\"", "\"x\""),
        absent["error"]["message"]
    );
    let reply = ask(&root, "family", cancel("f"), "r5");
    assert_eq!(reply, json!({"requestId": "r5", "ok": true, "result": {"taskId": "f"}}));
    assert_eq!(root.data_json("ipc/family/current_tasks.json"), json!([]));
    // Main, which did not ask, is shown it in a moment.
    wait_for("main's list to follow", || {
        (root.data_json("ipc/main/current_tasks.json")[0]["id"] == "m").then_some(())
    });
    assert_eq!(ask(&root, "main", cancel("m"), "r6")["ok"], true);
    assert_eq!(root.data_json("ipc/main/current_tasks.json"), json!([]));
    assert!(root.rows(&["tasks", "list"]).is_empty());
}

#[test]
fn a_task_that_a_person_cancels_disappears_from_the_snapshots() {
    let root = two_groups();
    let _daemon = root.serve();
    let task = json!({"type": "schedule_task", "prompt": "p", "schedule_type": "interval", "schedule_value": "3600000", "taskId": "f"});
    ask(&root, "family", task, "r1");
    root.g2(&["tasks", "cancel", "f"]);
    wait_for("the snapshots to follow", || {
        let shown = |group: &str| root.data_json(&format!("ipc/{group}/current_tasks.json"));
        (shown("family") == json!([]) && shown("main") == json!([])).then_some(())
    });
}

#[test]
fn clear_session_begins_a_new_conversation_and_a_name_archives_the_old_one() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(ask(&root, "main", json!({"type": "clear_session"}), "r1")["result"], json!({}));
    root.ask("local:main", "one");
    let first = root.data_json("runs/1/launch.json");
    let reply = ask(&root, "main", json!({"type": "clear_session", "name": "Trip"}), "r2");
    assert_eq!(reply, json!({"requestId": "r2", "ok": true, "result": {"archivedId": 1}}));
    root.ask("local:main", "two");
    let second = root.data_json("runs/2/launch.json");
    assert_eq!(second["sessionId"], Value::Null);
    assert_eq!(second["generation"].as_i64(), first["generation"].as_i64().map(|n| n + 1));
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((&runs[0]["status"], &runs[0]["error"]), (&json!("succeeded"), &Value::Null));
    let history = root.data_json("ipc/main/session_history.json");
    assert_eq!(
        (&history[0]["id"], &history[0]["name"], &history[0]["session_id"]),
        (&json!(1), &json!("Trip"), &json!("scripted-1"))
    );
}

#[test]
fn every_command_can_be_looked_up_with_its_file_and_its_answer() {
    let root = two_groups();
    let _daemon = root.serve();
    let watched = std::thread::scope(|scope| {
        let watching = scope.spawn(|| root.g2(&["--json", "ipc", "watch", "--count", "2"]));
        let mut n = 0;
        // `watch` tells of what comes after it has begun: commands are put until it has seen two.
        while !watching.is_finished() {
            n += 1;
            let list = json!({"type": "list_tasks"});
            ask(&root, "family", list, &format!("w{n}"));
        }
        watching.join().unwrap()
    });
    // A file that is only claimed so far has no box any more.
    for line in watched.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let claimed = row["state"] == "claimed";
        assert!(row["group"] == "family" && (claimed || row["box"] == "tasks"), "{row}");
    }

    let command =
        json!({"type": "send_message", "chatJid": "local:family", "text": "hi", "requestId": "ok-1"});
    root.put_command("family", "messages", "good.json", &command);
    let good = root.settled_file("family", "good.json");
    assert_eq!(
        names(&good),
        ["age_ms", "box", "code", "group", "id", "name", "reason", "request_id", "state", "type"]
    );
    assert_eq!(
        [&good["box"], &good["type"], &good["request_id"], &good["state"], &good["code"], &good["reason"]],
        [
            &json!("messages"),
            &json!("send_message"),
            &json!("ok-1"),
            &json!("applied"),
            &Value::Null,
            &Value::Null
        ]
    );
    let id = good["id"].as_i64().unwrap();
    assert_eq!(root.data_json(&format!("done/family/{id}.json")), command);
    let shown = root.json(&["ipc", "show", &id.to_string()]);
    assert_eq!(shown["command"], command.to_string());
    assert_eq!(shown["reply"], root.reply("family", "ok-1"));
    assert_eq!(root.data_json(&format!("done/family/{id}.reply.json")), shown["reply"]);
    assert!(!root.data(&format!("done/family/{id}.why.json")).exists());

    // Whether its writer waits for the reply or not, it is kept for people.
    let plain = json!({"type": "send_message", "chatJid": "local:family", "text": "plain"});
    root.put_command("family", "messages", "plain.json", &plain);
    let id = root.settled_file("family", "plain.json")["id"].as_i64().unwrap();
    let kept = wait_for("the reply", || {
        root.data(&format!("done/family/{id}.reply.json"))
            .exists()
            .then(|| root.data_json(&format!("done/family/{id}.reply.json")))
    });
    assert_eq!(kept["ok"], true);

    root.put_command(
        "family",
        "tasks",
        "bad.json",
        &json!({"type": "send_message", "chatJid": "local:main", "text": "hi"}),
    );
    let bad = root.settled_file("family", "bad.json");
    assert_eq!((&bad["state"], &bad["code"]), (&json!("refused"), &json!("not_authorized")));
    let id = bad["id"].as_i64().unwrap();
    let why = root.data_json(&format!("done/family/{id}.why.json"));
    assert_eq!(names(&why), ["at", "box", "code", "hint", "message", "name", "receipt"]);
    assert_eq!(why["receipt"], id);
    assert_eq!(
        [&why["code"], &why["message"], &why["box"], &why["name"]],
        [&json!("not_authorized"), &bad["reason"], &json!("tasks"), &json!("bad.json")]
    );
    let shown = root.json(&["ipc", "show", &id.to_string()]);
    assert_eq!((&shown["hint"], &shown["reply"]["error"]["message"]), (&why["hint"], &why["message"]));
    assert!(root.run(&["ipc", "show", "999999"]).status.code() == Some(1));
    // Nothing is left in the boxes or in `claimed/`.
    wait_for("claimed/ to be empty", || {
        (fs::read_dir(root.data("claimed")).unwrap().count() == 0).then_some(())
    });
}
