//! Words in a chat: what they do and say, to whom, once each, and in the audit.

use super::*;

const MAIN: &str = "local:main";

/// What a chat is told after somebody wrote a text there.
fn told(root: &Root, who: &str, text: &str) -> Vec<String> {
    told_in(root, MAIN, who, text)
}

fn told_in(root: &Root, chat: &str, who: &str, text: &str) -> Vec<String> {
    let before = root.said(chat).len();
    root.g2(&["send", "--chat", chat, "--as", who, "--wait", "60", text]);
    root.said(chat).split_off(before)
}

/// What the audit has of words, in order.
fn audited(root: &Root) -> Vec<String> {
    let rows = root.rows(&["audit", "list"]);
    let words = rows.iter().filter(|row| row["origin"] == "chat");
    words.map(|row| format!("{}: {}", row["who"].as_str().unwrap(), row["what"].as_str().unwrap())).collect()
}

/// Bob is a member, and a stranger is heard.
fn with_people(more: &str) -> Root {
    let root = Root::new(more);
    root.g2(&["users", "add", "local:bob"]);
    root.g2(&["members", "add", "--group", "main", "local:bob"]);
    root.script(None, &json!([{"do": [{"say": "{{text}} done"}]}]));
    root
}

#[test]
fn an_owner_reads_how_it_stands_and_changes_what_an_owner_may() {
    let root = with_people("[agent.claude]\nmodel = \"large\"\n");
    let _daemon = root.serve();
    let help = &told(&root, "me", "/help")[0];
    assert_eq!(help.lines().count(), 10, "{help}");
    assert!(help.contains("\n/new or /clear: ") && help.contains("\n/model [NAME]: "), "{help}");
    let status = &told(&root, "me", " /STATUS ")[0];
    let lines: Vec<&str> = status.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "main: nothing is at work.",
            "Nothing waits here.",
            "Model: large, as in all groups.",
            "Session: a new one begins with the next message."
        ]
    );
    assert!(lines[4].contains("wait"), "{status}");
    assert_eq!(told(&root, "me", "hello"), ["hello done"]);
    let status = &told(&root, "me", "/status")[0];
    assert!(status.contains("\nSession: begun "), "{status}");

    assert!(told(&root, "me", "/model")[0].starts_with("Model: large, as in all groups.\nKnown: large"));
    assert_eq!(told(&root, "me", "/model small"), ["Model: small. It holds from the next message on."]);
    let model = || root.json(&["groups", "show", "main"])["config"]["model"].clone();
    assert_eq!(model(), "small");
    assert_eq!(told(&root, "me", "/model a b"), ["model can't be \"a b\": a model's name has no blanks"]);
    assert_eq!(model(), "small");
    assert_eq!(
        told(&root, "me", "/model Default"),
        ["Model: large, as in all groups. It holds from the next message on."]
    );
    assert_eq!(model(), Value::Null);

    assert_eq!(told(&root, "me", "/tasks"), ["This group has no tasks."]);
    root.g2(&["tasks", "add", "--group", "main", "--every", "1h", "--id", "water", "water the plants"]);
    let tasks = &told(&root, "me", "/tasks")[0];
    assert!(tasks.starts_with("This group has 1 task for this chat:\nwater (active, next "), "{tasks}");
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:side"]);
    let elsewhere = "This group has no tasks for this chat, and 1 for other chats.";
    assert_eq!(told_in(&root, "local:side", "me", "/tasks"), [elsewhere]);
    assert!(told(&root, "me", "/usage")[0].starts_with("Today: 0 requests, 0 tokens, "));
    let why = &told(&root, "me", "/why")[0];
    assert!(why.starts_with("\u{201c}hello\u{201d}: answered"), "{why}");
    assert_eq!(
        audited(&root),
        [
            "local:me: word model: the model of group main is small",
            "local:me: word model: the model of group main is that of all groups",
        ]
    );
    for text in root.said(MAIN) {
        assert!(!text.contains('`'), "{text}");
    }
}

