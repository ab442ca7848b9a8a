//! Changes and their authors: a line each in `data/changes.log`, written by the daemon or by a program under the lock.

use std::path::Path;

use ipc_handlers::Time;
use serde_json::Value;

use super::{By, Op};
use crate::{
    domain::host::{errors::chain, screen::escaped},
    root,
};

/// How much of what was asked for is kept, characters.
const LONGEST: usize = 500;

/// Returns what an operation is asked to do, on one line: its name and its arguments.
#[must_use]
pub fn words(op: &Op) -> String {
    let mut words = op.name().to_owned();
    let asked = serde_json::to_value(op).unwrap_or_default();
    if let Value::Object(args) = &asked["args"] {
        for (name, value) in args.iter().filter(|(_, value)| !value.is_null()) {
            // A secret is in no log.
            if name == "token" {
                words.push_str(" token=…");
                continue;
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // Of a long text no more is escaped than is kept.
            let head: String = text.chars().take(LONGEST + 1).collect();
            words.push_str(&format!(" {name}={}", quoted(&head)));
        }
    }
    if let Some((end, _)) = words.char_indices().nth(LONGEST) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// Notes what became of a change. A root without `data/` has no log.
pub fn note(root: &Path, by: &By, done: bool, what: &str, now: Time) {
    let became = if done { "done" } else { "failed" };
    if let Err(error) = root::append_change(&root.join("data"), &format!("{now} {by} {became}: {what}"))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(error = %chain(&error), "data/changes.log can't be written");
    }
}

/// Returns a word as it could be typed; nothing in it begins a line.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=./:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", escaped(&word.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_can_be_typed_again_and_stays_on_its_line() {
        for (word, shown) in [
            ("local:main", "local:main"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("a\nb\u{1b}[2J", r"'a\nb\u{1b}[2J'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn a_line_has_the_arguments_that_were_given_and_is_bounded() {
        let op = |name: &str| {
            let args = serde_json::json!({"folder": "family", "chat": "local:f", "name": name});
            words(&Op::read(serde_json::json!({"name": "groups.add", "args": args})).unwrap())
        };
        assert_eq!(op("Us all"), "groups.add chat=local:f folder=family main=false name='Us all'");
        let long = op(&"x\n".repeat(1 << 20));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(!long.contains('\n') && long.ends_with('…'));
    }
}
