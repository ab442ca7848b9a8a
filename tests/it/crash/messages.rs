//! A message, and the daemon dead at each step to its answer. Agents are child processes, which die with the daemon.
//!
//! | died at | the batch then | the next daemon |
//! |---|---|---|
//! | `message.stored` | none | hands it over |
//! | `run.handed` `run.created` | nobody had it | hands it over again, nothing spent |
//! | `run.recorded` `run.started` | the agent never said that it was ready | again, one of two free returns |
//! | `run.record`, nothing said yet | in hand | again, one of two free returns, at once: our own death is not its fault |
//! | `run.record`, something said | in hand | failed, one notice: nothing is said twice |
//! | `run.record`, the last | done | nothing |
//! | `run.piped` | the file is not there, published or taken: nobody read it | again, at no cost |
//! | `deliver.*` | done | says the same outbox row again, which listeners know by its id |
//! | `run.ending` | as the agent left it | as above |
//! | `run.ended` | judged | nothing |
//! | `lane.woken` `message.judged`, after an owner's word to a lane that rests | the rest is over | hands all of it over |
#![expect(clippy::disallowed_methods, reason = "a test plays the user, who changes a script")]

use std::fs;

use serde_json::{Value, json};

use super::{
    client::{rest, send, send_once, tell},
    ledger::{Batch, Ledger},
    scene::{die_at, for_each, nobody_left, workers},
};
use crate::support::{Root, wait_for};

const CHAT: &str = "local:main";

fn batch(state: &str, via: &str, tries: u32, free_returns: u32) -> Batch {
    Batch { state: state.into(), via: via.into(), tries, free_returns }
}

/// The statuses of all runs, oldest first.
fn runs(root: &Root) -> Vec<String> {
    Ledger::of_the_living(root).column("SELECT status FROM runs ORDER BY id")
}

fn cursor(ledger: &Ledger) -> i64 {
    ledger.number("SELECT coalesce(sum(cursor), 0) FROM lanes")
}

/// What the agent was in the middle of, three words a turn, the last of which ends it.
fn three_words() -> Value {
    json!([{"do": [{"say": "one"}, {"say": "two"}, {"say": "three"}]}])
}

#[test]
fn a_message_whose_daemon_died_at_any_step_is_answered_once() {
    // The point, the batch at the end, and how often a run was begun.
    let rows: [(&str, Batch, &[&str]); 9] = [
        ("message.stored", batch("done", "stdin", 0, 0), &["running"]),
        ("run.handed", batch("done", "stdin", 0, 0), &["failed", "running"]),
        ("run.created", batch("done", "stdin", 0, 0), &["failed", "running"]),
        ("run.recorded", batch("done", "stdin", 0, 1), &["failed", "running"]),
        ("run.started", batch("done", "stdin", 0, 1), &["failed", "running"]),
        ("run.record:1", batch("done", "stdin", 0, 1), &["failed", "running"]),
        ("run.record:2", batch("done", "stdin", 0, 0), &["failed"]),
        ("deliver.saying", batch("done", "stdin", 0, 0), &["failed"]),
        ("deliver.said", batch("done", "stdin", 0, 0), &["failed"]),
    ];
    for_each(&rows, |(point, expected, expected_runs)| {
        let root = Root::new("");
        let accepted = std::cell::Cell::new(false);
        die_at(&root, point, || accepted.set(send_once(&root, CHAT, "hello")));
        let dead = Ledger::of_the_dead(&root);
        assert_eq!(dead.number("SELECT count(*) FROM messages"), 1, "{point}: stored before it is accepted");
        assert!(!accepted.get() || *point != "message.stored");
        let before = cursor(&dead);

        let _daemon = root.serve();
        // A platform that heard nothing tells it again, under the same key.
        assert_eq!(send(&root, CHAT, "hello"), 1, "{point}");
        rest(&root, CHAT);
        let ledger = Ledger::of_the_living(&root);
        assert_eq!(root.said(CHAT), ["echo: hello"], "{point}");
        assert_eq!(root.rows(&["outbox", "list"]).len(), 1, "{point}");
        assert_eq!(&ledger.batches()[..], std::slice::from_ref(expected), "{point}");
        assert_eq!(runs(&root), *expected_runs, "{point}");
        assert!(cursor(&ledger) >= before.max(1), "{point}: the cursor never moves back");
        assert_eq!(ledger.number("SELECT attempts FROM outbox"), 1, "{point}");
    });
}

