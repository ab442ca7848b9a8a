//! Very many of everything: the neighbour's turn comes all the same, and memory does not grow with the heap.
#![expect(clippy::disallowed_methods, reason = "reads settings, writes a neighbour's commands")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;

use serde_json::json;

use super::scene::{Scene, ask};
use crate::support::{Root, wait_for};

/// How far the hostile group may be ahead of its neighbour, commands.
const AHEAD: usize = 1_000;

/// The long form: `G2_HOSTILE_FILES=1000000 cargo test --test it hostile::crowd -- --nocapture`.
fn files() -> usize {
    std::env::var("G2_HOSTILE_FILES").ok().and_then(|count| count.parse().ok()).unwrap_or(20_000)
}

#[test]
fn twenty_thousand_files_hold_no_neighbour_back_and_take_no_memory() {
    let files = files();
    // Without the limits on one group, so that all of it comes at once. Short rests, as elsewhere.
    let Some(scene) = Scene::new(&format!(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\ncommands_per_minute = {most}\nmessages_per_minute = {most}\nwaiting_files = {most}\n",
        most = 2 * files
    )) else {
        return;
    };
    let root = &scene.root;
    let neighbours = 2_000;
    // Nobody is there to take them while they are written.
    let stopped = scene.daemon.hold();
    scene.attack("many", &[&files.to_string()]);
    for n in 0..neighbours {
        let say = json!({"type": "send_message", "chatJid": "local:good", "text": n.to_string()});
        root.put_command("good", "messages", &format!("{n:05}.json"), &say);
    }
    drop(stopped);
    ask(root, "good", "behind-them-all");
    // What was said first was applied first: outbox ids are given in the order of the effects.
    let mut in_order = 0..neighbours;
    let mut before = BTreeMap::from([("local:evil", 0), ("local:good", 0)]);
    for row in root.rows(&["outbox", "list"]) {
        let chat = row["chat_jid"].as_str().unwrap();
        let (evil, good) = (before["local:evil"], before["local:good"]);
        if chat == "local:good" {
            assert!(
                evil < good + AHEAD,
                "{evil} of the crowd went before number {} of the neighbour",
                good + 1
            );
            // The kernel's queue of events has overflowed meanwhile; the order holds.
            assert_eq!(row["text"], in_order.next().unwrap().to_string());
        }
        *before.get_mut(chat).unwrap() += 1;
    }
    assert_eq!(before["local:good"], neighbours);
    dealt_with(root);
    scene.assert_unharmed();
    scene.assert_no_more_memory();
    let said = root.rows(&["outbox", "list", "--chat", "local:evil"]).len();
    assert_eq!(said, files, "each once");
}

/// Waits until nothing is left in the boxes of the crowd: for as long as it becomes less.
fn dealt_with(root: &Root) {
    let left = || -> usize {
        let count = |name| std::fs::read_dir(root.data("ipc/evil").join(name)).unwrap().count();
        ["messages", "tasks"].into_iter().map(count).sum()
    };
    let mut before = left();
    while before > 0 {
        before =
            wait_for("some of the crowd to be dealt with", || Some(left()).filter(|left| *left < before));
    }
}

#[test]
fn files_far_beyond_the_limit_are_refused_newest_first_and_take_no_memory() {
    let Some(scene) = Scene::new(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\ncommands_per_minute = 10\nwaiting_files = 20\n",
    ) else {
        return;
    };
    let root = &scene.root;
    // Each is as large as a command may be, and holds nothing. Ten may come each minute and twenty wait: the
    // others are far more than a machine that is busy for minutes lets through.
    scene.attack("hollow", &["200"]);
    ask(root, "good", "beside-them");
    let refused = |root: &Root| {
        let rows = root.rows(&["ipc", "list", "--group", "evil", "--state", "refused"]);
        rows.into_iter().filter(|row| row["code"] == "rate_limited").count()
    };
    wait_for("the newest to be refused", || (refused(root) >= 110).then_some(()));
    let newest = &root.rows(&["ipc", "list", "--group", "evil", "--state", "refused"])[0];
    assert!(newest["name"].as_str().unwrap().starts_with("ho-"), "{newest}");
    scene.assert_unharmed();
    scene.assert_no_more_memory();
}
