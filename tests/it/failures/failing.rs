//! Runs that fail: their reason, the tries, and the one notice at the end.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::support::{Root, Socket};

/// Settings under which `command` is what runs in the container's place.
fn custom(command: &str) -> String {
    format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\noutput_mib = 1\n[agent]\ncommand = [\"/bin/sh\", \"-c\", '''{command}''']\n"
    )
}

/// Sends one message to a root where every try fails; returns the ledger when it was given up.
fn given_up(root: &Root, because: &str) -> Vec<Value> {
    let _daemon = root.serve();
    let seq = root.send("local:main", "hello");
    Socket::connect(root).rest("local:main");
    let notice = format!(
        "I could not answer your last message: 6 attempts failed, the last one because {because}. Please send it again later."
    );
    assert_eq!(root.said("local:main"), [notice]);
    let why = root.why(seq);
    let runs = root.rows(&["runs", "list"]);
    let last = runs.last().unwrap();
    assert_eq!(why["answer"], format!("given up: {}", last["error"].as_str().unwrap()));
    assert_eq!(why["outbox"][0]["cause"], format!("notice: batch {} failed", why["wirings"][0]["batch"]));
    assert!(runs.iter().all(|run| run["status"] == "failed" && run["ended_at"].is_string()), "{runs:?}");
    runs
}

/// The reasons of the ledger, each once.
fn reasons(runs: &[Value]) -> Vec<&str> {
    let mut reasons: Vec<&str> = runs.iter().map(|run| run["error"].as_str().unwrap()).collect();
    reasons.dedup();
    reasons
}

#[test]
fn a_runner_that_exits_is_tried_again_and_then_the_chat_is_told_once() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let runs = given_up(&root, "I crashed");
    assert_eq!((runs.len(), reasons(&runs)), (6, vec!["exited with code 3"]));
}

#[test]
fn an_error_record_ends_the_run_with_its_text() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"error": "the model said no\nand more"}]}]));
    let runs = given_up(&root, "there was an error");
    assert_eq!((runs.len(), reasons(&runs)), (6, vec!["the model said no"]));
}

#[test]
fn a_script_that_is_not_there_is_named() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "script=nowhere.json"]);
    let runs = given_up(&root, "my container could not be started");
    assert!(reasons(&runs)[0].contains("nowhere.json can't be read"), "{runs:?}");
}

#[test]
fn a_script_that_cannot_be_followed_is_explained() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"sya": "typo"}]}]));
    let runs = given_up(&root, "there was an error");
    assert!(reasons(&runs)[0].contains("rule 1, step 1"), "{runs:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let root = Root::new(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/no/such/agent\"]\n",
    );
    let runs = given_up(&root, "my container could not be started");
    assert!(reasons(&runs)[0].contains("/no/such/agent"), "{runs:?}");
}

#[test]
fn a_program_that_leaves_without_a_word_has_failed() {
    let root =
        Root::new(&custom("cat > /dev/null; echo what is this; echo ---G2_OUTPUT_START---; echo half"));
    let runs = given_up(&root, "I stopped before I had started");
    assert_eq!(reasons(&runs), ["left before it was ready"]);
    assert!(root.g2(&["runs", "logs", "1"]).contains("what is this"));
}

#[test]
fn a_program_that_floods_its_output_is_ended() {
    let root = Root::new(&custom("cat > /dev/null; exec yes"));
    let runs = given_up(&root, "I wrote too much output");
    assert_eq!(reasons(&runs), ["wrote more than 1048576 bytes"]);
    let black_box = &root.json(&["runs", "show", "1"])["black_box"];
    assert_eq!(black_box["reason"], "wrote more than 1048576 bytes");
    assert!(black_box["output_bytes"].as_u64().unwrap() > 500_000, "{black_box}");
    assert_eq!(black_box["log"][0], "y", "the last lines are what it flooded us with");
}

