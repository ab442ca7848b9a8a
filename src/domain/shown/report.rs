//! What a report of a bug may tell of a root: figures, states and words of our own. Names become marks, texts are left out.
//!
//! A mark is the same for the same name within one report and another one in the next, so nobody finds a name by trying many.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The words for how bad a line of the log is.
const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
/// Fields of the log that lead to the other parts of a report.
const NUMBERS: [&str; 4] = ["run", "claim", "seq", "pid"];

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Group,
    Chat,
    Channel,
    Image,
    Path,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Chat => "chat",
            Self::Channel => "channel",
            Self::Image => "image",
            Self::Path => "path",
        }
    }
}

/// Replaces names by marks.
#[derive(Clone, Debug)]
pub struct Mask {
    salt: String,
    /// Names that are looked for in texts, the longest first, each with its mark.
    known: Vec<(String, String)>,
}

impl Mask {
    /// A mask of this report; `salt` is random and stays with nobody.
    #[must_use]
    pub fn new(salt: &str) -> Self {
        Self { salt: salt.to_owned(), known: Vec::new() }
    }

    /// Returns the mark of a name.
    #[must_use]
    pub fn mark(&self, kind: Kind, name: &str) -> String {
        let digest = Sha256::digest(format!("{}\0{}\0{name}", self.salt, kind.word()));
        let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}#{hex}", kind.word())
    }

    /// Has a name be found in texts from now on.
    pub fn know(&mut self, kind: Kind, name: &str) {
        if !name.is_empty() && self.known.iter().all(|(known, _)| known != name) {
            self.known.push((name.to_owned(), self.mark(kind, name)));
            self.known.sort_by_key(|(known, _)| std::cmp::Reverse(known.len()));
        }
    }

    /// Returns a text of our own with every known name replaced by its mark.
    #[must_use]
    pub fn over(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        'text: while !rest.is_empty() {
            for (name, mark) in &self.known {
                if let Some(after) = rest.strip_prefix(name.as_str()) {
                    masked.push_str(mark);
                    rest = after;
                    continue 'text;
                }
            }
            let next = rest.chars().next().map_or(0, char::len_utf8);
            masked.push_str(&rest[..next]);
            rest = &rest[next..];
        }
        masked
    }
}

/// Returns the kind of a run's error; `None`: it is in no words of ours. The rest of it can quote an agent.
#[must_use]
pub fn error_kind(error: &str) -> Option<&str> {
    let kind = error.split(':').next().unwrap_or_default();
    let is_kind = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut parts = kind.split('/');
    let (provider, rest) = (parts.next()?, parts.next()?);
    (parts.next().is_none() && ["claude", "acp"].contains(&provider) && is_kind(rest)).then_some(kind)
}

/// Returns what a line of `data/changes.log` tells without its words: when, by what kind of caller, with which outcome, and the
/// name of the operation or command.
#[must_use]
pub fn change(line: &str, commands: &[String], operations: &[String]) -> Option<String> {
    let (head, what) = line.split_once(": ")?;
    let mut head = head.split(' ');
    let at = head.next().filter(|at| is_time(at))?;
    let outcome = head.next_back().filter(|word| ["done", "failed"].contains(word))?;
    let mut words = what.split(' ');
    let first = words.next()?;
    let name = if first == "g2" {
        let mut known = words.filter(|word| commands.iter().any(|command| command == word)).take(1);
        format!("g2 {}", known.next().unwrap_or("…"))
    } else {
        operations.iter().find(|operation| *operation == first).cloned().unwrap_or_else(|| "…".to_owned())
    };
    Some(format!("{at} {outcome} {name}"))
}

