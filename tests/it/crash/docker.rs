//! A message, and the daemon dead at each step to its answer, with agents in containers: these outlive it.
//!
//! | died at | the engine has | the next daemon |
//! |---|---|---|
//! | `run.created` `run.recorded` | it, created | removes it by force; nothing spent |
//! | `run.no_stdin` | it, running or just left, without its prompt | ends it; one of two free returns |
//! | `run.started` `run.part` `run.record` | it, at work | adopts it: the turn ends once, in the same run |
//! | … and it ended meanwhile | it, exited | adopts it: every record counts |
//! | `run.piped` | it, waiting | puts the follow-up into its box again |
//! | `run.ending` `run.ended` | it, exited, its run open or ended | ends the run once, removes it |
//! | SIGTERM | it, at work | as after `run.record` |
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at what the engine has")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{env, fs, ops::Deref, process::Command};

use serde_json::{Value, json};

use super::{
    client::{rest, send, tell},
    ledger::{Batch, Ledger},
    scene::{die_at, for_each},
};
use crate::support::{Docked, Root, wait_for};

const CHAT: &str = "local:main";

/// A root whose agents run in containers; they are removed with it.
struct House(Root);

impl House {
    /// Lays it out, or says that there is no Docker.
    fn new(limits: &str) -> Option<Self> {
        crate::support::docker().then(|| {
            Self(Root::new(&Docked::settings(&format!(
                "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n{limits}"
            ))))
        })
    }

    /// The states of this root's containers, by id.
    fn containers(&self) -> Vec<(String, String)> {
        let label = format!("label=g2.instance={}", self.instance());
        let listed =
            docker(&["ps", "-a", "--no-trunc", "--filter", &label, "--format", "{{.ID}} {{.State}}"]);
        listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(id, state)| (id.into(), state.into()))
            .collect()
    }

    fn instance(&self) -> String {
        let known: Vec<String> =
            Ledger::of_the_living(self).column("SELECT value FROM meta WHERE key = 'instance'");
        known.into_iter().next().unwrap_or_else(|| "none".into())
    }

    /// The one container of this root.
    fn container(&self) -> String {
        let all = self.containers();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].0.clone()
    }
}

impl Deref for House {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.0
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for (id, _) in self.containers() {
            docker(&["rm", "--force", "--volumes", &id]);
        }
    }
}

fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn batch(state: &str, via: &str, tries: u32, free_returns: u32) -> Batch {
    Batch { state: state.into(), via: via.into(), tries, free_returns }
}

fn runs(root: &Root) -> Vec<String> {
    Ledger::of_the_living(root).column("SELECT status FROM runs ORDER BY id")
}

/// Four records: `ready`, two words, and the word that ends the turn.
fn three_words(pause_ms: u64) -> Value {
    json!([{"do": [{"say": "one"}, {"wait_ms": pause_ms}, {"say": "two"}, {"wait_ms": pause_ms}, {"say": "three"}]}])
}

#[test]
fn a_container_that_was_not_started_is_removed_and_its_message_returned_at_no_cost() {
    for_each(&["run.created", "run.recorded"], |point| {
        let Some(root) = House::new("") else { return };
        die_at(&root, point, || tell(&root, CHAT, "hello"));
        let left = root.containers();
        assert!(left.len() == 1 && left[0].1 == "created", "{point}: {left:?}");
        let _daemon = root.serve();
        rest(&root, CHAT);
        assert_eq!(root.said(CHAT), ["echo: hello"], "{point}");
        assert_eq!(Ledger::of_the_living(&root).batches(), [batch("done", "stdin", 0, 0)], "{point}");
        assert_eq!(runs(&root), ["failed", "running"], "{point}");
        assert_ne!(root.container(), left[0].0, "{point}: the old one is gone");
    });
}

#[test]
fn a_container_without_its_prompt_is_ended_and_its_message_returned_free_of_a_try() {
    let Some(root) = House::new("") else { return };
    die_at(&root, "run.no_stdin", || tell(&root, CHAT, "hello"));
    let left = root.container();
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["echo: hello"]);
    assert_eq!(Ledger::of_the_living(&root).batches(), [batch("done", "stdin", 0, 1)]);
    assert_eq!(runs(&root), ["failed", "running"]);
    assert_ne!(root.container(), left);
}

