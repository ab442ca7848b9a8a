//! Whose words a message is, as its platform tells. A person who forwards a text did not write it, and one who edits a text changes
//! what stood there when it was read: neither answers a question or gives a command by that.

use ipc_handlers::words;

use crate::platforms::chats::ChatKind;

words! {
    /// How a text came to stand in a chat.
    #[derive(Default)]
    pub enum Origin: "origin of a message" {
        /// Its sender wrote it now.
        #[default]
        Written = "written",
        /// Somebody wrote it elsewhere, and its sender forwarded it.
        Forwarded = "forwarded",
        /// Its sender changed a text of before.
        Edited = "edited",
    }
}

impl Origin {
    /// Returns what its sender is told where it would have answered a question; `None`: it may answer one.
    #[must_use]
    pub fn no_answer(self) -> Option<&'static str> {
        match self {
            Self::Written => None,
            Self::Forwarded => Some("A forwarded message answers no question. Write the answer yourself."),
            Self::Edited => Some("An edited message answers no question. Write the answer as a new message."),
        }
    }

    /// Returns what its sender is told where it would have been a command; `None`: it may be one.
    #[must_use]
    pub fn no_command(self) -> Option<&'static str> {
        match self {
            Self::Written => None,
            Self::Forwarded => Some("A forwarded message is no command. Write the command yourself."),
            Self::Edited => Some("An edited message is no command. Write the command as a new message."),
        }
    }
}

/// Who wrote the text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Sender,
    /// Somebody else: its sender forwarded it. An edit of it changes nothing about that.
    Other,
}

impl Author {
    /// Reads it from the origin of a text and the name of the author whom its sender forwards.
    #[must_use]
    pub const fn of(origin: Origin, forwarded_from: Option<&str>) -> Self {
        match (origin, forwarded_from) {
            (Origin::Forwarded, _) | (_, Some(_)) => Self::Other,
            (Origin::Written | Origin::Edited, None) => Self::Sender,
        }
    }

    /// Returns the words of a message that engage an agent in a chat of this kind: its sender's own. Who forwards a text to one
    /// person means it for them, so there it counts too.
    #[must_use]
    pub fn own_words(self, kind: ChatKind, text: &str, comment: &str) -> String {
        match (self, kind) {
            (Self::Other, ChatKind::Group) => comment.to_owned(),
            (Self::Other, ChatKind::Direct) if !comment.is_empty() => format!("{comment}\n{text}"),
            (Self::Other, ChatKind::Direct) | (Self::Sender, _) => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_somebody_else_engage_nobody_in_a_group() {
        for (author, kind, own) in [
            (Author::Other, ChatKind::Group, "look"),
            (Author::Other, ChatKind::Direct, "look\n@G2 pay"),
            (Author::Sender, ChatKind::Group, "@G2 pay"),
        ] {
            assert_eq!(author.own_words(kind, "@G2 pay", "look"), own, "{author:?} {kind}");
        }
        assert_eq!(Author::Other.own_words(ChatKind::Direct, "a", ""), "a");
    }

    #[test]
    fn a_forward_stays_one_when_it_is_edited() {
        for (origin, from, author) in [
            (Origin::Written, None, Author::Sender),
            (Origin::Edited, None, Author::Sender),
            (Origin::Forwarded, None, Author::Other),
            (Origin::Forwarded, Some(""), Author::Other),
            (Origin::Edited, Some(""), Author::Other),
            (Origin::Written, Some("Eve"), Author::Other),
        ] {
            assert_eq!(Author::of(origin, from), author, "{origin} {from:?}");
        }
    }

    #[test]
    fn what_its_sender_wrote_now_answers_and_commands_and_nothing_else_does() {
        for (origin, may) in [(Origin::Written, true), (Origin::Forwarded, false), (Origin::Edited, false)] {
            assert_eq!((origin.no_answer().is_none(), origin.no_command().is_none()), (may, may), "{origin}");
        }
        assert_eq!(Origin::default(), Origin::Written);
    }
}
