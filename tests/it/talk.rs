//! A chat on a terminal: a line editor, both sides, and what was said while nobody was there.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::process::{Child, Command};

use serde_json::json;

use crate::support::{Root, Socket, Terminal, wait_for};

const CHAT: &str = "local:main";
const PROMPT: &str = "> ";
const LEAVE: &str = "\u{4}";

/// A chat of `name` that is open and waits for a line; with what was shown on opening.
fn open(root: &Root, name: &str) -> (Terminal, Child, String) {
    let mut terminal = Terminal::open();
    let chat = terminal.start(plain(root, name));
    let mut shown = terminal.until("/help lists commands.");
    shown.push_str(&terminal.until(PROMPT));
    (terminal, chat, shown)
}

/// A chat without colours.
fn plain(root: &Root, name: &str) -> Command {
    let mut chat = root.command(&["chat", "--as", name]);
    chat.env("NO_COLOR", "1");
    chat
}

/// Leaves, and sees that the terminal is as it was.
fn leave(mut terminal: Terminal, mut chat: Child, keys: &str) {
    terminal.keys(keys);
    let ended = wait_for("the chat to end", || chat.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
    assert!(terminal.is_plain());
}

/// The texts of all messages, oldest first.
fn texts(root: &Root) -> Vec<String> {
    root.rows(&["messages", "list"]).iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_line_is_edited_has_no_bound_of_the_terminal_and_pasted_lines_are_one_message() {
    let root = Root::new("");
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    let long = "x".repeat(5000);
    for keys in [
        "ac\u{1b}[Db\r".to_owned(),
        format!("{long}\r"),
        "\u{1b}[200~one\rtwo\nthree\u{1b}[201~\r".to_owned(),
    ] {
        terminal.keys(&keys);
        terminal.until("echo: ");
    }
    // Brought back, and typed ahead: two messages, which may have one answer.
    terminal.keys("\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A!\rlast\r");
    terminal.until("G2: echo: last");
    leave(terminal, chat, LEAVE);
    let texts = texts(&root);
    assert_eq!((&*texts[0], texts[1].len(), &*texts[2]), ("abc", 5000, "one\ntwo\nthree"));
    assert_eq!(texts.last().unwrap(), "last", "{texts:?}");
    assert!(texts[3].ends_with('!'), "{texts:?}");
}

#[test]
fn a_half_typed_line_is_kept_when_an_answer_comes() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    terminal.keys("question\r");
    // Its start waits for the gate.
    terminal.until("G2 starts");
    terminal.keys("half a li");
    terminal.until("half a li");
    root.open_gate();
    terminal.until("G2: echo: question");
    terminal.until("half a li");
    terminal.keys("ne\r");
    terminal.until("G2: echo: half a line");
    leave(terminal, chat, "/quit\r");
    assert_eq!(texts(&root), ["question", "half a line"]);
}

#[test]
fn a_person_who_comes_sees_both_sides_and_the_lines_that_are_new_to_them() {
    let root = Root::new("");
    let _daemon = root.serve();
    for n in 0..15 {
        root.ask(CHAT, &format!("old {n}"));
    }
    let (terminal, chat, shown) = open(&root, "ada");
    assert!(shown.contains("me: old 14\r\nG2: echo: old 14"), "{shown}");
    assert!(
        shown.contains("me: old 5\r\n") && !shown.contains("me: old 4\r\n"),
        "the last 20 lines: {shown}"
    );
    assert!(!shown.contains("since you were here"), "nothing is new to somebody who never was: {shown}");
    leave(terminal, chat, LEAVE);
    for n in 0..14 {
        root.ask(CHAT, &format!("new {n}"));
    }
    let (terminal, chat, shown) = open(&root, "ada");
    let new = shown.find("since you were here: 28 new").expect(&shown);
    assert!(shown[new..].contains("me: new 0\r\nG2: echo: new 0"), "{shown}");
    leave(terminal, chat, LEAVE);
    let (terminal, chat, shown) = open(&root, "ada");
    assert!(shown.contains("me: new 13") && !shown.contains("since you were here"), "{shown}");
    leave(terminal, chat, "\u{3}");
}

#[test]
fn other_people_are_heard_and_a_sender_who_woke_no_agent_is_told_so() {
    let root = Root::new("");
    root.g2(&["wirings", "set", "--group", "main", "--chat", CHAT, "engage=mention"]);
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    root.g2(&["send", "--as", "ada", "@G2 hi"]);
    terminal.until("ada: @G2 hi");
    terminal.until("G2: echo: @G2 hi");
    root.g2(&["send", "--as", "eve", "psst\u{1b}[2Jand"]);
    terminal.until("eve: psst[2Jand");
    terminal.keys("anybody?\r");
    terminal.until("this message woke no agent (main: ");
    terminal.keys("/why\r");
    terminal.until("main: does not engage");
    terminal.keys("/help\r");
    terminal.until("/quit: leave");
    leave(terminal, chat, LEAVE);
    assert_eq!(texts(&root).len(), 3, "commands of the chat are no messages");
}

#[test]
fn a_message_has_several_lines_by_alt_enter_or_a_backslash_and_comes_back_in_a_later_chat() {
    let root = Root::new("");
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    terminal.keys("one\u{1b}\rtwo\r");
    terminal.until("echo: one");
    terminal.keys("three\\\rfour\r");
    terminal.until("echo: three");
    leave(terminal, chat, LEAVE);
    assert_eq!(texts(&root), ["one\ntwo", "three\nfour"]);
    let (mut terminal, chat, _) = open(&root, "me");
    // The keys of the lines before: within a message the arrows go from line to line.
    terminal.keys("\u{10}\u{10}!\r");
    wait_for("the line of before", || (texts(&root).len() == 3).then_some(()));
    leave(terminal, chat, LEAVE);
    assert_eq!(texts(&root)[2], "one\ntwo!");
    let typed = root.path().join("data/typed.jsonl");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(typed).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn markdown_has_the_weights_of_the_terminal_and_what_was_said_acts_on_nothing() {
    let root = Root::new("");
    root.script(
        None,
        &json!([{"do": [{"say": "a **bold** `code`\u{1b}[2J\n\n| k | n |\n|---|---|\n| a | 1 |"}]}]),
    );
    let _daemon = root.serve();
    let mut terminal = Terminal::open();
    let chat = terminal.start(root.command(&["chat"]));
    terminal.until("/help lists commands.");
    terminal.keys("go\r");
    terminal.until("\u{1b}[1mG2:\u{1b}[0m");
    terminal.until("a \u{1b}[1mbold\u{1b}[0m \u{1b}[36mcode\u{1b}[0m[2J");
    terminal.until("    \u{1b}[36ma  1\u{1b}[0m");
    leave(terminal, chat, LEAVE);
}

#[test]
fn ctrl_c_stops_the_turn_first_and_leaves_the_second_time() {
    let root = Root::new("");
    root.script(None, &json!([
        {"when": {"contains": "long"}, "do": [{"tool": {"name": "Bash", "timeout_ms": 600_000}}, {"hang": true}]},
    ]));
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    // Something is typed: that goes, and the chat stays.
    terminal.keys("half\u{3}");
    terminal.until("Ctrl-C again leaves the chat");
    terminal.keys("a long one\r");
    terminal.until("G2 is at work: Bash");
    terminal.until("(Ctrl-C stops it)");
    terminal.keys("\u{3}");
    terminal.until("run 1 is stopped; Ctrl-C again leaves the chat");
    wait_for("the run to be asked", || {
        let run = &root.json(&["ps"])[0];
        (run.is_null() || run["stopped_by"].is_string()).then_some(())
    });
    leave(terminal, chat, "\u{3}");
    assert_eq!(texts(&root), ["a long one"]);
}

#[test]
fn a_terminal_is_as_it_was_when_the_daemon_goes_away() {
    let root = Root::new("");
    let daemon = root.serve();
    let (mut terminal, mut chat, _) = open(&root, "me");
    terminal.keys("half");
    terminal.until("half");
    assert!(!terminal.is_plain());
    daemon.kill();
    assert!(!wait_for("the chat to end", || chat.try_wait().unwrap()).success());
    terminal.until("the daemon has stopped");
    assert!(terminal.is_plain());
}

#[test]
fn up_says_which_agent_answers_and_what_to_do_for_another() {
    let root = Root::new("");
    let mut terminal = Terminal::open();
    let mut command = root.command(&["up"]);
    let mut up = terminal.start({
        command.env("NO_COLOR", "1");
        command
    });
    let shown = terminal.until(PROMPT);
    for said in ["local:main: you are me, the agent is G2", "it repeats what you say", "`g2 setup`"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    terminal.keys("hello\r");
    terminal.until("G2: echo: hello");
    terminal.keys(LEAVE);
    assert!(wait_for("it to end", || up.try_wait().unwrap()).success());
}

#[test]
fn an_answer_grows_in_the_terminal_and_programs_are_told_it_whole() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "say=stream"]);
    root.script(None, &json!([
        {"when": {"contains": "stay"}, "do": [{"so_far": "One"}, {"so_far": "One **two** and"}, {"hang": true}]},
        {"do": [{"so_far": "One"}, {"so_far": "One two"}, {"say": "One two three."}]},
    ]));
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    let (mut program, mut shown) = (Socket::connect(&root), Socket::connect(&root));
    program.call(&json!({"op": "listen", "chat": CHAT}));
    shown.call(&json!({"op": "listen", "chat": CHAT, "growing": true}));
    terminal.keys("count\r");
    terminal.until("G2: One two three.");
    terminal.keys("stay\r");
    // It stands there without an end, and one who comes now is told it whole, too.
    terminal.until("G2: One two and");
    let mut late = Socket::connect(&root);
    late.call(&json!({"op": "listen", "chat": CHAT}));
    let (mut terminal_of_bob, chat_of_bob, before) = open(&root, "bob");
    assert!(before.contains("One two three.") && !before.contains("One two and"), "{before}");
    terminal.keys("\u{3}");
    terminal.until("is stopped; Ctrl-C again leaves the chat");
    terminal.until("I was told to stop");
    terminal_of_bob.until("I was told to stop");
    let told = |socket: &mut Socket| -> Vec<(String, String)> {
        let mut all = Vec::new();
        while all.last().is_none_or(|(_, text): &(String, String)| !text.starts_with("I was told to stop")) {
            let said = socket.hear();
            let word = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
            all.push((word("is"), word("text")));
        }
        all
    };
    let whole = |all: Vec<(String, String)>| -> Vec<String> {
        all.into_iter().filter(|(is, _)| is == "said").map(|(_, text)| text).collect()
    };
    let (to_program, to_late, to_shown) = (told(&mut program), told(&mut late), told(&mut shown));
    assert!(to_program.iter().chain(&to_late).all(|(is, _)| is == "said"), "{to_program:?} {to_late:?}");
    assert_eq!(whole(to_program)[..2], ["One two three.", "One **two** and"]);
    assert_eq!(whole(to_late)[0], "One **two** and");
    let grew: Vec<&str> =
        to_shown.iter().filter(|(is, _)| is == "growing").map(|(_, text)| text.as_str()).collect();
    assert!(grew.contains(&"One **two** and"), "{to_shown:?}");
    assert_eq!(whole(to_shown)[..2], ["One two three.", "One **two** and"]);
    let replies = root.json(&["send", "--wait", "60", "count"])["replies"].clone();
    assert_eq!(
        (replies.as_array().unwrap().len(), &replies[0]["text"]),
        (1, &json!("One two three.")),
        "{replies}"
    );
    assert_eq!(replies[0]["attempts"], 1, "as one that was said at once");
    leave(terminal, chat, LEAVE);
    leave(terminal_of_bob, chat_of_bob, LEAVE);
}

#[test]
fn the_words_of_the_chat_work_in_the_terminal_and_stand_in_its_help() {
    let root = Root::new("[words]\nstatus = \"/wie\"\n");
    let _daemon = root.serve();
    let (mut terminal, chat, _) = open(&root, "me");
    terminal.keys("/help\r");
    let help = terminal.until("/usage: ");
    for line in ["/quit: leave", "/wie: whether I am at work", "/new or /clear: ", "/model [NAME]: "] {
        assert!(help.contains(line), "{line}: {help}");
    }
    terminal.keys("/wie\r");
    let shown = terminal.until("main: nothing is at work.");
    terminal.keys("/stop\r");
    let more = terminal.until("Nothing is at work here.");
    assert!(!shown.contains("woke no agent") && !more.contains("woke no agent"), "{shown}{more}");
    leave(terminal, chat, LEAVE);
}
