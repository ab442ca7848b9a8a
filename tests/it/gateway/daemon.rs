//! The gateway of a real daemon: opened with a run, stored, shown, and the key nowhere but where it was put.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    super::support::{Daemon, Root, noon, wait_for},
    host::{Host, message, response},
    scene::{Agent, KEY, ask},
};

/// Settings under which a run is one of claude's, and does nothing by itself for a while.
pub(crate) const AWAKE: &str = "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n\
                                [agent]\nprovider = \"claude\"\ncommand = [\"/bin/sh\", \"-c\", \"exec sleep 30\"]\n";

/// Starts a daemon and a run of its own; returns the run's socket.
pub(crate) fn awake(root: &Root, environment: &[(&str, &str)]) -> (Daemon, PathBuf) {
    fs::write(root.path().join(".env"), format!("ANTHROPIC_API_KEY={KEY}\n")).unwrap();
    let daemon = root.serve_with(environment);
    root.send("local:main", "hello");
    let socket = root.data("runs/1/gateway/model.sock");
    wait_for("the run's socket", || socket.exists().then_some(()));
    (daemon, socket)
}

#[test]
fn the_use_of_the_model_is_shown_by_run_group_model_and_day() {
    let host = Host::always(message("claude-x", 10, 7));
    let root = Root::new(AWAKE);
    let (_daemon, socket) = awake(&root, &[("ANTHROPIC_BASE_URL", &host.url())]);
    (0..3).for_each(|_| assert_eq!(ask(&socket, "{}").status, 200));
    let mut agent = Agent::connect(&socket);
    agent.request("GET /v1/files?x", "", "");
    assert_eq!(agent.answer().status, 403);
    let figures = json!({"requests": 3, "errors": 0, "refused": 1, "input_tokens": 30,
        "cache_creation_tokens": 0, "cache_read_tokens": 9, "output_tokens": 21});
    let with = |key: Value| {
        let mut row = key;
        row.as_object_mut().unwrap().extend(figures.as_object().unwrap().clone());
        row
    };
    wait_for("all of it to be stored", || {
        (root.rows(&["usage"]) == [with(json!({"group": "main"}))]).then_some(())
    });
    assert_eq!(root.rows(&["usage", "--by", "run"]), [with(json!({"run": 1, "group": "main"}))]);
    let models: Vec<_> =
        root.rows(&["usage", "--by", "model"]).iter().map(|row| row["model"].clone()).collect();
    assert_eq!(models, [Value::Null, "claude-x".into()]);
    assert_eq!(root.rows_in(&noon(), &["usage", "--by", "day"]).len(), 1);
    assert!(root.rows(&["usage", "--since", "2999-01-01T00:00:00Z"]).is_empty());
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    assert!(root.rows(&["usage", "--group", "other"]).is_empty());
    let run = root.json(&["runs", "show", "1"]);
    assert_eq!((&run["requests"], &run["refused"], &run["id"]), (&3.into(), &1.into(), &1.into()));
    assert_eq!(run["refusals"][0]["asked"], "GET /v1/files");
    assert!(root.g2(&["usage"]).contains("main"));
}

#[test]
fn the_real_key_is_found_nowhere_but_where_it_was_put() {
    // A host that says it back wherever a header can be.
    let echo =
        format!("x-api-key: {KEY}\r\nset-cookie: {KEY}\r\nanthropic-echo: {KEY}\r\nrequest-id: {KEY}\r\n");
    let host = Host::always(response("400 Bad Request", &echo, "{}"));
    let root = Root::new(AWAKE);
    let (daemon, socket) = awake(&root, &[("ANTHROPIC_BASE_URL", &host.url()), ("LOG_LEVEL", "trace")]);
    let answer = ask(&socket, "{}");
    assert!(answer.status == 400 && !answer.head.contains(KEY), "{answer:?}");
    assert_eq!(host.one().header("x-api-key"), Some(KEY));
    wait_for("the request to be stored", || (!root.rows(&["usage"]).is_empty()).then_some(()));
    let shown = ["doctor", "usage", "runs show 1", "status"].map(|command| {
        let words: Vec<&str> = command.split(' ').collect();
        String::from_utf8(root.run(&words).stdout).unwrap()
    });
    assert!(!shown.concat().contains(KEY));
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(holding(root.path(), KEY.as_bytes()), [root.path().join(".env")]);
}

/// The files below `folder` in which `bytes` stand.
fn holding(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file()
                && fs::read(&path).unwrap().windows(bytes.len()).any(|part| part == bytes)
            {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn an_address_that_would_show_the_key_is_refused_by_the_start_and_by_doctor() {
    let root = Root::new("[gateway]\nupstream = \"http://api.example\"\n");
    let output = root.run(&["serve"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("gateway.upstream"), "{text}");
    let rows = root.json(&["doctor"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["check"] == "gateway").unwrap();
    assert_eq!(row["status"], "fail");
}

#[test]
fn doctor_misses_a_key_where_an_agent_needs_one() {
    let root = Root::new(AWAKE);
    let status = || {
        let rows = root.json(&["doctor"]);
        rows.as_array().unwrap().iter().find(|row| row["check"] == "model_key").unwrap()["status"].clone()
    };
    assert_eq!(status(), "fail");
    fs::write(root.path().join(".env"), format!("CLAUDE_CODE_OAUTH_TOKEN={KEY}\n")).unwrap();
    assert_eq!(status(), "ok");
}
