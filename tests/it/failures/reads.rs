//! Reads of the store that fail for a while: what was to be done is done as soon as they work again, with nobody's help. Until
//! then `status` says so.

use serde_json::{Value, json};

use crate::{
    crash::scene::{arm, workers},
    support::{DEADLINE, Root, fail_points, wait_for},
};

/// Changes the schema from outside, so that some reads fail and all writes go on, or changes it back.
pub(super) fn change(root: &Root, sql: &str) {
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.busy_timeout(DEADLINE).unwrap();
    // What refers to a table goes on to name it.
    store.execute_batch("PRAGMA legacy_alter_table = ON").unwrap();
    store.execute_batch(sql).unwrap();
}

/// The problem that names this, if `status` has it.
fn problem(root: &Root, words: &str) -> Option<Value> {
    let findings = root.json(&["status"])["findings"].as_array().cloned().unwrap_or_default();
    findings.into_iter().find(|finding| finding["text"].as_str().is_some_and(|text| text.contains(words)))
}

#[test]
fn messages_that_could_not_be_read_are_judged_without_another_one_and_status_says_that_they_wait() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "before");
    change(&root, "DROP INDEX file_holds_by_lane");
    root.send("local:main", "hello");
    wait_for("status to say so", || problem(&root, "the loop dispatch can't look at what is to be done"));
    change(&root, "CREATE INDEX file_holds_by_lane ON file_holds (lane_id, n)");
    wait_for("the answer", || (root.said("local:main") == ["echo: before", "echo: hello"]).then_some(()));
    assert_eq!(root.json(&["status"])["state"], "healthy");
    // However often it was tried.
    assert!(root.log().matches("a loop can't look").count() <= 4, "{}", root.log());
}

#[test]
fn a_start_that_cannot_read_the_runs_launches_nothing_and_recovers_them_when_it_can() {
    let root = Root::new("");
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    root.send("local:main", "hello");
    wait_for("the agent to have it in hand", || {
        (root.rows(&["runs", "list"]).first()?["records"].as_i64()? > 0).then_some(())
    });
    daemon.kill();
    std::fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "here I am"}]}]"#).unwrap();
    change(&root, "ALTER TABLE runs RENAME COLUMN stop_by TO stopped_by");
    let _daemon = root.serve();
    let beside = root.send("local:other", "hello");
    root.judged(beside);
    let obstacle = root.json(&["status"])["obstacle"].as_str().unwrap_or_default().to_owned();
    assert!(obstacle.contains("the runs of an earlier daemon can't be read"), "{obstacle}");
    assert!(problem(&root, "the work of an earlier daemon can't be read").is_some());
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("running")), "{runs:?}");
    change(&root, "ALTER TABLE runs RENAME COLUMN stopped_by TO stop_by");
    for chat in ["local:main", "local:other"] {
        wait_for(chat, || (root.said(chat) == ["here I am"]).then_some(()));
    }
    assert_eq!(root.rows(&["runs", "list"])[0]["error"], "recovered stale active run");
    wait_for("the obstacle to be gone", || root.json(&["status"])["obstacle"].is_null().then_some(()));
}

/// What supervises it panics once its agent is gone; nobody can read then which runs there are.
#[test]
fn a_run_whose_supervisor_fails_while_the_runs_cannot_be_read_is_ended_when_they_can() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let _daemon = arm(&root, "run.ending:1:panic");
    root.send("local:main", "hello");
    let agent = wait_for("the agent to have it in hand", || {
        let has_it = root.rows(&["runs", "list"]).first()?["records"] == 1;
        has_it.then(|| workers(&root)).filter(|workers| workers.len() == 1)
    })[0];
    std::fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "here I am"}]}]"#).unwrap();
    change(&root, "ALTER TABLE runs RENAME COLUMN stop_by TO stopped_by");
    let agent = rustix::process::Pid::from_raw(i32::try_from(agent).unwrap()).unwrap();
    rustix::process::kill_process(agent, rustix::process::Signal::KILL).unwrap();
    wait_for("its supervisor to panic", || root.path().join("reached").exists().then_some(()));
    wait_for("status to say so", || problem(&root, "the runs can't be read"));
    change(&root, "ALTER TABLE runs RENAME COLUMN stopped_by TO stop_by");
    wait_for("the next try", || (root.said("local:main") == ["here I am"]).then_some(()));
    let first = &root.rows(&["runs", "list"])[0];
    assert_eq!(first["status"], "failed");
    assert!(first["error"].as_str().unwrap().contains("a fault of the host's own"), "{first}");
}

#[test]
fn a_session_that_is_cleared_while_lanes_cannot_be_read_is_left_when_they_can() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "before");
    assert!(root.rows(&["runs", "list"])[0]["ended_at"].is_null(), "its agent waits for more");
    change(&root, "ALTER TABLE sessions RENAME COLUMN rest_until TO rests_until");
    root.g2(&["sessions", "clear", "main"]);
    wait_for("status to say so", || problem(&root, "the loop dispatch can't look at what is to be done"));
    assert!(root.rows(&["runs", "list"])[0]["ended_at"].is_null());
    change(&root, "ALTER TABLE sessions RENAME COLUMN rests_until TO rest_until");
    wait_for("the agent to be asked to leave", || {
        root.rows(&["runs", "list"])[0]["ended_at"].is_string().then_some(())
    });
    assert_eq!(root.ask("local:main", "after").trim(), "echo: after");
}

#[test]
fn cards_and_reactions_that_cannot_be_read_end_no_daemon_and_are_looked_after_later() {
    let root = Root::new("");
    // A reaction to a message that no agent has in hand any more, and the card of a closed question, which was never said.
    change(
        &root,
        "INSERT INTO outbox (chat_jid, text, status, cause, created_at) VALUES ('local:main', 'card', 'failed', 'test', 0);
         INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at)
         VALUES ('sender', 'local:main', 'tg:1', 'one', 'expired', 'local:me', 'local:main', '[]', 0, 0, 0);
         INSERT INTO amends (outbox_id, approval_id) SELECT max(o.id), max(a.id) FROM outbox o, approvals a;
         INSERT INTO amends (batch, chat_jid, message_id) VALUES (1, 'local:main', '1');
         ALTER TABLE amends RENAME TO amends_away",
    );
    let daemon = root.serve();
    let words = "a loop can't look; it looks again after a rest loop=amends";
    wait_for(words, || (root.log().contains(words) || daemon.has_ended()).then_some(()));
    assert_eq!(root.ask("local:main", "hello").trim(), "echo: hello");
    assert!(!daemon.has_ended());
    change(&root, "ALTER TABLE amends_away RENAME TO amends");
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    wait_for("both to be looked after", || {
        let left: i64 = store.query_row("SELECT count(*) FROM amends", [], |row| row.get(0)).unwrap();
        (left == 0).then_some(())
    });
}
