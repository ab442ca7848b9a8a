//! People in control: what runs is seen, ended, begun again; what waits is passed over or given up; `why` tells all of it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{Root, Socket, wait_for};

mod attach;
mod words;

/// Its agent hangs over "hang", works without an end at "work", and otherwise answers.
fn root() -> Root {
    let root = Root::new("[health]\nclose_grace_ms = 300\n");
    root.script(
        None,
        &json!([
            {"when": {"contains": "hang"}, "do": [{"heartbeat": true}, {"tool": {"name": "Bash", "timeout_ms": 60_000}}, {"hang": true}]},
            {"do": [{"say": "{{text}} done"}]},
        ]),
    );
    root
}

fn at_work(root: &Root, seq: i64) -> i64 {
    wait_for("an agent to be at work", || {
        let why = root.why(seq);
        let wiring = &why["wirings"][0];
        (wiring["last_sign"].is_string() && wiring["run_status"] == "running")
            .then(|| wiring["run"].as_i64().unwrap())
    })
}

fn ended(root: &Root, run: i64) -> Value {
    wait_for("the run to end", || {
        let row = root.json(&["runs", "show", &run.to_string()]);
        row["ended_at"].is_string().then_some(row)
    })
}

const GIVEN_UP: &str = "I was told to stop, so I do not go on with your last message. Send it again if you still want an answer.";

#[test]
fn a_run_that_is_stopped_is_cancelled_its_chat_is_told_and_its_message_is_not_asked_again() {
    let root = root();
    let _daemon = root.serve();
    let seq = root.send("local:main", "hang on");
    let run = at_work(&root, seq);
    let said = root.g2(&["runs", "stop", &run.to_string(), "--now"]);
    assert_eq!(said, format!("run {run} is killed\n"));
    let row = ended(&root, run);
    assert_eq!(row["status"], "cancelled");
    assert!(row["error"].as_str().unwrap().starts_with("stopped by uid "), "{row}");
    assert_eq!(root.ask("local:main", "next"), "next done\n");
    assert_eq!(root.said("local:main"), [GIVEN_UP, "next done"]);
    let answer = root.why(seq)["answer"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("given up: stopped by uid "), "{answer}");
    let twice = root.run(&["runs", "stop", &run.to_string()]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&twice.stderr).contains("has ended already"), "{twice:?}");
}

#[test]
fn a_run_that_is_stopped_in_order_has_its_grace_and_its_message_is_asked_again_where_that_is_said() {
    let root = root();
    let _daemon = root.serve();
    let seq = root.send("local:main", "hang on");
    let run = at_work(&root, seq);
    root.script(Some("main"), &json!([{"do": [{"say": "{{text}} done"}]}]));
    root.g2(&["runs", "stop", &run.to_string(), "--retry"]);
    assert_eq!(ended(&root, run)["status"], "cancelled");
    Socket::connect(&root).rest("local:main");
    let told = "I was told to stop, and begin again with your last message.";
    assert_eq!(root.said("local:main"), [told, "hang on done"]);
    assert_eq!(root.why(seq)["wirings"][0]["tries"], 0, "a person's stop costs no try");
}

