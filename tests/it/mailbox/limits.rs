//! More commands than the limits allow: they wait in the box and nothing is lost; only far too many are refused.

use serde_json::json;

use crate::support::{Root, wait_for};

const FAST: &str = "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n";

fn put(root: &Root, count: usize, json: &serde_json::Value) {
    for n in 0..count {
        root.put_command("main", "tasks", &format!("{n:05}.json"), json);
    }
}

/// How many commands are in each of these states.
fn states<const N: usize>(root: &Root, wanted: [&str; N]) -> [usize; N] {
    let rows = root.rows(&["ipc", "list"]);
    wanted.map(|state| rows.iter().filter(|row| row["state"] == state).count())
}

#[test]
fn files_over_the_limit_wait_in_the_box_in_order() {
    let root = Root::new(&format!("{FAST}commands_per_minute = 60\n"));
    let daemon = root.serve();
    assert_eq!(daemon.terminate(), Some(0));
    put(&root, 64, &json!({"type": "send_message", "chatJid": "local:main", "text": "x"}));
    let _daemon = root.serve();
    wait_for("all to be applied", || (states(&root, ["applied"]) == [64]).then_some(()));
    assert!(root.log().contains("the rest waits in the box"), "some had to wait");
    let rows = root.rows(&["ipc", "list"]);
    assert!(rows.is_sorted_by_key(|row| row["name"].as_str().unwrap().to_owned()), "oldest first");
}

#[test]
fn messages_have_a_limit_of_their_own() {
    let root = Root::new(&format!("{FAST}messages_per_minute = 120\n"));
    let daemon = root.serve();
    assert_eq!(daemon.terminate(), Some(0));
    put(&root, 200, &json!({"type": "send_message", "chatJid": "local:main", "text": "x"}));
    let _daemon = root.serve();
    wait_for("the gate to shut", || root.log().contains("the rest waits in the box").then_some(()));
    let [applied, waiting, claimed] = states(&root, ["applied", "waiting", "claimed"]);
    assert!(applied >= 120 && waiting > 0, "{applied} applied, {waiting} wait");
    assert_eq!(applied + waiting + claimed, 200);
}

#[test]
fn bytes_have_a_limit_of_their_own() {
    let root = Root::new(&format!("{FAST}commands_mib_per_minute = 1\n"));
    let daemon = root.serve();
    assert_eq!(daemon.terminate(), Some(0));
    put(&root, 6, &json!({"type": "send_message", "chatJid": "local:main", "text": "x".repeat(500_000)}));
    let _daemon = root.serve();
    wait_for("the gate to shut", || root.log().contains("the rest waits in the box").then_some(()));
    let [applied, waiting, claimed] = states(&root, ["applied", "waiting", "claimed"]);
    assert!((2..=4).contains(&applied) && waiting > 0, "{applied} applied, {waiting} wait");
    assert_eq!(applied + waiting + claimed, 6);
    assert_eq!(root.log().matches("the rest waits in the box").count(), 1, "said once");
}

#[test]
fn far_too_many_are_refused_the_newest_of_them() {
    let root = Root::new(&format!("{FAST}commands_per_minute = 1\nwaiting_files = 5\n"));
    let daemon = root.serve();
    assert_eq!(daemon.terminate(), Some(0));
    put(&root, 19, &json!({"type": "list_tasks"}));
    root.put_command("main", "messages", "last.json", &json!({"type": "list_tasks", "requestId": "r1"}));
    let _daemon = root.serve();
    let reply = root.reply("main", "r1");
    assert_eq!((&reply["ok"], &reply["error"]["code"]), (&json!(false), &json!("rate_limited")));
    wait_for("the excess to be refused", || {
        let [applied, refused, waiting] = states(&root, ["applied", "refused", "waiting"]);
        (applied >= 1 && refused == 14 && applied + waiting == 6).then_some(())
    });
    let refused = root.rows(&["ipc", "list", "--state", "refused"]);
    let names: Vec<&str> = refused.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "they were refused in the order in which they came: {names:?}");
    // A command that makes little of it is not refused at all, and the oldest keep their place.
    assert_eq!(root.rows(&["ipc", "list", "--state", "applied"])[0]["name"], "00000.json");
}

#[test]
fn what_is_too_much_is_refused_once_the_store_can_take_it_and_nothing_of_it_is_applied() {
    let root = Root::new(&format!("{FAST}commands_per_minute = 1\nwaiting_files = 5\n"));
    let daemon = root.serve();
    root.put_command("main", "tasks", "first.json", &json!({"type": "list_tasks", "requestId": "r0"}));
    assert_eq!(root.reply("main", "r0")["ok"], true);
    // None of those that follow is taken within this minute.
    let other = root.lock_store();
    put(&root, 12, &json!({"type": "list_tasks"}));
    let is_waited = || root.log().contains("the store can't take a command now").then_some(());
    wait_for("the refusals to wait", is_waited);
    other.execute_batch("ROLLBACK").unwrap();
    wait_for("the excess to be refused", || (states(&root, ["refused"]) == [7]).then_some(()));
    let refused = root.rows(&["ipc", "list", "--state", "refused"]);
    assert!(refused.iter().all(|row| row["code"] == "rate_limited"), "{refused:?}");
    assert_eq!(states(&root, ["applied", "waiting", "claimed"]), [1, 5, 0]);
    assert_eq!(daemon.terminate(), Some(0));
}
