//! Looking: nothing that an agent leaves in a box keeps people from seeing the commands.
#![expect(clippy::disallowed_methods, reason = "tests write bad files")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::support::Root;

#[test]
fn names_of_any_bytes_links_and_fifos_are_shown_on_one_line_and_never_opened() {
    let root = Root::new("");
    root.serve().terminate();
    let in_box = root.data("ipc/main/tasks");
    let secret = root.path().join("secret.json");
    fs::write(&secret, json!({"type": "list_tasks", "requestId": "secret"}).to_string()).unwrap();
    symlink(&secret, in_box.join("link.json")).unwrap();
    mknodat(CWD, in_box.join("fifo.json"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::create_dir(in_box.join("folder.json")).unwrap();
    fs::write(in_box.join(OsStr::from_bytes(b"\xff\n\x1b[2J.json")), "{").unwrap();
    let rows = root.rows(&["ipc", "list"]);
    let of = |name: &str| {
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["request_id"].is_null() && row["state"] == "waiting"), "{rows:?}");
    of("link.json");
    of("fifo.json");
    assert!(of("folder.json")["reason"].is_string());
    of("\\xff\\n\\u{1b}[2J.json");
    assert_eq!(root.g2(&["ipc", "list"]).lines().count(), 5);
    assert_eq!(root.json(&["ipc", "show", "fifo.json"])["command"], Value::Null);
    let story = root.json(&["ipc", "trace", "\\xff\\n\\u{1b}[2J.json"]);
    assert!(story["answer"].as_str().unwrap().contains("not running"), "{story}");
    // A link is dropped, not what it leads to.
    assert_eq!(root.json(&["ipc", "drop", "link.json"])["state"], "refused");
    assert!(secret.exists() && fs::symlink_metadata(in_box.join("link.json")).is_err());
    root.g2(&["ipc", "drop", "\\xff\\n\\u{1b}[2J.json"]);
    assert_eq!(root.run(&["ipc", "drop", "folder.json"]).status.code(), Some(1));
    assert_eq!(root.rows(&["ipc", "list", "--state", "waiting"]).len(), 2);
}

#[test]
fn of_a_box_with_very_many_files_the_oldest_are_listed_and_the_rest_is_counted() {
    let root = Root::new("");
    root.serve().terminate();
    let in_box = root.data("ipc/main/messages");
    let first = in_box.join("first.json");
    fs::write(&first, "").unwrap();
    for n in 0..10_500 {
        fs::hard_link(&first, in_box.join(format!("{n}.json"))).unwrap();
    }
    let output = root.run(&["--json", "ipc", "list"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 10_000);
    let told: Value = serde_json::from_slice(&output.stderr).unwrap();
    let told = &told["error"];
    assert_eq!(
        (&told["message"], &told["hint"]),
        (&json!("10501 commands wait"), &json!("the list is cut after the oldest 10000"))
    );
    assert_eq!(output.status.code(), Some(1), "the list is not whole");
    assert_eq!(root.rows(&["ipc", "list", "--limit", "3"]).len(), 3);
    assert!(root.rows(&["ipc", "list", "--state", "applied"]).is_empty());
    assert_eq!(root.run(&["ipc", "list", "--state", "nonsense"]).status.code(), Some(2));
}

#[test]
fn a_group_with_very_many_files_hides_no_other_groups() {
    let root = Root::new("");
    root.g2(&["groups", "add", "evil", "--chat", "local:evil"]);
    root.serve().terminate();
    let first = root.data("ipc/evil/messages/first.json");
    fs::write(&first, "{}").unwrap();
    for n in 0..10_500 {
        fs::hard_link(&first, first.with_file_name(format!("{n}.json"))).unwrap();
    }
    let long = format!("{}.json", "n".repeat(200));
    root.put_command("main", "tasks", "mine.json", &json!({"type": "list_tasks", "requestId": "mine"}));
    root.put_command("main", "tasks", &long, &json!({"type": "list_tasks", "requestId": "long"}));
    let output = root.run(&["--json", "ipc", "list"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 10_000);
    assert!(["mine.json", long.as_str()].iter().all(|name| rows.iter().any(|row| row["name"] == *name)));
    for what in ["main/tasks/mine.json", "main/mine.json", "mine.json", "mine"] {
        assert_eq!(root.json(&["ipc", "show", what])["request_id"], "mine", "{what}");
    }
    assert_eq!(root.json(&["ipc", "trace", "evil/messages/10499.json"])["state"], "waiting");
    root.g2(&["ipc", "hold", "main/tasks/mine.json"]);
    assert_eq!(root.rows(&["ipc", "list", "--group", "main", "--state", "held"]).len(), 1);
    let table = root.g2(&["ipc", "list", "--group", "main"]);
    assert!(table.lines().count() == 3 && table.contains(&long), "one line each, whole in a pipe: {table}");
    assert_eq!(root.json(&["ipc", "drop", "mine"])["state"], "refused");
}

#[test]
fn a_command_is_watched_and_traced_without_a_daemon_and_with_one() {
    let root = Root::new("");
    root.serve().terminate();
    let watched = std::thread::scope(|scope| {
        let watching = scope.spawn(|| root.g2(&["--json", "ipc", "watch", "--count", "1"]));
        let mut n = 0;
        while !watching.is_finished() {
            n += 1;
            root.put_command("main", "tasks", &format!("w{n}.json"), &json!({"type": "list_tasks"}));
        }
        watching.join().unwrap()
    });
    let row: Value = serde_json::from_str(&watched).unwrap();
    assert_eq!((&row["state"], &row["id"]), (&json!("waiting"), &Value::Null));

    let _daemon = root.serve();
    let prompt = json!({"type": "schedule_task", "prompt": "water", "schedule_type": "once", "schedule_value": "2099-01-01T09:00:00", "requestId": "t1"});
    root.put_command("main", "tasks", "task.json", &prompt);
    let id = root.settled_file("main", "task.json")["id"].to_string();
    for what in [id.as_str(), "task.json", "t1", "main/task.json", "main/tasks/task.json"] {
        let story = root.json(&["ipc", "trace", what]);
        assert_eq!((&story["id"].to_string(), &story["answer"]), (&id, &json!("applied")), "{what}");
        assert_eq!(
            (&story["effects"][0]["kind"], &story["effects"][0]["state"]),
            (&json!("task"), &json!("active"))
        );
        let [written, claimed, decided] =
            ["written_at", "claimed_at", "decided_at"].map(|at| story[at].as_str().unwrap().to_owned());
        assert!(written <= claimed && claimed <= decided, "{story}");
        let files = story["files"].as_array().unwrap();
        assert!(files.contains(&json!(format!("data/done/main/{id}.json"))), "{story}");
        assert!(files.contains(&json!("data/ipc/main/responses/t1.json")), "{story}");
    }
    let text = root.g2(&["ipc", "trace", &id]);
    for word in
        ["schedule_task task.json of main: applied", "written", "decided", "effect      task", "reply"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    root.g2(&["tasks", "cancel", root.rows(&["tasks", "list"])[0]["id"].as_str().unwrap()]);
    assert_eq!(root.json(&["ipc", "trace", &id])["effects"][0]["state"], Value::Null);
}
