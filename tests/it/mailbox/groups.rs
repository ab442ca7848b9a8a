//! Groups by command files: registered, served at once, and never more than they may be.
#![expect(clippy::disallowed_methods, reason = "tests look at what the daemon leaves on disk")]

use std::{fs, os::unix::fs::MetadataExt as _};

use serde_json::{Value, json};

use super::commands::{ask, two_groups};
use crate::support::{Root, wait_for};

fn register(jid: &str, folder: &str) -> Value {
    json!({"type": "register_group", "jid": jid, "name": "Team", "folder": folder, "trigger": "@Bot"})
}

fn wirings(root: &Root, group: &str) -> Vec<Value> {
    let mut rows = root.rows(&["wirings", "list"]);
    rows.retain(|row| row["group"] == group);
    rows
}

#[test]
fn a_registered_group_is_served_at_once() {
    let root = Root::new("");
    fs::create_dir_all(root.path().join("groups/_template")).unwrap();
    fs::write(root.path().join("groups/_template/CLAUDE.md"), "# Remember\n").unwrap();
    let _daemon = root.serve();
    let mut team = register("local:team", "team");
    team["requiresTrigger"] = false.into();
    team["isMain"] = true.into();
    team["containerConfig"] = json!({"timeout": 600_000});
    assert_eq!(ask(&root, "main", team, "r1")["result"], json!({"folder": "team", "jid": "local:team"}));
    // A reader that is told of it finds its folder and its boxes.
    let memory = fs::read_to_string(root.path().join("groups/team/CLAUDE.md")).unwrap();
    assert_eq!(memory, "# Remember\n");
    assert!(root.data("ipc/team/tasks").is_dir());
    assert_eq!(root.ask("local:team", "hello").trim(), "echo: hello");
    assert_eq!(ask(&root, "team", json!({"type": "list_tasks"}), "t1")["ok"], true);
    let group = root.json(&["groups", "show", "team"]);
    assert_eq!((&group["is_main"], &group["trigger"]), (&json!(false), &json!("@Bot")));
    // It may not do what main may.
    assert_eq!(ask(&root, "team", register("local:x", "x"), "t2")["error"]["code"], "not_authorized");
}

#[test]
fn the_same_folder_in_a_second_chat_answers_in_both_each_with_its_trigger() {
    let root = two_groups();
    let _daemon = root.serve();
    let mut again = register("tg:-5", "family");
    again["trigger"] = "@Andy".into();
    let said = ask(&root, "main", again, "r1");
    let note = said["result"]["note"].as_str().unwrap_or_default();
    assert!(said["ok"] == true && note.starts_with("no account reaches this chat"), "{said}");
    let rows = wirings(&root, "family");
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[1]["chat_jid"], &rows[1]["engage_mode"]), (&json!("tg:-5"), &json!("mention")));
    assert_eq!(rows[1]["ignored_message_policy"], "accumulate");
    assert_eq!(
        root.json(&["groups", "show", "family"])["name"],
        "family",
        "its name is that of its own chat"
    );
    let engages =
        |text: &str| root.rows(&["engage", "explain", "--chat", "tg:-5", text])[0]["engages"].clone();
    assert_eq!((engages("@Andy hi"), engages("@G2 hi")), (json!(true), json!(false)));
    // The same chat again changes its wiring.
    let mut other = register("tg:-5", "family");
    other["engage_pattern"] = "^hey".into();
    assert_eq!(ask(&root, "main", other, "r2")["ok"], true);
    let rows = wirings(&root, "family");
    assert_eq!((rows.len(), &rows[1]["engage_pattern"]), (2, &json!("^hey")));
    assert_eq!(root.ask("local:family", "still here").trim(), "echo: still here");
    let groups = root.data_json("ipc/main/available_groups.json");
    assert_eq!(
        (&groups["groups"][0]["jid"], &groups["groups"][0]["isRegistered"]),
        (&json!("tg:-5"), &json!(true))
    );
}

