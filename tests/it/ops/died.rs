//! Dying in the middle of an operation that goes beyond one transaction.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests play the container, and one that can't go on fails"
)]

use std::{fs, os::unix::process::ExitStatusExt as _};

use serde_json::Value;

use crate::support::{Root, fail_points, skipped, wait_for};

const ADD: [&str; 6] = ["--json", "groups", "add", "family", "--chat", "local:family"];
const REMOVE: [&str; 5] = ["--json", "groups", "remove", "family", "--yes"];

/// The end of a removal that was tried again.
const FREE: &str = "nothing is left of a group that was removed; its name is free";

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
    for step in ["op.group_cleared", "op.group_stored", "op.group_laid_out"] {
        for up in [false, true] {
            let root = Root::new("");
            leave_a_mailbox(&root, "family");
            die(&root, step, up, &ADD);
            if step == "op.group_cleared" {
                root.g2(&ADD);
            }
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
    for (step, gone) in [("op.group_emptied", false), ("op.group_removed", true), ("op.group_put_away", true)]
    {
        for up in [false, true] {
            let root = Root::new("");
            root.g2(&ADD);
            die(&root, step, up, &REMOVE);
            if gone {
                let mailbox = root.data("ipc/family");
                assert_eq!(mailbox.exists(), step == "op.group_removed", "the mailbox goes last");
                if mailbox.exists() {
                    root.put_command("family", "messages", "left.json", &say("of the one that is gone"));
                }
                let claimed = root.data("claimed/77-family.json");
                fs::write(claimed, say("of the one that is gone, too").to_string()).unwrap();
            }
            let daemon = root.serve();
            assert_eq!(root.data("ipc/family").exists(), !gone, "{step}");
            assert_eq!(
                root.run(&["groups", "show", "family"]).status.code(),
                Some(i32::from(gone)),
                "{step}"
            );
            assert_eq!(root.run(&REMOVE).status.code(), Some(i32::from(gone)), "{step}");
            // It can come again, by an agent that clears nothing, and answers.
            let made = serde_json::json!({"type": "register_group", "requestId": "again", "jid": "local:family", "name": "Family",
                "folder": "family", "trigger": "@G2", "requiresTrigger": false});
            root.put_command("main", "messages", "again.json", &made);
            assert_eq!(root.reply("main", "again")["ok"], true, "{step}");
            assert_eq!(root.ask("local:family", "hello"), "echo: hello\n", "{step}");
            let settled = root.rows(&["ipc", "list", "--group", "family"]);
            let settled: Vec<_> =
                settled.iter().map(|row| (row["id"].clone(), row["state"].clone())).collect();
            let refused = (Value::from(77), Value::from("refused"));
            assert_eq!(settled, Vec::from_iter(gone.then_some(refused)), "{step}");
            daemon.terminate();
        }
    }
}

#[test]
fn a_removal_that_our_own_fault_broke_off_is_finished_without_a_start() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    root.g2(&ADD);
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "op.group_put_away:1:panic")]);
    assert_eq!(root.run(&REMOVE).status.code(), Some(1));
    wait_for("the name to be free", || root.log().contains(FREE).then_some(()));
    root.g2(&ADD);
    assert_eq!(root.ask("local:family", "hello"), "echo: hello\n");
}

#[test]
fn a_removal_that_our_own_fault_broke_off_before_anything_went_leaves_no_problem() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    root.g2(&ADD);
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "op.group_emptied:1:panic")]);
    assert_eq!(root.run(&REMOVE).status.code(), Some(1));
    wait_for("no problem", || (root.json(&["status"])["state"] == "healthy").then_some(()));
    assert_eq!(root.ask("local:family", "hello"), "echo: hello\n");
    root.g2(&REMOVE);
}