#[test]
fn a_turn_survives_its_daemon_at_every_record_and_is_said_once() {
    for_each(&["run.started", "run.record:2"], |point| {
        let Some(root) = House::new("") else { return };
        root.script(None, &three_words(200));
        die_at(&root, point, || tell(&root, CHAT, "count"));
        let left = root.container();
        let _daemon = root.serve();
        send(&root, CHAT, "count");
        rest(&root, CHAT);
        assert_eq!(root.said(CHAT), ["one", "two", "three"], "{point}");
        let ledger = Ledger::of_the_living(&root);
        assert_eq!(ledger.batches(), [batch("done", "stdin", 0, 0)], "{point}");
        assert_eq!((runs(&root), root.container()), (vec!["running".to_owned()], left), "{point}: adopted");
        assert_eq!(ledger.column::<i64>("SELECT last_seq FROM runs"), [4], "{point}");
        // It is as good as any other: a follow-up goes into it.
        send(&root, CHAT, "again");
        rest(&root, CHAT);
        assert_eq!((root.said(CHAT).len(), runs(&root).len()), (6, 1), "{point}");
    });
}

#[test]
fn what_a_container_wrote_is_kept_once_and_taken_in_once_however_often_its_daemon_dies() {
    let Some(root) = House::new("") else { return };
    let long = "a line of an answer\n".repeat(30_000);
    root.script(None, &json!([{"do": [{"say": "one"}, {"say": long}, {"say": long}]}]));
    let kept = || fs::read_to_string(root.data("runs/1/container.log")).unwrap();
    die_at(&root, "run.record:2", || tell(&root, CHAT, "count"));
    for n in 1..=2 {
        let daemon = root.serve();
        rest(&root, CHAT);
        send(&root, CHAT, &format!("again {n}"));
        rest(&root, CHAT);
        daemon.kill();
    }
    let begins = "---G2_OUTPUT_START---";
    let said = docker(&["logs", &root.container()]);
    let whole: String = said.chars().take(1 << 20).collect();
    assert_eq!(kept().matches(begins).count(), whole.matches(begins).count(), "each record once");
    let passed = "output that was taken in before is passed over";
    assert!(root.log().contains(passed), "{}", root.log());
    let _daemon = root.serve();
    send(&root, CHAT, "last");
    rest(&root, CHAT);
    assert_eq!(runs(&root), ["running"], "adopted each time");
    assert_eq!(root.said(CHAT).iter().filter(|text| *text == "one").count(), 4);
}

#[test]
fn a_long_answer_is_said_once_whose_daemon_dies_between_its_parts() {
    let Some(root) = House::new("") else { return };
    let long = "a line of an answer\n".repeat(120_000);
    root.script(None, &json!([{"do": [{"say": long}]}]));
    die_at(&root, "run.part:2", || tell(&root, CHAT, "count"));
    let left = root.container();
    let _daemon = root.serve();
    send(&root, CHAT, "count");
    rest(&root, CHAT);
    let said = root.said(CHAT);
    assert!(said.len() == 3 && said.concat() == long.trim_end(), "{} parts", said.len());
    assert_eq!((runs(&root), root.container()), (vec!["running".to_owned()], left), "adopted");
}

#[test]
fn a_container_that_ended_while_nobody_looked_is_adopted_to_its_last_record() {
    // It leaves by itself, as it was asked to, or is killed; all after its turn was over.
    for_each(&["leaves", "killed"], |how| {
        let Some(root) = House::new("") else { return };
        root.script(None, &three_words(100));
        die_at(&root, "run.record:2", || tell(&root, CHAT, "count"));
        let left = root.container();
        let log = || docker(&["logs", &left]);
        wait_for("the turn to end", || log().contains("three").then_some(()));
        match *how {
            "leaves" => fs::write(root.data("ipc/main/input/_close"), "").unwrap(),
            _ => drop(docker(&["kill", &left])),
        }
        wait_for("it to end", || (root.containers()[0].1 == "exited").then_some(()));
        let _daemon = root.serve();
        rest(&root, CHAT);
        assert_eq!(root.said(CHAT), ["one", "two", "three"], "{how}");
        assert_eq!(Ledger::of_the_living(&root).batches(), [batch("done", "stdin", 0, 0)], "{how}");
        wait_for("it to be removed", || root.containers().is_empty().then_some(()));
        let status = if *how == "leaves" { "succeeded" } else { "failed" };
        assert_eq!(runs(&root), [status], "{how}");
    });
}