#[test]
fn a_stop_that_the_daemon_dies_over_is_done_by_the_next_start() {
    let root = root();
    let daemon = root.serve();
    let seq = root.send("local:main", "hang on");
    let run = at_work(&root, seq);
    daemon.kill();
    let said = root.g2(&["runs", "stop", &run.to_string()]);
    assert!(said.contains("its next start ends run"), "{said}");
    let _daemon = root.serve();
    assert_eq!(ended(&root, run)["status"], "cancelled");
    wait_for("the chat to be told", || (root.said("local:main") == [GIVEN_UP]).then_some(()));
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn a_task_that_is_stopped_gives_its_occurrence_up_and_says_so() {
    let root = root();
    let _daemon = root.serve();
    let task = root
        .json(&["tasks", "add", "--group", "main", "--type", "interval", "--value", "3600000", "hang up"]);
    let id = task["id"].as_str().unwrap();
    root.g2(&["tasks", "run", id]);
    let run = wait_for("the task to run", || {
        let row = root.rows(&["ps"]).into_iter().next()?;
        (row["doing"] == "Bash").then(|| row["id"].as_i64().unwrap())
    });
    root.g2(&["runs", "stop", &run.to_string(), "--now"]);
    assert_eq!(ended(&root, run)["status"], "cancelled");
    let told =
        format!("Scheduled task {id} (“hang up”) was stopped. This occurrence of it is not tried again.");
    wait_for("the chat to be told", || (root.said("local:main") == [told.clone()]).then_some(()));
    let task = root.json(&["tasks", "show", id]);
    assert_eq!((&task["status"], &task["failures"]), (&json!("active"), &json!(0)), "{task}");
}

#[test]
fn ps_names_what_a_run_does_and_when_it_is_ended() {
    let root = root();
    assert_eq!(root.rows(&["ps"]).len(), 0, "with the daemon down too");
    let _daemon = root.serve();
    root.send("local:main", "hang on");
    // The tool is seen in the mailbox, perhaps before the record that the agent is ready.
    let row = wait_for("the tool to be seen in a run that is ready", || {
        let at_work =
            |row: &Value| row["doing"] == "Bash" && row["state"] == "busy" && row["ends_how"] == "closed";
        root.rows(&["ps"]).into_iter().find(at_work)
    });
    assert_eq!(
        [&row["group"], &row["lane"], &row["kind"]],
        [&json!("main"), &json!("local:main"), &json!("message")]
    );
    for instant in ["since", "last_sign", "in_hand_since", "doing_since", "ends_at"] {
        assert!(row[instant].is_string(), "{instant} of {row}");
    }
    assert_eq!(row["ends_why"], "no sign of life for 30 minutes");
}

#[test]
fn a_message_that_waits_is_passed_over_with_the_reason_in_why_and_the_next_one_goes_on() {
    let root = Root::new("[limits]\nretry_base_ms = 60000\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(
        None,
        &json!([{"when": {"contains": "poison"}, "do": [{"exit": 3}]}, {"do": [{"say": "{{text}} done"}]}]),
    );
    let _daemon = root.serve();
    let poison = root.send("local:main", "poison");
    wait_for("its rest", || {
        let why = root.why(poison);
        (why["wirings"][0]["tries"] == 1 && why["wirings"][0]["waited_for"].is_string()).then_some(())
    });
    let lane = root.rows(&["lanes", "list"]).remove(0);
    assert_eq!(lane["failed_attempts"], 1);
    let waits_for = lane["waits_for"].as_str().unwrap();
    assert!(waits_for.ends_with("after a failure; then comes attempt 2 of 6"), "{lane}");
    assert_eq!(root.json(&["status"])["waits"][0]["waits_for"], waits_for);
    // A stranger's: a message of an owner would end the rest.
    root.g2(&["send", "--as", "bob", "next"]);
    let next = root.rows(&["messages", "list"]).last().unwrap()["seq"].as_i64().unwrap();
    root.judged(next);
    root.g2(&["messages", "skip", &poison.to_string(), "--reason", "it kills the agent"]);
    Socket::connect(&root).rest("local:main");
    let told = "I could not answer the last message in local:main yet: attempt 1 of 6 failed because I crashed. The next one comes in 60 s. g2 lanes list shows how it goes on.";
    assert_eq!(root.said("local:main"), [told, "next done"]);
    let answer = root.why(poison)["answer"].as_str().unwrap().to_owned();
    assert!(answer.contains("had it passed over: it kills the agent"), "{answer}");
    let again = root.run(&["messages", "skip", &next.to_string(), "--reason", "x"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("waits for no agent"), "{again:?}");
    assert_eq!(root.run(&["messages", "skip", "99", "--reason", "x"]).status.code(), Some(1));
}

#[test]
fn a_message_that_an_agent_has_in_hand_is_not_passed_over() {
    let root = root();
    let _daemon = root.serve();
    let seq = root.send("local:main", "hang on");
    let run = at_work(&root, seq);
    let refused = root.run(&["messages", "skip", &seq.to_string(), "--reason", "x"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("g2 runs stop {run}")), "{said}");
}

#[test]
fn a_text_that_waits_is_given_up_and_what_waits_behind_it_is_sent() {
    let root = Root::new("");
    root.g2(&["wirings", "add", "--group", "main", "--chat", "tg:-100", "--engage", "mention"]);
    let hi = json!({"type": "send_message", "chatJid": "tg:-100", "text": "hi"});
    root.put_command("main", "messages", "1.json", &hi);
    let _daemon = root.serve();
    wait_for("the text", || (!root.rows(&["outbox", "list"]).is_empty()).then_some(()));
    let row = wait_for("it to rest or fail", || {
        root.rows(&["outbox", "list"]).into_iter().find(|row| row["error"].is_string())
    });
    let id = row["id"].to_string();
    if row["status"] == "failed" {
        root.change_store("UPDATE outbox SET status = 'unknown', next_try_at = (unixepoch() + 600) * 1000");
    }
    root.g2(&["outbox", "drop", &id]);
    let row = root.rows(&["outbox", "list"]).remove(0);
    assert_eq!(row["status"], "failed");
    assert!(row["error"].as_str().unwrap().starts_with("given up by uid "), "{row}");
    assert_eq!(root.run(&["outbox", "drop", &id]).status.code(), Some(1));
}

#[test]
fn a_group_is_restarted_in_a_new_container() {
    let root = root();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "one done\n");
    let said = root.g2(&["groups", "restart", "main"]);
    assert!(said.starts_with("run 1 finishes its work and leaves"), "{said}");
    assert_eq!(ended(&root, 1)["status"], "succeeded");
    assert_eq!(root.ask("local:main", "two"), "two done\n");
    assert_eq!(root.rows(&["runs", "list"]).len(), 2);
}

#[test]
fn the_daemon_is_stopped_by_a_command_with_its_agents_or_without() {
    let root = root();
    let nothing = root.run(&["stop"]);
    assert_eq!(nothing.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("so there is nothing to stop"), "{nothing:?}");
    for how in [&["stop"][..], &["stop", "--agents"]] {
        let daemon = root.serve();
        assert_eq!(root.ask("local:main", "one"), "one done\n");
        assert_eq!(root.g2(how), "the daemon has stopped\n");
        assert_eq!(daemon.wait(), Some(0));
    }
    let runs = root.rows(&["runs", "list"]);
    assert!(runs.iter().all(|run| run["status"] == "succeeded"), "{runs:?}");
}

#[test]
fn an_agent_that_does_not_leave_with_its_daemon_is_told() {
    let root = root();
    let daemon = root.serve();
    let seq = root.send("local:main", "hang on");
    let run = at_work(&root, seq);
    let stop = root.command(&["stop", "--agents"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for("the stop to be asked for", || {
        root.log().contains("a second signal ends it at once").then_some(())
    });
    // It is a second signal: nobody is waited for any longer.
    daemon.terminate();
    let told = stop.wait_with_output().unwrap();
    assert_eq!(told.status.code(), Some(1));
    let words = format!("the daemon has stopped, but not every agent has left: run {run} of main.");
    assert!(String::from_utf8_lossy(&told.stderr).contains(&words), "{told:?}");
}

#[test]
fn a_run_that_is_killed_leaves_a_black_box_that_names_what_it_did_last() {
    let root = Root::new("[health]\nclose_grace_ms = 300\n");
    root.script(
        None,
        &json!([{"do": [{"tool": {"name": "Read"}}, {"print": "a line of its own\n"}, {"hang": true}]}]),
    );
    let _daemon = root.serve();
    let seq = root.send("local:main", "hello");
    assert_eq!(at_work(&root, seq), 1);
    wait_for("what it does to be seen", || {
        let doing = root
            .rows(&["ps"])
            .into_iter()
            .any(|row| row["doing"] == "Read" && row["in_hand_since"].is_string());
        let printed = root.g2(&["runs", "logs", "1", "--raw"]).contains("a line of its own");
        (doing && printed).then_some(())
    });
    root.g2(&["runs", "stop", "1"]);
    let row = ended(&root, 1);
    assert_eq!(row["status"], "cancelled");
    let black_box = &row["black_box"];
    let reason = black_box["reason"].as_str().unwrap();
    assert!(reason.starts_with("did not leave within 300 ms after it was asked to: uid "), "{reason}");
    let evidence = black_box["evidence"].as_str().unwrap();
    assert!(
        evidence.contains(", tool Read for ") && evidence.contains(" ms of processor and "),
        "{evidence}"
    );
    assert_eq!(black_box["tool"], "Read");
    assert_eq!(black_box["records"][0]["kind"], "ready");
    assert!(black_box["log"].to_string().contains("a line of its own"), "{black_box}");
    let first = &black_box["processes"][0];
    assert!(first["pid"].is_u64() && first["state"].is_string() && first["name"].is_string(), "{black_box}");
    assert!(black_box["samples"][0]["memory_kib"].as_u64().unwrap() > 0, "{black_box}");
    for instant in ["at", "last_sign", "last_record", "in_hand_since", "tool_since"] {
        assert!(black_box[instant].is_string(), "{instant}: {black_box}");
    }
    let shown = root.g2(&["runs", "show", "1"]);
    assert!(shown.contains("black_box:") && shown.contains("did not leave within 300 ms"), "{shown}");
}

#[test]
fn a_run_that_ends_well_leaves_no_black_box() {
    let root = root();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "one done\n");
    root.g2(&["groups", "restart", "main"]);
    assert_eq!(ended(&root, 1)["black_box"], Value::Null);
}

#[test]
fn the_output_of_a_run_is_shown_in_plain_lines_until_it_has_ended() {
    let root = root();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "one done\n");
    let lines = root.g2(&["runs", "logs", "1"]);
    assert!(lines.contains("#1 is ready\n") && lines.contains("says: one done\n"), "{lines}");
    assert!(!lines.contains("G2_OUTPUT"), "{lines}");
    assert!(root.g2(&["runs", "logs", "1", "--raw"]).contains("G2_OUTPUT_START"));
    let following =
        root.command(&["runs", "logs", "1", "--follow"]).stdout(std::process::Stdio::piped()).spawn();
    root.g2(&["groups", "restart", "main"]);
    let output = following.unwrap().wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).starts_with(&lines));
}

