//! Scheduled prompts: their times, their texts, and their failures.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "tests play the user")]

use serde_json::{Value, json};

use crate::support::{Root, Socket, due, hourly, wait_for};

/// Schedules a task; the fields of `more` go on top.
fn schedule(root: &Root, id: &str, kind: &str, value: &str, more: &Value) {
    let mut command = json!({"type": "schedule_task", "taskId": id, "prompt": "water the plants", "schedule_type": kind, "schedule_value": value});
    for (name, value) in more.as_object().unwrap() {
        command[name] = value.clone();
    }
    let name = format!("{id}.json");
    root.put_command("main", "tasks", &name, &command);
    // Its reply may be swept away by the run that it starts.
    let row = root.settled_file("main", &name);
    assert_eq!(row["state"], "applied", "{row}");
}

/// Schedules a task that is due at once.
fn now(root: &Root, id: &str, more: &Value) {
    schedule(root, id, "once", &due(), more);
}

fn task(root: &Root, id: &str) -> Value {
    root.json(&["tasks", "show", id])
}

fn completed(root: &Root, id: &str) -> Value {
    wait_for(&format!("{id} to be completed"), || {
        Some(task(root, id)).filter(|task| task["status"] == "completed")
    })
}

fn task_runs(root: &Root) -> Vec<Value> {
    root.rows(&["runs", "list"]).into_iter().filter(|run| run["kind"] == "task").collect()
}

#[test]
fn a_task_that_is_due_runs_at_once_and_its_output_stays_in_the_history() {
    let root = Root::new("");
    let _daemon = root.serve();
    now(&root, "t", &json!({}));
    let done = completed(&root, "t");
    assert_eq!(
        [&done["next_run"], &done["last_result"], &done["output"]],
        [&Value::Null, &json!("echo: water the plants"), &json!("history")]
    );
    assert!(done["last_run"].is_string());
    let runs = task_runs(&root);
    assert_eq!(
        [&runs[0]["source"], &runs[0]["status"], &runs[0]["lane"]],
        [&json!("task:t"), &json!("succeeded"), &json!("local:main")]
    );
    assert_eq!(root.prompt(1), "water the plants");
    let launch = root.data_json("runs/1/launch.json");
    assert_eq!([&launch["isScheduledTask"], &launch["batchId"]], [&json!(true), &json!("task-1")]);
    assert!(root.rows(&["outbox", "list"]).is_empty());
    wait_for("the snapshot to follow", || {
        let shown = root.data_json("ipc/main/current_tasks.json");
        (shown[0]["status"] == "completed" && shown[0]["next_run"].is_null()).then_some(())
    });
}

#[test]
fn a_tasks_output_goes_to_the_chat_when_it_is_meant_to() {
    let root = Root::new("");
    let _daemon = root.serve();
    now(&root, "t", &json!({"output": "chat"}));
    completed(&root, "t");
    wait_for("it to be said", || (root.said("local:main") == ["echo: water the plants"]).then_some(()));
}

#[test]
fn a_task_can_say_something_by_a_command() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [
        {"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r", "chatJid": "{{chat_jid}}", "text": "{{text}}!"}}},
        {"say": "told them"},
    ]}]));
    let _daemon = root.serve();
    now(&root, "t", &json!({}));
    assert_eq!(completed(&root, "t")["last_result"], "told them");
    wait_for("it to be said", || (root.said("local:main") == ["water the plants!"]).then_some(()));
}

#[test]
fn an_interval_runs_on_its_grid_and_each_slot_once() {
    let root = Root::new("");
    let _daemon = root.serve();
    schedule(&root, "t", "interval", "1000", &json!({}));
    let first = root.json(&["ipc", "show", "1"])["reply"]["result"]["nextRun"].as_str().unwrap().to_owned();
    let runs = wait_for("three runs", || Some(task_runs(&root)).filter(|runs| runs.len() >= 3));
    let after = task(&root, "t");
    let ms = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let (first, next) = (ms(&first), ms(after["next_run"].as_str().unwrap()));
    assert_eq!((next - first) % 1000, 0);
    assert_eq!(after["status"], "active");
    let mut slots: Vec<i64> =
        runs.iter().filter_map(|run| run["started_at"].as_str()).map(|at| (ms(at) - first) / 1000).collect();
    assert!(slots.iter().all(|slot| *slot >= 0), "{slots:?}");
    let count = slots.len();
    slots.dedup();
    assert_eq!(slots.len(), count, "a slot ran twice: {runs:?}");
}

