//! What of ours on platforms is to be changed there: a reaction to a message that an agent has in hand, the card of a question.

use super::channels::{Change, Traits, parts};

/// Something that is to be changed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amend {
    pub chat_jid: String,
    pub what: What,
}

/// A change of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An agent has a message in hand: it gets a reaction, and a row.
    Put { batch: i64, message_id: String, sign: String },
    /// The agent has finished with it: the reaction goes. `sign_id`: what the platform calls it; `None`: it has no name for it, or
    /// nobody knows that.
    TakeAway { row: i64, message_id: String, sign_id: Option<String> },
    /// The question of a card is closed. `ids`: what the platform calls the parts of the card; none: it was never said. Both texts are
    /// in the agent's marks, or in none.
    Close { row: i64, ids: Vec<String>, card: String, closed: String, is_markdown: bool },
}

impl What {
    /// Returns the messages that are changed, and how; none: there is nothing to change, or the platform can't.
    #[must_use]
    pub fn changes(&self, traits: &Traits) -> Vec<(&str, Change)> {
        match self {
            Self::Put { message_id, sign, .. } if traits.reacts => {
                vec![(message_id, Change::Reaction(sign.clone()))]
            }
            Self::Put { .. } => Vec::new(),
            // A reaction with a name is a message of its own.
            Self::TakeAway { sign_id: Some(id), .. } => vec![(id, Change::Deleted)],
            Self::TakeAway { message_id, sign_id: None, .. } => {
                vec![(message_id, Change::Reaction(String::new()))]
            }
            Self::Close { ids, card, closed, is_markdown, .. } => {
                let Some(limit) = traits.text.filter(|_| traits.edits) else { return Vec::new() };
                let [shown, closed] = [card, closed].map(|text| parts(text, *is_markdown, limit));
                let now = ids.iter().zip(closed).enumerate();
                // The last one has the buttons, which go.
                now.filter(|(n, (_, text))| n + 1 == ids.len() || shown.get(*n) != Some(text))
                    .map(|(_, (id, text))| (id.as_str(), Change::Text(text)))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platforms::channels::TextLimit;

    #[test]
    fn a_reaction_with_a_name_is_deleted_and_one_without_is_taken_back() {
        let goes = |sign_id: Option<&str>| What::TakeAway {
            row: 1,
            message_id: "$m".into(),
            sign_id: sign_id.map(Into::into),
        };
        let traits = Traits::default();
        assert_eq!(goes(Some("$r")).changes(&traits), [("$r", Change::Deleted)]);
        assert_eq!(goes(None).changes(&traits), [("$m", Change::Reaction(String::new()))]);
    }

    #[test]
    fn of_a_card_the_parts_are_changed_that_differ_and_the_last_one() {
        let card = What::Close {
            row: 1,
            ids: vec!["a".into(), "b".into()],
            card: format!("{} {}", "one".repeat(300), "two".repeat(100)),
            closed: format!("{} {}\n\nNo.", "one".repeat(300), "two".repeat(100)),
            is_markdown: false,
        };
        let traits = |max, edits| {
            let text = Some(TextLimit { max, ..TextLimit::default() });
            Traits { edits, text, ..Traits::default() }
        };
        let changed = |max| -> Vec<String> {
            let changes = card.changes(&traits(max, true));
            changes.into_iter().map(|(id, change)| format!("{id} {change:?}")).collect()
        };
        assert_eq!(changed(1_000).len(), 1, "{:?}", changed(1_000));
        assert!(changed(1_000)[0].starts_with("b "), "{:?}", changed(1_000));
        assert!(card.changes(&traits(1_000, false)).is_empty());
    }
}