#[test]
fn a_container_that_was_killed_in_mid_turn_without_a_daemon_is_judged_as_usual() {
    let Some(root) = House::new("") else { return };
    root.script(None, &json!([{"do": [{"say": "one"}, {"hang": true}]}]));
    die_at(&root, "run.record:2", || tell(&root, CHAT, "count"));
    docker(&["kill", &root.container()]);
    let _daemon = root.serve();
    rest(&root, CHAT);
    let said = root.said(CHAT);
    assert!(said.len() == 2 && said[0] == "one" && said[1].starts_with("I was interrupted"), "{said:?}");
    assert_eq!(Ledger::of_the_living(&root).batches(), [batch("failed", "stdin", 0, 0)]);
}

#[test]
fn a_follow_up_that_was_not_placed_is_placed_by_the_next_daemon() {
    for_each(&["run.piped", "input.begun", "input.placed"], |point| {
        let Some(root) = House::new("") else { return };
        die_at(&root, point, || {
            send(&root, CHAT, "one");
            rest(&root, CHAT);
            tell(&root, CHAT, "two");
        });
        let left = root.container();
        let _daemon = root.serve();
        send(&root, CHAT, "two");
        send(&root, CHAT, "three");
        rest(&root, CHAT);
        assert_eq!(root.said(CHAT), ["echo: one", "echo: two", "echo: three"], "{point}");
        let done = batch("done", "stdin", 0, 0);
        let piped = batch("done", "input", 0, 0);
        assert_eq!(Ledger::of_the_living(&root).batches()[..2], [done, piped], "{point}");
        assert_eq!((runs(&root), root.container()), (vec!["running".to_owned()], left), "{point}");
    });
}

/// The runner took it, answered and left while nobody looked; the daemon that places it once more takes that for no proof.
#[test]
fn a_follow_up_that_was_done_without_a_daemon_is_not_handed_out_again() {
    for_each(&["noted", "of an older version"], |how| {
        let Some(root) = House::new("") else { return };
        root.script(None, &json!([{"when": {"contains": "two"}, "do": [{"say": "to two"}, {"hang": true}]}, {"do": [{"say": "to one"}]}]));
        die_at(&root, "input.placed", || {
            send(&root, CHAT, "one");
            rest(&root, CHAT);
            tell(&root, CHAT, "two");
        });
        let left = root.container();
        wait_for("its answer", || docker(&["logs", &left]).contains("to two").then_some(()));
        // As a runner that had finished with it, and whose last record is lost.
        docker(&["kill", &left]);
        let input = root.data("ipc/main/input");
        for name in fs::read_dir(&input).unwrap() {
            fs::remove_file(name.unwrap().path()).unwrap();
        }
        if *how != "noted" {
            fs::remove_dir_all(root.data("runs/1/input")).unwrap();
        }
        let _daemon = root.serve();
        rest(&root, CHAT);
        let said = root.said(CHAT);
        assert_eq!(said[..2], ["to one", "to two"], "{how}: {said:?}");
        assert!(said.len() == 3 && said[2].starts_with("I was interrupted"), "{how}: {said:?}");
    });
}

#[test]
fn a_follow_up_handed_to_a_container_that_ended_meanwhile_comes_back_at_no_cost() {
    let Some(root) = House::new("") else { return };
    die_at(&root, "run.piped", || {
        send(&root, CHAT, "one");
        rest(&root, CHAT);
        tell(&root, CHAT, "two");
    });
    docker(&["kill", &root.container()]);
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["echo: one", "echo: two"]);
    let batches = Ledger::of_the_living(&root).batches();
    assert_eq!((batches[1].state.as_str(), batches[1].tries, batches[1].free_returns), ("done", 0, 1));
}

#[test]
fn a_run_whose_end_was_cut_short_ends_once_and_leaves_no_container() {
    for_each(&["run.ending", "run.ended"], |point| {
        let Some(root) = House::new("max_concurrent_containers = 1\n") else { return };
        root.g2(&["groups", "add", "other", "--chat", "local:other"]);
        die_at(&root, point, || {
            send(&root, CHAT, "one");
            rest(&root, CHAT);
            tell(&root, "local:other", "two");
        });
        let left = root.container();
        let _daemon = root.serve();
        send(&root, "local:other", "two");
        rest(&root, "local:other");
        assert_eq!(root.said(CHAT), ["echo: one"], "{point}");
        assert_eq!(root.said("local:other"), ["echo: two"], "{point}");
        assert_eq!(runs(&root), ["succeeded", "running"], "{point}");
        assert_ne!(root.container(), left, "{point}: the old one is gone");
        assert_eq!(root.json(&["status"])["stale_recoveries_24h"], 0, "{point}");
    });
}

