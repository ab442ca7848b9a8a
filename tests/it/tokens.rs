//! A run's token: its commands are known by it, it is good for nothing else, and it ends with its run.
#![expect(clippy::disallowed_methods, reason = "tests look at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

/// A root of two groups. Asked for anything, the agent of `main` says it by a command, and leaves.
fn root(toml: &str) -> Root {
    let root = Root::new(toml);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let command = json!({"type": "send_message", "chatJid": "{{chat_jid}}", "text": "by command: {{text}}"});
    let steps = json!([{"command": {"box": "messages", "json": command}}, {"say": "done"}, {"exit": 0}]);
    root.script(None, &json!([{"when": {}, "do": steps}]));
    root
}

/// Waits until the run that was asked for is over. It leaves in the middle of its turn, which is no success.
fn run_ended(root: &Root) {
    wait_for("the run to end", || {
        let runs = root.rows(&["runs", "list"]);
        (!runs.is_empty() && runs.iter().all(|run| run["status"] == "failed")).then_some(())
    });
}

/// Has the agent write a command; returns its row and its bytes.
fn written_by_a_run(root: &Root) -> (Value, Vec<u8>) {
    root.send("local:main", "hello");
    let row = wait_for("the agent's command to be settled", || {
        root.rows(&["ipc", "list", "--group", "main"]).into_iter().find(|row| row["state"] == "applied")
    });
    run_ended(root);
    let bytes = fs::read(root.data(&format!("done/main/{}.json", row["id"]))).unwrap();
    (row, bytes)
}

fn refused(root: &Root, group: &str, name: &str, bytes: &[u8]) -> String {
    root.put_bytes(group, "tasks", name, bytes);
    let row = root.settled_file(group, name);
    assert_eq!((&row["state"], &row["code"]), (&json!("refused"), &json!("not_authorized")), "{name}: {row}");
    row["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_runs_commands_are_known_by_its_token_which_is_written_down_nowhere() {
    let root = root("");
    let daemon = root.serve();
    let (row, bytes) = written_by_a_run(&root);
    let command: Value = serde_json::from_slice(&bytes).unwrap();
    let story = root.json(&["ipc", "trace", &row["id"].to_string()]);
    assert_eq!((&story["run"], &story["run_by"]), (&json!(1), &json!("token")), "{story}");
    assert!(story["token_id"].as_str().unwrap().starts_with("1-"), "{story}");
    assert!(root.g2(&["ipc", "trace", &row["id"].to_string()]).contains("1 failed, by its token"));
    let why = root.why(1);
    assert_eq!(
        (&why["commands"][0]["id"], &why["commands"][0]["run_by"]),
        (&row["id"], &json!("token")),
        "{why}"
    );
    // What is kept of the launch and of the log names no token, and what is in the file is not the token itself.
    let token = command["token"].as_str().unwrap();
    let claims = token.split('.').next().unwrap();
    let launch = fs::read_to_string(root.data("runs/1/launch.json")).unwrap();
    assert!(!launch.contains("token") && !launch.contains(claims), "{launch}");
    assert!(!root.log().contains(claims));
    let key = fs::read(root.data("token.key")).unwrap();
    assert_eq!(key.len(), 32);
    assert_eq!(fs::metadata(root.data("token.key")).unwrap().permissions().mode() & 0o777, 0o600);
    daemon.terminate();
    let _daemon = root.serve();
    assert_eq!(fs::read(root.data("token.key")).unwrap(), key);
}

#[test]
fn a_token_is_good_for_its_group_its_command_and_its_run_alone() {
    let root = root("");
    let _daemon = root.serve();
    let (_, bytes) = written_by_a_run(&root);
    assert!(refused(&root, "family", "stolen.json", &bytes).contains("of group main"));
    assert!(refused(&root, "main", "late.json", &bytes).contains("has ended"));
    let mut command: Value = serde_json::from_slice(&bytes).unwrap();
    command["text"] = "something else".into();
    assert!(
        refused(&root, "main", "other.json", command.to_string().as_bytes()).contains("not of this command")
    );
    command["token"] = "nonsense".into();
    assert!(refused(&root, "main", "nonsense.json", command.to_string().as_bytes()).contains("no token"));
    assert!(root.log().contains("a command was not authorized"));
    // A person may vouch for one: that its run is over does not count then, whose it is does.
    let late = root.settled_file("main", "late.json")["id"].to_string();
    assert_eq!(root.json(&["ipc", "retry", &late])["state"], "applied");
    assert_eq!(root.json(&["ipc", "retry", "stolen.json"])["state"], "refused");
    // Without any token the box says whose it is.
    command.as_object_mut().unwrap().remove("token");
    root.put_command("main", "messages", "plain.json", &command);
    assert_eq!(root.settled_file("main", "plain.json")["state"], "applied");
    let story = root.json(&["ipc", "trace", "plain.json"]);
    assert_eq!((&story["run_by"], &story["token_id"]), (&Value::Null, &Value::Null));
}

#[test]
fn where_a_token_is_required_only_a_runs_own_commands_count() {
    let root = root("[ipc]\nrequire_token = true\n");
    let _daemon = root.serve();
    written_by_a_run(&root);
    let plain = json!({"type": "list_tasks", "requestId": "r"});
    assert!(refused(&root, "main", "plain.json", plain.to_string().as_bytes()).contains("require_token"));
    assert_eq!(root.reply("main", "r")["error"]["code"], "not_authorized");
}

#[test]
fn a_command_that_a_run_wrote_before_its_end_counts_even_if_it_was_held() {
    let root = root("");
    let _daemon = root.serve();
    root.g2(&["ipc", "hold", "main"]);
    root.send("local:main", "hello");
    run_ended(&root);
    assert_eq!(root.rows(&["ipc", "list", "--state", "held"]).len(), 1);
    root.g2(&["ipc", "release", "main"]);
    let row = root.settled(1).remove(0);
    assert_eq!(row["state"], "applied", "{row}");
    let story = root.json(&["ipc", "trace", &row["id"].to_string()]);
    assert_eq!(
        (&story["run"], &story["run_by"], &story["run_status"]),
        (&json!(1), &json!("token"), &json!("failed"))
    );
}
