//! What a platform can do, what it is given, and what becomes of it.

use std::time::Duration;

use ipc_handlers::words;

use crate::domain::{
    rows::{Delivery, UnknownDeliveries},
    runs::retry,
};

/// In what a platform counts the length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Chars,
    /// UTF-16 code units.
    Utf16,
}

impl Unit {
    /// Returns how long a text is.
    #[must_use]
    pub fn length(self, text: &str) -> usize {
        match self {
            Self::Bytes => text.len(),
            Self::Chars => text.chars().count(),
            Self::Utf16 => text.encode_utf16().count(),
        }
    }
}

/// How a platform writes bold text, code and links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markup {
    /// It shows text as it is.
    #[default]
    Plain,
    Markdown,
}

/// What a platform can do; by default nothing but to take a text of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It recognises our id of a part that it was given before, so that sending again is harmless.
    pub knows_our_ids: bool,
    pub buttons: bool,
    pub typing: bool,
    pub edits: bool,
    pub threads: bool,
    /// The longest text that it takes at once; `None`: it takes any.
    pub longest_text: Option<(usize, Unit)>,
    /// The largest file that it takes, bytes; 0: none.
    pub largest_file: u64,
    pub markup: Markup,
}

/// A part of something to say: all that a platform takes at once.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it is a part of.
    pub of: &'a Delivery,
    /// Which one, from 1.
    pub n: u32,
    pub text: &'a str,
    /// Whether it is the last one: what goes with the whole, such as buttons, goes with this.
    pub last: bool,
}

impl Part<'_> {
    /// Returns our id of it: the same each time it is sent, and no other part's.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}.{}", self.of.id, self.n)
    }
}

/// Why a platform did not take something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// It wants to be left alone for so long.
    #[error("the platform asks to wait {} s", .0.as_secs())]
    RetryAfter(Duration),
    /// It certainly has nothing of it, and trying again may help.
    #[error("{0}")]
    Transient(String),
    /// It never will take it.
    #[error("{0}")]
    Permanent(String),
    /// It may have it, or not.
    #[error("{0}")]
    Unknown(String),
}

/// The reaction to a part that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is sent again after `after_ms`. `counts`: this was one of its tries.
    Again { after_ms: i64, counts: bool },
    /// The same, and until then it is shown that it may have arrived.
    AgainUnknown { after_ms: i64 },
    /// It is given up.
    GiveUp,
}

/// A part that fails so often is given up.
pub const TRIES: u32 = 8;
/// However long a platform asks to be left alone, it is asked again then, ms.
pub const LONGEST_WAIT_MS: i64 = 3_600_000;

/// Decides the reaction to a part that was not taken, after `tries` other tries.
#[must_use]
pub fn after(unsent: &Unsent, tries: u32, knows_our_ids: bool, unknown: UnknownDeliveries) -> Then {
    let again = tries.saturating_add(1) < TRIES;
    let after_ms = retry::delivery_rest_ms(tries);
    match unsent {
        Unsent::RetryAfter(wait) => {
            let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).clamp(1, LONGEST_WAIT_MS);
            Then::Again { after_ms: wait, counts: false }
        }
        Unsent::Transient(_) if again => Then::Again { after_ms, counts: true },
        Unsent::Unknown(_) if again && knows_our_ids => Then::Again { after_ms, counts: true },
        Unsent::Unknown(_) if again && unknown == UnknownDeliveries::Resend => {
            Then::AgainUnknown { after_ms }
        }
        Unsent::Transient(_) | Unsent::Unknown(_) | Unsent::Permanent(_) => Then::GiveUp,
    }
}

words! {
    /// Whether a platform is connected.
    pub enum Connection: "connection state" {
        /// It is being connected to.
        Connecting = "connecting",
        Connected = "connected",
        /// It can't be reached; that is tried again.
        Offline = "offline",
        /// It turned us away: a person has to do something.
        Refused = "refused",
    }
}

words! {
    /// What somebody did to a message afterwards.
    pub enum MarkKind: "mark" {
        Deleted = "deleted",
        Reaction = "reaction",
        ReactionGone = "reaction_gone",
    }
}

/// Something that was done to a message afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub chat_jid: String,
    /// What tells the event from every other of its chat.
    pub replay_key: String,
    /// The platform's id of the message.
    pub message_id: String,
    pub sender: String,
    pub kind: MarkKind,
    /// The reaction itself; empty where the message was deleted.
    pub reaction: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_sent_again_as_long_as_that_is_harmless_or_wished_for() {
        use UnknownDeliveries::{Leave, Resend};
        let (busy, away) = (Unsent::RetryAfter(Duration::from_secs(490)), Unsent::Transient("away".into()));
        let (never, lost) = (Unsent::Permanent("no".into()), Unsent::Unknown("lost".into()));
        let table = [
            (&busy, 7, false, Leave, Then::Again { after_ms: 490_000, counts: false }),
            (&away, 0, false, Leave, Then::Again { after_ms: 1000, counts: true }),
            (&away, 6, false, Leave, Then::Again { after_ms: 64_000, counts: true }),
            (&away, 7, true, Resend, Then::GiveUp),
            (&never, 0, true, Resend, Then::GiveUp),
            (&lost, 0, true, Leave, Then::Again { after_ms: 1000, counts: true }),
            (&lost, 0, false, Resend, Then::AgainUnknown { after_ms: 1000 }),
            (&lost, 7, false, Resend, Then::GiveUp),
            (&lost, 0, false, Leave, Then::GiveUp),
        ];
        for (unsent, tries, knows, unknown, then) in table {
            assert_eq!(after(unsent, tries, knows, unknown), then, "{unsent:?} {tries} {knows} {unknown:?}");
        }
        let for_ever = Unsent::RetryAfter(Duration::MAX);
        assert_eq!(
            after(&for_ever, 0, true, Leave),
            Then::Again { after_ms: LONGEST_WAIT_MS, counts: false }
        );
    }
}
