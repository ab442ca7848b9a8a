//! Dropping, trying again and putting in; and the same with the hand that does it dead at each step.
#![expect(clippy::disallowed_methods, reason = "tests look at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::process::ExitStatusExt as _};

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

fn say(text: &str, request: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:main", "text": text, "requestId": request})
}

fn told(root: &Root, arguments: &[&str]) -> String {
    let refused = root.run(arguments);
    assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {refused:?}");
    String::from_utf8(refused.stderr).unwrap()
}

/// A root whose command 1 was refused as its chat was not wired, which it is now.
fn refused_once() -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let daemon = root.serve();
    let command = json!({"type": "send_message", "chatJid": "local:new", "text": "hi", "requestId": "r"});
    root.put_command("family", "messages", "a.json", &command);
    assert_eq!(root.settled_file("family", "a.json")["state"], "refused");
    daemon.terminate();
    root.g2(&["wirings", "add", "--group", "family", "--chat", "local:new", "--engage", "mention"]);
    root
}

#[test]
fn a_refused_command_is_decided_anew_once_its_cause_is_fixed_and_only_once() {
    let root = refused_once();
    let _daemon = root.serve();
    let done = root.json(&["ipc", "retry", "1"]);
    let id = done["id"].as_i64().unwrap();
    assert_eq!(done["state"], "applied", "{done}");
    wait_for("it to be said", || (root.said("local:new") == ["hi"]).then_some(()));
    assert_eq!(root.reply("family", "r")["ok"], true);
    let (first, second) = (root.json(&["ipc", "trace", "1"]), root.json(&["ipc", "trace", &id.to_string()]));
    assert_eq!((&first["state"], &first["retried_as"]), (&json!("refused"), &json!(id)));
    assert_eq!(
        (&second["retry_of"], &second["box"], &second["name"]),
        (&json!(1), &json!("messages"), &json!("a.json"))
    );
    assert_eq!(
        (&second["effects"][0]["kind"], &second["effects"][0]["state"]),
        (&json!("outbox"), &json!("sent"))
    );
    // The same request again is answered as the try was.
    let command = json!({"type": "send_message", "chatJid": "local:new", "text": "hi", "requestId": "r"});
    root.put_command("family", "messages", "again.json", &command);
    assert_eq!(root.settled_file("family", "again.json")["state"], "applied");
    assert!(told(&root, &["ipc", "retry", "1"]).contains(&format!("tried again as {id}")));
    assert!(told(&root, &["ipc", "retry", &id.to_string()]).contains("was applied"));
    assert_eq!(root.said("local:new"), ["hi"]);
}

#[test]
fn a_retry_without_a_daemon_is_decided_by_the_next_one() {
    let root = refused_once();
    let done = root.json(&["ipc", "retry", "r"]);
    assert_eq!((&done["id"], &done["state"]), (&json!(2), &json!("claimed")));
    assert_eq!(root.rows(&["ipc", "list", "--state", "claimed"])[0]["box"], "messages");
    let _daemon = root.serve();
    wait_for("it to be said", || (root.said("local:new") == ["hi"]).then_some(()));
    assert_eq!(root.json(&["ipc", "trace", "2"])["retry_of"], 1);
}

#[test]
fn a_command_whose_file_was_cut_or_removed_is_not_tried_again_and_a_dead_one_is_dropped_with_its_files() {
    let root = Root::new("");
    let daemon = root.serve();
    root.put_bytes("main", "tasks", "big.json", "x".repeat(70_000).as_bytes());
    assert_eq!(root.settled_file("main", "big.json")["state"], "dead");
    root.put_bytes("main", "tasks", "bad.json", b"{]");
    let bad = root.settled_file("main", "bad.json")["id"].to_string();
    assert!(told(&root, &["ipc", "retry", "big.json"]).contains("64 KiB"));
    // What is malformed stays it, as a command of its own.
    let again = root.json(&["ipc", "retry", &bad]);
    assert_eq!(again["state"], "dead", "{again}");
    root.g2(&["ipc", "drop", "1", "--yes"]);
    assert!(!root.data("dead/main/1.json").exists() && !root.data("dead/main/1.why.json").exists());
    daemon.terminate();
    root.g2(&["ipc", "drop", &bad, "--yes"]);
    assert!(!root.data(&format!("dead/main/{bad}.json")).exists());
    assert!(told(&root, &["ipc", "drop", &bad]).contains("nothing is kept"));
    assert!(told(&root, &["ipc", "retry", "1"]).contains("nothing is kept"));
    assert_eq!(root.rows(&["ipc", "list", "--state", "dead"]).len(), 3);
}

