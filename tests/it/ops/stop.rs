//! Operations at an orderly stop of the daemon.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Daemon, Root, Socket, wait_for};

/// Begins a command beside others.
fn begin(root: &Root, arguments: &[&str]) -> Child {
    root.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// SIGTERM; does not wait for the end.
fn ask_to_stop(daemon: &Daemon) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn an_operation_under_way_is_done_at_an_orderly_stop_and_no_new_one_is_begun() {
    let root = Root::new("");
    root.close_gate("[health]\nclose_grace_ms = 2500\n");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let daemon = root.serve();
    root.send("local:family", "hello");
    let runs = || root.rows(&["runs", "list"]);
    wait_for("a run of family", || (!runs().is_empty()).then_some(()));
    // Its agent does not leave before it is made to.
    let remove = begin(&root, &["groups", "remove", "family", "--yes"]);
    wait_for("the run to be asked to leave", || root.data("ipc/family/input/_close").exists().then_some(()));
    let again = root.run(&["groups", "remove", "family", "--yes"]);
    let why = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(1) && why.contains("group family is being removed"), "{why}");
    let mut other = Socket::connect(&root);
    ask_to_stop(&daemon);
    wait_for("the stop", || root.log().contains("INFO stopping").then_some(()));
    let args = json!({"group": "main", "type": "interval", "value": "60000", "prompt": "late"});
    let told = other.call(&json!({"op": "op", "do": {"name": "tasks.add", "args": args}}));
    assert_eq!((&told["is"], &told["error"]["code"]), (&json!("op_refused"), &json!("refused")), "{told}");
    let told = other.send("local:main", "late", "late");
    assert_eq!(told["is"], "error", "{told}");
    let removed = remove.wait_with_output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(other.next(), None);
    assert_eq!(daemon.wait(), Some(0));
    assert!(!root.data("ipc/family").exists());
    assert_eq!(root.run(&["groups", "show", "family"]).status.code(), Some(1));
    assert_eq!(root.rows(&["tasks", "list"]), [] as [Value; 0]);
}

#[test]
fn of_many_operations_at_an_orderly_stop_exactly_those_are_done_that_say_so() {
    let root = Root::new("");
    let daemon = root.serve();
    let add = |n: i32| {
        let prompt = format!("task {n}");
        begin(
            &root,
            &["tasks", "add", "--group", "main", "--type", "interval", "--value", "99999999", &prompt],
        )
    };
    let all: Vec<Child> = (0..16).map(add).collect();
    wait_for("the first to be done", || (!root.rows(&["tasks", "list"]).is_empty()).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let ended: Vec<_> = all.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let stored = root.rows(&["tasks", "list"]);
    for (n, output) in ended.iter().enumerate() {
        let is_there = stored.iter().any(|task| task["prompt"] == format!("task {n}"));
        assert_eq!(output.status.success(), is_there, "{n}: {output:?}");
    }
}