#[test]
fn sigterm_leaves_containers_to_the_next_daemon() {
    let Some(root) = House::new("") else { return };
    root.script(None, &three_words(500));
    let daemon = root.serve();
    send(&root, CHAT, "count");
    wait_for("the first word", || root.said(CHAT).first().cloned());
    assert_eq!(daemon.terminate(), Some(0));
    let left = root.container();
    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["one", "two", "three"]);
    assert_eq!((runs(&root), root.container()), (vec!["running".to_owned()], left));
    assert_eq!(root.json(&["status"])["stale_recoveries_24h"], 0);
}

#[test]
fn containers_that_go_on_without_a_daemon_are_ended_and_the_next_start_hands_their_work_out_again() {
    let Some(root) = House::new("[health]\nclose_grace_ms = 300\n") else { return };
    root.script(None, &json!([{"do": [{"say": "one"}, {"hang": true}]}]));
    let daemon = root.serve();
    tell(&root, CHAT, "go");
    wait_for("the first word", || root.said(CHAT).first().cloned());
    assert_eq!(daemon.terminate(), Some(0));
    let left = root.container();
    let told = root.g2(&["stop", "--agents"]);
    assert!(told.contains("run 1 of main"), "{told}");
    assert_eq!(root.containers(), [(left, "exited".to_owned())]);
    let told = root.g2(&["stop", "--agents"]);
    assert!(told.contains("no agent of this root"), "{told}");
    let _daemon = root.serve();
    wait_for("the next run", || (runs(&root) == ["cancelled", "running"]).then_some(()));
    let told = "I was told to stop, and begin again with your last message.";
    wait_for("the word again", || (root.said(CHAT) == ["one", told, "one"]).then_some(()));
}

