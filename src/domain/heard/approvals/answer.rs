//! How answers read: typed in a chat, or pressed.
//!
//! A card is answered by the number or the label of one of its choices and by nothing else, so that conversation in
//! the same chat goes on: as a reply to it, with the question's number before it (`#3 1`), or by itself where one card is open
//! in the chat and nothing was said there since. Otherwise it is a message: nothing is guessed.

use super::Choice;

/// A card of a chat, to somebody who may answer it: one that is open, or a closed one that a text names or replies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
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
    /// It is answered, or its time is over.
    Closed,
}

/// What a text is to the cards of its chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// It answers this question with its choice number `choice`, from 0.
    Answer { id: i64, choice: usize },
    /// It answers a question that is not open here.
    Named(i64),
    /// It is a message.
    Message,
}

/// What a text is a reply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InReplyTo {
    /// The card of this question.
    Card(i64),
    /// Something that is no card.
    Other,
}

/// Reads a text. `replied`: what it is a reply to; `None`: nothing.
#[must_use]
pub fn read(text: &str, cards: &[Card], replied: Option<InReplyTo>) -> Typed {
    let text = text.trim();
    let to = |id: i64, text: &str| match cards.iter().find(|card| card.id == id) {
        Some(card) => match choice(text, &card.choices) {
            Some(choice) if card.said != Said::Closed => Typed::Answer { id, choice },
            Some(_) => Typed::Named(id),
            None if card.said == Said::Closed && is_number(text) => Typed::Named(id),
            None => Typed::Message,
        },
        None if is_number(text) => Typed::Named(id),
        None => Typed::Message,
    };
    if let Some((id, rest)) = named(text) {
        return to(id, rest);
    }
    match replied {
        Some(InReplyTo::Card(id)) => return to(id, text),
        Some(InReplyTo::Other) => return Typed::Message,
        None => {}
    }
    let mut said = cards.iter().filter(|card| matches!(card.said, Said::Last | Said::Before));
    match (said.next(), said.next()) {
        (Some(card), None) if card.said == Said::Last => {
            choice(text, &card.choices).map_or(Typed::Message, |choice| Typed::Answer { id: card.id, choice })
        }
        (_, _) => Typed::Message,
    }
}

/// Returns the question that a text names (`#ID REST`).
#[must_use]
pub fn names(text: &str) -> Option<i64> {
    named(text.trim()).map(|(id, _)| id)
}

/// Splits `#ID REST`.
fn named(text: &str) -> Option<(i64, &str)> {
    let (id, rest) = text.strip_prefix('#')?.split_once(char::is_whitespace)?;
    let digits = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    Some((id.parse().ok().filter(|_| digits)?, rest.trim())).filter(|(_, rest)| !rest.is_empty())
}

fn choice(text: &str, choices: &[Choice]) -> Option<usize> {
    one_of(text, choices.iter().map(|choice| &choice.label))
}

/// Finds one of some labels by its number or its words; in any case, where that is one label's alone.
pub(in crate::heard) fn one_of<'a>(
    text: &str,
    mut labels: impl ExactSizeIterator<Item = &'a String> + Clone,
) -> Option<usize> {
    if is_number(text) {
        let short = text.len() <= MOST_DIGITS;
        return text.parse::<usize>().ok()?.checked_sub(1).filter(|n| short && *n < labels.len());
    }
    let exactly = labels.clone().position(|label| label == text);
    let text = text.to_lowercase();
    let mut alike = labels.by_ref().enumerate().filter(|(_, label)| label.to_lowercase() == text);
    exactly.or_else(|| match (alike.next(), alike.next()) {
        (Some((n, _)), None) => Some(n),
        (_, _) => None,
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
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

    fn open(id: i64, labels: &[&str], said: bool) -> Card {
        let choices =
            labels.iter().map(|label| Choice { label: (*label).into(), action: Action::Allow }).collect();
        Card { id, choices, said: if said { Said::Last } else { Said::NotYet } }
    }

    #[test]
    fn a_number_after_which_somebody_spoke_is_a_message_unless_it_says_which_card_it_means() {
        let before = [Card { said: Said::Before, ..open(3, &["Allow", "Deny"], true) }];
        for (text, typed) in [
            ("1", Typed::Message),
            ("deny", Typed::Message),
            ("3", Typed::Message),
            ("#3 1", Typed::Answer { id: 3, choice: 0 }),
        ] {
            assert_eq!(read(text, &before, None), typed, "{text:?}");
        }
        assert_eq!(
            read("1", &before, Some(InReplyTo::Card(3))),
            Typed::Answer { id: 3, choice: 0 },
            "a reply says which"
        );
        let last = [open(3, &["Allow", "Deny"], true)];
        assert_eq!(read("1", &last, Some(InReplyTo::Other)), Typed::Message, "it answers something else");
        assert_eq!(read("1", &last, Some(InReplyTo::Card(2))), Typed::Named(2), "that one is closed");
        assert_eq!(read("hm", &last, Some(InReplyTo::Card(3))), Typed::Message);
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
        for (text, typed) in [
            ("1", Typed::Message),
            ("3", Typed::Message),
            ("allow", Typed::Message),
            ("hello", Typed::Message),
            ("#4 3", Typed::Answer { id: 4, choice: 2 }),
            ("#3 3", Typed::Message),
        ] {
            assert_eq!(read(text, &two, None), typed, "{text:?}");
        }
        assert_eq!(
            read("1", &two, Some(InReplyTo::Card(4))),
            Typed::Answer { id: 4, choice: 0 },
            "a reply says which"
        );
        assert_eq!(
            read("#3 1", &two, Some(InReplyTo::Card(4))),
            Typed::Answer { id: 3, choice: 0 },
            "a name says it louder"
        );
    }

    #[test]
    fn a_closed_card_is_answered_too_late_by_a_reply_or_its_name_and_by_nothing_else() {
        let closed = Card { said: Said::Closed, ..open(3, &["Allow", "Deny"], true) };
        let cards = [closed, open(4, &["Allow", "Deny"], true)];
        let reply = Some(InReplyTo::Card(3));
        for (text, replied, typed) in [
            ("1", reply, Typed::Named(3)),
            ("7", reply, Typed::Named(3)),
            ("allow", reply, Typed::Named(3)),
            ("who was that?", reply, Typed::Message),
            ("#3 1", None, Typed::Named(3)),
            ("#3 Deny", None, Typed::Named(3)),
            ("#3 hm", None, Typed::Message),
            ("1", None, Typed::Answer { id: 4, choice: 0 }),
        ] {
            assert_eq!(read(text, &cards, replied), typed, "{text:?}");
        }
        assert_eq!(read("1", &cards[..1], None), Typed::Message);
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