#[test]
fn a_task_takes_the_place_of_an_idle_container_of_its_group() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    now(&root, "t", &json!({}));
    completed(&root, "t");
    root.ask("local:main", "again");
    let runs = root.rows(&["runs", "list"]);
    let kinds: Vec<(&Value, &Value)> = runs.iter().map(|run| (&run["kind"], &run["status"])).collect();
    let (message, task, done) = (json!("message"), json!("task"), json!("succeeded"));
    assert_eq!(kinds, [(&message, &done), (&task, &done), (&message, &json!("running"))]);
}

#[test]
fn a_message_that_comes_during_a_task_is_answered_after_it() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    now(&root, "t", &json!({"output": "chat"}));
    wait_for("the task to start", || (!task_runs(&root).is_empty()).then_some(()));
    root.judged(root.send("local:main", "and me?"));
    root.open_gate();
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["echo: water the plants", "echo: and me?"]);
}

#[test]
fn a_task_that_was_cancelled_before_its_turn_does_not_run() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    root.send("local:main", "hello");
    wait_for("the container to start", || (!root.rows(&["runs", "list"]).is_empty()).then_some(()));
    now(&root, "t", &json!({}));
    now(&root, "u", &json!({}));
    root.put_command("main", "tasks", "c.json", &json!({"type": "cancel_task", "taskId": "t"}));
    assert_eq!(root.settled_file("main", "c.json")["state"], "applied");
    root.open_gate();
    completed(&root, "u");
    let sources: Vec<Value> = task_runs(&root).iter().map(|run| run["source"].clone()).collect();
    assert_eq!(sources, ["task:u"]);
}

#[test]
fn a_task_that_fails_is_tried_again_and_then_the_chat_is_told() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    now(&root, "t", &json!({}));
    let given_up = completed(&root, "t");
    assert_eq!(given_up["last_result"], "Error: exited with code 3");
    let runs = task_runs(&root);
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run["error"] == "exited with code 3"), "{runs:?}");
    let told = "Scheduled task t (“water the plants”) failed: I tried 4 times, and the last time I crashed.";
    wait_for("the chat to be told", || (root.said("local:main") == [told]).then_some(()));
}

#[test]
fn a_task_that_the_host_can_not_start_waits_until_it_can_and_status_says_why() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "script=nowhere.json"]);
    let _daemon = root.serve();
    now(&root, "t", &json!({}));
    let told = "Scheduled task t (“water the plants”) can't run now because my container could not be started. I try again by myself.";
    wait_for("the chat to be told", || (root.said("local:main") == [told]).then_some(()));
    let waiting = task(&root, "t");
    assert_eq!([&waiting["status"], &waiting["failures"]], [&json!("active"), &json!(0)]);
    let status = root.run(&["status"]);
    let shown = String::from_utf8_lossy(&status.stdout);
    assert!(status.status.code() == Some(1) && shown.contains("nowhere.json"), "{shown}");
    root.g2(&["groups", "set", "main", "script="]);
    assert_eq!(completed(&root, "t")["last_result"], "echo: water the plants");
}

#[test]
fn a_task_that_has_begun_is_not_begun_again() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [
        {"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r", "chatJid": "local:main", "text": "begun"}}},
        {"error": "no more"},
    ]}]));
    let _daemon = root.serve();
    now(&root, "t", &json!({}));
    completed(&root, "t");
    assert_eq!(task_runs(&root).len(), 1);
    let told = "Scheduled task t (“water the plants”) was interrupted (there was an error) after it had begun, so it is not started over.";
    wait_for("the chat to be told", || (root.said("local:main") == ["begun", told]).then_some(()));
}

#[test]
fn a_task_goes_on_in_the_conversation_or_has_one_of_its_own() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    now(&root, "g", &json!({"context_mode": "group"}));
    completed(&root, "g");
    now(&root, "i", &json!({"context_mode": "isolated"}));
    completed(&root, "i");
    root.ask("local:main", "again");
    let session = |run: i64| root.data_json(&format!("runs/{run}/launch.json"))["sessionId"].clone();
    assert_eq!(
        [session(1), session(2), session(3), session(4)],
        [json!(null), json!("scripted-1"), json!(null), json!("scripted-1")]
    );
}

