//! Tool servers of a group's own, with the real Claude Code in a container; and as the doctor tries them.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use serde_json::{Value, json};

use super::house::{CHAT, House};

/// A server with one tool, for an image that has a shell and jq.
pub(super) const SERVER: &str = r#"#!/bin/sh
while IFS= read -r line; do
  id=$(printf %s "$line" | jq -c .id)
  case $(printf %s "$line" | jq -r .method) in
  initialize) result=$(printf %s "$line" | jq -c '{protocolVersion: .params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "weather", version: "7"}}') ;;
  tools/list) result='{"tools":[{"name":"forecast","inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}}]}' ;;
  tools/call) result=$(printf %s "$line" | jq -c --arg by "$WEATHER_TOKEN" '{content: [{type: "text", text: ("sunny in " + .params.arguments.city + ", by " + $by)}]}') ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A root with the server in the main group's folder, and a secret for it.
fn house(script: &Value) -> Option<House> {
    let house = House::new("", script)?;
    fs::write(house.path().join("groups/main/weather.sh"), SERVER).unwrap();
    let dotenv = house.path().join(".env");
    let text = fs::read_to_string(&dotenv).unwrap();
    fs::write(dotenv, format!("{text}WEATHER_TOKEN=sk-hush\n")).unwrap();
    house.g2(&[
        "groups",
        "set",
        "main",
        "mcp.weather=WEATHER_TOKEN='${WEATHER_TOKEN}' sh /workspace/group/weather.sh",
    ]);
    Some(house)
}

#[test]
fn a_tool_server_of_the_group_answers_the_agent_in_its_container() {
    let call = json!({"tool_use": {"name": "mcp__weather__forecast", "input": {"city": "Rome"}}});
    let Some(house) = house(&json!([call, "sunny"])) else { return };
    let daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "sunny\n");
    let tools: Vec<Value> =
        house.rows(&["activity"]).into_iter().filter(|row| row["what"] == "tool").collect();
    assert_eq!(tools[0]["text"], "mcp__weather__forecast", "{tools:?}");
    let people = house.g2(&["activity"]);
    assert!(people.contains("weather: forecast") && !people.contains("mcp__"), "{people}");
    let asked = serde_json::to_string(&house.model.requests()).unwrap();
    assert!(asked.contains("sunny in Rome, by sk-hush"), "{asked}");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn the_doctor_has_each_server_answer_in_a_container_and_waits_for_none_without_end() {
    let Some(house) = house(&json!(["hello"])) else { return };
    let told_before = house.rows(&["doctor"]);
    if rustix::process::geteuid().is_root() {
        let words = "the group's folder is given to its agent by its next run";
        assert!(
            told_before.iter().any(|row| row["detail"].as_str().unwrap().contains(words)),
            "{told_before:?}"
        );
    }
    let daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "hello\n");
    assert_eq!(daemon.terminate(), Some(0));
    for (name, command) in [
        ("dies", "sh -c 'echo no such module >&2; exit 3'"),
        ("silent", "sleep 600"),
        ("floods", "sh -c 'yes | tr -d \"\\n\"'"),
        ("talks", "sh -c 'while :; do echo this is no JSON; sleep 1; done'"),
        ("none", "/no/such/program"),
        ("lacking", "A='${NOT_THERE}' x"),
        ("away", "https://mcp.example.com/"),
    ] {
        house.g2(&["groups", "set", "main", &format!("mcp.{name}={command}")]);
    }
    let rows = house.rows(&["doctor"]);
    let told = |name: &str| -> Vec<String> {
        let of = format!("the tool server {name} of");
        let rows =
            rows.iter().filter(|row| row["detail"].as_str().is_some_and(|detail| detail.contains(&of)));
        rows.map(|row| format!("{}: {}", row["status"].as_str().unwrap(), row["detail"].as_str().unwrap()))
            .collect()
    };
    let one = |name: &str, status: &str, words: &str| {
        let told = told(name);
        assert!(told.iter().any(|row| row.starts_with(status) && row.contains(words)), "{name}: {told:?}");
    };
    one("weather", "ok", "it answers as weather 7");
    one("dies", "fail", "it ended with exit code 3 before it answered; it said: no such module");
    one("silent", "fail", "it gave no answer within 20 s");
    one("floods", "fail", "it writes without end");
    one("talks", "fail", "it said: ");
    one("none", "fail", "exit code 127");
    one("lacking", "warn", ".env has no NOT_THERE");
    one("away", "warn", "the group reaches its model only");
    one("away", "ok", "is not tried");
    assert!(!format!("{rows:?}").contains("sk-hush"));
    let left = crate::support::run_docker(&["ps", "--all", "--quiet", "--filter", "name=g2-trial-"]);
    assert_eq!(left.trim(), "", "no container is left");
}

#[test]
fn without_an_engine_the_doctor_says_that_servers_are_not_tried() {
    let root = crate::support::Root::new("");
    root.g2(&["groups", "set", "main", "mcp.weather=weather"]);
    let rows = root.rows(&["doctor"]);
    let told = |words: &str| {
        rows.iter()
            .any(|row| row["check"] == "tool_server" && row["detail"].as_str().unwrap().contains(words))
    };
    assert!(told("1 tool server not tried: agents run without containers here"), "{rows:?}");
    root.settings("[sandbox]\nkind = \"docker\"\n");
    let output =
        root.command(&["--json", "doctor"]).env("DOCKER_HOST", "unix:///nowhere.sock").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("1 tool server not tried: the container engine does not answer"), "{text}");
}
