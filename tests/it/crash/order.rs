//! Several files: what a crash in the middle of them, or a rename that was lost with the power, does to order and count.
#![expect(clippy::disallowed_methods, reason = "a test does to files what a power cut does")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, io::Write as _, path::PathBuf};

use serde_json::json;

use super::{
    ledger::Ledger,
    scene::{all_settled, arm, die_at, for_each, names},
};
use crate::support::{Daemon, Root, wait_for};

const CHAT: &str = "local:main";

fn put(root: &Root, n: usize) {
    let in_box = if n.is_multiple_of(2) { "messages" } else { "tasks" };
    let json = json!({"type": "send_message", "requestId": format!("r{n}"), "chatJid": CHAT, "text": format!("text {n}")});
    root.put_command("main", in_box, &format!("{n:05}.json"), &json);
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text {n}")).collect()
}

/// The texts of the outbox in its order, said or not.
fn outbox(root: &Root) -> Vec<String> {
    root.rows(&["outbox", "list"]).iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

/// The one claimed file.
fn claimed(root: &Root) -> PathBuf {
    let names = names(root, "claimed");
    assert_eq!(names.len(), 1, "{names:?}");
    root.data("claimed").join(&names[0])
}

#[test]
fn of_many_files_each_is_applied_once_and_in_order_wherever_the_daemon_died_while_some_were_answered() {
    // Three times as many as are settled together: some are answered while others are settled, and others claimed.
    const FILES: usize = 384;
    let points = ["ipc.read:3", "ipc.decided:300", "ipc.replied:100"];
    for_each(&points, |point| {
        let root = Root::new("");
        root.serve().kill();
        (0..FILES).for_each(|n| put(&root, n));
        die_at(&root, point, || {});
        (FILES..FILES + 3).for_each(|n| put(&root, n));
        let _daemon = root.serve();
        all_settled(&root);
        assert_eq!(outbox(&root), texts(FILES + 3), "{point}");
    });
}

#[test]
fn claims_of_more_groups_than_there_are_threads_are_all_answered_at_a_start() {
    const GROUPS: usize = 40;
    // More than are settled together, so that some are answered while others are settled.
    const EACH: usize = 140;
    let root = Root::new("");
    let group = |n: usize| format!("g{n:02}");
    for n in 0..GROUPS {
        root.g2(&["groups", "add", &group(n), "--chat", &format!("local:{}", group(n))]);
    }
    root.serve().terminate();
    for n in 0..GROUPS * EACH {
        let group = group(n % GROUPS);
        let say = json!({"type": "send_message", "chatJid": format!("local:{group}"), "text": format!("text {}", n / GROUPS)});
        fs::write(root.data("claimed").join(format!("{}-{group}.json", n + 1)), say.to_string()).unwrap();
    }
    let daemon = root.serve();
    wait_for("each claim to be answered", || names(&root, "claimed").is_empty().then_some(()));
    for n in [0, GROUPS - 1] {
        let rows =
            root.rows(&["outbox", "list", "--chat", &format!("local:{}", group(n)), "--limit", "1000"]);
        let said: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
        assert_eq!(said, texts(EACH));
    }
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn nothing_goes_before_what_the_store_could_not_take_until_the_daemon_stopped() {
    // More than are settled together, twice: the last ones are not claimed when the first ones fail.
    const FILES: usize = 400;
    let root = Root::new("");
    let daemon = root.serve();
    let other = root.lock_store();
    let stopped = daemon.hold();
    (0..FILES).for_each(|n| put(&root, n));
    drop(stopped);
    wait_for("the first try", || root.log().contains("the store can't take a command now").then_some(()));
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_for("it to stop", || root.log().contains("stopping; a second signal").then_some(()));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(daemon.wait(), Some(0));
    let before = outbox(&root);
    assert_eq!(before, texts(before.len()), "what was applied as it stopped");
    let _daemon = root.serve();
    all_settled(&root);
    assert_eq!(outbox(&root), texts(FILES));
}

#[test]
fn nothing_goes_before_slow_work_that_waited_for_what_the_store_could_not_take() {
    const FILES: usize = 300;
    let root = Root::new("");
    let daemon = root.serve();
    let other = root.lock_store();
    let stopped = daemon.hold();
    for n in 0..FILES {
        // Each takes a transcript of the sessions that there are, so it waits for what is before it.
        let json = match n {
            0 | 2 => json!({"type": "clear_session", "name": format!("kept {n}")}),
            _ => json!({"type": "send_message", "chatJid": CHAT, "text": format!("text {n}")}),
        };
        root.put_command("main", "tasks", &format!("{n:05}.json"), &json);
    }
    drop(stopped);
    wait_for("the first try", || root.log().contains("the store can't take a command now").then_some(()));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(all_settled(&root).len(), FILES);
    assert_eq!(daemon.terminate(), Some(0));
    assert_in_order(&other, FILES);
}

/// The claims were settled in the order of their ids.
fn assert_in_order(store: &rusqlite::Connection, count: usize) {
    let settled: Vec<i64> = store
        .prepare("SELECT CAST(subject AS INTEGER) AS claim FROM events WHERE kind = 'command' ORDER BY seq")
        .unwrap()
        .query_map([], |row| row.get("claim"))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    assert_eq!(settled.len(), count);
    assert!(settled.is_sorted(), "{settled:?}");
}

/// Has a daemon panic at `point` while the store is locked, which is free after `panics` panics; all is settled in order then.
fn panics_while_the_store_is_locked(point: &str, panics: usize) -> (Root, Daemon) {
    const FILES: usize = 300;
    let root = Root::new("");
    root.serve().terminate();
    let daemon = arm(&root, point);
    let other = root.lock_store();
    let stopped = daemon.hold();
    (0..FILES).for_each(|n| put(&root, n));
    drop(stopped);
    let reached = root.path().join("reached");
    for n in 0..panics {
        wait_for(&format!("panic {n}"), || fs::remove_file(&reached).ok());
    }
    wait_for("the store to be tried", || root.log().contains("database is locked").then_some(()));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(all_settled(&root).len(), FILES, "{point}");
    assert_in_order(&other, FILES);
    (root, daemon)
}

#[test]
fn nothing_goes_before_what_panics_left_behind_a_file_that_the_store_could_not_take() {
    // As they are taken in; again as the first one is tried once more.
    for (point, panics) in [("ipc.claimed:1:panic", 1), ("ipc.committed:1+3:panic", 2)] {
        let (root, daemon) = panics_while_the_store_is_locked(point, panics);
        assert_eq!(outbox(&root), texts(300), "{point}");
        assert_eq!(daemon.terminate(), Some(0));
    }
}

#[test]
fn nothing_goes_before_a_refusal_of_ours_that_the_store_could_not_take() {
    let (root, daemon) = panics_while_the_store_is_locked("ipc.reading/main:1+2:panic", 1);
    // The first one was read twice, and then refused unread.
    assert_eq!(outbox(&root), texts(300)[1..]);
    let rows = root.rows(&["ipc", "list", "--state", "refused"]);
    assert_eq!((rows.len(), &rows[0]["code"]), (1, &json!("internal")), "{rows:?}");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_search_that_waited_when_the_daemon_died_is_made_when_its_turn_comes() {
    const ROUNDS: usize = 6;
    for_each(&["ipc.decided:5", "ipc.searched:3"], |point| {
        let root = Root::new("");
        root.serve().kill();
        let put = |n: usize| {
            let archive = json!({"type": "archive_session", "sessionId": format!("s-{n}"), "name": "x", "content": "to Lisbon"});
            let search = json!({"type": "search_sessions", "schemaVersion": 1, "requestId": format!("r{n}"), "query": "lisbon"});
            root.put_command("main", "tasks", &format!("{n:03}-a.json"), &archive);
            root.put_command("main", "tasks", &format!("{n:03}-b.json"), &search);
        };
        (0..ROUNDS).for_each(put);
        die_at(&root, point, || {});
        // A start waits for no search: what was claimed with it comes before what is published meanwhile all the same.
        (ROUNDS..2 * ROUNDS).for_each(put);
        let _daemon = root.serve();
        for n in 0..2 * ROUNDS {
            let reply = root.reply("main", &format!("r{n}"));
            let found =
                reply["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{point} {n}: {reply}"));
            assert!(found.iter().any(|row| row["session_id"] == format!("s-{n}")), "{point} {n}: {reply}");
        }
    });
}

#[test]
fn a_file_that_a_lost_rename_puts_back_is_answered_and_not_applied_again() {
    // What lies there after the power cut: the file in its box alone, or in its box and claimed.
    for_each(&["box", "both"], |place| {
        let root = Root::new("");
        die_at(&root, "ipc.committed", || put(&root, 0));
        let back = root.data("ipc/main/messages/00000.json");
        match *place {
            "box" => fs::rename(claimed(&root), &back).unwrap(),
            _ => fs::hard_link(claimed(&root), &back).unwrap(),
        }
        let before: Vec<Vec<u8>> = Ledger::of_the_dead(&root).column("SELECT reply FROM receipts");
        assert_eq!(before.len(), 1);
        let _daemon = root.serve();
        let rows = all_settled(&root);
        assert_eq!((rows.len(), outbox(&root)), (1, texts(1)), "{place}");
        let reply = fs::read(root.data("ipc/main/responses/r0.json")).unwrap();
        assert_eq!(reply, before[0], "{place}");
    });
}

#[test]
fn a_file_that_lies_in_its_box_and_claimed_without_a_receipt_is_applied_once() {
    let root = Root::new("");
    die_at(&root, "ipc.claimed", || put(&root, 0));
    fs::hard_link(claimed(&root), root.data("ipc/main/messages/00000.json")).unwrap();
    let _daemon = root.serve();
    all_settled(&root);
    assert_eq!(outbox(&root), texts(1));
}

#[test]
fn an_acknowledged_file_whose_unlinking_was_lost_is_not_applied_again() {
    let root = Root::new("");
    die_at(&root, "ipc.set_aside", || put(&root, 0));
    let kept = root.path().join("kept");
    let name = claimed(&root);
    fs::hard_link(&name, &kept).unwrap();
    root.serve().kill();
    assert!(names(&root, "claimed").is_empty());
    fs::rename(&kept, &name).unwrap();
    let _daemon = root.serve();
    assert_eq!(all_settled(&root).len(), 1);
    assert_eq!(outbox(&root), texts(1));
}

#[test]
fn a_claimed_file_whose_writer_outlived_the_daemon_is_waited_for() {
    let root = Root::new("");
    root.serve().kill();
    let json = json!({"type": "send_message", "chatJid": CHAT, "text": "text 0"}).to_string();
    let (first, second) = json.split_at(json.len() / 2);
    let mut file = fs::File::create(root.data("ipc/main/messages/00000.json")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    // Claimed after it was seen for a while, though its writer has it open; and read, in part.
    die_at(&root, "ipc.read", || {});
    let _daemon = root.serve();
    put(&root, 2);
    root.settled(1);
    assert_eq!(root.json(&["status"])["dead"], 0, "it is not judged by its half");
    file.write_all(second.as_bytes()).unwrap();
    drop(file);
    all_settled(&root);
    let mut said = outbox(&root);
    said.sort();
    assert_eq!(said, ["text 0", "text 2"]);
}

#[test]
fn a_file_that_was_claimed_half_written_goes_before_the_next_one_of_its_writer() {
    const FILES: usize = 10;
    let root = Root::new("");
    root.serve().kill();
    for n in (0..FILES).step_by(2) {
        let json = json!({"type": "send_message", "chatJid": CHAT, "text": format!("text {n}")}).to_string();
        let (first, second) = json.split_at(json.len() / 2);
        let mut file = fs::File::create(root.data(&format!("ipc/main/messages/{n:05}.json"))).unwrap();
        file.write_all(first.as_bytes()).unwrap();
        // The first look at the boxes finds it.
        let daemon = root.serve();
        wait_for("the claim", || (names(&root, "claimed").len() == 1).then_some(()));
        let stopped = daemon.hold();
        file.write_all(second.as_bytes()).unwrap();
        drop(file);
        put(&root, n + 1);
        drop(stopped);
        all_settled(&root);
        daemon.kill();
    }
    let _daemon = root.serve();
    assert_eq!(outbox(&root), texts(FILES));
}

#[test]
fn a_file_that_somebody_still_has_open_is_not_overtaken_and_delays_nobody_for_long() {
    let root = Root::new("");
    root.serve().kill();
    (0..6).for_each(|n| put(&root, n));
    // As a process does that was started while they were written and has not become another program yet.
    let held = |n: usize| {
        let in_box = if n.is_multiple_of(2) { "messages" } else { "tasks" };
        fs::File::options().append(true).open(root.data(&format!("ipc/main/{in_box}/{n:05}.json"))).unwrap()
    };
    let _held = [held(0), held(3)];
    let _daemon = root.serve();
    all_settled(&root);
    assert_eq!(outbox(&root), texts(6));
}

#[test]
fn a_file_of_an_event_does_not_overtake_files_from_before_the_watch() {
    let root = Root::new("");
    root.serve().kill();
    (0..4).for_each(|n| put(&root, n));
    let first = root.data("ipc/main/messages/00000.json");
    let _held = fs::File::options().append(true).open(first).unwrap();
    let _daemon = root.serve();
    (4..8).for_each(|n| put(&root, n));
    all_settled(&root);
    assert_eq!(outbox(&root), texts(8));
}

#[test]
fn files_published_while_their_boxes_are_scanned_are_applied_in_order() {
    const FILES: usize = 1_500;
    let root = Root::new("[limits]\npoll_interval_ms = 10\nretry_base_ms = 20\nmin_free_mib = 1\n");
    let _daemon = root.serve();
    (0..FILES).for_each(|n| put(&root, n));
    all_settled(&root);
    let found = outbox(&root);
    let expected = texts(FILES);
    let wrong = (0..FILES).find(|n| found.get(*n) != expected.get(*n));
    assert_eq!(wrong.map(|n| &found[n..n + 4]), None);
}