#[test]
fn the_status_tells_what_is_at_work_and_what_waits() {
    let root = Root::new("[limits]\nretry_base_ms = 3600000\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:side", "--pattern", "."]);
    root.script(
        None,
        &json!([{"when": {"contains": "hang"}, "do": [{"heartbeat": true}, {"hang": true}]}, {"do": [{"error": "no"}]}]),
    );
    let _daemon = root.serve();
    let status = |chat: &str, line: &str| {
        root.send(chat, "/status");
        wait_for(&format!("{line} in {chat}; there is {:?}", root.said(chat)), || {
            root.said(chat).iter().any(|said| said.contains(line)).then_some(())
        });
    };
    root.send(MAIN, "hello");
    wait_for("the rest", || root.rows(&["lanes", "list"])[0]["rest_until"].is_string().then_some(()));
    status(MAIN, "main: nothing is at work.\n1 message waits here; the next try is in ");
    let seq = root.send("local:side", "hang on");
    let run = at_work(&root, seq);
    status("local:side", "main: at work on this conversation for ");
    status("local:side", "\nNothing waits here.\n");
    status(MAIN, "main: at work on another conversation for ");
    root.send("local:side", "/stop");
    assert_eq!(ended(&root, run)["status"], "cancelled");
}

#[test]
fn a_new_session_is_one_chat_s_alone() {
    let root = with_people("");
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:side", "--pattern", "."]);
    let _daemon = root.serve();
    let sessions = || -> Vec<String> {
        let rows = root.rows(&["sessions", "list", "--group", "main", "--state", "live"]);
        rows.iter().map(|row| row["chat_jid"].as_str().unwrap().to_owned()).collect()
    };
    for chat in [MAIN, "local:side"] {
        assert_eq!(told_in(&root, chat, "me", "hello"), ["hello done"]);
    }
    assert_eq!(sessions(), [MAIN, "local:side"]);
    for word in ["/new", "/clear"] {
        assert_eq!(told(&root, "me", word), ["A new session begins with the next message."]);
    }
    assert_eq!(sessions(), ["local:side"]);
    let first = "local:me: word new: group main begins a new session in local:main";
    assert_eq!(audited(&root)[0], first);
    assert_eq!(told(&root, "me", "hello"), ["hello done"]);
    // The same from the command line.
    let said = root.g2(&["sessions", "clear", "main", "--chat", "local:side", "--name", "before"]);
    assert_eq!(said, "group main starts a new session in local:side\n");
    assert_eq!(sessions(), [MAIN]);
    let archived = root.rows(&["sessions", "list", "--group", "main", "--state", "archived"]);
    assert_eq!((archived.len(), archived[0]["name"].as_str()), (1, Some("before")));
    root.g2(&["sessions", "clear", "main", "--chat", MAIN, "--thread", ""]);
    assert_eq!(sessions(), Vec::<String>::new());
    for (args, words) in [
        (vec!["--chat", "local:none"], "has had no message in local:none"),
        (vec!["--chat", MAIN, "--thread", "7"], "has had no message in thread"),
        (vec!["--thread", "7"], "--chat"),
    ] {
        let refused = root.run(&[&["sessions", "clear", "main"][..], &args].concat());
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains(words), "{refused:?}");
    }
}

