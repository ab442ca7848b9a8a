//! The command line as clap knows it: commands in groups in `g2 --help`, and the words that mean the same everywhere.

use clap::{Command, CommandFactory as _, builder::StyledStr};

use super::Arguments;

/// The groups of `g2 --help` with their commands, in the order in which they are listed. A new command needs a place here.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Talk", &["up", "chat", "send"]),
    ("Look", &["status", "top", "ps", "activity", "events", "why", "usage", "audit", "doctor", "report"]),
    ("Agents and chats", &["groups", "wirings", "engage", "chats", "channels", "egress"]),
    ("People", &["users", "members", "approvals", "dropped"]),
    ("Work", &["tasks", "schedule", "messages", "outbox", "lanes", "runs", "sessions", "ipc"]),
    ("Service", &["serve", "stop", "service", "web", "metrics", "prune", "backup", "restore", "restored"]),
    ("Set up", &["setup", "init", "config", "image", "completions", "man", "ops"]),
];

/// Words that are understood beside those that help shows, as people type them from habit.
const ALSO: [(&str, &str); 2] = [("list", "ls"), ("remove", "rm")];

/// Returns the whole command line.
pub(super) fn command() -> Command {
    let command = with_words(Arguments::command());
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

/// Has each command understand the words of habit.
fn with_words(command: Command) -> Command {
    command.mut_subcommands(|sub| {
        let habit = ALSO.iter().find(|(word, _)| *word == sub.get_name()).map(|(_, habit)| *habit);
        with_words(sub).aliases(habit)
    })
}

#[cfg(test)]
mod tests {
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
