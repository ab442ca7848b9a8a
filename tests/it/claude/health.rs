//! Ways in which a real Claude Code in a real container is slow, silent or wedged, with short limits. The slow ones are left
//! alone, the wedged ones are ended with what was seen of them, and each message is answered.
#![expect(clippy::disallowed_methods, reason = "tests play the user, and put programs before the agent's")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    env,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use super::house::{CHAT, House, bash, conversation, until_go};
use crate::support::{claude_image, run_docker};

/// A turn in which the model calls a command that declares a short time, over which a CLI that is stopped does not watch.
fn briefly(command: &str) -> Value {
    json!({"tool_use": {"name": "Bash", "input": {"command": command, "timeout": 6_000}}})
}

/// Stops the CLI, and stays.
const WEDGED: &str = "pkill -STOP -x claude; kill -STOP $PPID; sleep 600";

/// A CLI that does something else first.
fn cli(house: &House, name: &str, first: &str) {
    let path = house.path().join("groups/main").join(name);
    fs::write(&path, format!("#!/bin/sh\n{first}\nexec claude \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Has something in the background give the heartbeat a stamp of another time, again and again.
fn beats_of(when: &str) -> String {
    format!(
        "setsid sh -c 'while :; do touch -d \"{when}\" /workspace/ipc/state/heartbeat; sleep 1; done' >/dev/null 2>&1 &"
    )
}

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
    cli(&house, "slow", "[ -e slowly ] && timeout 16 sh -c 'while :; do :; done'");
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

#[test]
fn a_container_that_never_gets_ready_is_ended() {
    let settings = "[agent.claude]\npath = \"/workspace/group/silent\"\n[health]\nstartup_ms = 20000\n";
    let Some(house) = House::new(settings, &json!(["answered"])) else { return };
    cli(&house, "silent", "[ -e once ] || { touch once; exec sleep 600; }");
    ended(&house, "not ready within 20 s (", "0 requests to the model under way");
}

#[test]
fn work_whose_stamps_are_an_hour_off_is_left_alone() {
    for when in ["1 hour ago", "1 hour"] {
        let script = json!([bash(&format!("{} sleep 14", beats_of(when))), "answered"]);
        let Some(house) = House::new(&limits(8_000, 8_000), &script) else { return };
        left_alone(&house);
    }
}

#[test]
fn a_cli_that_is_wedged_is_ended_though_stamps_of_an_hour_ago_go_on() {
    let script = json!([briefly(&format!("{} {WEDGED}", beats_of("1 hour ago"))), "answered"]);
    let Some(house) = House::new(&limits(20_000, 8_000), &script) else { return };
    ended(&house, "did nothing for 8 s, though its heartbeat goes on (", "tool Bash for ");
}

/// The library that gives a program another clock than the machine's, where Debian's package `faketime` is installed.
fn faketime() -> Option<String> {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", env::consts::ARCH);
    if Path::new(&library).exists() {
        return Some(library);
    }
    assert!(
        env::var_os("G2_REQUIRE_FAKETIME").is_none(),
        "G2_REQUIRE_FAKETIME is set and there is no {library}"
    );
    eprintln!("skipped: no faketime");
    None
}

#[test]
fn the_hosts_clock_jumps_and_a_run_at_work_is_left_alone_and_a_wedged_one_ended() {
    let Some(library) = faketime() else { return };
    let slow = bash("until [ -e go ]; do sleep 0.05; done; rm go; sleep 14");
    let script = json!([
        slow,
        "one",
        slow,
        "two",
        briefly(&format!("until [ -e go ]; do sleep 0.05; done; {WEDGED}")),
        "three"
    ]);
    let Some(house) = House::new(&limits(20_000, 8_000), &script) else { return };
    let clock = house.path().join("clock");
    fs::write(&clock, "+0").unwrap();
    let _daemon = house.serve_with(&[
        ("LD_PRELOAD", &library),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap()),
        ("FAKETIME_CACHE_DURATION", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
        ("NO_FAKE_STAT", "1"),
    ]);
    // An hour on, then two back.
    for (jump, answer) in [("+3600", "one"), ("-3600", "two"), ("+3600", "three")] {
        house.send(CHAT, "hello");
        house.at_work("Bash");
        fs::write(&clock, jump).unwrap();
        house.go();
        crate::support::wait_for(answer, || {
            (house.said(CHAT).last().is_some_and(|text| text == answer)).then_some(())
        });
    }
    assert_eq!(house.said(CHAT), ["one", "two", "three"]);
    let errors = errors(&house);
    assert!(errors.len() == 2 && errors[0].contains("no sign of life for 8 s ("), "{errors:#?}");
    assert!(!house.log().contains("did nothing"), "nothing was closed at the end of a long tool");
    // It was the clock of the daemon.
    let stamps: Vec<String> =
        house.rows(&["outbox", "list"]).iter().map(|row| row["created_at"].to_string()).collect();
    assert!(stamps[1] < stamps[0] && stamps[1] < stamps[2], "{stamps:?}");
}

#[test]
fn a_container_that_recovery_starts_is_not_judged_by_what_the_one_before_left() {
    let script = json!([until_go(), bash("sleep 14"), "answered"]);
    let Some(house) = House::new(&limits(8_000, 8_000), &script) else { return };
    let daemon = house.serve();
    house.send(CHAT, "hello");
    house.at_work("Bash");
    daemon.kill();
    // The machine was down for an hour: the container is gone, its mailbox is as it was, and one of an older run is left.
    run_docker(&["rm", "--force", &house.container()]);
    let hour = Duration::from_secs(3600);
    for (name, at) in
        [("heartbeat", SystemTime::now() - hour), ("container_state.json", SystemTime::now() + hour)]
    {
        let path = house.data("ipc/main/state").join(name);
        File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    }
    house.change_store("UPDATE messages SET received_at = received_at - 3600000");
    house.change_store("UPDATE batches SET handed_at = handed_at - 3600000");
    house.change_store("UPDATE runs SET created_at = created_at - 3600000, started_at = started_at - 3600000, ready_at = ready_at - 3600000");
    let labels = [format!("g2.instance={}", house.instance()), "g2.run=999".to_owned()];
    let left = run_docker(&[
        "run",
        "--detach",
        "--label",
        &labels[0],
        "--label",
        &labels[1],
        "--entrypoint",
        "sleep",
        claude_image().unwrap(),
        "600",
    ]);
    let _daemon = house.serve();
    assert_eq!(house.has_said(1), ["answered"]);
    let errors = errors(&house);
    assert!(errors == ["recovered stale active run", ""], "{errors:#?}");
    assert_ne!(house.container(), left.trim());
}
