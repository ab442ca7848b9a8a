//! Questions that agents ask the people of a chat (`ask_user`).
//!
//! | state | means |
//! |---|---|
//! | `open` | it may be answered |
//! | `answered` | the first answer that was heard is with the agent |
//! | `expired` | nobody answered in time, and the agent was told; or a backup was restored |
//! | `undeliverable` | its card could not be said, and the agent was told |
//!
//! This module decides the text of the card and which message answers it. An answer is a message like any other: whether its author is
//! heard is decided as ever, and a message of somebody who is not heard leaves the question open.

use std::fmt::Write as _;

use ipc_handlers::words;
use serde::Serialize;

use super::approvals::answer::{InReplyTo, Said, one_of};

/// The most questions of one group that are open at a time.
pub const OPEN: usize = 20;
/// The newest closed questions of one group that are kept.
pub const KEPT: usize = 200;
/// How much of an answer is kept beside its question, characters; the message has all of it.
pub const ANSWER: usize = 200;

words! {
    /// How a question of an agent stands.
    #[derive(schemars::JsonSchema)]
    pub enum QuestionState: "state of an agent's question" {
        /// It may be answered.
        Open = "open",
        /// The first answer that was heard is with the agent.
        Answered = "answered",
        /// Nobody answered in time, and the agent was told; or a backup was restored.
        Expired = "expired",
        /// Its card could not be said, and the agent was told.
        Undeliverable = "undeliverable",
    }
}

/// A question, as people are shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Question {
    pub id: i64,
    /// The group whose agent asks.
    #[serde(rename = "group")]
    #[schemars(with = "String")]
    pub group_folder: String,
    pub chat_jid: String,
    pub thread: String,
    /// The run that asked; `None`: a command that was written by hand.
    pub run: Option<i64>,
    pub state: QuestionState,
    pub question: String,
    pub options: Vec<String>,
    /// The row of the outbox that said it.
    pub card: Option<i64>,
    #[serde(serialize_with = "crate::rows::rfc3339")]
    #[schemars(with = "String")]
    pub asked_at: ipc_handlers::Time,
    #[serde(serialize_with = "crate::rows::rfc3339")]
    #[schemars(with = "String")]
    pub expires_at: ipc_handlers::Time,
    /// The beginning of the answer, its message, and the name of its author.
    pub answer: Option<String>,
    pub message: Option<i64>,
    pub answered_by: Option<String>,
}

/// Returns the text of a card, in the agent's marks.
#[must_use]
pub fn card(id: i64, question: &str, options: &[String]) -> String {
    let mut text = question.to_owned();
    for (n, option) in options.iter().enumerate() {
        let before = if n == 0 { "\n" } else { "" };
        let _ = write!(text, "{before}\n{}. {}", n + 1, unmarked(option));
    }
    text.push_str(match options {
        [] => "\n\nReply to this in your own words",
        _ => "\n\nAnswer with a number, or reply to this in your own words",
    });
    let _ = write!(text, " (question #q{id}).");
    text
}

/// Returns the text of a card whose question is over.
#[must_use]
pub fn closed(card: &str, outcome: &str) -> String {
    let (first, rest) = outcome.split_at(outcome.chars().next().map_or(0, char::len_utf8));
    format!("{card}\n\n{}.", unmarked(&format!("{}{rest}", first.to_uppercase())))
}

/// Returns what an agent is shown of a question beside an answer.
#[must_use]
pub fn quote(question: &str, options: &[String]) -> String {
    let mut text = question.to_owned();
    for (n, option) in options.iter().enumerate() {
        let _ = write!(text, "\n{}. {option}", n + 1);
    }
    text
}

/// Returns words, in which nothing is a mark, as a text in marks.
fn unmarked(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    // What stands at the beginning, or behind a number there, begins a list.
    let mut begins = true;
    for c in words.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '~' | '[' | ']' | '<' | '>' | '|' | '&' | '#')
            || begins && matches!(c, '-' | '+' | '.' | ')')
        {
            text.push('\\');
        }
        begins &= c.is_ascii_digit();
        text.push(c);
    }
    text
}

/// An open question of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub id: i64,
    pub options: Vec<String>,
    pub said: Said,
}

