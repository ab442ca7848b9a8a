//! Groups by the names that people gave them, where folders are asked for.

use std::process::Stdio;

use crate::support::{Root, Terminal, wait_for};

fn families() -> Root {
    let root = Root::new("");
    for (folder, name) in [("telegram_family", "Family"), ("whatsapp_family", "Family"), ("work", "At work")]
    {
        root.g2(&["groups", "add", folder, "--chat", &format!("local:{folder}"), "--name", name]);
    }
    root
}

#[test]
fn a_name_that_one_group_has_stands_for_its_folder() {
    let root = families();
    for name in ["work", "At work", "at WORK", " At  work "] {
        assert_eq!(root.json(&["groups", "show", name])["folder"], "work", "{name:?}");
    }
    root.g2(&["tasks", "add", "--group", "At work", "--every", "1h", "At work"]);
    for words in [&["tasks", "list", "--group", "At work"][..], &["tasks", "list", "--group=At work"]] {
        assert_eq!(root.rows(words)[0]["prompt"], "At work");
    }
    // A folder that a removed group left behind hides no name.
    std::fs::create_dir_all(root.path().join("groups/At work")).unwrap();
    assert_eq!(root.json(&["groups", "show", "At work"])["folder"], "work");
    // A folder is never taken for a name.
    root.g2(&["groups", "add", "Family", "--chat", "local:f"]);
    assert_eq!(root.json(&["groups", "show", "Family"])["folder"], "Family");
}

#[test]
fn a_name_that_two_groups_have_is_refused_with_both() {
    let root = families();
    for words in [&["groups", "show", "Family"][..], &["tasks", "list", "--group", "family"]] {
        let output = root.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("telegram_family, whatsapp_family") && said.contains("by its folder"),
            "{said}"
        );
    }
    let output = root.run(&["--json", "groups", "remove", "Family", "--yes"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), &error["error"]["code"]), (Some(2), &"invalid".into()));
    assert_eq!(root.rows(&["groups", "list"]).len(), 4);
    // One that nobody has is what it was.
    let output = root.run(&["groups", "show", "Nobody at all"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn on_a_terminal_a_person_chooses_one_of_two_groups() {
    for (answer, succeeds) in [("2", true), ("whatsapp_family", true), ("3", false), ("", false)] {
        let root = families();
        let mut terminal = Terminal::open();
        let mut command = root.command(&["groups", "set", "Family", "name=Grandparents"]);
        command.stdout(Stdio::null());
        let mut child = terminal.start(command);
        terminal.until("Which? ");
        terminal.keys(&format!("{answer}\n"));
        let status = wait_for("the command to end", || child.try_wait().unwrap());
        assert_eq!(status.success(), succeeds, "{answer:?}");
        let name = root.json(&["groups", "show", "whatsapp_family"])["name"].clone();
        assert_eq!(name, if succeeds { "Grandparents" } else { "Family" }, "{answer:?}");
    }
}
