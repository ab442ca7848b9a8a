//! Whose turn it is in a group: people and tasks, lanes that rest and tasks that fail.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::{
    crash::scene::die_at,
    support::{Root, Socket, wait_for},
};

const CHAT: &str = "local:main";

/// Adds a task with a schedule of milliseconds.
fn every(root: &Root, id: &str, ms: i64, prompt: &str) {
    let ms = ms.to_string();
    root.g2(&["tasks", "add", "--group", "main", "--id", id, "--type", "interval", "--value", &ms, prompt]);
}

fn task(root: &Root, id: &str) -> Value {
    root.json(&["tasks", "show", id])
}

fn runs_of(root: &Root, source: &str) -> Vec<Value> {
    root.rows(&["runs", "list"]).into_iter().filter(|run| run["source"] == source).collect()
}

/// What `status` finds of this code.
fn finding(root: &Root, code: &str) -> Option<Value> {
    let status = root.json(&["status"]);
    status["findings"].as_array().unwrap().iter().find(|one| one["code"] == code).cloned()
}

#[test]
fn a_person_waits_for_two_ended_runs_at_most_although_two_tasks_are_always_due() {
    let root = Root::new("");
    root.script(
        None,
        &json!([{"when": {"contains": "tick"}, "do": [{"wait_ms": 1500}]}, {"do": [{"say": "echo: {{text}}"}]}]),
    );
    let _daemon = root.serve();
    every(&root, "a", 1000, "tick");
    every(&root, "b", 1000, "tick");
    wait_for("both to be at it", || {
        ["task:a", "task:b"].iter().all(|source| !runs_of(&root, source).is_empty()).then_some(())
    });
    for text in ["one", "two"] {
        let seq = root.send(CHAT, text);
        Socket::connect(&root).rest(CHAT);
        let (why, runs) = (root.why(seq), root.rows(&["runs", "list"]));
        let came = why["message"]["received_at"].as_str().unwrap();
        let own = runs.iter().find(|run| run["id"] == why["wirings"][0]["run"]).unwrap();
        let ended = |run: &&Value| {
            let ended = run["ended_at"].as_str();
            ended.is_some_and(|at| at > came && at <= own["started_at"].as_str().unwrap())
        };
        assert!(runs.iter().filter(ended).count() <= 2, "{text}: {runs:#?}");
    }
    // Nor does a person who goes on writing keep the tasks from their turns.
    let before = root.rows(&["runs", "list"]).len();
    for text in ["three", "four", "five"] {
        root.ask(CHAT, text);
    }
    let ticks = |runs: &[Value]| runs.iter().filter(|run| run["kind"] == "task").count();
    wait_for("the tasks to have turns too", || {
        (ticks(&root.rows(&["runs", "list"])[before..]) >= 2).then_some(())
    });
}

#[test]
fn who_waits_for_what_since_when_is_told() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    every(&root, "t", 3_600_000, "water");
    root.g2(&["tasks", "run", "t"]);
    let run = wait_for("the task to be at work", || runs_of(&root, "task:t").into_iter().next());
    let seq = root.send(CHAT, "hello");
    root.judged(seq);
    every(&root, "u", 3_600_000, "feed");
    root.g2(&["tasks", "run", "u"]);
    let waits = |value: &Value| {
        value.as_str().unwrap().starts_with(&format!(
            "the group's container, which is at other work (run {}, of task t, since 2",
            run["id"]
        ))
    };
    let why = root.why(seq);
    assert!(waits(&why["wirings"][0]["waited_for"]), "{why:#}");
    let status = root.json(&["status"]);
    let rows = status["waits"].as_array().unwrap();
    let named: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["chat_jid"], &row["task"])).collect();
    assert_eq!(named, [(&json!(CHAT), &Value::Null), (&json!(CHAT), &json!("u"))], "{status:#}");
    assert!(rows.iter().all(|row| row["group"] == "main" && waits(&row["waits_for"])), "{status:#}");
    assert_eq!(rows[0]["since"], why["message"]["received_at"]);
    assert_eq!(rows[1]["since"], task(&root, "u")["next_run"]);
    let lanes = root.rows(&["lanes", "list"]);
    let lane = &lanes[0];
    assert_eq!((lanes.len(), &lane["waiting"], &lane["since"]), (1, &json!(1), &rows[0]["since"]));
    assert!(waits(&lane["waits_for"]) && lane["rest_until"].is_null(), "{lane}");
    root.open_gate();
    Socket::connect(&root).rest(CHAT);
    // Its container stays for the next message, unless the other task has its turn already.
    assert_eq!(root.said(CHAT), ["echo: hello"]);
}

