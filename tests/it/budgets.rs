//! Budgets of a day, with a real daemon: what is used up waits, is told once, and goes on.
//!
//! | dies at | on disk | the next daemon |
//! |---|---|---|
//! | `budget.written` | nothing of it | looks, writes it down, says it once |
//! | `budget.noted` | how the budget stands, and what is said of it | holds the group, says nothing again |
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::{
    crash::scene::KILLED,
    gateway::{
        daemon::{AWAKE, awake},
        host::{Host, message},
        scene::ask,
    },
    support::{Root, fail_points, noon, wait_for},
};

const CHAT: &str = "local:main";

/// What was said to main's chat of budgets, by its cause.
fn told(root: &Root) -> Vec<String> {
    let causes = root.rows(&["outbox", "list", "--chat", CHAT]);
    let causes = causes.iter().map(|row| row["cause"].as_str().unwrap().to_owned());
    causes.filter(|cause| cause.contains("budget")).collect()
}

const NEARLY: &str = "notice: budget of main nearly used up";
const USED_UP: &str = "notice: budget of main used up";

/// Has a run of main have gone on for these minutes until now.
fn ran(root: &Root, minutes: i64) {
    root.change_store(&format!(
        "INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at, started_at, ended_at)
         SELECT 'main', '{CHAT}', 'message', 1, 'succeeded', 'process', 0, at, at, at + {minutes} * 60000
         FROM (SELECT (unixepoch() - {minutes} * 60) * 1000 AS at)"
    ));
}

/// Waits until a message waits for the budget; returns why.
fn out(root: &Root, seq: i64) -> String {
    wait_for("the message to wait for the budget", || {
        let why = root.why(seq);
        let waits = why["wirings"][0]["waited_for"].as_str()?.to_owned();
        waits.contains("budget of the day").then_some(waits)
    })
}

#[test]
fn requests_beyond_the_budget_are_refused_and_the_work_waits_until_there_is_more() {
    let host = Host::always(message("claude-x", 10, 7));
    let prices = "[budget.prices.\"claude-\"]\ninput = 1000.0\noutput = 2000.0\ncache_read = 100.0\n";
    let root = Root::new(&format!("{AWAKE}[budget]\nrequests = 5\nmoney = 100.0\n{prices}"));
    let zone = noon();
    let environment = [("ANTHROPIC_BASE_URL", &*host.url()), ("TZ", &*zone)];
    let (daemon, socket) = awake(&root, &environment);
    (0..3).for_each(|_| assert_eq!(ask(&socket, "{}").status, 200));
    assert_eq!(told(&root), [""; 0]);
    assert_eq!(ask(&socket, "{}").status, 200);
    wait_for("the warning", || (told(&root) == [NEARLY]).then_some(()));
    let ps = wait_for("the run to be shown with its budget", || {
        root.rows(&["ps"]).into_iter().next().filter(|run| run["budget"].is_string())
    });
    assert_eq!(ps["budget"], "4 of 5 requests");
    assert_eq!(ask(&socket, "{}").status, 200);
    for _ in 0..3 {
        let refused = ask(&socket, "{}");
        let (kind, words) = refused.error();
        assert_eq!((refused.status, kind.as_str()), (402, "billing_error"));
        assert!(
            words.starts_with("g2: the budget of group main for today is used up (5 of 5 requests)"),
            "{words}"
        );
        assert!(words.contains("g2 groups set main budget.requests=N"), "{words}");
    }
    let seq = root.send(CHAT, "and now?");
    assert!(out(&root, seq).contains("5 of 5 requests"));
    wait_for("the chat to be told", || (told(&root) == [NEARLY, USED_UP]).then_some(()));
    let usage = root.rows_in(&zone, &["usage", "--budgets"]);
    let shares: Vec<_> =
        usage.iter().map(|row| (&row["part"], &row["used"], &row["percent"], &row["state"])).collect();
    // Ten tokens in, three of a cache, seven out, five times.
    let requests = (&json!("requests"), &json!(5.0), &json!(100), &json!("out"));
    assert_eq!(shares, [requests, (&json!("money"), &json!(0.1215), &json!(0), &json!("enough"))]);
    assert_eq!(root.rows(&["usage"])[0]["money"], json!(0.1215));
    assert_eq!(root.json(&["runs", "show", "1"])["money"], json!(0.1215));
    let lanes = root.rows(&["lanes", "list"]);
    assert!(lanes[0]["waits_for"].as_str().unwrap().contains("budget of the day"), "{lanes:?}");
    let status = root.json(&["status"]);
    assert!(status["waits"][0]["waits_for"].as_str().unwrap().contains("budget of the day"), "{status}");

    // Nothing is told twice on one day, and nothing is launched.
    daemon.kill();
    let _daemon = root.serve_with(&environment);
    let other = root.send(CHAT, "still?");
    out(&root, other);
    assert_eq!(told(&root), [NEARLY, USED_UP]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
    root.g2(&["groups", "set", "main", "budget.requests=100"]);
    wait_for("another run", || (root.rows(&["runs", "list"]).len() == 2).then_some(()));
    let shown = root.command(&["--json", "groups", "show", "main"]).env("TZ", &zone).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["budget"][0]["used"], &shown["budget"][0]["budget"]), (&json!(5.0), &json!(100.0)));
}

