//! Agents that speak the Agent Client Protocol, with the real daemon.
#![expect(clippy::disallowed_methods, reason = "lays out a script and reads what the model would have seen")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use serde_json::{Value, json};

use crate::support::Root;

/// A root whose agent follows `script`; `toml` goes into `[agent.acp]`.
fn root(script: &Value, toml: &str) -> Root {
    let root = Root::new("");
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/container/agent-runner/tests/fixtures/fake_acp.py");
    let (turns, log) = (root.path().join("script.json"), root.path().join("log.jsonl"));
    fs::write(&turns, script.to_string()).unwrap();
    fs::write(&log, "").unwrap();
    root.settings(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\nprovider = \"acp\"\n[agent.acp]\n\
         command = [\"python3\", \"{agent}\"]\nenv = {{FAKE_SCRIPT = \"{}\", FAKE_LOG = \"{}\"}}\n{toml}\n\
         [limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
        turns.display(),
        log.display()
    ));
    root
}

#[test]
fn messages_are_answered_in_one_session_by_one_run_and_tools_are_commands() {
    let say = json!({"tool_use": {"name": "mcp__g2__send_message", "input": {"text": "on it"}}});
    let root = root(&json!(["one", say, "two"]), "");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "a"), "one\n");
    root.ask("local:main", "b");
    assert_eq!(root.said("local:main"), ["one", "on it", "two"]);
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("running")));
}

#[test]
fn tools_that_the_settings_refuse_do_not_run() {
    let touch = json!({"tool_use": {"name": "Bash", "input": {"command": "touch it-ran"}}});
    let root = root(&json!([touch, "done"]), "refuse = [\"execute\"]");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "a"), "done\n");
    assert!(!root.path().join("groups/main/it-ran").exists());
}

#[test]
fn an_agent_without_a_sandbox_has_to_be_allowed() {
    let root = Root::new("[agent]\nprovider = \"acp\"\n");
    let output = root.command(&["serve"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && words.contains("the ACP agent would run without any sandbox"),
        "{words}"
    );
}

#[test]
fn a_tool_server_of_the_group_is_called_and_its_secret_is_kept_nowhere() {
    let call = json!({"tool_use": {"name": "mcp__weather__forecast", "input": {"city": "Rome"}}});
    let root = root(&json!([call, "sunny"]), "");
    fs::write(root.path().join(".env"), "WEATHER_TOKEN=sk-hush\n").unwrap();
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/container/agent-runner/tests/fixtures/mcp_server.py");
    let set = |value: &str| drop(root.g2(&["groups", "set", "main", &format!("mcp.weather={value}")]));
    set(&format!("WEATHER_TOKEN='${{WEATHER_TOKEN}}' python3 {server}"));
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "a"), "sunny\n");
    let seen = fs::read_to_string(root.path().join("log.jsonl")).unwrap();
    assert!(seen.contains("sunny in Rome, by sk-hush"), "{seen}");
    let tools: Vec<Value> =
        root.rows(&["activity"]).into_iter().filter(|row| row["what"] == "tool").collect();
    assert_eq!(
        tools.iter().map(|row| row["text"].as_str().unwrap()).collect::<Vec<_>>(),
        ["mcp__weather__forecast"]
    );
    let people = root.g2(&["activity"]);
    assert!(people.contains("weather: forecast") && !people.contains("mcp__"), "{people}");
    // What is kept of the launch names the secret, and does not have it.
    let launch = fs::read_to_string(root.data("runs/1/launch.json")).unwrap();
    assert!(launch.contains("${WEATHER_TOKEN}") && !launch.contains("sk-hush"), "{launch}");
    // A server that is taken away is not the next run's.
    set("");
    root.ask("local:main", "b");
    assert_eq!(daemon.terminate(), Some(0));
}
