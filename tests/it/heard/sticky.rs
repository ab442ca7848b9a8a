//! `mention-sticky`: once addressed, an agent listens on in that thread.

use serde_json::{Value, json};

use crate::{dispatch::engage::crowd, support::Root};

use super::people::{rules, say};

/// A root whose second group listens on in `local:crowd` once it was addressed.
fn sticky(ignored: &str) -> Root {
    let root = crowd(ignored);
    root.g2(&["wirings", "set", "--group", "family", "--chat", "local:crowd", "engage=mention-sticky"]);
    root
}

/// The rule by which something in a thread wakes the agent, or does not.
fn rule(root: &Root, thread: &str, who: &str, text: &str) -> String {
    let why = say(root, &["--chat", "local:crowd", "--thread", thread, "--as", who, text]);
    rules(&why)[0].to_owned()
}

/// The threads in which the agent listens on.
fn marks(root: &Root) -> Vec<String> {
    let wirings = root.rows(&["wirings", "list"]);
    let of_crowd = wirings.iter().find(|w| w["chat_jid"] == "local:crowd").unwrap();
    let marks = of_crowd["sticky"].as_array().unwrap();
    marks.iter().map(|mark| mark["thread"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn chatter_that_is_kept_makes_no_thread_sticky() {
    let root = sticky("accumulate");
    let _daemon = root.serve();
    for _ in 0..2 {
        assert_eq!(rule(&root, "", "me", "just talk"), "none");
    }
    assert!(marks(&root).is_empty());
    assert_eq!(rule(&root, "", "me", "@Ann listen"), "trigger");
    assert_eq!(rule(&root, "", "me", "and to this"), "sticky");
    assert_eq!(marks(&root), [""]);
}

#[test]
fn a_mention_by_somebody_who_is_not_heard_makes_no_thread_sticky() {
    let root = sticky("accumulate");
    root.g2(&["chats", "set", "local:crowd", "policy=strict"]);
    let _daemon = root.serve();
    assert_eq!(rule(&root, "", "eve", "@Ann listen"), "unknown_sender");
    assert_eq!(rule(&root, "", "me", "is it awake?"), "none");
    assert!(marks(&root).is_empty());
    // Where it listens, it does not listen to strangers.
    rule(&root, "", "me", "@Ann listen");
    assert_eq!(rule(&root, "", "eve", "me too?"), "unknown_sender");
    assert_eq!(rule(&root, "", "me", "it does"), "sticky");
}

#[test]
fn a_mark_is_one_thread_s() {
    let root = sticky("drop");
    let _daemon = root.serve();
    assert_eq!(rule(&root, "a", "me", "@Ann here"), "trigger");
    assert_eq!(
        ["a", "b", ""].map(|thread| rule(&root, thread, "me", "and here?")),
        ["sticky", "none", "none"]
    );
    assert_eq!(marks(&root), ["a"]);
}

#[test]
fn the_main_line_of_a_group_is_no_thread() {
    let root = sticky("drop");
    root.g2(&["chats", "set", "local:crowd", "kind=group"]);
    let _daemon = root.serve();
    assert_eq!(rule(&root, "", "me", "@Ann hello"), "trigger");
    assert_eq!(rule(&root, "", "me", "between us"), "none");
    assert!(marks(&root).is_empty());
    let reason = root.rows(&["engage", "explain", "--chat", "local:crowd", "and now?"])[0]["reason"].clone();
    assert!(
        reason.as_str().unwrap().contains("outside of a thread each message has to address the agent"),
        "{reason}"
    );
    assert_eq!(rule(&root, "a", "me", "@Ann here"), "trigger");
    assert_eq!(rule(&root, "a", "me", "and here?"), "sticky");
    assert_eq!(marks(&root), ["a"]);
}

#[test]
fn messages_that_come_at_once_are_judged_in_their_order() {
    let root = sticky("drop");
    let store = g2::store::Store::open(&root.data("g2.sqlite")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (key, text) in ["before", "@Ann now", "after"].iter().enumerate() {
        let inbound = g2::domain::rows::Inbound {
            chat_jid: "local:crowd".into(),
            replay_key: key.to_string(),
            id: key.to_string(),
            sender: "local:me".into(),
            text: (*text).into(),
            ..Default::default()
        };
        runtime.block_on(store.accept(inbound, ipc_handlers::Time(1_800_000_000_000))).unwrap();
    }
    let _daemon = root.serve();
    let judged: Vec<Value> = (1..=3).map(|seq| root.judged(seq)).collect();
    assert_eq!(judged.iter().flat_map(rules).collect::<Vec<_>>(), ["none", "trigger", "sticky"]);
}

#[test]
fn a_mark_ends_by_hand_with_the_session_and_with_the_wiring_s_mode() {
    let root = sticky("drop");
    root.script(
        Some("family"),
        &json!([
            { "when": { "contains": "forget" },
              "do": [{ "command": { "box": "tasks", "json": { "type": "clear_session", "requestId": "c1" } } }, { "say": "forgotten" }] },
            { "do": [{ "say": "ok" }] },
        ]),
    );
    let _daemon = root.serve();
    let wiring = ["--group", "family", "--chat", "local:crowd"];
    let change = |what: &[&str]| {
        let all: Vec<&str> = ["wirings", what[0]].iter().chain(&wiring).chain(&what[1..]).copied().collect();
        root.g2(&all)
    };
    for thread in ["", "a", "b"] {
        rule(&root, thread, "me", "@Ann hi");
    }
    assert_eq!(marks(&root), ["", "a", "b"]);
    change(&["unstick", "--thread", "a"]);
    assert_eq!(marks(&root), ["", "b"]);
    assert_eq!(rule(&root, "a", "me", "hello?"), "none");
    // The agent forgets one conversation: that lane's mark goes, and no other.
    root.g2(&["send", "--chat", "local:crowd", "--thread", "b", "--wait", "60", "forget it"]);
    assert_eq!(marks(&root), [""]);
    assert_eq!(rule(&root, "b", "me", "still there?"), "none");
    change(&["unstick"]);
    assert!(marks(&root).is_empty());
    assert!(change(&["unstick"]).contains("already"));
    // Setting what is set changes nothing; another mode ends it for good.
    rule(&root, "", "me", "@Ann hi");
    change(&["set", "engage=mention-sticky", "ignored=accumulate"]);
    assert_eq!(marks(&root), [""]);
    change(&["set", "engage=mention"]);
    change(&["set", "engage=mention-sticky"]);
    assert!(marks(&root).is_empty());
    assert_eq!(rule(&root, "", "me", "hello?"), "none");
    rule(&root, "", "me", "@Ann hi");
    change(&["remove"]);
    root.g2(&["wirings", "add", "--group", "family", "--chat", "local:crowd", "--engage", "mention-sticky"]);
    assert!(marks(&root).is_empty());
    let refused = root.run(&["wirings", "unstick", "--group", "main", "--chat", "local:crowd"]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_direct_chat_keeps_a_mark_as_a_group_does() {
    let root = Root::new("");
    root.g2(&["wirings", "set", "--group", "main", "--chat", "local:main", "engage=mention-sticky"]);
    assert_eq!(root.rows(&["chats", "list"])[0]["kind"], "direct");
    let _daemon = root.serve();
    let rule = |text: &str| rules(&say(&root, &[text]))[0].to_owned();
    assert_eq!(["hello", "@G2 hello", "hello"].map(rule), ["none", "trigger", "sticky"]);
    let why = say(&root, &["since when?"]);
    assert!(why["wirings"][0]["sticky_since"].as_str().unwrap().ends_with('Z'), "{why}");
}

#[test]
fn chatter_wakes_no_agent_that_is_still_there() {
    let root = crowd("accumulate");
    let _daemon = root.serve();
    root.ask("local:crowd", "@Ann hello");
    assert_eq!(root.rows(&["runs", "list"])[0]["status"], "running");
    for text in ["the run", "is still there"] {
        let why = say(&root, &["--chat", "local:crowd", text]);
        assert_eq!(
            (&why["wirings"][0]["verdict"], &why["wirings"][0]["batch"]),
            (&json!("context"), &Value::Null)
        );
    }
    assert_eq!(root.ask("local:crowd", "@Ann what did they say?"), "echo: @Ann what did they say?\n");
    assert_eq!(root.said("local:crowd").len(), 2);
    // It is given what was said meanwhile, with what addresses it.
    let whys: Vec<Value> = (2..=4).map(|seq| root.why(seq)).collect();
    assert!(whys.iter().all(|why| why["wirings"][0]["batch"] == whys[2]["wirings"][0]["batch"]), "{whys:?}");
}