#[test]
fn a_task_whose_runs_hang_rests_and_the_chat_does_not() {
    let root = Root::new("[health]\nclaim_ms = 300\n");
    let rules =
        json!([{"when": {"contains": "water"}, "do": [{"hang": true}]}, {"do": [{"say": "echo: {{text}}"}]}]);
    root.script(None, &rules);
    let _daemon = root.serve();
    every(&root, "t", 1000, "water");
    let rests =
        wait_for("the task to rest", || Some(task(&root, "t")).filter(|task| task["rest_until"].is_string()));
    assert_eq!((&rests["status"], &rests["next_run"]), (&json!("active"), &rests["rest_until"]));
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
    assert_eq!(runs_of(&root, "task:t").len(), 3);
    let told = "Scheduled task t (“water”) got stuck three times within an hour, so it rests for an hour. g2 tasks resume t has it run at once.";
    assert_eq!(root.said(CHAT), [told, "echo: hello"]);
    let found = finding(&root, "task_rests").unwrap();
    assert!(found["fix"].as_str().unwrap().contains("g2 tasks resume t --group main"), "{found}");

    // By hand its rest is over at once, and it is killed again: nobody is told twice.
    root.g2(&["tasks", "resume", "t"]);
    wait_for("it to be tried again", || (runs_of(&root, "task:t").len() > 3).then_some(()));
    wait_for("it to rest again", || task(&root, "t")["rest_until"].is_string().then_some(()));
    root.g2(&["tasks", "cancel", "t"]);
    assert_eq!(finding(&root, "task_rests"), None);
}

#[test]
fn a_task_that_comes_again_before_another_try_is_paused_after_eight_failures_and_told() {
    let root = Root::new("[limits]\nretry_base_ms = 5000\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    every(&root, "t", 1000, "water");
    let paused = wait_for("the task to be paused", || {
        Some(task(&root, "t")).filter(|task| task["status"] == "paused")
    });
    let why = "failed 8 times in a row, the last time: exited with code 3";
    assert_eq!((&paused["paused_for"], &paused["failures"]), (&json!(why), &json!(8)));
    assert_eq!(runs_of(&root, "task:t").len(), 8);
    let told = [
        "Scheduled task t (“water”) failed: I tried 3 times, and the last time I crashed.",
        "Scheduled task t (“water”) failed 8 times in a row, the last time because I crashed, so it is paused. g2 tasks resume t has it run again.",
    ];
    wait_for("the chat to be told", || (root.said(CHAT) == told).then_some(()));
    let found = finding(&root, "task_paused").unwrap();
    assert!(found["text"].as_str().unwrap().ends_with(&format!("is paused: it {why}")), "{found}");
    let doctor = root.json(&["doctor"]);
    assert!(doctor.as_array().unwrap().iter().any(|row| row["check"] == "task_paused"), "{doctor:#}");

    root.g2(&["tasks", "resume", "t"]);
    let resumed = task(&root, "t");
    assert_eq!(
        [&resumed["status"], &resumed["failures"], &resumed["paused_for"]],
        [&json!("active"), &json!(0), &Value::Null]
    );
    assert_eq!(finding(&root, "task_paused"), None);
    root.g2(&["tasks", "cancel", "t"]);
}

#[test]
fn a_task_that_fails_every_hour_is_told_once_and_once_of_its_pause() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    every(&root, "t", 3_600_000, "water");
    for hour in 1..=8 {
        root.g2(&["tasks", "run", "t"]);
        wait_for("its tries to fail", || (task(&root, "t")["failures"] == hour).then_some(()));
        // Once, and three times again.
        assert_eq!(runs_of(&root, "task:t").len(), hour * 4);
    }
    assert_eq!(task(&root, "t")["status"], "paused");
    wait_for("the chat to be told", || (root.said(CHAT).len() == 2).then_some(()));
    assert!(root.said(CHAT)[1].contains("failed 8 times in a row"), "{:?}", root.said(CHAT));
}

#[test]
fn what_a_task_fails_at_is_not_laid_on_its_group() {
    let root = Root::new("");
    root.script(
        None,
        &json!([{"when": {"contains": "water"}, "do": [{"exit": 3}]}, {"do": [{"say": "fine"}]}]),
    );
    let _daemon = root.serve();
    every(&root, "t", 3_600_000, "water");
    root.g2(&["tasks", "run", "t"]);
    wait_for("its tries to fail", || (task(&root, "t")["failures"] == 1).then_some(()));
    let found = finding(&root, "task_fails").unwrap();
    assert!(
        found["text"].as_str().unwrap().starts_with("the last 4 runs of task t of group main failed"),
        "{found}"
    );
    assert_eq!(finding(&root, "runs_fail"), None);
}