#[test]
fn a_turn_that_had_said_something_is_not_begun_again_and_its_chat_is_told_once() {
    let root = Root::new("");
    root.script(None, &three_words());
    die_at(&root, "run.record:3", || tell(&root, CHAT, "count"));
    let _daemon = root.serve();
    send(&root, CHAT, "count");
    rest(&root, CHAT);
    let said = root.said(CHAT);
    assert!(said.len() == 3 && said[..2] == ["one", "two"], "{said:?}");
    assert!(said[2].starts_with("I was interrupted (I was restarted)"), "{said:?}");
    assert_eq!(Ledger::of_the_living(&root).batches(), [batch("failed", "stdin", 0, 0)]);
    // The lane goes on.
    send(&root, CHAT, "count again");
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT)[3..], ["one", "two", "three"]);
}

#[test]
fn a_command_that_an_agent_wrote_before_it_died_counts_as_said() {
    let command = json!({"type": "send_message", "requestId": "r1", "chatJid": CHAT, "text": "by file"});
    let rules = json!([{"do": [{"command": {"box": "messages", "json": command}}, {"hang": true}]}]);
    for_each(&["ipc.seen", "ipc.committed"], |point| {
        let root = Root::new("");
        root.script(None, &rules);
        die_at(&root, point, || tell(&root, CHAT, "go"));
        let _daemon = root.serve();
        send(&root, CHAT, "go");
        rest(&root, CHAT);
        let said = root.said(CHAT);
        assert_eq!(said[0], "by file", "{point}");
        assert!(said.len() == 2 && said[1].starts_with("I was interrupted"), "{point}: {said:?}");
        let ledger = Ledger::of_the_living(&root);
        assert_eq!(ledger.batches(), [batch("failed", "stdin", 0, 0)], "{point}");
        assert_eq!(ledger.column::<i64>("SELECT run_id FROM receipts"), [1], "{point}: stamped with its run");
    });
}

#[test]
fn a_follow_up_whose_daemon_died_as_it_was_handed_over_is_answered_once_and_in_order() {
    let root = Root::new("");
    die_at(&root, "run.piped", || {
        send(&root, CHAT, "one");
        rest(&root, CHAT);
        tell(&root, CHAT, "two");
    });
    let before = cursor(&Ledger::of_the_dead(&root));
    let _daemon = root.serve();
    send(&root, CHAT, "two");
    send(&root, CHAT, "three");
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["echo: one", "echo: two", "echo: three"]);
    let ledger = Ledger::of_the_living(&root);
    assert_eq!(ledger.batches()[..2], [batch("done", "stdin", 0, 0), batch("done", "stdin", 0, 1)]);
    assert!(cursor(&ledger) > before);
}

#[test]
fn a_follow_up_that_was_placed_and_not_taken_costs_nothing() {
    let root = Root::new("");
    // The first turn never ends, so the follow-up stays where it was put.
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    send(&root, CHAT, "one");
    wait_for("the run to be ready", || {
        (Ledger::of_the_living(&root).number("SELECT count(*) FROM runs WHERE ready_at IS NOT NULL") == 1)
            .then_some(())
    });
    send(&root, CHAT, "two");
    wait_for("the follow-up to be placed", || {
        root.data("ipc/main/input/000000000002.json").exists().then_some(())
    });
    daemon.kill();
    nobody_left(&root);
    fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "answer to {{text}}"}]}]"#).unwrap();
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["answer to one", "answer to two"]);
    let ledger = Ledger::of_the_living(&root);
    assert_eq!(ledger.batches()[0], batch("done", "stdin", 0, 1), "the first one was in hand");
    let second = &ledger.batches()[1];
    assert_eq!((second.state.as_str(), second.tries, second.free_returns), ("done", 0, 1), "{second:?}");
}