#[test]
fn what_happened_is_on_one_time_line() {
    let root = root();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "one done\n");
    root.g2(&["groups", "restart", "main"]);
    ended(&root, 1);
    let rows = root.rows(&["activity", "main", "--since", "1h"]);
    let kinds: Vec<&str> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["asked", "began", "said", "ended"], "{rows:?}");
    assert!(rows[0]["text"].as_str().unwrap().ends_with(": one"), "{rows:?}");
    assert_eq!((&rows[2]["text"], &rows[3]["text"]), (&json!("one done"), &json!("succeeded")));
    assert_eq!(root.rows(&["activity", "--limit", "1"]).len(), 1);
    assert_eq!(root.run(&["activity", "nobody"]).status.code(), Some(1));
}

#[test]
fn three_kills_are_a_rest_that_status_and_doctor_name_that_the_chat_is_told_of_once_and_that_a_person_ends() {
    let root = Root::new("[health]\nclaim_ms = 300\n");
    root.script(Some("main"), &json!([{"do": [{"hang": true}]}]));
    let _daemon = root.serve();
    // A stranger's: each message of an owner would end the rest.
    root.g2(&["send", "--as", "bob", "hello"]);
    let lane = wait_for("the rest", || {
        // Between two tries the lane rests too, for a moment.
        let runs = root.rows(&["runs", "list"]);
        let ended =
            runs.iter().filter(|run| !["queued", "running"].contains(&run["status"].as_str().unwrap()));
        (ended.count() == 3).then_some(())?;
        let lane = root.rows(&["lanes", "list"]).into_iter().next()?;
        lane["rest_until"].is_string().then_some(lane)
    });
    let until = lane["rest_until"].as_str().unwrap();
    assert!(lane["waits_for"].as_str().unwrap().contains(until), "{lane}");
    let told = "I got stuck three times within an hour, so I rest for an hour before I try again. A message of an owner wakes me at once.";
    wait_for("the chat to be told", || (root.said("local:main") == [told]).then_some(()));
    for command in ["status", "doctor"] {
        let shown = String::from_utf8(root.run(&[command]).stdout).unwrap();
        let named = format!("after a failure, group main rests there until {until}");
        assert!(
            shown.contains(&named) && shown.contains("g2 lanes wake main --chat local:main"),
            "{command}: {shown}"
        );
    }
    assert_eq!(root.rows(&["runs", "list"]).len(), 3, "nothing is killed meanwhile");
    root.script(Some("main"), &json!([{"do": [{"say": "{{text}} done"}]}]));
    root.g2(&["lanes", "wake", "main"]);
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), [told, "hello done"]);
    assert!(root.rows(&["lanes", "list"]).iter().all(|lane| lane["rest_until"].is_null()));
}

