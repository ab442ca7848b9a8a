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

impl Origin {
    /// Returns the words of a message that engage an agent in a chat of this kind: its sender's own. Who forwards a text to one
    /// person means it for them, so there it counts too.
    #[must_use]
    pub fn own_words(self, kind: ChatKind, text: &str, comment: &str) -> String {
        match (self, kind) {
            (Self::Forwarded, ChatKind::Group) => comment.to_owned(),
            (Self::Forwarded, ChatKind::Direct) if !comment.is_empty() => format!("{comment}\n{text}"),
            (Self::Forwarded, ChatKind::Direct) | (Self::Written | Self::Edited, _) => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_somebody_else_engage_nobody_in_a_group() {
        for (origin, kind, own) in [
            (Origin::Forwarded, ChatKind::Group, "look"),
            (Origin::Forwarded, ChatKind::Direct, "look\n@G2 pay"),
            (Origin::Written, ChatKind::Group, "@G2 pay"),
            (Origin::Edited, ChatKind::Group, "@G2 pay"),
        ] {
            assert_eq!(origin.own_words(kind, "@G2 pay", "look"), own, "{origin} {kind}");
        }
        assert_eq!(Origin::Forwarded.own_words(ChatKind::Direct, "a", ""), "a");
    }

    #[test]
    fn what_its_sender_wrote_now_answers_and_commands_and_nothing_else_does() {
        for (origin, may) in [(Origin::Written, true), (Origin::Forwarded, false), (Origin::Edited, false)] {
            assert_eq!((origin.no_answer().is_none(), origin.no_command().is_none()), (may, may), "{origin}");
        }
        assert_eq!(Origin::default(), Origin::Written);
    }
}