#[test]
fn something_that_is_left_of_a_removed_group_is_told_and_gone_once_it_can_be_removed() {
    let root = Root::new("");
    root.g2(&ADD);
    let _daemon = root.serve();
    let mailbox = root.data("ipc/family");
    let flags = rustix::mount::MountFlags::empty();
    // A folder that something is mounted on can't be moved.
    if rustix::mount::mount("tmpfs", &mailbox, "tmpfs", flags, None::<&std::ffi::CStr>).is_err() {
        return skipped("nothing can be mounted here");
    }
    let told = root.run(&REMOVE);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let problem = || {
        let rows = root.json(&["status"])["problems"].clone();
        let is_it = |row: &&Value| {
            row.as_str().is_some_and(|said| said.contains("something is left of an earlier group family"))
        };
        rows.as_array().unwrap().iter().find(is_it).cloned()
    };
    assert!(problem().is_some(), "{told}");
    assert!(!root.run(&ADD).status.success());
    rustix::mount::unmount(&mailbox, rustix::mount::UnmountFlags::empty()).unwrap();
    wait_for("the name to be free", || root.log().contains(FREE).then_some(()));
    assert_eq!(problem(), None);
    root.g2(&ADD);
    assert_eq!(root.ask("local:family", "hello"), "echo: hello\n");
}

/// Lays a mailbox out for a group that is not there, with a command in it.
fn leave_a_mailbox(root: &Root, group: &str) {
    for name in ["messages", "tasks", "input", "responses", "state"] {
        fs::create_dir_all(root.data("ipc").join(group).join(name)).unwrap();
    }
    root.put_command(group, "messages", "left.json", &say("of the one that is gone"));
}

fn say(text: &str) -> Value {
    serde_json::json!({"type": "send_message", "requestId": "left", "chatJid": "local:family", "text": text})
}

#[test]
fn a_start_removes_the_mailboxes_of_groups_that_are_gone_and_nothing_else() {
    let root = Root::new("");
    root.g2(&ADD);
    leave_a_mailbox(&root, "gone");
    leave_a_mailbox(&root, "family");
    fs::create_dir(root.data("ipc/errors")).unwrap();
    fs::write(root.data("ipc/errors/kept.json"), "{}").unwrap();
    fs::write(root.data("ipc/note"), "mine").unwrap();
    std::os::unix::fs::symlink(root.data("ipc/gone"), root.data("ipc/link")).unwrap();
    let _daemon = root.serve();
    assert!(!root.data("ipc/gone").exists());
    assert!(root.data("ipc/errors/kept.json").exists());
    assert_eq!(fs::read_to_string(root.data("ipc/note")).unwrap(), "mine");
    assert!(root.data("ipc/link").is_symlink());
    assert_eq!(root.settled_file("family", "left.json")["state"], "applied");
}

#[test]
fn a_new_group_never_has_what_lies_in_a_mailbox_of_its_name() {
    for up in [false, true] {
        let root = Root::new("");
        let daemon = up.then(|| root.serve());
        leave_a_mailbox(&root, "family");
        root.g2(&ADD);
        let daemon = daemon.unwrap_or_else(|| root.serve());
        root.put_command("family", "messages", "own.json", &say("of the new one"));
        root.settled_file("family", "own.json");
        let names: Vec<Value> = root.rows(&["ipc", "list", "--group", "family"]);
        assert_eq!(names.len(), 1, "{names:?}");
        // A second one of that name takes nothing of the first one's.
        root.put_command("family", "messages", "draft.txt", &say("kept"));
        assert_eq!(root.run(&ADD).status.code(), Some(1));
        assert!(root.data("ipc/family/messages/draft.txt").exists());
        daemon.terminate();
    }
}

#[test]
fn a_group_is_not_made_while_commands_of_an_earlier_one_are_claimed_and_nobody_settles_them() {
    let root = Root::new("");
    root.g2(&ADD);
    // The daemon dies with a claimed command of a group that another process removes meanwhile.
    let daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.claimed")]);
    root.put_command("family", "messages", "left.json", &say("of the one that is gone"));
    assert_eq!(daemon.signal(), Some(9));
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.execute("DELETE FROM groups WHERE folder = 'family'", []).unwrap();
    drop(store);
    let told = root.run(&ADD);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    let said: Value = serde_json::from_slice(&told.stderr).unwrap();
    assert_eq!(said["error"]["code"], "refused", "{said}");
    root.serve().terminate();
    root.g2(&ADD);
    assert!(!root.data("ipc/family/messages/left.json").exists());
}
