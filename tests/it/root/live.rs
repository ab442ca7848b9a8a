//! A daemon that is up follows its settings.

use serde_json::json;

use crate::{
    gateway::{
        daemon::{AWAKE, awake},
        host::{Host, message},
        scene::ask,
    },
    support::{Root, noon, wait_for},
};

fn set(root: &Root, name: &str, value: &str) {
    root.g2(&["config", "set", name, value]);
}

/// What became of a command of main to schedule a task.
fn schedule(root: &Root, id: &str) -> String {
    let command = json!({"type": "schedule_task", "taskId": id, "prompt": id, "schedule_type": "cron",
        "schedule_value": "0 9 * * *"});
    root.put_command("main", "tasks", &format!("{id}.json"), &command);
    root.settled_file("main", &format!("{id}.json")).to_string()
}

#[test]
fn a_changed_setting_holds_at_once_for_whoever_was_handed_it_at_the_start() {
    let root = Root::new("");
    let daemon = root.serve_with(&[("TZ", "")]);
    // The store's bounds of tasks.
    assert!(schedule(&root, "one").contains("applied"));
    set(&root, "limits.tasks", "1");
    let refused = schedule(&root, "two");
    assert!(refused.contains("too_large"), "{refused}");
    set(&root, "limits.tasks", "5");
    assert!(schedule(&root, "three").contains("applied"));
    // The name that new groups are called by.
    set(&root, "assistant_name", "Andy");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    assert_eq!(root.json(&["groups", "show", "family"])["trigger"], "@Andy");
    // The zone of tasks.
    let next = || root.json(&["tasks", "show", "one"])["next_run"].clone();
    let before = next();
    set(&root, "timezone", "Pacific/Kiritimati");
    wait_for("another time of the task", || (next() != before).then_some(()));
    // Hosts that every group reaches.
    set(&root, "egress.allow", "[\"good.example\"]");
    let everybodys = root.rows(&["egress", "list"]);
    assert!(everybodys.iter().any(|row| row["host"] == "good.example"), "{everybodys:?}");
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_lowered_budget_stops_the_next_request() {
    let host = Host::always(message("claude-x", 10, 7));
    let root = Root::new(AWAKE);
    let (_daemon, socket) = awake(&root, &[("ANTHROPIC_BASE_URL", &*host.url()), ("TZ", &noon())]);
    assert_eq!(ask(&socket, "{}").status, 200);
    set(&root, "budget.requests", "1");
    wait_for("the budget to hold", || (ask(&socket, "{}").status == 402).then_some(()));
    set(&root, "budget.requests", "1000000");
    wait_for("the budget to hold", || (ask(&socket, "{}").status == 200).then_some(()));
    assert_eq!(root.json(&["status"])["state"], "healthy");
}

#[test]
fn an_edited_file_is_followed_and_one_that_can_t_be_used_changes_nothing() {
    let root = Root::new("");
    let daemon = root.serve();
    root.settings("[words]\nhalt = \"/halt\"\n");
    let status = wait_for("the fault to be seen", || {
        let status = root.json(&["status"]);
        status["problems"].to_string().contains("g2.toml").then_some(status)
    });
    assert_eq!(status["state"], "degraded");
    wait_for("the fault to be told", || root.log().contains("those of before hold").then_some(()));
    root.settings("[words]\nstop = \"/halt\"\n");
    wait_for("the change to be taken", || root.log().contains("words.stop hold now").then_some(()));
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn the_log_s_level_follows_the_settings() {
    let root = Root::new("");
    let daemon = root.serve();
    set(&root, "log_level", "error");
    let quiet = root.log();
    set(&root, "limits.keep_days", "3");
    root.ask("local:main", "hello");
    assert_eq!(root.log(), quiet);
    set(&root, "log_level", "info");
    set(&root, "limits.keep_days", "4");
    wait_for("the log to tell of it", || root.log().contains("limits.keep_days hold now").then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}
