//! That an agent works for a chat is shown there while it does, and `<internal>` never leaves.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::{Docked, Root, Socket, Terminal, wait_for};

const CHAT: &str = "local:main";

/// A client that is told who types in `chat`.
fn watch(root: &Root, chat: &str) -> Socket {
    let mut socket = Socket::connect(root);
    assert_eq!(
        socket.call(&json!({"op": "listen", "chat": chat, "typing": true})),
        json!({"is": "listening"})
    );
    socket
}

fn typing(on: bool) -> Value {
    json!({"is": "typing", "thread": "", "on": on})
}

/// Hears until the agent types no more; returns what was said, and how often it was told that the agent types.
fn hear_turn(socket: &mut Socket) -> (Vec<String>, usize) {
    let (mut said, mut shown, mut over) = (Vec::new(), 0, false);
    while !over || said.is_empty() {
        let heard = socket.hear();
        match heard["is"].as_str().unwrap() {
            "typing" if heard["on"] == true => (shown, over) = (shown + 1, false),
            "typing" => over = true,
            "said" => said.push(heard["text"].as_str().unwrap().to_owned()),
            other => panic!("{other}: {heard}"),
        }
    }
    (said, shown)
}

#[test]
fn it_is_shown_from_the_handing_over_renewed_and_hidden_when_the_turn_is_over() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    let (mut watcher, mut other) = (watch(&root, CHAT), watch(&root, "local:other"));
    root.send(CHAT, "one");
    assert_eq!(watcher.hear(), typing(true));
    assert_eq!(watcher.hear(), typing(true), "it is said again, as platforms let it expire");
    root.open_gate();
    let (said, _) = hear_turn(&mut watcher);
    assert_eq!(said, ["echo: one"]);
    // A follow-up into the live run is a turn of its own.
    for n in 0..20 {
        root.send(CHAT, &n.to_string());
        let (said, shown) = hear_turn(&mut watcher);
        assert_eq!(said, [format!("echo: {n}")]);
        assert!(shown >= 1);
    }
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
    // Another chat has heard nothing of it.
    assert_eq!(other.call(&json!({"op": "status"}))["is"], "status");
}

#[test]
fn it_ends_with_a_run_that_fails_and_begins_again_with_the_next_try() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    let mut watcher = watch(&root, CHAT);
    root.send(CHAT, "go");
    for _ in 0..3 {
        assert_eq!(watcher.hear(), typing(true));
        assert_eq!(watcher.hear(), typing(false));
    }
}

#[test]
fn clients_that_did_not_ask_for_it_and_tasks_show_nothing() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"wait_ms": 20}, {"say": "said"}]}]));
    let _daemon = root.serve();
    let (mut plain, mut watcher) = (Socket::connect(&root), watch(&root, CHAT));
    plain.call(&json!({"op": "listen", "chat": CHAT}));
    let task = json!({"type": "schedule_task", "prompt": "p", "schedule_type": "once",
        "schedule_value": crate::support::due(), "targetJid": CHAT, "output": "chat"});
    root.put_command("main", "tasks", "task.json", &task);
    assert_eq!(watcher.hear()["is"], "said", "a task's answer, and nothing before it");
    assert_eq!(plain.hear()["is"], "said");
    root.send(CHAT, "go");
    assert_eq!(watcher.hear(), typing(true));
    assert_eq!(plain.hear()["text"], "said");
}

