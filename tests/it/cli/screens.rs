//! What people see on a terminal of 80 columns, and what a pipe gets of the same.

use super::*;
use crate::support::{Terminal, noon};

/// Runs a command on a terminal of this width; returns what it shows.
fn shown(root: &Root, width: u16, arguments: &[&str]) -> String {
    let mut terminal = Terminal::of(width, 24);
    let mut command = root.command(arguments);
    command.env("NO_COLOR", "1");
    let mut child = terminal.start(command);
    let ended = wait_for("the command to end", || child.try_wait().unwrap());
    assert!(ended.code().is_some_and(|code| code <= 3), "{arguments:?}: {ended}");
    terminal.rest().replace('\r', "")
}

fn piped(root: &Root, arguments: &[&str]) -> String {
    String::from_utf8(root.run(arguments).stdout).unwrap()
}

/// A root whose texts are longer than a terminal is wide.
fn long_texts() -> Root {
    let root = Root::new("");
    let _daemon = root.serve();
    root.ask("local:main", &format!("begin {} end", "word ".repeat(100)));
    root
}

#[test]
fn lists_fit_the_terminal_and_are_whole_in_a_pipe() {
    let root = lived_in();
    root.g2(&[
        "groups",
        "add",
        "a-group-with-a-name-of-some-length",
        "--chat",
        "local:a-chat-with-a-long-name",
    ]);
    root.g2(&["tasks", "add", "--group", "main", "--every", "2h", &"remind me of the dentist ".repeat(5)]);
    for list in [
        "groups",
        "wirings",
        "chats",
        "channels",
        "users",
        "members",
        "messages",
        "outbox",
        "tasks",
        "lanes",
        "sessions",
        "runs",
        "egress",
        "approvals",
        "questions",
        "ipc",
        "dropped",
    ] {
        for width in [80, 40, 20] {
            let shown = shown(&root, width, &[list, "list"]);
            for line in shown.lines() {
                let most = usize::from(width);
                assert!(
                    line.starts_with("--wide shows ") || line.chars().count() <= most,
                    "{list} at {width}: {line:?}"
                );
            }
        }
        let piped = piped(&root, &[list, "list"]);
        assert!(!piped.contains('…') && !piped.contains("--wide"), "{list}: {piped}");
        let rows = root.json(&[list, "list"]).as_array().unwrap().len();
        assert_eq!(piped.lines().count(), rows + 1, "{list}: {piped}");
    }
}

#[test]
fn words_wrap_at_the_width_of_the_terminal_and_in_a_pipe_lines_stay_whole() {
    let root = long_texts();
    root.g2(&["groups", "add", "twin", "--chat", "local:main"]);
    for arguments in [
        &["status"][..],
        &["doctor"],
        &["why"],
        &["runs", "show", "1"],
        &["runs", "logs", "1"],
        &["activity"],
        &["groups", "show", "main"],
        &["runs", "show", "99"],
        &["start", "--wait", "x"],
        &["chat"],
        &["prune", "--dry-run", "--days", "1"],
    ] {
        let on_screen = shown(&root, 50, arguments);
        for line in on_screen.lines() {
            // A word alone can't be broken, nor can a command: it is copied as it stands.
            let is_one_word = !line.trim().trim_start_matches("see: ").contains(' ');
            let is_whole = line.trim_start().starts_with('`')
                || line.starts_with("--wide shows ")
                || line.starts_with("error: ")
                || line.starts_with("Usage: ");
            assert!(line.chars().count() <= 50 || is_one_word || is_whole, "{arguments:?}: {line:?}");
        }
    }
    let piped = piped(&root, &["why"]);
    assert!(piped.lines().any(|line| line.chars().count() > 100), "{piped}");
}

#[test]
fn a_terminal_shows_clock_times_beside_the_ages_on_the_time_line() {
    let root = long_texts();
    let on_screen = shown(&root, 80, &["activity"]);
    let mut lines = on_screen.lines();
    assert!(lines.next().unwrap().starts_with("CLOCK "), "{on_screen}");
    let line = lines.next().unwrap();
    let is_clock = line[..8]
        .chars()
        .enumerate()
        .all(|(n, c)| if n == 2 || n == 5 { c == ':' } else { c.is_ascii_digit() });
    assert!(
        is_clock && (line.contains(" ago ") || line.contains(" now ") || line.contains(" s ")),
        "{on_screen}"
    );
    assert!(!piped(&root, &["activity"]).contains("CLOCK"));
}

