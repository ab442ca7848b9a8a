//! The scripted agent, step by step.

use ipc_handlers::wire::Kind;
use serde_json::{Value, json};

use crate::fixture::{Home, Runner, launch};

/// Starts a run with one rule.
fn doing(home: &Home, steps: &Value) -> Runner {
    home.launch(&launch("hello", Some(&json!([{"do": steps}])))).ready()
}

#[test]
fn each_word_is_a_record_and_the_last_names_the_batch() {
    let home = Home::new();
    let runner =
        doing(&home, &json!([{"say": "{{text}}, {{group}}"}, {"wait_ms": 1}, {"say": "in {{chat_jid}}"}]));
    runner.says("hello, family", &[]);
    runner.says("in local:kitchen", &["1"]);
}

#[test]
fn a_turn_that_does_not_end_with_a_word_ends_with_a_record_without_text() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"say": "a"}, {"heartbeat": true}]));
    runner.says("a", &[]);
    assert_eq!(runner.result(), (None, vec!["1".to_owned()]));
}

#[test]
fn rules_are_used_up_and_a_turn_without_a_rule_ends_without_a_word() {
    let home = Home::new();
    let script = json!([
        {"when": {"contains": "x"}, "times": 1, "do": [{"say": "x"}]},
        {"times": 1, "do": [{"say": "any"}]}
    ]);
    let runner = home.launch(&launch("x", Some(&script))).ready();
    runner.says("x", &["1"]);
    home.follow_up("2", "x");
    runner.says("any", &["2"]);
    home.follow_up("3", "x");
    assert_eq!(runner.result(), (None, vec!["3".to_owned()]));
}

#[test]
fn a_failed_turn_is_not_handled_and_the_next_one_is_taken() {
    let home = Home::new();
    let script = json!([
        {"when": {"contains": "bad"}, "do": [{"say": "trying"}, {"error": "no {{text}}"}, {"say": "sorry"}]},
        {"do": [{"say": "fine"}]}
    ]);
    let runner = home.launch(&launch("ok", Some(&script))).ready();
    runner.says("fine", &["1"]);
    home.follow_up("2", "bad");
    runner.says("trying", &[]);
    assert_eq!(runner.error(), "no bad");
    runner.says("sorry", &[]);
    home.follow_up("3", "ok");
    runner.says("fine", &["3"]);
    home.close();
    assert!(runner.end().success());
    assert_eq!(home.names("ipc/input"), ["2.claimed"]);
}

#[test]
fn exit_leaves_in_the_middle_of_the_turn() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"say": "a"}, {"exit": 42}]));
    runner.says("a", &[]);
    assert_eq!(runner.end().code(), Some(42));
}

#[test]
fn print_writes_what_is_no_record() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"print": "raw é {{text}}"}, {"say": "a"}]));
    runner.says("a", &["1"]);
    let raw = String::from_utf8(runner.raw()).unwrap();
    assert!(raw.contains("---G2_OUTPUT_END---\nraw é hello---G2_OUTPUT_START---\n"), "{raw}");
}

#[test]
fn deferred_is_said_and_the_turn_goes_on() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"say": "a"}, {"deferred": true}]));
    runner.says("a", &[]);
    let record = runner.record();
    assert_eq!((record.kind, record.result, record.handled.len()), (Kind::Deferred, None, 0));
    assert_eq!(runner.result(), (None, vec!["1".to_owned()]));
}

#[test]
fn a_tool_is_shown_while_it_runs() {
    let home = Home::new();
    let runner = doing(
        &home,
        &json!([
            {"tool": {"name": "Bash", "timeout_ms": 600_000}}, {"print": "one"},
            {"command": {"box": "tasks", "json": {"requestId": "r"}}},
            {"tool_done": true}, {"say": "a"}
        ]),
    );
    home.command("ipc/tasks");
    let state = home.json("ipc/state/container_state.json");
    assert_eq!(
        (&state["current_tool"], &state["tool_declared_timeout_ms"]),
        (&json!("Bash"), &json!(600_000))
    );
    assert!(state["tool_started_at"].as_i64().unwrap() > 1_600_000_000_000);
    home.put("ipc/responses/r.json", "{}");
    runner.says("a", &["1"]);
    let state = home.json("ipc/state/container_state.json");
    assert_eq!(
        state,
        json!({"current_tool": null, "tool_declared_timeout_ms": null, "tool_started_at": null})
    );
    assert_eq!(home.names("ipc/state"), ["container_state.json", "heartbeat"]);
}

#[test]
fn a_blocked_tool_that_runs_is_reported() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"tool": {"name": "AskUserQuestion", "timeout_ms": 1}}, {"say": "a"}]));
    let record = runner.record();
    assert_eq!((record.kind, record.result.as_deref()), (Kind::BlockedTool, Some("AskUserQuestion")));
    runner.says("a", &["1"]);
}

#[test]
fn an_agent_that_hangs_gives_no_sign_of_life() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"print": "here"}, {"hang": true}]));
    runner.printed("here");
    assert!(home.names("ipc/state").is_empty());
}

#[test]
fn the_heartbeat_is_a_sign_of_life_without_a_record() {
    let home = Home::new();
    let runner = doing(&home, &json!([{"heartbeat": true}, {"print": "here"}, {"hang": true}]));
    runner.printed("here");
    assert_eq!(home.names("ipc/state"), ["heartbeat"]);
}

#[test]
fn a_script_that_can_not_be_followed_is_refused_by_rule_and_step() {
    let home = Home::new();
    let script = json!([{"do": [{"say": "a"}]}, {"do": [{"say": "a"}, {"jump": "b"}]}]);
    let runner = home.launch(&launch("hello", Some(&script)));
    let error = runner.error();
    assert!(error.contains("rule 2, step 2") && error.contains("`jump`"), "{error}");
    assert_eq!(runner.end().code(), Some(1));
}