/// Returns what a line of the log tells without its words: when, how bad, and the numbers of runs and claims; of a line in JSON
/// also of which module. Words of ours can quote others.
#[must_use]
pub fn log_line(line: &str) -> Option<String> {
    if let Ok(line) = serde_json::from_str::<Map<String, Value>>(line) {
        return json_line(&line);
    }
    let mut words = line.split_whitespace();
    let at = words.next().filter(|at| is_time(at))?;
    let level = words.next().filter(|level| LEVELS.contains(level))?;
    // Numbers of runs and claims lead to the other files.
    let numbers = line.split(|c: char| c.is_whitespace() || "{}".contains(c)).filter(|word| {
        let number = NUMBERS.iter().find_map(|key| word.strip_prefix(key)?.strip_prefix('='));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let numbers: Vec<&str> = numbers.take(4).collect();
    Some([vec![at, level], numbers].concat().join(" "))
}

/// The same of a line in JSON, in which each thing has its place.
fn json_line(line: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    let at = text("timestamp").filter(|at| is_time(at))?;
    let level = text("level").filter(|level| LEVELS.contains(level))?;
    let is_module =
        |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte));
    let module = text("target").filter(is_module).map(str::to_owned);
    let within = line.get("span").and_then(Value::as_object);
    let number = |name: &&str| {
        let of = |fields: &Map<String, Value>| fields.get(*name).and_then(Value::as_u64);
        let number = of(line).or_else(|| within.and_then(of))?;
        Some(format!("{name}={number}"))
    };
    let words = [at.to_owned(), level.to_owned()].into_iter().chain(module);
    Some(words.chain(NUMBERS.iter().filter_map(number)).collect::<Vec<_>>().join(" "))
}

/// Whether a word is a time as we write it.
fn is_time(word: &str) -> bool {
    (20..=35).contains(&word.len())
        && word.as_bytes()[..4].iter().all(u8::is_ascii_digit)
        && word.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ+".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_marks_that_are_the_same_within_a_report_only() {
        let mut mask = Mask::new("one");
        mask.know(Kind::Group, "family");
        mask.know(Kind::Chat, "local:family");
        let text = mask.over("local:family wakes family, not fam");
        assert_eq!(
            text,
            format!(
                "{} wakes {}, not fam",
                mask.mark(Kind::Chat, "local:family"),
                mask.mark(Kind::Group, "family")
            )
        );
        assert!(!text.contains("family"));
        assert_ne!(mask.mark(Kind::Group, "a"), Mask::new("two").mark(Kind::Group, "a"));
        assert_eq!(mask.over("ä€"), "ä€");
    }

    #[test]
    fn of_an_error_no_more_than_its_kind_is_told() {
        assert_eq!(error_kind("claude/overloaded: the API said \"secret\""), Some("claude/overloaded"));
        for foreign in [
            "secret",
            "secret: x",
            "claude/two words: x",
            "claude/Secret: x",
            "claude/a/b: x",
            "mine/secret: x",
        ] {
            assert_eq!(error_kind(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn of_a_change_no_more_than_its_name_is_told() {
        let (commands, operations) = (["tasks".to_owned()], ["tasks.add".to_owned()]);
        let told = |line: &str| change(line, &commands, &operations);
        let at = "2026-01-02T03:04:05.678Z";
        assert_eq!(
            told(&format!("{at} user 0 (ada) done: tasks.add prompt=\"secret\"")),
            Some(format!("{at} done tasks.add"))
        );
        assert_eq!(
            told(&format!("{at} ada failed: g2 tasks add secret")),
            Some(format!("{at} failed g2 tasks"))
        );
        assert_eq!(told(&format!("{at} ada done: g2 secret")), Some(format!("{at} done g2 …")));
        assert_eq!(told(&format!("{at} ada done: secret x")), Some(format!("{at} done …")));
        for none in ["secret done: tasks.add", "secret", "2026-01-02T03:04:05Z secret: x"] {
            assert_eq!(told(none), None, "{none}");
        }
    }

    #[test]
    fn of_a_line_of_the_log_no_words_are_told() {
        let line =
            "2026-01-02T03:04:05.678Z  WARN run{run=3 group=secret}: run=secret it said secret claim=7";
        assert_eq!(log_line(line).as_deref(), Some("2026-01-02T03:04:05.678Z WARN run=3 claim=7"));
        assert_eq!(log_line("secret WARN x"), None);
        let line = r#"{"timestamp":"2026-01-02T03:04:05.678Z","level":"WARN","message":"it said secret","run":"secret",
            "group":"secret","claim":7,"target":"g2::loops::run","span":{"run":3,"group":"secret","name":"run"}}"#;
        assert_eq!(
            log_line(line).as_deref(),
            Some("2026-01-02T03:04:05.678Z WARN g2::loops::run run=3 claim=7")
        );
        assert_eq!(log_line(r#"{"timestamp":"secret","level":"WARN"}"#), None);
        assert_eq!(log_line(r#"{"timestamp":"2026-01-02T03:04:05.678Z","level":"secret"}"#), None);
    }
}
