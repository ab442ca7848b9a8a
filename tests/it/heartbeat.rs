//! `HEARTBEAT.md`: tasks that come and go with the lines of a file, which a hostile agent may write.
#![expect(clippy::disallowed_methods, reason = "makes what the daemon finds")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::support::{Root, fail_points, skipped, wait_for};

fn file(root: &Root) -> PathBuf {
    root.path().join("groups/main/HEARTBEAT.md")
}

/// Puts the file there whole, as an editor does.
fn write(root: &Root, text: &str) {
    let building = root.path().join("groups/main/.building");
    fs::write(&building, text).unwrap();
    fs::rename(building, file(root)).unwrap();
}

fn task(name: &str, schedule: &str) -> String {
    format!("- name: {name}\n  {schedule}\n  prompt: look after {name}\n")
}

/// The ids of the tasks, with where they come from.
fn tasks(root: &Root) -> Vec<(String, String)> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    root.rows(&["tasks", "list"]).iter().map(|row| (text(row, "id"), text(row, "origin"))).collect()
}

fn has(root: &Root, names: &[&str]) {
    let wanted: Vec<_> =
        names.iter().map(|name| (format!("heartbeat:{name}"), "heartbeat".to_owned())).collect();
    wait_for(&format!("the tasks {names:?}"), || (tasks(root) == wanted).then_some(()));
}

fn logged(root: &Root, text: &str) {
    wait_for(&format!("{text} in the log"), || root.log().contains(text).then_some(()));
}

#[test]
fn a_task_that_has_nothing_to_tell_can_t_say_so_in_the_chat_by_a_command_either() {
    let root = Root::new("");
    let say = |id: &str, text: &str| {
        let json = json!({"type": "send_message", "requestId": id, "chatJid": "local:main", "text": text});
        json!({"command": {"box": "messages", "json": json}})
    };
    let rules = json!([
        {"when": {"contains": "look after"}, "do": [
            say("r1", "**heartbeat_ok** 👍"), {"say": "{{reply}}"}, say("r2", &format!("HEARTBEAT_OK\n\n{}", "news ".repeat(100)))]},
        {"do": [say("r3", "HEARTBEAT_OK"), {"say": "done"}]},
    ]);
    root.script(None, &rules);
    let _daemon = root.serve();
    root.g2(&["tasks", "add", "--group", "main", "--every", "999h", "--id", "t", "look after mail"]);
    root.g2(&["tasks", "run", "t"]);
    let result = wait_for("the task to end", || {
        root.json(&["tasks", "show", "t"])["last_result"].as_str().map(str::to_owned)
    });
    assert!(
        result.contains("HEARTBEAT_OK says that there is nothing to tell, and is never sent"),
        "{result}"
    );
    wait_for("the news", || (root.said("local:main").len() == 1).then_some(()));
    assert_eq!(root.said("local:main")[0], "news ".repeat(100).trim());
    // A person may be told the word.
    assert_eq!(root.ask("local:main", "what is the word?"), "HEARTBEAT_OK\ndone\n");
}

#[test]
fn tasks_come_and_go_with_the_lines_and_one_that_can_t_be_read_stops_no_other() {
    let root = Root::new("");
    let daemon = root.serve();
    let (hourly, daily) = (task("mail", "interval: 1h"), task("news", "cron: 0 9 * * 1-5"));
    let example = "```\ntasks:\n- name: example\n```\n";
    write(
        &root,
        &format!("# Mine\n{example}\ntasks:\n{hourly}- name: odd\n  interval: soon\n  prompt: p\n{daily}"),
    );
    has(&root, &["mail", "news"]);
    logged(&root, "is no duration; write");
    let rows = root.rows(&["tasks", "list"]);
    assert_eq!(
        [&rows[0]["schedule"], &rows[1]["schedule"], &rows[0]["output"], &rows[0]["chat_jid"]],
        [&json!("every hour"), &json!("weekdays at 09:00 UTC"), &json!("chat"), &json!("local:main")]
    );
    for command in ["status", "doctor"] {
        let finding = |answer: Value| {
            let rows = if answer["findings"].is_array() { answer["findings"].clone() } else { answer };
            let of_file = |row: &&Value| row["check"] == "heartbeat" || row["code"] == "heartbeat";
            let told: Vec<Value> = rows.as_array().unwrap().iter().filter(of_file).cloned().collect();
            (told.len() == 1)
                .then(|| told[0]["detail"].as_str().or(told[0]["text"].as_str()).unwrap().to_owned())
        };
        let told = wait_for("the fault to be told", || finding(root.json(&[command])));
        assert!(told.contains("HEARTBEAT.md of group main: line 12: "), "{command}: {told}");
    }
    assert!(String::from_utf8_lossy(&root.run(&["status"]).stdout).contains("line 12: "));

    // What has not changed stays as it is, over a restart too.
    let mail = root.json(&["tasks", "show", "heartbeat:mail"]);
    write(&root, &format!("tasks:\n{}{hourly}", task("news", "interval: 2h")));
    wait_for("the new schedule", || {
        (root.json(&["tasks", "show", "heartbeat:news"])["schedule"] == "every 2 hours").then_some(())
    });
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = root.serve();
    write(&root, &format!("tasks:\n{hourly}"));
    has(&root, &["mail"]);
    assert_eq!(root.json(&["tasks", "show", "heartbeat:mail"]), mail);
    assert_eq!(daemon.terminate(), Some(0));

    // A file that goes while nobody looks takes its tasks along, and no others.
    root.g2(&["tasks", "add", "--group", "main", "--every", "2h", "--id", "mine", "p"]);
    fs::remove_file(file(&root)).unwrap();
    let _daemon = root.serve();
    wait_for("its task to go", || (tasks(&root) == [("mine".into(), "asked".into())]).then_some(()));
}

