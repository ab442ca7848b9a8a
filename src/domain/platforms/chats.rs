//! The kind of a chat: as its channel says, otherwise as its address shows. When an account is asked for its chats.

use ipc_handlers::{Time, words};

words! {
    /// What kind of place a chat is.
    #[derive(schemars::JsonSchema)]
    pub enum ChatKind: "chat kind" {
        /// One person and the agent.
        Direct = "direct",
        Group = "group",
    }
}

/// What a channel knows of the chat of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatInfo {
    /// Empty: it does not say.
    pub name: String,
    pub kind: ChatKind,
    /// Whether the platform divides the chat into threads.
    pub threaded: bool,
    /// How many people are there; `None`: it does not say.
    pub members: Option<u32>,
    /// Whether the account is told all of its messages; `None`: it does not say.
    pub hears_all: Option<bool>,
}

/// The time between two lists of an account's chats that nobody asks for, ms.
const LISTED_EVERY_MS: i64 = 86_400_000;

/// The chats that a platform has told of when it was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// By their address, each once.
    pub chats: Vec<(String, ChatInfo)>,
    /// The number of those that can't be used, or are too many.
    pub passed_over: usize,
}

/// Why there is no list of an account's chats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotListed {
    #[error("this platform has no list of its chats; a chat is known once something is heard of it")]
    Never,
    #[error("there is no connection to the platform")]
    Offline,
    #[error("{0}")]
    Failed(String),
}

/// What came of asking an account for its chats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The number of those that it has told of, of the new ones among them, and of those that are passed over.
    Told {
        chats: usize,
        new: usize,
        passed_over: usize,
    },
    Not(NotListed),
}

/// Whether an account that told of its chats at `last` is to be asked again though nobody wants it. A clock that was ahead then
/// does not keep it from being asked.
#[must_use]
pub fn is_list_due(last: Option<Time>, now: Time) -> bool {
    last.is_none_or(|last| last > now || now.ms_since(last) >= LISTED_EVERY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_asked_once_a_day_whatever_became_of_the_clock() {
        let now = Time(10 * LISTED_EVERY_MS);
        for (last, due) in [
            (None, true),
            (Some(now), false),
            (Some(now.plus_ms(1 - LISTED_EVERY_MS)), false),
            (Some(now.plus_ms(-LISTED_EVERY_MS)), true),
            (Some(now.plus_ms(1)), true),
            (Some(Time(i64::MIN)), true),
        ] {
            assert_eq!(is_list_due(last, now), due, "{last:?}");
        }
    }
}
