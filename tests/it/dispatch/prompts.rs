//! The prompt of an agent: threads apart, a replied message quoted, and no message left out in silence.

use serde_json::{Value, json};

use super::engage::crowd;
use crate::support::{Root, Socket};

#[test]
fn threads_are_lanes_of_their_own() {
    let root = Root::new("");
    let _daemon = root.serve();
    let ask = |thread: &str, text: &str| root.g2(&["send", "--thread", thread, "--wait", "60", text]);
    assert_eq!(ask("a", "one"), "echo: one\n");
    assert_eq!(ask("b", "two"), "echo: two\n");
    assert_eq!(ask("a", "three"), "echo: three\n");
    assert_eq!(root.ask("local:main", "four"), "echo: four\n");
    let runs = root.rows(&["runs", "list"]);
    let lanes: Vec<&Value> = runs.iter().map(|run| &run["lane"]).collect();
    assert_eq!(lanes, ["local:main#a", "local:main#b", "local:main#a", "local:main"]);
    assert_eq!(root.data_json("runs/2/launch.json")["lane"], "main local:main b");
    // The conversation of a thread goes on where it was; another's is not touched.
    let session = |run: i64| root.data_json(&format!("runs/{run}/launch.json"))["sessionId"].clone();
    assert_eq!(
        [session(1), session(2), session(3), session(4)],
        [json!(null), json!(null), json!("scripted-1"), json!(null)]
    );
    assert!(!root.prompt(3).contains(">one<") && !root.prompt(4).contains(">three<"));
    let threads: Vec<Value> =
        root.rows(&["outbox", "list"]).iter().map(|row| row["thread"].clone()).collect();
    assert_eq!(threads, ["a", "b", "a", ""]);
}

#[test]
fn a_message_that_is_replied_to_is_quoted() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.judged(
        root.g2(&["send", "--chat", "local:quiet", "--as", "Zoe", "not here"]).trim().parse().unwrap(),
    );
    root.g2(&["send", "--as", "Alice", "--wait", "60", "is 1 < 2?"]);
    let id = root.rows(&["messages", "list", "--chat", "local:main"])[0]["id"].as_str().unwrap().to_owned();
    // A run of its own, so that there is a prompt to look at.
    root.put_command("main", "tasks", "x.json", &json!({"type": "clear_session", "requestId": "r"}));
    root.reply("main", "r");
    assert_eq!(root.g2(&["send", "--reply-to", &id, "--wait", "60", "yes"]), "echo: yes\n");
    let prompt = root.prompt(2);
    assert!(prompt.contains(&format!(r#" reply_to="{id}">"#)), "{prompt}");
    assert!(
        prompt.contains(r#"  <quoted_message from="Alice">is 1 &lt; 2?</quoted_message>yes</message>"#),
        "{prompt}"
    );
    let message = &root.rows(&["messages", "list", "--chat", "local:main"])[1];
    assert_eq!([&message["reply_to_id"], &message["reply_to_sender"]], [&json!(id), &json!("Alice")]);
}

#[test]
fn the_newest_context_is_read_and_the_rest_is_counted() {
    let root = crowd("accumulate");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for n in 0..37 {
        socket.accepted("local:crowd", &format!("talk {n}"), &format!("k{n}"));
    }
    root.ask("local:crowd", "@Ann sum it up");
    let prompt = root.prompt(1);
    assert!(prompt.contains(r#"<left_out count="27">"#), "{prompt}");
    assert!(
        !prompt.contains(">talk 26<") && prompt.contains(">talk 27<") && prompt.contains(">talk 36<"),
        "{prompt}"
    );
}

#[test]
fn every_message_that_wakes_is_read_however_many_there_are() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let first = socket.accepted("local:main", "first", "first");
    // The rest waits until the first one's agent is up, and is too much for one batch.
    let mut last = first;
    for n in 0..250 {
        last = socket.accepted("local:main", &format!("word {n}"), &format!("k{n}"));
    }
    root.judged(last);
    root.open_gate();
    socket.rest("local:main");
    for seq in first..=last {
        if seq % 50 == 0 || seq == last {
            let why = root.why(seq);
            assert_eq!(why["wirings"][0]["batch_state"], "done", "{why}");
        }
    }
    assert_eq!(root.said("local:main").last().unwrap(), "echo: word 249");
}