#[test]
fn an_agent_that_waits_for_a_reply_gets_it_from_the_next_daemon() {
    let command = json!({"type": "send_message", "requestId": "r1", "chatJid": CHAT, "text": "by file"});
    let rules =
        json!([{"do": [{"command": {"box": "messages", "json": command}}, {"say": "reply: {{reply}}"}]}]);
    for_each(&["ipc.seen", "ipc.committed"], |point| {
        let Some(root) = House::new("") else { return };
        root.script(None, &rules);
        die_at(&root, point, || tell(&root, CHAT, "go"));
        let _daemon = root.serve();
        send(&root, CHAT, "go");
        rest(&root, CHAT);
        let said = root.said(CHAT);
        assert_eq!(said.len(), 2, "{point}: {said:?}");
        assert!(said[0] == "by file" && said[1].contains(r#""outboxId":1"#), "{point}: {said:?}");
        assert_eq!(runs(&root), ["running"], "{point}");
    });
}

#[test]
fn an_engine_that_is_away_at_the_start_is_waited_for_and_the_turn_goes_on() {
    let Some(root) = House::new("") else { return };
    let engine = env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
    let Some(engine) = engine.strip_prefix("unix://") else { return };
    root.script(None, &three_words(300));
    die_at(&root, "run.record:2", || tell(&root, CHAT, "count"));
    let left = root.container();

    let socket = root.path().join("engine.sock");
    let away = format!("unix://{}", socket.display());
    let _daemon = root.serve_with(&[("DOCKER_HOST", away.as_str())]);
    send(&root, CHAT, "later");
    let status = wait_for("the daemon to say what is wrong", || {
        let status = root.json(&["status"]);
        (status["state"] == "degraded").then_some(status)
    });
    assert_eq!(status["running"], 1, "an engine that does not answer is no empty engine: {status}");
    std::os::unix::fs::symlink(engine, &socket).unwrap();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["one", "two", "three", "one", "two", "three"]);
    assert_eq!((runs(&root), root.container()), (vec!["running".to_owned()], left));
}

#[test]
fn a_copied_root_adopts_nothing_and_leaves_the_first_ones_container_alone() {
    let Some(root) = House::new("") else { return };
    root.script(None, &three_words(100));
    die_at(&root, "run.record:1", || tell(&root, CHAT, "count"));
    let left = root.container();

    let Some(copy) = House::new("") else { return };
    for name in ["g2.sqlite", "g2.sqlite-wal", "g2.sqlite-shm"] {
        let _ = fs::remove_file(copy.data(name));
        if root.data(name).exists() && !name.ends_with("-shm") {
            fs::copy(root.data(name), copy.data(name)).unwrap();
        }
    }
    let daemon = copy.serve();
    rest(&copy, CHAT);
    assert_ne!(copy.instance(), root.instance());
    assert_ne!(copy.container(), left);
    assert_eq!(copy.said(CHAT), ["echo: count"], "its own try, by its own script");
    daemon.kill();

    let _daemon = root.serve();
    rest(&root, CHAT);
    assert_eq!(root.said(CHAT), ["one", "two", "three"]);
    assert_eq!(root.container(), left);
}

/// A root whose agent has a message in hand and does nothing, and its container; the daemon is dead.
fn hanging(toml: &str) -> Option<(House, String)> {
    let root = House::new(toml)?;
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    tell(&root, CHAT, "hello");
    wait_for("the agent to have it in hand", || {
        let ready = "SELECT count(*) FROM runs WHERE ready_at IS NOT NULL";
        (Ledger::of_the_living(&root).number(ready) == 1).then_some(())
    });
    daemon.kill();
    let container = root.container();
    Some((root, container))
}

fn finding(root: &Root, code: &str) -> Option<Value> {
    let status = root.json(&["status"]);
    status["findings"].as_array()?.iter().find(|finding| finding["code"] == code).cloned()
}

#[test]
fn a_run_that_nobody_owns_and_whose_container_is_gone_blocks_its_group_until_a_person_stops_it() {
    let Some((root, container)) = hanging("") else { return };
    docker(&["rm", "--force", "--volumes", &container]);
    root.change_store("UPDATE runs SET owner = NULL, created_at = created_at - 7200000");
    fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "here I am"}]}]"#).unwrap();
    for _ in 0..2 {
        let daemon = root.serve();
        let named = finding(&root, "unowned_run").unwrap();
        assert!(named["text"].as_str().unwrap().contains("run 1 of group main (lane:"), "{named}");
        assert!(named["fix"].as_str().unwrap().contains("g2 runs stop 1 --retry"), "{named}");
        let doctor = root.rows(&["doctor"]);
        assert!(
            doctor.iter().any(|row| row["check"] == "unowned_run" && row["status"] == "fail"),
            "{doctor:?}"
        );
        assert!(
            root.log().contains("a run has no owner") && root.log().contains("minutes=12"),
            "{}",
            root.log()
        );
        assert_eq!(runs(&root), ["running"]);
        daemon.kill();
    }
    let _daemon = root.serve();
    root.g2(&["runs", "stop", "1", "--retry"]);
    wait_for("the answer", || root.said(CHAT).contains(&"here I am".to_owned()).then_some(()));
    assert_eq!(runs(&root), ["cancelled", "running"]);
    assert_eq!(finding(&root, "unowned_run"), None);
}

#[test]
fn a_run_that_nobody_owns_is_adopted_where_its_container_lives() {
    let Some((root, container)) = hanging("") else { return };
    root.change_store("UPDATE runs SET owner = NULL");
    let _daemon = root.serve();
    wait_for("it to have an owner", || {
        let owned = "SELECT count(*) FROM runs WHERE owner IS NOT NULL AND ended_at IS NULL";
        (Ledger::of_the_living(&root).number(owned) == 1).then_some(())
    });
    assert_eq!((root.container(), finding(&root, "unowned_run")), (container, None));
}

#[test]
fn a_run_whose_boxes_cannot_be_opened_is_ended_and_status_names_the_mailbox() {
    let Some((root, _)) = hanging("[health]\nclaim_ms = 300\n") else { return };
    let boxes = root.data("ipc/main");
    fs::rename(&boxes, root.path().join("away")).unwrap();
    fs::write(&boxes, "in the way").unwrap();
    let _daemon = root.serve();
    let error = wait_for("its end", || {
        let runs = root.rows(&["runs", "list"]);
        let run = runs.first().filter(|run| run["ended_at"].is_string())?;
        Some(run["error"].as_str().unwrap_or_default().to_owned())
    });
    assert!(error.contains("its boxes can't be opened"), "{error}");
    let named = finding(&root, "file_events").unwrap();
    assert!(named["text"].as_str().unwrap().contains("the mailbox of main can't be opened"), "{named}");
}