#[test]
fn a_waiting_or_claimed_command_is_dropped_with_an_answer_with_the_daemon_up_or_down() {
    let root = Root::new("");
    root.serve().terminate();
    for (n, up) in [(1, false), (2, true)] {
        let daemon = up.then(|| root.serve());
        root.g2(&["ipc", "hold", "main"]);
        let (name, request) = (format!("{n}.json"), format!("r{n}"));
        root.put_command("main", "messages", &name, &say("never", &request));
        let dropped = root.json(&["ipc", "drop", &format!("main/messages/{name}"), "--reason", "not now"]);
        assert_eq!(dropped["state"], "refused", "{dropped}");
        let reply = root.reply("main", &request);
        assert_eq!(reply["error"]["code"], "not_authorized");
        assert!(reply["error"]["message"].as_str().unwrap().ends_with("not now"), "{reply}");
        let why = root.data_json(&format!("done/main/{}.why.json", dropped["id"]));
        assert_eq!((&why["name"], &why["box"]), (&json!(name), &json!("messages")));
        root.g2(&["ipc", "release", "main"]);
        drop(daemon);
    }
    // A claimed one whose writer is not done.
    let daemon = root.serve();
    let path = root.data("ipc/main/tasks/growing.json");
    let mut writer = fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut writer, b"{\"type\":").unwrap();
    let claimed = wait_for("the file to be claimed", || {
        root.rows(&["ipc", "list", "--state", "claimed"]).into_iter().next()
    });
    assert_eq!((&claimed["box"], &claimed["name"]), (&json!("tasks"), &json!("growing.json")));
    let dropped = root.json(&["ipc", "drop", &claimed["id"].to_string()]);
    assert_eq!((&dropped["id"], &dropped["state"]), (&claimed["id"], &json!("refused")));
    drop((writer, daemon));
    assert!(root.said("local:main").is_empty());
    assert!(told(&root, &["ipc", "drop", "2"]).contains("is settled"));
}

#[test]
fn a_drop_that_died_is_done_or_not_and_no_dropped_command_is_applied() {
    for (step, comes_true) in [("hand.noted", false), ("hand.placed", true), ("ipc.committed", true)] {
        let root = Root::new("");
        root.serve().terminate();
        root.put_command("main", "messages", "a.json", &say("said", "r"));
        let died = root.command(&["ipc", "drop", "a.json"]).env("G2_FAILPOINT", step).output().unwrap();
        assert_eq!(died.status.signal(), Some(9), "{step}: {died:?}");
        let _daemon = root.serve();
        let row = root.settled_file("main", "a.json");
        let reply = root.reply("main", "r");
        if comes_true {
            assert_eq!((&row["state"], &reply["ok"]), (&json!("refused"), &json!(false)), "{step}");
            assert!(root.said("local:main").is_empty(), "{step}");
        } else {
            assert_eq!((&row["state"], &reply["ok"]), (&json!("applied"), &json!(true)), "{step}");
        }
        assert_eq!(root.rows(&["ipc", "list"]).len(), 1, "{step}");
    }
}