#[test]
fn tools_are_on_the_time_line_and_of_each_run_the_newest_thousand() {
    let root = Root::new("");
    let tool = |name: String| [json!({"tool": {"name": name}}), json!({"tool_done": true})];
    let many: Vec<Value> = (0..1_005).flat_map(|n| tool(format!("T{n}"))).collect();
    root.script(
        None,
        &json!([
            {"when": {"contains": "many"}, "do": many.into_iter().chain([json!({"say": "done"})]).collect::<Vec<_>>()},
            {"do": [{"tool": {"name": "Read"}}, {"say": "between"}, {"tool": {"name": "Bash"}}, {"say": "done"}]},
        ]),
    );
    let _daemon = root.serve();
    root.ask("local:main", "one");
    let line = |row: &Value| format!("{} {}", row["what"].as_str().unwrap(), row["text"].as_str().unwrap());
    let rows: Vec<String> = root.rows(&["activity", "main", "--since", "1h"]).iter().map(line).collect();
    // Of one millisecond what was said comes first; each kind is in its own order.
    let of = |what: &str| rows[2..].iter().filter(|row| row.starts_with(what)).cloned().collect::<Vec<_>>();
    assert_eq!(
        (rows.len(), of("tool")),
        (6, vec!["tool Read".to_owned(), "tool Bash".to_owned()]),
        "{rows:?}"
    );
    assert_eq!(of("said"), ["said between", "said done"], "{rows:?}");
    assert!(root.g2(&["runs", "logs", "1"]).contains("uses Bash\n"));
    root.ask("local:main", "many");
    let rows = root.rows(&["activity", "--since", "1h"]);
    let tools: Vec<&str> =
        rows.iter().filter(|row| row["what"] == "tool").map(|row| row["text"].as_str().unwrap()).collect();
    assert_eq!((tools.len(), tools[0], tools[999]), (1_000, "T5", "T1004"));
}

