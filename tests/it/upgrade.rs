//! A newer program on an older root, and an older program on a newer one. The newer one is this one, told to have one more
//! step in its schema.
#![expect(clippy::disallowed_methods, reason = "a test looks at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{os::unix::process::ExitStatusExt as _, process::Output};

use serde_json::json;

use crate::support::{Docked, Root, wait_for};

/// Has a command be the newer program's.
const NEWER: (&str, &str) = ("G2_NEXT_VERSION", "1");
/// SIGKILL.
const KILLED: i32 = 9;

fn newer(root: &Root, arguments: &[&str]) -> Output {
    root.command(arguments).env(NEWER.0, NEWER.1).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a store notes as the version of its schema: the number that people are told, and 1000.
fn schema(root: &Root, file: &str) -> i64 {
    let store = rusqlite::Connection::open(root.data(file)).unwrap();
    store.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap()
}

/// Has a store have a version of its schema; the tables stay.
fn note_schema(root: &Root, version: i64) {
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.pragma_update(None, "user_version", version).unwrap();
}

/// The last schema of before migrations were counted anew, a statement a line.
const LAST_OF_BEFORE: i64 = 67;
const BEFORE: &str = include_str!("../fixtures/schema_67.sql");

/// Has a store that nothing has run in be one of that schema. The tables that are others now are empty.
fn as_before(root: &Root) {
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    let line =
        |begin: &str| BEFORE.lines().find(|line| line.starts_with(begin)).unwrap().trim_end_matches(';');
    let newer = ["runs_slot_once", "runs_by_task", "runs_by_lane", "runs_killed", "outbox_answers"];
    newer.iter().for_each(|index| store.execute_batch(&format!("DROP INDEX {index}")).unwrap());
    store
        .execute_batch("DROP TRIGGER amends_closed; DROP TRIGGER amends_another; DROP TABLE amends; DROP TABLE hindrances; DROP TABLE fallbacks;
             DROP INDEX messages_by_id; DROP TRIGGER events_message_edited; DROP TABLE message_edits;
             DROP INDEX messages_by_answers; DROP INDEX outbox_cards; DROP TABLE questions; DROP TABLE gone; DROP TABLE claims;
             DROP TABLE notices; DROP TABLE pushes; DROP TABLE noted; DROP TABLE tools; DROP TABLE imported;
             DROP VIEW same_person; DROP TABLE person_ids; DROP TABLE account_addresses")
        .unwrap();
    store.pragma_update(None, "writable_schema", true).unwrap();
    for (table, begin) in [
        ("runs", "CREATE TABLE runs "),
        ("outbox", "CREATE TABLE outbox "),
        ("slots", "CREATE TABLE \"slots\" "),
        ("messages", "CREATE TABLE messages "),
        ("attachments", "CREATE TABLE \"attachments\" "),
        ("channel_states", "CREATE TABLE channel_states "),
        ("chats", "CREATE TABLE chats "),
    ] {
        store
            .execute(
                "UPDATE sqlite_schema SET sql = ?2 WHERE type = 'table' AND name = ?1",
                [table, line(begin)],
            )
            .unwrap();
    }
    store.execute_batch("PRAGMA writable_schema = RESET").unwrap();
    for begin in [
        "CREATE UNIQUE INDEX runs_slot_once ",
        "CREATE INDEX runs_by_source ",
        "CREATE INDEX runs_killed ",
        "CREATE INDEX outbox_answers ",
        "CREATE TABLE signs ",
        "CREATE TABLE amends ",
        "CREATE TABLE hindrances ",
        "CREATE TABLE tools ",
        "CREATE INDEX tools_by_time ",
        "CREATE TRIGGER stored_tool ",
        "CREATE TRIGGER stored_tool_gone ",
        "CREATE TRIGGER amends_closed ",
        "CREATE TRIGGER amends_another ",
    ] {
        store.execute_batch(line(begin)).unwrap();
    }
    note_schema(root, LAST_OF_BEFORE);
}

/// The copies of older stores.
fn copies(root: &Root) -> Vec<String> {
    let entries = std::fs::read_dir(root.data("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut copies: Vec<String> = names.filter(|name| name.starts_with("g2.sqlite.before")).collect();
    copies.sort();
    copies
}

#[test]
fn a_newer_program_never_changes_the_store_under_an_older_daemon() {
    let root = Root::new("");
    let before = schema(&root, "g2.sqlite");
    let daemon = root.serve();
    for arguments in [
        &["messages", "list"][..],
        &["send", "hello"],
        &["groups", "add", "family", "--chat", "local:family"],
        &["init"],
        &["serve"],
        &["backup", "/nowhere/x.tar"],
    ] {
        let refused = newer(&root, arguments);
        let why = told(&refused);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {why}");
        assert!(
            why.contains(&format!("with schema {}, this program is", before - 1000)),
            "{arguments:?}: {why}"
        );
        assert!(why.contains("restart the service"), "{arguments:?}: {why}");
    }
    let status = newer(&root, &["status"]);
    assert_eq!(status.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&status.stdout).contains("restart the service"), "{status:?}");
    assert_eq!(schema(&root, "g2.sqlite"), before);
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert_eq!(daemon.terminate(), Some(0));
    // Nobody serves it: the newer one changes it, and the older one says so.
    assert!(newer(&root, &["messages", "list"]).status.success());
    assert_eq!(schema(&root, "g2.sqlite"), before + 1);
    for arguments in [&["messages", "list"][..], &["serve"], &["init"], &["outbox", "retry", "1"]] {
        let refused = root.run(arguments);
        let why = told(&refused);
        assert_eq!((refused.status.code(), why.lines().count()), (Some(1), 1), "{arguments:?}: {why}");
        assert!(why.contains("install the newer g2"), "{arguments:?}: {why}");
    }
}

#[test]
fn an_upgrade_keeps_a_checked_copy_and_tells_what_it_changed() {
    let root = Root::new("");
    let before = schema(&root, "g2.sqlite");
    for old in ["g2.sqlite.before-0001", "g2.sqlite.before-0002"] {
        std::fs::write(root.data(old), "old").unwrap();
    }
    let daemon = root.serve_with(&[NEWER]);
    let copy = format!("g2.sqlite.before-{:04}", before + 1);
    assert_eq!(copies(&root), ["g2.sqlite.before-0002".to_owned(), copy.clone()], "the newest two");
    assert_eq!(schema(&root, &copy), before);
    assert!(root.log().contains("A table that nobody uses"), "{}", root.log());
    let status = String::from_utf8(newer(&root, &["status"]).stdout).unwrap();
    assert!(
        status.contains(&format!("upgraded   schema {} became {}", before - 1000, before - 999)),
        "{status}"
    );
    assert!(status.contains("\n           A table that nobody uses\n"), "{status}");
    // The older program beside the newer daemon.
    let refused = root.run(&["send", "hello"]);
    assert!(told(&refused).contains("restart the service"), "{refused:?}");
    drop(daemon);
}

#[test]
fn wherever_an_upgrade_dies_the_copy_is_the_store_as_it_was() {
    for point in ["store.copied", "store.migrated"] {
        let root = Root::new("");
        let before = schema(&root, "g2.sqlite");
        let mut command = root.command(&["serve"]);
        let died = command.env(NEWER.0, NEWER.1).env("G2_FAILPOINT", point).output().unwrap();
        assert_eq!(died.status.signal(), Some(KILLED), "{point}: {died:?}");
        let _daemon = root.serve_with(&[NEWER]);
        assert_eq!(copies(&root), [format!("g2.sqlite.before-{:04}", before + 1)], "{point}");
        assert_eq!(schema(&root, &format!("g2.sqlite.before-{:04}", before + 1)), before, "{point}");
        assert_eq!(schema(&root, "g2.sqlite"), before + 1, "{point}");
    }
}

#[test]
fn a_root_of_the_last_schema_of_before_goes_on_wherever_that_dies() {
    for point in [None, Some("store.copied"), Some("store.migrated")] {
        let root = Root::new("");
        let now = schema(&root, "g2.sqlite");
        as_before(&root);
        let row = root.run(&["doctor"]);
        let row = String::from_utf8_lossy(&row.stdout).into_owned();
        assert!(row.contains("schema 67 of the old count; this program writes 12"), "{row}");
        if let Some(point) = point {
            let died = root.command(&["serve"]).env("G2_FAILPOINT", point).output().unwrap();
            assert_eq!(died.status.signal(), Some(KILLED), "{point}: {died:?}");
        }
        let _daemon = root.serve();
        assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
        assert_eq!(schema(&root, "g2.sqlite"), now, "{point:?}");
        let copy = format!("g2.sqlite.before-{now}");
        assert_eq!(copies(&root), std::slice::from_ref(&copy), "{point:?}");
        assert_eq!(schema(&root, &copy), LAST_OF_BEFORE, "{point:?}");
        let status = String::from_utf8(root.run(&["status"]).stdout).unwrap();
        // Where it died, the first of eleven steps was through.
        let from = if point == Some("store.migrated") { "1" } else { "67 of the old count" };
        assert!(status.contains(&format!("upgraded   schema {from} became 12")), "{point:?}: {status}");
    }
}

#[test]
fn a_root_of_an_older_schema_is_refused_in_a_sentence_and_left_alone() {
    let root = Root::new("");
    note_schema(&root, 63);
    for arguments in [&["messages", "list"][..], &["serve"], &["init"], &["outbox", "retry", "1"]] {
        let refused = root.run(arguments);
        let why = told(&refused);
        assert_eq!((refused.status.code(), why.lines().count()), (Some(1), 1), "{arguments:?}: {why}");
        assert!(
            why.contains("has schema 63 of the old count, and this g2 goes on from 67"),
            "{arguments:?}: {why}"
        );
    }
    assert_eq!(schema(&root, "g2.sqlite"), 63);
    assert_eq!(copies(&root), Vec::<String>::new());
}

#[test]
fn a_turn_goes_on_while_its_daemon_is_replaced_by_a_newer_one() {
    let Some(docked) = Docked::new("") else { return };
    let root: &Root = &docked;
    let script = json!([{"when": {"contains": "long"}, "do": [{"say": "begun"}, {"wait_ms": 3000}, {"say": "ended"}]}]);
    root.script(None, &script);
    let daemon = docked.serve();
    let seq = root.send("local:main", "long");
    wait_for("the turn to begin", || root.said("local:main").contains(&"begun".into()).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = root.serve_with(&[NEWER]);
    let said = || {
        let output = newer(root, &["--json", "outbox", "list"]);
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        rows.iter().filter(|row| row["status"] == "sent").map(|row| row["text"].clone()).collect::<Vec<_>>()
    };
    wait_for("the end of the turn", || said().contains(&"ended".into()).then_some(()));
    assert_eq!(said(), ["begun", "ended"]);
    let runs = newer(root, &["--json", "runs", "list"]);
    let runs: Vec<serde_json::Value> = serde_json::from_slice(&runs.stdout).unwrap();
    assert_eq!(runs.len(), 1, "the same container: {runs:?} {seq}");
    drop(daemon);
}

#[test]
fn a_program_of_another_version_with_the_same_schema_works_and_says_so_on_stderr() {
    let root = Root::new("");
    let daemon = root.serve();
    assert_eq!(told(&root.run(&["groups", "list"])), "");
    // As a daemon of that version would have written it; this one goes on holding it.
    std::fs::write(root.data("lock"), format!("{} 0.0.1\n", daemon.pid())).unwrap();
    for arguments in [&["groups", "list"][..], &["--json", "groups", "list"], &["lanes", "list"]] {
        let output = root.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output);
        assert!(
            told.contains("the daemon is version 0.0.1, this g2 is version") && told.lines().count() == 1,
            "{told}"
        );
    }
    let status = root.json(&["status"]);
    assert_eq!((&status["program"], &status["state"]), (&status["version"], &json!("healthy")));
    assert_eq!(daemon.terminate(), Some(0));
    // Nobody holds it now.
    assert_eq!(told(&root.run(&["groups", "list"])), "");
}