#[test]
fn a_long_text_is_cut_on_a_terminal_only_and_times_are_said_there() {
    let root = long_texts();
    let on_screen = shown(&root, 80, &["messages", "list"]);
    assert!(
        on_screen.contains("begin word") && on_screen.contains('…') && !on_screen.contains(" end"),
        "{on_screen}"
    );
    assert!(on_screen.contains(" ago") || on_screen.contains(" now "), "{on_screen}");
    assert!(!on_screen.contains("THREAD") && !on_screen.contains("T00:"), "{on_screen}");
    let whole = shown(&root, 80, &["messages", "list", "--wide"]);
    assert!(whole.contains("THREAD"), "{whole}");
    let in_a_pipe = piped(&root, &["messages", "list"]);
    assert!(in_a_pipe.contains("word  end") && in_a_pipe.contains("THREAD"), "{in_a_pipe}");
    let received = root.rows(&["messages", "list"])[0]["received_at"].as_str().unwrap().to_owned();
    assert!(in_a_pipe.contains(&received), "{in_a_pipe}");
    // What is left out is named, where it holds something.
    let narrow = shown(&root, 50, &["outbox", "list"]);
    assert!(narrow.contains("--wide shows ") && narrow.contains("cause too"), "{narrow}");
    assert_eq!(piped(&root, &["outbox", "list", "--columns", "status,id"]), "STATUS  ID\nsent    1\n");
    let unknown = root.run(&["outbox", "list", "--columns", "colour"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no column colour"), "{unknown:?}");
}

#[test]
fn colours_are_on_a_terminal_unless_somebody_says_otherwise() {
    let root = long_texts();
    let coloured = |arguments: &[&str], set: &[(&str, &str)], on_a_terminal: bool| {
        let mut command = root.command(arguments);
        command.envs(set.iter().copied());
        if !on_a_terminal {
            return String::from_utf8(command.output().unwrap().stdout).unwrap().contains('\u{1b}');
        }
        let mut terminal = Terminal::of(80, 24);
        let mut child = terminal.start(command);
        wait_for("the command to end", || child.try_wait().unwrap());
        terminal.rest().contains('\u{1b}')
    };
    for arguments in [&["outbox", "list"][..], &["status"], &["--help"]] {
        let with = |more: &[&'static str]| [arguments, more].concat();
        assert!(coloured(arguments, &[], true), "{arguments:?}");
        assert!(!coloured(arguments, &[], false), "{arguments:?}");
        assert!(!coloured(arguments, &[("NO_COLOR", "1")], true), "{arguments:?}");
        assert!(!coloured(&with(&["--color", "never"]), &[], true), "{arguments:?}");
        assert!(coloured(&with(&["--color", "always"]), &[], false), "{arguments:?}");
        assert!(coloured(arguments, &[("CLICOLOR_FORCE", "1")], false), "{arguments:?}");
    }
}

#[test]
fn rows_are_found_by_state_time_group_and_text() {
    let root = lived_in();
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let zone = noon();
    let count = |arguments: &[&str]| root.rows_in(&zone, arguments).len();
    for (arguments, rows) in [
        (&["messages", "list", "--grep", "HELLO"][..], 1),
        (&["messages", "list", "--grep", "nothing like it"], 0),
        (&["messages", "list", "--group", "main", "--since", "1h"], 1),
        (&["messages", "list", "--group", "family"], 0),
        (&["messages", "list", "--until", "yesterday"], 0),
        (&["messages", "list", "--since", "today 0:00", "--until", "2099-01-01"], 1),
        (&["outbox", "list", "--state", "sent", "--group", "main"], 1),
        (&["outbox", "list", "--state", "failed"], 0),
        (&["runs", "list", "--group", "main", "--since", "2h"], 1),
        (&["runs", "list", "--group", "family"], 0),
        (&["runs", "list", "--state", "queued"], 0),
        (&["tasks", "list", "--state", "active", "--grep", "later"], 1),
        (&["tasks", "list", "--state", "paused"], 0),
        (&["ipc", "list", "--grep", "none"], 1),
        (&["ipc", "list", "--state", "dead", "--since", "1d"], 1),
        (&["ipc", "list", "--until", "yesterday"], 0),
        (&["groups", "list", "--grep", "fam"], 1),
        (&["groups", "ls", "--limit", "1"], 1),
        (&["wirings", "list", "--group", "family"], 1),
        (&["wirings", "list", "--chat", "local:main"], 1),
        (&["sessions", "list", "--state", "archived"], 0),
        (&["approvals", "list", "--state", "expired"], 0),
        (&["events", "--kind", "said"], 1),
        (&["events", "--kind", "said", "--until", "yesterday"], 0),
        (&["activity", "--grep", "echo"], 1),
        (&["usage", "--until", "2020-01-01"], 0),
        (&["channels", "list", "--state", "failing"], 0),
        (&["dropped", "list", "--group", "main"], 0),
    ] {
        assert_eq!(count(arguments), rows, "{arguments:?}: {:#?}", root.rows_in(&zone, arguments));
    }
    for wrong in [&["messages", "list", "--since", "soon"][..], &["runs", "list", "--until", "25:00"]] {
        assert!(refused(&root, wrong, 1).contains("is no time"), "{wrong:?}");
    }
    assert!(refused(&root, &["runs", "list", "--group", "nobody"], 1).contains("there is no group nobody"));
}

#[test]
fn words_of_habit_and_older_words_are_understood() {
    let root = lived_in();
    assert_eq!(piped(&root, &["tasks", "ls"]), piped(&root, &["tasks", "list"]));
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root.g2(&["groups", "rm", "family", "--yes"]);
    root.g2(&["tasks", "rm", "task-1"]);
    assert_eq!(root.rows(&["tasks", "list"]).len(), 0);
    for old in [&["tasks", "cancel", "none"][..], &["sessions", "delete", "77"]] {
        assert!(refused(&root, old, 1).contains("none") || old[0] == "sessions", "{old:?}");
    }
}

#[test]
fn status_is_a_page_that_fits_and_begins_with_how_it_is() {
    let root = Root::new("");
    let down = shown(&root, 80, &["status"]);
    assert!(down.starts_with("g2 is not running: version "), "{down}");
    assert!(down.contains("1 problem needs you:\n  no daemon runs at"), "{down}");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let up = shown(&root, 80, &["status"]);
    assert!(up.starts_with("g2 is healthy: up for ") && up.contains("\nno problems\n"), "{up}");
    for line in
        ["groups     1\n", "at work    ", "waiting    nothing\n", "answers    the last one ", "disk       "]
    {
        assert!(up.contains(line), "{line}: {up}");
    }
}

#[test]
fn top_shows_what_happens_live_and_stops_a_run_after_a_yes() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"tool": {"name": "Grep", "timeout_ms": 600_000}}, {"hang": true}]}]));
    let daemon = root.serve();
    let mut terminal = Terminal::of(80, 24);
    let mut command = root.command(&["top"]);
    command.env("NO_COLOR", "1");
    let mut top = terminal.start(command);
    // Only what changes is sent: blanks that were there before are not, so words are looked for.
    terminal.until("healthy");
    terminal.until("nothing");
    assert!(!terminal.is_plain());
    root.send("local:main", "go");
    terminal.until("Grep");
    terminal.keys("\r");
    terminal.until("output:");
    terminal.keys("\u{1b}");
    terminal.until("Tab");
    terminal.keys("s");
    terminal.until("stop");
    terminal.keys("y");
    wait_for("the run to be asked", || {
        let runs = root.json(&["ps"]);
        (runs[0].is_null() || runs[0]["stopped_by"].is_string()).then_some(())
    });
    // It goes on when the daemon is gone.
    daemon.kill();
    terminal.until(": no");
    terminal.keys("q");
    let ended = wait_for("top to end", || top.try_wait().unwrap());
    assert!(ended.success() && terminal.is_plain(), "{ended}");
}

#[test]
fn top_needs_a_terminal_and_is_one_document_for_programs() {
    let root = lived_in();
    assert!(refused(&root, &["top"], 2).contains("needs a terminal"));
    let document = root.json(&["top"]);
    assert_eq!(document["state"], "not running");
    assert_eq!(document["mailbox"].as_array().unwrap().len(), 3, "{document:#}");
    assert_eq!(document["channels"][0]["name"], "local");
}
