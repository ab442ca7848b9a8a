//! The texts that people read at the command line, each pinned in a file: `help/` has every help text, `output/` the most
//! important outputs. A changed text fails here, so a reviewer reads it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Output,
    sync::OnceLock,
};

use super::*;

/// Compares a text with the file of this name. It never writes the file unless `INSTA_UPDATE` says so.
fn pinned(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    // A test's stderr is shown if the test fails.
    eprintln!(
        "If the new text of {folder}/{name}.snap is right, accept it with \
         `INSTA_UPDATE=always cargo test --test it cli::texts` and commit the file."
    );
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Runs the program outside of any root.
fn g2(arguments: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_g2")).args(arguments).env_clear().output().unwrap()
}

/// Every command with its help text, by its words: `g2`, `g2 groups`, `g2 groups add`.
pub(super) fn helps() -> &'static BTreeMap<String, String> {
    static HELPS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    HELPS.get_or_init(|| {
        let (mut found, mut left) = (BTreeMap::new(), vec![Vec::new()]);
        while let Some(words) = left.pop() {
            let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            arguments.push("--help");
            let output = g2(&arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            left.extend(subcommands(&text).into_iter().map(|name| [words.clone(), vec![name]].concat()));
            found.insert([vec!["g2".to_owned()], words].concat().join(" "), text);
        }
        found
    })
}

/// The names below `Commands:` of a help text; in that of `g2`, below the headings of its groups.
fn subcommands(help: &str) -> Vec<String> {
    let after = if help.contains("\nTalk:\n") { "\nUsage: " } else { "\nCommands:\n" };
    let list = help.split_once(after).map_or("", |(_, list)| list);
    let list = list.split("\nArguments:").flat_map(|part| part.split("\nOptions:"));
    let list = list.flat_map(|part| part.split("\nGlobal options:")).next().unwrap_or_default();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn file_of(command: &str) -> String {
    command.replace(' ', "-")
}

#[test]
fn every_help_text_is_as_it_was_reviewed() {
    assert!(helps().len() > 80, "{:?}", helps().keys());
    for (command, text) in helps() {
        pinned("help", &file_of(command), text);
    }
}

#[test]
fn every_pinned_help_text_has_its_command() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/help");
    let commands: Vec<String> = helps().keys().map(|command| file_of(command)).collect();
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(commands.contains(&name), "no command has the help text {}; remove it", path.display());
    }
}

#[test]
fn every_command_argument_and_option_is_explained() {
    for (command, text) in helps() {
        let about = text.lines().next().unwrap_or_default();
        assert!(about.len() > 5 && !about.starts_with("Usage"), "{command} does not say what it is for");
        for section in ["\nArguments:\n", "\nOptions:\n", "\nGlobal options:\n", "\nCommands:\n"] {
            let Some((_, list)) = text.split_once(section) else { continue };
            let lines: Vec<&str> = list.split("\n\n").next().unwrap_or_default().lines().collect();
            for (n, line) in lines.iter().enumerate() {
                let is_name = ["  -", "  <", "  [", "      --"].iter().any(|start| line.starts_with(start))
                    || section == "\nCommands:\n" && !line.starts_with("   ");
                if is_name {
                    // The explanation stands behind two blanks, or on the next line where the name is long.
                    let beside =
                        line.trim_start().split_once("  ").is_some_and(|(_, said)| !said.trim().is_empty());
                    let below = lines.get(n + 1).is_some_and(|next| next.starts_with("          "));
                    assert!(beside || below, "{command} does not explain {line:?}");
                    let said = line.trim_start().split_once("  ").map_or("", |(_, said)| said.trim());
                    assert!(!said.starts_with("[possible"), "{command} does not explain {line:?}");
                }
            }
        }
        assert!(text.contains("\nGlobal options:\n"), "{command}");
    }
}

/// How a command ended, in a form that depends on no time, place or machine.
fn ended(root: &Root, arguments: &[&str]) -> String {
    let output = root.run(arguments);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let mut text = format!("$ g2 {}\n", arguments.join(" "));
    for (name, said) in [("stdout", stdout), ("stderr", stderr)] {
        if !said.is_empty() {
            text.push_str(&format!("--- {name}\n{}\n", said.trim_end()));
        }
    }
    text.push_str(&format!("--- exit {}\n", output.status.code().unwrap()));
    everywhere(root, &text)
}