#[test]
fn a_drop_by_a_daemon_that_died_is_done_or_not() {
    for (step, state) in [("hand.noted", "held"), ("hand.placed", "refused"), ("ipc.committed", "refused")] {
        let root = Root::new("");
        root.g2(&["ipc", "hold", "main"]);
        let daemon = root.serve_with(&[("G2_FAILPOINT", step)]);
        root.put_command("main", "messages", "a.json", &say("said", "r"));
        let _ = root.run(&["ipc", "drop", "a.json"]);
        assert_eq!(daemon.signal(), Some(9), "{step}");
        let _daemon = root.serve();
        let row = wait_for("it to come to rest", || {
            root.rows(&["ipc", "list"]).into_iter().find(|row| row["state"] != "claimed")
        });
        assert_eq!(row["state"], state, "{step}");
        assert!(root.said("local:main").is_empty(), "{step}");
    }
}

#[test]
fn a_retry_that_died_is_done_once_or_can_be_tried_again() {
    for (step, comes_true) in [("hand.noted", false), ("hand.placed", true)] {
        let root = refused_once();
        let died = root.command(&["ipc", "retry", "1"]).env("G2_FAILPOINT", step).output().unwrap();
        assert_eq!(died.status.signal(), Some(9), "{step}: {died:?}");
        let _daemon = root.serve();
        if !comes_true {
            // A new command never gets the id that was meant for the try.
            root.put_command("family", "tasks", "other.json", &json!({"type": "list_tasks"}));
            let other = root.settled_file("family", "other.json")["id"].to_string();
            assert_eq!(root.json(&["ipc", "trace", &other])["retry_of"], Value::Null);
            root.g2(&["ipc", "retry", "1"]);
        }
        assert_tried_once(&root, step);
    }
}

/// The one try of [`refused_once`] was decided, answered and put away.
fn assert_tried_once(root: &Root, step: &str) {
    wait_for("it to be said", || (root.said("local:new") == ["hi"]).then_some(()));
    wait_for("it to be answered", || (root.reply("family", "r")["ok"] == true).then_some(()));
    wait_for("it to be put away", || {
        fs::read_dir(root.data("claimed")).unwrap().next().is_none().then_some(())
    });
    assert!(root.json(&["ipc", "trace", "1"])["retried_as"].is_i64(), "{step}");
    assert_eq!(root.run(&["ipc", "retry", "1"]).status.code(), Some(1), "{step}");
    assert_eq!(root.said("local:new"), ["hi"], "{step}");
    let rows = root.rows(&["ipc", "list"]);
    let of_it: Vec<_> = rows.iter().filter(|row| row["name"] == "a.json").map(|row| &row["state"]).collect();
    assert_eq!(of_it, ["refused", "applied"], "{step}");
}

/// What a daemon does to a command that a person has decided on; it is read before, and answered behind that, as any other.
const SETTLING: [&str; 2] = ["ipc.decided", "ipc.committed"];

#[test]
fn a_retry_by_a_daemon_that_died_is_done_once_or_can_be_tried_again() {
    for step in ["hand.noted", "hand.placed"].iter().chain(&SETTLING) {
        let root = refused_once();
        let daemon = root.serve_with(&[("G2_FAILPOINT", step)]);
        assert_ne!(root.run(&["ipc", "retry", "1"]).status.code(), Some(0), "{step}: nobody knows");
        assert_eq!(daemon.signal(), Some(9), "{step}");
        let _daemon = root.serve();
        if *step == "hand.noted" {
            root.g2(&["ipc", "retry", "1"]);
        }
        assert_tried_once(&root, step);
    }
}

