//! Mistakes at the command line are said at once, in its own words.

use crate::support::{Root, due};

/// What a command that fails says; its exit code is `code`.
fn refused(root: &Root, code: i32, arguments: &[&str]) -> String {
    let output = root.run(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// What a command that succeeds says beside its output.
fn told(root: &Root, arguments: &[&str]) -> String {
    let output = root.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_pattern_that_is_no_expression_is_refused_and_nothing_is_changed() {
    let root = Root::new("");
    let before = root.rows(&["wirings", "list"]);
    let main = ["--group", "main", "--chat", "local:main"];
    let set: Vec<&str> =
        ["wirings", "set"].iter().chain(&main).chain(&["sender_scope=known", "pattern=("]).copied().collect();
    let add = ["wirings", "add", "--group", "main", "--chat", "local:b", "--pattern", "[z-a]"];
    for arguments in [&set[..], &add] {
        let said = refused(&root, 1, arguments);
        assert!(
            said.contains("no JavaScript regular expression") && said.contains("nothing is changed"),
            "{said}"
        );
    }
    assert_eq!(root.rows(&["wirings", "list"]), before);
}

#[test]
fn an_address_that_no_channel_has_is_refused_and_one_that_none_reaches_is_told() {
    let root = Root::new("");
    for arguments in [
        &["groups", "add", "a", "--chat", "nochannel"][..],
        &["wirings", "add", "--group", "main", "--chat", "nochannel"],
        &[
            "tasks",
            "add",
            "--group",
            "main",
            "--chat",
            "nochannel",
            "--type",
            "once",
            "--value",
            "2099-01-01",
            "p",
        ],
        &["send", "--chat", "nochannel", "hello"],
    ] {
        let said = refused(&root, 2, arguments);
        assert!(said.contains("use CHANNEL:NAME, such as local:nochannel"), "{said}");
    }
    let said = told(&root, &["groups", "add", "far", "--chat", "tg:-100"]);
    assert!(said.contains("no channel reaches tg:-100: this program has local"), "{said}");
    let said = told(&root, &["wirings", "add", "--group", "main", "--chat", "dc:1"]);
    assert!(said.contains("no channel reaches dc:1"), "{said}");
    assert_eq!(told(&root, &["groups", "add", "near", "--chat", "local:near"]), "");
}

#[test]
fn a_filter_by_something_that_is_not_there_is_an_error() {
    let root = Root::new("");
    root.g2(&["groups", "add", "empty", "--chat", "local:empty"]);
    for list in [
        &["tasks", "list"][..],
        &["sessions", "list"],
        &["members", "list"],
        &["usage"],
        &["ipc", "list"],
        &["ipc", "watch"],
    ] {
        let of = |group: &'static str| [list, &["--group", group]].concat();
        assert!(
            refused(&root, 1, &of("gone")).contains("there is no group gone; `g2 groups list`"),
            "{list:?}"
        );
        if list != ["ipc", "watch"] {
            assert_eq!(told(&root, &of("empty")), "", "{list:?}");
        }
    }
    for list in ["messages", "outbox"] {
        let said = refused(&root, 1, &[list, "list", "--chat", "local:gone"]);
        assert!(said.contains("there is no chat local:gone; `g2 chats list`"), "{said}");
        assert_eq!(told(&root, &[list, "list", "--chat", "local:empty"]), "");
    }
}

#[test]
fn a_second_group_that_answers_everything_is_told_when_it_is_made() {
    let root = Root::new("");
    let said = told(&root, &["groups", "add", "twin", "--chat", "local:main"]);
    assert!(said.contains("main and twin engage on every message of local:main"), "{said}");
}

#[test]
fn tasks_speak_of_the_options_that_a_person_types() {
    let root = Root::new("");
    root.g2(&["groups", "add", "two", "--chat", "local:one"]);
    root.g2(&["wirings", "add", "--group", "two", "--chat", "local:two", "--engage", "mention"]);
    fn add<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["tasks", "add", "--group", "two"][..], more].concat()
    }
    let due = due();
    let once = ["--type", "once", "--value", &due, "p"];
    let said = refused(&root, 1, &add(&once));
    assert!(said.contains("--chat is missing") && !said.contains("targetJid"), "{said}");
    let said = refused(&root, 1, &add(&["--chat", "local:one", "--type", "weekly", "--value", "x", "p"]));
    assert!(
        said.contains("--type weekly is not one of") || said.contains("--type \"weekly\" is not one of"),
        "{said}"
    );
    assert!(!said.contains("schedule_"), "{said}");
    let said =
        refused(&root, 1, &add(&["--chat", "local:one", "--type", "once", "--value", "2020-01-01", "p"]));
    assert!(said.contains("\"2020-01-01\" is in the past: the time now is"), "{said}");
    let made = root.g2(&add(&[&["--chat", "local:one"][..], &once].concat()));
    assert!(made.contains("is due already (") && made.contains("it runs now"), "{made}");
}

#[test]
fn a_task_for_a_chat_of_another_group_is_refused_with_the_name_of_that_group() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let add = |group, chat| {
        ["tasks", "add", "--group", group, "--chat", chat, "--type", "interval", "--value", "60000", "p"]
    };
    for (group, chat, says) in [
        ("main", "local:family", "a chat of family; make the task with `--group family`"),
        ("family", "local:main", "a chat of main; make the task with `--group main`"),
        ("family", "local:nobody", "no group is wired to local:nobody"),
    ] {
        let said = refused(&root, 1, &add(group, chat));
        assert!(said.contains(says), "{said}");
    }
    assert_eq!(root.rows(&["tasks", "list"]).len(), 0);
    for _ in 0..3 {
        root.g2(&add("family", "local:family"));
    }
    // Oldest first, as every list; with a limit, the newest.
    let ids = |arguments: &[&str]| -> Vec<String> {
        let rows = root.rows(&[&["tasks", "list"], arguments].concat());
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]), ["task-1", "task-2", "task-3"]);
    assert_eq!(ids(&["--limit", "2"]), ["task-2", "task-3"]);
}

#[test]
fn a_task_that_asks_nothing_is_refused() {
    let root = Root::new("");
    for prompt in ["", " \n"] {
        let add = ["tasks", "add", "--group", "main", "--type", "interval", "--value", "60000", prompt];
        let said = refused(&root, 2, &add);
        assert!(said.contains("the prompt is empty"), "{said}");
    }
    assert_eq!(root.rows(&["tasks", "list"]).len(), 0);
}