#[test]
fn a_member_is_refused_in_one_line_or_does_what_the_group_lets_members_do() {
    let root = with_people("");
    root.g2(&["chats", "set", MAIN, "policy=public"]);
    let _daemon = root.serve();
    assert_eq!(told(&root, "bob", "/status"), ["Only owners and admins may use /status here."]);
    assert_eq!(told(&root, "bob", "/stop"), Vec::<String>::new(), "once in a while");
    assert_eq!(told(&root, "eve", "/stop"), ["/stop done"], "a stranger's text is a message");
    for (who, text, rule) in
        [("bob", "/status", "word"), ("eve", "/status", "pattern"), ("bob", "/models", "pattern")]
    {
        let explained = &root.rows(&["engage", "explain", "--chat", MAIN, "--as", who, text])[0];
        assert_eq!(explained["rule"], rule, "{explained}");
    }
    root.g2(&["groups", "set", "main", "commands=members"]);
    let help = &told(&root, "bob", "/help")[0];
    assert!(help.contains("/stop") && !help.contains("/model"), "{help}");
    let status = &told(&root, "bob", "/status")[0];
    assert!(status.starts_with("main: ") && !status.contains("problem"), "{status}");
    assert_eq!(told(&root, "bob", "/new"), ["A new session begins with the next message."]);
    assert_eq!(told(&root, "bob", "/retry"), ["There is nothing to try again here."]);
    assert_eq!(told(&root, "bob", "/model small"), Vec::<String>::new());
    assert_eq!(root.json(&["groups", "show", "main"])["config"]["model"], Value::Null);
    assert_eq!(told(&root, "bob", "hello"), ["hello done"]);
    assert_eq!(told(&root, "eve", "/help"), ["/help done"]);
    assert_eq!(audited(&root), ["local:bob: word new: group main begins a new session in local:main"]);
    let asked = root.send(MAIN, "/usage");
    Socket::connect(&root).rest(MAIN);
    assert_eq!(root.why(asked)["answer"], "nobody was woken: it asked for usage");
    let refused = root.run(&["groups", "set", "main", "commands=all"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("use owners or members"), "{refused:?}");
}

#[test]
fn a_member_s_word_that_is_not_for_the_agent_is_not_answered() {
    let root = with_people("");
    root.g2(&["wirings", "set", "--group", "main", "--chat", MAIN, "engage=mention"]);
    let _daemon = root.serve();
    assert_eq!(told(&root, "bob", "/help"), Vec::<String>::new());
    root.g2(&["send", "--as", "bob", "--mention", "--wait", "60", "/help"]);
    assert_eq!(root.said(MAIN), ["Only owners and admins may use /help here."]);
    assert!(told(&root, "me", "/help")[0].contains("/help"));
}

#[test]
fn two_groups_of_a_chat_each_answer_for_themselves_and_tell_the_words_once() {
    let root = with_people("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root.g2(&["wirings", "add", "--group", "family", "--chat", MAIN, "--engage", "mention"]);
    let _daemon = root.serve();
    assert_eq!(told(&root, "me", "/help").len(), 1);
    let mut status = told(&root, "me", "/status");
    status.sort();
    assert_eq!(status.len(), 2, "{status:?}");
    assert!(status[0].starts_with("family: ") && status[1].starts_with("main: "), "{status:?}");
}

#[test]
fn words_are_renamed_and_taken_away() {
    let root = with_people("[words]\nstatus = \"/wie\"\nhelp = \"\"\nclear = \"\"\n");
    let _daemon = root.serve();
    assert!(told(&root, "me", "/wie")[0].starts_with("main: nothing is at work."));
    for text in ["/status", "/help", "/clear"] {
        assert_eq!(told(&root, "me", text), [format!("{text} done")]);
    }
    root.g2(&["config", "set", "words.help", "/hilfe"]);
    let help = &told(&root, "me", "/hilfe")[0];
    assert!(help.contains("\n/wie: ") && help.contains("\n/new: ") && !help.contains("/clear"), "{help}");
}

#[test]
fn a_word_that_comes_again_is_answered_once() {
    let root = with_people("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for _ in 0..2 {
        socket.call(&json!({"op": "send", "chat": MAIN, "sender": "me", "text": "/tasks", "key": "k1"}));
        socket.rest(MAIN);
    }
    assert_eq!(root.said(MAIN), ["This group has no tasks."]);
}

#[test]
fn why_tells_of_the_message_that_is_replied_to() {
    let root = with_people("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let mut send = |key: &str, text: &str, reply_to: Value| {
        socket.call(&json!({"op": "send", "chat": MAIN, "sender": "me", "text": text, "key": key, "id": key, "reply_to": reply_to}));
        socket.rest(MAIN);
    };
    send("a", "first", Value::Null);
    send("b", "second", Value::Null);
    send("c", "/why", json!("a"));
    let of_ours = root.rows(&["outbox", "list"])[1]["id"].to_string();
    send("d", "/why", json!(of_ours));
    send("e", "/why", json!("none"));
    let said = root.said(MAIN).split_off(2);
    assert!(said[0].starts_with("\u{201c}first\u{201d}: answered"), "{said:?}");
    assert!(said[1].starts_with("\u{201c}second\u{201d}: answered"), "{said:?}");
    assert_eq!(said[2], "There is no message of yours here to tell of.");
}
