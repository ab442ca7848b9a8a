//! Arguments that are checked as they are read, from the command line and from the socket alike.

use std::{fmt, str::FromStr};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ipc_handlers::{Schedule, Time, Word, seen::is_seen};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OpError, Site, channels::table};
use crate::{
    channels,
    config::adapters::prefix,
    domain::{
        heard::people::{BadSpeaker, BadUser, check_user},
        platforms::{
            addresses::{Forms, Platform, is_local, may_be_an_address},
            chats::ChatKind,
        },
        shown::screen::hides,
    },
};

/// Why an argument is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadArgument {
    #[error("a chat's address is CHANNEL:NAME, such as local:family, without blanks or invisible characters")]
    NoAddress,
    #[error("no channel has such an address; use CHANNEL:NAME, such as local:{0}")]
    NoChannel(String),
    #[error(transparent)]
    User(#[from] BadUser),
    #[error("a trigger needs visible characters and no invisible ones: {0:?}")]
    Trigger(String),
    #[error("the prompt is empty; write a task for the agent")]
    NoPrompt,
    #[error("a task's id has 1 to 128 visible characters: {0:?}")]
    TaskId(String),
    #[error("a token's name has 1 to 40 characters out of a-z, 0-9, `.`, `-` and `_`: {0:?}")]
    TokenName(String),
    #[error("the name is empty; leave `--as` out to speak as yourself")]
    NoSpeaker,
    #[error(transparent)]
    Speaker(#[from] BadSpeaker),
    #[error("{0:?} is no duration; write one such as 12h or 7d, at least a minute")]
    Duration(String),
}

/// Reads one of the words of `W`; help lists them.
pub fn word<W: Word + Send + Sync>() -> impl TypedValueParser<Value = W> {
    PossibleValuesParser::new(W::CHOICES.iter().map(|(word, _)| *word)).try_map(|word| W::from_word(&word))
}

/// Reads a length of time, such as `12h`; ms.
///
/// # Errors
/// It is none, or shorter than a minute.
pub(super) fn duration_ms(text: &str) -> Result<i64, BadArgument> {
    match Schedule::parse("interval", text, &TimeZone::UTC, Time(0)) {
        Ok(Schedule::Interval { ms }) => Ok(ms),
        Ok(_) | Err(_) => Err(BadArgument::Duration(text.to_owned())),
    }
}

/// Declares a text that is checked as it is read.
macro_rules! checked {
    ($(#[$meta:meta])* $name:ident, $check:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadArgument;

            fn from_str(text: &str) -> Result<Self, BadArgument> {
                let check: fn(&str) -> Result<(), BadArgument> = $check;
                check(text).map(|()| Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadArgument;

            fn try_from(text: String) -> Result<Self, BadArgument> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(checked: $name) -> Self {
                checked.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked! {
    /// A chat's address, such as `local:family` or `tg:-100123`.
    Jid, |text| {
        if text.is_empty() || text.len() > 512 || text.chars().any(|c| c == ' ' || hides(c)) {
            return Err(BadArgument::NoAddress);
        }
        if !may_be_an_address(text) {
            return Err(BadArgument::NoChannel(text.to_owned()));
        }
        Ok(())
    }
}

checked! {
    /// A user's id as messages name their senders, such as `local:ada` or `tg:12345`.
    UserId, |text| Ok(check_user(text)?)
}

checked! {
    /// A word at the start of a message that mentions a group's agent, such as `@G2`.
    Trigger, |text| match is_seen(text) {
        true => Ok(()),
        false => Err(BadArgument::Trigger(text.to_owned())),
    }
}

checked! {
    /// The prompt of a task. It is never empty.
    Prompt, |text| match text.trim().is_empty() {
        true => Err(BadArgument::NoPrompt),
        false => Ok(()),
    }
}

checked! {
    /// The id of a new task.
    TaskId, |text| {
        let (shown, rest) = text.split_at(text.char_indices().nth(128).map_or(text.len(), |(at, _)| at));
        match shown.trim().is_empty() || !rest.is_empty() || text.chars().any(hides) {
            true => Err(BadArgument::TaskId(shown.to_owned())),
            false => Ok(()),
        }
    }
}

checked! {
    /// The name of a token for programs.
    TokenName, |text| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        match (1..=40).contains(&text.len()) && text.bytes().all(plain) {
            true => Ok(()),
            false => Err(BadArgument::TokenName(text.chars().take(60).collect())),
        }
    }
}

impl Jid {
    /// Returns the kind that the address shows, as far as its account has told.
    pub(super) async fn kind(&self, site: &Site<'_>) -> Result<ChatKind, OpError> {
        Ok(site.store.addresses().await?.kind_of(&self.0))
    }

    /// Says that a chat is on a platform that this program does not reach, where that is so. Accounts may have come since it was
    /// started, so the settings are read as they are now.
    pub(super) async fn unserved(&self, site: &Site<'_>) -> Result<Option<String>, OpError> {
        let accounts = table::accounts(site).unwrap_or_default();
        let known = site.store.addresses().await?;
        let serves = |name: &String| match known.named(name) {
            Some(account) => account.owns(&self.0),
            // It was never started.
            None => Platform::new(name, &prefix(name), Forms::NONE).owns(&self.0),
        };
        let is_served = is_local(&self.0) || accounts.iter().any(serves);
        let names = channels::NAMES.into_iter().chain(accounts.iter().map(String::as_str));
        Ok((!is_served).then(|| {
            let names = names.collect::<Vec<_>>().join(", ");
            format!("no channel reaches {self}: this program has {names}; no message comes from there, and none can be sent there")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_task_is_seen_and_short() {
        for good in ["t", "mail check", "日本", &"é".repeat(128)] {
            assert_eq!(good.parse::<TaskId>().map(String::from).as_deref(), Ok(good));
        }
        for bad in ["", " ", "a\nb", "a\u{202e}b", "\u{1b}[2J", &"é".repeat(129), &"x".repeat(5_000)] {
            let refused = bad.parse::<TaskId>().unwrap_err().to_string();
            assert!(refused.starts_with("a task's id has 1 to 128") && refused.len() < 400, "{refused}");
        }
    }

    #[test]
    fn a_tokens_name_is_short_and_plain() {
        for good in ["prometheus", "a", "web.token", "ci_2-x", &"x".repeat(40)] {
            assert!(good.parse::<TokenName>().is_ok(), "{good}");
        }
        for bad in ["", "A", "a b", "é", "a/b", "a\n", &"x".repeat(41), &"x".repeat(5_000)] {
            let refused = bad.parse::<TokenName>().unwrap_err().to_string();
            assert!(refused.len() < 200, "{refused}");
        }
    }

    #[test]
    fn an_address_has_no_blanks_and_is_not_empty() {
        for good in ["local:main", "tg:-100123", "1203@g.us", "somebody@example.org", "dc:1/2"] {
            assert_eq!(good.parse::<Jid>().map(String::from).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "nochannel",
            "@example.org",
            "local: main",
            "a\nb",
            "local:ma\u{200b}in",
            "local:\u{3164}",
            &"x".repeat(513),
        ] {
            assert!(bad.parse::<Jid>().is_err(), "{bad:?}");
            assert!(serde_json::from_value::<Jid>(bad.into()).is_err(), "{bad:?}");
        }
    }
}
