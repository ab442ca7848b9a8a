//! The command line as clap knows it: commands in groups in `g2 --help`, and the words that mean the same everywhere.

use clap::{Command, CommandFactory as _, builder::StyledStr};

use super::{Arguments, out, wrap};

/// The groups of `g2 --help` with their commands, in the order in which they are listed. A new command needs a place here.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Talk", &["up", "chat", "send", "say"]),
    (
        "Look",
        &[
            "status", "top", "ps", "activity", "events", "why", "usage", "audit", "notices", "doctor",
            "report",
        ],
    ),
    ("Agents and chats", &["groups", "wirings", "engage", "chats", "channels", "egress"]),
    ("People", &["users", "members", "approvals", "dropped"]),
    ("Work", &["tasks", "schedule", "messages", "outbox", "questions", "lanes", "runs", "sessions", "ipc"]),
    (
        "Service",
        &[
            "start", "stop", "restart", "logs", "serve", "service", "web", "metrics", "prune", "backup",
            "restore", "restored", "import", "export", "loops",
        ],
    ),
    ("Set up", &["setup", "init", "config", "image", "completions", "man", "ops"]),
];

/// Words that are understood beside those that help shows, as people type them from habit.
const ALSO: [(&str, &str); 12] = [
    ("list", "ls"),
    ("remove", "rm"),
    ("tasks", "task"),
    ("runs", "run"),
    ("logs", "log"),
    ("groups", "group"),
    ("users", "user"),
    ("channels", "channel"),
    ("sessions", "session"),
    ("wirings", "wiring"),
    ("lanes", "lane"),
    ("approvals", "approval"),
];

/// Returns the whole command line, with help for the terminal that stdout is.
pub(super) fn command() -> Command {
    command_for(out::screen().unwrap_or(wrap::WIDEST))
}

/// Returns the whole command line, with help that is `width` columns wide.
pub(super) fn command_for(width: usize) -> Command {
    let command = laid(with_words(Arguments::command()), width);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{heading}{GLOBAL}:{heading:#}\n{{options}}{{after-help}}",
        groups(&command).ansi(),
        heading = command.get_styles().get_header(),
        GLOBAL = super::GLOBAL,
    );
    command.help_template(StyledStr::from(template))
}

/// Lists the commands in their groups, a line each.
fn groups(command: &Command) -> StyledStr {
    let (heading, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = command.get_subcommands().map(|sub| sub.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{heading}{title}:{heading:#}\n"));
        for sub in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) =
                (sub.get_name(), sub.get_about().map(StyledStr::to_string).unwrap_or_default());
            text.push_str(&format!("  {literal}{name}{literal:#}{:1$}  {about}\n", "", width - name.len()));
        }
        text.push('\n');
    }
    StyledStr::from(text)
}

/// Lays out what stands below the options of each command.
fn laid(command: Command, width: usize) -> Command {
    let after = command.get_after_help().map(|text| wrap::help(&text.to_string(), width));
    let command = command.mut_subcommands(|sub| laid(sub, width));
    match after {
        Some(after) => command.after_help(after),
        None => command,
    }
}

/// Has each command understand the words of habit.
fn with_words(command: Command) -> Command {
    command.mut_subcommands(|sub| {
        let habit = ALSO.iter().find(|(word, _)| *word == sub.get_name()).map(|(_, habit)| *habit);
        with_words(sub).aliases(habit)
    })
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_a_place_in_help() {
        let command = command();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let places = GROUPS.iter().flat_map(|(_, names)| *names).filter(|name| **name == sub.get_name());
            assert_eq!(places.count(), 1, "`{}` needs one place in a group of help", sub.get_name());
        }
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            assert!(command.find_subcommand(name).is_some(), "there is no command `{name}`");
        }
    }

    #[test]
    fn every_line_of_the_groups_fits_80_columns() {
        for line in groups(&command()).to_string().lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn every_help_text_fits_80_columns() {
        fn look(command: &mut Command) {
            let text = command.render_help().to_string();
            for line in text.lines() {
                // The line of usage is clap's. A word that can't be broken is an argument of an example, in quotes.
                let is_whole = ["Usage: ", "    '"].iter().any(|begin| line.starts_with(begin));
                assert!(line.width() <= 80 || is_whole, "{}: {line}", command.get_name());
            }
            // A line that clap had to break again would begin a paragraph with what was left.
            let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.trim_end().ends_with(own.trim_end()), "{}: {own}", command.get_name());
            command.get_subcommands_mut().for_each(look);
        }
        let mut command = command_for(80).term_width(80);
        command.build();
        look(&mut command);
    }

    #[test]
    fn what_is_listed_and_removed_has_one_word() {
        fn words(command: &Command, found: &mut Vec<String>) {
            for sub in command.get_subcommands() {
                found.extend(sub.get_name_and_visible_aliases().iter().map(|word| (*word).to_owned()));
                words(sub, found);
            }
        }
        let mut found = Vec::new();
        words(&command(), &mut found);
        for other in ["ls", "rm", "del", "delete", "destroy", "erase"] {
            assert!(!found.iter().any(|word| word == other), "{other}");
        }
    }
}
