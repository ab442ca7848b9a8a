//! The main job through the real program: a message goes in, an agent answers.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

#[test]
fn a_message_is_answered() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
}

#[test]
fn a_follow_up_reaches_the_live_run() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "one");
    root.ask("local:main", "two");
    assert_eq!(root.said("local:main"), ["echo: one", "echo: two"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn an_agent_acts_by_a_file_and_hears_the_reply() {
    let root = Root::new("");
    root.script(
        None,
        &json!([{"do": [
            {"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r1", "chatJid": "{{chat_jid}}", "text": "by file"}}},
            {"say": "reply: {{reply}}"},
        ]}]),
    );
    let _daemon = root.serve();
    root.ask("local:main", "go");
    let said = root.said("local:main");
    assert_eq!(said[0], "by file");
    assert!(said[1].contains(r#""ok":true"#) && said[1].contains(r#""outboxId":1"#), "{said:?}");
}

/// The causes of what `why` shows of the outbox, and which of it are answers.
fn shown(why: &Value) -> (Vec<&str>, &Value) {
    let rows = why["outbox"].as_array().unwrap();
    (rows.iter().map(|row| row["cause"].as_str().unwrap()).collect(), &why["answers"])
}

#[test]
fn a_message_counts_as_answered_only_by_an_answer_of_its_own() {
    let root = Root::new("");
    let send = json!({"type": "send_message", "requestId": "r1", "chatJid": "local:main", "text": "by file"});
    root.script(
        None,
        &json!([
            {"when": {"contains": "quiet"}, "do": []},
            {"when": {"contains": "act"}, "do": [{"command": {"box": "messages", "json": send}}]},
            {"when": {"contains": "twice"}, "do": [{"say": "one"}, {"say": "two"}]},
            {"do": [{"say": "loud"}]},
        ]),
    );
    let _daemon = root.serve();
    for text in ["first", "quiet", "act", "twice", "last"] {
        root.ask("local:main", text);
    }
    assert_eq!(root.rows(&["runs", "list"]).len(), 1, "all of it was one run");
    let [first, quiet, act, twice, last] = [1, 2, 3, 4, 5].map(|seq| root.why(seq));
    for (why, rows) in [(&first, 1), (&twice, 2), (&last, 1)] {
        let (causes, answers) = shown(why);
        assert_eq!(why["answer"], "answered; the answer is sent", "{why}");
        assert_eq!((causes.len(), answers.as_array().unwrap().len()), (rows, rows), "{why}");
        assert!(causes.iter().all(|cause| cause.starts_with("run 1 record ")), "{why}");
    }
    assert_eq!(quiet["answer"], "the agent finished with it and said nothing");
    assert_eq!((shown(&quiet), &quiet["commands"]), ((vec![], &json!([])), &json!([])), "{quiet}");
    let answer = act["answer"].as_str().unwrap();
    assert_eq!(answer, "the agent finished with it and did not answer; it sent 1 message by command");
    assert_eq!(
        (shown(&act), act["commands"].as_array().unwrap().len()),
        ((vec!["command 1"], &json!([])), 1)
    );
    let unanswered = |arguments: &[&str]| -> Vec<i64> {
        let rows = root.rows(&[&["messages", "list", "--unanswered"], arguments].concat());
        rows.iter().map(|row| row["seq"].as_i64().unwrap()).collect()
    };
    assert_eq!(unanswered(&[]), [2, 3]);
    assert_eq!(unanswered(&["--chat", "local:main", "--limit", "1"]), [3]);
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    assert!(unanswered(&["--chat", "local:other"]).is_empty());
}

#[test]
fn why_without_a_number_is_about_the_newest_message_of_the_chat() {
    let root = Root::new("");
    let nothing = root.run(&["why"]);
    assert_eq!(nothing.status.code(), Some(1));
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    root.ask("local:main", "one");
    root.ask("local:main", "two");
    root.ask("local:family", "three");
    assert_eq!(root.json(&["why"])["message"]["text"], "two");
    assert_eq!(root.json(&["why", "--chat", "local:family"])["message"]["text"], "three");
    assert_eq!(root.run(&["why", "1", "--chat", "local:family"]).status.code(), Some(2));
}

#[test]
fn nobody_is_at_work_where_no_daemon_runs() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    let seq = root.send("local:main", "hello");
    let at_work = wait_for("an agent at work that was heard of", || {
        let why = root.why(seq);
        let wiring = &why["wirings"][0];
        (wiring["batch_state"] == "claimed" && wiring["last_sign"].is_string()).then_some(why)
    });
    let wiring = &at_work["wirings"][0];
    let answer = at_work["answer"].as_str().unwrap();
    let since =
        format!("an agent is at work on it since {}; its last sign", wiring["since"].as_str().unwrap());
    assert!(answer.starts_with(&since), "{answer}");
    assert!(root.rows(&["messages", "list", "--unanswered"]).len() == 1);
    daemon.kill();
    let answer = root.why(seq)["answer"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("it waits for the daemon, which is not running"), "{answer}");
}

#[test]
fn a_failed_message_names_its_next_try_and_time() {
    let root = Root::new("[limits]\nretry_base_ms = 3600000\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    let seq = root.send("local:main", "hello");
    let why = wait_for("the first failure", || {
        let why = root.why(seq);
        (why["wirings"][0]["tries"] == 1).then_some(why)
    });
    let answer = why["answer"].as_str().unwrap();
    assert!(answer.contains("rests until 2") && answer.contains("then try 2 of 6"), "{answer}");
}
