//! Files that are no commands: each has its outcome, delays nobody, and loses nothing of the others.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "tests write bad files")]
#![expect(clippy::disallowed_types, reason = "a writer of its own")]

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    process::Command,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::commands::two_groups;
use crate::support::{Root, wait_for};

/// Puts a good command of `family` and waits for its reply: faulty files elsewhere do not delay it.
fn good(root: &Root, n: usize) {
    let id = format!("good-{n}");
    root.put_command(
        "family",
        "tasks",
        &format!("{id}.json"),
        &json!({"type": "list_tasks", "requestId": id}),
    );
    assert_eq!(root.reply("family", &id)["ok"], true);
}

/// What a malformed file comes to: a row, the reason, its content in `dead/`.
fn assert_dead(root: &Root, name: &str, code: &str, content: &[u8]) {
    let row = root.settled_file("family", name);
    assert_eq!((&row["state"], &row["code"]), (&json!("dead"), &json!(code)), "{name}: {row}");
    let id = &row["id"];
    let why = root.data_json(&format!("dead/family/{id}.why.json"));
    assert_eq!(
        [&why["code"], &why["name"], &why["box"]],
        [&json!(code), &json!(name), &json!("messages")],
        "{name}"
    );
    assert!(!why["hint"].as_str().unwrap().is_empty(), "{name}: {why}");
    let kept = fs::read(root.data(&format!("dead/family/{id}.json"))).unwrap();
    assert!(kept == content[..content.len().min(65_536)], "{name}: {} bytes are kept", kept.len());
    assert!(!root.data(&format!("done/family/{id}.json")).exists(), "{name}");
}

/// What a refused one comes to.
fn assert_refused(root: &Root, name: &str, code: &str) {
    let row = root.settled_file("family", name);
    assert_eq!((&row["state"], &row["code"]), (&json!("refused"), &json!(code)), "{name}: {row}");
    let why = root.data_json(&format!("done/family/{}.why.json", row["id"]));
    assert_eq!([&why["code"], &why["message"]], [&json!(code), &row["reason"]], "{name}");
}

