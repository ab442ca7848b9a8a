//! `g2 prune`: with the daemon up, with it down, dead at each step; and the daemon that does the same by itself.
//!
//! A root lives its life in an instant; then the store's clocks are set back, so that all of it was long ago.
#![expect(clippy::disallowed_methods, reason = "a test looks at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::process::ExitStatusExt as _};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Root, wait_for};

mod crash;
mod files;

/// Every instant that the store has.
const CLOCKS: [(&str, &[&str]); 8] = [
    ("messages", &["at", "received_at"]),
    ("batches", &["handed_at", "ended_at"]),
    ("runs", &["created_at", "started_at", "ready_at", "closing_at", "handled_at", "ended_at"]),
    ("outbox", &["created_at", "sent_at"]),
    ("receipts", &["at", "written_at", "claimed_at"]),
    ("by_hand", &["at"]),
    ("dropped", &["first_at", "last_at"]),
    ("tasks", &["last_run", "created_at"]),
];

fn store(root: &Root) -> Connection {
    let store = Connection::open(root.data("g2.sqlite")).unwrap();
    store.busy_timeout(crate::support::DEADLINE).unwrap();
    store
}

/// Lets `days` go by, and something happen now: a run elsewhere.
fn age(root: &Root, days: i64) {
    set_back(root, days);
    store(root)
        .execute(
            "INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at, ended_at)
             SELECT 'other', 'local:other', 'message', 1, 'cancelled', 'process', 0, unixepoch() * 1000, unixepoch() * 1000",
            [],
        )
        .unwrap();
}

/// Has everything be of `days` before.
fn set_back(root: &Root, days: i64) {
    let store = store(root);
    for (table, clocks) in CLOCKS {
        for clock in clocks {
            let ms = days * 24 * 3_600_000;
            store.execute(&format!("UPDATE {table} SET {clock} = {clock} - {ms}"), []).unwrap();
        }
    }
}

fn say(text: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:main", "text": text})
}

/// A root that was at work 40 days ago: three messages with their answers, commands that were applied, refused, dead and
/// tried again, a task that ran, somebody who was not heard. Its daemon is gone.
fn lived() -> Root {
    lived_with(KEEPS_FILES)
}

/// Files go with their rows alone.
const KEEPS_FILES: &str = "[housekeeping]\nruns_days = 0\nsessions_days = 0\n";

fn lived_with(toml: &str) -> Root {
    let root = Root::new(toml);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let daemon = root.serve();
    for text in ["one", "two", "three"] {
        assert_eq!(root.ask("local:main", text), format!("echo: {text}\n"));
        leave(&root);
    }
    root.put_command("main", "messages", "a.json", &say("by hand"));
    root.put_bytes("main", "messages", "b.json", b"{]");
    let refused = json!({"type": "send_message", "chatJid": "local:new", "text": "hi"});
    root.put_command("family", "messages", "c.json", &refused);
    root.settled(3);
    let task = ["--group", "main", "--type", "interval", "--value", "86400000", "--output", "chat", "daily"];
    let id = root.json(&[&["tasks", "add"], &task[..]].concat())["id"].as_str().unwrap().to_owned();
    root.g2(&["tasks", "run", &id]);
    wait_for("the task", || root.said("local:main").contains(&"echo: daily".to_owned()).then_some(()));
    let refused = root.settled_file("family", "c.json")["id"].to_string();
    root.g2(&["ipc", "retry", &refused]);
    root.put_command("main", "messages", "d.json", &json!({"type": "list_tasks"}));
    root.settled(5);
    root.g2(&["chats", "set", "local:family", "policy=strict"]);
    root.g2(&["send", "--chat", "local:family", "--as", "eve", "--mention", "@G2 hello"]);
    wait_for("eve to be counted", || (root.rows(&["dropped", "list"]).len() == 1).then_some(()));
    leave(&root);
    assert_eq!(daemon.terminate(), Some(0));
    age(&root, 40);
    root
}

/// Has the agent leave that idles, and waits until everything is over.
fn leave(root: &Root) {
    root.g2(&["groups", "set", "main", "image="]);
    wait_for("everything to be over", || {
        let said = root.rows(&["outbox", "list"]).iter().all(|row| row["status"] == "sent");
        let over = root.rows(&["runs", "list"]).iter().all(|run| run["ended_at"].is_string());
        (said && over).then_some(())
    });
}

