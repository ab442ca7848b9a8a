//! How answers read: typed in a chat, or pressed.
//!
//! A card is answered by the number or the label of one of its choices and by nothing else, so that conversation in
//! the same chat goes on: as a reply to it, with the question's number before it (`#3 1`), or by itself where one card is open
//! in the chat and nothing was said there since. Otherwise nothing is guessed.

use super::Choice;

/// A card that is open in a chat, to somebody who may answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub id: i64,
    pub choices: Vec<Choice>,
    pub said: Said,
}

/// How a card stands in its chat when something is typed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It was not said before the answer was typed: only who names it can mean it.
    NotYet,
    /// It was said, and nothing there since.
    Last,
    /// It was said, and somebody spoke there since.
    Before,
}

/// What a text is to the cards of its chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// It answers this question with its choice number `choice`, from 0.
    Answer { id: i64, choice: usize },
    /// It would answer several: these.
    Unclear(Vec<i64>),
    /// It names a question that is not open here.
    Named(i64),
    /// It is a message.
    Message,
}

/// What a text is a reply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InReplyTo {
    /// The card of this question.
    Wording(i64),
    /// Something that is no card.
    Other,
}

/// Reads a text. `replied`: what it is a reply to; `None`: nothing.
#[must_use]
pub fn read(text: &str, open: &[Open], replied: Option<InReplyTo>) -> Typed {
    let text = text.trim();
    if let Some((id, rest)) = named(text) {
        return match open.iter().find(|card| card.id == id) {
            Some(card) => {
                choice(rest, &card.choices).map_or(Typed::Message, |choice| Typed::Answer { id, choice })
            }
            None if rest.bytes().all(|b| b.is_ascii_digit()) => Typed::Named(id),
            None => Typed::Message,
        };
    }
    let fits = |card: &&Open| choice(text, &card.choices).is_some();
    match replied {
        Some(InReplyTo::Wording(id)) => {
            let answered = open.iter().find(|card| card.id == id).map(|card| choice(text, &card.choices));
            return match answered {
                Some(Some(choice)) => Typed::Answer { id, choice },
                None if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => Typed::Named(id),
                Some(None) | None => Typed::Message,
            };
        }
        Some(InReplyTo::Other) => return Typed::Message,
        None => {}
    }
    let said: Vec<&Open> = open.iter().filter(|card| card.said != Said::NotYet).collect();
    match said.as_slice() {
        [card] => match choice(text, &card.choices) {
            Some(choice) if card.said == Said::Last => Typed::Answer { id: card.id, choice },
            Some(_) | None => Typed::Message,
        },
        several if several.iter().any(fits) => Typed::Unclear(several.iter().map(|card| card.id).collect()),
        _ => Typed::Message,
    }
}

/// Splits `#ID REST`.
fn named(text: &str) -> Option<(i64, &str)> {
    let (id, rest) = text.strip_prefix('#')?.split_once(char::is_whitespace)?;
    let digits = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    Some((id.parse().ok().filter(|_| digits)?, rest.trim())).filter(|(_, rest)| !rest.is_empty())
}

/// Finds a choice by its number or its label; in any case, where that is one choice's alone.
fn choice(text: &str, choices: &[Choice]) -> Option<usize> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let short = text.len() <= MOST_DIGITS;
        return text.parse::<usize>().ok()?.checked_sub(1).filter(|n| short && *n < choices.len());
    }
    let exactly = choices.iter().position(|choice| choice.label == text);
    let text = text.to_lowercase();
    let mut alike = choices.iter().enumerate().filter(|(_, choice)| choice.label.to_lowercase() == text);
    exactly.or_else(|| match (alike.next(), alike.next()) {
        (Some((n, _)), None) => Some(n),
        (_, _) => None,
    })
}

/// A longer number is none of a card's.
const MOST_DIGITS: usize = 6;

/// Returns what a channel hands back when a button is pressed: short, as platforms bound it to 64 bytes.
#[must_use]
pub fn press(id: i64, choice: usize) -> String {
    format!("{id}:{}", choice + 1)
}

/// Reads what [`press`] returned: the question, and the number of its choice, from 0.
#[must_use]
pub fn pressed(text: &str) -> Option<(i64, usize)> {
    let (id, choice) = text.split_once(':')?;
    Some((id.parse().ok()?, choice.parse::<usize>().ok()?.checked_sub(1)?))
}

#[cfg(test)]
mod tests {
    use super::{super::Action, *};

    fn open(id: i64, labels: &[&str], said: bool) -> Open {
        let choices =
            labels.iter().map(|label| Choice { label: (*label).into(), action: Action::Allow }).collect();
        Open { id, choices, said: if said { Said::Last } else { Said::NotYet } }
    }

