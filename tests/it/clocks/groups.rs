//! A group with a time zone of its own: its prompts, its tasks, and the times that people see of it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::support::{Root, Socket, wait_for};

/// A root whose group `family` lives in Tokyo while everybody else's clocks show UTC.
fn tokyo() -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root.g2(&["groups", "set", "family", "timezone=Asia/Tokyo"]);
    root
}

#[test]
fn a_group_reads_its_messages_by_its_own_clock() {
    let root = tokyo();
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for chat in ["local:family", "local:main"] {
        let sent = json!({"op": "send", "chat": chat, "sender": "Ann", "text": "hi", "key": "k", "at": "2026-01-01T18:30:00Z"});
        assert_eq!(socket.call(&sent)["is"], "accepted");
        socket.rest(chat);
    }
    let said = |run| root.prompt(run).lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        said(1),
        [
            r#"<context timezone="Asia/Tokyo" />"#,
            "<messages>",
            r#"<message sender="Ann" time="Jan 2, 2026, 3:30 AM">hi</message>"#
        ]
    );
    assert_eq!(
        said(2),
        [
            r#"<context timezone="UTC" />"#,
            "<messages>",
            r#"<message sender="Ann" time="Jan 1, 2026, 6:30 PM">hi</message>"#
        ]
    );
}

