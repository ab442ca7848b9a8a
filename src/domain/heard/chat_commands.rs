//! Words by which an owner or an admin has a hand in the work of a chat's agents: `/stop` and `/retry`.

use super::access::Standing;

/// The words, as the settings have them; `None`: there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub stop: Option<String>,
    pub retry: Option<String>,
}

/// What such a word asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// End the work on the conversation now.
    Stop,
    /// Try again what failed last, or rests.
    Retry,
}

impl Word {
    /// Returns what it is called, whichever word the settings have for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Retry => "retry",
        }
    }
}

impl Words {
    /// Returns the word that a message consists of, if its sender may say it.
    #[must_use]
    pub fn of(&self, text: &str, sender: Standing) -> Option<Word> {
        match sender {
            Standing::Owner | Standing::Admin => {}
            Standing::Member | Standing::Unknown => return None,
        }
        let is =
            |word: &Option<String>| word.as_ref().is_some_and(|word| word.eq_ignore_ascii_case(text.trim()));
        if is(&self.stop) {
            Some(Word::Stop)
        } else if is(&self.retry) {
            Some(Word::Retry)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_whole_message_of_an_owner_or_an_admin() {
        let words = Words { stop: Some("/stop".into()), retry: Some("/retry".into()) };
        for (text, sender, expected) in [
            ("/stop", Standing::Owner, Some(Word::Stop)),
            (" /Stop\n", Standing::Admin, Some(Word::Stop)),
            ("/retry", Standing::Owner, Some(Word::Retry)),
            ("/stop", Standing::Member, None),
            ("/retry", Standing::Unknown, None),
            ("/stop it", Standing::Owner, None),
            ("", Standing::Owner, None),
        ] {
            assert_eq!(words.of(text, sender), expected, "{text:?} {sender}");
        }
        assert_eq!(Words::default().of("/stop", Standing::Owner), None);
    }
}