#[test]
fn a_drop_of_a_claimed_file_by_a_daemon_that_died_comes_true() {
    for step in ["hand.noted"].iter().chain(&SETTLING) {
        let root = Root::new("");
        let daemon = root.serve_with(&[("G2_FAILPOINT", step)]);
        let mut writer = fs::File::create(root.data("ipc/main/messages/a.json")).unwrap();
        let command = say("never", "r").to_string();
        std::io::Write::write_all(&mut writer, &command.as_bytes()[..20]).unwrap();
        let claimed = wait_for("the file to be claimed", || {
            root.rows(&["ipc", "list", "--state", "claimed"]).into_iter().next()
        });
        let _ = root.run(&["ipc", "drop", &claimed["id"].to_string()]);
        assert_eq!(daemon.signal(), Some(9), "{step}");
        // Its writer goes on, and what it writes is a command at last.
        std::io::Write::write_all(&mut writer, &command.as_bytes()[20..]).unwrap();
        drop(writer);
        let _daemon = root.serve();
        let row = root.settled_file("main", "a.json");
        assert_eq!((&row["id"], &row["state"]), (&claimed["id"], &json!("refused")), "{step}: {row}");
        wait_for("it to be put away", || {
            fs::read_dir(root.data("claimed")).unwrap().next().is_none().then_some(())
        });
        assert!(root.data(&format!("done/main/{}.why.json", claimed["id"])).exists(), "{step}");
        assert!(root.said("local:main").is_empty(), "{step}");
        assert_eq!(root.rows(&["ipc", "list"]).len(), 1, "{step}");
    }
}

#[test]
fn a_command_is_put_into_a_box_and_its_reply_is_printed() {
    let root = Root::new("");
    let file = root.path().join("command.json");
    fs::write(&file, say("sent", "r").to_string()).unwrap();
    let file = file.to_str().unwrap();
    fs::remove_dir_all(root.data("ipc/main")).unwrap();
    assert!(told(&root, &["ipc", "send", "main", file]).contains("g2 init"));
    assert!(told(&root, &["ipc", "send", "nobody", file]).contains("does not exist"));
    let daemon = root.serve();
    let reply: Value =
        serde_json::from_str(&root.g2(&["ipc", "send", "main", file, "--wait", "60"])).unwrap();
    assert_eq!((&reply["ok"], &reply["requestId"]), (&json!(true), &json!("r")));
    wait_for("it to be said", || (root.said("local:main") == ["sent"]).then_some(()));
    fs::write(file, json!({"type": "cancel_task", "taskId": "none"}).to_string()).unwrap();
    let refused = root.run(&["ipc", "send", "main", file, "--box", "messages", "--wait", "60"]);
    assert_eq!(refused.status.code(), Some(1));
    let reply: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(reply["error"]["code"], "not_found");
    daemon.terminate();
    root.g2(&["ipc", "send", "main", file]);
    assert_eq!(root.rows(&["ipc", "list", "--state", "waiting"]).len(), 1);
    assert!(told(&root, &["ipc", "send", "main", file, "--wait", "0"]).contains("is not settled yet"));
}

#[test]
fn a_new_roots_boxes_take_commands_before_any_daemon_was_up() {
    use std::os::unix::fs::MetadataExt as _;
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let looks = |root: &Root| -> Vec<(String, u32, u32, u32)> {
        let all = ["", "messages", "tasks", "input", "responses", "state"];
        let places =
            ["main", "family"].into_iter().flat_map(|group| all.map(|name| format!("{group}/{name}")));
        places
            .map(|place| {
                let stat = fs::metadata(root.data("ipc").join(&place)).unwrap();
                (place, stat.mode(), stat.uid(), stat.gid())
            })
            .collect()
    };
    let made = looks(&root);
    fs::write(root.data("ipc/main/messages/x.json"), say("by hand", "r1").to_string()).unwrap();
    let waiting = root.rows(&["ipc", "list"]);
    assert_eq!((&waiting[0]["name"], &waiting[0]["state"]), (&json!("x.json"), &json!("waiting")));
    let command = json!({"type": "send_message", "chatJid": "local:family", "text": "sent"});
    fs::write(root.path().join("command.json"), command.to_string()).unwrap();
    let file = root.path().join("command.json");
    root.g2(&["ipc", "send", "family", file.to_str().unwrap(), "--box", "messages"]);
    // Twice changes nothing.
    root.g2(&["init"]);
    assert_eq!(looks(&root), made);
    let _daemon = root.serve();
    wait_for("the first to be said", || (root.said("local:main") == ["by hand"]).then_some(()));
    wait_for("the other to be said", || (root.said("local:family") == ["sent"]).then_some(()));
    assert_eq!(looks(&root), made, "the daemon makes them no other way");
    root.g2(&["init"]);
}