/// Returns the question that a text answers. `replied`: what it is a reply to; `None`: nothing. It names it (`#q3 2`), replies to its card, or follows the only card: then one of its
/// answers counts, and where `is_direct`, in a chat with one person, any words do.
#[must_use]
pub fn answers(text: &str, open: &[Open], replied: Option<InReplyTo>, is_direct: bool) -> Option<i64> {
    let is_open = |id: i64| open.iter().any(|question| question.id == id).then_some(id);
    if text.trim().is_empty() {
        return None;
    }
    if let Some((id, _)) = named(text) {
        return is_open(id);
    }
    match replied {
        Some(InReplyTo::Card(id)) => return is_open(id),
        Some(InReplyTo::Other) => return None,
        None => {}
    }
    let mut said = open.iter().filter(|question| matches!(question.said, Said::Last | Said::Before));
    match (said.next(), said.next()) {
        (Some(only), None) if only.said == Said::Last => {
            (is_direct || one_of(text.trim(), only.options.iter()).is_some()).then_some(only.id)
        }
        (_, _) => None,
    }
}

/// Returns the answer that a text gives to a question with these options, in a line: one of them, or its own words.
#[must_use]
pub fn given(text: &str, options: &[String]) -> String {
    let text = named(text).map_or(text, |(_, rest)| rest).trim();
    let words = || text.split_whitespace().collect::<Vec<_>>().join(" ");
    let answer = one_of(text, options.iter()).and_then(|n| options.get(n).cloned()).unwrap_or_else(words);
    match answer.char_indices().nth(ANSWER) {
        Some((at, _)) => format!("{}…", &answer[..at]),
        None => answer,
    }
}

/// Splits `#qID REST`.
fn named(text: &str) -> Option<(i64, &str)> {
    let (id, rest) = text.trim().strip_prefix("#q")?.split_once(char::is_whitespace)?;
    let is_number = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    Some((id.parse().ok().filter(|_| is_number)?, rest.trim())).filter(|(_, rest)| !rest.is_empty())
}

/// Returns what a channel hands back when a button is pressed.
#[must_use]
pub fn press(id: i64, option: usize) -> String {
    format!("q{id}:{}", option + 1)
}

/// Reads what [`press`] returned: the question, and the number of its option, from 0.
#[must_use]
pub fn pressed(text: &str) -> Option<(i64, usize)> {
    let (id, option) = text.strip_prefix('q')?.split_once(':')?;
    Some((id.parse().ok()?, option.parse::<usize>().ok()?.checked_sub(1)?))
}

/// Why the agent gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered<'a> {
    Expired,
    /// The card could not be said.
    NotSaid(&'a str),
}

