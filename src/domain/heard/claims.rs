//! A code by which a person at the command line becomes an owner or an admin on a platform: they write it to the account there, in a
//! chat of their own. This module makes codes, reads them out of messages, and has the words.
//!
//! | a message with the code | follows |
//! |---|---|
//! | in a direct chat, within 10 minutes, for the first time | its author has the role, and the chat is theirs for questions and notices |
//! | in a chat that others read, also among other words, in a forward or an edit, or by a bot | nobody has it, and the code is void |
//! | in a direct chat among other words | its author is asked to write it alone |
//! | later, or again | its author is told so, for an hour |

use ipc_handlers::{Folder, Time, words};

use crate::{heard::people::Role, platforms::accounts::Myself, rows::Claim};

/// How long a code is good, ms.
pub const GOOD_MS: i64 = 600_000;
/// How long an old code is still known as one, ms.
pub const KNOWN_MS: i64 = 3_600_000;
/// How far a clock may be set back, ms, before a code that was made ahead of it is too old.
const SET_BACK_MS: i64 = 60_000;
/// How much of a text is searched for a code, characters.
const SEARCHED: usize = 2_000;
/// How many codes are remembered.
pub const KEPT: i64 = 20;
/// Letters and digits that nobody mistakes for others.
const LETTERS: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
/// How many of them a code has: 40 bits.
const LENGTH: usize = 8;
/// The longest message that may be a code, bytes.
const LONGEST: usize = 64;
/// Telegram's word before what a link to a bot holds.
const START: &str = "/start";

words! {
    /// How a code stands.
    #[derive(schemars::JsonSchema)]
    pub enum ClaimState: "state of a code" {
        /// It may be written.
        Open = "open",
        /// Somebody has the role by it.
        Used = "used",
        /// Others may have seen it.
        Void = "void",
    }
}

/// A code, without its dash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// Makes a code of a random number.
    #[must_use]
    pub fn of(random: u64) -> Self {
        let letter = |n: usize| {
            let at = usize::try_from(random >> (5 * n) & 31).unwrap_or_default();
            char::from(LETTERS[at])
        };
        Self((0..LENGTH).map(letter).collect())
    }

    /// Makes a code of a random number in hexadecimal digits, the first twelve of which count: others of an id are not by chance.
    #[must_use]
    pub fn of_id(random: &str) -> Self {
        let digits: String = random.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        Self::of(u64::from_str_radix(&digits, 16).unwrap_or_default())
    }

    /// Reads the code that a message consists of: in letters of either case, with or without the dash, also as Telegram writes it for
    /// a person who has followed a link.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > LONGEST {
            return None;
        }
        let text = match text.split_once(char::is_whitespace) {
            Some((START, rest)) => rest.trim(),
            Some(_) => return None,
            None => text,
        };
        let code: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_uppercase()).collect();
        let is_code = code.len() == LENGTH && code.bytes().all(|b| LETTERS.contains(&b));
        is_code.then_some(Self(code))
    }

    /// Returns whatever in a text could be a code.
    pub fn within(text: &str) -> impl Iterator<Item = Self> {
        let head = text.char_indices().nth(SEARCHED).map_or(text, |(at, _)| &text[..at]);
        let words = head.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.filter(|word| word.len() <= LENGTH + 1).filter_map(Self::read)
    }

    /// Returns it without the dash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns it as people read it: `K7QM-2XPD`.
    #[must_use]
    pub fn shown(&self) -> String {
        let (first, last) = self.0.split_at(LENGTH / 2);
        format!("{first}-{last}")
    }
}

/// Why a code does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Others read the chat too.
    Seen,
    /// It stands among other words, or is not its author's own.
    NotAlone,
    Late,
    Used,
    Void,
}

/// Decides on a code that somebody wrote. `alone`: it is all of a message that a person has just written.
///
/// # Errors
/// [`NotTaken`].
pub fn decide(claim: &Claim, is_direct: bool, alone: bool, now: Time) -> Result<(), NotTaken> {
    match claim.state {
        ClaimState::Used => Err(NotTaken::Used),
        ClaimState::Void => Err(NotTaken::Void),
        ClaimState::Open if !is_good(claim, now) => Err(NotTaken::Late),
        ClaimState::Open if !is_direct => Err(NotTaken::Seen),
        ClaimState::Open if !alone => Err(NotTaken::NotAlone),
        ClaimState::Open => Ok(()),
    }
}

/// Whether a code can make somebody something now. One from a clock that was ahead is too old.
#[must_use]
pub fn is_good(claim: &Claim, now: Time) -> bool {
    let is_ahead = claim.made_at.ms_since(now) > SET_BACK_MS;
    claim.state == ClaimState::Open && now < claim.expires_at && !is_ahead
}

