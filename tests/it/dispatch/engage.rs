//! Which messages wake an agent, and how a person finds out why.

use serde_json::{Value, json};

use crate::support::{Root, Socket};

/// A root whose second group hears `local:crowd` when it is mentioned.
pub(crate) fn crowd(ignored: &str) -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family", "--trigger", "@Ann"]);
    root.g2(&[
        "wirings",
        "add",
        "--group",
        "family",
        "--chat",
        "local:crowd",
        "--engage",
        "mention",
        "--ignored",
        ignored,
    ]);
    root
}

#[test]
fn messages_that_mention_nobody_are_read_once_somebody_is_mentioned() {
    let root = crowd("accumulate");
    let _daemon = root.serve();
    for (who, text) in [("Alice", "shall we <eat>?"), ("Bob", "@Anna knows \"best\"")] {
        let seq: i64 = root.g2(&["send", "--chat", "local:crowd", "--as", who, text]).trim().parse().unwrap();
        let why = root.judged(seq);
        assert_eq!((&why["wirings"][0]["engages"], &why["outbox"]), (&json!(false), &json!([])), "{why}");
        assert!(why["answer"].as_str().unwrap().starts_with("nobody was woken"), "{why}");
    }
    assert!(root.rows(&["runs", "list"]).is_empty());
    assert_eq!(root.ask("local:crowd", " @ann, what now?"), "echo:  @ann, what now?\n");
    let prompt = root.prompt(1);
    let lines: Vec<&str> = prompt.lines().collect();
    assert_eq!((lines[0], lines[1]), (r#"<context timezone="UTC" />"#, "<messages>"));
    assert!(lines[2].starts_with(r#"<message sender="Alice" time=""#), "{prompt}");
    assert!(lines[2].ends_with(">shall we &lt;eat&gt;?</message>"), "{prompt}");
    assert!(lines[3].ends_with(">@Anna knows &quot;best&quot;</message>"), "{prompt}");
    assert!(
        lines[4].starts_with(r#"<message sender="me""#) && lines[4].ends_with("> @ann, what now?</message>"),
        "{prompt}"
    );
    assert_eq!((lines[5], lines.len()), ("</messages>", 6));
}

#[test]
fn messages_that_mention_nobody_are_not_read_where_they_are_dropped() {
    let root = crowd("drop");
    let _daemon = root.serve();
    root.judged(root.send("local:crowd", "idle talk"));
    root.ask("local:crowd", "@Ann hello");
    let prompt = root.prompt(1);
    assert!(!prompt.contains("idle talk") && prompt.contains("@Ann hello"), "{prompt}");
}

#[test]
fn a_platforms_mention_wakes_as_the_trigger_does() {
    let root = crowd("accumulate");
    let _daemon = root.serve();
    let said = root.g2(&["send", "--chat", "local:crowd", "--mention", "--wait", "60", "you there?"]);
    assert_eq!(said, "echo: you there?\n");
    let why = root.why(1);
    assert_eq!(
        [&why["wirings"][0]["group"], &why["wirings"][0]["engages"], &why["wirings"][0]["rule"]],
        [&json!("family"), &json!(true), &json!("mention")]
    );
    assert_eq!(
        (&why["wirings"][0]["run"], &why["outbox"][0]["text"]),
        (&json!(1), &json!("echo: you there?"))
    );
    assert_eq!(why["answer"], "answered; the answer is sent");
}

#[test]
fn a_pattern_is_a_javascript_regular_expression() {
    let root = Root::new("");
    root.g2(&["groups", "add", "ops", "--chat", "local:ops"]);
    let pattern = r"^(?=.*\bdeploy\b)(?!.*\bdry\b).*?(\w+) to \1$";
    root.g2(&["wirings", "set", "--group", "ops", "--chat", "local:ops", &format!("pattern={pattern}")]);
    let wiring = &root.rows(&["wirings", "list"])[1];
    assert_eq!(
        [&wiring["group"], &wiring["engage_mode"], &wiring["engage_pattern"]],
        [&json!("ops"), &json!("pattern"), &json!(pattern)]
    );
    let _daemon = root.serve();
    for (text, engages) in [
        ("deploy x to x", true),
        ("deploy x to y", false),
        ("dry deploy x to x", false),
        ("redeploy x to x", false),
        ("now deploy\u{a0}a, b to b", true),
    ] {
        let why = root.judged(root.send("local:ops", text));
        assert_eq!(why["wirings"][0]["engages"], engages, "{text}: {why}");
    }
    Socket::connect(&root).rest("local:ops");
    assert_eq!(root.said("local:ops").last().unwrap(), "echo: now deploy\u{a0}a, b to b");
}

#[test]
fn each_group_that_is_wired_to_a_chat_answers_for_itself() {
    let root = Root::new("");
    root.g2(&["groups", "add", "second", "--chat", "local:second"]);
    root.g2(&[
        "wirings",
        "add",
        "--group",
        "second",
        "--chat",
        "local:main",
        "--engage",
        "pattern",
        "--pattern",
        "both",
    ]);
    let _daemon = root.serve();
    root.ask("local:main", "one");
    root.ask("local:main", "both");
    assert_eq!(root.said("local:main"), ["echo: one", "echo: both", "echo: both"]);
    let why = root.why(2);
    let groups: Vec<&Value> = why["wirings"].as_array().unwrap().iter().map(|w| &w["group"]).collect();
    assert_eq!(groups, ["main", "second"]);
}

#[test]
fn a_message_that_nobody_hears_is_kept_and_explained() {
    let root = Root::new("");
    let _daemon = root.serve();
    let seq = root.send("local:nowhere", "hello?");
    assert_eq!(root.why(seq)["wirings"], json!([]));
    assert!(root.why(seq)["answer"].as_str().unwrap().contains("g2 wirings add"));
    let messages = root.rows(&["messages", "list", "--chat", "local:nowhere"]);
    for name in "seq id chat_jid thread sender sender_name text at received_at from_me bot".split(' ') {
        assert!(messages[0].get(name).is_some(), "{name}: {}", messages[0]);
    }
    assert_eq!([&messages[0]["text"], &messages[0]["from_me"]], [&json!("hello?"), &json!(false)]);
    assert_eq!(root.run(&["why", "999"]).status.code(), Some(1));
}