#[test]
fn a_tasks_own_script_decides_whether_the_agent_is_woken() {
    let root = Root::new("");
    let _daemon = root.serve();
    now(&root, "quiet", &json!({"script": "echo '{\"wakeAgent\": false}'", "output": "chat"}));
    assert_eq!(completed(&root, "quiet")["last_result"], "Completed");
    now(
        &root,
        "loud",
        &json!({"script": "echo '{\"wakeAgent\": true, \"data\": {\"dry\": 3}}'", "output": "chat"}),
    );
    completed(&root, "loud");
    wait_for("it to be said", || (root.said("local:main").len() == 1).then_some(()));
    let said = &root.said("local:main")[0];
    assert!(said.contains("\"dry\": 3") && said.ends_with("water the plants"), "{said}");
}

#[test]
fn a_task_that_says_nothing_does_not_keep_the_result_of_the_time_before() {
    let root = Root::new("");
    root.script(Some("main"), &json!([{"do": [{"say": "something"}]}]));
    let _daemon = root.serve();
    schedule(&root, "t", "interval", "1000", &json!({}));
    wait_for("the first result", || (task(&root, "t")["last_result"] == "something").then_some(()));
    root.script(Some("main"), &json!([{"do": []}]));
    wait_for("a run without one", || (task(&root, "t")["last_result"] == "Completed").then_some(()));
}

fn history(root: &Root, id: &str) -> Vec<Value> {
    root.rows(&["tasks", "history", id])
}

#[test]
fn a_task_script_that_fails_is_a_failure_with_its_output_in_the_history() {
    let root = Root::new("");
    let _daemon = root.serve();
    now(&root, "t", &json!({"script": "echo looking; echo no such host >&2; exit 3", "output": "chat"}));
    completed(&root, "t");
    let rows = history(&root, "t");
    assert_eq!(rows.len(), 4);
    assert_eq!(
        [&rows[0]["outcome"], &rows[0]["status"], &rows[0]["error"], &rows[0]["result"]],
        [
            "ran",
            "failed",
            "the task script failed: exit status: 3",
            "printed:\nlooking\non stderr:\nno such host"
        ]
    );
    let told = "Scheduled task t (“water the plants”) failed: I tried 4 times, and the last time there was an error.";
    wait_for("the chat to be told", || (root.said("local:main") == [told]).then_some(()));
}

#[test]
fn slots_that_come_during_a_run_are_skipped_and_the_log_says_so_at_once() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    schedule(&root, "t", "interval", "1000", &json!({}));
    wait_for("the log", || {
        root.log().contains("skipping t: previous run still queued or running").then_some(())
    });
    let skipped = wait_for("the history", || {
        history(&root, "t").into_iter().find(|row| row["slots"].as_u64() >= Some(2))
    });
    assert_eq!([&skipped["outcome"], &skipped["run"]], [&json!("skipped"), &Value::Null]);
    assert_eq!(task_runs(&root).len(), 1);
    root.open_gate();
    wait_for("the next run", || (task_runs(&root).len() >= 2).then_some(()));
}

#[test]
fn what_was_missed_while_it_was_down_is_made_up_for_by_the_rule_of_the_task() {
    let root = Root::new(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\ncatch_up_spacing_ms = 200\n",
    );
    let daemon = root.serve();
    for catch_up in ["skip", "latest", "all"] {
        schedule(&root, catch_up, "interval", "3600000", &json!({"catchUp": catch_up}));
    }
    assert_eq!(daemon.terminate(), Some(0));
    root.change_store("UPDATE tasks SET next_run = next_run - 5 * 3600000");
    let _daemon = root.serve();
    let ran = |id: &str| history(&root, id).iter().filter(|row| row["outcome"] == "ran").count();
    wait_for("all that is made up for", || (ran("all") == 5 && ran("latest") == 1).then_some(()));
    let missed = |id: &str| -> u64 {
        let rows = history(&root, id);
        rows.iter().filter(|row| row["reason"] == "host down").filter_map(|row| row["slots"].as_u64()).sum()
    };
    assert_eq!((ran("skip"), missed("skip"), missed("latest"), missed("all")), (0, 5, 4, 0));
    let due: Vec<Value> = history(&root, "all").iter().map(|row| row["due"].clone()).collect();
    let started: Vec<Value> = history(&root, "all").iter().map(|row| row["started_at"].clone()).collect();
    let sorted = |values: &[Value]| values.is_sorted_by_key(|value| value.as_str().map(str::to_owned));
    assert!(sorted(&due) && sorted(&started), "{due:?} {started:?}");
}