#[test]
fn a_program_that_leaves_out_a_record_is_ended_and_its_black_box_names_both_numbers() {
    let record = |json: &str| format!("echo ---G2_OUTPUT_START---; echo '{json}'; echo ---G2_OUTPUT_END---;");
    let ready = record(r#"{"status":"success","result":null,"seq":1,"type":"ready","protocol":2}"#);
    let third = record(r#"{"status":"success","result":"after the gap","seq":3}"#);
    let root = Root::new(&custom(&format!("cat > /dev/null; {ready} {third} sleep 60")));
    let runs = given_up(&root, "part of my output was lost");
    assert_eq!(reasons(&runs), ["record 2 is missing: 3 came instead"]);
    let black_box = &root.json(&["runs", "show", "1"])["black_box"];
    assert_eq!(black_box["reason"], "record 2 is missing: 3 came instead");
    let heard: Vec<(&Value, &Value)> = black_box["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (&record["n"], &record["text"]))
        .collect();
    assert_eq!(heard, [(&json!(1), &json!("")), (&json!(3), &json!("after the gap"))]);
    assert!(black_box["processes"].as_array().is_some_and(|all| !all.is_empty()), "{black_box}");
}

#[test]
fn garbage_around_records_harms_nobody() {
    let root = Root::new("");
    let garbage = "\u{0}\u{1b}[2J---G2_OUTPUT_END---\n---G2_OUTPUT_START---\n{\"status\":\"success\",\"result\":7}\n---G2_OUTPUT_END---\nnpm WARN é";
    root.script(None, &json!([{"do": [{"print": garbage}, {"say": "{{text}}!"}, {"print": "---G2_OUTPUT_START---\n{\"sta"}]}]));
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "one!\n");
    assert_eq!(root.ask("local:main", "two"), "two!\n");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((runs.len(), &runs[0]["error"]), (1, &Value::Null));
}

#[test]
fn a_turn_that_said_something_is_not_begun_again_and_the_chat_is_told_once() {
    let root = Root::new("");
    root.script(None, &json!([
        {"when": {"contains": "speak"}, "do": [{"say": "I begin"}, {"exit": 3}]},
        {"do": [
            {"command": {"box": "tasks", "json": {"type": "schedule_task", "prompt": "p", "schedule_type": "interval", "schedule_value": "3600000"}}},
            {"error": "no more"},
        ]},
    ]));
    let _daemon = root.serve();
    let interrupted = |why: &str| {
        format!(
            "I was interrupted ({why}) after I had begun to act on your last message, so I will not start it over. Please tell me what is still to be done."
        )
    };
    root.ask("local:main", "speak");
    assert_eq!(root.said("local:main"), ["I begin".to_owned(), interrupted("I crashed")]);
    root.ask("local:main", "act");
    assert_eq!(root.said("local:main")[2..], [interrupted("there was an error")]);
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs.len(), 2);
    assert_eq!((&runs[0]["error"], &runs[1]["error"]), (&json!("exited with code 3"), &json!("no more")));
    assert_eq!(root.rows(&["tasks", "list"]).len(), 1);
    assert_eq!(root.why(2)["answer"], "given up: no more");
}

#[test]
fn a_message_that_always_fails_does_not_take_the_next_one_with_it() {
    let root = Root::new("");
    root.script(
        None,
        &json!([
            {"when": {"contains": "poison"}, "do": [{"wait_ms": 150}, {"exit": 3}]},
            {"do": [{"say": "{{text}} is fine"}]},
        ]),
    );
    let _daemon = root.serve();
    let poison = root.send("local:main", "poison");
    // Judged, so that it is a batch of its own.
    root.judged(poison);
    crate::support::wait_for("the first to be handed over", || {
        root.why(poison)["wirings"][0]["batch"].is_i64().then_some(())
    });
    root.send("local:main", "water");
    Socket::connect(&root).rest("local:main");
    let said = root.said("local:main");
    assert!(said.contains(&"water is fine".to_owned()), "{said:?}");
    assert_eq!(said.iter().filter(|text| text.starts_with("I could not answer")).count(), 1, "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");
}