#[test]
fn a_tool_is_told_with_its_argument_its_outcome_and_how_long_it_took() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "timezone=Asia/Tokyo"]);
    let tool = |name: &str, about: &str| json!({"tool": {"name": name, "about": about}});
    let long = "x".repeat(5_000);
    root.script(
        None,
        &json!([{"do": [
            tool("Bash", "ls -la\nexport API_TOKEN=hush"), {"tool_done": true},
            tool("Read", "CLAUDE.md"), {"tool_failed": true},
            tool("Write", &long), {"tool_done": true},
            tool("mcp__weather__forecast", "Oslo"), {"say": "done"},
        ]}]),
    );
    let _daemon = root.serve();
    root.ask("local:main", "one");
    let rows = root.rows(&["activity", "main", "--since", "1h"]);
    let tools: Vec<&Value> = rows.iter().filter(|row| row["what"] == "tool").collect();
    let of = |field: &str| tools.iter().map(|row| row[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("text"), ["Bash", "Read", "Write", "mcp__weather__forecast"]);
    assert_eq!(of("outcome"), [json!("ok"), json!("failed"), json!("ok"), Value::Null]);
    assert!(of("took_ms")[..3].iter().all(Value::is_i64), "{tools:?}");
    let about = of("about");
    assert_eq!(about[0], "ls -la export API_TOKEN=…");
    assert_eq!(about[2].as_str().unwrap().chars().count(), 80);
    let people = root.g2(&["activity", "main", "--since", "1h"]);
    for part in
        ["Bash ls -la export API_TOKEN=… · ok · ", "Read CLAUDE.md · failed · ", "weather: forecast Oslo\n"]
    {
        assert!(people.contains(part), "{part}: {people}");
    }
    assert!(!people.contains("CLOCK") && !people.contains("hush"), "{people}");
    let clocks = root.g2(&["activity", "main", "--since", "1h", "--columns", "clock,at"]);
    let (clock, at) = clocks.lines().nth(1).unwrap().split_once("  ").unwrap();
    let utc: i64 = at[11..13].parse().unwrap();
    assert_eq!(clock, format!("{:02}{}", (utc + 9) % 24, &at[13..19]), "{clocks}");
    let logs = root.g2(&["runs", "logs", "1"]);
    for part in [
        "uses Bash ls -la export API_TOKEN=…\n",
        " Bash ls -la export API_TOKEN=… · ok · ",
        " Read CLAUDE.md · failed · ",
    ] {
        assert!(logs.contains(part), "{part}: {logs}");
    }
    // Nothing of it is in any file for people either.
    assert!(!logs.contains("hush") && !root.g2(&["runs", "logs", "1", "--raw"]).contains("hush"));
}