    #[test]
    fn a_number_after_which_somebody_spoke_is_a_message_unless_it_says_which_card_it_means() {
        let before = [Open { said: Said::Before, ..open(3, &["Allow", "Deny"], true) }];
        for (text, typed) in [
            ("1", Typed::Message),
            ("deny", Typed::Message),
            ("3", Typed::Message),
            ("#3 1", Typed::Answer { id: 3, choice: 0 }),
        ] {
            assert_eq!(read(text, &before, None), typed, "{text:?}");
        }
        assert_eq!(
            read("1", &before, Some(InReplyTo::Wording(3))),
            Typed::Answer { id: 3, choice: 0 },
            "a reply says which"
        );
        let last = [open(3, &["Allow", "Deny"], true)];
        assert_eq!(read("1", &last, Some(InReplyTo::Other)), Typed::Message, "it answers something else");
        assert_eq!(read("1", &last, Some(InReplyTo::Wording(2))), Typed::Named(2), "that one is closed");
        assert_eq!(read("hm", &last, Some(InReplyTo::Wording(3))), Typed::Message);
    }

    #[test]
    fn a_label_in_another_case_counts_where_it_is_one_choice_s_alone() {
        let two = [open(3, &["Connect to Main", "Connect to main", "Ignore"], true)];
        for (text, choice) in [("Connect to Main", 0), ("Connect to main", 1), ("ignore", 2)] {
            assert_eq!(read(text, &two, None), Typed::Answer { id: 3, choice }, "{text}");
        }
        assert_eq!(read("CONNECT TO MAIN", &two, None), Typed::Message);
        assert_eq!(read(&format!("{}1", "0".repeat(100)), &two, None), Typed::Message);
    }

    #[test]
    fn one_open_card_is_answered_by_a_number_or_a_label_and_by_nothing_else() {
        let one = [open(3, &["Allow", "Deny"], true)];
        let answer = |choice| Typed::Answer { id: 3, choice };
        let table = [
            ("1", answer(0)),
            (" 2\n", answer(1)),
            ("allow", answer(0)),
            ("DENY", answer(1)),
            ("#3 1", answer(0)),
            ("#3  deny", answer(1)),
            ("02", answer(1)),
            ("0", Typed::Message),
            ("3", Typed::Message),
            ("99999999999999999999999", Typed::Message),
            ("-1", Typed::Message),
            ("+1", Typed::Message),
            ("1.", Typed::Message),
            ("1 please", Typed::Message),
            ("allow him", Typed::Message),
            ("", Typed::Message),
            ("#3", Typed::Message),
            ("#3 ", Typed::Message),
            ("#3 7", Typed::Message),
            ("#3 what is this", Typed::Message),
            ("#4 1", Typed::Named(4)),
            ("#4 hello", Typed::Message),
            ("#x 1", Typed::Message),
            ("١", Typed::Message),
        ];
        for (text, typed) in table {
            assert_eq!(read(text, &one, None), typed, "{text:?}");
        }
        assert_eq!(read("1", &[], None), Typed::Message);
    }

    #[test]
    fn of_several_open_cards_none_is_guessed() {
        let two = [open(3, &["Allow", "Deny"], true), open(4, &["a", "b", "c"], true)];
        let unclear = Typed::Unclear(vec![3, 4]);
        for (text, typed) in [
            ("1", unclear.clone()),
            ("3", unclear.clone()),
            ("allow", unclear),
            ("4", Typed::Message),
            ("hello", Typed::Message),
            ("#4 3", Typed::Answer { id: 4, choice: 2 }),
            ("#3 3", Typed::Message),
        ] {
            assert_eq!(read(text, &two, None), typed, "{text:?}");
        }
        assert_eq!(
            read("1", &two, Some(InReplyTo::Wording(4))),
            Typed::Answer { id: 4, choice: 0 },
            "a reply says which"
        );
        assert_eq!(
            read("#3 1", &two, Some(InReplyTo::Wording(4))),
            Typed::Answer { id: 3, choice: 0 },
            "a name says it louder"
        );
    }

    #[test]
    fn a_number_typed_before_the_card_was_there_is_no_answer_to_it() {
        let unsaid = [open(3, &["Allow", "Deny"], false)];
        assert_eq!(read("1", &unsaid, None), Typed::Message);
        assert_eq!(read("#3 1", &unsaid, None), Typed::Answer { id: 3, choice: 0 });
        let both = [open(3, &["Allow", "Deny"], true), open(4, &["Allow", "Deny"], false)];
        assert_eq!(read("1", &both, None), Typed::Answer { id: 3, choice: 0 });
    }

    #[test]
    fn a_button_says_its_question_and_its_choice_in_few_bytes() {
        assert_eq!(pressed(&press(12, 0)), Some((12, 0)));
        assert!(press(i64::MAX, 999).len() <= 64);
        for bad in ["", "1", "1:", ":1", "1:0", "a:1", "1:-1"] {
            assert_eq!(pressed(bad), None, "{bad:?}");
        }
    }
}
