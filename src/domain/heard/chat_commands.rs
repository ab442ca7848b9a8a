//! Words by which people have a hand in the work of a chat's agents: `/stop`, `/status` and the like. Who may say which, and in
//! [`told`] what they are answered.

use ipc_handlers::words;

use super::access::{Listed, Standing};

pub mod told;

words! {
    /// What a word asks for, in the order in which people are shown them.
    pub enum Word: "word" {
        /// Which words there are.
        Help = "help",
        /// Whether an agent is at work, and what waits.
        Status = "status",
        /// Begin a new session in this chat, or this thread of it.
        New = "new",
        /// Which model is used; with a name: use that one.
        Model = "model",
        /// End the work on the conversation now.
        Stop = "stop",
        /// Try again what failed last, or rests.
        Retry = "retry",
        /// Which tasks the group has.
        Tasks = "tasks",
        /// What became of a message.
        Why = "why",
        /// What the group has used today, and its budget.
        Usage = "usage",
    }
}

words! {
    /// Who may say the words of a group's chats.
    #[derive(Default)]
    pub enum Commands: "who may give commands" {
        /// Owners and admins.
        #[default]
        Owners = "owners",
        /// Members, too, but for the model.
        Members = "members",
    }
}

/// The longest name behind a word, bytes.
const LONGEST_NAME: usize = 256;
/// The longest word that platforms list, characters.
const LONGEST_LISTED: usize = 32;

/// The words, as the settings have them. A word with two meanings has the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<(Word, String)>);

/// A word that somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub word: Word,
    /// As it was spelled in the settings.
    pub spelled: String,
    /// What stands behind it.
    pub name: Option<String>,
}

/// Whether somebody may say a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    Yes,
    /// They are told that they may not.
    Refused,
    /// It is no word of theirs, and their text a message like any.
    No,
}

impl May {
    /// Whether the text of somebody is a word at all, and no message like any: where they may say it, or are to be told that they may
    /// not. `written`: its sender wrote it now. `wakes`: whether it wakes the agent as it is.
    #[must_use]
    pub fn is_word(
        self,
        sender: Standing,
        listed: Listed,
        written: bool,
        wakes: impl FnOnce() -> bool,
    ) -> bool {
        match (self, sender) {
            (Self::No, _) => false,
            (Self::Yes, Standing::Owner | Standing::Admin) => true,
            (Self::Yes, Standing::Member | Standing::Unknown) => listed == Listed::Allowed,
            (Self::Refused, _) => listed == Listed::Allowed && written && wakes(),
        }
    }
}

impl Word {
    /// Returns what it does, in a few words for a list of at most 100 characters.
    #[must_use]
    pub const fn does(self) -> &'static str {
        match self {
            Self::Help => "the words that work in this chat",
            Self::Status => "whether I am at work, and what waits",
            Self::New => "begin a new session in this chat",
            Self::Model => "the model in use; with a name: use that one",
            Self::Stop => "stop the work on this conversation",
            Self::Retry => "try again what failed",
            Self::Tasks => "the tasks of this group for this chat",
            Self::Why => "what became of your last message, or of the one that you reply to",
            Self::Usage => "what was used today, and the budget",
        }
    }

    /// Whether a name may stand behind it.
    #[must_use]
    pub const fn takes_name(self) -> bool {
        match self {
            Self::Model => true,
            Self::Help
            | Self::Status
            | Self::New
            | Self::Stop
            | Self::Retry
            | Self::Tasks
            | Self::Why
            | Self::Usage => false,
        }
    }

    /// Whether somebody may say it in a chat of a group that wants `commands`.
    #[must_use]
    pub const fn may(self, sender: Standing, commands: Commands) -> May {
        match (sender, commands, self) {
            (Standing::Owner | Standing::Admin, _, _) => May::Yes,
            (Standing::Member, Commands::Owners, _) | (Standing::Member, Commands::Members, Self::Model) => {
                May::Refused
            }
            (Standing::Member, Commands::Members, _) => May::Yes,
            (Standing::Unknown, _, _) => May::No,
        }
    }
}

impl Words {
    /// Takes the words of the settings; `None`: there is none.
    #[must_use]
    pub fn new(words: impl IntoIterator<Item = (Word, Option<String>)>) -> Self {
        let mut all = Self::default();
        for (word, spelled) in words {
            let spelled = spelled.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
            if let Some(spelled) = spelled
                && all.0.iter().all(|(_, known)| !known.eq_ignore_ascii_case(&spelled))
            {
                all.0.push((word, spelled));
            }
        }
        all.0.sort_by_key(|(word, _)| *word);
        all
    }

