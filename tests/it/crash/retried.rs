//! What the world or a fault of our own is in the way of is tried again until it is done.
#![expect(clippy::disallowed_methods, reason = "a test puts things in the way, and takes them out of it")]

use std::fs;

use serde_json::json;

use super::scene::{all_settled, arm, names};
use crate::support::{Root, wait_for};

const CHAT: &str = "local:main";

fn logged(root: &Root, text: &str) {
    wait_for(text, || root.log().contains(text).then_some(()));
}

#[test]
fn a_run_whose_supervisor_fails_is_ended_and_the_group_goes_on() {
    let root = Root::new("");
    let _daemon = arm(&root, "run.record:2:panic");
    let seq = root.send(CHAT, "one");
    wait_for("the run to be ended", || {
        root.rows(&["runs", "list"]).first().is_some_and(|run| run["ended_at"].is_string()).then_some(())
    });
    let run = &root.rows(&["runs", "list"])[0];
    assert_eq!(run["status"], "failed");
    assert!(run["error"].as_str().unwrap().contains("a fault of the host's own"), "{run}");
    // Its answer was recorded before: it is said, and not once more.
    assert_eq!(root.why(seq)["wirings"][0]["batch_state"], "done");
    assert_eq!(root.ask(CHAT, "two"), "echo: two\n");
    assert_eq!(root.said(CHAT), ["echo: one", "echo: two"]);
}

#[test]
fn a_settled_command_that_cannot_be_put_away_is_answered_again_and_applied_once() {
    let root = Root::new("");
    let _daemon = root.serve();
    let place = root.data("done/main");
    let _ = fs::remove_dir_all(&place);
    fs::write(&place, "in the way").unwrap();
    let command = json!({"type": "send_message", "requestId": "r", "chatJid": CHAT, "text": "once"});
    root.put_command("main", "messages", "x.json", &command);
    logged(&root, "setting a settled command aside failed");
    assert_eq!(names(&root, "claimed").len(), 1);
    assert_eq!(root.reply("main", "r")["ok"], true, "the agent that waits has its answer already");
    fs::remove_file(&place).unwrap();
    all_settled(&root);
    assert!(names(&root, "done/main").iter().any(|name| name.ends_with(".reply.json")));
    assert_eq!(root.said(CHAT), ["once"]);
}

#[test]
fn a_command_that_moves_on_while_commands_are_listed_is_in_every_list() {
    const FILES: usize = 60;
    let root = Root::new("");
    let _daemon = root.serve();
    let mut wrong = Vec::new();
    for n in 1..=FILES {
        let command = json!({"type": "send_message", "chatJid": CHAT, "text": n.to_string()});
        root.put_command("main", "messages", &format!("{n:05}.json"), &command);
        // Wherever it is by now: in its box, claimed (for a moment under no name of its own) or settled.
        let listed = root.rows(&["ipc", "list"]).len();
        if listed != n {
            wrong.push((n, listed));
        }
    }
    assert_eq!(wrong, [], "(how many there are, how many were listed)");
}
