//! The command line as scripts see it: exit codes, documents, and changes that take effect at once.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, process::Stdio};

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

mod changes;
mod examples;
mod losses;
mod manual;
mod mistakes;
mod named;
mod screens;
mod sends;
mod stories;
mod texts;

fn code(root: &Root, arguments: &[&str]) -> Option<i32> {
    root.run(arguments).status.code()
}

/// What a command that must fail with `code` said on stderr; stdout stays empty.
fn refused(root: &Root, arguments: &[&str], code: i32) -> String {
    let output = root.run(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn has(row: &Value, fields: &[&str]) {
    for field in fields {
        assert!(row.get(field).is_some(), "{field} is missing: {row}");
    }
    for field in row.as_object().unwrap().keys() {
        assert!(field.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{field}");
    }
}

/// RFC 3339 UTC with milliseconds.
fn is_instant(value: &Value) -> bool {
    let pattern = regex::Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$").unwrap();
    value.as_str().is_some_and(|text| pattern.is_match(text))
}

/// A root in which everything has happened once: an answer, a command applied, one refused, one dead, a task.
fn lived_in() -> Root {
    let root = Root::new("");
    let daemon = root.serve();
    root.ask("local:main", "hello");
    let far = json!({"type": "schedule_task", "requestId": "t", "prompt": "later", "schedule_type": "once", "schedule_value": "2099-01-01T09:00:00"});
    root.put_command("main", "tasks", "1.json", &far);
    root.reply("main", "t");
    root.put_command(
        "main",
        "tasks",
        "2.json",
        &json!({"type": "cancel_task", "requestId": "c", "taskId": "none"}),
    );
    root.put_bytes("main", "messages", "3.json", b"{");
    root.settled(3);
    assert_eq!(daemon.terminate(), Some(0));
    root
}

const ROWS: &[(&[&str], &[&str])] = &[
    (&["groups", "list"], &["folder", "name", "is_main", "trigger", "provider", "chats"]),
    (
        &["wirings", "list"],
        &["group", "chat_jid", "engage_mode", "engage_pattern", "sender_scope", "ignored_message_policy"],
    ),
    (
        &["messages", "list"],
        &[
            "seq",
            "id",
            "chat_jid",
            "thread",
            "sender",
            "sender_name",
            "text",
            "at",
            "received_at",
            "from_me",
            "bot",
        ],
    ),
    (
        &["outbox", "list"],
        &[
            "id",
            "chat_jid",
            "thread",
            "text",
            "status",
            "attempts",
            "cause",
            "created_at",
            "sent_at",
            "error",
        ],
    ),
    (&["events"], &["seq", "at", "kind", "group", "chat", "subject"]),
    (
        &["tasks", "list"],
        &[
            "id",
            "group",
            "chat_jid",
            "prompt",
            "schedule_type",
            "schedule_value",
            "context_mode",
            "catch_up",
            "catch_up_window_ms",
            "output",
            "status",
            "next_run",
            "last_run",
            "last_result",
        ],
    ),
    (
        &["runs", "list"],
        &[
            "id",
            "group",
            "lane",
            "kind",
            "source",
            "status",
            "owner",
            "started_at",
            "ended_at",
            "records",
            "error",
        ],
    ),
    (
        &["ipc", "list"],
        &["id", "group", "box", "name", "type", "request_id", "state", "age_ms", "code", "reason"],
    ),
    (&["schedule", "next", "0 9 * * *"], &["local", "utc", "offset", "note"]),
    (&["engage", "explain", "--chat", "local:main", "hi"], &["group", "engages", "rule", "reason"]),
];

#[test]
fn each_list_is_one_array_whose_rows_have_the_promised_fields_with_the_daemon_up_or_down() {
    let root = lived_in();
    let check = || {
        for (command, fields) in ROWS {
            let rows = root.rows(command);
            assert!(!rows.is_empty(), "{command:?}");
            rows.iter().for_each(|row| has(row, fields));
            // `--json` stands before or after the command.
            let after: Vec<&str> = command.iter().copied().chain(["--json"]).collect();
            let after: Value = serde_json::from_str(&root.g2(&after)).unwrap();
            assert_eq!(after.as_array().unwrap().len(), rows.len());
            // People get a line for each row below the line of names.
            assert_eq!(root.g2(command).lines().count(), rows.len() + 1, "{command:?}");
        }
    };
    check();
    let _daemon = root.serve();
    check();
}

#[test]
fn instants_are_utc_with_milliseconds_and_ids_count_from_one() {
    let root = lived_in();
    let row = |command: &[&str]| root.rows(command)[0].clone();
    assert!(is_instant(&row(&["messages", "list"])["received_at"]));
    assert!(is_instant(&row(&["events"])["at"]));
    let shown = root.g2(&["events"]);
    assert!(shown.lines().nth(1).unwrap().contains("T") && shown.contains("Z  "), "{shown}");
    let said = row(&["outbox", "list"]);
    assert!(is_instant(&said["created_at"]) && is_instant(&said["sent_at"]), "{said}");
    assert_eq!((&said["id"], &said["status"]), (&json!(1), &json!("sent")));
    let run = row(&["runs", "list"]);
    assert!(is_instant(&run["started_at"]) && is_instant(&run["ended_at"]), "{run}");
    let task = row(&["tasks", "list"]);
    assert_eq!(task["next_run"], "2099-01-01T09:00:00.000Z");
    assert!(is_instant(&row(&["schedule", "next", "0 9 * * *"])["utc"]));
}

#[test]
fn a_limit_gives_at_most_that_many_rows() {
    let root = lived_in();
    root.g2(&["groups", "add", "second", "--chat", "local:second"]);
    for command in ["groups", "wirings", "messages", "outbox", "tasks", "runs", "ipc"] {
        assert_eq!(root.rows(&[command, "list", "--limit", "1"]).len(), 1, "{command}");
        assert_eq!(root.rows(&[command, "list", "--limit", "0"]).len(), 0, "{command}");
    }
    assert_eq!(root.rows(&["schedule", "next", "* * * * *", "--count", "3"]).len(), 3);
    let whole = root.rows(&["ipc", "list"]).len();
    assert_eq!(whole, 3);
    assert_eq!(root.rows(&["ipc", "list", "--limit", "1"])[0]["state"], "dead");
}

#[test]
fn every_list_is_oldest_first_and_a_limit_gives_the_newest() {
    let root = lived_in();
    for (n, name) in ["zoo", "bar"].into_iter().enumerate() {
        let chat = format!("local:{name}");
        root.g2(&["groups", "add", name, "--chat", &chat]);
        root.g2(&["users", "add", &format!("tg:{}", 9 - n)]);
        root.g2(&["members", "add", "--group", name, &format!("tg:{n}")]);
        root.g2(&["sessions", "archive", "main", name, "--session", &format!("s-{}", 9 - n)]);
    }
    for (list, field, whole) in [
        ("groups", "folder", &["main", "zoo", "bar"][..]),
        ("wirings", "group", &["main", "zoo", "bar"]),
        ("chats", "jid", &["local:main", "local:zoo", "local:bar"]),
        ("users", "id", &["local:me", "tg:9", "tg:0", "tg:8", "tg:1"]),
        ("members", "group", &["zoo", "bar"]),
        ("sessions", "name", &["zoo", "bar", ""]),
    ] {
        let names = |more: &[&str]| -> Vec<String> {
            let rows = root.rows(&[&[list, "list"], more].concat());
            rows.iter().map(|row| row[field].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(&[]), whole, "{list}");
        assert_eq!(names(&["--limit", "1"]), whole[whole.len() - 1..], "{list}");
        assert!(names(&["--limit", "0"]).is_empty(), "{list}");
    }
}

#[test]
fn each_thing_can_be_shown_by_its_id_and_an_unknown_id_is_refused() {
    let root = lived_in();
    has(&root.json(&["groups", "show", "main"]), &["folder", "chats"]);
    let task = root.rows(&["tasks", "list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(root.json(&["tasks", "show", &task])["prompt"], "later");
    assert_eq!(root.json(&["runs", "show", "1"])["id"], 1);
    assert!(root.json(&["runs", "logs", "1"])["log"].as_str().unwrap().contains("OUTPUT_START"));
    assert!(root.g2(&["runs", "logs", "1", "--raw"]).contains("OUTPUT_START"));
    let states: Vec<Value> = root.rows(&["ipc", "list"]).iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["applied", "refused", "dead"]);
    let shown = root.json(&["ipc", "show", "2"]);
    assert_eq!(shown["code"], "not_found");
    assert!(
        shown["command"].as_str().unwrap().contains("cancel_task") && shown["hint"].is_string(),
        "{shown}"
    );
    for missing in [
        &["groups", "show", "none"][..],
        &["groups", "set", "none", "name=x"],
        &["groups", "remove", "none", "--yes"],
        &["wirings", "set", "--group", "none", "--chat", "local:x", "engage=mention"],
        &["wirings", "remove", "--group", "main", "--chat", "local:x"],
        &["tasks", "show", "none"],
        &["tasks", "cancel", "none"],
        &["runs", "show", "99"],
        &["runs", "logs", "99"],
        &["ipc", "show", "99"],
        &["outbox", "retry", "99"],
        &["why", "99"],
    ] {
        assert!(refused(&root, missing, 1).contains("does not exist") || missing[0] == "ipc", "{missing:?}");
    }
}

#[test]
fn mistakes_in_the_arguments_exit_with_2() {
    let root = Root::new("");
    for wrong in [
        &[][..],
        &["nonsense"],
        &["groups"],
        &["groups", "add", "x"],
        &["groups", "add", "x", "--chat", ""],
        &["groups", "set", "main"],
        &["wirings", "add", "--group", "main", "--chat", "local:x", "--engage", "sometimes"],
        &["messages", "list", "--limit", "many"],
        &["why", "first"],
        &["status", "--unknown"],
        &["send"],
        &["send", "--as", "", "hello"],
        &["schedule", "next", "0 9 * * *", "--count", "0"],
        &["schedule", "next", "0 9 * * *", "--count", "10001"],
    ] {
        assert_eq!(code(&root, wrong), Some(2), "{wrong:?}");
    }
    for right in [&["--help"][..], &["--version"], &["groups", "add", "--help"], &["doctor", "--help"]] {
        assert_eq!(code(&root, right), Some(0), "{right:?}");
    }
}

#[test]
fn a_refusal_says_on_stderr_how_to_fix_the_mistake() {
    let root = Root::new("");
    for (arguments, mend) in [
        (&["groups", "add", "main", "--chat", "local:x"][..], "wirings add --group main"),
        (&["groups", "add", "second", "--chat", "local:x", "--main"], "only one"),
        (
            &["groups", "set", "main", "colour=red"],
            "name, trigger, provider, script, image, model, model_fallback, timeout",
        ),
        (&["groups", "set", "main", "trigger"], "KEY=VALUE"),
        (&["groups", "set", "main", "trigger="], "can't be empty"),
        (&["groups", "set", "main", "provider=oracle"], "scripted"),
        (&["groups", "set", "main", "image=a b"], "g2-agent:latest"),
        (&["groups", "set", "main", "timezone=Europe/Pari"], "Europe/Paris"),
        (&["groups", "set", "main", "network=closed"], "allowlist"),
        (&["groups", "set", "main", "credentials=stdin"], "network = \"open\""),
        (&["groups", "set", "main", "timeout=5"], "604800000"),
        (&["groups", "set", "main", "mounts={}"], "hostPath"),
        (
            &["wirings", "add", "--group", "main", "--chat", "local:main", "--engage", "pattern"],
            "wirings set",
        ),
        (
            &["wirings", "add", "--group", "main", "--chat", "tg:1", "--engage", "mention", "--pattern", "x"],
            "--engage pattern",
        ),
        (
            &["wirings", "set", "--group", "main", "--chat", "local:main", "engage=sometimes"],
            "mention-sticky",
        ),
        (&["wirings", "set", "--group", "main", "--chat", "local:main", "colour=red"], "engage, pattern"),
        (&["groups", "add", "blank", "--chat", "local:x", "--name", "\u{3164}"], "not seen"),
        (&["groups", "set", "main", "name=\u{e0041}Main"], "not seen"),
        (&["groups", "set", "main", "trigger=\u{2800}"], "invisible"),
        (&["ipc", "hold", "nobody"], "neither a group nor a command called nobody; `g2 groups list`"),
        (&["ipc", "show", "no\u{1b}[31m\u{202e}"], "no\\u{1b}[31m\\u{202e};"),
        (&["schedule", "next", "every day"], "cron"),
        (&["schedule", "next", "* * * * *", "--tz", "Mars/Base"], "Europe/Paris"),
    ] {
        let said = refused(&root, arguments, 1);
        assert!(said.starts_with("g2: ") && said.contains(mend), "{arguments:?}: {said}");
    }
    assert!(refused(&root, &["groups", "add", "../x", "--chat", "local:x"], 2).contains("letters"));
    // Nothing of a change that is refused in part is done.
    refused(&root, &["groups", "set", "main", "name=Other", "colour=red"], 1);
    assert_eq!(root.json(&["groups", "show", "main"])["name"], "Main");
    let nowhere = root.path().join("nowhere");
    let said = root.run(&["--root", nowhere.to_str().unwrap(), "groups", "list"]);
    assert_eq!(said.status.code(), Some(2), "a flag given twice: {said:?}");
}

#[test]
fn a_root_that_is_not_laid_out_is_refused_with_the_command_that_does() {
    let root = Root::new("");
    let nowhere = root.path().join("nowhere");
    for command in [&["groups", "list"][..], &["why", "1"], &["ipc", "list"], &["tasks", "cancel", "x"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_g2"))
            .args(command)
            .arg("--root")
            .arg(&nowhere)
            .env_clear()
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("init"), "{output:?}");
    }
    assert!(!nowhere.exists());
}

#[test]
fn without_a_daemon_status_says_so_and_commands_that_need_one_exit_with_3() {
    let root = Root::new("");
    let status = root.run(&["status", "--json"]);
    assert_eq!(status.status.code(), Some(3));
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    has(
        &status,
        &[
            "state",
            "instance",
            "pid",
            "version",
            "since",
            "groups",
            "running",
            "waiting",
            "outbox_pending",
            "dead",
            "stale_recoveries_24h",
            "problems",
        ],
    );
    assert_eq!(status["state"], "not running");
    for command in [&["send", "hello"][..], &["send", "--wait", "1", "hello"], &["chat"]] {
        assert!(refused(&root, command, 3).contains("g2 start"), "{command:?}");
    }
    let daemon = root.serve();
    let status = root.json(&["status"]);
    assert_eq!((&status["state"], &status["pid"]), (&json!("healthy"), &json!(daemon.pid())));
    assert!(is_instant(&status["since"]) && status["problems"] == json!([]), "{status}");
    assert_eq!(code(&root, &["status"]), Some(0));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let root = lived_in();
    for command in
        [&["messages", "list"][..], &["--json", "outbox", "list"], &["runs", "logs", "1"], &["doctor"]]
    {
        let mut child = root.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{command:?}");
    }
}

#[test]
fn waiting_for_an_answer_that_does_not_come_exits_with_1() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"say": "so far"}, {"hang": true}]}]));
    let _daemon = root.serve();
    let output = root.run(&["send", "--wait", "1", "hello"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("g2 why 1"), "{output:?}");
    let output = root.run(&["--json", "send", "--wait", "1", "more"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["seq"], &document["rested"]), (&json!(2), &json!(false)));
}

#[test]
fn a_message_goes_to_its_chat_by_its_sender_in_its_thread() {
    let root = Root::new("");
    let _daemon = root.serve();
    let sent = root.json(&["send", "--as", "Ann", "--thread", "t1", "--wait", "60", "hello"]);
    assert_eq!((&sent["seq"], &sent["wired"], &sent["rested"]), (&json!(1), &json!(1), &json!(true)));
    assert_eq!(sent["replies"][0]["text"], "echo: hello");
    assert_eq!(sent["replies"][0]["thread"], "t1");
    let message = root.rows(&["messages", "list"])[0].clone();
    assert_eq!((&message["sender_name"], &message["thread"]), (&json!("Ann"), &json!("t1")));
    assert!(refused(&root, &["messages", "list", "--chat", "local:other"], 1).contains("there is no chat"));
    assert!(refused(&root, &["send", "--chat", "tg:1", "hello"], 1).contains("local:NAME"));
    assert!(refused(&root, &["send", "  "], 1).contains("nothing in this message"));
}
