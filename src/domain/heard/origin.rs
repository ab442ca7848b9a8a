//! Whose words a message is, as its platform tells. A person who forwards a text did not write it, and one who edits a text changes
//! what stood there when it was read: neither answers a question or gives a command by that.

use ipc_handlers::words;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_sender_wrote_now_answers_and_commands_and_nothing_else_does() {
        for (origin, may) in [(Origin::Written, true), (Origin::Forwarded, false), (Origin::Edited, false)] {
            assert_eq!((origin.no_answer().is_none(), origin.no_command().is_none()), (may, may), "{origin}");
        }
        assert_eq!(Origin::default(), Origin::Written);
    }
}
