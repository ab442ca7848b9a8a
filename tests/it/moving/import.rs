//! What goes in, what stays out, and what becomes of an import that dies.
#![expect(clippy::disallowed_methods, reason = "a test writes an export, and looks at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::ExitStatusExt as _,
    },
    path::Path,
};

use serde_json::{Value, json};

use super::written::{rows, write};
use crate::support::{Root, wait_for};

/// SIGKILL.
const KILLED: i32 = 9;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The rows of an installation with a chat, people, unanswered messages, an overdue task and a session.
fn installation(messages: usize) -> Vec<(&'static str, String)> {
    let at = "2024-05-01T10:00:00.000Z";
    let mut rows = vec![
        (
            "groups",
            json!({"key": "family", "row": "group", "folder": "family", "name": "Family", "trigger": "@Bo", "config": {"timeout": 60_000}, "created_at": at}),
        ),
        (
            "groups",
            json!({"key": "tg:-1", "row": "chat", "jid": "tg:-1", "channel": "telegram", "name": "Us", "kind": "group", "unknown_senders": "strict", "created_at": at}),
        ),
        (
            "groups",
            json!({"key": "w", "row": "wiring", "group": "family", "chat": "tg:-1", "engage_mode": "mention", "sender_scope": "all", "ignored_messages": "accumulate", "created_at": at}),
        ),
        ("people", json!({"key": "tg:7", "row": "user", "id": "tg:7", "name": "Ada", "created_at": at})),
        (
            "people",
            json!({"key": "r", "row": "role", "user": "tg:7", "role": "owner", "granted_by": "v1", "granted_at": at}),
        ),
        (
            "people",
            json!({"key": "m", "row": "member", "user": "tg:7", "group": "family", "added_by": "v1", "added_at": at}),
        ),
        (
            "sessions",
            json!({"key": "l", "row": "lane", "group": "family", "chat": "tg:-1", "session": "0a1b-session"}),
        ),
        (
            "tasks",
            json!({"key": "t", "row": "task", "id": "t", "group": "family", "chat": "tg:-1", "prompt": "weather", "schedule_type": "cron", "schedule_value": "0 9 * * *", "context_mode": "group", "catch_up": "latest", "output": "chat", "status": "active", "origin": "asked", "next_run": at, "created_at": at}),
        ),
    ];
    for n in 0..messages {
        let fate = if n + 2 < messages { "answered" } else { "waits" };
        rows.push((
            "messages",
            json!({"key": n.to_string(), "row": "message", "chat": "tg:-1", "replay_key": n.to_string(), "id": n.to_string(), "sender": "8", "sender_name": "Eve",
                   "text": format!("@Bo {n}"), "at": at, "received_at": at, "heard": [{"group": "family", "fate": fate}]}),
        ));
    }
    rows.into_iter().map(|(part, row)| (part, row.to_string())).collect()
}

fn imported(root: &Root, folder: &Path, more: &[&str]) -> Value {
    root.json(&[&["import", "export", text(folder)], more].concat())
}

/// What an export of a root says now.
fn state(root: &Root) -> Vec<Value> {
    let out = tempfile::tempdir().unwrap();
    root.g2(&["export", text(&out.path().join("x"))]);
    rows(&out.path().join("x"))
}