    /// Returns the word that a message consists of, with the name behind it.
    #[must_use]
    pub fn of(&self, text: &str) -> Option<Asked> {
        let text = text.trim();
        self.0.iter().find_map(|(word, spelled)| {
            let rest = behind(text, spelled)?;
            let name = match rest.trim() {
                "" => None,
                name if word.takes_name()
                    && name.len() <= LONGEST_NAME
                    && !name.contains(char::is_control) =>
                {
                    Some(name.to_owned())
                }
                _ => return None,
            };
            Some(Asked { word: *word, spelled: spelled.clone(), name })
        })
    }

    /// Returns the word that a message in a chat of a group consists of: by itself, or behind the group's trigger. A mention at its
    /// beginning is the trigger, too, where the platform says that the message mentions the agent, `mentioned`.
    #[must_use]
    pub fn said(&self, text: &str, trigger: &str, mentioned: bool) -> Option<Asked> {
        self.of(text).or_else(|| self.of(addressed(text, trigger, mentioned)?))
    }

    /// Returns how a word is spelled; `None`: there is none.
    #[must_use]
    pub fn spelled(&self, word: Word) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == word).map(|(_, spelled)| spelled.as_str())
    }

    /// Returns the words with all their spellings.
    pub fn all(&self) -> impl Iterator<Item = (Word, Vec<&str>)> {
        let of = |word: Word| {
            self.0.iter().filter(move |(known, _)| *known == word).map(|(_, text)| text.as_str())
        };
        Word::CHOICES
            .iter()
            .map(move |(_, word)| (*word, of(*word).collect::<Vec<_>>()))
            .filter(|(_, all)| !all.is_empty())
    }

    /// Returns what platforms may list as commands: each word without its slash, and what it does. A word that begins with no slash,
    /// or has signs that platforms do not take, is left out.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, Word)> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let mut listed: Vec<(String, Word)> = Vec::new();
        for (word, all) in self.all() {
            let name = all.into_iter().filter_map(|text| text.strip_prefix('/')).map(str::to_ascii_lowercase);
            let mut fit = name
                .filter(|name| !name.is_empty() && name.len() <= LONGEST_LISTED && name.chars().all(plain));
            listed.extend(fit.next().map(|name| (name, word)));
        }
        listed
    }
}

/// Returns what stands behind a word in a text that begins with it.
fn behind<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    let ends = rest.chars().next().is_none_or(char::is_whitespace);
    (ends && head.eq_ignore_ascii_case(word)).then_some(rest)
}

