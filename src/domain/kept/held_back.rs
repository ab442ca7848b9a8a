//! What a restore holds back: work of before the backup that may be done elsewhere by now, until a person decides.

use ipc_handlers::{Folder, Time, words};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rows::{rfc3339, rfc3339_option};

words! {
    /// The kinds of work that are held back.
    #[derive(JsonSchema)]
    pub enum HeldKind: "kind of held work" {
        /// A text for a chat that was not sent.
        Text = "text",
        /// A message that no agent had answered.
        Message = "message",
    }
}

/// A text or a message that is held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldRow {
    pub kind: HeldKind,
    /// The number of the text in the outbox, or of the message.
    pub id: i64,
    pub chat_jid: String,
    /// Whose agent said it, or was to answer; `None`: the host said it.
    pub group: Option<String>,
    /// When it was said or came.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub at: Time,
    /// Its first 200 characters.
    pub text: String,
}

/// How much is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldCount {
    pub texts: i64,
    pub messages: i64,
}

impl HeldCount {
    /// Whether nothing is.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.texts == 0 && self.messages == 0
    }

    /// Returns it in words.
    #[must_use]
    pub fn words(self) -> String {
        let of = |count: i64, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {more}")),
        };
        let texts = of(self.texts, "text that was unsent", "texts that were unsent");
        let messages = of(self.messages, "message that was unanswered", "messages that were unanswered");
        let all: Vec<String> = texts.into_iter().chain(messages).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    }
}

/// A task whose times until the restore are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PassedOver {
    pub group: Folder,
    pub task: String,
    /// How many times were passed over; one that was under way at the backup is not counted.
    pub count: u64,
    /// There may be more.
    pub at_least: bool,
    /// When it runs next; `None`: it was the last time.
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub next: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_is_counted_in_words() {
        let words = |texts, messages| HeldCount { texts, messages }.words();
        assert_eq!(words(0, 0), "nothing");
        assert_eq!(words(1, 0), "1 text that was unsent");
        assert_eq!(words(2, 1), "2 texts that were unsent, 1 message that was unanswered");
    }
}
