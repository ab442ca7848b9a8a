//! `g2 audit`: who changed what, from where; and what is found when somebody changes that list.
#![expect(clippy::disallowed_methods, reason = "a test looks at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use serde_json::{Value, json};

use crate::support::{Root, Socket, fail_points};

fn list(root: &Root, more: &[&str]) -> Vec<Value> {
    root.rows(&[&["audit", "list"], more].concat())
}

/// What `verify` says, and whether it ends with 0.
fn verify(root: &Root, more: &[&str]) -> (Value, bool) {
    let output = root.run(&[&["--json", "audit", "verify"], more].concat());
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.success())
}

fn store(root: &Root) -> rusqlite::Connection {
    rusqlite::Connection::open(root.data("g2.sqlite")).unwrap()
}

#[test]
fn each_change_is_told_with_its_author_its_origin_and_its_outcome() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let daemon = root.serve();
    assert!(!root.run(&["groups", "set", "nobody", "name=x"]).status.success());
    let asked = json!({"op": "op", "do": {"name": "groups.set", "args": {"folder": "family", "settings": {"name": "We"}}}});
    let mut socket = Socket::connect(&root);
    socket.ask(&asked);
    assert_eq!(socket.next().unwrap()["is"], "op_done");
    let task = json!({"type": "schedule_task", "requestId": "t", "prompt": "p", "schedule_type": "interval", "schedule_value": "3600000"});
    root.put_command("family", "tasks", "1.json", &task);
    assert_eq!(root.reply("family", "t")["ok"], true);
    root.put_command("family", "tasks", "2.json", &json!({"type": "list_tasks", "requestId": "l"}));
    assert_eq!(root.reply("family", "l")["ok"], true);

    let rows = list(&root, &[]);
    let told: Vec<(&str, &str, &str)> = rows
        .iter()
        .map(|row| {
            let what = row["what"].as_str().unwrap().split(' ').next().unwrap();
            (what, row["origin"].as_str().unwrap(), row["outcome"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("g2", "command_line", "done"),
            ("groups.add", "command_line", "done"),
            ("groups.set", "command_line", "failed"),
            ("groups.set", "program", "done"),
            ("schedule_task,", "agent", "done"),
        ]
    );
    assert!(rows[2]["why"].as_str().unwrap().contains("nobody does not exist"), "{}", rows[2]);
    assert_eq!(rows[4]["who"], "agent of family");
    assert_eq!(list(&root, &["--from", "agent"]).len(), 1);
    assert_eq!(list(&root, &["--grep", "NOBODY"]).len(), 1);
    assert_eq!(list(&root, &["--limit", "2"]).len(), 2);
    assert_eq!(list(&root, &["--until", "2020-01-01T00:00:00Z"]).len(), 0);
    assert!(!root.run(&["audit", "list", "--from", "mars"]).status.success());
    let (checked, whole) = verify(&root, &[]);
    assert!(whole && checked["faults"] == json!([]), "{checked}");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_row_that_was_changed_moved_or_removed_is_found_and_named() {
    let root = Root::new("");
    for name in ["a", "b", "c", "d"] {
        root.g2(&["groups", "set", "main", &format!("name={name}")]);
    }
    let (checked, whole) = verify(&root, &[]);
    assert!(whole, "{checked}");
    let newest = checked["newest"].as_i64().unwrap();
    let note = format!("{newest}:{}", checked["hash"].as_str().unwrap());
    assert!(verify(&root, &["--known", &note]).1);
    // What a program has committed may be in the log of changes alone when it ends.
    store(&root).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let saved = fs::read(root.data("g2.sqlite")).unwrap();
    for (attack, faults) in [
        ("UPDATE audit SET who = 'nobody' WHERE id = 4", json!([{"fault": "changed", "row": 4}])),
        ("DELETE FROM audit WHERE id IN (3, 4)", json!([{"fault": "removed", "from": 3, "to": 4}])),
        (
            "UPDATE audit SET id = -1 WHERE id = 3; UPDATE audit SET id = 3 WHERE id = 5; UPDATE audit SET id = 5 WHERE id = -1",
            json!([{"fault": "moved", "row": 3, "was": 5}, {"fault": "moved", "row": 5, "was": 3}]),
        ),
        (
            "DELETE FROM audit WHERE id = (SELECT max(id) FROM audit)",
            json!([{"fault": "removed", "from": newest, "to": newest}]),
        ),
        // The log of changes knows what the store does not any more.
        (
            "DELETE FROM audit WHERE id = (SELECT max(id) FROM audit); UPDATE sqlite_sequence SET seq = seq - 1 WHERE name = 'audit'",
            json!([{"fault": "removed", "from": newest, "to": newest}]),
        ),
        // A beginning as `prune` leaves one, though nothing is old enough.
        (
            "DELETE FROM audit WHERE id < 5; INSERT INTO meta (key, value) SELECT 'audit_anchor', '4 ' || lower(hex(prev)) FROM audit WHERE id = 5",
            json!([{"fault": "removed", "from": 1, "to": 4}]),
        ),
    ] {
        store(&root).execute_batch(attack).unwrap();
        let (checked, whole) = verify(&root, &[]);
        assert!(!whole, "{attack}: {checked}");
        assert_eq!(checked["faults"], faults, "{attack}");
        fs::write(root.data("g2.sqlite"), &saved).unwrap();
        assert!(verify(&root, &[]).1, "{attack}");
    }
    // A whole chain that was written anew is what only a note elsewhere tells.
    let other = format!("{newest}:{}", "0".repeat(64));
    let (checked, whole) = verify(&root, &["--known", &other]);
    assert!(!whole && checked["faults"] == json!([{"fault": "replaced", "row": newest}]), "{checked}");
}

#[test]
fn a_daemon_that_dies_over_a_change_leaves_a_row_that_says_so() {
    for (place, changed) in [("audit.asked", false), ("audit.changed", true)] {
        if !fail_points() {
            return;
        }
        let root = Root::new("");
        let daemon = root.serve_with(&[("G2_FAILPOINT", place)]);
        let output = root.run(&["groups", "set", "main", "name=Other"]);
        assert!(!output.status.success());
        assert_eq!(daemon.signal(), Some(9), "{place}");
        let is_changed = root.json(&["groups", "show", "main"])["name"] == "Other";
        assert_eq!(is_changed, changed, "{place}");
        let rows = list(&root, &["--grep", "groups.set"]);
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (&rows[0]["outcome"], &rows[0]["ended_at"]),
            (&json!("unfinished"), &Value::Null),
            "{place}"
        );
        assert!(verify(&root, &[]).1, "{place}");
        let _daemon = root.serve();
        root.g2(&["groups", "set", "main", "name=Again"]);
        assert!(verify(&root, &[]).1, "{place}");
    }
}

#[test]
fn what_an_agent_changes_too_often_is_told_for_the_first_times_only() {
    let root = Root::new("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    let _daemon = root.serve();
    for n in 0..1_010 {
        let clear = json!({"type": "clear_session"});
        root.put_command("main", "tasks", &format!("{n}.json"), &clear);
    }
    root.settled(1_010);
    assert_eq!(list(&root, &["--from", "agent"]).len(), 1_000);
    assert!(verify(&root, &[]).1);
}

#[test]
fn pruned_rows_leave_a_chain_that_is_whole() {
    let root = Root::new("");
    for name in ["a", "b", "c"] {
        root.g2(&["groups", "set", "main", &format!("name={name}")]);
    }
    // As if the first of them were very old.
    let rows: Vec<Value> =
        root.g2(&["audit", "export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 7);
    age(&root, 4);
    assert!(verify(&root, &[]).1);
    root.g2(&["prune", "--yes"]);
    let (checked, whole) = verify(&root, &[]);
    // Three are left, and `prune` has one of its own.
    assert!(whole && checked["rows"] == 4, "{checked}");
    store(&root).execute("DELETE FROM audit WHERE id = 5", []).unwrap();
    let (checked, _) = verify(&root, &[]);
    assert_eq!(checked["faults"], json!([{"fault": "removed", "from": 5, "to": 5}]));
}

/// Writes the chain anew, with the first `count` rows of 500 days ago.
fn age(root: &Root, count: i64) {
    use g2::domain::shown::audit::{AuditRow, Entry, Hash, Origin, Step};
    let store = store(root);
    let rows: Vec<Value> =
        root.g2(&["audit", "export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut prev = Hash::NONE;
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let id = row["id"].as_i64().unwrap();
        let age = if id <= count { 500 * 24 * 3_600_000 } else { 0 };
        let entry = Entry {
            at: ipc_handlers::Time(row["at_ms"].as_i64().unwrap() - age),
            origin: Origin::from_name(&text("origin")).unwrap(),
            who: text("who"),
            what: text("what"),
            step: Step::from_name(&text("step")).unwrap(),
            asked: row["asked"].as_i64(),
            why: None,
            agent: None,
        };
        let anew = AuditRow::after(prev, id, entry);
        store
            .execute(
                "UPDATE audit SET at = ?2, prev = ?3, hash = ?4 WHERE id = ?1",
                rusqlite::params![id, anew.entry.at.0, anew.prev.0, anew.hash.0],
            )
            .unwrap();
        prev = anew.hash;
    }
    fs::remove_file(root.data("changes.log")).unwrap();
}

#[test]
fn a_restored_root_has_a_chain_that_is_whole_and_goes_on() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "name=a"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g2.tar");
    root.g2(&["backup", file.to_str().unwrap()]);
    // What was changed since is not in it.
    root.g2(&["groups", "set", "main", "name=b"]);
    let restored = Root::empty();
    restored.g2(&["restore", file.to_str().unwrap()]);
    assert!(verify(&restored, &[]).1);
    restored.g2(&["groups", "set", "main", "name=c"]);
    assert!(verify(&restored, &[]).1);
    let told: Vec<String> =
        list(&restored, &["--grep", "groups.set"]).iter().map(|row| row["what"].to_string()).collect();
    assert!(told.len() == 2 && told[0].contains('a') && told[1].contains("\\\"c"), "{told:?}");
}
