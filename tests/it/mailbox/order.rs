//! Once, and in order.
#![expect(clippy::disallowed_methods, reason = "tests write and look at files")]

use std::fs;

use serde_json::{Value, json};

use super::commands::two_groups;
use crate::support::{Root, wait_for};

fn say(text: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:main", "text": text})
}

fn said(root: &Root, count: usize) -> Vec<String> {
    wait_for(&format!("{count} messages to be said"), || {
        let said = root.said("local:main");
        (said.len() >= count).then_some(said)
    })
}

#[test]
fn the_same_request_again_gets_the_first_reply_and_is_applied_once() {
    let root = two_groups();
    let _daemon = root.serve();
    let mut command = say("once");
    command["requestId"] = "same".into();
    root.put_command("main", "messages", "1.json", &command);
    root.settled_file("main", "1.json");
    let first = fs::read(root.data("ipc/main/responses/same.json")).unwrap();
    fs::remove_file(root.data("ipc/main/responses/same.json")).unwrap();
    root.put_command("main", "tasks", "2.json", &command);
    root.reply("main", "same");
    assert_eq!(fs::read(root.data("ipc/main/responses/same.json")).unwrap(), first);
    assert_eq!(root.settled_file("main", "2.json")["state"], "applied");
    // Other bytes under the same id.
    command["text"] = "twice".into();
    root.put_command("main", "messages", "3.json", &command);
    let row = root.settled_file("main", "3.json");
    assert_eq!((&row["state"], &row["code"]), (&json!("refused"), &json!("conflict")));
    wait_for("the conflict to be answered", || {
        (root.reply("main", "same")["error"]["code"] == "conflict").then_some(())
    });
    // The first bytes still get the first reply.
    command["text"] = "once".into();
    root.put_command("main", "messages", "4.json", &command);
    root.settled_file("main", "4.json");
    wait_for("the first reply", || (root.reply("main", "same")["ok"] == true).then_some(()));
    // Another group's ids are its own.
    command["chatJid"] = "local:family".into();
    root.put_command("family", "messages", "5.json", &command);
    assert_eq!(root.reply("family", "same")["result"]["outboxId"], 2);
    assert_eq!(said(&root, 1), ["once"]);
}

#[test]
fn a_refusal_is_remembered_with_its_request_too() {
    let root = Root::new("");
    let _daemon = root.serve();
    let command = json!({"type": "cancel_task", "taskId": "t", "requestId": "r"});
    root.put_command("main", "tasks", "1.json", &command);
    let first = root.reply("main", "r");
    assert_eq!(first["error"]["code"], "not_found");
    fs::remove_file(root.data("ipc/main/responses/r.json")).unwrap();
    // The same task exists now; the question was answered before.
    root.put_command(
        "main",
        "tasks",
        "2.json",
        &json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": "interval", "schedule_value": "3600000"}),
    );
    root.put_command("main", "tasks", "3.json", &command);
    assert_eq!(root.reply("main", "r"), first);
    root.settled_file("main", "3.json");
    assert_eq!(root.rows(&["tasks", "list"]).len(), 1);
}

#[test]
fn either_box_takes_any_command() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut command = say("from tasks");
    command["requestId"] = "r1".into();
    root.put_command("main", "tasks", "x.json", &command);
    assert_eq!(root.reply("main", "r1")["ok"], true);
    root.put_command("main", "messages", "x.json", &json!({"type": "list_tasks", "requestId": "r2"}));
    assert_eq!(root.reply("main", "r2")["ok"], true);
}

#[test]
fn commands_of_a_group_are_applied_in_the_order_in_which_they_were_published() {
    let root = Root::new("");
    let _daemon = root.serve();
    // Names that would sort the other way round, in both boxes by turns.
    for n in 0..60 {
        let in_box = if n % 2 == 0 { "messages" } else { "tasks" };
        root.put_command("main", in_box, &format!("{:03}.json", 999 - n), &say(&n.to_string()));
    }
    let expected: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    assert_eq!(said(&root, 60), expected);
}

#[test]
fn commands_written_while_the_daemon_is_down_are_applied_in_order_when_it_starts() {
    let root = Root::new("");
    root.serve().terminate();
    for n in 0..20 {
        let in_box = if n % 2 == 0 { "messages" } else { "tasks" };
        root.put_command("main", in_box, &format!("{n:03}.json"), &say(&n.to_string()));
    }
    let waiting = root.rows(&["ipc", "list"]);
    assert_eq!(waiting.len(), 20);
    assert!(waiting.iter().all(|row| row["state"] == "waiting" && row["id"].is_null()), "{waiting:?}");
    let _daemon = root.serve();
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(said(&root, 20), expected);
}

#[test]
fn a_busy_group_delays_no_other() {
    let root = two_groups();
    root.serve().terminate();
    for n in 0..2_000 {
        root.put_command("main", "messages", &format!("{n:05}.json"), &json!({"type": "list_tasks"}));
    }
    let _daemon = root.serve();
    root.put_command("family", "messages", "x.json", &json!({"type": "list_tasks", "requestId": "r"}));
    root.reply("family", "r");
    root.settled(2_001);
    assert_eq!(root.rows(&["ipc", "list", "--state", "applied"]).len(), 2_001);
}

#[test]
fn the_last_files_of_a_dying_container_are_applied_in_order() {
    let script = r#"cat > /dev/null; cd "$G2_IPC_DIR/messages"; n=999; while [ $n -gt 949 ]; do
        echo "{\"type\":\"send_message\",\"chatJid\":\"local:main\",\"text\":\"$n\"}" > t; mv t $n.json; n=$((n-1)); done"#;
    let root = Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n"
    ));
    let _daemon = root.serve();
    root.g2(&["send", "go"]);
    let expected: Vec<String> = (950..=999).rev().map(|n| n.to_string()).collect();
    assert_eq!(said(&root, 50)[..50], expected);
}

#[test]
fn the_log_says_how_many_of_many_commands_were_obeyed_and_names_each_that_was_not() {
    let root = Root::new("");
    root.serve().terminate();
    for n in 0..60 {
        root.put_command("main", "messages", &format!("{n:02}.json"), &say(&n.to_string()));
    }
    let nobody = json!({"type": "cancel_task", "taskId": "nobody"});
    root.put_command("main", "messages", "60.json", &nobody);
    let _daemon = root.serve();
    assert_eq!(said(&root, 60).len(), 60);
    root.settled_file("main", "60.json");
    let log = wait_for("the refusal in the log", || {
        let log = root.log();
        log.contains("outcome=refused").then_some(log)
    });
    let number = |line: &str, of: &str| -> usize {
        let (_, after) = line.split_once(&format!(" {of}=")).unwrap();
        after.split(' ').next().unwrap().parse().unwrap()
    };
    let together: Vec<&str> = log.lines().filter(|line| line.contains("commands settled")).collect();
    let one_by_one = log.lines().filter(|line| line.contains("command settled")).count();
    let counted: usize = together.iter().map(|line| number(line, "count")).sum();
    assert!(!together.is_empty() && one_by_one >= 1, "{log}");
    assert_eq!(counted + one_by_one, 61, "{log}");
    for line in together {
        assert_eq!(number(line, "last") - number(line, "first") + 1, number(line, "count"), "{line}");
    }
}
