//! The schemas fit every golden command and reply.

use ipc_handlers::schema;
use serde_json::{Value, json};

mod fits;
mod golden;
use fits::fits;
use golden::GOLDEN;

fn part<'a>(root: &'a Value, name: &str) -> &'a Value {
    &root["$defs"][name]
}

#[test]
fn every_golden_command_and_reply_fits_its_schema() {
    let root = schema::all();
    for (name, accepted, refused) in GOLDEN {
        for case in serde_json::from_str::<Vec<Value>>(accepted).unwrap() {
            // What the schema describes is what a writer should write, in the types of their own.
            let input = &case["input"];
            let lenient = input["type"] == "message"
                || input["type"] == "send_media"
                || input["context_mode"] == "bogus"
                || input["sessionHistoryId"].is_string();
            assert!(lenient || fits(&root, part(&root, "command"), input), "{name}: {input}");
            let reply = if case["reply"].is_array() { "searchReplyOfG2" } else { "reply" };
            assert!(fits(&root, part(&root, reply), &case["reply"]), "{name}: {}", case["reply"]);
        }
        for case in serde_json::from_str::<Vec<Value>>(refused).unwrap() {
            assert!(fits(&root, part(&root, "reply"), &case["reply"]), "{name}: {}", case["reply"]);
        }
    }
}

#[test]
fn what_is_not_a_command_does_not_fit() {
    let root = schema::all();
    for wrong in [
        json!({"type": "nothing"}),
        json!({"type": "cancel_task"}),
        json!({"type": "cancel_task", "taskId": 7}),
        json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron"}),
        json!({"type": "search_sessions", "limit": 1000}),
        json!({"type": "list_tasks", "requestId": 7}),
        json!([]),
    ] {
        assert!(!fits(&root, part(&root, "command"), &wrong), "{wrong}");
    }
}

/// The document is written by the host's own type, with every field set and with as few as there can be.
#[test]
fn launch_documents_fit() {
    let root = schema::all();
    assert_eq!(root["$id"], "urn:g2:protocol:2");
    let least = json!({"prompt": "p", "groupFolder": "g", "chatJid": "local:main", "isMain": false});
    let claude =
        json!({"name": "claude", "path": "/bin/claude", "model": "m", "env": {"A": "b"}, "tools": ["Bash"]});
    let all = json!({
        "prompt": "p", "sessionId": "s", "groupFolder": "g", "chatJid": "local:main", "isMain": true,
        "isScheduledTask": true, "assistantName": "G2", "script": "true", "secrets": {"KEY": "v"}, "token": "a.b",
        "protocol": 2, "runId": "7", "lane": "g local:main", "generation": 3, "batchId": "1",
        "blockedTools": ["AskUserQuestion"], "provider": claude, "limits": {"replyTimeoutMs": 5}, "say": "growing",
    });
    let mut acp = all.clone();
    acp["provider"] =
        json!({"name": "acp", "command": ["agent", "--acp"], "refuse": ["execute"], "authMethod": "key"});
    for document in [least, all, acp] {
        let launch: ipc_handlers::wire::Launch = serde_json::from_value(document).unwrap();
        let written = serde_json::to_value(&launch).unwrap();
        assert!(fits(&root, part(&root, "launch"), &written), "{written}");
    }
    assert!(!fits(&root, part(&root, "launch"), &json!({"prompt": "p"})));
}

/// What people read is what the types say.
#[test]
fn the_documents_of_the_page_about_the_protocol_fit() {
    let page = include_str!("../../container/PROTOCOL.md");
    let root = schema::all();
    let mut seen = Vec::new();
    for block in page.split("```json ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let text = rest.split("```").next().unwrap();
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(fits(&root, part(&root, name), &value), "{name}: {value}");
        seen.push(name);
    }
    assert_eq!(
        seen,
        ["launch", "record", "record", "record", "record", "input", "containerState", "command", "reply"]
    );
}

#[test]
fn records_inputs_and_snapshots_fit() {
    let root = schema::all();
    for (name, value) in [
        ("record", json!({"status": "success", "result": "hi", "newSessionId": "s"})),
        ("record", json!({"status": "success", "result": null, "seq": 1, "type": "ready", "protocol": 2})),
        ("input", json!({"type": "message", "text": "x"})),
        (
            "containerState",
            json!({"current_tool": "Bash", "tool_declared_timeout_ms": 1000, "tool_started_at": 5}),
        ),
        ("snapshots/current_tasks.json", json!([])),
        ("snapshots/available_groups.json", json!({"groups": [], "lastSync": "2026-01-01T00:00:00.000Z"})),
        (
            "snapshots/session_history.json",
            json!([{"id": 1, "name": "n", "session_id": "s", "archived_at": "x"}]),
        ),
    ] {
        assert!(fits(&root, part(&root, name), &value), "{name}: {value}");
    }
    assert!(!fits(&root, part(&root, "record"), &json!({"status": "fine"})));
}