#[test]
fn a_task_that_dies_during_its_background_work_is_not_completed() {
    let root = Root::new("");
    let record = |json: Value| format!("---G2_OUTPUT_START---\n{json}\n---G2_OUTPUT_END---\n");
    let deferred = json!({"status": "success", "type": "deferred", "handled": ["task-1"], "seq": 2});
    root.script(None, &json!([{"do": [{"print": record(deferred)}, {"exit": 3}]}]));
    let _daemon = root.serve();
    now(&root, "t", &json!({}));
    assert_eq!(completed(&root, "t")["last_result"], "Error: exited with code 3");
    assert!(task_runs(&root).iter().all(|run| run["status"] == "failed"));
    let told = "Scheduled task t (“water the plants”) failed: I tried 4 times, and the last time I crashed.";
    wait_for("the chat to be told", || (root.said("local:main") == [told]).then_some(()));
}

#[test]
fn a_group_says_how_many_tasks_go_with_it_and_main_does_not_go() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for _ in 0..2 {
        root.g2(&["tasks", "add", "--group", "family", "--type", "cron", "--value", "0 9 * * *", "water"]);
    }
    let unsure = root.run(&["groups", "remove", "family"]);
    assert_eq!(unsure.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unsure.stderr).contains("2 tasks"), "{unsure:?}");
    assert_eq!(
        root.g2(&["groups", "remove", "family", "--yes"]),
        "group family is removed with 2 tasks; groups/family stays\n"
    );
    let main = root.run(&["groups", "remove", "main", "--yes"]);
    assert_eq!(main.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&main.stderr).contains("main group"), "{main:?}");
}

#[test]
fn a_long_result_is_kept_whole_beside_the_store_even_if_the_daemon_dies_in_between() {
    let root = Root::new("");
    let (short, long) = ("a few words", "ä line of some words\n".repeat(2_000) + "the last line");
    root.script(None, &json!([{"do": [{"say": short}, {"say": long}, {"say": "and more"}]}]));
    let daemon = root.serve();
    now(&root, "t", &json!({}));
    completed(&root, "t");
    let row = history(&root, "t").remove(0);
    let whole = format!("{short}\n{long}\nand more");
    let read = |row: &Value| {
        std::fs::read_to_string(root.path().join(row["result_file"].as_str().unwrap())).unwrap()
    };
    assert_eq!(read(&row), whole);
    let beginning = row["result"].as_str().unwrap();
    assert!(
        whole.starts_with(beginning) && (16_000..=16 << 10).contains(&beginning.len()),
        "{}",
        beginning.len()
    );
    assert_eq!(daemon.terminate(), Some(0));
    // It dies behind the file of the third text, of which the row knows nothing; its run dies with it, and the next one is whole.
    let daemon = root.spawn(&[("G2_FAILPOINT", "run.result:2")]);
    wait_for("the daemon to be up", || (root.run(&["status"]).status.code() != Some(3)).then_some(()));
    root.g2(&["tasks", "run", "t"]);
    wait_for("its death", || daemon.has_ended().then_some(()));
    let _daemon = root.serve();
    let last = wait_for("the next try", || {
        history(&root, "t")
            .into_iter()
            .find(|row| row["run"].as_i64() > Some(2) && row["status"] == "succeeded")
    });
    assert_eq!(read(&last), whole);
}

#[test]
fn hundreds_of_missed_tasks_are_passed_over_and_a_person_is_answered() {
    let root = Root::new("");
    root.change_store(&format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 300)
         INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, catch_up, status, next_run, created_at)
         SELECT 't' || n, 'main', 'local:main', 'p', 'cron', '{}', 'isolated', 'skip', 'active', 1700000000000, 0 FROM n",
        hourly()
    ));
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    let coming = |task: &Value| task["next_run"].as_str() > Some("2026");
    wait_for("all to have passed", || root.rows(&["tasks", "list"]).iter().all(coming).then_some(()));
    let row = history(&root, "t300").remove(0);
    assert_eq!([&row["outcome"], &row["reason"]], ["missed", "outside the window"]);
    assert_eq!(task_runs(&root).len(), 0);
}

#[test]
fn a_death_behind_a_passed_slot_notes_it_once() {
    let root = Root::new("");
    let daemon = root.serve();
    schedule(&root, "t", "interval", "3600000", &json!({"catchUp": "skip"}));
    assert_eq!(daemon.terminate(), Some(0));
    root.change_store("UPDATE tasks SET next_run = next_run - 3 * 3600000");
    let dies = root.spawn(&[("G2_FAILPOINT", "run.handed")]);
    wait_for("its death", || dies.has_ended().then_some(()));
    let _daemon = root.serve();
    let rows = history(&root, "t");
    assert_eq!((rows.len(), &rows[0]["slots"], &rows[0]["reason"]), (1, &json!(3), &json!("host down")));
}
