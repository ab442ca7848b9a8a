//! The main job through the real program: a message goes in, an agent answers.

use serde_json::json;

use crate::support::Root;

#[test]
fn a_message_is_answered() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
}

#[test]
fn a_follow_up_reaches_the_live_run() {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", "one");
    root.ask("local:main", "two");
    assert_eq!(root.said("local:main"), ["echo: one", "echo: two"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn an_agent_acts_by_a_file_and_hears_the_reply() {
    let root = Root::new("");
    root.script(
        None,
        &json!([{"do": [
            {"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r1", "chatJid": "{{chat_jid}}", "text": "by file"}}},
            {"say": "reply: {{reply}}"},
        ]}]),
    );
    let _daemon = root.serve();
    root.ask("local:main", "go");
    let said = root.said("local:main");
    assert_eq!(said[0], "by file");
    assert!(said[1].contains(r#""ok":true"#) && said[1].contains(r#""outboxId":1"#), "{said:?}");
}
