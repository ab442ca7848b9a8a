//! Follow-ups and `_close`.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

use ipc_handlers::wire::Kind;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::fixture::{Home, Runner, launch, wait_until};

/// A first turn that waits until [`go_on`] is called, and echoes after it.
fn waiting() -> Value {
    json!([
        {"when": {"contains": "wait"}, "do": [
            {"command": {"box": "tasks", "json": {"type": "list_tasks", "requestId": "r"}}},
            {"say": "done: {{text}}"}
        ]},
        {"do": [{"say": "{{text}}"}]}
    ])
}

/// Starts a run that is in its first turn.
fn in_its_first_turn(home: &Home) -> Runner {
    let runner = home.launch(&launch("wait", Some(&waiting()))).ready();
    home.command("ipc/tasks");
    runner
}

fn go_on(home: &Home) {
    home.put("ipc/responses/r.json", "{}");
}

#[test]
fn a_follow_up_is_taken_answered_named_and_removed() {
    let home = Home::new();
    let runner = home.launch(&launch("one", None)).ready();
    runner.says("echo: one", &["1"]);
    for n in 2..5 {
        home.follow_up(&n.to_string(), &format!("text {n}"));
        runner.says(&format!("echo: text {n}"), &[&n.to_string()]);
        wait_until("an empty box", || home.names("ipc/input").is_empty());
    }
}

#[test]
fn a_follow_up_in_the_middle_of_a_turn_is_the_next_turn() {
    let home = Home::new();
    let runner = in_its_first_turn(&home);
    for id in ["10", "9", "1704-x", "100"] {
        home.follow_up(id, id);
    }
    go_on(&home);
    runner.says("done: wait", &["1"]);
    for id in ["9", "10", "100", "1704-x"] {
        runner.says(id, &[id]);
    }
}

#[test]
fn a_batch_that_was_taken_before_is_removed_and_not_answered_again() {
    let home = Home::new();
    let runner = home.launch(&launch("one", None)).ready();
    runner.says("echo: one", &["1"]);
    home.follow_up("2", "two");
    runner.says("echo: two", &["2"]);
    // The launch's own batch as well: a host that adopts us publishes it again.
    home.follow_up("1", "one");
    home.follow_up("2", "two");
    wait_until("an empty box", || home.names("ipc/input").is_empty());
    home.follow_up("3", "three");
    runner.says("echo: three", &["3"]);
}

#[test]
fn what_the_host_claims_back_was_never_ours() {
    let home = Home::new();
    let runner = in_its_first_turn(&home);
    home.follow_up("2", "two");
    home.follow_up("3", "three");
    fs::rename(home.path("ipc/input/2.json"), home.path("claimed-back")).unwrap();
    go_on(&home);
    runner.says("done: wait", &["1"]);
    runner.says("three", &["3"]);
    // It may come a second time.
    fs::rename(home.path("claimed-back"), home.path("ipc/input/2.json")).unwrap();
    runner.says("two", &["2"]);
}

#[test]
fn close_lets_the_turn_finish_and_takes_nothing_more() {
    let home = Home::new();
    let runner = in_its_first_turn(&home);
    home.follow_up("2", "two");
    home.close();
    go_on(&home);
    runner.says("done: wait", &["1"]);
    assert!(runner.end().success());
    assert_eq!(home.names("ipc/input"), ["2.json"]);
}

#[test]
fn a_close_from_before_the_start_is_stale() {
    let home = Home::new();
    home.close();
    let runner = home.launch(&launch("one", None)).ready();
    runner.says("echo: one", &["1"]);
    assert!(home.names("ipc/input").is_empty());
    home.follow_up("2", "two");
    runner.says("echo: two", &["2"]);
}

#[test]
fn a_follow_up_from_a_v1_host_needs_no_id() {
    let home = Home::new();
    let runner = home.launch(&launch("one", None)).ready();
    runner.says("echo: one", &["1"]);
    home.put("ipc/input/1704133800001-ab3d.json", json!({"type": "message", "text": "plain"}).to_string());
    runner.says("echo: plain", &["1704133800001-ab3d"]);
}

#[test]
fn files_that_are_not_input_are_set_aside_and_hold_nobody_up() {
    let home = Home::new();
    let runner = in_its_first_turn(&home);
    fs::write(home.path("outside"), json!({"type": "message", "text": "secret"}).to_string()).unwrap();
    let bad = [
        ("2", "not JSON"),
        ("3", r#"{"type": "message"}"#),
        ("4", r#"{"type": "other", "text": "x"}"#),
        ("5", r#"{"type": "message", "text": "x", "id": "6"}"#),
        ("6", ""),
    ];
    for (id, content) in bad {
        home.put(&format!("ipc/input/{id}.json"), content);
    }
    mknodat(CWD, home.path("ipc/input/7.json"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    std::os::unix::fs::symlink(home.path("outside"), home.path("ipc/input/8.json")).unwrap();
    fs::create_dir(home.path("ipc/input/9.json")).unwrap();
    mknodat(CWD, home.path("ipc/input/10.json"), FileType::Socket, Mode::from_raw_mode(0o644), 0).unwrap();
    fs::File::create(home.path("ipc/input/11.json")).unwrap().set_len((64 << 20) + 1).unwrap();
    fs::write(home.path("ipc/input").join(OsStr::from_bytes(b"\xff.json")), "{}").unwrap();
    home.follow_up("99", "good");
    // Not ours to look at.
    fs::write(home.path("ipc/input/.hidden.json"), "x").unwrap();
    fs::write(home.path("ipc/input/note.txt"), "x").unwrap();

    go_on(&home);
    runner.says("done: wait", &["1"]);
    for id in 2..12 {
        let record = runner.record();
        let text = record.result.unwrap();
        assert_eq!((record.kind, record.handled.len()), (Kind::Progress, 0), "{text}");
        assert!(text.starts_with(&format!("input file {id}.json was set aside: ")), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(home.path(format!("ipc/input/{id}.json.bad")).symlink_metadata().is_ok(), "{id}");
    }
    runner.says("good", &["99"]);
    assert!(runner.record().result.unwrap().contains("not UTF-8"));
    home.close();
    assert!(runner.end().success());
    let left: Vec<String> =
        home.names("ipc/input").into_iter().filter(|name| !name.ends_with(".bad")).collect();
    assert_eq!(left, [".hidden.json", "note.txt"]);
}

#[test]
fn a_duplicate_that_is_a_folder_is_set_aside() {
    let home = Home::new();
    let runner = home.launch(&launch("one", None)).ready();
    runner.says("echo: one", &["1"]);
    fs::create_dir(home.path("ipc/input/1.json")).unwrap();
    assert_eq!(runner.record().kind, Kind::Progress);
    assert_eq!(home.names("ipc/input"), ["1.json.bad"]);
}

#[test]
fn a_name_that_can_not_be_made_longer_is_removed_and_said() {
    let home = Home::new();
    let runner = home.launch(&launch("one", None)).ready();
    runner.says("echo: one", &["1"]);
    home.follow_up(&"x".repeat(250), "two");
    assert_eq!(runner.record().kind, Kind::Progress);
    assert!(home.names("ipc/input").is_empty());
}
