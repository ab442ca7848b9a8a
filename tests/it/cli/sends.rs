//! A message is stored or not, and its sender is told which, or that nobody knows.
#![expect(clippy::disallowed_methods, reason = "a test plays a daemon that stops")]

use std::{fs, os::unix::net::UnixListener, process::Stdio};

use serde_json::{Value, json};

use crate::support::{Root, fail_points, wait_for};

/// The failure that a command with `--json` printed.
fn error(stderr: &[u8]) -> Value {
    serde_json::from_slice::<Value>(stderr).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(stderr)))
        ["error"]
        .clone()
}

#[test]
fn a_message_whose_answer_was_lost_may_be_stored_and_its_sender_is_told_so() {
    if !fail_points() {
        return;
    }
    for more in [&[][..], &["--wait", "60"]] {
        let root = Root::new("");
        let daemon = root.serve_with(&[("G2_FAILPOINT", "message.stored")]);
        let told = root.run(&[&["--json", "send", "hello"], more].concat());
        daemon.signal();
        assert_eq!(told.status.code(), Some(1), "{told:?}");
        let error = error(&told.stderr);
        assert_eq!(error["code"], "unknown", "{error}");
        assert!(error["hint"].as_str().unwrap().contains("g2 messages list --chat local:main"), "{error}");
        assert_eq!(root.rows(&["messages", "list", "--chat", "local:main"]).len(), 1, "it is");
    }
    // So is a line of a chat without a terminal.
    let root = Root::new("");
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "message.stored")]);
    fs::write(root.path().join("lines"), "hello\n").unwrap();
    let lines = fs::File::open(root.path().join("lines")).unwrap();
    let told = root.command(&["--json", "chat"]).stdin(lines).output().unwrap();
    assert_eq!(error(&told.stderr)["code"], "unknown", "{told:?}");
}

#[test]
fn a_sender_who_waits_for_an_answer_keeps_the_number_of_the_message_when_the_daemon_dies() {
    let root = Root::new("");
    root.close_gate("");
    let daemon = root.serve();
    let sending = root
        .command(&["--json", "send", "--wait", "60", "hello"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a run", || (root.json(&["status"])["running"] == 1).then_some(()));
    daemon.kill();
    let told = sending.wait_with_output().unwrap();
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    let printed: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&printed["seq"], &printed["rested"]), (&json!(1), &json!(false)), "{printed}");
    let error = error(&told.stderr);
    assert_eq!(error["code"], "unknown", "{error}");
    assert!(error["message"].as_str().unwrap().contains("message 1 is stored"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("g2 why 1"), "{error}");
}

#[test]
fn a_daemon_that_stops_while_it_is_greeted_is_no_daemon() {
    let root = Root::new("");
    for (arguments, code, says) in
        [(&["send", "hi"][..], 3, "no daemon runs"), (&["users", "add", "tg:1"], 0, "")]
    {
        let listener = UnixListener::bind(root.data("g2.sock")).unwrap();
        let command = root.command(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (greeting, _) = listener.accept().unwrap();
        drop((listener, greeting));
        let told = command.wait_with_output().unwrap();
        assert_eq!(told.status.code(), Some(code), "{arguments:?}: {told:?}");
        assert!(String::from_utf8_lossy(&told.stderr).contains(says), "{told:?}");
        fs::remove_file(root.data("g2.sock")).unwrap();
    }
}

#[test]
fn a_message_that_is_wrong_is_told_apart_from_a_failure() {
    let root = Root::new("");
    let _daemon = root.serve();
    for arguments in [&["send", ""][..], &["send", "--chat", "tg:1", "hi"]] {
        let told = root.run(&[&["--json"], arguments].concat());
        assert_eq!(told.status.code(), Some(1), "{told:?}");
        assert_eq!(error(&told.stderr)["code"], "invalid", "{arguments:?}: {told:?}");
    }
}
