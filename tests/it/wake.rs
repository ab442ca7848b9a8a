//! How agents are woken: their session is resumed, and one that can't be is not in the way of its lane.
#![expect(clippy::disallowed_methods, reason = "the test reads what its agent wrote down")]

use serde_json::Value;

use crate::support::{Root, Socket, wait_for};

/// A root whose agent is `script`, which finds the launch document in `$input`, and how often it ran before in `$before`. It
/// speaks v1: it answers once, and leaves.
fn root(script: &str, settings: &str) -> Root {
    let agent = format!(
        "input=$(cat); before=$(cat before 2>/dev/null || echo 0); echo $((before + 1)) > before
say() {{ printf \"%s\\n\" ---G2_OUTPUT_START--- \"$1\" ---G2_OUTPUT_END---; }}
answer() {{ say \"{{\\\"status\\\":\\\"success\\\",\\\"result\\\":\\\"$1\\\",\\\"newSessionId\\\":\\\"s-1\\\"}}\"; }}
{script}"
    );
    Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", '''{agent}''']\n{settings}"
    ))
}

/// Asks, and waits until its run is over.
fn ask(root: &Root, text: &str) {
    root.send("local:main", text);
    Socket::connect(root).rest("local:main");
    wait_for("the run to end", || {
        root.rows(&["runs", "list"]).iter().all(|run| run["ended_at"].is_string()).then_some(())
    });
}

fn woken(root: &Root, seq: i64) -> Value {
    root.why(seq)["wirings"][0]["woken"].clone()
}

const NEW: &str = "I could not go on with our conversation, so I begin a new one. I can see the last messages of the old one.";

#[test]
fn a_session_that_fails_whenever_it_is_resumed_is_given_up_and_its_message_is_answered_in_a_fresh_one() {
    let root = root("case \"$input\" in *sessionId*) exit 3;; esac; answer fine", "");
    let _daemon = root.serve();
    ask(&root, "my name is Bob");
    assert_eq!(woken(&root, 1), "in its first session");
    ask(&root, "who am I?");
    assert_eq!(root.said("local:main"), ["fine", NEW, "fine"]);
    let runs = root.rows(&["runs", "list"]);
    let states: Vec<&str> = runs.iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded", "failed", "failed", "succeeded"]);
    assert_eq!(
        woken(&root, 2),
        "in a fresh session with a summary: its session could not be resumed, twice in a row"
    );
    let prompt = root.prompt(4);
    assert!(prompt.starts_with("<earlier_conversation "), "{prompt}");
    for told in [">my name is Bob</said>", "<said by=\"you\"", ">fine</said>", "<messages>"] {
        assert!(prompt.contains(told), "{told}: {prompt}");
    }
    let kept = root.rows(&["sessions", "list"]);
    assert!(kept.iter().any(|row| row["name"] == "until run 4" && row["session_id"] == "s-1"), "{kept:?}");
}

#[test]
fn a_session_that_hangs_when_it_is_resumed_is_given_up_too() {
    let root = root(
        "case \"$input\" in *sessionId*) exec sleep 1000;; esac; answer fine",
        "[health]\nstartup_ms = 700\n",
    );
    let _daemon = root.serve();
    ask(&root, "one");
    ask(&root, "two");
    assert_eq!(root.said("local:main"), ["fine", NEW, "fine"]);
    let late = |run: &Value| {
        run["error"].as_str().is_some_and(|error| error.starts_with("not ready within 700 ms ("))
    };
    let runs: Vec<bool> = root.rows(&["runs", "list"]).iter().map(late).collect();
    assert_eq!(runs, [false, true, true, false]);
}

/// A runner of version 2 whose agent knows its session once, and another whenever it runs again.
#[test]
fn an_agent_that_does_not_know_its_session_is_given_what_was_said_before() {
    let root = root(
        "session=s-$before; printf '%s' \"$input\" > launch-$before
batch=$(printf '%s' \"$input\" | sed 's/.*\"batchId\":\"\\([0-9]*\\)\".*/\\1/')
say '{\"status\":\"success\",\"result\":null,\"seq\":1,\"type\":\"ready\",\"protocol\":2}'
say \"{\\\"status\\\":\\\"success\\\",\\\"result\\\":\\\"fine\\\",\\\"seq\\\":2,\\\"newSessionId\\\":\\\"$session\\\",\\\"handled\\\":[\\\"$batch\\\"]}\"",
        "",
    );
    let _daemon = root.serve();
    ask(&root, "my name is Bob");
    ask(&root, "who am I?");
    assert_eq!(root.said("local:main"), ["fine", "fine"]);
    assert_eq!(woken(&root, 1), "in its first session");
    assert_eq!(woken(&root, 2), "in a fresh session: its agent did not know its session any more");
    let launch = |n: u32| -> Value {
        let path = root.path().join(format!("groups/main/launch-{n}"));
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    assert_eq!((&launch(0)["sessionId"], &launch(0)["summary"]), (&Value::Null, &Value::Null));
    let second = launch(1);
    assert_eq!(second["sessionId"], "s-0");
    let summary = second["summary"].as_str().unwrap();
    for told in ["<earlier_conversation ", ">my name is Bob</said>", ">fine</said>"] {
        assert!(summary.contains(told), "{told}: {summary}");
    }
    assert!(!second["prompt"].as_str().unwrap().contains("my name is Bob"));
    root.g2(&["sessions", "clear", "main"]);
    ask(&root, "hello");
    assert_eq!((&launch(2)["sessionId"], &launch(2)["summary"]), (&Value::Null, &Value::Null));
}

#[test]
fn errors_of_the_model_cost_no_session() {
    let limited = "say \"{\\\"status\\\":\\\"error\\\",\\\"result\\\":null,\\\"error\\\":\\\"claude/rate_limit: later\\\"}\"; exit 1";
    let root = root(
        &format!(
            "case \"$input\" in *sessionId*) if [ $before -lt 4 ]; then {limited}; fi; answer resumed; exit;; esac; answer fine"
        ),
        "",
    );
    let _daemon = root.serve();
    ask(&root, "one");
    ask(&root, "two");
    assert_eq!(root.said("local:main"), ["fine", "resumed"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 5);
    assert_eq!(woken(&root, 2), "its session was resumed");
}

#[test]
fn three_deaths_within_a_quarter_of_an_hour_are_a_crash_loop() {
    let root = root("answer $before; exit 3", "");
    let _daemon = root.serve();
    for text in ["one", "two", "three", "four"] {
        ask(&root, text);
    }
    let loops = "I crashed three times within 15 minutes, so I begin a new conversation. I can see the last messages of the old one.";
    assert_eq!(root.said("local:main"), ["0", "1", "2", loops, "3"]);
    assert!(woken(&root, 4).as_str().unwrap().ends_with("its runs died three times within 15 minutes"));
}

#[test]
fn a_session_that_was_silent_for_long_begins_afresh_where_the_settings_say_so() {
    let echo = "case \"$input\" in *sessionId*) answer resumed; exit;; esac; answer fresh";
    for (settings, said) in [("", "resumed"), ("[health]\nfresh_after_hours = 12\n", "fresh")] {
        let root = root(echo, settings);
        let _daemon = root.serve();
        ask(&root, "one");
        root.change_store("UPDATE sessions SET active_at = active_at - 13 * 3600000");
        ask(&root, "two");
        assert_eq!(root.said("local:main"), ["fresh", said], "{settings}");
    }
}
