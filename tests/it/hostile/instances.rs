//! File events, which the kernel counts by user: a container uses up its user's.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "looks into /proc, runs Docker's client"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use serde_json::Value;

use super::{
    model::{Attack, container},
    neighbour::{Neighbour, Waits, compare, timed},
    scene::image,
};
use crate::support::{Docked, agent_image, docker, run_docker, skipped, wait_for};

/// Whether a process has file events.
fn has_events(pid: &str) -> bool {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    links
        .filter_map(|link| fs::read_link(link.ok()?.path()).ok())
        .any(|to| to.ends_with("anon_inode:inotify"))
}

/// Whether one of a container's processes has.
fn has_events_inside(container: &str) -> bool {
    let processes = run_docker(&["top", container, "-eo", "pid"]);
    processes.lines().skip(1).any(|pid| has_events(pid.trim()))
}

/// A root with a hostile group and its neighbour, whose agent is the built-in one; `None` where there is no Docker, or nobody may
/// look at the processes of others.
fn house(sandbox: &str) -> Option<Docked> {
    if !rustix::process::geteuid().is_root() {
        skipped("not root");
        return None;
    }
    if !docker() {
        return None;
    }
    let root = Docked::with_image(image(), sandbox);
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    root.g2(&["groups", "set", "good", &format!("image={}", agent_image())]);
    Some(root)
}

/// As whom a group's container runs.
fn user(root: &Docked, group: &str) -> String {
    let user = run_docker(&["inspect", "--format", "{{.Config.User}}", &container(root, group)]);
    user.trim().to_owned()
}

/// Has the hostile group's container come up.
fn evil_begins(root: &Docked) {
    let seq = root.send("local:evil", "begin");
    wait_for("the hostile container", || {
        (root.why(seq)["wirings"][0]["batch_state"] == "done").then_some(())
    });
}

/// Has the hostile group use up a user's events.
fn attack(root: &Docked, user: &str) -> Attack {
    let mut command = Command::new("docker");
    command.args(["exec", "--user", user, &container(root, "evil"), "/hostile", "instances"]);
    Attack::begin(root, "evil", command)
}

/// Ends it, and checks that it had used up what there was (24: no more of it).
fn end(attack: Attack) {
    let said = attack.end();
    eprintln!("{said}");
    assert!(said.contains("then: Some(24)"), "{said}");
}

/// Has the neighbour's agent answer follow-ups; returns how long each took.
fn follow_ups(root: &Docked) -> Waits {
    timed(
        |count| count < 20,
        |n| assert_eq!(root.ask("local:good", &n.to_string()).trim(), format!("echo: {n}")),
    )
}

/// Has the neighbour's agent leave, so that the next one begins.
fn leaves(root: &Docked, container: &str) {
    root.g2(&["groups", "set", "good", "pids=100"]);
    wait_for("the agent to leave", || {
        let runs = root.rows(&["runs", "list"]);
        let lives = |run: &Value| run["container"] == container && run["ended_at"].is_null();
        (!runs.iter().any(lives)).then_some(())
    });
    root.ask("local:good", "begin anew");
}

#[test]
fn a_container_that_uses_up_its_users_events_takes_none_from_others_where_each_has_a_user_of_its_own() {
    let Some(root) = house("uid_base = 300000\n") else { return };
    let daemon = root.serve();
    root.ask("local:good", "begin");
    let (alone, commands) = (follow_ups(&root), Neighbour::of(&root, &daemon));
    let first = container(&root, "good");
    evil_begins(&root);
    assert_ne!(user(&root, "evil"), user(&root, "good"));
    let attack = attack(&root, &user(&root, "evil"));
    assert!(has_events_inside(&container(&root, "good")));
    compare("no events left, in follow-ups", &alone, &follow_ups(&root));
    // An agent and a daemon that begin beside it have theirs.
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = root.serve();
    assert!(has_events(&daemon.pid().to_string()));
    leaves(&root, &first);
    assert_ne!(container(&root, "good"), first);
    assert!(has_events_inside(&container(&root, "good")));
    compare("no events left, in follow-ups", &alone, &follow_ups(&root));
    commands.beside("no events left", |n| n < 20);
    assert_eq!(root.run(&["status"]).status.code(), Some(0), "{}", root.json(&["status"]));
    end(attack);
}

#[test]
fn an_agent_whose_user_has_no_events_left_is_as_quick_without_and_has_them_when_they_are_there_again() {
    // Not as uid 1000, which others of this machine may be.
    let Some(root) = house("uid_base = 310000\n") else { return };
    let _daemon = root.serve();
    root.ask("local:good", "begin");
    let alone = follow_ups(&root);
    let first = container(&root, "good");
    assert!(has_events_inside(&first));
    evil_begins(&root);
    // As if all groups had one user.
    fs::set_permissions(root.path().join("groups/evil"), Permissions::from_mode(0o777)).unwrap();
    let attack = attack(&root, &user(&root, "good"));
    leaves(&root, &first);
    let agent = container(&root, "good");
    assert!(!has_events_inside(&agent), "they are used up");
    compare("no events left, in follow-ups", &alone, &follow_ups(&root));
    end(attack);
    wait_for("events", || has_events_inside(&agent).then_some(()));
    compare("no events left, in follow-ups", &alone, &follow_ups(&root));
}
