//! Many senders at once, and one message twice: every message is answered, each exactly once.

use serde_json::json;

use crate::support::{Root, Socket};

/// One message a batch, so that each message has an answer of its own.
const ONE_EACH: &str =
    "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n";

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
