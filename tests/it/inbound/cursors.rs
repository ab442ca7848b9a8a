//! Cursors count what came, and never look at a clock: late, equal, repeated and edited are all read, once.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::support::{Root, Socket};

/// Each message has an answer of its own.
const ONE_EACH: &str =
    "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n";

/// Sends a message with more fields than a plain one; returns its number and whether a wiring heard of it.
fn send(socket: &mut Socket, text: &str, key: &str, more: &Value) -> (i64, i64) {
    let mut request = json!({"op": "send", "chat": "local:main", "sender": "Ann", "text": text, "key": key});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    let answer = socket.call(&request);
    (answer["seq"].as_i64().unwrap(), answer["wired"].as_i64().unwrap())
}

#[test]
fn stamps_that_are_late_equal_far_off_or_none_change_neither_order_nor_number() {
    let root = Root::new(ONE_EACH);
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let stamps = [
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:00:00Z",
        "2026-01-01T11:59:59Z",
        "1970-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z",
        "2026-01-01T12:00:01Z",
        "yesterday",
        "",
    ];
    for (n, at) in stamps.iter().enumerate() {
        let (seq, wired) = send(&mut socket, &n.to_string(), &format!("k{n}"), &json!({"at": at}));
        assert_eq!((seq, wired), (i64::try_from(n).unwrap() + 1, 1), "{at}");
        if n % 2 == 1 {
            // Some come when all before them was read.
            socket.rest("local:main");
        }
    }
    socket.rest("local:main");
    let expected: Vec<String> = (0..stamps.len()).map(|n| format!("echo: {n}")).collect();
    assert_eq!(root.said("local:main"), expected);
    let shown = &root.rows(&["messages", "list"])[6];
    assert_eq!([&shown["at"], &shown["text"]], [&Value::Null, &json!("6")]);
}

#[test]
fn a_stamp_that_is_none_is_shown_as_an_invalid_date() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    send(&mut socket, "when?", "k", &json!({"at": "2026-02-30T00:00:00Z"}));
    socket.rest("local:main");
    assert!(root.prompt(1).contains(r#"<message sender="Ann" time="Invalid Date">when?</message>"#));
}

#[test]
fn an_edited_message_and_one_under_a_used_id_are_read_after_the_first_each_once() {
    let root = Root::new(ONE_EACH);
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let id = json!({"id": "m1"});
    let events =
        [("at nine", "m1"), ("at ten", "m1 edited 1"), ("another's", "m1 by Bob"), ("at ten", "m1 edited 2")];
    let mut first = Vec::new();
    for (text, key) in events {
        first.push(send(&mut socket, text, key, &id));
        socket.rest("local:main");
    }
    assert_eq!(first, [(1, 1), (2, 1), (3, 1), (4, 1)]);
    // The platform tells all of it again.
    let again = events.map(|(text, key)| send(&mut socket, text, key, &id));
    assert_eq!(again.as_slice(), first);
    // Before the agent has read the first one, too.
    send(&mut socket, "one", "m2", &json!({"id": "m2"}));
    send(&mut socket, "two", "m2 edited", &json!({"id": "m2"}));
    socket.rest("local:main");
    let texts = ["at nine", "at ten", "another's", "at ten", "one", "two"];
    assert_eq!(root.said("local:main"), texts.map(|text| format!("echo: {text}")));
    let ids: Vec<Value> = root.rows(&["messages", "list"]).iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, ["m1", "m1", "m1", "m1", "m2", "m2"]);
    // Who answers it answers the newest of that id.
    send(&mut socket, "fine", "m3", &json!({"reply_to": "m2"}));
    let quoted = root.rows(&["messages", "list"]).pop().unwrap();
    assert_eq!([&quoted["reply_to_text"], &quoted["reply_to_id"]], [&json!("two"), &json!("m2")]);
}
