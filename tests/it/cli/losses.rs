//! What can't be brought back is not done by a slip, and who changed what can be looked up.

use std::fs;

use serde_json::json;

use crate::support::{Root, Terminal, wait_for};

use super::refused;

/// A root with a group to lose, an archived session, history and a dead command.
fn with_losses() -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root.g2(&["tasks", "add", "--group", "family", "--type", "interval", "--value", "3600000", "stretch"]);
    let daemon = root.serve();
    root.ask("local:main", "hello");
    root.put_command(
        "main",
        "messages",
        "1.json",
        &json!({"type": "clear_session", "requestId": "c", "name": "kept"}),
    );
    root.reply("main", "c");
    root.put_bytes("main", "messages", "bad.json", b"{");
    root.settled(2);
    assert_eq!(daemon.terminate(), Some(0));
    root
}

#[test]
fn a_loss_is_named_and_needs_a_yes_without_a_terminal() {
    let root = with_losses();
    let archived = root.rows(&["sessions", "list"]).into_iter().find(|row| !row["id"].is_null());
    let session = archived.map(|row| row["id"].to_string()).unwrap();
    let dead = root.settled_file("main", "bad.json")["id"].to_string();
    let losses: [(&[&str], &str); 4] = [
        (&["groups", "remove", "family"], "group family is removed for good, with 1 wiring and 1 task"),
        (&["sessions", "delete", &session], "(kept) is removed for good"),
        (&["prune", "--older-than", "1"], "older than"),
        (&["ipc", "drop", &dead], "the file of dead command"),
    ];
    let all = || {
        [
            &["groups", "list"][..],
            &["sessions", "list"],
            &["ipc", "list"],
            &["messages", "list"],
            &["tasks", "list"],
        ]
        .map(|list| root.rows(list).len())
    };
    let before = all();
    for (command, loss) in losses {
        let said = refused(&root, command, 2);
        assert!(said.contains(loss) && said.contains("--yes"), "{said}");
    }
    assert_eq!(all(), before);
    // What can be said to be wrong is, before anybody is asked.
    assert!(refused(&root, &["groups", "remove", "none"], 1).contains("does not exist"));
    assert!(refused(&root, &["sessions", "delete", "77"], 1).contains("does not exist"));
    for (command, _) in losses {
        root.g2(&[command, &["--yes"]].concat());
    }
    assert_eq!(root.rows(&["groups", "list"]).len(), 1);
    assert!(!root.data(&format!("dead/main/{dead}.json")).exists());
}

#[test]
fn on_a_terminal_a_loss_is_asked_about() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for (answer, code, left) in [("\n", 1, 2), ("no\n", 1, 2), ("y\n", 0, 1)] {
        let mut terminal = Terminal::open();
        let mut asked = terminal.start(root.command(&["groups", "remove", "family"]));
        terminal.until("Go on? [y/N] ");
        terminal.keys(answer);
        let ended = wait_for("the command to end", || asked.try_wait().unwrap());
        assert_eq!(ended.code(), Some(code), "{answer:?}");
        assert_eq!(root.rows(&["groups", "list"]).len(), left, "{answer:?}");
    }
}

#[test]
fn a_removal_says_that_it_waits_for_the_agent() {
    let root = Root::new("[health]\nclose_grace_ms = 3000\n");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    root.send("local:family", "hello");
    wait_for("a run", || (root.json(&["status"])["running"] == 1).then_some(()));
    let removed = root.run(&["groups", "remove", "family", "--yes"]);
    assert!(removed.status.success(), "{removed:?}");
    let said = String::from_utf8_lossy(&removed.stderr);
    assert!(said.contains("group family is removed when its agent has left"), "{said}");
}

#[test]
fn each_change_and_its_author_are_logged_with_the_daemon_up_or_down() {
    let root = Root::new("");
    let log = || fs::read_to_string(root.data("changes.log")).unwrap();
    root.g2(&["groups", "add", "family", "--chat", "local:family", "--name", "The family's"]);
    let daemon = root.serve();
    root.g2(&["groups", "set", "family", "timeout=5000"]);
    assert_eq!(root.run(&["groups", "set", "none", "timeout=5000"]).status.code(), Some(1));
    // Looks, and what was said wrongly, change nothing.
    for command in
        [&["groups", "list"][..], &["groups", "remove", "family"], &["prune", "--dry-run"], &["status"]]
    {
        root.run(command);
    }
    root.send("local:main", "said");
    root.g2(&["groups", "remove", "family", "--yes"]);
    assert_eq!(daemon.terminate(), Some(0));
    let text = log();
    let lines: Vec<&str> = text.lines().collect();
    let user = rustix::process::geteuid().as_raw();
    let expected = [
        "done: g2 --root ROOT init",
        r"done: groups.add chat=local:family folder=family main=false name='The family'\''s'",
        r#"done: groups.set folder=family settings='{"timeout":"5000"}'"#,
        r#"failed: groups.set folder=none settings='{"timeout":"5000"}'"#,
        "done: groups.remove folder=family",
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(expected) {
        let expected = expected.replace("ROOT", root.path().to_str().unwrap());
        // The row of the audit that has the same stands behind it.
        let (line, _) = line.rsplit_once(" [audit ").unwrap();
        assert!(line.ends_with(&expected) && line.contains(&format!(" uid {user}")), "{line}\n{expected}");
    }
    // It is bounded: two files of at most a MiB, and a line.
    fs::write(root.data("changes.log"), "x".repeat(1 << 20)).unwrap();
    root.g2(&["dropped", "clear"]);
    assert_eq!(log().lines().count(), 1);
    assert_eq!(fs::metadata(root.data("changes.log.1")).unwrap().len(), 1 << 20);
}

#[test]
fn a_writable_mount_is_asked_about() {
    let root = Root::new("");
    let mounts = |readonly: &str| format!(r#"mounts=[{{"hostPath": "~/pics"{readonly}}}]"#);
    for plain in ["", r#", "readonly": true"#] {
        root.g2(&["groups", "set", "main", &mounts(plain)]);
    }
    let writable = mounts(r#", "readonly": false"#);
    let set = ["groups", "set", "main", &writable, "trigger=@x"];
    let said = refused(&root, &set, 2);
    assert!(said.contains("can change and remove everything in ~/pics") && said.contains("--yes"), "{said}");
    assert_eq!(root.json(&["groups", "show", "main"])["trigger"], "@G2");
    let mut terminal = Terminal::open();
    for (answer, succeeds) in [("n", false), ("", false), ("y", true)] {
        let mut child = terminal.start(root.command(&set));
        terminal.until("Go on? [y/N] ");
        terminal.keys(&format!("{answer}\n"));
        assert_eq!(wait_for("the command to end", || child.try_wait().unwrap()).success(), succeeds);
    }
    assert_eq!(root.json(&["groups", "show", "main"])["trigger"], "@x");
    // What it may write to already is no loss.
    root.g2(&["groups", "set", "main", &writable]);
    root.g2(&["groups", "set", "main", "mounts="]);
    root.g2(&["groups", "set", "main", &writable, "--yes"]);
}