/// A root in which the lane of `local:main` rests after three kills, with a message in it.
fn resting() -> (Root, crate::support::Daemon) {
    let root = Root::new("[health]\nclaim_ms = 300\n");
    root.script(Some("main"), &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    root.send(CHAT, "hello");
    wait_for("the lane to rest", || {
        root.rows(&["lanes", "list"])
            .iter()
            .any(|lane| lane["rest_until"].is_string() && lane["waiting"] == 1)
            .then_some(())
    });
    wait_for("the third kill", || (runs_of(&root, "lane:1").len() == 3).then_some(()));
    wait_for("the chat to be told", || (root.said(CHAT).len() == 1).then_some(()));
    root.script(Some("main"), &json!([{"do": [{"say": "{{text}} done"}]}]));
    (root, daemon)
}

#[test]
fn a_lane_that_rests_is_woken_by_hand() {
    let (root, _daemon) = resting();
    let lanes = root.rows(&["lanes", "list"]);
    let why = lanes[0]["why"].as_str().unwrap();
    assert!(
        why.starts_with("ended because it took a message and gave no sign of life for 300 ms ("),
        "{why}"
    );
    let answer = root.why(1)["answer"].to_string();
    assert!(answer.contains("no sign of life for 300 ms (last record "), "{answer}");
    assert!(lanes[0]["waits_for"].as_str().unwrap().starts_with("the lane, which rests until "), "{lanes:?}");
    assert_eq!(root.json(&["lanes", "wake", "main", "--chat", "local:other"])["lanes"], json!([]));
    assert_eq!(runs_of(&root, "lane:1").len(), 3);
    let woken = root.json(&["lanes", "wake", "main"]);
    assert_eq!(
        (&woken["lanes"][0]["chat_jid"], &woken["lanes"][0]["rest_until"]),
        (&json!(CHAT), &Value::Null)
    );
    Socket::connect(&root).rest(CHAT);
    assert_eq!(root.said(CHAT)[1..], ["hello done"]);
    assert!(!root.run(&["lanes", "wake", "nobody"]).status.success());
}

#[test]
fn a_lane_that_was_woken_with_the_daemon_down_goes_on_at_its_start() {
    let (root, daemon) = resting();
    assert_eq!(daemon.terminate(), Some(0));
    root.g2(&["lanes", "wake", "main"]);
    let _daemon = root.serve();
    Socket::connect(&root).rest(CHAT);
    assert_eq!(root.said(CHAT)[1..], ["hello done"]);
}

#[test]
fn an_owners_word_wakes_a_lane_that_rests_and_a_guests_does_not() {
    let (root, _daemon) = resting();
    let guests: i64 =
        root.g2(&["send", "--chat", CHAT, "--as", "bob", "are you there?"]).trim().parse().unwrap();
    root.judged(guests);
    assert_eq!(root.rows(&["lanes", "list"])[0]["waiting"], 2);
    assert_eq!(runs_of(&root, "lane:1").len(), 3);
    root.send(CHAT, "wake up");
    Socket::connect(&root).rest(CHAT);
    let said = root.said(CHAT);
    assert_eq!((said[1].as_str(), said.last().unwrap().as_str()), ("hello done", "wake up done"), "{said:?}");
}

#[test]
fn a_task_that_was_killed_for_the_third_time_rests_after_a_restart_too() {
    for (step, runs) in [("run.ending:3", 4), ("run.ended:3", 3)] {
        let root = Root::new("[health]\nclaim_ms = 300\n");
        root.script(None, &json!([{"do": [{"hang": true}]}]));
        die_at(&root, step, || {
            every(&root, "t", 3_600_000, "water");
            root.g2(&["tasks", "run", "t"]);
        });
        let _daemon = root.serve();
        wait_for("the task to rest", || task(&root, "t")["rest_until"].is_string().then_some(()));
        // A kill that the daemon died over, before it was written down, is its own and no kill of the task's.
        assert_eq!(runs_of(&root, "task:t").len(), runs, "{step}");
        wait_for("the chat to be told", || (root.said(CHAT).len() == 1).then_some(()));
        assert!(root.said(CHAT)[0].contains("rests for an hour"), "{step}: {:?}", root.said(CHAT));
    }
}