/// Two groups and one slot: the second one's message ends the first one's idle run.
fn one_slot() -> Root {
    let root = Root::new(
        "[limits]\nmax_concurrent_containers = 1\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    );
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    root
}

#[test]
fn a_run_whose_end_was_cut_short_has_ended_once() {
    for_each(&["run.ending", "run.ended"], |point| {
        let root = one_slot();
        die_at(&root, point, || {
            send(&root, CHAT, "one");
            rest(&root, CHAT);
            tell(&root, "local:other", "two");
        });
        let _daemon = root.serve();
        send(&root, "local:other", "two");
        rest(&root, "local:other");
        assert_eq!(root.said(CHAT), ["echo: one"], "{point}");
        assert_eq!(root.said("local:other"), ["echo: two"], "{point}");
        let first = if *point == "run.ended" { "succeeded" } else { "failed" };
        assert_eq!(runs(&root), [first, "running"], "{point}");
        let stale = root.json(&["status"])["stale_recoveries_24h"].as_i64().unwrap();
        assert_eq!(stale, i64::from(*point == "run.ending"), "{point}");
    });
}

#[test]
fn an_end_with_a_message_in_hand_is_judged_once_wherever_it_was_cut_short() {
    for_each(&["run.ending", "run.ended"], |point| {
        let root = Root::new("");
        root.script(None, &json!([{"do": [{"exit": 3}]}]));
        die_at(&root, point, || tell(&root, CHAT, "hello"));
        fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "second try"}]}]"#).unwrap();
        let _daemon = root.serve();
        send(&root, CHAT, "hello");
        rest(&root, CHAT);
        assert_eq!(root.said(CHAT), ["second try"], "{point}");
        // Before it was written down, nobody knows that the agent had failed by itself.
        let (tries, free_returns) = if *point == "run.ended" { (1, 0) } else { (0, 1) };
        let expected = batch("done", "stdin", tries, free_returns);
        assert_eq!(Ledger::of_the_living(&root).batches(), [expected], "{point}");
    });
}

#[test]
fn a_message_in_hand_at_a_kill_is_with_an_agent_again_without_a_try_or_a_rest() {
    // Rests as they are: five seconds and more.
    let root = Root::new("[limits]\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    tell(&root, CHAT, "hello");
    wait_for("the agent to have it in hand", || {
        let ready = "SELECT count(*) FROM runs WHERE ready_at IS NOT NULL";
        (Ledger::of_the_living(&root).number(ready) == 1).then_some(())
    });
    daemon.kill();
    nobody_left(&root);
    fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "here I am"}]}]"#).unwrap();
    let _daemon = root.serve();
    send(&root, CHAT, "hello");
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["here I am"]);
    let ledger = Ledger::of_the_living(&root);
    assert_eq!(ledger.batches(), [batch("done", "stdin", 0, 1)]);
    // The restart has written down both: the end of the run that it found, and the hand-over to the next.
    let again = ledger.number(
        "SELECT b.handed_at - old.ended_at FROM batches b JOIN runs old ON old.id = 1 WHERE b.run_id = 2",
    );
    assert!((0..5_000).contains(&again), "{again} ms");
    assert_eq!(ledger.number("SELECT count(*) FROM sessions WHERE rest_until IS NOT NULL"), 0);
    let doctor = root.json(&["doctor"]);
    let row = doctor.as_array().unwrap().iter().find(|row| row["check"] == "stale_runs").unwrap();
    assert_eq!(row["status"], "warn", "{row}");
    assert!(row["detail"].as_str().unwrap().ends_with("container: 1; the newest is 1"), "{row}");
}

