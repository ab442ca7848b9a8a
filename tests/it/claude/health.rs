//! Ways in which a real Claude Code in a real container is slow, silent or wedged, with short limits. The slow ones are left
//! alone, the wedged ones are ended with what was seen of them, and each message is answered.
#![expect(clippy::disallowed_methods, reason = "tests play the user, and put programs before the agent's")]

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::house::{CHAT, House, bash, conversation};
use crate::support::run_docker;

/// A turn in which the model calls a command that declares a short time, over which a CLI that is stopped does not watch.
fn briefly(command: &str) -> Value {
    json!({"tool_use": {"name": "Bash", "input": {"command": command, "timeout": 6_000}}})
}

/// Stops the CLI, and stays.
const WEDGED: &str = "pkill -STOP -x claude; kill -STOP $PPID; sleep 600";

fn limits(claim_ms: u32, ceiling_ms: u32) -> String {
    format!(
        "[health]\nclaim_ms = {claim_ms}\nceiling_ms = {ceiling_ms}\ncontainer_ms = {ceiling_ms}\nclose_grace_ms = 500\n"
    )
}

/// How each run ended, the first one first.
fn errors(house: &House) -> Vec<String> {
    let runs = house.rows(&["runs", "list"]);
    runs.iter().map(|run| run["error"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The message is answered, by the one run there is.
#[track_caller]
fn left_alone(house: &House) {
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "answered\n");
    assert_eq!(errors(house), [""]);
}

/// The message is answered by a later run than the one that was ended so.
#[track_caller]
fn ended(house: &House, why: &str, seen: &str) {
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "answered\n");
    let errors = errors(house);
    let error = errors.iter().find(|error| error.contains(why));
    let error = error.unwrap_or_else(|| panic!("no run was ended so: {errors:#?}"));
    for part in ["(last record ", seen, "0 requests to the model under way", " ms of processor and "] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_cli_that_is_wedged_is_ended_though_its_heartbeat_goes_on() {
    let beats =
        "setsid sh -c 'while :; do touch /workspace/ipc/state/heartbeat; sleep 1; done' >/dev/null 2>&1 &";
    let script = json!([briefly(&format!("{beats} {WEDGED}")), "answered"]);
    let Some(house) = House::new(&limits(20_000, 8_000), &script) else { return };
    ended(&house, "did nothing for 8 s, though its heartbeat goes on (", "tool Bash for ");
}

#[test]
fn a_cli_that_is_wedged_is_ended_though_its_last_stamp_lies_in_the_future() {
    let stamp = "touch -d '1 hour' /workspace/ipc/state/heartbeat;";
    let script = json!([briefly(&format!("{stamp} {WEDGED}")), "answered"]);
    let Some(house) = House::new(&limits(20_000, 8_000), &script) else { return };
    ended(&house, "after it was asked to: no sign of life for 8 s (", "tool Bash for ");
}

#[test]
fn work_in_the_background_is_left_alone_though_nothing_is_said_for_longer_than_the_limit() {
    let command = "timeout 20 sh -c 'while :; do :; done'; echo built";
    let beside =
        json!({"tool_use": {"name": "Bash", "input": {"command": command, "run_in_background": true}}});
    let Some(house) = House::new(&limits(8_000, 8_000), &json!([beside, "started", "finished"])) else {
        return;
    };
    let _daemon = house.serve();
    house.send(CHAT, "hello");
    assert_eq!(house.has_said(2), ["started", "finished"]);
    assert_eq!(errors(&house), [""]);
}

#[test]
fn a_command_that_waits_is_left_alone_for_as_long_as_it_declared() {
    let Some(house) = House::new(&limits(8_000, 8_000), &json!([bash("sleep 20"), "answered"])) else {
        return;
    };
    left_alone(&house);
}

#[test]
fn a_model_that_takes_its_time_is_waited_for() {
    let Some(house) = House::new(&limits(8_000, 10_000), &json!([{"text": "answered", "delay": 9}])) else {
        return;
    };
    left_alone(&house);
}

#[test]
fn limits_of_the_model_that_last_are_no_silence() {
    let busy = json!({"status": 429, "headers": {"retry-after": "3"}, "times": 4});
    let Some(house) = House::new(&limits(10_000, 10_000), &json!([busy, "answered"])) else { return };
    left_alone(&house);
}

#[test]
fn a_session_that_takes_long_to_be_resumed_is_waited_for() {
    let settings = format!("[agent.claude]\npath = \"/workspace/group/slow\"\n{}", limits(8_000, 60_000));
    let Some(house) = House::new(&settings, &json!(["one", "two"])) else { return };
    let slow = house.path().join("groups/main/slow");
    let program = "#!/bin/sh\n[ -e slowly ] && timeout 16 sh -c 'while :; do :; done'\nexec claude \"$@\"\n";
    fs::write(&slow, program).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "first"), "one\n");
    fs::write(house.path().join("groups/main/slowly"), "").unwrap();
    house.g2(&["groups", "restart", "main"]);
    assert_eq!(house.ask(CHAT, "second"), "two\n");
    assert_eq!(errors(&house), ["", ""]);
    assert!(conversation(house.model.asked().last().unwrap()).contains("first"));
}

#[test]
fn what_the_container_before_declared_does_not_protect_the_next_one() {
    let long = json!({"tool_use": {"name": "Bash", "input": {"command": "sleep 600", "timeout": 7_000_000}}});
    let script = json!([long, briefly(WEDGED), "answered"]);
    let Some(house) = House::new(&limits(20_000, 8_000), &script) else { return };
    let _daemon = house.serve();
    house.send(CHAT, "hello");
    house.at_work("Bash");
    run_docker(&["kill", &house.container()]);
    assert_eq!(house.has_said(1), ["answered"]);
    let errors = errors(&house);
    assert_eq!(errors[0], "exited with code 137");
    assert!(errors.iter().any(|error| error.contains("no sign of life for 8 s (")), "{errors:#?}");
}