#[test]
fn history_raises_nothing_and_what_was_unanswered_is_asked_about_once() {
    let (root, source) = (Root::new(""), tempfile::tempdir().unwrap());
    write(source.path(), "one", &installation(30));
    let files = source.path().join("files/groups/family");
    fs::create_dir_all(files.join("notes")).unwrap();
    fs::write(files.join("CLAUDE.md"), "Be kind.").unwrap();
    fs::write(files.join("notes/a.txt"), "a").unwrap();
    fs::write(source.path().join("secret"), "hush").unwrap();
    symlink(source.path().join("secret"), files.join("led-out")).unwrap();
    // Names that are in the way of copies, and one that is as long as any.
    fs::write(files.join(".g2-moving"), "x").unwrap();
    fs::write(files.join("n".repeat(255)), "long").unwrap();
    let answer = imported(&root, source.path(), &[]);
    assert_eq!(answer["new"]["message"], 30, "{answer}");
    assert_eq!(answer["held_back"]["messages"], 2, "{answer}");
    let findings = answer["findings"]["kept"].to_string();
    assert!(findings.contains("led-out") && findings.contains("it is a link"), "{findings}");
    assert!(
        findings.contains(".g2-moving") && !root.path().join("groups/family/.g2-moving").exists(),
        "{findings}"
    );
    assert!(findings.contains("are passed over; it runs next at"), "{findings}");
    let group = root.path().join("groups/family");
    assert_eq!(fs::read_to_string(group.join("CLAUDE.md")).unwrap(), "Be kind.");
    assert_eq!(fs::read_to_string(group.join("notes/a.txt")).unwrap(), "a");
    assert!(!group.join("led-out").exists() && group.join("led-out").symlink_metadata().is_err());

    let _daemon = root.serve();
    // An agent that history wakes runs before this answer.
    root.ask("local:main", "hello");
    let runs = root.rows(&["runs", "list"]);
    assert!(runs.iter().all(|run| run["group"] == "main"), "{runs:?}");
    assert!(root.rows(&["approvals", "list", "--all"]).is_empty());
    assert!(root.said("tg:-1").is_empty());
    // A daemon with a problem is degraded.
    let status = String::from_utf8(root.run(&["status"]).stdout).unwrap();
    assert_eq!(status.matches("2 messages that were unanswered").count(), 1, "{status}");
    let why = root.rows(&["restored", "list"]);
    assert_eq!(why.len(), 2, "{why:?}");
}

/// The path to an export may have links, and none in the export leads anywhere.
#[test]
fn links_in_an_export_lead_nowhere() {
    let (root, out) = (Root::new(""), tempfile::tempdir().unwrap());
    let (source, shown, secret) =
        (out.path().join("export"), out.path().join("shown"), out.path().join("secret"));
    let at = "2024-05-01T10:00:00.000Z";
    let mut rows = installation(1);
    rows.push((
        "messages",
        json!({"key": "f", "row": "message", "chat": "tg:-1", "replay_key": "f", "id": "f", "sender": "8", "sender_name": "Eve", "text": "see", "at": at,
               "received_at": at, "files": [{"name": "id", "kind": "document", "type": "text/plain", "size": 4, "path": "id_ed25519"}]}).to_string(),
    ));
    write(&source, "linked", &rows);
    symlink(&source, &shown).unwrap();
    fs::create_dir_all(secret.join("groups/family")).unwrap();
    fs::write(secret.join("id_ed25519"), "hush").unwrap();
    fs::write(secret.join("groups/family/notes.txt"), "hush").unwrap();
    fs::create_dir(source.join("files")).unwrap();
    symlink(&secret, source.join("files/media")).unwrap();
    let answer = imported(&root, &shown, &[]);
    assert_eq!((&answer["new"]["message"], &answer["files"]["files"]), (&json!(2), &json!(0)), "{answer}");
    assert!(answer["findings"]["kept"].to_string().contains("f: id_ed25519"), "{answer}");

    fs::remove_dir_all(source.join("files")).unwrap();
    symlink(&secret, source.join("files")).unwrap();
    let answer = imported(&root, &shown, &[]);
    assert_eq!(answer["files"]["files"], 0, "{answer}");
    assert!(!root.path().join("groups/family/notes.txt").exists());
}

