//! Many chats and senders at once: every message is answered, each exactly once.

use serde_json::json;

use crate::support::{Root, Socket};

/// One message a batch, so that each message has an answer of its own.
const ONE_EACH: &str =
    "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n";

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[test]
fn many_messages_at_once_in_one_group_are_answered_once_each_and_in_order() {
    let root = Root::new(ONE_EACH);
    let _daemon = root.serve();
    std::thread::scope(|scope| {
        for sender in 0..5 {
            let root = &root;
            scope.spawn(move || {
                let mut socket = Socket::connect(root);
                for n in 0..5 {
                    socket.accepted("local:main", &format!("{sender}-{n}"), &format!("{sender}-{n}"));
                }
            });
        }
    });
    Socket::connect(&root).rest("local:main");
    let messages = root.rows(&["messages", "list"]);
    let expected: Vec<String> =
        messages.iter().map(|m| format!("echo: {}", m["text"].as_str().unwrap())).collect();
    assert_eq!(expected.len(), 25);
    assert_eq!(root.said("local:main"), expected);
}

#[test]
fn messages_over_many_chats_at_once_are_answered_once_each() {
    let root = Root::new(ONE_EACH);
    for n in 0..20 {
        root.g2(&["groups", "add", &format!("g{n}"), "--chat", &format!("local:c{n}")]);
    }
    let _daemon = root.serve();
    std::thread::scope(|scope| {
        for turn in 0..3 {
            let root = &root;
            scope.spawn(move || {
                let mut socket = Socket::connect(root);
                for n in 0..20 {
                    socket.accepted(&format!("local:c{n}"), &format!("{n}/{turn}"), &format!("{turn}"));
                }
            });
        }
    });
    let mut socket = Socket::connect(&root);
    for n in 0..20 {
        socket.rest(&format!("local:c{n}"));
        let expected: Vec<String> = (0..3).map(|turn| format!("echo: {n}/{turn}")).collect();
        assert_eq!(sorted(root.said(&format!("local:c{n}"))), expected);
    }
    let runs = root.rows(&["runs", "list"]);
    assert!(runs.iter().all(|run| run["status"] != "failed"), "{runs:?}");
}

#[test]
fn the_same_message_again_is_the_same_message() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    assert_eq!(socket.send("local:main", "hello", "key"), json!({"is": "accepted", "seq": 1, "wired": 1}));
    assert_eq!(socket.send("local:main", "hello", "key"), json!({"is": "accepted", "seq": 1, "wired": 1}));
    socket.rest("local:main");
    assert_eq!(socket.send("local:main", "hello", "key"), json!({"is": "accepted", "seq": 1, "wired": 1}));
    socket.rest("local:main");
    assert_eq!(root.rows(&["messages", "list"]).len(), 1);
    assert_eq!(root.said("local:main"), ["echo: hello"]);
    // A key is a chat's own.
    assert_eq!(socket.send("local:other", "hello", "key")["seq"], 2);
}
