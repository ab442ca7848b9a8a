//! Operations over the socket, and how the command line tells what failed.
#![expect(clippy::disallowed_methods, reason = "a test takes a root away")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Root, Socket};

/// What a command that fails with `code` prints for programs on stderr; stdout stays empty.
fn error(root: &Root, code: i32, arguments: &[&str]) -> Value {
    let output = root.run(&[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let whole: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(whole.as_object().unwrap().len(), 1, "{whole}");
    let error = whole["error"].clone();
    assert!(["code", "message", "hint"].iter().all(|name| error[name].is_string()), "{error}");
    error
}

#[test]
fn a_failure_for_programs_is_one_document_with_a_code_a_message_and_a_hint() {
    let root = Root::new("");
    for (arguments, exit, code, hint) in [
        (&["groups", "add", "main", "--chat", "local:x"][..], 1, "refused", "wirings add --group main"),
        (&["groups", "set", "none", "name=x"], 1, "not_found", ""),
        (&["tasks", "list", "--group", "none"], 1, "not_found", "`g2 groups list` shows all"),
        (&["groups", "remove", "main", "--yes"], 1, "refused", "wirings remove"),
        (&["groups", "remove"], 2, "invalid", "Usage"),
        (&["send", "hi"], 3, "not_running", "g2 start"),
        (&["groups", "add", "BAD!", "--chat", "local:x"], 2, "invalid", "--help"),
        (&["groups", "set", "main", "main"], 1, "invalid", ""),
        (&["tasks", "list", "--group", "BAD!"], 2, "invalid", "--help"),
        (&["chats", "set", "local:main", "policy=foo"], 1, "invalid", ""),
        (&["wirings", "set", "--group", "main", "--chat", "local:main", "engage=foo"], 1, "invalid", ""),
        (&["wirings", "set", "--group", "main", "--chat", "local:main", "foo=x"], 1, "invalid", "pattern"),
        (&["events", "--since", "x"], 1, "invalid", ""),
        (&["usage", "--since", "x"], 1, "invalid", ""),
        (&["schedule", "next", "xx"], 1, "invalid", ""),
        (&["schedule", "next", "0 9 * * *", "--tz", "Mars"], 1, "invalid", "Europe/Paris"),
        (&["ipc", "send", "main", "/nonexist"], 1, "invalid", ""),
        (&["why"], 1, "not_found", ""),
        (&["events", "--follow", "--group", "none"], 1, "not_found", "g2 groups list"),
    ] {
        let error = error(&root, exit, arguments);
        assert_eq!(error["code"], code, "{arguments:?}: {error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{arguments:?}: {error}");
    }
    std::fs::remove_dir_all(root.path()).unwrap();
    let error = error(&root, 1, &["groups", "list"]);
    assert_eq!(error["code"], "invalid", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("init"), "{error}");
}

#[test]
fn a_change_prints_the_row_that_it_made_or_changed() {
    let root = Root::new("");
    let daemon = root.serve();
    let made = root.json(&["groups", "add", "family", "--chat", "local:family"]);
    assert_eq!((&made["folder"], &made["chats"]), (&json!("family"), &json!(["local:family"])));
    let mut shown = root.json(&["groups", "show", "family"]);
    assert!(shown.as_object_mut().unwrap().remove("disk").is_some(), "{shown}");
    assert_eq!(made, shown);
    daemon.terminate();
    let set = root.json(&["wirings", "set", "--group", "family", "--chat", "local:family", "pattern=^hey"]);
    assert_eq!((&set["group"], &set["engage_pattern"]), (&json!("family"), &json!("^hey")));
    let gone = root.json(&["groups", "remove", "family", "--yes"]);
    assert_eq!(gone["folder"], "family");
}

#[test]
fn a_program_is_told_the_mistake_in_its_request() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for asked in [
        json!({"name": "groups.burn", "args": {}}),
        json!({"name": "groups.add"}),
        json!({"name": "groups.add", "args": {"folder": "../x", "chat": "local:x"}}),
        json!({"name": "groups.add", "args": {"folder": "x", "chat": "local:x", "colour": "red"}}),
        json!({"name": "groups.set", "args": {"folder": "main", "settings": {"colour": "red"}}}),
        json!({"name": "chats.set", "args": {"chat": "local:main", "colour": "red"}}),
        json!("groups.add"),
        json!(null),
        json!({"name": "ipc.send", "args": {"group": "main", "command": {"type": "list_tasks", "requestId": "r"}}}),
    ] {
        let told = socket.call(&json!({"op": "op", "do": asked}));
        assert_eq!(
            (&told["is"], &told["error"]["code"]),
            (&json!("op_refused"), &json!("invalid")),
            "{told}"
        );
        assert!(told["error"]["hint"].as_str().unwrap().contains("g2 ops schema"), "{told}");
    }
    let send = json!({"group": "main", "command": {"type": "list_tasks"}});
    let told = socket.call(&json!({"op": "op", "do": {"name": "ipc.send", "args": send}}));
    assert!(told["error"]["message"].as_str().unwrap().contains("as {\"text\": "), "{told}");
    socket.write(b"[]\n");
    let told = socket.hear();
    assert!(told["message"].as_str().unwrap().contains("one JSON object on a line"), "{told}");
    assert_eq!(root.rows(&["groups", "list"]).len(), 1);
}

#[test]
fn changes_that_are_made_at_once_without_a_daemon_wait_for_one_another() {
    let root = Root::new("");
    let running: Vec<_> = (0..8)
        .map(|n| root.command(&["users", "add", &format!("tg:{n}")]).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut one in running {
        assert!(one.wait().unwrap().success());
    }
    assert_eq!(root.rows(&["users", "list"]).len(), 9);
    // A daemon that starts meanwhile waits for them as well.
    let mut change = root.command(&["users", "add", "tg:9"]).stdout(Stdio::null()).spawn().unwrap();
    let _daemon = root.serve();
    assert!(change.wait().unwrap().success());
}

#[test]
fn the_schema_is_one_document_that_describes_every_operation() {
    let root = Root::new("");
    let schema: Value = serde_json::from_str(&root.g2(&["ops", "schema"])).unwrap();
    let operations = schema["operations"].as_object().unwrap();
    assert_eq!(operations.len(), g2::ops::Op::ALL.len());
    for (name, one) in operations {
        assert!(g2::ops::Op::described(name).is_some(), "{name}");
        assert!(one["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}: {one}");
        assert!(one["args"].is_object() && one["row"].is_object(), "{name}: {one}");
    }
}