#[test]
fn the_same_import_again_changes_nothing_and_what_is_here_stays() {
    let (root, source) = (Root::new(""), tempfile::tempdir().unwrap());
    write(source.path(), "one", &installation(5));
    imported(&root, source.path(), &[]);
    let before = state(&root);
    let answer = imported(&root, source.path(), &[]);
    assert_eq!(answer["new"], json!({}), "{answer}");
    assert_eq!(state(&root), before);
    // What a person has changed or removed since is not brought back.
    root.g2(&["groups", "set", "family", "name=We"]);
    root.g2(&["tasks", "cancel", "t"]);
    imported(&root, source.path(), &[]);
    assert!(root.rows(&["tasks", "list"]).is_empty());
    let groups = root.rows(&["groups", "list"]);
    assert!(groups.iter().any(|group| group["name"] == "We"), "{groups:?}");
}

#[test]
fn an_import_that_is_killed_at_any_step_goes_on() {
    let source = tempfile::tempdir().unwrap();
    write(source.path(), "one", &installation(2500));
    let files = source.path().join("files/groups/family");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("CLAUDE.md"), "Be kind.").unwrap();
    let whole = Root::new("");
    imported(&whole, source.path(), &[]);
    for point in [
        "moving.taken",
        "moving.taken:3",
        "moving.batch",
        "moving.batch:2",
        "moving.copied",
        "moving.copied:2",
    ] {
        let root = Root::new("");
        let mut command = root.command(&["import", "export", text(source.path())]);
        let died = command.env("G2_FAILPOINT", point).output().unwrap();
        assert_eq!(died.status.signal(), Some(KILLED), "{point}: {died:?}");
        root.g2(&["import", "export", text(source.path())]);
        let comparable = |root: &Root| {
            let mut rows = state(root);
            // Two roots are made at two times.
            rows.retain(|row| !row.to_string().contains("local:m"));
            rows
        };
        let without_main = |rows: Vec<Value>| -> Vec<Value> {
            rows.into_iter().filter(|row| row["folder"] != "main").collect()
        };
        assert_eq!(without_main(comparable(&root)), without_main(comparable(&whole)), "{point}");
        let memory = fs::read_to_string(root.path().join("groups/family/CLAUDE.md")).unwrap();
        assert_eq!(memory, "Be kind.", "{point}");
    }
}

#[test]
fn a_dry_run_writes_nothing_beside_a_daemon_and_an_import_needs_it_down() {
    let (root, source) = (Root::new(""), tempfile::tempdir().unwrap());
    write(source.path(), "one", &installation(5));
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    // Those of the run that ends meanwhile are left out.
    let state = |root: &Root| -> Vec<Value> {
        let rows = state(root).into_iter();
        rows.filter(|row| !["run", "text", "lane", "usage"].contains(&row["row"].as_str().unwrap())).collect()
    };
    let before = state(&root);
    let dry = imported(&root, source.path(), &["--dry-run"]);
    assert_eq!((&dry["new"]["message"], &dry["new"]["group"]), (&json!(5), &json!(1)), "{dry}");
    assert_eq!(state(&root), before);
    assert!(!root.path().join("groups/family").exists());
    let left = fs::read_dir(root.data("tmp")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with("dry-run")));
    let refused = root.run(&["import", "export", text(source.path())]);
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("the daemon is up") && told.contains("g2 stop"), "{told}");
    assert_eq!(state(&root), before);
}

