//! A held command is not claimed until it is released.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

fn say(text: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:main", "text": text})
}

fn states(root: &Root) -> Vec<String> {
    let rows = root.rows(&["ipc", "list"]);
    let mut states: Vec<_> = rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect();
    states.sort();
    states
}

#[test]
fn a_held_groups_commands_wait_across_a_restart_until_they_are_released_and_others_go_on() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let daemon = root.serve();
    root.g2(&["ipc", "hold", "main", "--reason", "maintenance"]);
    root.put_command("main", "messages", "a.json", &say("a"));
    root.put_command("family", "tasks", "b.json", &json!({"type": "list_tasks", "requestId": "r"}));
    assert_eq!(root.reply("family", "r")["ok"], true);
    let row = &root.rows(&["ipc", "list", "--state", "held"])[0];
    assert_eq!(
        (&row["id"], &row["box"], &row["type"]),
        (&Value::Null, &json!("messages"), &json!("send_message"))
    );
    assert_eq!(root.json(&["status"])["held"], json!(["main"]));
    assert_eq!(root.json(&["status"])["state"], "healthy");
    let doctor = root.rows(&["doctor"]);
    let told = doctor.iter().find(|row| row["check"] == "holds").unwrap();
    assert!(told["status"] == "warn" && told["detail"].as_str().unwrap().contains("maintenance"), "{told}");
    let story = root.json(&["ipc", "trace", "a.json"]);
    assert!(story["answer"].as_str().unwrap().contains("g2 ipc release main"), "{story}");
    daemon.terminate();
    assert_eq!(root.json(&["status"])["held"], json!(["main"]));

    let _daemon = root.serve();
    root.put_command("main", "messages", "b.json", &say("b"));
    root.put_command("family", "tasks", "c.json", &json!({"type": "list_tasks", "requestId": "r2"}));
    root.reply("family", "r2");
    assert_eq!(root.rows(&["ipc", "list", "--state", "held"]).len(), 2);
    root.g2(&["ipc", "release", "main"]);
    wait_for("both to be said, in their order", || (root.said("local:main") == ["a", "b"]).then_some(()));
    assert_eq!(root.run(&["ipc", "release", "main"]).status.code(), Some(1));
}

#[test]
fn one_file_is_held_and_the_others_of_its_box_are_not() {
    let root = Root::new("");
    root.serve().terminate();
    root.put_command("main", "messages", "two\nlines\\.json", &say("held"));
    root.put_command("main", "messages", "b.json", &say("goes"));
    root.g2(&["ipc", "hold", "main/messages/two\\nlines\\\\.json"]);
    assert_eq!(states(&root), ["held", "waiting"]);
    let daemon = root.serve();
    wait_for("the other to be said", || (root.said("local:main") == ["goes"]).then_some(()));
    assert_eq!(states(&root), ["applied", "held"]);
    daemon.terminate();
    let _daemon = root.serve();
    root.g2(&["ipc", "release", "two\\nlines\\\\.json"]);
    wait_for("it to be said", || (root.said("local:main").len() == 2).then_some(()));
}

#[test]
fn a_claimed_settled_or_unknown_command_cannot_be_held() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.put_command("main", "messages", "a.json", &say("a"));
    let id = root.settled_file("main", "a.json")["id"].to_string();
    for what in [id.as_str(), "a.json", "nothing.json"] {
        assert_eq!(root.run(&["ipc", "hold", what]).status.code(), Some(1), "{what}");
    }
    assert_eq!(root.json(&["status"])["held"], json!([]));
}

#[test]
fn a_group_whose_commands_are_held_is_not_removed_over_them() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    root.g2(&["ipc", "hold", "family"]);
    root.put_command("family", "tasks", "a.json", &json!({"type": "list_tasks"}));
    let refused = root.run(&["groups", "remove", "family", "--yes"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("g2 ipc release family"), "{refused:?}");
    root.g2(&["ipc", "drop", "a.json"]);
    root.g2(&["groups", "remove", "family", "--yes"]);
    assert_eq!(root.json(&["status"])["held"], json!([]));
}
