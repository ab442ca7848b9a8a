//! How long replies stay in their box.
#![expect(clippy::disallowed_methods, reason = "tests play the container")]

use serde_json::json;

use super::commands::ask;
use crate::support::{Root, wait_for};

fn is_there(root: &Root, id: &str) -> bool {
    root.data(&format!("ipc/main/responses/{id}.json")).exists()
}

/// Ends main's agent, and waits for that.
fn end_its_agent(root: &Root) {
    root.g2(&["groups", "restart", "main"]);
    wait_for("the agent to have left", || {
        root.rows(&["runs", "list"]).iter().all(|run| run["status"] == "succeeded").then_some(())
    });
}

#[test]
fn a_reply_to_a_command_of_no_run_stays_for_a_day_and_that_to_one_of_a_run_until_the_next_run() {
    let root = Root::new("");
    let daemon = root.serve();
    let list = json!({"type": "list_tasks"});
    assert_eq!(ask(&root, "main", list.clone(), "by-hand")["ok"], true);
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    // While the agent lives, this could be its own.
    assert_eq!(ask(&root, "main", list.clone(), "of-a-run")["ok"], true);
    end_its_agent(&root);
    assert!(is_there(&root, "by-hand") && is_there(&root, "of-a-run"));
    assert_eq!(root.ask("local:main", "once more"), "echo: once more\n");
    assert!(is_there(&root, "by-hand") && !is_there(&root, "of-a-run"));
    end_its_agent(&root);
    assert_eq!(daemon.terminate(), Some(0));
    // A day later it goes, and a younger one stays.
    root.change_store("UPDATE receipts SET at = at - 90000000 WHERE request_id = 'by-hand'");
    let _daemon = root.serve();
    assert_eq!(ask(&root, "main", list, "younger")["ok"], true);
    root.g2(&["prune", "--yes"]);
    assert!(!is_there(&root, "by-hand") && is_there(&root, "younger"));
}

#[test]
fn a_container_keeps_no_replies_by_the_names_of_those_by_hand_beyond_a_bound() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(ask(&root, "main", json!({"type": "list_tasks"}), "large")["ok"], true);
    assert_eq!(ask(&root, "main", json!({"type": "list_tasks"}), "link")["ok"], true);
    let at = |name: &str| root.data(&format!("ipc/main/responses/{name}"));
    std::fs::File::create(at("large.json")).unwrap().set_len(5 << 20).unwrap();
    std::fs::remove_file(at("link.json")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", at("link.json")).unwrap();
    std::fs::write(at("own.json"), "{}").unwrap();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert!(!is_there(&root, "large") && !is_there(&root, "own"));
    assert!(at("link.json").symlink_metadata().is_err());
}

#[test]
fn a_reply_to_a_command_that_starts_a_run_itself_is_there_after_that_run() {
    let root = Root::new("");
    let _daemon = root.serve();
    let ids: Vec<String> = (1..=10).map(|n| format!("r{n}")).collect();
    for (runs, id) in (1..).zip(&ids) {
        let now = jiff::Timestamp::now().as_millisecond();
        let task =
            json!({"type": "schedule_task", "prompt": "p", "schedule_type": "once", "schedule_value": now});
        assert_eq!(ask(&root, "main", task, id)["ok"], true);
        wait_for("the run of the task to be over", || {
            let all = root.rows(&["runs", "list"]);
            (all.len() == runs && all.iter().all(|run| run["status"] == "succeeded")).then_some(())
        });
    }
    assert!(ids.iter().all(|id| is_there(&root, id)));
}