#[test]
fn nothing_that_is_said_acts_on_a_terminal_and_a_pipe_gets_it_as_it_is() {
    const SAID: &str = "\u{1b}[2Ja\u{9b}2Jb\u{202e}c\u{200f}d";
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"say": SAID}]}]));
    let _daemon = root.serve();
    let mut terminal = Terminal::open();
    let run = |terminal: &Terminal, arguments: &[&str]| {
        let mut command = root.command(arguments);
        command.env("NO_COLOR", "1");
        terminal.start(command).wait().unwrap();
    };
    run(&terminal, &["send", "--wait", "60", "go"]);
    assert_eq!(terminal.until("\n"), "[2Ja2Jbcd\r\n");
    for list in ["messages", "outbox"] {
        run(&terminal, &[list, "list", "--chat", CHAT]);
    }
    run(&terminal, &["why", "1"]);
    run(&terminal, &["runs", "logs", "1"]);
    run(&terminal, &["status"]);
    let shown = terminal.until("version");
    let acts =
        |c: char| c.is_control() && !['\n', '\r', '\t'].contains(&c) || ['\u{202e}', '\u{200f}'].contains(&c);
    assert!(shown.contains("outbox") && !shown.contains(acts), "{shown:?}");
    run(&terminal, &["--json", "outbox", "list"]);
    let shown = terminal.until("\u{202e}c\u{200f}d");
    assert!(shown.contains("\\u001b[2Ja\u{9b}2Jb"), "asked for as JSON: {shown:?}");
    assert_eq!(root.ask(CHAT, "again"), format!("{SAID}\n"), "through a pipe");
}

#[test]
fn a_chat_through_a_pipe_prints_answers_only() {
    use std::process::Stdio;
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"wait_ms": 50}, {"say": "an answer"}]}]));
    let _daemon = root.serve();
    let mut chat = root.command(&["chat"]);
    let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"one\n").unwrap();
    let output = chat.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "an answer\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_adopted_run_that_is_at_work_shows_it_again() {
    let Some(root) = Docked::new("") else { return };
    root.script(None, &json!([{"do": [{"say": "one"}, {"wait_ms": 6000}, {"say": "two"}]}]));
    let daemon = root.serve();
    root.send(CHAT, "go");
    wait_for("the first word", || (root.said(CHAT) == ["one"]).then_some(()));
    daemon.kill();
    let _daemon = root.serve();
    let mut watcher = watch(&root, CHAT);
    assert_eq!(watcher.hear(), typing(true));
    assert_eq!(hear_turn(&mut watcher).0, ["two"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
}

#[test]
fn internal_text_leaves_neither_by_an_answer_nor_by_a_command() {
    let root = Root::new("");
    let command = |id: &str, text: &str| json!({"type": "send_message", "requestId": id, "chatJid": CHAT, "text": text});
    let by_file = command("some", "by <internal>secret\none</internal> file");
    root.script(
        None,
        &json!([{"do": [
            {"command": {"box": "messages", "json": by_file}},
            {"say": "<internal>secret two</internal>\n an answer<internal>\nsecret three</internal> "},
            {"say": "<internal>secret four</internal>"},
            {"say": "unclosed <internal>secret seven"},
            {"say": "nested <Internal>secret <internal>eight</INTERNAL> secret nine</internal >ends"},
        ]}]),
    );
    let _daemon = root.serve();
    let printed = root.ask(CHAT, "go");
    let expected = ["by  file", "an answer", "unclosed", "nested ends"];
    assert_eq!(root.said(CHAT), expected);
    assert_eq!(printed, expected.map(|text| format!("{text}\n")).concat());
    // An agent that asks to say nothing is told so.
    root.put_command("main", "messages", "x.json", &command("none", " <internal>secret five</internal>\n"));
    let refused = root.reply("main", "none");
    let code = &refused["error"]["code"];
    assert_eq!((&refused["ok"], code), (&json!(false), &json!("invalid_field")), "{refused}");
    assert_eq!(root.rows(&["outbox", "list"]).len(), expected.len());
    // Nor by the notice of a task that fails.
    root.script(Some("main"), &json!([{"do": [{"say": "begun"}, {"exit": 3}]}]));
    let task = json!({"type": "schedule_task", "prompt": "water <internal>secret six</internal>", "output": "chat",
        "schedule_type": "once", "schedule_value": crate::support::due(), "targetJid": CHAT});
    root.put_command("main", "tasks", "task.json", &task);
    let notice = wait_for("the notice", || {
        root.said(CHAT).into_iter().find(|text| text.starts_with("Scheduled task"))
    });
    assert!(notice.contains("“water”") && !notice.contains("secret"), "{notice}");
}
