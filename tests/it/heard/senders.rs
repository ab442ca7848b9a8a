//! `~/.config/g2/sender-allowlist.json`.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    dispatch::engage::crowd,
    support::{Daemon, Root},
};

use super::people::{rules, say};

/// A root, and a home of its own with a sender list.
struct House {
    root: Root,
    home: tempfile::TempDir,
}

impl House {
    fn new(root: Root) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/g2")).unwrap();
        Self { root, home }
    }

    fn list(&self) -> std::path::PathBuf {
        self.home.path().join(".config/g2/sender-allowlist.json")
    }

    fn write(&self, list: &Value) {
        // As an editor does: whole, under another name, then renamed.
        let new = self.list().with_extension("new");
        fs::write(&new, list.to_string()).unwrap();
        fs::rename(new, self.list()).unwrap();
    }

    fn serve(&self) -> Daemon {
        self.root.serve_with(&[("HOME", self.home.path().to_str().unwrap())])
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let all: Vec<&str> = ["--json"].iter().chain(arguments).copied().collect();
        let output = self.root.command(&all).env("HOME", self.home.path()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The row of the doctor about the list.
    fn doctor(&self) -> Value {
        let rows = self.json(&["doctor"]);
        rows.as_array().unwrap().iter().find(|row| row["check"] == "sender_list").unwrap().clone()
    }

    fn rule(&self, who: &str) -> String {
        let why = say(&self.root, &["--chat", "local:main", "--as", who, "hello"]);
        rules(&why)[0].to_owned()
    }
}

fn only(names: &[&str], mode: &str) -> Value {
    json!({ "default": { "allow": names, "mode": mode } })
}

#[test]
fn a_list_is_honoured_as_it_is_now_without_a_restart() {
    let house = House::new(Root::new(""));
    let _daemon = house.serve();
    assert_eq!(house.rule("bob"), "pattern", "without a list, the chat's policy alone decides");
    house.write(&only(&["ada", "local:carl"], "drop"));
    assert_eq!(
        ["ada", "carl", "bob", "me"].map(|who| house.rule(who)),
        ["pattern", "pattern", "sender_list", "pattern"]
    );
    house.write(&json!({ "default": { "allow": ["bob"], "mode": "drop" }, "logDenied": true }));
    assert_eq!(["ada", "bob"].map(|who| house.rule(who)), ["sender_list", "pattern"]);
    // A chat's own entry goes before the default.
    let mut list = only(&[], "drop");
    list["chats"] = json!({ "local:main": { "allow": "*", "mode": "drop" } });
    house.write(&list);
    assert_eq!(house.rule("ada"), "pattern");
    fs::remove_file(house.list()).unwrap();
    assert_eq!(house.rule("eve"), "pattern");
    assert_eq!(house.doctor()["status"], "ok");
}

#[test]
fn a_list_that_can_not_be_read_lets_only_owners_through_and_says_so() {
    let house = House::new(Root::new(""));
    house.root.g2(&["members", "add", "--group", "main", "local:ada"]);
    let _daemon = house.serve();
    for broken in ["{", "null", r#"{"default": {"allow": "everybody", "mode": "drop"}}"#] {
        house.write(&only(&["ada"], "drop"));
        assert_eq!(house.rule("ada"), "pattern");
        fs::write(house.list(), broken).unwrap();
        assert_eq!(["ada", "me"].map(|who| house.rule(who)), ["sender_list", "pattern"], "{broken}");
    }
    let problem = |text: &Value| text.as_str().unwrap().contains("only owners are heard");
    let doctor = house.doctor();
    assert!(
        doctor["status"] == "fail" && problem(&doctor["detail"]) && doctor["fix"].is_string(),
        "{doctor}"
    );
    let status = house.json(&["status"]);
    assert!(status["state"] == "degraded" && problem(&status["problems"][0]), "{status}");
    let why = say(&house.root, &["--chat", "local:main", "--as", "ada", "and now?"]);
    assert!(problem(&why["answer"]), "{why}");
    assert!(house.root.log().contains("the sender list has a problem"));
    fs::remove_file(house.list()).unwrap();
    assert_eq!(house.rule("ada"), "pattern");
    assert_eq!(house.json(&["status"])["state"], "healthy");
}

#[test]
fn an_entry_that_can_not_be_read_closes_its_own_chat_only() {
    let house = House::new(Root::new(""));
    house.root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let mut list = only(&["ada"], "drop");
    list["chats"] = json!({ "local:family": { "allow": ["ada"], "mode": "silence" } });
    house.write(&list);
    let _daemon = house.serve();
    let family = say(&house.root, &["--chat", "local:family", "--as", "ada", "hello"]);
    assert_eq!((rules(&family), house.rule("ada").as_str()), (vec!["sender_list"], "pattern"));
    assert!(house.doctor()["detail"].as_str().unwrap().contains("local:family"));
}

#[test]
fn an_unlisted_sender_is_never_answered_in_mode_trigger_and_not_read_in_mode_drop() {
    for (mode, read) in [("trigger", true), ("drop", false)] {
        let house = House::new(crowd("accumulate"));
        house.write(&only(&["ada"], mode));
        let _daemon = house.serve();
        for text in ["chatter of bob", "@Ann a call of bob"] {
            say(&house.root, &["--chat", "local:crowd", "--as", "bob", text]);
        }
        assert!(house.root.rows(&["runs", "list"]).is_empty());
        house.root.g2(&["send", "--chat", "local:crowd", "--as", "ada", "--wait", "60", "@Ann hello"]);
        let prompt = house.root.prompt(1);
        assert_eq!(
            ["chatter of bob", "a call of bob", "hello"].map(|text| prompt.contains(text)),
            [read, read, true],
            "{mode}: {prompt}"
        );
        let dropped = house.root.rows(&["dropped", "list"]);
        assert_eq!(
            (dropped.len(), &dropped[0]["rule"], &dropped[0]["count"]),
            (1, &json!("sender_list"), &json!(1))
        );
    }
}

#[test]
fn an_unlisted_sender_is_not_logged_if_the_list_says_so_and_is_always_counted() {
    let house = House::new(Root::new(""));
    let mut list = only(&[], "drop");
    house.write(&list);
    let _daemon = house.serve();
    let logged = || house.root.log().matches("a message was not heard").count();
    assert_eq!((house.rule("eve").as_str(), logged()), ("sender_list", 1));
    list["logDenied"] = json!(false);
    house.write(&list);
    assert_eq!((house.rule("eve").as_str(), logged()), ("sender_list", 1));
    assert_eq!(house.root.rows(&["dropped", "list"])[0]["count"], 2);
}

#[test]
fn the_list_is_explained_as_it_is_honoured() {
    let house = House::new(Root::new(""));
    house.write(&only(&["ada"], "drop"));
    let explain = |who: &str| {
        let rows = house.json(&["engage", "explain", "--chat", "local:main", "--as", who, "hello"]);
        (rows[0]["rule"].clone(), rows[0]["listed"].clone())
    };
    assert_eq!(explain("ada"), (json!("pattern"), json!("allowed")));
    assert_eq!(explain("local:eve"), (json!("sender_list"), json!("drop")));
    assert!(Path::new(&house.list()).exists());
    fs::write(house.list(), "[").unwrap();
    assert_eq!(explain("ada"), (json!("sender_list"), json!("unreadable")));
    assert_eq!(explain("me"), (json!("pattern"), json!("unreadable")), "an owner is heard all the same");
}

#[test]
fn a_member_who_is_not_on_the_list_gives_no_commands_and_an_owner_does() {
    let house = House::new(Root::new(""));
    house.write(&json!({"default": {"allow": ["local:carol"], "mode": "drop"}}));
    let root = &house.root;
    for who in ["bob", "carol"] {
        root.run(&["users", "add", &format!("local:{who}")]);
        root.run(&["members", "add", "--group", "main", &format!("local:{who}")]);
    }
    root.g2(&["groups", "set", "main", "commands=members"]);
    let _daemon = house.serve();
    let rule =
        |who: &str, text: &str| rules(&say(root, &["--chat", "local:main", "--as", who, text]))[0].to_owned();
    assert_eq!(rule("bob", "/status"), "sender_list");
    assert_eq!(rule("carol", "/status"), "word");
    root.g2(&["groups", "set", "main", "commands="]);
    assert_eq!(rule("bob", "/tasks"), "sender_list", "nobody tells them that they may not");
    assert_eq!(rule("me", "/tasks"), "word");
    let said = root.said("local:main");
    assert_eq!(said.iter().filter(|text| text.contains("nothing is at work")).count(), 1, "{said:?}");
    assert!(!said.iter().any(|text| text.contains("Only owners")), "{said:?}");
}
