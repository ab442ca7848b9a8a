//! Messages that wait when a daemon or an agent ends: each is answered, once, and by nobody's second message.
//!
//! A follow-up that a run never read comes back with the run's end, and is handed over once: neither from the
//! folder and the store both, nor from neither.
#![expect(clippy::disallowed_methods, reason = "a test plays the user, who changes a script")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{
    client::{rest, send},
    ledger::Ledger,
    scene::{die_at, workers},
};
use crate::support::{Root, wait_for};

const CHAT: &str = "local:main";

/// No timer brings anything along: polls and rests take an hour.
const NO_TIMERS: &str = "[limits]\nretry_base_ms = 3600000\npoll_interval_ms = 3600000\nmin_free_mib = 1\n";
/// Each message has an answer of its own.
const ONE_EACH: &str =
    "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n";

fn answers(root: &Root, rules: &str) {
    fs::write(root.path().join("script-all.json"), rules).unwrap();
}

const ANSWER: &str = r#"[{"do": [{"say": "answer to {{text}}"}]}]"#;

#[test]
fn a_start_wakes_the_agent_for_waiting_messages_before_new_ones() {
    let root = Root::new(NO_TIMERS);
    for (group, chat) in [("one", "local:one"), ("two", "local:two"), ("quiet", "local:quiet")] {
        root.g2(&["groups", "add", group, "--chat", chat]);
    }
    root.g2(&["wirings", "set", "--group", "quiet", "--chat", "local:quiet", "engage=mention"]);
    root.g2(&["wirings", "set", "--group", "quiet", "--chat", "local:quiet", "ignored=accumulate"]);
    // One that was stored and no more; and some whose agents had not begun when their daemon died.
    die_at(&root, "message.stored", || super::client::tell(&root, "local:two", "hello"));
    root.close_gate(NO_TIMERS);
    let daemon = root.serve();
    for chat in ["local:one", CHAT, "local:quiet"] {
        root.judged(send(&root, chat, "hello"));
    }
    daemon.kill();
    // Its agents wait at the gate; the next daemon kills them first.
    root.settings(NO_TIMERS);
    let _daemon = root.serve();
    // Nobody sends, nobody asks for rest, no timer is near: the start alone brings them to their agents.
    for chat in ["local:one", CHAT, "local:two"] {
        wait_for("what waited to be answered", || (root.said(chat) == ["echo: hello"]).then_some(()));
    }
    assert!(root.said("local:quiet").is_empty(), "what wakes nobody wakes nobody at a start either");
    let log = root.log();
    let last = log.rfind("starting").unwrap();
    let (queued, polled) = (log[last..].matches("run queued").count(), log[last..].contains("due"));
    assert!(queued == 3 && !polled, "{}", &log[last..]);
}

#[test]
fn sixty_messages_are_answered_once_each_over_a_restart_in_their_middle() {
    let root = Root::new(ONE_EACH);
    let daemon = root.serve();
    let _daemon = std::thread::scope(|scope| {
        let talker = scope.spawn(|| (0..60).map(|n| send(&root, CHAT, &n.to_string())).collect::<Vec<_>>());
        wait_for("some answers", || (root.said(CHAT).len() >= 10).then_some(()));
        assert_eq!(daemon.terminate(), Some(0));
        let next = root.serve();
        let seqs = talker.join().unwrap();
        assert!(seqs.is_sorted() && seqs.len() == 60);
        next
    });
    rest(&root, CHAT);
    let expected: Vec<String> = (0..60).map(|n| format!("echo: {n}")).collect();
    assert_eq!(root.said(CHAT), expected);
    let ledger = Ledger::of_the_living(&root);
    assert_eq!(ledger.number("SELECT count(*) FROM messages"), 60);
    assert_eq!(ledger.number("SELECT count(*) FROM batches WHERE state <> 'done'"), 0);
}

/// A run that has `one` in its hands for ever, or until its group is released, and `two` in its box.
fn piped_and_stuck(first_turn: &str) -> (Root, crate::support::Daemon) {
    let root = Root::new("");
    root.script(None, &json!([]));
    answers(&root, first_turn);
    root.g2(&["ipc", "hold", "main"]);
    let daemon = root.serve();
    let first = send(&root, CHAT, "one");
    wait_for("the first one to be in hand", || {
        (root.why(first)["wirings"][0]["batch_state"] == "claimed").then_some(())
    });
    send(&root, CHAT, "two");
    let placed = root.data("ipc/main/input/000000000002.json");
    wait_for("the follow-up to be placed", || placed.exists().then_some(()));
    answers(&root, ANSWER);
    (root, daemon)
}

fn kill_the_agent(root: &Root) {
    for pid in workers(root) {
        let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
    }
}

#[test]
fn an_agent_that_dies_without_a_word_gives_back_its_follow_ups_and_they_are_read_once() {
    let (root, _daemon) = piped_and_stuck(r#"[{"do": [{"hang": true}]}]"#);
    kill_the_agent(&root);
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["answer to one", "answer to two"]);
    let ledger = Ledger::of_the_living(&root);
    let spent: Vec<(i64, i64)> = ledger.pairs("SELECT tries, free_returns FROM batches ORDER BY id");
    assert_eq!(spent, [(1, 0), (0, 1)], "what nobody had read costs no try");
    assert_eq!(ledger.number("SELECT count(*) FROM lanes WHERE cursor = 2"), 1, "the cursor never went back");
}

#[test]
fn an_agent_that_dies_after_a_word_keeps_that_turn_and_loses_no_other() {
    let begun = json!({"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r", "chatJid": CHAT, "text": "begun"}}});
    let (root, _daemon) = piped_and_stuck(&json!([{"do": [begun, {"hang": true}]}]).to_string());
    root.g2(&["ipc", "release", "main"]);
    wait_for("its word", || (root.said(CHAT) == ["begun"]).then_some(()));
    kill_the_agent(&root);
    rest(&root, CHAT);
    let said = root.said(CHAT);
    assert!(
        said.len() == 3 && said[1].starts_with("I was interrupted") && said[2] == "answer to two",
        "{said:?}"
    );
    let states: Vec<String> = Ledger::of_the_living(&root).column("SELECT state FROM batches ORDER BY id");
    assert_eq!(states, ["failed", "done"]);
}

#[test]
fn a_follow_up_into_a_leaving_run_is_answered_by_the_next_run_and_never_by_a_task() {
    // It waits for a reply, and its group is held.
    let asks = json!({"box": "tasks", "json": {"type": "list_tasks", "requestId": "r"}});
    let turn = json!([{"do": [{"command": asks}, {"say": "answer to one"}]}]);
    let (root, _daemon) = piped_and_stuck(&turn.to_string());
    // Asked to leave while it has not looked into its box again; a task of the same group waits beside.
    let task = json!({"type": "schedule_task", "taskId": "t", "prompt": "water the plants", "schedule_type": "once", "schedule_value": crate::support::due()});
    root.put_command("main", "tasks", "t.json", &task);
    root.g2(&["groups", "set", "main", "timeout=5000000"]);
    let asked = root.data("ipc/main/input/_close");
    wait_for("it to be asked to leave", || asked.exists().then_some(()));
    root.g2(&["ipc", "release", "main"]);
    rest(&root, CHAT);
    wait_for("the task to be over", || {
        (root.json(&["tasks", "show", "t"])["status"] == "completed").then_some(())
    });
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["answer to one", "answer to two"]);
    let of_tasks: Vec<i64> = Ledger::of_the_living(&root).column("SELECT id FROM runs WHERE kind = 'task'");
    for run in of_tasks {
        assert_eq!(root.prompt(run), "water the plants");
    }
}
