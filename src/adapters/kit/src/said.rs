//! What every platform's messages have in common, in the words in which it is told. Pure.

use super::cut;

/// The longest text of a message that is told, and of one that is answered, bytes.
pub const LONGEST_TEXT: usize = 96 << 10;
pub const LONGEST_ANSWERED: usize = 16 << 10;
/// How many options of a poll are told.
const MOST: usize = 100;
/// The longest piece of a line that others wrote, bytes.
const LONGEST: usize = 4096;

/// A question with its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// One of the options is right.
    pub quiz: bool,
    pub several: bool,
    pub closed: bool,
    pub question: String,
    /// What stands below the question.
    pub about: String,
    /// Each option, and how many chose it.
    pub options: Vec<(String, u64)>,
}

impl Poll {
    /// Returns it as lines.
    #[must_use]
    pub fn words(&self) -> String {
        let kind = if self.quiz { "Quiz" } else { "Poll" };
        let several = if self.several { ", several answers" } else { "" };
        let closed = if self.closed { ", closed" } else { "" };
        let mut words = format!("[{kind}{several}{closed}: {}]", cut(&self.question, LONGEST));
        if !self.about.is_empty() {
            words = format!("{words}\n{}", cut(&self.about, LONGEST));
        }
        for (option, votes) in self.options.iter().take(MOST) {
            let votes = match votes {
                0 => String::new(),
                1 => " (1 vote)".into(),
                votes => format!(" ({votes} votes)"),
            };
            words.push_str(&format!("\n- {}{votes}", cut(option, LONGEST)));
        }
        words
    }
}

/// Returns what is told of a message of a kind that an adapter does not know.
#[must_use]
pub fn unknown(kind: &str) -> String {
    format!("[message of a kind that G2 does not know: {kind}]")
}

/// Returns the line that stands before the words of another one in a message that is answered. `from`: whose they are; empty:
/// the platform does not say.
#[must_use]
pub fn forwarded(from: &str) -> String {
    if from.is_empty() { "[forwarded]".into() } else { format!("[forwarded from {}]", cut(from, LONGEST)) }
}

/// Returns the command of a message that calls the account by its name and says one word more, which begins with a slash:
/// `: /stop` behind the name is `/stop`.
#[must_use]
pub fn command_behind(name_and_on: &str) -> Option<&str> {
    let word = name_and_on.trim_start_matches([':', ',']).trim();
    (word.len() > 1 && word.starts_with('/') && !word.contains(char::is_whitespace)).then_some(word)
}

/// Joins what there is, one below the other.
#[must_use]
pub fn below_one_another(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_told_with_its_options_within_bounds() {
        let poll = Poll {
            several: true,
            closed: true,
            question: "Tea?".into(),
            about: "think".into(),
            options: vec![("Yes".into(), 0), ("No".into(), 1), ("Maybe".into(), 2)],
            ..Poll::default()
        };
        let words = "[Poll, several answers, closed: Tea?]\nthink\n- Yes\n- No (1 vote)\n- Maybe (2 votes)";
        assert_eq!(poll.words(), words);
        let long = "x".repeat(1 << 20);
        let large = Poll { question: long.clone(), options: vec![(long, 7); 200], ..Poll::default() };
        assert!(large.words().len() < 102 * (LONGEST + 20));
    }

    #[test]
    fn a_forward_says_whose_words_it_has_as_far_as_that_is_known() {
        assert_eq!((&forwarded("Eve")[..], &forwarded("")[..]), ("[forwarded from Eve]", "[forwarded]"));
        assert!(forwarded(&"x".repeat(1 << 20)).len() < LONGEST + 20);
    }

    #[test]
    fn a_command_behind_our_name_is_one_word_with_a_slash() {
        for (text, command) in [
            (" /stop", Some("/stop")),
            (": /stop\n", Some("/stop")),
            (", /Stop", Some("/Stop")),
            (" /stop it", None),
            (" stop", None),
            (" /", None),
            ("", None),
        ] {
            assert_eq!(command_behind(text), command, "{text:?}");
        }
    }
}
