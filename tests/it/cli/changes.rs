//! A change takes effect at once.

use super::*;

#[test]
fn a_group_that_is_added_answers_at_once() {
    let root = Root::new("");
    let _daemon = root.serve();
    fs::write(root.path().join("groups/_template/CLAUDE.md"), "be kind").unwrap();
    root.g2(&["groups", "add", "family", "--chat", "local:family", "--name", "Family"]);
    for name in ["messages", "tasks", "input", "responses", "state", "current_tasks.json"] {
        assert!(root.data("ipc/family").join(name).exists(), "{name}");
    }
    // Main sees at once which chats of platforms are wired.
    root.g2(&["wirings", "add", "--group", "family", "--chat", "tg:-100", "--engage", "mention"]);
    let groups = fs::read_to_string(root.data("ipc/main/available_groups.json")).unwrap();
    assert!(groups.contains("tg:-100"), "{groups}");
    assert_eq!(fs::read_to_string(root.path().join("groups/family/CLAUDE.md")).unwrap(), "be kind");
    assert_eq!(root.ask("local:family", "hello"), "echo: hello\n");
    root.put_command("family", "tasks", "x.json", &json!({"type": "list_tasks", "requestId": "r"}));
    assert_eq!(root.reply("family", "r")["ok"], true);
}

#[test]
fn a_wiring_that_is_removed_wakes_nobody_from_then_on() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:side", "--engage", "pattern"]);
    assert_eq!(root.ask("local:side", "one"), "echo: one\n");
    root.g2(&["wirings", "set", "--group", "main", "--chat", "local:side", "pattern=^hey"]);
    assert_eq!(root.ask("local:side", "two"), "");
    assert_eq!(root.ask("local:side", "hey you"), "echo: hey you\n");
    root.g2(&["wirings", "remove", "--group", "main", "--chat", "local:side"]);
    let sent = root.json(&["send", "--chat", "local:side", "--wait", "60", "hey again"]);
    assert_eq!((&sent["wired"], &sent["replies"]), (&json!(0), &json!([])));
    // A chat that a person unwired is not wired again without a question.
    let why = root.json(&["why", &sent["seq"].to_string()]);
    assert!(why["answer"].as_str().unwrap().contains("no group is wired to this chat; question 1"), "{why}");
}

#[test]
fn a_trigger_that_is_set_is_listened_to_at_once() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.g2(&["wirings", "set", "--group", "main", "--chat", "local:main", "engage=mention"]);
    assert_eq!(root.ask("local:main", "hello"), "");
    assert_eq!(root.ask("local:main", "@G2 hello"), "echo: @G2 hello\n");
    root.g2(&["groups", "set", "main", "trigger=@Bo"]);
    assert_eq!(root.ask("local:main", "@G2 hello"), "");
    assert_eq!(root.ask("local:main", "@bo hello"), "echo: @bo hello\n");
    assert_eq!(root.g2(&["send", "--mention", "--wait", "60", "you there"]), "echo: you there\n");
}

#[test]
fn a_script_that_is_set_is_followed_from_the_next_message_on() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "echo: one\n");
    root.script(Some("main"), &json!([{"do": [{"say": "scripted"}]}]));
    assert_eq!(root.ask("local:main", "two"), "scripted\n");
    root.g2(&["groups", "set", "main", "script="]);
    assert_eq!(root.ask("local:main", "three"), "echo: three\n");
}

#[test]
fn a_group_is_removed_when_its_run_has_left_and_its_commands_are_settled() {
    let root = Root::new("");
    root.g2(&["groups", "add", "brief", "--chat", "local:brief"]);
    let daemon = root.serve();
    assert_eq!(root.ask("local:brief", "hello"), "echo: hello\n");
    root.g2(&["sessions", "clear", "brief", "--name", "kept"]);
    let last = json!({"type": "send_message", "chatJid": "local:brief", "text": "goodbye"});
    root.put_command("brief", "messages", "last.json", &last);
    root.g2(&["groups", "remove", "brief", "--yes"]);
    assert!(!root.data("ipc/brief").exists());
    assert!(root.path().join("groups/brief").is_dir());
    assert_eq!(root.rows(&["groups", "list"]).len(), 1);
    assert_eq!(root.rows(&["wirings", "list"]).len(), 1);
    assert!(root.rows(&["runs", "list"]).iter().all(|run| !run["ended_at"].is_null()));
    wait_for("the last words", || root.said("local:brief").contains(&"goodbye".to_owned()).then_some(()));
    // It can come again, has what was archived, and answers.
    root.g2(&["groups", "add", "brief", "--chat", "local:brief"]);
    let archived = root.rows(&["sessions", "list", "--group", "brief"]);
    assert!(archived.iter().any(|session| session["name"] == "kept"), "{archived:?}");
    assert_eq!(root.ask("local:brief", "again"), "echo: again\n");
    assert_eq!(daemon.terminate(), Some(0));

    // With the daemon down, what was not settled is not thrown away.
    root.put_command("brief", "messages", "more.json", &last);
    assert!(refused(&root, &["groups", "remove", "brief", "--yes"], 1).contains("g2 start"));
    fs::remove_file(root.data("ipc/brief/messages/more.json")).unwrap();
    root.g2(&["groups", "remove", "brief", "--yes"]);
    assert!(!root.data("ipc/brief").exists());
}

#[test]
fn a_task_is_cancelled_with_the_daemon_up_or_down() {
    let root = lived_in();
    let id = root.rows(&["tasks", "list"])[0]["id"].as_str().unwrap().to_owned();
    let daemon = root.serve();
    let shown = root.data("ipc/main/current_tasks.json");
    assert!(fs::read_to_string(&shown).unwrap().contains(&id));
    root.g2(&["tasks", "cancel", &id]);
    assert!(root.rows(&["tasks", "list"]).is_empty());
    assert!(!fs::read_to_string(&shown).unwrap().contains(&id));
    drop(daemon);
    assert_eq!(code(&root, &["tasks", "cancel", &id]), Some(1));
}