fn told(root: &Root, arguments: &[&str]) -> String {
    let refused = root.run(arguments);
    assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {refused:?}");
    String::from_utf8(refused.stderr).unwrap()
}

/// The store is whole, and everything in it refers to something that is there.
fn sound(root: &Root) {
    let store = store(root);
    let faults: String = store.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!(faults, "ok");
    let mut broken = store.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(!broken.exists([]).unwrap(), "a row refers to one that is gone");
}

fn run_folders(root: &Root) -> usize {
    fs::read_dir(root.data("runs")).unwrap().count()
}

fn removed(pruned: &Value, what: &str) -> i64 {
    pruned["removed"][what].as_i64().unwrap_or_else(|| panic!("{what}: {pruned}"))
}

#[test]
fn the_files_of_a_run_are_kept_until_they_are_pruned_and_count_for_their_group() {
    let root = Root::new(KEEPS_FILES);
    let daemon = root.serve();
    root.ask("local:main", "hello");
    assert_eq!(daemon.terminate(), Some(0));
    let bytes = |run: i64| -> u64 {
        let files = fs::read_dir(root.data(&format!("runs/{run}"))).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let counted: u64 =
        store(&root).query_row("SELECT files_bytes FROM runs WHERE id = 1", [], |r| r.get(0)).unwrap();
    assert!(counted > 0 && counted.abs_diff(bytes(1)) < 1_000, "{counted}, and there are {}", bytes(1));
    // Thousands of runs later.
    store(&root).execute("UPDATE sqlite_sequence SET seq = seq + 5000 WHERE name = 'runs'", []).unwrap();
    fs::create_dir(root.data("runs/4002")).unwrap();
    let daemon = root.serve();
    root.ask("local:main", "again");
    assert_eq!(daemon.terminate(), Some(0));
    for run in [1, 4_002, 5_002] {
        assert!(root.data(&format!("runs/{run}")).exists(), "{run}");
    }
    age(&root, 100);
    root.g2(&["prune", "--yes"]);
    // The newest message of a chat stays, with its run.
    let left = [1, 4_002, 5_002].map(|run| root.data(&format!("runs/{run}")).exists());
    assert_eq!(left, [false, false, true]);
}

#[test]
fn a_dry_run_says_what_a_run_does_and_changes_nothing() {
    let root = lived();
    let stored = || {
        // What was committed may be in the log of changes alone.
        store(&root).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        fs::read(root.data("g2.sqlite")).unwrap()
    };
    let (before, folders) = (stored(), run_folders(&root));
    let dry = root.json(&["prune", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["freed_bytes"]), (&json!(true), &json!(0)));
    assert!(stored() == before && run_folders(&root) == folders);
    let done = root.json(&["prune", "--yes"]);
    assert_eq!(dry["removed"], done["removed"]);
    // The last word of each chat is kept with its answer, and the newest receipt for the next one's id.
    for (what, least) in [
        ("messages", 2),
        ("outbox", 4),
        ("batches", 2),
        ("runs", 1),
        ("receipts", 3),
        ("by_hand", 1),
        ("dropped", 1),
    ] {
        assert!(removed(&done, what) >= least, "{what}: {done}");
    }
    assert_eq!(root.rows(&["ipc", "list"]).len(), 1);
    assert_eq!(folders - run_folders(&root), usize::try_from(removed(&done, "run_folders")).unwrap());
    assert_eq!(root.json(&["prune", "--yes"])["removed"], {
        let nothing = done["removed"].as_object().unwrap().keys().map(|what| (what.clone(), json!(0)));
        Value::Object(nothing.collect())
    });
    assert!(root.g2(&["prune", "--yes"]).starts_with("there is no history older than "));
    sound(&root);
}

#[test]
fn young_rows_are_kept_and_receipts_for_at_least_30_days() {
    let root = lived();
    let old = root.json(&["prune", "--dry-run", "--older-than", "41"]);
    assert!(old["removed"].as_object().unwrap().values().all(|count| count == 0), "{old}");
    age(&root, -15);
    let young = root.json(&["prune", "--yes", "--older-than", "20"]);
    assert!(removed(&young, "messages") > 0 && removed(&young, "receipts") == 0, "{young}");
    let none = root.run(&["prune", "--yes", "--older-than", "0"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}

#[test]
fn a_clock_that_is_far_ahead_makes_nothing_old_and_is_told() {
    let root = Root::new("");
    let daemon = root.serve();
    for text in ["one", "two"] {
        assert_eq!(root.ask("local:main", text), format!("echo: {text}\n"));
        leave(&root);
    }
    assert_eq!(daemon.terminate(), Some(0));
    set_back(&root, 4000);
    let pruned = root.json(&["prune", "--yes"]);
    assert!(pruned["removed"].as_object().unwrap().values().all(|count| count == 0), "{pruned}");
    assert!(pruned["clock"].as_str().unwrap().contains("age is counted from"), "{pruned}");
    assert!(root.g2(&["prune", "--dry-run"]).starts_with("the clock says "));
    // The world went on: the clock is right.
    age(&root, 0);
    let pruned = root.json(&["prune", "--yes"]);
    assert!(removed(&pruned, "messages") > 0 && pruned["clock"].is_null(), "{pruned}");
}

#[test]
fn a_removed_row_is_called_removed_and_ids_go_on_above_it() {
    let root = lived();
    let last = root.rows(&["ipc", "list"]).last().unwrap()["id"].as_i64().unwrap();
    root.g2(&["prune", "--yes"]);
    for (arguments, says) in [
        (&["why", "1"][..], "message 1 does not exist any more: it was only history"),
        (&["runs", "show", "1"], "run 1 does not exist any more"),
        (&["runs", "logs", "1"], "run 1 does not exist any more"),
        (&["outbox", "retry", "1"], "outbox row 1 does not exist any more"),
        (&["ipc", "trace", "1"], "nothing is kept of command 1: it was only history"),
        (&["ipc", "show", "1"], "nothing is kept of command 1"),
        (&["ipc", "retry", "1"], "nothing is kept of command 1"),
        (&["why", "1000"], "message 1000 does not exist\n"),
        (&["ipc", "show", "1000"], "no command is called 1000"),
    ] {
        assert!(told(&root, arguments).contains(says), "{arguments:?}: {}", told(&root, arguments));
    }
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
    root.put_command("main", "messages", "z.json", &say("more"));
    assert_eq!(root.settled_file("main", "z.json")["id"], last + 1);
    assert_eq!(root.rows(&["tasks", "list"]).len(), 1, "what is planned goes on");
    sound(&root);
}

#[test]
fn without_a_daemon_the_file_gets_smaller_and_beside_one_it_is_used_anew() {
    let root = lived();
    store(&root)
        .execute(
            "INSERT INTO messages (chat_jid, replay_key, id, sender, sender_name, text, at, received_at, from_me, bot, mentioned)
             WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n LIMIT 2000)
             SELECT 'local:main', 'x' || a, a, '', '', printf('%.*c', 1000, 'x'), 1, (SELECT max(received_at) FROM messages), 0, 1, 0 FROM n",
            [],
        )
        .unwrap();
    let daemon = root.serve();
    let beside = root.json(&["prune", "--yes"]);
    assert!(removed(&beside, "messages") >= 1999, "{beside}");
    assert!(beside["freed_bytes"].as_i64().unwrap() > 1_500_000, "{beside}");
    assert_eq!(beside["given_back_bytes"], 0);
    assert!(beside["note"].as_str().unwrap().contains("no daemon"), "{beside}");
    assert_eq!(root.ask("local:main", "still here"), "echo: still here\n");
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert_eq!(daemon.terminate(), Some(0));
    let length = || fs::metadata(root.data("g2.sqlite")).unwrap().len();
    let before = length();
    let alone = root.json(&["prune", "--yes"]);
    assert!(alone["given_back_bytes"].as_i64().unwrap() > 1_500_000 && alone["note"].is_null(), "{alone}");
    assert!(length() + 1_500_000 < before, "{before} {}", length());
    sound(&root);
}

#[test]
fn a_daemon_prunes_by_itself_if_it_is_set_to() {
    let root = lived_with(
        "[limits]\nkeep_days = 30\nkeep_first_minutes = 0\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    );
    let _daemon = root.serve();
    wait_for("the history to be gone", || root.log().contains("history removed").then_some(()));
    assert!(told(&root, &["why", "1"]).contains("any more"));
    wait_for("all that is old to be gone", || {
        let left = root.json(&["prune", "--dry-run"]);
        left["removed"].as_object().unwrap().values().all(|count| count == 0).then_some(())
    });
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
}
