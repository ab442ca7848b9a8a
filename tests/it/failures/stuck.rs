//! Agents that hang: killed and tried again. Agents that are only slow: left alone.

use serde_json::{Value, json};

use crate::support::{Root, Socket, wait_for};

fn first_run_ended(root: &Root) -> Value {
    wait_for("the first run to end", || {
        root.rows(&["runs", "list"]).into_iter().next().filter(|run| run["ended_at"].is_string())
    })
}

/// The run failed; its error begins so, and names what that rests on.
#[track_caller]
fn ended_badly(run: &Value, with: &str) {
    let error = run["error"].as_str().unwrap_or_default();
    assert!(error.starts_with(with) && error.contains(" ms of processor and "), "{error}");
    assert_eq!(run["status"], "failed");
}

/// A script that does what it is asked to.
fn willing() -> Value {
    json!([{"do": [{"say": "{{text}} done"}]}])
}

#[test]
fn an_agent_that_is_never_ready_is_ended_and_its_message_handed_out_again() {
    let root = Root::new(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", \"sleep 1000\"]\n[health]\nstartup_ms = 1000\n",
    );
    let _daemon = root.serve();
    let seq = root.send("local:main", "hello");
    let run = first_run_ended(&root);
    ended_badly(&run, "not ready within 1 s (last record ");
    wait_for("another try", || (root.rows(&["runs", "list"]).len() > 1).then_some(()));
    assert_eq!(root.why(seq)["wirings"][0]["batch"], 1);
    assert!(root.said("local:main").is_empty());
}

#[test]
fn an_agent_that_hangs_is_killed_and_its_message_tried_again() {
    let root = Root::new("[health]\nclaim_ms = 300\n");
    root.script(Some("main"), &json!([{"do": [{"hang": true}]}]));
    let _daemon = root.serve();
    root.send("local:main", "hello");
    let run = first_run_ended(&root);
    root.script(Some("main"), &willing());
    ended_badly(&run, "ended because it took a message and gave no sign of life for 300 ms (last record ");
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["hello done"]);
}

#[test]
fn an_agent_that_shows_that_it_lives_is_left_alone() {
    let root = Root::new("[health]\nclaim_ms = 2000\n");
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    root.script(
        None,
        &json!([
            {"when": {"contains": "beat"}, "do": [{"heartbeat": true}, {"wait_ms": 3500}, {"say": "done"}]},
            {"do": [{"tool": {"name": "Bash", "timeout_ms": 60_000}}, {"wait_ms": 3500}, {"tool_done": true}, {"say": "built"}]},
        ]),
    );
    let _daemon = root.serve();
    root.send("local:main", "beat");
    root.send("local:other", "build");
    for (chat, said) in [("local:main", "done"), ("local:other", "built")] {
        Socket::connect(&root).rest(chat);
        assert_eq!(root.said(chat), [said]);
    }
    assert_eq!(root.rows(&["runs", "list"]).len(), 2);
}

/// Its runner says which tool it is in and has no heartbeat.
#[test]
fn the_end_of_a_long_tool_is_a_sign_of_life() {
    let agent = r#"
say() { printf "%s\n" ---G2_OUTPUT_START--- "$1" ---G2_OUTPUT_END---; }
tool() { echo "$1" > "$G2_IPC_DIR/state/new" && mv "$G2_IPC_DIR/state/new" "$G2_IPC_DIR/state/container_state.json"; }
batch=$(cat | sed "s/.*\"batchId\":\"\([^\"]*\)\".*/\1/")
say "{\"status\":\"success\",\"result\":null,\"type\":\"ready\",\"protocol\":2,\"seq\":1}"
tool "{\"current_tool\":\"Bash\",\"tool_declared_timeout_ms\":60000}"
sleep 9
tool "{}"
sleep 2
say "{\"status\":\"success\",\"result\":\"built\",\"seq\":2,\"handled\":[\"$batch\"]}"
"#;
    let root = Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", '''{agent}''']\n[health]\nclaim_ms = 6000\n"
    ));
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "build"), "built\n");
    assert_eq!(root.rows(&["runs", "list"])[0]["error"], Value::Null);
}

#[test]
fn a_follow_up_that_waits_for_a_busy_agent_does_not_count_as_taken() {
    let root = Root::new("[health]\nclaim_ms = 2000\n");
    root.script(None, &json!([
        {"when": {"contains": "long"}, "do": [{"heartbeat": true}, {"wait_ms": 5000}, {"say": "long done"}]},
        {"do": [{"say": "{{text}} done"}]},
    ]));
    let _daemon = root.serve();
    let long = root.send("local:main", "long");
    wait_for("the agent to be at work", || {
        (root.why(long)["wirings"][0]["run_status"] == "running").then_some(())
    });
    root.send("local:main", "short");
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["long done", "short done"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn an_agent_that_falls_silent_is_asked_to_leave_and_then_stopped() {
    let root =
        Root::new("[health]\nclaim_ms = 60000\nceiling_ms = 600\ncontainer_ms = 600\nclose_grace_ms = 300\n");
    root.script(Some("main"), &json!([{"do": [{"hang": true}]}]));
    let _daemon = root.serve();
    root.send("local:main", "hello");
    let run = first_run_ended(&root);
    root.script(Some("main"), &willing());
    let why = "ended because it did not leave within 300 ms after it was asked to: no sign of life for 600 ms (last record ";
    ended_badly(&run, why);
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["hello done"]);
}

#[test]
fn an_idle_agent_is_closed_without_an_error_when_it_has_been_silent_for_long() {
    let root = Root::new("[health]\nceiling_ms = 600\ncontainer_ms = 600\n");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let run = first_run_ended(&root);
    assert_eq!((&run["status"], &run["error"]), (&json!("succeeded"), &Value::Null));
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
}

#[test]
fn a_tool_that_nobody_can_answer_ends_the_run() {
    let root = Root::new("");
    root.script(Some("main"), &json!([{"do": [{"tool": {"name": "AskUserQuestion"}}, {"hang": true}]}]));
    let _daemon = root.serve();
    root.send("local:main", "hello");
    let run = first_run_ended(&root);
    root.script(Some("main"), &willing());
    ended_badly(
        &run,
        "ended because it ran the tool AskUserQuestion, which nobody can answer here (last record ",
    );
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["hello done"]);
}
