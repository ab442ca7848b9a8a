//! A runner as v1 had it, unchanged: no numbers, no `ready`, no `handled`, an input folder that it looks into by itself.

use serde_json::{Value, json};

use crate::support::{Root, Socket, example, wait_for};

/// A root whose agents are v1's; `toml` goes on top.
fn v1(toml: &str) -> Root {
    Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"{}\"]\n{toml}",
        example("v1-runner").display()
    ))
}

#[test]
fn messages_and_follow_ups_are_answered_by_one_run() {
    let root = v1("");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "v1 echo: one\n");
    assert_eq!(root.ask("local:main", "two & <three>"), "v1 echo: two & <three>\n");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((runs.len(), &runs[0]["status"], &runs[0]["records"]), (1, &json!("running"), &json!(2)));
    assert_eq!(root.why(2)["wirings"][0]["batch_state"], "done");
}

#[test]
fn a_run_that_is_asked_to_leave_leaves_without_an_error_and_the_conversation_goes_on() {
    let root = v1("");
    let _daemon = root.serve();
    root.g2(&["send", "--thread", "a", "--wait", "60", "one"]);
    // Another lane needs the group's container.
    root.g2(&["send", "--thread", "b", "--wait", "60", "two"]);
    root.g2(&["send", "--thread", "a", "--wait", "60", "three"]);
    let runs = root.rows(&["runs", "list"]);
    let ends: Vec<(&Value, &Value)> = runs.iter().map(|run| (&run["status"], &run["error"])).collect();
    let (done, none) = (json!("succeeded"), Value::Null);
    assert_eq!(ends, [(&done, &none), (&done, &none), (&json!("running"), &none)]);
    assert_eq!(root.data_json("runs/3/launch.json")["sessionId"], "v1-session");
    assert_eq!(root.said("local:main"), ["v1 echo: one", "v1 echo: two", "v1 echo: three"]);
}

#[test]
fn a_task_runs_and_its_container_leaves() {
    let root = v1("");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let task = json!({"type": "schedule_task", "taskId": "t", "prompt": "water", "schedule_type": "once", "schedule_value": crate::support::due(), "output": "chat"});
    root.put_command("main", "tasks", "t.json", &task);
    root.settled_file("main", "t.json");
    wait_for("the task to be completed", || {
        (root.json(&["tasks", "show", "t"])["status"] == "completed").then_some(())
    });
    wait_for("it to be said", || {
        (root.said("local:main") == ["v1 echo: hello", "v1 echo: water"]).then_some(())
    });
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((&runs[1]["kind"], &runs[1]["status"]), (&json!("task"), &json!("succeeded")));
}

#[test]
fn of_many_messages_at_once_none_is_lost() {
    let root =
        v1("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let seqs: Vec<i64> =
        (0..12).map(|n| socket.accepted("local:main", &n.to_string(), &n.to_string())).collect();
    socket.rest("local:main");
    for seq in seqs {
        let why = root.why(seq);
        assert_eq!(why["wirings"][0]["batch_state"], "done", "{why}");
    }
    assert_eq!(root.said("local:main").last().unwrap(), "v1 echo: 11");
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn a_run_that_has_been_idle_for_v1s_time_is_closed() {
    let root = v1("[health]\nidle_ms = 300\n");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let run = wait_for("the run to end", || {
        root.rows(&["runs", "list"]).into_iter().find(|run| run["ended_at"].is_string())
    });
    assert_eq!((&run["status"], &run["error"]), (&json!("succeeded"), &Value::Null));
    assert_eq!(root.ask("local:main", "again"), "v1 echo: again\n");
}

#[test]
fn an_error_of_a_v1_runner_is_tried_again_and_then_told() {
    let script = r#"cat > /dev/null; echo ---NANOCLAW_OUTPUT_START---; echo '{"status":"error","result":null,"error":"boom"}'; echo ---NANOCLAW_OUTPUT_END---; exit 1"#;
    let root = Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n"
    ));
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs.len(), 6);
    assert!(runs.iter().all(|run| run["error"] == "boom"), "{runs:?}");
    assert_eq!(root.said("local:main").len(), 1);
}
