//! A question, its answer and what waited for it, and the daemon dead at each step between.
//!
//! | died at | on record | the next daemon |
//! |---|---|---|
//! | `message.judged` | the question and its card, not said | says it |
//! | `message.stored` of the answer | the answer, and what waited as new inbox rows | hands it over |
//! | `approval.made` | a group without folder and boxes | makes both, then hands over |
#![expect(clippy::disallowed_methods, reason = "a test plays the user, who writes a template")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use super::scene::{die_at, for_each};
use crate::{
    approvals::daemon::{root, said},
    support::{Root, wait_for},
};

/// Says something, whether or not the daemon lives to tell.
fn tell(root: &Root, chat: &str, sender: &str, text: &str) {
    let _ = root.run(&["send", "--chat", chat, "--as", sender, text]);
}

fn state(root: &Root) -> String {
    let all = root.rows(&["approvals", "list", "--all"]);
    assert!(all.len() <= 1, "one question: {all:?}");
    all.first().map_or_else(String::new, |row| row["state"].as_str().unwrap().to_owned())
}

/// What was said about the question.
fn about(root: &Root) -> Vec<String> {
    let rows = root.rows(&["outbox", "list"]);
    let rows = rows.iter().filter(|row| row["cause"] == "approval 1");
    rows.map(|row| row["text"].as_str().unwrap().split([' ', ':']).next().unwrap().to_owned()).collect()
}

/// Waits for a card that the daemon may not live to say.
fn card(root: &Root, begins: &str) -> bool {
    wait_for("the card, or the daemon's end", || {
        if root.said("local:main").iter().any(|text| text.starts_with(begins)) {
            return Some(true);
        }
        (root.run(&["status"]).status.code() == Some(3)).then_some(false)
    })
}

#[test]
fn a_stranger_is_asked_about_once_and_heard_once_wherever_the_daemon_died() {
    for_each(&["message.judged:1", "message.stored:2"], |point| {
        let root = root();
        die_at(&root, point, || {
            tell(&root, "local:family", "bob", "hello");
            if card(&root, "New sender") {
                tell(&root, "local:main", "me", "1");
            }
        });
        let _daemon = root.serve();
        said(&root, "local:main", "New sender");
        if state(&root) == "pending" {
            root.send("local:main", "1");
        }
        said(&root, "local:family", "echo: hello");
        said(&root, "local:main", "Allowed");
        root.ask("local:family", "next");
        assert_eq!(root.said("local:family"), ["echo: hello", "echo: next"], "{point}");
        assert_eq!(root.said("local:main").len(), 2, "{point}: {:?}", root.said("local:main"));
        assert_eq!(
            (state(&root).as_str(), about(&root)),
            ("approved", vec!["New".into(), "Allowed".into()]),
            "{point}"
        );
    });
}

#[test]
fn a_new_agent_is_made_once_and_whole_wherever_the_daemon_died() {
    for_each(&["message.stored:2", "message.stored:3", "approval.made:1"], |point| {
        let root = Root::new("");
        std::fs::write(root.path().join("groups/_template/CLAUDE.md"), "template").unwrap();
        die_at(&root, point, || {
            tell(&root, "local:chess", "bob", "who wins?");
            if card(&root, "New direct chat") {
                tell(&root, "local:main", "me", "1");
                if card(&root, "What is") {
                    tell(&root, "local:main", "me", "Chess");
                }
            }
        });
        let _daemon = root.serve();
        said(&root, "local:main", "New direct chat");
        if !about(&root).contains(&"What".to_owned()) {
            root.send("local:main", "1");
        }
        said(&root, "local:main", "What is");
        if state(&root) == "pending" {
            root.send("local:main", "Chess");
        }
        assert_eq!(said(&root, "local:chess", "echo: who wins?").len(), 1, "{point}");
        let folders: Vec<String> = root
            .rows(&["groups", "list"])
            .iter()
            .map(|row| row["folder"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(folders, ["main", "chess"], "{point}");
        let memory = std::fs::read_to_string(root.path().join("groups/chess/CLAUDE.md")).unwrap_or_default();
        assert_eq!(memory, "template", "{point}");
        assert!(root.data("ipc/chess/messages").is_dir(), "{point}");
        said(&root, "local:main", "Connected");
        assert_eq!(about(&root), ["New", "What", "Connected"], "{point}");
    });
}