#[test]
fn a_task_in_hand_at_a_kill_is_with_an_agent_again_without_a_try_or_a_rest() {
    let root = Root::new("[limits]\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let mut daemon = root.serve();
    let task = json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": "once", "schedule_value": crate::support::due()});
    root.put_command("main", "tasks", "t.json", &task);
    for deaths in 1..=2 {
        wait_for("the agent to have it in hand", || {
            let ready = "SELECT count(*) FROM runs WHERE ready_at IS NOT NULL";
            (Ledger::of_the_living(&root).number(ready) == deaths).then_some(())
        });
        daemon.kill();
        nobody_left(&root);
        if deaths == 2 {
            fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "here I am"}]}]"#).unwrap();
        }
        daemon = root.serve();
    }
    wait_for("the task to be done", || {
        (root.json(&["tasks", "show", "t"])["last_result"] == "here I am").then_some(())
    });
    let ledger = Ledger::of_the_living(&root);
    let again =
        "SELECT max(new.created_at - old.ended_at) FROM runs old JOIN runs new ON new.id = old.id + 1";
    assert!((0..5_000).contains(&ledger.number(again)), "{} ms", ledger.number(again));
    assert_eq!(ledger.number("SELECT count(*) FROM runs WHERE started_at IS NOT NULL"), 3);
    assert_eq!(ledger.number("SELECT failures FROM tasks"), 0);
    assert!(root.said("local:main").is_empty());
}

#[test]
fn a_message_that_kills_the_daemon_each_time_costs_a_try_from_the_third_death_on() {
    let root = Root::new("");
    die_at(&root, "run.record:1", || tell(&root, CHAT, "hello"));
    for _ in 0..2 {
        die_at(&root, "run.record:1", || {});
    }
    assert_eq!(Ledger::of_the_dead(&root).batches(), [batch("claimed", "stdin", 0, 2)]);
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["echo: hello"]);
    assert_eq!(Ledger::of_the_living(&root).batches(), [batch("done", "stdin", 1, 2)]);
}

#[test]
fn an_owners_word_to_a_lane_that_rests_holds_although_the_daemon_dies_over_it() {
    for_each(&["lane.woken", "message.judged"], |point| {
        let root = Root::new("[health]\nclaim_ms = 300\n");
        root.script(None, &json!([{"do": [{"hang": true}]}]));
        let daemon = root.serve();
        send(&root, CHAT, "hello");
        wait_for("the lane to rest", || {
            let kills = "SELECT count(*) FROM runs WHERE killed_at IS NOT NULL";
            (Ledger::of_the_living(&root).number(kills) == 3).then_some(())
        });
        assert_eq!(daemon.terminate(), Some(0));
        fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "{{text}} done"}]}]"#).unwrap();
        die_at(&root, point, || tell(&root, CHAT, "wake up"));
        assert_eq!(Ledger::of_the_dead(&root).number("SELECT count(rest_until) FROM sessions"), 0, "{point}");
        let _daemon = root.serve();
        send(&root, CHAT, "wake up");
        rest(&root, CHAT);
        let said = root.said(CHAT);
        assert_eq!(said[said.len() - 2..], ["hello done", "wake up done"], "{point}: {said:?}");
    });
}

#[test]
fn a_crash_before_anything_was_made_costs_nothing_however_often() {
    let root = Root::new("");
    die_at(&root, "run.handed", || tell(&root, CHAT, "hello"));
    for point in ["run.created", "run.handed"] {
        die_at(&root, point, || {});
    }
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["echo: hello"]);
    assert_eq!(Ledger::of_the_living(&root).batches(), [batch("done", "stdin", 0, 0)]);
}

#[test]
fn agents_die_with_their_daemon() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    send(&root, CHAT, "hello");
    wait_for("the agent to live", || (!workers(&root).is_empty()).then_some(()));
    daemon.kill();
    nobody_left(&root);
}

#[test]
fn a_message_answered_under_sigterm_is_answered_once() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"wait_ms": 300}, {"say": "done"}]}]));
    let daemon = root.serve();
    send(&root, CHAT, "hello");
    wait_for("the agent to live", || (!workers(&root).is_empty()).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    nobody_left(&root);
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["done"]);
    assert_eq!(root.json(&["status"])["stale_recoveries_24h"], 0);
}
