//! Tasks that change: by command files, and by a person with the daemon up or down.

use serde_json::{Value, json};

use super::commands::{ask, two_groups};
use crate::support::{Root, due, wait_for};

fn task(id: &str) -> Value {
    json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron", "schedule_value": "0 9 1 1 *", "taskId": id, "script": "true"})
}

#[test]
fn a_task_is_changed_paused_and_resumed_and_every_list_follows() {
    let root = two_groups();
    let _daemon = root.serve();
    ask(&root, "family", task("f"), "r1");
    // Main changes another group's: that group sees it too.
    let update = json!({"type": "update_task", "taskId": "f", "prompt": "new", "script": "", "schedule_value": "0 8 1 1 *"});
    let reply = ask(&root, "main", update, "r2");
    assert_eq!((&reply["result"]["taskId"], &reply["result"]["status"]), (&json!("f"), &json!("active")));
    assert!(reply["result"]["nextRun"].as_str().unwrap().ends_with("-01-01T08:00:00.000Z"), "{reply}");
    for group in ["family", "main"] {
        wait_for("the list to follow", || {
            let row = root.data_json(&format!("ipc/{group}/current_tasks.json"))[0].clone();
            (row["prompt"] == "new" && row["schedule_value"] == "0 8 1 1 *" && row.get("script").is_none())
                .then_some(())
        });
    }
    let reply = ask(&root, "family", json!({"type": "pause_task", "taskId": "f"}), "r3");
    assert_eq!(reply["result"]["status"], "paused");
    assert_eq!(root.data_json("ipc/family/current_tasks.json")[0]["status"], "paused");
    let reply = ask(&root, "family", json!({"type": "resume_task", "taskId": "f"}), "r4");
    assert_eq!(reply["result"]["status"], "active");
    ask(&root, "main", task("m"), "r5");
    for kind in ["update_task", "pause_task", "resume_task", "cancel_task"] {
        let reply = ask(&root, "family", json!({"type": kind, "taskId": "m"}), &format!("x-{kind}"));
        assert_eq!(reply["error"]["code"], "not_found", "{kind}");
    }
}

#[test]
fn a_paused_task_does_not_run_and_a_resumed_one_that_was_missed_once_does() {
    let root = Root::new("");
    let daemon = root.serve();
    root.g2(&[
        "tasks",
        "add",
        "--group",
        "main",
        "--type",
        "once",
        "--value",
        "2099-01-01T00:00:00Z",
        "--id",
        "o",
        "--output",
        "chat",
        "x",
    ]);
    root.g2(&["tasks", "pause", "o"]);
    // Its time comes while it rests.
    let first = due();
    root.g2(&["tasks", "update", "o", "--value", &first]);
    root.ask("local:main", "anything else");
    assert_eq!(root.json(&["tasks", "show", "o"])["status"], "paused");
    assert!(root.rows(&["tasks", "history", "o"]).is_empty());
    root.g2(&["tasks", "resume", "o"]);
    wait_for("it to be over", || (root.json(&["tasks", "show", "o"])["status"] == "completed").then_some(()));
    let history = root.rows(&["tasks", "history", "o"]);
    assert_eq!((history.len(), &history[0]["status"]), (1, &json!("succeeded")));
    let shown: jiff::Timestamp = history[0]["due"].as_str().unwrap().parse().unwrap();
    assert_eq!(shown.as_millisecond(), first.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    assert!(history[0]["result"].as_str().unwrap().starts_with("echo: "), "{history:?}");
    // Over is over, until it has a new schedule.
    assert!(!root.run(&["tasks", "resume", "o"]).status.success());
    assert_eq!(daemon.terminate(), Some(0));
    root.g2(&["tasks", "update", "o", "--value", &due()]);
    let _daemon = root.serve();
    wait_for("its second run", || (root.rows(&["tasks", "history", "o"]).len() == 2).then_some(()));
}

#[test]
fn a_person_has_a_task_run_now_without_losing_its_next_time() {
    let root = Root::new("");
    root.g2(&[
        "tasks",
        "add",
        "--group",
        "main",
        "--type",
        "cron",
        "--value",
        "0 9 1 1 *",
        "--id",
        "c",
        "say it",
    ]);
    let next = root.json(&["tasks", "show", "c"])["next_run"].clone();
    root.g2(&["tasks", "run", "c"]);
    let _daemon = root.serve();
    wait_for("its run", || {
        let history = root.rows(&["tasks", "history", "c"]);
        history.first().filter(|run| run["status"] == "succeeded").map(|_| ())
    });
    assert_eq!(root.json(&["tasks", "show", "c"])["next_run"], next);
    root.g2(&["tasks", "pause", "c"]);
    assert!(!root.run(&["tasks", "run", "c"]).status.success());
    root.g2(&["tasks", "cancel", "c"]);
    assert_eq!(root.rows(&["tasks", "history", "c"]).len(), 1, "what it did is remembered");
    for (refused, why) in [
        (vec!["tasks", "pause", "c"], "does not exist"),
        (
            vec!["tasks", "add", "--group", "main", "--type", "cron", "--value", "never", "x"],
            "invalid_schedule",
        ),
        (
            vec!["tasks", "add", "--group", "nobody", "--type", "cron", "--value", "0 9 * * *", "x"],
            "does not exist",
        ),
    ] {
        let output = root.run(&refused);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}

#[test]
fn a_new_schedule_that_comes_while_the_old_one_runs_is_kept() {
    let root = Root::new("");
    let update = json!({"type": "update_task", "requestId": "r1", "taskId": "o", "schedule_value": "2099-01-01T00:00:00Z"});
    root.script(None, &json!([{"do": [{"command": {"box": "tasks", "json": update}}, {"say": "moved"}]}]));
    let _daemon = root.serve();
    root.g2(&["tasks", "add", "--group", "main", "--type", "once", "--value", &due(), "--id", "o", "x"]);
    wait_for("its run", || {
        root.rows(&["tasks", "history", "o"]).first().filter(|run| run["status"] == "succeeded").map(|_| ())
    });
    let task = root.json(&["tasks", "show", "o"]);
    assert_eq!((&task["status"], &task["next_run"]), (&json!("active"), &json!("2099-01-01T00:00:00.000Z")));
}