#[test]
fn an_unreadable_file_goes_to_dead_with_its_reason_and_delays_nobody() {
    let root = two_groups();
    let daemon = root.serve();
    let large = format!(r#"{{"type":"list_tasks","x":"{}"}}"#, "x".repeat(1 << 20)).into_bytes();
    let deep = format!(r#"{{"type":"list_tasks","x":{}{}}}"#, "[".repeat(100), "]".repeat(100)).into_bytes();
    let bad: Vec<(&str, &str, Vec<u8>)> = vec![
        ("unparsable.json", "malformed", b"{\"type\":".to_vec()),
        ("words.json", "malformed", b"list_tasks".to_vec()),
        ("empty.json", "malformed", Vec::new()),
        ("null.json", "malformed", b"null".to_vec()),
        ("array.json", "malformed", b"[{\"type\":\"list_tasks\"}]".to_vec()),
        ("two.json", "malformed", b"{\"type\":\"list_tasks\"}{\"type\":\"list_tasks\"}".to_vec()),
        ("nul.json", "malformed", b"{\"type\":\"list_tasks\"}\0".to_vec()),
        ("zeros.json", "malformed", vec![0; 4096]),
        ("latin1.json", "malformed", b"{\"type\":\"send_message\",\"text\":\"\xe9\"}".to_vec()),
        ("deep.json", "malformed", deep),
        ("large.json", "too_large", large),
    ];
    for (n, (name, _, bytes)) in bad.iter().enumerate() {
        root.put_bytes("family", "messages", name, bytes);
        good(&root, n);
    }
    for (name, code, bytes) in &bad {
        assert_dead(&root, name, code, bytes);
    }
    // A bad file is looked at again for a while; the good one behind it was answered before it was given up.
    let rows = root.rows(&["ipc", "list", "--group", "family"]);
    let age = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["age_ms"].as_i64();
    for (n, (name, code, _)) in bad.iter().enumerate() {
        let behind = format!("good-{n}.json");
        assert!(*code == "too_large" || age(&behind) > age(name), "{name}: {rows:?}");
    }
    assert_eq!(root.json(&["status"])["dead"], bad.len());
    assert!(!daemon.has_ended());
}

#[test]
fn a_wrong_command_is_refused_with_a_code_and_a_hint() {
    let root = two_groups();
    let _daemon = root.serve();
    let say = |field: &str, value: Value| {
        let mut command = json!({"type": "send_message", "chatJid": "local:family", "text": "x"});
        command[field] = value;
        command
    };
    let bad = [
        ("no-type", json!({}), "missing_field"),
        ("unknown", json!({"type": "launch_rocket"}), "unknown_command"),
        ("version", json!({"type": "list_tasks", "schemaVersion": 2}), "unsupported_version"),
        ("type-type", json!({"type": 5}), "invalid_field"),
        ("no-text", say("text", Value::Null), "missing_field"),
        ("text-type", say("text", json!(["x"])), "invalid_field"),
        ("empty-text", say("text", json!("")), "invalid_field"),
        ("chat-type", say("chatJid", json!(7)), "invalid_field"),
        ("request-id", say("requestId", json!("../../x")), "invalid_field"),
        ("foreign-chat", say("chatJid", json!("local:main")), "not_authorized"),
        ("unknown-chat", say("chatJid", json!("local:nowhere")), "not_authorized"),
        (
            "schedule",
            json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron", "schedule_value": "61 * * * *"}),
            "invalid_schedule",
        ),
        ("foreign-session", json!({"type": "clear_session", "targetFolder": "main"}), "not_authorized"),
        (
            "foreign-task",
            json!({"type": "schedule_task", "prompt": "p", "schedule_type": "interval", "schedule_value": 60_000, "targetJid": "local:main"}),
            "not_authorized",
        ),
    ];
    for (name, command, _) in &bad {
        let mut command = command.clone();
        if command.get("requestId").is_none() {
            command["requestId"] = (*name).into();
        }
        root.put_command("family", "messages", &format!("{name}.json"), &command);
    }
    for (name, command, code) in &bad {
        assert_refused(&root, &format!("{name}.json"), code);
        if command.get("requestId").is_none() {
            let reply = root.reply("family", name);
            assert_eq!(
                (&reply["requestId"], &reply["ok"], &reply["error"]["code"]),
                (&json!(name), &json!(false), &json!(code))
            );
            assert!(!reply["error"]["hint"].as_str().unwrap().is_empty(), "{reply}");
        }
    }
    assert!(root.rows(&["outbox", "list"]).is_empty());
    assert!(root.rows(&["tasks", "list"]).is_empty());
    // Main may speak to a chat that nobody knows; that no channel owns it is then told.
    root.put_command(
        "main",
        "messages",
        "x.json",
        &json!({"type": "send_message", "chatJid": "tg:-1", "text": "x", "requestId": "r"}),
    );
    assert_eq!(root.reply("main", "r")["ok"], true);
    let row = wait_for("the delivery to be given up", || {
        root.rows(&["outbox", "list"]).into_iter().find(|row| row["status"] == "failed")
    });
    assert!(row["error"].as_str().unwrap().contains("tg:-1"), "{row}");
}

#[test]
fn of_equal_keys_the_last_counts_and_unknown_fields_say_nothing() {
    let root = two_groups();
    let _daemon = root.serve();
    let bytes = br#"{"type":"list_tasks","type":"send_message","chatJid":"local:main","chatJid":"local:family","text":"a","text":"b",
        "groupFolder":"main","isMain":true,"createdBy":"main","requestId":"r","x":[{}]}"#;
    root.put_bytes("family", "messages", "x.json", bytes);
    assert_eq!(root.reply("family", "r")["ok"], true);
    wait_for("b to be said", || (root.said("local:family") == ["b"]).then_some(()));
}

#[test]
fn a_text_with_control_characters_is_said_as_it_is() {
    let root = Root::new("");
    let _daemon = root.serve();
    let texts = ["\0", "\0tail", "a\0b", "\u{1b}[2J", "\u{feff}x\u{202e}"];
    for (n, text) in texts.iter().enumerate() {
        let id = format!("r{n}");
        let command = json!({"type": "send_message", "chatJid": "local:main", "text": text, "requestId": id});
        root.put_command("main", "messages", &format!("{n}.json"), &command);
        let reply = root.reply("main", &id);
        assert_eq!(reply["ok"], true, "{text:?}: {reply}");
    }
    wait_for("all to be said", || (root.said("local:main").len() == texts.len()).then_some(()));
    assert_eq!(root.said("local:main"), ["\0", "\0tail", "a\0b", "\u{1b}[2J", "x\u{202e}"]);
}

#[test]
fn a_thing_that_is_no_file_is_set_aside_unread_and_a_directory_stays() {
    let root = two_groups();
    let daemon = root.serve();
    let boxed = root.data("ipc/family/messages");
    fs::write(
        root.path().join("secret.json"),
        json!({"type": "send_message", "chatJid": "local:family", "text": "secret"}).to_string(),
    )
    .unwrap();
    symlink(root.path().join("secret.json"), boxed.join("link.json")).unwrap();
    symlink("/dev/zero", boxed.join("zero.json")).unwrap();
    symlink("nowhere", boxed.join("dangling.json")).unwrap();
    mknodat(CWD, boxed.join("fifo.json"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(boxed.join("socket.json")).unwrap();
    fs::create_dir(boxed.join("dir.json")).unwrap();
    fs::write(boxed.join("dir.json/inside.json"), "{}").unwrap();
    good(&root, 1);
    for name in ["link.json", "zero.json", "dangling.json", "fifo.json", "socket.json"] {
        assert_dead(&root, name, "malformed", b"");
        assert!(fs::symlink_metadata(boxed.join(name)).is_err(), "{name}");
    }
    assert!(root.path().join("secret.json").exists());
    assert!(boxed.join("dir.json/inside.json").exists());
    assert!(root.rows(&["outbox", "list"]).is_empty());
    assert!(!daemon.has_ended());
}

#[test]
fn names_may_be_any_bytes() {
    let root = two_groups();
    let _daemon = root.serve();
    let boxed = root.data("ipc/family/messages");
    let names: [(&[u8], &str); 4] = [
        (b"\xff\xfe.json", "\\xff\\xfe.json"),
        (b"two\nlines.json", "two\\nlines.json"),
        (b"-rf *.json", "-rf *.json"),
        (b".json", ".json"),
    ];
    for (bytes, _) in names {
        fs::write(
            boxed.join("tmp"),
            json!({"type": "send_message", "chatJid": "local:family", "text": "x"}).to_string(),
        )
        .unwrap();
        fs::rename(boxed.join("tmp"), boxed.join(OsStr::from_bytes(bytes))).unwrap();
    }
    for (_, shown) in names {
        assert_eq!(root.settled_file("family", shown)["state"], "applied", "{shown}");
    }
    // What does not end in .json is nobody's business.
    fs::write(boxed.join("note.txt"), "x").unwrap();
    fs::write(boxed.join("x.JSON"), "{}").unwrap();
    good(&root, 1);
    assert!(boxed.join("note.txt").exists() && boxed.join("x.JSON").exists());
    assert_eq!(root.said("local:family").len(), 4);
}

#[test]
fn a_file_written_in_place_is_applied_once_it_is_whole() {
    let root = two_groups();
    let _daemon = root.serve();
    let boxed = root.data("ipc/family/messages");
    // By a process of its own: a file of ours would stay open in whatever another test starts meanwhile.
    let writing = r#"n=0; while [ $n -lt 30 ]; do
        echo "{\"type\":\"send_message\",\"chatJid\":\"local:family\",\"text\":\"$n\"}" > $n.json; n=$((n+1)); done"#;
    let written = Command::new("/bin/sh").arg("-c").arg(writing).current_dir(&boxed).status().unwrap();
    assert!(written.success());
    // A writer that takes its time: the file stays open between its halves.
    let whole =
        json!({"type": "send_message", "chatJid": "local:family", "text": "slow", "requestId": "slow"})
            .to_string();
    let (head, tail) = whole.split_at(20);
    let mut slow = File::create(boxed.join("slow.json")).unwrap();
    slow.write_all(head.as_bytes()).unwrap();
    good(&root, 1);
    wait_for("the half file to be claimed", || {
        root.rows(&["ipc", "list", "--state", "claimed"]).into_iter().next()
    });
    good(&root, 2);
    slow.write_all(tail.as_bytes()).unwrap();
    drop(slow);
    assert_eq!(root.reply("family", "slow")["ok"], true);
    wait_for("all to be said", || (root.said("local:family").len() == 31).then_some(()));
    let said = root.said("local:family");
    let expected: Vec<String> = (0..30).map(|n| n.to_string()).chain(["slow".to_owned()]).collect();
    assert_eq!(said, expected);
    assert!(root.rows(&["ipc", "list", "--state", "dead"]).is_empty());
}