fn everywhere(root: &Root, text: &str) -> String {
    let mut text = text.replace(root.path().to_str().unwrap(), "[ROOT]");
    for (pattern, name) in [
        // Instants of the fixtures are in 2099.
        (r"20[2-8]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
        (r"\bv?0\.\d+\.\d+\b", "[VERSION]"),
        (r"\brun 1 (running|succeeded|failed)\b", "run 1 [STATUS]"),
        (r"\bschema \d+\b", "schema [N]"),
        (r"[\d.]+ [KMGT]iB in the store, [\d.]+ [KMGT]iB free", "[ROOM]"),
    ] {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    text
}

#[test]
fn mistakes_are_answered_as_they_were_reviewed() {
    let root = Root::new("");
    for (name, arguments) in [
        ("no-arguments", &[][..]),
        ("unknown-command", &["group", "list"]),
        ("unknown-option", &["groups", "list", "--limits", "3"]),
        ("missing-argument", &["groups", "add", "family"]),
        ("bad-value", &["schedule", "next", "0 9 * * *", "--count", "0"]),
        ("bad-address", &["send", "--chat", "family", "hello"]),
        ("unknown-group", &["groups", "show", "none"]),
        ("unknown-setting", &["groups", "set", "main", "colour=red"]),
        ("groups-remove-main", &["groups", "remove", "main"]),
        ("no-daemon", &["send", "hello"]),
        ("json-unknown-command", &["--json", "group", "list"]),
        ("json-missing-argument", &["--json", "groups", "add", "family"]),
        ("json-unknown-group", &["--json", "groups", "show", "none"]),
        ("json-no-daemon", &["--json", "send", "hello"]),
    ] {
        pinned("output", name, &ended(&root, arguments));
    }
    let nowhere = tempfile::tempdir().unwrap();
    let output = g2(&["--root", nowhere.path().to_str().unwrap(), "groups", "list"]);
    let told = String::from_utf8(output.stderr).unwrap().replace(nowhere.path().to_str().unwrap(), "[ROOT]");
    pinned("output", "no-root", &told);
}

#[test]
fn a_fresh_root_is_shown_as_it_was_reviewed() {
    let root = Root::new("");
    for (name, arguments) in [
        ("status-down", &["status"][..]),
        ("groups-add", &["groups", "add", "family", "--chat", "local:family", "--name", "Family"]),
        ("groups-add-json", &["--json", "groups", "add", "work", "--chat", "local:work"]),
        ("groups-add-again", &["groups", "add", "family", "--chat", "local:family"]),
        ("groups-list", &["groups", "list"]),
        ("groups-show", &["groups", "show", "family"]),
        ("wirings-list", &["wirings", "list"]),
        ("unconfirmed", &["groups", "remove", "family"]),
        (
            "tasks-add",
            &[
                "tasks",
                "add",
                "--group",
                "main",
                "--type",
                "once",
                "--value",
                "2099-01-01T09:00:00",
                "say good morning",
            ],
        ),
        ("tasks-list", &["tasks", "list"]),
        ("tasks-cancel", &["tasks", "cancel", "task-1"]),
        ("messages-list-empty", &["messages", "list"]),
        ("engage-explain", &["engage", "explain", "--chat", "local:main", "hello"]),
        (
            "schedule-next",
            &["schedule", "next", "0 9 * * *", "--after", "2099-01-01T00:00:00Z", "--count", "2"],
        ),
        ("why-nothing", &["why"]),
    ] {
        pinned("output", name, &ended(&root, arguments));
    }
}

#[test]
fn an_answered_message_is_explained_as_it_was_reviewed() {
    let root = Root::new("");
    {
        let _daemon = root.serve();
        root.ask("local:main", "hello");
    }
    pinned("output", "why-answered", &ended(&root, &["why"]));
    pinned("output", "outbox-list", &ended(&root, &["outbox", "list"]));
}

#[test]
fn doctor_judges_a_fresh_root_as_it_was_reviewed() {
    let root = Root::new("");
    // The other checks are of the machine.
    let rows = root.rows(&["doctor"]);
    let ours = rows.iter().filter(|row| {
        ["root", "settings", "store", "lock", "socket"].contains(&row["check"].as_str().unwrap())
    });
    let lines: Vec<String> = ours
        .map(|row| {
            let of = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
            format!("{} {}: {}\n  fix: {}\n", of("check"), of("status"), of("detail"), of("fix"))
        })
        .collect();
    pinned("output", "doctor", &everywhere(&root, &lines.concat()));
}
