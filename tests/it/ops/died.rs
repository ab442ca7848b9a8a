//! Dying in the middle of an operation that goes beyond one transaction.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::os::unix::process::ExitStatusExt as _;

use serde_json::Value;

use crate::support::Root;

const ADD: [&str; 6] = ["--json", "groups", "add", "family", "--chat", "local:family"];
const REMOVE: [&str; 5] = ["--json", "groups", "remove", "family", "--yes"];

/// Has `arguments` die at `step`, in the daemon or here.
fn die(root: &Root, step: &str, up: bool, arguments: &[&str]) {
    if !up {
        let died = root.command(arguments).env("G2_FAILPOINT", step).output().unwrap();
        assert_eq!(died.status.signal(), Some(9), "{step}: {died:?}");
        return;
    }
    let daemon = root.serve_with(&[("G2_FAILPOINT", step)]);
    let told = root.run(arguments);
    assert_eq!(daemon.signal(), Some(9), "{step}");
    // It is not done again elsewhere: nobody knows whether it was.
    assert_eq!(told.status.code(), Some(1), "{step}: {told:?}");
    let said: Value = serde_json::from_slice(&told.stderr).unwrap();
    assert_eq!(said["error"]["code"], "unknown", "{step}: {said}");
}

#[test]
fn a_group_whose_making_died_is_made_by_the_next_start() {
    for step in ["op.group_stored", "op.group_laid_out"] {
        for up in [false, true] {
            let root = Root::new("");
            die(&root, step, up, &ADD);
            let _daemon = root.serve();
            assert_eq!(root.ask("local:family", "hello"), "echo: hello\n", "{step}");
            assert!(root.path().join("groups/family").is_dir(), "{step}");
            // The repeat is told that it is there.
            assert_eq!(root.run(&ADD).status.code(), Some(1), "{step}");
        }
    }
}

#[test]
fn a_group_whose_removal_died_is_removed_by_the_repeat_or_gone() {
    for (step, gone) in [("op.group_emptied", false), ("op.group_removed", true)] {
        for up in [false, true] {
            let root = Root::new("");
            root.g2(&ADD);
            die(&root, step, up, &REMOVE);
            let daemon = root.serve();
            assert_eq!(
                root.run(&["groups", "show", "family"]).status.code(),
                Some(i32::from(gone)),
                "{step}"
            );
            assert_eq!(root.run(&REMOVE).status.code(), Some(i32::from(gone)), "{step}");
            // It can come again, and answers.
            root.g2(&ADD);
            assert_eq!(root.ask("local:family", "hello"), "echo: hello\n", "{step}");
            daemon.terminate();
        }
    }
}