impl NotTaken {
    /// What its author is told.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Self::Seen => {
                "Others can read this chat, so this code is void now. Make another one with \"g2 users claim\", and write it to me in a chat of our own."
            }
            Self::NotAlone => "Write the code alone, in a message of its own.",
            Self::Late => {
                "This code is too old: it was good for ten minutes. Make another one with \"g2 users claim\"."
            }
            Self::Used => {
                "This code was used already: it is good once. Make another one with \"g2 users claim\"."
            }
            Self::Void => {
                "This code is void: it was written where others read it. Make another one with \"g2 users claim\"."
            }
        }
    }

    /// For `why`.
    #[must_use]
    pub fn note(self) -> &'static str {
        match self {
            Self::Seen => "a code of `g2 users claim` in a chat that others read is void",
            Self::NotAlone => {
                "a code of `g2 users claim` stood among other words, or was not its author's own"
            }
            Self::Late => "the code of `g2 users claim` was too old",
            Self::Used => "the code of `g2 users claim` was used before",
            Self::Void => "the code of `g2 users claim` was void",
        }
    }
}

/// What somebody is by a code, in words: `an owner`, `an admin of family`.
#[must_use]
pub fn is_now(claim: &Claim) -> String {
    match (claim.role, &claim.group) {
        (Role::Owner, _) => "an owner".to_owned(),
        (Role::Admin, None) => "an admin of all groups".to_owned(),
        (Role::Admin, Some(group)) => format!("an admin of {group}"),
    }
}

/// What they are told.
#[must_use]
pub fn welcome(claim: &Claim) -> String {
    format!(
        "You are {} from now on. Questions come to this chat. \"/help\" lists the words that you can write to me.",
        is_now(claim)
    )
}

/// A place where a code can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// The account: `telegram`.
    pub channel: String,
    /// What it is called there: `@andy_bot`, or a name.
    pub who: String,
    /// An address that opens the chat with it, with the code where the platform takes one.
    pub link: Option<String>,
}

/// Returns how an account is reached with a code.
#[must_use]
pub fn door(channel: &str, myself: &Myself, code: &Code) -> Door {
    let base = channel.split('.').next().unwrap_or(channel);
    let Myself { id, name, handle } = myself;
    let is_plain = |text: &str| {
        !text.is_empty()
            && text.len() <= 255
            && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"'<>\\^`{|}".contains(&b))
    };
    let handle = handle.trim_start_matches('@');
    let (who, link) = match base {
        "telegram" if is_plain(handle) => {
            (format!("@{handle}"), Some(format!("https://t.me/{handle}?start={}", code.shown())))
        }
        "discord" if !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) => {
            (name.clone(), Some(format!("https://discord.com/users/{id}")))
        }
        "slack" if !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            (name.clone(), Some(format!("https://slack.com/app_redirect?channel={id}")))
        }
        "whatsapp"
            if handle
                .strip_prefix('+')
                .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())) =>
        {
            (handle.to_owned(), Some(format!("https://wa.me/{}?text={}", &handle[1..], code.shown())))
        }
        "signal" if handle.strip_prefix('+').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) => {
            (format!("{name} ({handle})"), Some(format!("https://signal.me/#p/{handle}")))
        }
        "matrix" if is_plain(id) => (id.clone(), Some(format!("https://matrix.to/#/{id}"))),
        _ if !name.is_empty() => (name.clone(), None),
        _ => (channel.to_owned(), None),
    };
    Door { channel: channel.to_owned(), who, link }
}