#[test]
fn an_owner_is_told_once_of_a_message_that_is_tried_again_in_main_s_chat() {
    let root = Root::new(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n[health]\ntell_retry_ms = 40\n",
    );
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root.script(None, &json!([{"do": [{"error": "no"}]}]));
    let _daemon = root.serve();
    root.g2(&["send", "--chat", "local:family", "--mention", "hello"]);
    Socket::connect(&root).rest("local:family");
    let given_up = "I could not answer your last message: 6 attempts failed, the last one because there was an error. Please send it again later.";
    assert_eq!(root.said("local:family"), [given_up]);
    let told = "The agent of family could not answer the last message in local:family yet: attempt 2 of 6 failed because there was an error. The next one comes in 40 ms. g2 lanes list shows how it goes on.";
    wait_for("main's chat to be told", || (root.said("local:main") == [told]).then_some(()));
}

#[test]
fn an_owner_stops_the_work_in_the_chat_itself_and_has_it_tried_again() {
    let root = root();
    let _daemon = root.serve();
    let seq = root.send("local:main", "hang on");
    let run = at_work(&root, seq);
    let stop = root.send("local:main", "/stop");
    assert_eq!(ended(&root, run)["status"], "cancelled");
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), [GIVEN_UP]);
    assert_eq!(root.why(stop)["answer"], format!("nobody was woken: it stopped run {run}"));
    root.script(Some("main"), &json!([{"do": [{"say": "{{text}} done"}]}]));
    let said = |word: &str| -> Vec<String> {
        let before = root.said("local:main").len();
        root.g2(&["send", "--wait", "60", word]);
        root.said("local:main").split_off(before)
    };
    assert_eq!(said("/retry"), ["I try it again now.", "hang on done"]);
    assert_eq!(said("/retry"), ["There is nothing to try again here."]);
    assert_eq!(said(" /STOP "), ["Nothing is at work here."]);
    root.g2(&["send", "--as", "bob", "--wait", "60", "/stop"]);
    assert_eq!(root.said("local:main").pop().unwrap(), "/stop done", "others have no such word");
}

#[test]
fn without_words_in_the_settings_they_are_messages_like_any() {
    let root = Root::new("[words]\nstop = \"\"\nretry = \"again\"\n");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "/stop"), "echo: /stop\n");
    root.g2(&["send", "--wait", "60", "again"]);
    assert_eq!(root.said("local:main").pop().unwrap(), "There is nothing to try again here.");
}

#[test]
fn clients_that_come_while_much_is_stored_hold_nobody_up() {
    let root = Root::new("");
    let daemon = root.serve();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert!(Socket::connect(&root).call(&json!({"op": "ping"})).is_object());
                }
            });
        }
        let mut socket = Socket::connect(&root);
        for n in 0..800 {
            socket.accepted("local:nobody", &format!("{n}"), &format!("{n}"));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(daemon.terminate(), Some(0));
}