#[test]
fn rows_that_are_none_are_told_by_their_line_and_the_rest_is_taken() {
    let (root, source) = (Root::new(""), tempfile::tempdir().unwrap());
    let mut rows = installation(3);
    let at = "2024-05-01T10:00:00.000Z";
    rows.extend([
        ("groups", "{".to_owned()),
        ("groups", json!({"key": "out", "row": "group", "folder": "../out", "name": "x", "trigger": "@x", "created_at": at}).to_string()),
        ("groups", json!({"key": "t", "row": "task"}).to_string()),
        ("people", json!({"key": "", "row": "user", "id": "tg:1", "name": "x", "created_at": at}).to_string()),
        ("people", json!({"key": "u", "row": "user", "id": "nobody", "name": "x", "created_at": at}).to_string()),
        ("people", json!({"key": "mm", "row": "member", "user": "tg:none", "group": "family", "added_by": "x", "added_at": at}).to_string()),
        ("messages", r#"{"key":"s","row":"message","chat":"tg:-1","replay_key":"s","id":"s","sender":"8","sender_name":"\ud800","text":"","received_at":"2024-05-01T10:00:00Z"}"#.to_owned()),
        ("messages", json!({"key": "y", "row": "message", "chat": "", "replay_key": "y", "id": "y", "sender": "8", "sender_name": "x", "text": "", "received_at": at}).to_string()),
        ("messages", "x".repeat(5 << 20)),
        ("messages", json!({"key": "z", "row": "message", "chat": "tg:-1", "replay_key": "z", "id": "z", "sender": "8", "sender_name": "x", "text": "last", "received_at": at,
            "files": [{"name": "a", "kind": "image", "type": "image/png", "size": 3, "path": "../../../etc/passwd"}]}).to_string()),
        ("sessions", json!({"key": "l2", "row": "lane", "group": "family", "chat": "tg:-1", "thread": "x", "session": "../../x"}).to_string()),
    ]);
    write(source.path(), "one", &rows);
    fs::create_dir_all(source.path().join("files/media")).unwrap();
    let answer = imported(&root, source.path(), &[]);
    assert_eq!(answer["new"]["message"], 4, "{answer}");
    let findings = answer["findings"]["kept"].as_array().unwrap();
    let has = |kind: &str, key: &str| {
        findings.iter().any(|found| found["kind"] == kind && found["key"].as_str().unwrap().contains(key))
    };
    for (kind, key) in [
        ("source", "groups.jsonl line 4"),
        ("source", "groups.jsonl line 5"),
        ("source", "groups.jsonl line 6"),
        ("user", ""),
        ("user", "u"),
        ("member", "mm"),
        ("source", "messages.jsonl line 4"),
        ("message", "y"),
        ("source", "messages.jsonl line 6"),
        ("file", "etc/passwd"),
        ("lane", "l2"),
    ] {
        assert!(has(kind, key), "{kind} {key}: {findings:#?}");
    }
    let last = root.rows(&["messages", "list", "--chat", "tg:-1"]);
    let problem = &last.iter().find(|row| row["text"] == "last").unwrap()["attachments"][0]["problem"];
    assert_eq!(*problem, "it is not there, or a link");
    // What is none of an export is refused in a sentence.
    let none = tempfile::tempdir().unwrap();
    let refused = root.run(&["import", "export", text(none.path())]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is no export"), "{refused:?}");
}

#[test]
fn an_export_is_for_its_owner_names_secrets_and_takes_no_folder_with_something_in_it() {
    let root = Root::new("[limits]\nkeep_days = 77\n");
    fs::write(root.path().join(".env"), "ANTHROPIC_API_KEY=sk-hush-hush\n").unwrap();
    let daemon = root.serve();
    root.ask("local:main", "hello");
    fs::write(root.path().join("groups/main/notes.txt"), "n").unwrap();
    symlink("/etc/passwd", root.path().join("groups/main/led-out")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("x");
    let told = root.g2(&["export", text(&folder)]);
    assert!(told.contains("ANTHROPIC_API_KEY") && told.contains("led-out"), "{told}");
    assert_eq!(daemon.terminate(), Some(0));
    let mut waiting = vec![folder.clone()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let meta = path.symlink_metadata().unwrap();
        assert_eq!(meta.permissions().mode() & 0o077, 0, "{}", path.display());
        assert!(!meta.is_symlink(), "{}", path.display());
        if meta.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            seen += 1;
            assert!(
                !fs::read(&path).unwrap().windows(9).any(|bytes| bytes == b"hush-hush"),
                "{}",
                path.display()
            );
        }
    }
    assert!(seen > 10, "{seen}");
    assert_eq!(fs::read_to_string(folder.join("files/groups/main/notes.txt")).unwrap(), "n");
    let again = root.run(&["export", text(&folder)]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("not empty"), "{again:?}");
    // Every line fits the schema that lies beside it.
    let schema: Value = serde_json::from_slice(&fs::read(folder.join("rows.schema.json")).unwrap()).unwrap();
    assert!(schema["$defs"].as_object().unwrap().len() > 20, "{schema}");
}

#[test]
fn a_root_that_was_lived_in_comes_out_as_it_went_in() {
    let root = Root::new("[limits]\nkeep_days = 77\n");
    root.g2(&["groups", "add", "family", "--chat", "tg:-100", "--name", "Us"]);
    root.g2(&["users", "add", "tg:7", "--name", "Ada"]);
    root.g2(&["members", "add", "--group", "family", "tg:7"]);
    root.g2(&["tasks", "add", "--group", "family", "--cron", "0 9 * * *", "say good morning"]);
    let daemon = root.serve();
    root.ask("local:main", "hello");
    root.ask("local:main", "again");
    assert_eq!(daemon.terminate(), Some(0));
    root.g2(&["sessions", "archive", "main", "kept"]);
    root.g2(&["ipc", "hold", "family", "--reason", "it is odd"]);
    fs::write(root.path().join("groups/family/notes.txt"), "n").unwrap();
    fs::write(root.path().join("groups/main/CLAUDE.md"), "Mine.").unwrap();
    root.g2(&["groups", "edit", "main", "--file", text(&root.path().join("groups/family/notes.txt"))]);
    for folder in ["groups/_template", "container/skills/cook"] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    fs::write(root.path().join("groups/_template/style.md"), "short").unwrap();
    fs::write(root.path().join("container/skills/cook/SKILL.md"), "salt").unwrap();
    let out = tempfile::tempdir().unwrap();
    let (one, two) = (out.path().join("one"), out.path().join("two"));
    root.g2(&["export", text(&one)]);

    let other = Root::new("");
    fs::remove_file(other.path().join("g2.toml")).unwrap();
    let answer = imported(&other, &one, &[]);
    other.g2(&["export", text(&two)]);
    let (before, after) = (rows(&one), rows(&two));
    let mut kinds: Vec<&str> = before.iter().map(|row| row["row"].as_str().unwrap()).collect();
    kinds.dedup();
    for kind in [
        "setting", "group", "chat", "wiring", "user", "role", "member", "run", "message", "text", "lane",
        "archive", "task",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let held = after.iter().filter(|row| row["held"]["reason"] == "it is odd");
    assert_eq!(held.map(|row| row["folder"].as_str().unwrap()).collect::<Vec<_>>(), ["family"]);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after, "{answer}");
    }
    assert_eq!(before.len(), after.len());
    let read = |root: &Root, path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    for path in [
        "groups/family/notes.txt",
        "groups/main/CLAUDE.md",
        "groups/_template/style.md",
        "container/skills/cook/SKILL.md",
    ] {
        assert_eq!(read(&other, path), read(&root, path), "{path}");
    }
    assert_eq!(other.g2(&["groups", "history", "main", "--show", "1"]), "Mine.");
    let mode = fs::metadata(other.data("memories/main")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    // The conversation goes on there.
    let _daemon = other.serve();
    other.ask("local:main", "still there?");
    wait_for("an answer", || (!other.said("local:main").is_empty()).then_some(()));
}

#[test]
fn an_export_goes_into_another_root_alone_and_a_root_that_nobody_served_has_one_name() {
    let (root, out) = (Root::new(""), tempfile::tempdir().unwrap());
    let exports = ["one", "two"].map(|name| out.path().join(name));
    for export in &exports {
        root.g2(&["export", text(export)]);
    }
    for more in [&["--dry-run"][..], &[]] {
        let refused = root.run(&[&["import", "export", text(&exports[0])], more].concat());
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && told.contains("is of this root"), "{told}");
    }
    let other = Root::new("");
    imported(&other, &exports[0], &[]);
    let again = imported(&other, &exports[1], &[]);
    assert_eq!(again["new"], json!({}), "{again}");
    // A copy of a root is the root that it was, too.
    fs::write(other.path().join("note"), "").unwrap();
    let export = out.path().join("three");
    other.g2(&["export", text(&export)]);
    let data = other.data("");
    fs::rename(&data, other.path().join("moved")).unwrap();
    super::samples::copy(&other.path().join("moved"), &data);
    let refused = other.run(&["import", "export", text(&export)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is of this root"), "{refused:?}");
}

/// A conversation that went on in the root that was exported goes on from its end, with its transcript.
#[test]
fn a_later_export_brings_the_newer_session_and_its_transcript() {
    let (source, root) = (tempfile::tempdir().unwrap(), Root::new(""));
    let lane = |session: &str| {
        (
            "sessions",
            json!({"key": "l", "row": "lane", "group": "family", "chat": "tg:-1", "session": session})
                .to_string(),
        )
    };
    let rows = |session: &str| {
        let mut rows = installation(1);
        rows.retain(|(part, _)| *part != "sessions");
        rows.push(lane(session));
        rows
    };
    let transcripts = source.path().join("files/agents/family/projects/-workspace-group");
    fs::create_dir_all(&transcripts).unwrap();
    fs::write(transcripts.join("s-1.jsonl"), "1\n").unwrap();
    write(source.path(), "one", &rows("s-1"));
    imported(&root, source.path(), &[]);
    fs::write(transcripts.join("s-1.jsonl"), "1\n2\n").unwrap();
    fs::write(transcripts.join("s-2.jsonl"), "3\n").unwrap();
    write(source.path(), "one", &rows("s-2"));
    imported(&root, source.path(), &[]);
    let here = root.data("sessions/family/.claude/projects/-workspace-group");
    let read = |name: &str| fs::read_to_string(here.join(name)).unwrap();
    assert_eq!((read("s-1.jsonl").as_str(), read("s-2.jsonl").as_str()), ("1\n2\n", "3\n"));
    let lanes = state(&root).into_iter().filter(|row| row["row"] == "lane" && row["group"] == "family");
    assert_eq!(lanes.map(|lane| lane["session"].clone()).collect::<Vec<_>>(), ["s-2"]);
}

/// A template of the user's own stays, and earlier texts come whole or not at all.
#[test]
fn what_all_groups_share_stays_and_earlier_memories_come_after_an_interruption() {
    let (source, root) = (tempfile::tempdir().unwrap(), Root::new(""));
    let files = source.path().join("files");
    for (path, text) in [
        ("groups/_template/CLAUDE.md", "theirs"),
        ("memories/family/1-1-replaced.md", "one"),
        ("memories/family/2-2-replaced.md", "two"),
        ("memories/global/1-1-replaced.md", "all"),
    ] {
        let path = files.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut rows = installation(1);
    // As an older version wrote it.
    let list = json!({"default": {"allow": ["8"], "mode": "drop"}, "chats": {}});
    rows.push((
        "settings",
        json!({"key": "sender-allowlist", "row": "list", "name": "sender-allowlist", "content": list})
            .to_string(),
    ));
    write(source.path(), "one", &rows);
    fs::create_dir_all(root.path().join("groups/_template")).unwrap();
    fs::write(root.path().join("groups/_template/CLAUDE.md"), "mine").unwrap();
    let mut first = root.command(&["import", "export", text(source.path())]);
    let died = first.env("HOME", source.path()).env("G2_FAILPOINT", "moving.copied:5").output().unwrap();
    assert_eq!(died.status.signal(), Some(KILLED), "{died:?}");
    // As if it had died in the midst of them.
    let memories = root.data("memories/family");
    if memories.exists() {
        fs::remove_file(memories.join("2-2-replaced.md")).unwrap();
        let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
        store.execute("DELETE FROM imported WHERE key = 'data/memories/family'", []).unwrap();
    }
    let again = root.command(&["import", "export", text(source.path())]).env("HOME", source.path()).output();
    assert!(again.unwrap().status.success());
    let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    assert_eq!(read("groups/_template/CLAUDE.md"), "mine");
    assert_eq!(read("groups/_template/CLAUDE.md.imported"), "theirs");
    for (path, text) in [("family/1-1", "one"), ("family/2-2", "two"), ("global/1-1", "all")] {
        assert_eq!(read(&format!("data/memories/{path}-replaced.md")), text);
    }
    let lists = fs::read_dir(source.path().join(".config")).unwrap().next().unwrap().unwrap().path();
    assert!(lists.join("sender-allowlist.json").exists());
}

/// Who is heard comes with the people, whatever is left out.
#[test]
fn the_list_of_senders_comes_with_the_people() {
    let (root, source) = (Root::new(""), tempfile::tempdir().unwrap());
    let list = json!({"default": {"allow": ["8"], "mode": "drop"}, "chats": {}});
    let rows = [
        (
            "people",
            json!({"key": "sender-allowlist", "row": "list", "name": "sender-allowlist", "content": list}),
        ),
        (
            "settings",
            json!({"key": "mount-allowlist", "row": "list", "name": "mount-allowlist", "content": {"allowedRoots": []}}),
        ),
    ];
    write(source.path(), "one", &rows.map(|(part, row)| (part, row.to_string())));
    let output = root
        .command(&["import", "export", text(source.path()), "--only", "people", "--json"])
        .env("HOME", source.path())
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["new"], json!({"list": 1}), "{answer}");
    let lists = source.path().join(".config");
    let listed = fs::read_dir(&lists).unwrap().next().unwrap().unwrap().path().join("sender-allowlist.json");
    assert!(fs::read_to_string(&listed).unwrap().contains("\"drop\""));

    // An export of a root that has the list writes it where it is read.
    let again = tempfile::tempdir().unwrap();
    let folder = again.path().join("x");
    let output = root.command(&["export", text(&folder)]).env("HOME", source.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read_to_string(folder.join("rows/people.jsonl")).unwrap().contains("sender-allowlist"));
}

#[test]
fn a_transcript_from_elsewhere_is_the_session_of_a_chat() {
    let (root, elsewhere) = (Root::new(""), tempfile::tempdir().unwrap());
    let file = elsewhere.path().join("0a1b-2c.jsonl");
    fs::write(&file, "{}\n").unwrap();
    let daemon = root.serve();
    root.ask("local:main", "hello");
    let adopt = |file: &Path| root.run(&["sessions", "adopt", "main", text(file), "--chat", "local:main"]);
    assert!(adopt(&file).status.success());
    let live = root.rows(&["sessions", "list", "--state", "live"]);
    assert!(live.iter().any(|session| session["session_id"] == "0a1b-2c"), "{live:?}");
    let copy = root.data("sessions/main/.claude/projects/-workspace-group/0a1b-2c.jsonl");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "{}\n");
    // The same one again changes nothing; another one of its name, a link and another name are refused.
    assert!(adopt(&file).status.success());
    fs::write(&file, "{\"other\": 1}\n").unwrap();
    let link = elsewhere.path().join("3d4e.jsonl");
    symlink("/etc/passwd", &link).unwrap();
    for (file, why) in [
        (file.clone(), "another transcript"),
        (link, "no plain file"),
        (elsewhere.path().join("notes.txt"), "is no transcript"),
    ] {
        let refused = adopt(&file);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && told.contains(why), "{told}");
    }
    assert_eq!(fs::read_to_string(&copy).unwrap(), "{}\n");
    assert_eq!(daemon.terminate(), Some(0));
}