#[test]
fn a_change_writes_the_lists_that_show_it_and_no_others() {
    let root = two_groups();
    let _daemon = root.serve();
    // A list is a new file each time.
    let lists = ["current_tasks.json", "available_groups.json", "session_history.json"];
    let files = |group: &str| {
        lists.map(|name| {
            root.data_json(&format!("ipc/{group}/{name}"));
            fs::metadata(root.data(&format!("ipc/{group}/{name}"))).unwrap().ino()
        })
    };
    let before = ["main", "family"].map(files);
    assert_eq!(ask(&root, "main", register("tg:-5", "family"), "r1")["ok"], true);
    let [main, family] = ["main", "family"].map(files);
    assert_eq!((main[1] == before[0][1], main[2] == before[0][2]), (false, true));
    assert_eq!(family[1..], before[1][1..], "it was there before");
    let keep = json!({"type": "archive_session", "sessionId": "s1", "name": "holiday", "content": "**User**: where to?"});
    assert_eq!(ask(&root, "family", keep, "r2")["ok"], true);
    let [main_then, family_then] = ["main", "family"].map(files);
    assert_eq!((family_then[1] == family[1], family_then[2] == family[2]), (true, false));
    assert_eq!(main_then[1..], main[1..]);
    // The words of a schedule are those of the group's zone, which main is shown too.
    let task = json!({"type": "schedule_task", "prompt": "stretch", "schedule_type": "cron", "schedule_value": "0 9 * * *", "targetJid": "local:family"});
    assert_eq!(ask(&root, "family", task, "r3")["ok"], true);
    root.g2(&["groups", "set", "family", "timezone=Asia/Tokyo"]);
    for group in ["main", "family"] {
        wait_for("the words of the new zone", || {
            let tasks = root.data_json(&format!("ipc/{group}/current_tasks.json"));
            tasks[0]["scheduleInWords"].as_str()?.contains("Asia/Tokyo").then_some(())
        });
    }
}

#[test]
fn the_privileged_group_and_reserved_names_can_not_be_registered() {
    let root = Root::new("");
    let _daemon = root.serve();
    for (n, folder) in ["main", "global", "errors", "_template", "../x", "a/b"].iter().enumerate() {
        let reply = ask(&root, "main", register("tg:-5", folder), &format!("r{n}"));
        assert_eq!(reply["error"]["code"], "invalid_field", "{folder}");
    }
    assert_eq!(root.rows(&["groups", "list"]).len(), 1);
    assert_eq!(wirings(&root, "main").len(), 1);
}

#[test]
fn two_groups_may_be_called_the_same_and_none_as_nobody_can_read() {
    let root = two_groups();
    let _daemon = root.serve();
    let called = |folder: &str| root.json(&["groups", "show", folder])["name"].clone();
    for (n, folder) in ["telegram_family", "whatsapp_family"].into_iter().enumerate() {
        let mut family = register(&format!("local:{folder}"), folder);
        family["name"] = "Family".into();
        let reply = ask(&root, "main", family, &format!("r{n}"));
        assert_eq!(reply["ok"], true, "{reply}");
        assert_eq!(called(folder), "Family");
    }
    root.g2(&["groups", "add", "work_family", "--chat", "local:work", "--name", "Family"]);
    root.g2(&["groups", "set", "family", "name=Family"]);
    assert_eq!((called("work_family"), called("family")), (json!("Family"), json!("Family")));
    for (n, name) in ["\u{3164}", "\u{e0041}Other", "Ma\u{1d173}in"].into_iter().enumerate() {
        let mut blank = register("local:twin", "twin");
        blank["name"] = name.into();
        let reply = ask(&root, "main", blank, &format!("b{n}"));
        assert_eq!(reply["error"]["code"], "invalid_field", "{name:?}: {reply}");
        for by_hand in [
            &["groups", "add", "twin", "--chat", "local:twin", "--name", name][..],
            &["groups", "set", "work_family", &format!("name={name}")],
        ] {
            let said = root.run(by_hand);
            assert!(!said.status.success(), "{by_hand:?}");
        }
    }
    assert_eq!(root.rows(&["groups", "list"]).iter().filter(|row| row["folder"] == "twin").count(), 0);
}

