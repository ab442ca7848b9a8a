//! Others of this user have used up the file events: commands are found all the same, and events are taken when they are
//! there again. Boxes that can't be opened are opened once they can.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts a daemon where the kernel gives no events"
)]

use std::process::Command;

use serde_json::json;

use crate::support::{Root, skipped, wait_for};

/// How many instances a user may have, in a user namespace of its own.
const MOST: &str = "/proc/sys/user/max_inotify_instances";

#[test]
fn without_file_events_commands_are_found_soon_and_events_come_back_by_themselves() {
    // The regular scan is a minute away: it finds nothing here.
    let root = Root::new("[limits]\npoll_interval_ms = 60000\n");
    // Within, the daemon is another user to itself and nobody to others: all of it is to be its own.
    let mut chown = Command::new("chown");
    chown.args(["-R", "--reference"]).arg(root.path()).arg(root.data("")).arg(root.path().join("groups"));
    assert!(chown.status().is_ok_and(|status| status.success()));
    let serve = root.command(&["serve"]);
    let mut within = Command::new("unshare");
    within.args(["--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c"]);
    // Who is born there may change it, and gives it back when it is told to, or after a minute.
    let told = root.path().join("told");
    let later = format!(
        "n=0; until [ -e '{}' ] || [ $n = 1200 ]; do n=$((n+1)); sleep 0.05; done; echo 9 > {MOST}",
        told.display()
    );
    within.arg(format!("echo 0 > {MOST} && {{ ({later}) & exec \"$0\" \"$@\"; }}"));
    within.arg(serve.get_program()).args(serve.get_args());
    let is_possible =
        Command::new("unshare").args(["--user", "--map-user=1000", "--keep-caps", "true"]).status();
    if !is_possible.is_ok_and(|status| status.success()) {
        skipped("no user namespaces");
        return;
    }
    let daemon = root.spawn_by(within);
    let problem = || {
        let status = root.json(&["status"]);
        let all = status["problems"].as_array().cloned().unwrap_or_default();
        all.iter().any(|problem| problem.as_str().is_some_and(|text| text.contains("no event tells")))
    };
    wait_for("the daemon to say that it sees nothing", || problem().then_some(()));
    let ask = |request: &str| {
        let command = json!({"type": "list_tasks", "requestId": request});
        root.put_command("main", "tasks", &format!("{request}.json"), &command);
        assert_eq!(root.reply("main", request)["ok"], true);
    };
    (0..5).for_each(|n| ask(&format!("blind-{n}")));
    assert!(problem(), "they were found by looking");

    std::fs::write(told, "").unwrap();
    wait_for("events", || (!problem()).then_some(()));
    (0..5).for_each(|n| ask(&format!("seen-{n}")));
    assert_eq!(daemon.terminate(), Some(0));
    let log = root.log();
    assert_eq!(log.matches("boxes can't be watched").count(), 1, "said once: {log}");
    assert!(log.contains("watched again"), "{log}");
}

/// The regular scan is an hour away: it finds nothing here.
const RARELY: &str = "[limits]\npoll_interval_ms = 3600000\n";

/// Returns whether people are told of boxes that no event tells of.
fn is_told(root: &Root) -> bool {
    let status = root.json(&["status"]);
    let all = status["problems"].as_array().cloned().unwrap_or_default();
    all.iter().any(|problem| problem.as_str().is_some_and(|text| text.contains("can't be opened")))
}

fn ask(root: &Root, request: &str) {
    let command = json!({"type": "list_tasks", "requestId": request});
    root.put_command("main", "tasks", &format!("{request}.json"), &command);
    assert_eq!(root.reply("main", request)["ok"], true);
}

#[test]
fn a_box_that_could_not_be_opened_anew_is_watched_once_it_is_put_right() {
    let root = Root::new(RARELY);
    let daemon = root.serve();
    ask(&root, "before");
    let (messages, away) = (root.data("ipc/main/messages"), root.data("ipc/main/away"));
    std::fs::rename(&messages, &away).unwrap();
    std::os::unix::fs::symlink(&away, &messages).unwrap();
    wait_for("the problem", || is_told(&root).then_some(()));
    std::fs::remove_file(&messages).unwrap();
    std::fs::rename(&away, &messages).unwrap();
    wait_for("its end", || (!is_told(&root)).then_some(()));
    (0..5).for_each(|n| ask(&root, &format!("after-{n}")));
    let say = json!({"type": "send_message", "chatJid": "local:main", "text": "in the box that was away"});
    root.put_command("main", "messages", "x.json", &say);
    wait_for("the text", || (root.said("local:main").len() == 1).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_mailbox_that_could_not_be_opened_at_the_start_is_opened_once_it_is_put_right() {
    let root = Root::new(RARELY);
    root.serve().terminate();
    let (tasks, away) = (root.data("ipc/main/tasks"), root.data("ipc/main/away"));
    std::fs::rename(&tasks, &away).unwrap();
    std::os::unix::fs::symlink(&away, &tasks).unwrap();
    let daemon = root.serve();
    wait_for("the problem", || is_told(&root).then_some(()));
    std::fs::remove_file(&tasks).unwrap();
    std::fs::rename(&away, &tasks).unwrap();
    ask(&root, "late");
    wait_for("the problem's end", || (!is_told(&root)).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let log = root.log();
    assert_eq!(log.matches("opening the boxes failed").count(), 1, "said once: {log}");
}

#[test]
fn what_came_into_a_box_before_it_is_seen_to_be_another_one_is_found_then() {
    let root = Root::new(RARELY);
    let daemon = root.serve();
    ask(&root, "before");
    let tasks = root.data("ipc/main/tasks");
    // It is held: its end is no event.
    std::fs::remove_dir(&tasks).unwrap();
    std::fs::create_dir(&tasks).unwrap();
    let command = json!({"type": "list_tasks", "requestId": "early"});
    root.put_command("main", "tasks", "early.json", &command);
    // A change of the pause begins with a look, and the next one is an hour away.
    root.g2(&["config", "set", "limits.poll_interval_ms", "3500000"]);
    assert_eq!(root.reply("main", "early")["ok"], true);
    ask(&root, "after");
    assert_eq!(daemon.terminate(), Some(0));
}