#[test]
fn an_answer_that_says_nothing_is_kept_and_never_sent_on() {
    let root = Root::new("");
    let long = "a word ".repeat(50).trim().to_owned();
    root.script(
        None,
        &json!([
            {"when": {"contains": "quiet"}, "do": [{"say": "**HEARTBEAT_OK**\n"}]},
            {"when": {"contains": "small"}, "do": [{"say": "✅ heartbeat_ok, nothing is new."}]},
            {"when": {"contains": "long"}, "do": [{"say": format!("HEARTBEAT_OK\n\n{long}")}]},
            {"when": {"contains": "loud"}, "do": [{"say": "mail from Ann"}]}
        ]),
    );
    let _daemon = root.serve();
    let names = ["quiet", "small", "long", "loud"];
    write(&root, &format!("tasks:\n{}", names.map(|name| task(name, "interval: 1h")).concat()));
    has(&root, &names);
    for name in names.map(|name| format!("heartbeat:{name}")) {
        let name = name.as_str();
        root.g2(&["tasks", "run", name]);
        wait_for("its run", || {
            root.rows(&["tasks", "history", name])
                .iter()
                .any(|run| run["status"] == "succeeded")
                .then_some(())
        });
    }
    wait_for("what was said", || (root.said("local:main") == [long.as_str(), "mail from Ann"]).then_some(()));
    assert_eq!(root.json(&["tasks", "show", "heartbeat:quiet"])["last_result"], "**HEARTBEAT_OK**");
    assert!(root.rows(&["runs", "list"]).iter().all(|run| run["kind"] == "heartbeat"));
    assert!(root.prompt(1).starts_with("look after quiet\n"));
}

#[test]
fn what_an_enemy_puts_in_the_place_of_the_file_costs_nothing_and_changes_nothing() {
    let root = Root::new("");
    let _daemon = root.serve();
    let good = format!("tasks:\n{}", task("good", "interval: 1h"));
    write(&root, &good);
    has(&root, &["good"]);
    let secret = root.path().join("secret.md");
    fs::write(&secret, format!("tasks:\n{}", task("secret", "interval: 1h"))).unwrap();
    type Puts<'a> = &'a dyn Fn(&Path);
    let enemies: [(&str, Puts<'_>); 4] = [
        ("link", &|place| symlink(&secret, place).unwrap()),
        ("fifo", &|place| mknodat(CWD, place, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap()),
        ("folder", &|place| fs::create_dir(place).unwrap()),
        ("too large", &|place| fs::write(place, vec![b'x'; 65 << 10]).unwrap()),
    ];
    for (n, (what, put)) in enemies.iter().enumerate() {
        fs::remove_file(file(&root)).unwrap();
        let building = root.path().join("groups/main/.building");
        put(&building);
        fs::rename(&building, file(&root)).unwrap();
        wait_for(&format!("{what} to be told"), || {
            let told = root.log().matches("HEARTBEAT.md can't be read").count();
            (told > n).then_some(())
        });
        assert!(!tasks(&root).iter().any(|(id, _)| id == "heartbeat:secret"), "{what}");
        assert_eq!(root.ask("local:main", "hello"), "echo: hello\n", "{what}");
        let _ = fs::remove_dir(file(&root));
        let name = format!("good{n}");
        write(&root, &format!("tasks:\n{}", task(&name, "interval: 1h")));
        has(&root, &[&name]);
    }
    let crowd: String = (0..40).map(|n| task(&format!("t{n:02}"), "interval: 1h")).collect();
    write(&root, &format!("tasks:\n{crowd}"));
    wait_for("at most 32 of them", || (tasks(&root).len() == 32).then_some(()));
    logged(&root, "one task more than 32");
}

#[test]
fn a_daemon_that_dies_while_it_takes_the_file_in_takes_it_in_once() {
    if !fail_points() {
        return skipped("no fail points in a release build");
    }
    for step in ["heartbeat.read", "heartbeat.stored"] {
        let root = Root::new("");
        write(&root, &format!("tasks:\n{}{}", task("a", "interval: 1h"), task("b", "interval: 2h")));
        let daemon = root.spawn(&[("G2_FAILPOINT", step)]);
        assert_eq!(daemon.signal(), Some(9), "{step}");
        let _daemon = root.serve();
        has(&root, &["a", "b"]);
    }
}
