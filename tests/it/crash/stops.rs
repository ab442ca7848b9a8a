//! Dying while a person ends, passes over, gives up, begins again: the next start finds the old state or the new one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::json;

use super::scene::{KILLED, arm, nobody_left};
use crate::support::{Daemon, Root, Socket, fail_points, wait_for};

const GIVEN_UP: &str = "I was told to stop, so I do not go on with your last message. Send it again if you still want an answer.";

/// Its agent hangs over "hang", dies over "poison", and otherwise answers.
fn root() -> Root {
    let root = Root::new(
        "[limits]\nretry_base_ms = 60000\npoll_interval_ms = 100\nmin_free_mib = 1\n[health]\nclose_grace_ms = 300\ntell_retry_ms = 0\n",
    );
    root.script(
        None,
        &json!([
            {"when": {"contains": "hang"}, "do": [{"tool": {"name": "Bash"}}, {"hang": true}]},
            {"when": {"contains": "poison"}, "do": [{"exit": 3}]},
            {"do": [{"say": "{{text}} done"}]},
        ]),
    );
    root
}

/// Has the daemon die at `point`, in which `work` ends.
fn dies(root: &Root, daemon: Daemon, point: &str, work: &[&str]) {
    let told = root.run(work);
    assert_eq!(daemon.signal(), Some(KILLED), "{point}: {told:?}");
    nobody_left(root);
}

fn status_of(root: &Root, run: i64) -> String {
    root.json(&["runs", "show", &run.to_string()])["status"].as_str().unwrap().to_owned()
}

fn busy(root: &Root, run: i64) {
    wait_for("the run to be busy", || {
        let at_work =
            |row: &serde_json::Value| row["id"] == run && row["doing"] == "Bash" && row["state"] == "busy";
        root.rows(&["ps"]).iter().any(at_work).then_some(())
    });
}

#[test]
fn a_stop_is_done_or_was_never_asked_for() {
    if !fail_points() {
        return;
    }
    for (point, is_stopped) in [
        ("op.begun/runs.stop", false),
        ("op.done/runs.stop", true),
        ("run.black_box", true),
        ("run.ending", true),
    ] {
        let root = root();
        let daemon = arm(&root, point);
        let seq = root.send("local:main", "hang on");
        busy(&root, 1);
        dies(&root, daemon, point, &["runs", "stop", "1", "--now"]);
        let _daemon = root.serve();
        if is_stopped {
            Socket::connect(&root).rest("local:main");
            assert_eq!(status_of(&root, 1), "cancelled", "{point}");
            assert_eq!(
                (root.said("local:main"), root.rows(&["runs", "list"]).len()),
                (vec![GIVEN_UP.to_owned()], 1),
                "{point}"
            );
            assert!(root.why(seq)["answer"].as_str().unwrap().starts_with("given up: stopped by"), "{point}");
        } else {
            busy(&root, 2);
            assert_eq!(
                (status_of(&root, 1).as_str(), root.said("local:main").len()),
                ("failed", 0),
                "{point}"
            );
            root.g2(&["runs", "stop", "2", "--now"]);
            wait_for("the chat to be told", || (root.said("local:main") == [GIVEN_UP]).then_some(()));
        }
        assert_eq!(root.ask("local:main", "next"), "next done\n", "{point}");
    }
}

#[test]
fn a_message_that_was_passed_over_stays_passed_over() {
    if !fail_points() {
        return;
    }
    let root = root();
    let daemon = arm(&root, "op.done/messages.skip");
    let seq = root.send("local:main", "poison");
    wait_for("its rest", || (root.why(seq)["wirings"][0]["tries"] == 1).then_some(()));
    dies(&root, daemon, "skip", &["messages", "skip", &seq.to_string(), "--reason", "it kills"]);
    let _daemon = root.serve();
    assert_eq!(root.rows(&["lanes", "list"]).len(), 0);
    let answer = root.why(seq)["answer"].as_str().unwrap_or_default().to_owned();
    assert!(answer.contains("passed over: it kills"), "{answer}");
    assert_eq!(root.ask("local:main", "next"), "next done\n");
}

#[test]
fn a_text_that_was_given_up_stays_given_up() {
    if !fail_points() {
        return;
    }
    let root = root();
    root.g2(&["wirings", "add", "--group", "main", "--chat", "tg:-100", "--engage", "mention"]);
    let hi = json!({"type": "send_message", "chatJid": "tg:-100", "text": "hi"});
    root.put_command("main", "messages", "1.json", &hi);
    let daemon = arm(&root, "op.done/outbox.drop");
    let row = wait_for("the text to have failed", || {
        root.rows(&["outbox", "list"]).into_iter().find(|row| row["error"].is_string())
    });
    if row["status"] == "failed" {
        root.change_store("UPDATE outbox SET status = 'unknown', next_try_at = (unixepoch() + 600) * 1000");
    }
    dies(&root, daemon, "drop", &["outbox", "drop", &row["id"].to_string()]);
    let row = root.rows(&["outbox", "list"]).remove(0);
    let error = row["error"].as_str().unwrap_or_default();
    assert!(row["status"] == "failed" && error.starts_with("given up by"), "{row}");
}

#[test]
fn a_restart_of_a_group_and_a_stop_with_agents_lose_no_message_and_answer_none_twice() {
    if !fail_points() {
        return;
    }
    for (point, work) in [
        ("op.done/groups.restart", &["groups", "restart", "main"][..]),
        ("stop.retiring", &["stop", "--agents"]),
        ("stop.agents_gone", &["stop", "--agents"]),
    ] {
        let root = root();
        let daemon = arm(&root, point);
        assert_eq!(root.ask("local:main", "one"), "one done\n");
        dies(&root, daemon, point, work);
        let _daemon = root.serve();
        assert_eq!(root.ask("local:main", "two"), "two done\n", "{point}");
        assert_eq!(root.said("local:main"), ["one done", "two done"], "{point}");
        assert_ne!(status_of(&root, 1), "running", "{point}");
    }
}

#[test]
fn a_line_that_was_written_to_a_run_is_answered_by_the_next_one() {
    if !fail_points() {
        return;
    }
    let root = root();
    let daemon = arm(&root, "op.done/runs.say");
    assert_eq!(root.ask("local:main", "one"), "one done\n");
    // What waits behind it is not answered by the daemon that dies.
    let mut child = root.command(&["runs", "attach", "1"]);
    let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"two\n").unwrap();
    assert_eq!(daemon.signal(), Some(KILLED));
    assert!(!child.wait().unwrap().success());
    nobody_left(&root);
    let _daemon = root.serve();
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["one done", "two done"]);
}
