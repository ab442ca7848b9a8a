//! What came of each rule, and what the adapter said itself where one is broken.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::shown::screen::{acts, without};

/// The longest line of an adapter's log that is told, characters.
const LONGEST: usize = 300;

/// What came of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub rule: &'static str,
    pub ok: bool,
    pub detail: String,
    /// The last lines of the adapter's log in that life, where the rule is broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
}

/// The verdicts so far.
#[derive(Default)]
pub(super) struct Verdicts {
    all: Vec<Verdict>,
    /// How many of them are of earlier lives of the adapter.
    earlier: usize,
}

impl Verdicts {
    pub(super) fn rule(&mut self, rule: &'static str, ok: bool, detail: &str) {
        let detail = if ok { String::new() } else { detail.to_owned() };
        self.all.push(Verdict { rule, ok, detail, said: Vec::new() });
    }

    /// A life of the adapter is over, which ended with these words.
    pub(super) fn of_a_life(mut self, last: &[String]) -> Self {
        for verdict in self.all[self.earlier..].iter_mut().filter(|verdict| !verdict.ok) {
            verdict.said = last.to_vec();
        }
        self.earlier = self.all.len();
        self
    }

    pub(super) fn all(self) -> Vec<Verdict> {
        self.all
    }
}

/// Returns the last lines of a log that say anything, oldest first: no secret is in them, and nothing that acts on a terminal.
pub(super) fn last_lines(log: &str, most: usize, secrets: &[String]) -> Vec<String> {
    let log = without(log, secrets);
    let newest = log.lines().rev().filter(|line| !line.trim().is_empty()).take(most);
    let shown = |line: &str| {
        let line = line.trim_end().chars().map(|c| if acts(c) { ' ' } else { c });
        line.take(LONGEST).collect::<String>()
    };
    let mut lines: Vec<String> = newest.map(shown).collect();
    lines.reverse();
    lines
}

/// Returns the settings of an adapter that may be secrets, by their names.
pub(super) fn secrets(config: &Map<String, Value>) -> Vec<String> {
    let is_secret = |name: &str| {
        let name = name.to_lowercase();
        ["token", "secret", "password", "key"].iter().any(|part| name.contains(part))
    };
    let named = config.iter().filter(|(name, _)| is_secret(name));
    named.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_life_stand_beside_the_rules_that_it_broke() {
        let mut verdicts = Verdicts::default();
        verdicts.rule("a", true, "");
        verdicts.rule("b", false, "no");
        let mut verdicts = verdicts.of_a_life(&["first".into()]);
        verdicts.rule("c", false, "no");
        let all = verdicts.of_a_life(&["second".into()]).all();
        let said: Vec<&[String]> = all.iter().map(|verdict| verdict.said.as_slice()).collect();
        assert_eq!(said, [&[][..], &["first".to_owned()], &["second".to_owned()]]);
    }

    #[test]
    fn last_words_are_few_short_and_clean() {
        let config = serde_json::json!({"bot_token": "123:AA-secret", "folder": "/srv/toy", "n": 5});
        let secrets = secrets(config.as_object().unwrap());
        assert_eq!(secrets, ["123:AA-secret"]);
        let log = format!("one\n\n  two\u{1b}[2J 123:AA-secret \n{}\n \n", "x".repeat(400));
        assert_eq!(last_lines(&log, 2, &secrets), ["  two [2J …".to_owned(), "x".repeat(300)]);
        assert_eq!(last_lines("", 2, &secrets), [] as [&str; 0]);
    }
}