/// Returns what an agent is told about a question that is over without an answer.
#[must_use]
pub fn told(id: i64, question: &str, why: Unanswered<'_>) -> String {
    let first: String = question.chars().take(ANSWER).collect();
    let more = if first.len() < question.len() { "…" } else { "" };
    match why {
        Unanswered::Expired => format!("Nobody answered your question #q{id} in time: “{first}{more}”"),
        Unanswered::NotSaid(why) => {
            let why: String = why.chars().take(ANSWER).collect();
            format!("Your question #q{id} could not be asked ({why}): “{first}{more}”")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(id: i64, options: &[&str], said: Said) -> Open {
        Open { id, options: options.iter().map(|option| (*option).to_owned()).collect(), said }
    }

    #[test]
    fn a_card_lists_its_options_and_says_how_to_answer() {
        let options = ["Ibis".to_owned(), "Hilton".to_owned()];
        assert_eq!(
            card(3, "Which hotel?", &options),
            "Which hotel?\n\n1. Ibis\n2. Hilton\n\nAnswer with a number, or reply to this in your own words (question #q3)."
        );
        assert_eq!(card(4, "Size?", &[]), "Size?\n\nReply to this in your own words (question #q4).");
        // What people wrote has no marks.
        assert!(card(4, "Which?", &["*a*".to_owned()]).contains("\n1. \\*a\\*\n"));
        for option in [
            "3-star",
            "- none",
            "1. the first",
            "2) b",
            "# x",
            "a_b_c",
            "<b>",
            "[x](y)",
            "&amp;",
            "~~x~~",
            "`x`",
            "+1",
        ] {
            let text = card(4, "Which?", &[option.to_owned()]);
            let words =
                g2_text::parts_of(&g2_text::parse(&text), Default::default(), 4_096, Default::default());
            assert!(words[0].text.contains(&format!("1. {option}\n")), "{option}: {words:?}");
        }
        assert_eq!(closed("Which?", "answered by Bob_: *x*"), "Which?\n\nAnswered by Bob\\_: \\*x\\*.");
    }

    #[test]
    fn what_answers_a_question_and_what_is_just_talk() {
        let (card, other) = (|id| Some(InReplyTo::Card(id)), Some(InReplyTo::Other));
        let hotel = |said| vec![open(3, &["Ibis", "Hilton"], said)];
        let two = vec![open(3, &["Ibis"], Said::Last), open(4, &["Ibis"], Said::Last)];
        // The text, the open questions, what it replies to; what it answers in a group, and in a chat with one person.
        let table = [
            ("2", hotel(Said::Last), None, Some(3), Some(3)),
            (" hilton ", hotel(Said::Last), None, Some(3), Some(3)),
            ("the cheap one", hotel(Said::Last), None, None, Some(3)),
            ("7", hotel(Said::Last), None, None, Some(3)),
            ("2", hotel(Said::Before), None, None, None),
            ("2", hotel(Said::NotYet), None, None, None),
            ("2", hotel(Said::Last), other, None, None),
            ("the cheap one", hotel(Said::Before), card(3), Some(3), Some(3)),
            ("the cheap one", hotel(Said::Before), card(9), None, None),
            ("#q3 2", hotel(Said::Before), None, Some(3), Some(3)),
            ("#q3 the cheap one", hotel(Said::NotYet), other, Some(3), Some(3)),
            ("#q9 2", hotel(Said::Last), None, None, None),
            ("#q3", hotel(Said::Before), None, None, None),
            ("#q+3 1", hotel(Said::Before), None, None, None),
            ("#q99999999999999999999 1", hotel(Said::Before), None, None, None),
            ("1", two.clone(), None, None, None),
            ("#q4 1", two, None, Some(4), Some(4)),
            ("1", Vec::new(), None, None, None),
            (" ", hotel(Said::Last), card(3), None, None),
        ];
        for (text, open, replied, group, direct) in table {
            assert_eq!(answers(text, &open, replied, false), group, "{text:?} {replied:?}");
            assert_eq!(answers(text, &open, replied, true), direct, "{text:?} {replied:?}, direct");
        }
    }

    #[test]
    fn an_answer_is_its_option_or_its_own_words_in_a_line() {
        let options = ["Ibis".to_owned(), "Hilton".to_owned()];
        for (text, answer) in [
            ("2", "Hilton"),
            ("#q3 1", "Ibis"),
            ("HILTON", "Hilton"),
            ("the cheap\n one", "the cheap one"),
            ("#q3 none of them", "none of them"),
            ("3", "3"),
        ] {
            assert_eq!(given(text, &options), answer, "{text:?}");
        }
        assert_eq!(given(&"é".repeat(5_000), &options).chars().count(), ANSWER + 1);
    }

    #[test]
    fn a_press_is_read_back_and_no_other_one() {
        for (id, option) in [(1, 0), (i64::MAX, 9)] {
            assert!(press(id, option).len() <= 64);
            assert_eq!(pressed(&press(id, option)), Some((id, option)));
        }
        for other in ["", "q", "q1", "1:1", "q1:0", "q:1", "qx:1", "q1:x"] {
            assert_eq!(pressed(other), None, "{other:?}");
        }
        assert_eq!(super::super::approvals::answer::pressed(&press(1, 0)), None, "no card of ours");
    }

    #[test]
    fn the_agent_is_told_which_question_is_over_and_why() {
        assert_eq!(
            told(3, "Which?", Unanswered::Expired),
            "Nobody answered your question #q3 in time: “Which?”"
        );
        let long = told(3, &"x".repeat(2_000), Unanswered::NotSaid("the chat is gone"));
        assert!(long.starts_with("Your question #q3 could not be asked (the chat is gone): “xx"), "{long}");
        assert!(long.ends_with("…”") && long.chars().count() < 300, "{long}");
    }
}
