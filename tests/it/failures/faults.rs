//! Faults of our own: work that panics begins anew, the log and `status` name it, and nothing is lost by it.

use serde_json::{Value, json};

use super::reads::change;
use crate::support::{Root, Socket, fail_points, wait_for};

const CHAT: &str = "local:main";

#[test]
fn a_fault_over_what_is_said_to_a_chat_leaves_no_chat_mute() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "deliver.saying:1:panic")]);
    assert_eq!(root.ask(CHAT, "hello").trim(), "echo: hello");
    assert!(root.log().contains("our own fault: saying something to a chat failed"), "{}", root.log());
    assert_eq!(root.json(&["status"])["state"], "healthy");
}

#[test]
fn status_names_a_chat_that_a_fault_of_ours_keeps_mute() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let daemon = root.serve_with(&[("G2_FAILPOINT", "deliver.saying:0:panic")]);
    root.send(CHAT, "hello");
    let finding = wait_for("status to name it", || {
        let status = root.json(&["status"]);
        status["findings"].as_array()?.iter().find(|finding| finding["code"] == "our_fault").cloned()
    });
    assert_eq!((&finding["about"], &finding["severity"]), (&json!(CHAT), &json!("fail")), "{finding}");
    daemon.kill();
    let _daemon = root.serve();
    wait_for("it to be said", || (root.said(CHAT) == ["echo: hello"]).then_some(()));
}

#[test]
fn a_message_over_which_we_fail_keeps_back_its_own_lane_alone_and_is_judged_once_we_do_not() {
    // Each message has a turn of its own.
    let root = Root::new(
        "[limits]\nbatch_messages = 1\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    );
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    let _daemon = root.serve();
    change(
        &root,
        "CREATE TRIGGER no_verdict BEFORE UPDATE OF verdict ON inbox
           WHEN (SELECT text FROM messages WHERE seq = new.seq) = 'poison'
         BEGIN SELECT RAISE(ABORT, 'a fault of ours'); END",
    );
    root.send(CHAT, "poison");
    root.send(CHAT, "later");
    for text in ["one", "two"] {
        assert_eq!(root.ask("local:other", text).trim(), format!("echo: {text}"));
    }
    let names_it = || {
        let status = root.json(&["status"]);
        let names = |finding: &Value| finding["code"] == "our_fault";
        status["findings"].as_array().unwrap().iter().any(names)
    };
    wait_for("status to name it", || names_it().then_some(()));
    assert!(root.said(CHAT).is_empty());
    // More wait there than are judged at once.
    let mut socket = Socket::connect(&root);
    for n in 0..600 {
        socket.accepted(CHAT, &format!("filler {n}"), &n.to_string());
    }
    assert_eq!(root.ask("local:other", "three").trim(), "echo: three");
    change(&root, "DROP TRIGGER no_verdict");
    // In their order, in one turn or two.
    wait_for("the answers", || {
        let said = root.said(CHAT).join("\n");
        said.find("poison").zip(said.find("later")).filter(|(first, then)| first < then)
    });
    wait_for("status to be healthy", || (root.json(&["status"])["state"] == "healthy").then_some(()));
}

/// A root whose agent says a word and leaves.
fn leaving() -> Root {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"say": "bye"}, {"exit": 0}]}]));
    root
}

/// Whether `status` says that a fault of ours is in the way of main's commands.
fn names_main(root: &Root) -> bool {
    let status = root.json(&["status"]);
    let names = |finding: &Value| finding["code"] == "our_fault" && finding["about"] == "main";
    status["findings"].as_array().unwrap().iter().any(names)
}

fn reply_to_list(root: &Root, name: &str) {
    root.put_command(
        "main",
        "tasks",
        &format!("{name}.json"),
        &json!({"type": "list_tasks", "requestId": name}),
    );
    assert_eq!(root.reply("main", name)["ok"], true);
}

#[test]
fn a_fault_over_the_last_commands_of_a_run_has_them_drained_anew_before_it_is_judged() {
    if !fail_points() {
        return;
    }
    let root = leaving();
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.draining/main:1:panic")]);
    root.send(CHAT, "hello");
    wait_for("the run to be judged", || {
        root.rows(&["runs", "list"]).first()?["ended_at"].is_string().then_some(())
    });
    let log = root.log();
    assert!(log.contains("our own fault: the work on a group's commands failed"), "{log}");
    assert!(log.contains("that is asked for anew before it is judged"), "{log}");
    reply_to_list(&root, "after");
    assert!(!names_main(&root));
}

#[test]
fn a_run_whose_last_commands_cannot_be_settled_by_a_fault_of_ours_is_not_judged_and_its_group_is_named() {
    if !fail_points() {
        return;
    }
    let root = leaving();
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.draining/main:0:panic")]);
    root.send(CHAT, "hello");
    let again = "that is asked for anew before it is judged";
    wait_for("some tries", || (root.log().matches(again).count() > 1).then_some(()));
    assert_eq!(root.rows(&["runs", "list"])[0]["status"], "running");
    wait_for("status to name the group", || names_main(&root).then_some(()));
    // What comes meanwhile is settled.
    reply_to_list(&root, "beside");
}