#[test]
fn a_follow_up_into_a_live_run_is_shown_by_the_groups_clock_too() {
    let root = tokyo();
    // The first turn never ends, so the follow-up stays where it was put.
    root.script(Some("family"), &json!([{"do": [{"hang": true}]}]));
    let _daemon = root.serve();
    let first = root.send("local:family", "one");
    wait_for("the first turn", || (root.why(first)["wirings"][0]["batch_state"] == "claimed").then_some(()));
    root.send("local:family", "two");
    let input = root.data_json("ipc/family/input/000000000002.json");
    assert!(input["text"].as_str().unwrap().starts_with(r#"<context timezone="Asia/Tokyo" />"#), "{input}");
}

/// Has a group ask for a daily task at 9; returns the reply's result.
fn at_nine(root: &Root, asker: &str, id: &str, chat: &str) -> Value {
    let command = json!({"type": "schedule_task", "requestId": id, "taskId": id, "prompt": "p", "schedule_type": "cron",
                         "schedule_value": "0 9 * * *", "targetJid": chat});
    root.put_command(asker, "tasks", &format!("{id}.json"), &command);
    root.reply(asker, id)["result"].clone()
}

#[test]
fn a_groups_tasks_run_by_its_own_clock_for_any_author() {
    let root = tokyo();
    let _daemon = root.serve();
    for (asker, id, chat, clock) in [
        ("family", "own", "local:family", "T09:00:00+09:00"),
        ("main", "for-family", "local:family", "T09:00:00+09:00"),
        ("main", "mains", "local:main", "T09:00:00+00:00"),
    ] {
        let made = at_nine(&root, asker, id, chat);
        assert!(made["nextRunLocal"].as_str().unwrap().ends_with(clock), "{id}: {made}");
        let hour = if clock.ends_with("+09:00") { "T00:00:00.000Z" } else { "T09:00:00.000Z" };
        assert!(made["nextRun"].as_str().unwrap().ends_with(hour), "{id}: {made}");
        let zone = if clock.ends_with("+09:00") { "Asia/Tokyo" } else { "UTC" };
        assert_eq!(made["scheduleInWords"], format!("every day at 09:00 {zone}"));
    }
    // A time without a zone is the group's own too.
    let once = json!({"type": "schedule_task", "requestId": "o", "prompt": "p", "schedule_type": "once", "schedule_value": "2999-06-01T09:00", "targetJid": "local:family"});
    root.put_command("family", "tasks", "o.json", &once);
    assert_eq!(root.reply("family", "o")["result"]["nextRun"], "2999-06-01T00:00:00.000Z");
    // So does what another changes about it.
    let change =
        json!({"type": "update_task", "requestId": "u", "taskId": "own", "schedule_value": "30 10 * * *"});
    root.put_command("main", "tasks", "u.json", &change);
    let changed = root.reply("main", "u");
    assert!(changed["result"]["nextRun"].as_str().unwrap().ends_with("T01:30:00.000Z"), "{changed}");
    assert_eq!(changed["result"]["scheduleInWords"], "every day at 10:30 Asia/Tokyo");
    // Main sees each by the clock of its group.
    let words = |tasks: &Value| -> Vec<String> {
        let words =
            tasks.as_array().unwrap().iter().map(|task| task["scheduleInWords"].as_str().unwrap().to_owned());
        words.collect()
    };
    let expected = [
        "once on 2999-06-01 at 09:00 Asia/Tokyo",
        "every day at 09:00 UTC",
        "every day at 09:00 Asia/Tokyo",
        "every day at 10:30 Asia/Tokyo",
    ];
    root.put_command("main", "tasks", "l.json", &json!({"type": "list_tasks", "requestId": "l"}));
    assert_eq!(words(&root.reply("main", "l")["result"]["tasks"]), expected);
    wait_for("the snapshot to follow", || {
        (words(&root.data_json("ipc/main/current_tasks.json")) == expected).then_some(())
    });
}

#[test]
fn a_person_is_shown_a_groups_times_by_its_clock() {
    let root = tokyo();
    let added =
        root.g2(&["tasks", "add", "--group", "family", "--type", "cron", "--value", "0 9 * * *", "p"]);
    assert!(added.trim().ends_with("T09:00:00+09:00"), "{added}");
    let next = |more: &[&str]| {
        let given = ["schedule", "next", "0 9 * * *", "--after", "2026-01-15T00:00:00Z", "--count", "1"];
        root.rows(&[&given, more].concat())[0].clone()
    };
    assert_eq!(next(&["--group", "family"])["utc"], "2026-01-16T00:00:00.000Z");
    assert_eq!(next(&[])["utc"], "2026-01-15T09:00:00.000Z");
    for (group, code) in [("nobody", 1), ("../x", 2)] {
        let output = root.run(&["schedule", "next", "0 9 * * *", "--group", group]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

/// When a task runs next.
fn next_run(root: &Root, id: &str) -> String {
    root.json(&["tasks", "show", id])["next_run"].as_str().unwrap().to_owned()
}

#[test]
fn a_group_that_moves_takes_its_cron_tasks_along_and_no_others() {
    let root = tokyo();
    let add = |group: &str, id: &str, kind: &str, value: &str| {
        root.g2(&["tasks", "add", "--group", group, "--type", kind, "--value", value, "--id", id, "p"]);
    };
    add("family", "nine", "cron", "0 9 * * *");
    add("family", "appointment", "once", "2999-06-01T09:00");
    add("family", "grid", "interval", "3600000");
    add("family", "resting", "cron", "0 9 * * *");
    add("main", "elsewhere", "cron", "0 9 * * *");
    root.g2(&["tasks", "pause", "resting"]);
    let before: Vec<String> =
        ["appointment", "grid", "elsewhere"].iter().map(|id| next_run(&root, id)).collect();
    assert!(next_run(&root, "nine").ends_with("T00:00:00.000Z"));
    root.g2(&["groups", "set", "family", "timezone=Asia/Kathmandu"]);
    assert!(next_run(&root, "nine").ends_with("T03:15:00.000Z"), "{}", next_run(&root, "nine"));
    root.g2(&["groups", "set", "family", "timezone="]);
    assert!(next_run(&root, "nine").ends_with("T09:00:00.000Z"), "{}", next_run(&root, "nine"));
    let after: Vec<String> =
        ["appointment", "grid", "elsewhere"].iter().map(|id| next_run(&root, id)).collect();
    assert_eq!(after, before);
    // One that rested goes on by the clock of now.
    root.g2(&["tasks", "resume", "resting"]);
    assert!(next_run(&root, "resting").ends_with("T09:00:00.000Z"));
}

#[test]
fn a_daemon_that_starts_in_another_zone_runs_cron_tasks_by_its_clock() {
    let root = tokyo();
    for group in ["main", "family"] {
        root.g2(&[
            "tasks",
            "add",
            "--group",
            group,
            "--type",
            "cron",
            "--value",
            "0 9 * * *",
            "--id",
            group,
            "p",
        ]);
    }
    assert_eq!(root.serve().terminate(), Some(0));
    assert!(next_run(&root, "main").ends_with("T09:00:00.000Z"));
    assert_eq!(root.serve_with(&[("TZ", "Asia/Kolkata")]).terminate(), Some(0));
    assert!(next_run(&root, "main").ends_with("T03:30:00.000Z"), "{}", next_run(&root, "main"));
    assert!(next_run(&root, "family").ends_with("T00:00:00.000Z"), "it has a zone of its own");
}

#[test]
fn an_unknown_zone_is_refused_and_one_that_is_gone_is_reported() {
    let root = tokyo();
    let refused = root.run(&["groups", "set", "family", "timezone=Asia/Tokio"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("did you mean Asia/Tokyo?"), "{said}");
    // As a store of a machine with newer zone data may have it.
    rusqlite::Connection::open(root.data("g2.sqlite"))
        .unwrap()
        .execute("UPDATE groups SET config = '{\"timezone\":\"Mars/Olympus\"}' WHERE folder = 'family'", [])
        .unwrap();
    let _daemon = root.serve();
    root.ask("local:family", "hello");
    assert!(root.prompt(1).starts_with(r#"<context timezone="UTC" />"#));
    let output = root.run(&["--json", "doctor"]);
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row =
        rows.as_array().unwrap().iter().find(|row| row["detail"].as_str().unwrap().contains("Mars/Olympus"));
    assert!(row.is_some_and(|row| row["fix"].as_str().unwrap().contains("family")), "{rows}");
}
