//! The command that is meant by a word that is none. Pure.
//!
//! A word of habit names the command of ours that does this. Otherwise the nearest names are meant, where they are near: a tip
//! that leads elsewhere is worse than none.

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Words of other programs, and what does the same here, the best first: the first one that is there is named.
const HABITS: [(&[&str], &[&str]); 20] = [
    (&["delete", "del", "destroy", "erase"], &["remove", "revoke", "drop", "clear", "prune"]),
    (&["cancel", "kill", "abort", "end", "stop"], &["stop", "pause", "skip", "drop"]),
    (&["create", "new", "make", "register"], &["add", "init", "allow"]),
    (&["edit", "update", "change", "modify"], &["set", "update", "edit", "config"]),
    (&["get", "view", "inspect", "describe", "info", "cat"], &["show", "list", "status"]),
    (&["ls"], &["list", "ps", "status"]),
    (&["start", "begin", "launch", "exec"], &["start", "run", "resume", "up"]),
    (&["resend", "again", "repeat"], &["retry", "resume", "wake"]),
    (&["enable", "unpause", "continue"], &["resume", "allow", "release"]),
    (&["disable", "suspend"], &["pause", "hold", "deny"]),
    (&["yes", "accept", "allow"], &["approve", "allow"]),
    (&["no", "reject", "refuse"], &["deny", "drop"]),
    (&["agents", "agent", "bots"], &["groups"]),
    (&["people", "owners", "roles"], &["users"]),
    (&["accounts", "account", "platforms"], &["channels"]),
    (&["cron", "jobs", "reminders"], &["tasks"]),
    (&["settings", "setting"], &["config"]),
    (&["mailbox", "commands"], &["ipc"]),
    (&["check", "diagnose", "health"], &["doctor", "verify", "check"]),
    (&["tail", "journal"], &["logs", "log"]),
];

/// The shortest beginning of a name that stands for it.
const SHORTEST_BEGINNING: usize = 3;

/// Has an error about an unknown command name the one that is meant, and none that is further off.
pub(super) fn rightly(mut wrong: clap::Error, whole: &Command) -> clap::Error {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (wrong.kind(), wrong.get(ContextKind::InvalidSubcommand))
    else {
        return wrong;
    };
    let names: Vec<&str> = below(whole, &wrong).get_subcommands().map(Command::get_name).collect();
    let meant: Vec<String> = meant(word, &names).into_iter().map(str::to_owned).collect();
    wrong.remove(ContextKind::SuggestedSubcommand);
    if !meant.is_empty() {
        wrong.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
    }
    wrong
}

/// Returns the command below which the word stands, as the line of usage has it.
fn below<'c>(whole: &'c Command, wrong: &clap::Error) -> &'c Command {
    let usage = match wrong.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        Some(_) | None => String::new(),
    };
    let path = usage.split_whitespace().skip_while(|word| *word != whole.get_name()).skip(1);
    path.map_while(|word| word.starts_with(char::is_alphabetic).then_some(word))
        .try_fold(whole, |command, word| command.find_subcommand(word))
        .unwrap_or(whole)
}

/// Returns those of the names that a word can mean.
fn meant<'n>(word: &str, names: &[&'n str]) -> Vec<&'n str> {
    let word = word.to_lowercase();
    let habits = HABITS.iter().filter(|(words, _)| words.contains(&word.as_str()));
    let of_habit =
        habits.flat_map(|(_, ours)| *ours).find_map(|ours| names.iter().find(|name| *name == ours));
    if let Some(name) = of_habit {
        return vec![*name];
    }
    let far = |name: &str| {
        let begins = word.len() >= SHORTEST_BEGINNING && name.starts_with(&word);
        if begins { 1 } else { distance(&word, name) }
    };
    let most = (word.chars().count() / 3).max(1);
    let nearest = names.iter().map(|name| far(name)).min().filter(|nearest| *nearest <= most);
    names.iter().filter(|name| Some(far(name)) == nearest).copied().collect()
}

/// Returns how many letters lie between two words: one that is missing, too much, another, or two that are swapped.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::help;

    /// What the tip of a command line names.
    fn tip(line: &str) -> Vec<String> {
        let command = help::command();
        let wrong = command.clone().try_get_matches_from(line.split(' ')).unwrap_err();
        match rightly(wrong, &command).get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(names)) => names.clone(),
            other => {
                assert!(other.is_none(), "{line}: {other:?}");
                Vec::new()
            }
        }
    }

    #[test]
    fn a_tip_names_the_nearest_command_and_none_that_is_further_off() {
        for (line, named) in [
            ("g2 taks", &["tasks"][..]),
            ("g2 grups", &["groups"]),
            ("g2 statsu", &["status"]),
            ("g2 stat", &["start", "status"]),
            ("g2 sned", &["send"]),
            ("g2 mesages", &["messages"]),
            ("g2 message", &["messages"]),
            ("g2 docter", &["doctor"]),
            ("g2 chanels", &["channels"]),
            ("g2 shedule", &["schedule"]),
            ("g2 usages", &["usage"]),
            ("g2 prun", &["prune"]),
            ("g2 loop list", &["loops"]),
            ("g2 tasks lst", &["list"]),
            ("g2 task rn", &["run"]),
            ("g2 --root /x runs --json lsit", &["list"]),
            ("g2 --root tasks lanes wak", &["wake"]),
            ("g2 tasks TASKS", &[]),
            ("g2 quit", &[]),
            ("g2 version", &[]),
            ("g2 xyzzy", &[]),
            ("g2 wirings ex", &[]),
        ] {
            assert_eq!(tip(line), named, "{line}");
        }
    }

    #[test]
    fn a_word_of_habit_names_what_does_this_here() {
        for (line, named) in [
            ("g2 groups delete", "remove"),
            ("g2 groups del", "remove"),
            ("g2 groups create", "add"),
            ("g2 groups new", "add"),
            ("g2 tasks delete", "remove"),
            ("g2 tasks start", "run"),
            ("g2 tasks edit", "update"),
            ("g2 runs kill", "stop"),
            ("g2 runs cancel", "stop"),
            ("g2 config get", "show"),
            ("g2 outbox resend", "retry"),
            ("g2 approvals yes", "approve"),
            ("g2 agents", "groups"),
            ("g2 kill", "stop"),
        ] {
            assert_eq!(tip(line), [named], "{line}");
        }
    }

    #[test]
    fn every_word_of_habit_names_something_that_is_there() {
        fn all(command: &Command, found: &mut Vec<String>) {
            for sub in command.get_subcommands() {
                found.push(sub.get_name().to_owned());
                all(sub, found);
            }
        }
        let mut there = Vec::new();
        all(&help::command(), &mut there);
        for name in HABITS.iter().flat_map(|(_, ours)| *ours) {
            assert!(there.iter().any(|known| known == name), "{name}");
        }
    }

    #[test]
    fn the_distance_of_two_words_counts_letters() {
        for (a, b, far) in [
            ("", "", 0),
            ("", "ab", 2),
            ("send", "sned", 1),
            ("lst", "list", 1),
            ("set", "get", 1),
            ("é", "e", 1),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
    }
}
