//! Commands and replies.

use std::fs;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::fixture::{Home, Runner, launch};

/// Starts a run that sends one command, waited for at most `timeout_ms`, and says what came of it.
fn asking(home: &Home, timeout_ms: u64, command: &Value) -> Runner {
    let steps = json!([{"command": {"box": "messages", "json": command}}, {"say": "<{{reply}}>"}]);
    let mut document = launch("say \"hi\"", Some(&json!([{"do": steps}])));
    document["limits"]["replyTimeoutMs"] = timeout_ms.into();
    home.launch(&document).ready()
}

#[test]
fn a_command_without_a_request_id_is_written_and_not_waited_for() {
    let home = Home::new();
    let command =
        json!({"type": "send_message", "chatJid": "{{chat_jid}}", "text": "{{text}}", "n": [1, null]});
    let runner = asking(&home, 0, &command);
    runner.says("<>", &["1"]);
    let written = home.command("ipc/messages");
    assert_eq!(
        written,
        json!({"type": "send_message", "chatJid": "local:kitchen", "text": "say \"hi\"", "n": [1, null]})
    );
    assert!(home.names("ipc/messages").is_empty());
}

#[test]
fn either_box_can_be_named_and_the_order_is_kept() {
    let home = Home::new();
    let steps: Vec<Value> = (0..30)
        .map(|n| json!({"command": {"box": "tasks", "json": {"n": n}}}))
        .chain([json!({"say": "all"})])
        .collect();
    let runner = home.launch(&launch("x", Some(&json!([{"do": steps}])))).ready();
    runner.says("all", &["1"]);
    let written: Vec<Value> = (0..30).map(|_| home.command("ipc/tasks")["n"].clone()).collect();
    assert_eq!(written, (0..30).map(Value::from).collect::<Vec<_>>());
}

#[test]
fn the_reply_is_handed_to_the_agent_and_removed() {
    let home = Home::new();
    let runner = asking(&home, 0, &json!({"type": "list_tasks", "requestId": "r-1"}));
    assert_eq!(home.command("ipc/messages")["requestId"], "r-1");
    home.put("ipc/responses/other.json", "not yours");
    home.put("ipc/responses/r-1.json", r#"{"requestId":"r-1","ok":true}"#);
    runner.says(r#"<{"requestId":"r-1","ok":true}>"#, &["1"]);
    assert_eq!(home.names("ipc/responses"), ["other.json"]);
}

#[test]
fn without_a_reply_the_command_may_have_been_applied_and_is_not_sent_again() {
    let home = Home::new();
    // A late reply to an earlier command of the same id is none.
    home.put("ipc/responses/r-1.json", "stale");
    let runner = asking(&home, 30, &json!({"type": "list_tasks", "requestId": "r-1"}));
    let (text, handled) = runner.result();
    let text = text.unwrap();
    assert!(
        text.contains("no reply to r-1 within 30 ms") && text.contains("may have been applied"),
        "{text}"
    );
    assert_eq!(handled, ["1"]);
    assert_eq!(home.names("ipc/messages").len(), 1);
}

#[test]
fn an_id_that_is_a_path_is_passed_on_and_never_opened() {
    let home = Home::new();
    fs::write(home.path("ipc/secret.json"), "secret").unwrap();
    let runner = asking(&home, 0, &json!({"requestId": "../secret"}));
    runner.says("<>", &["1"]);
    assert_eq!(home.command("ipc/messages")["requestId"], "../secret");
    assert!(home.path("ipc/secret.json").exists());
}

#[test]
fn a_reply_that_is_no_file_fails_the_turn_without_blocking() {
    for kind in ["fifo", "link", "huge"] {
        let home = Home::new();
        let runner = asking(&home, 0, &json!({"requestId": "r"}));
        home.command("ipc/messages");
        let reply = home.path("ipc/responses/r.json");
        match kind {
            "fifo" => mknodat(CWD, &reply, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap(),
            "link" => std::os::unix::fs::symlink("/etc/hostname", &reply).unwrap(),
            _ => {
                let file = fs::File::create(home.path("huge")).unwrap();
                file.set_len((16 << 20) + 1).unwrap();
                fs::rename(home.path("huge"), &reply).unwrap();
            }
        }
        let error = runner.error();
        assert!(error.contains("the reply to r failed; the command may have been applied"), "{error}");
        runner.says("<>", &[]);
        assert!(home.names("ipc/responses").is_empty());
    }
}

#[test]
fn a_box_that_is_not_there_fails_the_turn() {
    let home = Home::new();
    fs::remove_dir(home.path("ipc/messages")).unwrap();
    let runner = asking(&home, 0, &json!({"type": "send_message"}));
    assert!(runner.error().contains("writing the command failed"));
}