#[test]
fn minutes_of_containers_are_bounded_and_a_task_follows_its_catch_up_rule() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"say": "echo: {{text}}"}]}]));
    root.g2(&["groups", "set", "main", "budget.minutes=10"]);
    ran(&root, 20);
    let zone = noon();
    let daemon = root.serve_with(&[("TZ", &zone)]);
    for (id, policy) in [("no", "skip"), ("yes", "latest")] {
        let command = json!({"type": "schedule_task", "taskId": id, "prompt": id, "schedule_type": "interval",
            "schedule_value": "3600000", "catchUp": policy, "output": "chat"});
        root.put_command("main", "tasks", &format!("{id}.json"), &command);
        root.settled_file("main", &format!("{id}.json"));
    }
    let seq = root.send(CHAT, "hello");
    assert!(out(&root, seq).contains("20 of 10 minutes"));
    wait_for("the chat to be told", || (told(&root) == [NEARLY, USED_UP]).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    // Their times come while there is nothing left.
    root.change_store("UPDATE tasks SET next_run = unixepoch() * 1000 - 1000");
    let daemon = root.serve_with(&[("TZ", &zone)]);
    out(&root, seq);
    // Of what came before the daemon was up, it has another reason.
    root.change_store("UPDATE tasks SET next_run = unixepoch() * 1000 + 50");
    wait_for("both to be due", || {
        let waits = root.json(&["status"])["waits"].clone();
        waits.as_array()?.iter().any(|row| row["task"].is_string()).then_some(())
    });
    root.g2(&["groups", "set", "main", "budget.minutes="]);
    let history = |id: &str| -> Vec<(Value, Value)> {
        let rows = root.rows(&["tasks", "history", id]);
        rows.into_iter().map(|row| (row["outcome"].clone(), row["reason"].clone())).collect()
    };
    wait_for("the one that is not made up for to be missed", || {
        (history("no") == [(json!("missed"), json!("budget used up"))]).then_some(())
    });
    wait_for("the other to run", || (root.said(CHAT).contains(&"echo: yes".to_owned())).then_some(()));
    wait_for("the answer", || (root.said(CHAT).contains(&"echo: hello".to_owned())).then_some(()));
    assert_eq!(
        (history("yes")[0].0.clone(), told(&root)),
        (json!("ran"), vec![NEARLY.to_owned(), USED_UP.to_owned()])
    );
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn what_is_said_of_a_budget_is_said_once_wherever_the_daemon_dies() {
    if !fail_points() {
        return;
    }
    let zone = noon();
    // The second of them is that of the message that waits.
    for (step, nth) in
        [("budget.written", 1), ("budget.noted", 1), ("budget.written", 2), ("budget.noted", 2)]
    {
        let root = Root::new("");
        ran(&root, 20);
        let daemon = root.serve_with(&[("G2_FAILPOINT", &format!("{step}:{nth}")), ("TZ", &zone)]);
        // The answer to one of them is what the daemon dies over.
        root.run(&["groups", "set", "main", "budget.minutes=10"]);
        root.run(&["send", "--chat", CHAT, "hello"]);
        assert_eq!(daemon.signal(), Some(KILLED), "{step}:{nth}");
        let _daemon = root.serve_with(&[("TZ", &zone)]);
        let seq = root.send(CHAT, "and now?");
        out(&root, seq);
        wait_for("the chat to be told", || told(&root).contains(&USED_UP.to_owned()).then_some(()));
        root.g2(&["groups", "set", "main", "budget.minutes=0"]);
        wait_for("the answer", || root.said(CHAT).iter().any(|said| said.contains("and now?")).then_some(()));
        assert_eq!(told(&root), [NEARLY, USED_UP], "{step}:{nth}");
    }
}

#[test]
fn a_budget_that_can_t_hold_is_refused() {
    let root = Root::new("");
    let output = root.run(&["groups", "set", "main", "budget.money=5"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("prices"), "{said}");
    root.settings("[budget]\nmoney = 5.0\n");
    let output = root.run(&["status"]);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.contains("budget.prices"), "{said}");
}