/// Returns the group that an admin is of, if a role takes one.
///
/// # Errors
/// An owner is one of all groups.
pub fn group_of(role: Role, group: Option<Folder>) -> Result<Option<Folder>, &'static str> {
    match (role, group) {
        (Role::Owner, Some(_)) => Err("an owner is one everywhere"),
        (Role::Owner, None) => Ok(None),
        (Role::Admin, group) => Ok(group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_whole_message_of_eight_letters_however_it_is_typed() {
        let code = Code::of(0x1234_5678_9abc_def0);
        assert_eq!(code.shown().len(), LENGTH + 1);
        let (shown, bare) = (code.shown(), code.as_str().to_owned());
        for text in [
            shown.clone(),
            bare.clone(),
            shown.to_lowercase(),
            format!("  {shown}\n"),
            format!("/start {shown}"),
            format!("/start  {bare}"),
        ] {
            assert_eq!(Code::read(&text), Some(code.clone()), "{text:?}");
        }
        for text in [
            String::new(),
            format!("my code is {shown}"),
            format!("{shown} {shown}"),
            bare[1..].to_owned(),
            format!("{bare}2"),
            "/start".into(),
            format!("/go {shown}"),
            "AAAA-AAA0".into(),
            "ААААААAA".into(),
            format!("{}{bare}", "-".repeat(100)),
        ] {
            assert_eq!(Code::read(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_code_is_found_among_other_words_in_the_beginning_of_a_text() {
        let code = Code::of(77);
        let (shown, bare) = (code.shown(), code.as_str());
        for text in [
            format!("@andy_bot {shown}"),
            format!("my code is {bare}."),
            format!("<{}>, elephant", shown.to_lowercase()),
            format!("{} {shown}", "x ".repeat(900)),
        ] {
            assert!(Code::within(&text).any(|found| found == code), "{text}");
        }
        let far = format!("{} {shown}", "x ".repeat(1_000));
        for text in [far, format!("x{bare}"), String::new(), "мой код".into()] {
            assert!(Code::within(&text).all(|found| found != code), "{text}");
        }
    }

    #[test]
    fn all_of_a_random_number_s_bits_make_codes_and_only_letters_that_are_told_apart() {
        assert_eq!(Code::of(0).as_str(), "22222222");
        assert_eq!(Code::of(u64::MAX).as_str(), "ZZZZZZZZ");
        for n in 0..40 {
            assert_ne!(Code::of(1 << n), Code::of(0), "bit {n}");
        }
        assert!(!LETTERS.iter().any(|letter| b"01IO".contains(letter)));
    }

    fn claim(state: ClaimState) -> Claim {
        Claim {
            id: 1,
            role: Role::Owner,
            group: None,
            made_at: Time(0),
            expires_at: Time(GOOD_MS),
            state,
            used_by: None,
            chat: None,
        }
    }

    #[test]
    fn a_code_is_good_once_within_its_time_and_only_where_nobody_else_reads_it() {
        use ClaimState::{Open, Used, Void};
        for (state, is_direct, alone, at, comes) in [
            (Open, true, true, 0, Ok(())),
            (Open, true, true, GOOD_MS - 1, Ok(())),
            (Open, true, true, GOOD_MS, Err(NotTaken::Late)),
            (Open, true, true, -SET_BACK_MS, Ok(())),
            (Open, true, true, -SET_BACK_MS - 1, Err(NotTaken::Late)),
            (Open, true, false, 0, Err(NotTaken::NotAlone)),
            (Open, false, true, 0, Err(NotTaken::Seen)),
            (Open, false, false, 0, Err(NotTaken::Seen)),
            (Open, false, true, GOOD_MS, Err(NotTaken::Late)),
            (Used, true, true, 0, Err(NotTaken::Used)),
            (Void, true, true, 0, Err(NotTaken::Void)),
        ] {
            assert_eq!(
                decide(&claim(state), is_direct, alone, Time(at)),
                comes,
                "{state} {is_direct} {alone} {at}"
            );
        }
    }

    #[test]
    fn a_link_leads_to_the_account_and_holds_nothing_that_a_name_could_smuggle_in() {
        let code = Code::of(7);
        let myself = |id: &str, name: &str, handle: &str| Myself {
            id: id.into(),
            name: name.into(),
            handle: handle.into(),
        };
        for (channel, myself, who, link) in [
            (
                "telegram",
                myself("42", "Andy", "andy_bot"),
                "@andy_bot",
                Some("https://t.me/andy_bot?start=9222-2222"),
            ),
            (
                "telegram.work",
                myself("42", "Andy", "@w_bot"),
                "@w_bot",
                Some("https://t.me/w_bot?start=9222-2222"),
            ),
            ("telegram", myself("42", "Andy", "a b"), "Andy", None),
            ("discord", myself("42", "Andy", "andy"), "Andy", Some("https://discord.com/users/42")),
            ("discord", myself("4/../2", "Andy", "andy"), "Andy", None),
            ("slack", myself("U42", "g2", "g2"), "g2", Some("https://slack.com/app_redirect?channel=U42")),
            ("slack", myself("U4&x", "g2", "g2"), "g2", None),
            ("signal", myself("9-0", "G2", "+4930"), "G2 (+4930)", Some("https://signal.me/#p/+4930")),
            ("signal", myself("9-0", "G2", ""), "G2", None),
            (
                "whatsapp",
                myself("49170@s.whatsapp.net", "Andy", "+49170"),
                "+49170",
                Some("https://wa.me/49170?text=9222-2222"),
            ),
            ("whatsapp", myself("49170@s.whatsapp.net", "Andy", "+49x"), "Andy", None),
            (
                "matrix",
                myself("@andy:a.org", "Andy", ""),
                "@andy:a.org",
                Some("https://matrix.to/#/@andy:a.org"),
            ),
            ("matrix", myself("@an\"dy:a.org", "", ""), "matrix", None),
            ("toy", Myself::default(), "toy", None),
        ] {
            let door = door(channel, &myself, &code);
            assert_eq!((door.who.as_str(), door.link.as_deref()), (who, link), "{channel} {myself:?}");
        }
    }

    #[test]
    fn what_somebody_is_told_names_their_role() {
        let of = |role, group: Option<&str>| Claim {
            role,
            group: group.map(|group| Folder::parse(group).unwrap()),
            ..claim(ClaimState::Open)
        };
        assert_eq!(is_now(&of(Role::Owner, None)), "an owner");
        assert_eq!(is_now(&of(Role::Admin, None)), "an admin of all groups");
        assert_eq!(is_now(&of(Role::Admin, Some("family"))), "an admin of family");
        assert!(welcome(&of(Role::Owner, None)).starts_with("You are an owner from now on."));
        assert_eq!(group_of(Role::Owner, Folder::parse("a").ok()), Err("an owner is one everywhere"));
        assert_eq!(group_of(Role::Admin, Folder::parse("a").ok()), Ok(Folder::parse("a").ok()));
    }
}
