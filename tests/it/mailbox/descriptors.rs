//! However many groups there are, a bounded number of files is open for them.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the daemon")]

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::commands::ask;
use crate::support::{Daemon, Root, Socket, wait_for};

fn add_groups(socket: &mut Socket, names: std::ops::Range<usize>) {
    for n in names {
        let (folder, chat) = (format!("g{n}"), format!("local:g{n}"));
        let added = socket.call(
            &json!({"op": "op", "do": {"name": "groups.add", "args": {"folder": folder, "chat": chat}}}),
        );
        assert!(added.to_string().contains("answers in"), "{added}");
    }
}

/// Starts the daemon where at most `files` may be open.
fn serve_with_files(root: &Root, files: usize) -> Daemon {
    let mut command = Command::new("sh");
    let serve = root.command(&["serve"]);
    command.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
    command.arg(serve.get_program()).args(serve.get_args()).env_clear();
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let daemon = root.spawn_by(command);
    wait_for("the daemon to be ready", || {
        let ready = root.run(&["status"]).status.code() != Some(3);
        (ready || daemon.has_ended()).then_some(())
    });
    daemon
}

#[test]
fn a_daemon_of_few_files_serves_hundreds_of_groups() {
    const GROUPS: usize = 300;
    let root = Root::new("");
    let daemon = root.serve();
    add_groups(&mut Socket::connect(&root), 0..GROUPS);
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    assert!(open < 6 * GROUPS, "{open} files are open");
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = serve_with_files(&root, 256);
    assert!(!daemon.has_ended(), "{}", root.log());
    // Each group's commands are settled, whichever were open last.
    for n in (0..GROUPS).rev().chain([0, GROUPS - 1]) {
        root.put_command(
            &format!("g{n}"),
            "tasks",
            "c.json",
            &json!({"type": "list_tasks", "requestId": "c"}),
        );
    }
    for n in 0..GROUPS {
        assert_eq!(root.reply(&format!("g{n}"), "c")["ok"], true, "g{n}");
    }
    assert_eq!(root.ask("local:g7", "hello").trim(), "echo: hello");
    assert_eq!(root.json(&["status"])["state"], "healthy", "{}", root.json(&["status"]));
}

#[test]
fn above_the_bound_on_groups_none_is_made_and_those_that_are_there_go_on() {
    let limits = "[limits]\ngroups = 3\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n";
    let root = Root::new(limits);
    let register = |folder: &str, jid: &str| -> Value {
        json!({"type": "register_group", "jid": jid, "name": folder, "folder": folder, "trigger": "@Bot"})
    };
    root.g2(&["groups", "add", "one", "--chat", "local:one"]);
    let _daemon = root.serve();
    assert_eq!(ask(&root, "main", register("two", "local:two"), "r1")["ok"], true);
    let refused = ask(&root, "main", register("three", "local:three"), "r2");
    assert_eq!(refused["error"]["code"], "too_large");
    assert!(refused["error"]["message"].as_str().unwrap().contains("at most 3"), "{refused}");
    // One that is there is changed.
    assert_eq!(ask(&root, "main", register("two", "local:more"), "r3")["ok"], true);
    let added = root.run(&["--json", "groups", "add", "three", "--chat", "local:three"]);
    assert_eq!(added.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&added.stderr).unwrap();
    assert!(told["error"]["message"].as_str().unwrap().contains("limits.groups allows 3"), "{told}");
    assert_eq!(root.rows(&["groups", "list"]).len(), 3);
    root.g2(&["config", "set", "limits.groups", "4"]);
    root.g2(&["groups", "add", "three", "--chat", "local:three"]);
}