/// Returns what stands behind the trigger, or a mention, with which a text begins.
fn addressed<'a>(text: &'a str, trigger: &str, mentioned: bool) -> Option<&'a str> {
    let (first, rest) = text.trim().split_once(char::is_whitespace)?;
    let first = first.trim_end_matches([',', ':']);
    let is_trigger = first.to_lowercase() == trigger.trim().to_lowercase();
    (is_trigger || mentioned && first.starts_with('@')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let all = Word::CHOICES.iter().map(|(name, word)| (*word, Some(format!("/{name}"))));
        Words::new(all.chain([(Word::New, Some("/clear".to_owned()))]))
    }

    #[test]
    fn a_word_is_the_whole_message_but_for_a_name() {
        let words = words();
        for (text, word, name) in [
            ("/stop", Some(Word::Stop), None),
            (" /Stop\n", Some(Word::Stop), None),
            ("/retry", Some(Word::Retry), None),
            ("/clear", Some(Word::New), None),
            ("/model", Some(Word::Model), None),
            ("/model claude-x", Some(Word::Model), Some("claude-x")),
            ("/MODEL\tclaude-x ", Some(Word::Model), Some("claude-x")),
            ("/model a b", Some(Word::Model), Some("a b")),
            ("/model a\nb", None, None),
            ("/models", None, None),
            ("/stop it", None, None),
            ("/sto", None, None),
            ("/stöp", None, None),
            ("stop", None, None),
            ("", None, None),
        ] {
            let asked = words.of(text);
            assert_eq!(asked.as_ref().map(|asked| asked.word), word, "{text:?}");
            assert_eq!(asked.and_then(|asked| asked.name).as_deref(), name, "{text:?}");
        }
        assert_eq!(words.of(&format!("/model {}", "x".repeat(LONGEST_NAME + 1))), None);
        assert_eq!(Words::default().of("/stop"), None);
        assert_eq!(Words::default().of(""), None);
    }

    #[test]
    fn a_word_may_stand_behind_the_trigger_or_a_mention_of_the_agent() {
        let words = words();
        for (text, mentioned, word) in [
            ("/stop", false, Some(Word::Stop)),
            ("@Andy /stop", false, Some(Word::Stop)),
            ("@andy, /model x", false, Some(Word::Model)),
            ("@Andy:\n/stop ", false, Some(Word::Stop)),
            ("@andy_g2_bot /stop", true, Some(Word::Stop)),
            ("@andy_g2_bot /stop", false, None),
            ("@Bob /stop", false, None),
            ("Andy /stop", true, None),
            ("@Andy stop", false, None),
            ("@Andy /stop it", false, None),
            ("@Andy @Andy /stop", true, None),
            ("@Andy", true, None),
            ("/stop @Andy", true, None),
        ] {
            let said = words.said(text, " @Andy", mentioned);
            assert_eq!(said.map(|asked| asked.word), word, "{text:?} {mentioned}");
        }
        assert_eq!(words.said(" /stop x", "", false), None);
    }

    #[test]
    fn the_settings_rename_a_word_or_take_it_away() {
        let words = Words::new([
            (Word::Stop, Some("halt now".to_owned())),
            (Word::Retry, None),
            (Word::Help, Some(" ".to_owned())),
            (Word::New, Some("HALT NOW".to_owned())),
        ]);
        assert_eq!(words.of("Halt now").map(|asked| asked.word), Some(Word::Stop), "the first one counts");
        assert_eq!(words.of("/retry"), None);
        assert_eq!((words.spelled(Word::Stop), words.spelled(Word::Help)), (Some("halt now"), None));
        assert_eq!(words.all().collect::<Vec<_>>(), [(Word::Stop, vec!["halt now"])]);
    }

    #[test]
    fn platforms_list_what_they_can_take() {
        let spelled = |word, text: &str| (word, Some(text.to_owned()));
        let words = Words::new([
            spelled(Word::Stop, "/Stop"),
            spelled(Word::Help, "help"),
            spelled(Word::Status, "/wie-gehts"),
            spelled(Word::New, "/neu ü"),
            spelled(Word::New, "/clear"),
            spelled(Word::Why, &format!("/{}", "x".repeat(LONGEST_LISTED + 1))),
        ]);
        assert_eq!(words.listed(), [("clear".to_owned(), Word::New), ("stop".to_owned(), Word::Stop)]);
        for (_, word) in Word::CHOICES {
            assert!((1..=100).contains(&word.does().len()), "{word}");
        }
    }

    #[test]
    fn who_may_say_a_word_is_the_group_s_to_decide() {
        use {Commands::*, May::*, Standing::*};
        for (word, sender, commands, expected) in [
            (Word::Stop, Owner, Owners, Yes),
            (Word::Model, Admin, Owners, Yes),
            (Word::Model, Admin, Members, Yes),
            (Word::Help, Member, Owners, Refused),
            (Word::Stop, Member, Owners, Refused),
            (Word::Help, Member, Members, Yes),
            (Word::New, Member, Members, Yes),
            (Word::Stop, Member, Members, Yes),
            (Word::Retry, Member, Members, Yes),
            (Word::Model, Member, Members, Refused),
            (Word::Help, Unknown, Members, No),
            (Word::Stop, Unknown, Owners, No),
        ] {
            assert_eq!(word.may(sender, commands), expected, "{word} {sender} {commands}");
        }
        assert_eq!(Commands::default(), Owners);
    }

    #[test]
    fn a_member_is_told_no_only_where_the_agent_was_meant() {
        use {May::*, Standing::*};
        for (may, sender, listed, written, wakes, is_word) in [
            (Yes, Owner, Listed::Drop, false, false, true),
            (Yes, Admin, Listed::Unreadable, true, false, true),
            (Yes, Member, Listed::Allowed, true, false, true),
            (Yes, Member, Listed::ContextOnly, true, true, false),
            (Refused, Member, Listed::Allowed, true, true, true),
            (Refused, Member, Listed::Allowed, true, false, false),
            (Refused, Member, Listed::Allowed, false, true, false),
            (Refused, Member, Listed::Drop, true, true, false),
            (No, Unknown, Listed::Allowed, true, true, false),
        ] {
            let word = may.is_word(sender, listed, written, || wakes);
            assert_eq!(word, is_word, "{may:?} {sender} {listed} {written} {wakes}");
        }
    }
}