#[test]
fn boxes_that_were_moved_away_by_hand_come_back_with_all_that_an_agent_reads_there() {
    let root = Root::new("");
    root.g2(&["tasks", "add", "--group", "main", "--type", "interval", "--value", "3600000", "stretch"]);
    let _daemon = root.serve();
    let shown = ["current_tasks.json", "available_groups.json", "session_history.json"];
    let at = |name: &str| root.data_json(&format!("ipc/main/{name}"));
    shown.iter().for_each(|name| drop(at(name)));
    std::fs::rename(root.data("ipc/main"), root.path().join("away")).unwrap();
    assert_eq!(at("current_tasks.json")[0]["prompt"], "stretch");
    shown.iter().for_each(|name| drop(at(name)));
    root.put_command("main", "tasks", "x.json", &json!({"type": "list_tasks", "requestId": "r"}));
    assert_eq!(root.reply("main", "r")["ok"], true);
}

#[test]
fn nothing_in_a_group_s_folder_is_followed_or_replaced() {
    let root = Root::new("");
    let _daemon = root.serve();
    let target = root.path().join("precious");
    fs::create_dir_all(root.path().join("groups/_template")).unwrap();
    fs::write(root.path().join("groups/_template/CLAUDE.md"), "# Remember\n").unwrap();
    fs::create_dir_all(root.path().join("groups/team")).unwrap();
    std::os::unix::fs::symlink(&target, root.path().join("groups/team/CLAUDE.md")).unwrap();
    std::os::unix::fs::symlink(&target, root.path().join("groups/team/.CLAUDE.md.new")).unwrap();
    std::os::unix::fs::symlink(root.data(""), root.path().join("groups/linked")).unwrap();
    assert_eq!(ask(&root, "main", register("tg:-5", "team"), "r1")["ok"], true);
    let mut linked = register("tg:-6", "linked");
    linked["name"] = "Linked".into();
    assert_eq!(ask(&root, "main", linked, "r2")["ok"], true);
    assert!(!target.exists());
    assert!(!root.data("CLAUDE.md").exists());
}

#[test]
fn refresh_groups_shows_the_chats_to_main_only() {
    let root = two_groups();
    root.g2(&["wirings", "add", "--group", "family", "--chat", "tg:-7", "--engage", "mention"]);
    let _daemon = root.serve();
    let reply = ask(&root, "main", json!({"type": "refresh_groups"}), "r1");
    let rows = &reply["result"]["groups"];
    assert_eq!((&rows[0]["jid"], &rows[0]["isRegistered"]), (&json!("tg:-7"), &json!(true)));
    assert_eq!(root.data_json("ipc/main/available_groups.json")["groups"], *rows);
    wait_for("the other group's", || {
        (root.data_json("ipc/family/available_groups.json")["groups"] == json!([])).then_some(())
    });
    assert_eq!(
        ask(&root, "family", json!({"type": "refresh_groups"}), "r2")["error"]["code"],
        "not_authorized"
    );
}

#[test]
fn lists_that_are_as_they_were_are_not_written_again_at_a_start_and_are_when_somebody_asks() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let shown = ["current_tasks.json", "available_groups.json", "session_history.json"];
    let files = || {
        ["main", "family"].map(|group| {
            shown.map(|list| {
                let file = fs::File::open(root.data(&format!("ipc/{group}/{list}"))).ok()?;
                let ino = file.metadata().unwrap().ino();
                // It is kept open, so that its number is not used again.
                Some((file, ino))
            })
        })
    };
    let daemon = root.serve();
    wait_for("every list", || files().as_flattened().iter().all(Option::is_some).then_some(()));
    daemon.terminate();
    let before = files();
    // The last one that is looked at.
    fs::write(root.data("ipc/main/session_history.json"), "[1]").unwrap();
    let _daemon = root.serve();
    wait_for("what is not as the store is", || {
        (root.data_json("ipc/main/session_history.json") == json!([])).then_some(())
    });
    let inos = |files: &[[Option<(fs::File, u64)>; 3]; 2]| {
        files.each_ref().map(|group| group.each_ref().map(|file| file.as_ref().unwrap().1))
    };
    let (was, is) = (inos(&before), inos(&files()));
    assert_eq!((was[1], was[0][0], was[0][1]), (is[1], is[0][0], is[0][1]));
    assert_ne!(was[0][2], is[0][2]);
    let written = || root.data_json("ipc/main/available_groups.json")["lastSync"].clone();
    let at = written();
    root.put_command("main", "tasks", "a.json", &json!({"type": "refresh_groups", "requestId": "a"}));
    assert_eq!(root.reply("main", "a")["ok"], true);
    assert_ne!(written(), at);
}
