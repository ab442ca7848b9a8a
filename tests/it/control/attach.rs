//! `g2 runs attach`: at a terminal and at a pipe, over the daemon's death, and what it refuses.

use std::process::Stdio;

use super::*;
use crate::support::{Docked, Terminal};

/// Works at "begin" until "end" is said to it, and says what it is told.
fn listening() -> Root {
    let root = Root::new("");
    listens(&root);
    root
}

fn listens(root: &Root) {
    listens_in(root, "main");
}

fn listens_in(root: &Root, group: &str) {
    root.script(
        Some(group),
        &json!([
            {"when": {"contains": "begin"}, "do": [{"tool": {"name": "Read"}}, {"tool_done": true}, {"say": "begun"}]},
            {"do": [{"tool": {"name": "Bash"}}, {"tool_done": true}, {"say": "{{text}} it is"}]},
        ]),
    );
}

/// Lines that reach `g2 runs attach 1` one after the other, each once `until` has been printed; returns all that was printed.
fn attached(root: &Root, lines: &[(&str, &str)], last: &str) -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    let mut child = root
        .command(&["runs", "attach", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut all = String::new();
    let mut until = |text: &str| {
        while !all.lines().any(|line| line == text) {
            let line = output.next().unwrap_or_else(|| panic!("{text:?} never came: {all}")).unwrap();
            all.push_str(&line);
            all.push('\n');
        }
    };
    for (after, line) in lines {
        until(after);
        writeln!(input, "{line}").unwrap();
    }
    until(last);
    root.g2(&["groups", "restart", "main"]);
    until("run 1 has ended");
    assert!(child.wait().unwrap().success());
    all
}

fn attaches(root: &Root) {
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "begin"), "begun\n");
    let shown = attached(root, &[("begun", "blue"), ("blue it is", "a \"red\" one")], "a \"red\" one it is");
    let expected = "[was given] me: begin\n[uses Read]\nbegun\n[was given] me: blue\n[uses Bash]\nblue it is\n\
                    [was given] me: a \"red\" one\n[uses Bash]\na \"red\" one it is\nrun 1 has ended\n";
    assert_eq!(shown, expected);
    assert_eq!(root.said("local:main"), ["begun", "blue it is", "a \"red\" one it is"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
    let why = root.why(2);
    assert!(why["wirings"][0]["reason"].as_str().unwrap().ends_with("wrote it to run 1"), "{why}");
}

#[test]
fn lines_go_to_the_agent_of_the_run_and_its_texts_and_tools_are_shown() {
    attaches(&listening());
}

#[test]
fn it_does_so_in_a_container() {
    let Some(root) = Docked::new("") else { return };
    listens(&root);
    attaches(&root);
}

#[test]
fn at_a_terminal_ctrl_c_leaves_and_the_run_goes_on() {
    let root = listening();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "begin"), "begun\n");
    let mut terminal = Terminal::open();
    let mut child = terminal.start(root.command(&["runs", "attach", "1"]));
    terminal.until("run 1 of main, for local:main. A line that you type goes to its agent.");
    terminal.until("> ");
    terminal.keys("blue\r");
    terminal.until("blue it is");
    terminal.keys("\u{3}");
    terminal.until("run 1 goes on; `g2 runs attach 1` comes back, `g2 runs stop 1` ends it");
    assert!(child.wait().unwrap().success() && terminal.is_plain());
    assert_eq!(root.rows(&["ps"]).len(), 1);
}

#[test]
fn a_line_wakes_this_agent_alone_though_others_hear_the_chat_and_nobody_was_mentioned() {
    let root = listening();
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    listens_in(&root, "family");
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:family", "--engage", "pattern"]);
    let _daemon = root.serve();
    root.g2(&["send", "--chat", "local:family", "--wait", "60", "--mention", "begin"]);
    let runs = root.rows(&["runs", "list"]);
    let of_family = runs.iter().find(|run| run["group"] == "family").unwrap()["id"].to_string();
    let mut child = root
        .command(&["runs", "attach", &of_family])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"blue\n").unwrap();
    wait_for("the answer", || root.said("local:family").contains(&"blue it is".to_owned()).then_some(()));
    Socket::connect(&root).rest("local:family");
    assert_eq!(root.said("local:family").iter().filter(|text| *text == "blue it is").count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_takes_no_lines_says_so() {
    let root = root();
    let said = |arguments: &[&str]| {
        let output = root.command(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(said(&["runs", "attach", "1"]).0, Some(1));
    let _daemon = root.serve();
    assert!(
        said(&["runs", "attach", "1"]).1.contains("run 1 does not exist"),
        "{:?}",
        said(&["runs", "attach", "1"])
    );
    assert_eq!(root.ask("local:main", "one"), "one done\n");
    root.g2(&["groups", "restart", "main"]);
    ended(&root, 1);
    let (code, text) = said(&["runs", "attach", "1"]);
    assert!(
        code == Some(1) && text.contains("run 1 has ended; `g2 runs logs 1` shows what it said"),
        "{text}"
    );
    let task = root
        .json(&["tasks", "add", "--group", "main", "--type", "interval", "--value", "3600000", "hang up"]);
    root.g2(&["tasks", "run", task["id"].as_str().unwrap()]);
    let run = wait_for("the task to run", || {
        root.rows(&["ps"]).into_iter().find(|row| row["doing"] == "Bash").map(|row| row["id"].to_string())
    });
    let mut child = root.command(&["runs", "attach", &run]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("works on a task, and takes no lines"),
        "{output:?}"
    );
}
