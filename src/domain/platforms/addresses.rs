//! How addresses of chats read, and the ids of people. Of platforms only `local` is known here: the adapter of each account tells
//! how its addresses read, and the store keeps it.

use std::borrow::Cow;

use channel_protocol::{self as protocol, LONGEST_DIRECT, MOST_ENDINGS};
use regex::{Regex, RegexBuilder};

use super::chats::ChatKind;

/// The longest end of addresses, bytes.
const LONGEST_ENDING: usize = 64;
/// The longest id of a thread, bytes.
const LONGEST_THREAD: usize = 512;
/// How large an expression may become once it is compiled, bytes.
const LARGEST_EXPRESSION: usize = 1 << 18;

/// How the addresses of one account read.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The channel's name: `telegram`, or `telegram.work` of another account.
    pub channel: Cow<'static, str>,
    prefix: Cow<'static, str>,
    forms: Forms,
}

/// What an account tells of its addresses, beside that they begin with its prefix.
#[derive(Clone, Debug)]
pub struct Forms {
    /// Addresses without a prefix that end so are its own, too.
    endings: Vec<String>,
    /// Which chats are one person's alone with the agent.
    direct: Direct,
    /// The thread that is a group's main line, beside the one without a name; empty: there is none.
    main_thread: Cow<'static, str>,
    /// Its senders are programs, no people.
    programs: bool,
}

#[derive(Clone, Debug)]
enum Direct {
    All,
    /// Those whose id is like this expression; empty: none. One that the store has kept is compiled each time that it is needed.
    Like(String, Option<Regex>),
}

/// A form of addresses that no account can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadForms {
    #[error("it tells more than {MOST_ENDINGS} endings")]
    ManyEndings,
    #[error(
        "an ending of addresses has 2 to {LONGEST_ENDING} bytes, and neither a colon nor a blank, unlike {0:?}"
    )]
    Ending(String),
    #[error("the expression for chats of one person is longer than {LONGEST_DIRECT} bytes")]
    LongDirect,
    #[error("the expression for chats of one person can't be read, or is too large: {0:?}")]
    Direct(String),
    #[error("its main thread is longer than {LONGEST_THREAD} bytes")]
    MainThread,
}

/// The terminals of this machine: each chat is its own user's.
pub const LOCAL: Platform = Platform {
    channel: Cow::Borrowed("local"),
    prefix: Cow::Borrowed("local"),
    forms: Forms {
        endings: Vec::new(),
        direct: Direct::All,
        main_thread: Cow::Borrowed(""),
        programs: false,
    },
};

/// Returns an expression that is compared with a whole id; `None`: it is none, or too large.
fn compiled(direct: &str) -> Option<Regex> {
    let whole = format!(r"\A(?:{direct})\z");
    let mut expression = RegexBuilder::new(&whole);
    expression.size_limit(LARGEST_EXPRESSION).dfa_size_limit(LARGEST_EXPRESSION).nest_limit(32);
    // What closes the brackets around it is no expression by itself.
    let alone = RegexBuilder::new(direct).size_limit(LARGEST_EXPRESSION).nest_limit(32).build();
    alone.and_then(|_| expression.build()).ok()
}

impl Default for Forms {
    fn default() -> Self {
        Self::NONE
    }
}

impl Forms {
    /// The forms of an account that has told nothing yet.
    pub const NONE: Self = Self {
        endings: Vec::new(),
        direct: Direct::Like(String::new(), None),
        main_thread: Cow::Borrowed(""),
        programs: false,
    };

    /// Reads what the adapter of an account tells. Where it has a name of its own (`whatsapp.work`), its addresses have the prefix.
    ///
    /// # Errors
    /// [`BadForms`].
    pub fn told(account: &str, told: &protocol::Addresses) -> Result<Self, BadForms> {
        let protocol::Addresses { endings, direct, main_thread, programs } = told;
        if endings.len() > MOST_ENDINGS {
            return Err(BadForms::ManyEndings);
        }
        let is_ending = |text: &&String| {
            let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != ':';
            (2..=LONGEST_ENDING).contains(&text.len()) && text.chars().all(plain)
        };
        if let Some(bad) = endings.iter().find(|ending| !is_ending(ending)) {
            return Err(BadForms::Ending(bad.chars().take(LONGEST_ENDING).collect()));
        }
        if direct.len() > LONGEST_DIRECT {
            return Err(BadForms::LongDirect);
        }
        let expression = compiled(direct).ok_or_else(|| BadForms::Direct(direct.clone()))?;
        if main_thread.len() > LONGEST_THREAD || main_thread.chars().any(char::is_control) {
            return Err(BadForms::MainThread);
        }
        let endings = if has_own_name(account) { Vec::new() } else { endings.clone() };
        let direct = Direct::Like(direct.clone(), Some(expression));
        Ok(Self { endings, direct, main_thread: main_thread.clone().into(), programs: *programs })
    }

    /// What the store has kept.
    #[must_use]
    pub fn kept(endings: Vec<String>, direct: String, main_thread: String, programs: bool) -> Self {
        let direct = Direct::Like(direct, None);
        Self { endings, direct, main_thread: main_thread.into(), programs }
    }

    /// The same with these endings alone.
    #[must_use]
    pub fn with_endings(&self, endings: Vec<String>) -> Self {
        Self { endings, ..self.clone() }
    }

    /// The ends of addresses without a prefix.
    #[must_use]
    pub fn endings(&self) -> &[String] {
        &self.endings
    }

    /// The expression for chats of one person; empty: there is none.
    #[must_use]
    pub fn direct(&self) -> &str {
        match &self.direct {
            Direct::All => ".*",
            Direct::Like(expression, _) => expression,
        }
    }

    /// The thread that is a group's main line; empty: there is none.
    #[must_use]
    pub fn main_thread(&self) -> &str {
        &self.main_thread
    }

    /// Whether programs write, and no people.
    #[must_use]
    pub const fn programs(&self) -> bool {
        self.programs
    }

    fn is_direct(&self, id: &str) -> bool {
        match &self.direct {
            Direct::All => true,
            Direct::Like(expression, _) if expression.is_empty() => false,
            Direct::Like(_, Some(like)) => like.is_match(id),
            Direct::Like(expression, None) => compiled(expression).is_some_and(|like| like.is_match(id)),
        }
    }

    fn has_ending(&self, jid: &str) -> bool {
        !jid.contains(':')
            && self.endings.iter().any(|ending| jid.ends_with(ending) && jid.len() > ending.len())
    }
}

/// Whether an account is another one on its platform: `telegram.work`.
fn has_own_name(account: &str) -> bool {
    account.contains('.')
}

impl Platform {
    /// A platform whose addresses are `NAME:ID`.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self { channel: Cow::Borrowed(name), prefix: Cow::Borrowed(name), forms: Forms::NONE }
    }

    /// An account whose addresses begin so.
    #[must_use]
    pub fn new(channel: &str, prefix: &str, forms: Forms) -> Self {
        Self { channel: Cow::Owned(channel.to_owned()), prefix: Cow::Owned(prefix.to_owned()), forms }
    }

    /// The same account, as it has told of its addresses.
    #[must_use]
    pub fn with(&self, forms: Forms) -> Self {
        Self { forms, ..self.clone() }
    }

    /// Returns what its addresses and its people begin with, without the colon.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns what it has told of its addresses.
    #[must_use]
    pub const fn forms(&self) -> &Forms {
        &self.forms
    }

    /// Whether an address is one of this account's.
    #[must_use]
    pub fn owns(&self, jid: &str) -> bool {
        match jid.split_once(':') {
            Some((before, _)) => before == self.prefix,
            None => self.forms.has_ending(jid),
        }
    }

    /// Returns whether the address of a chat of its own shows that it is a person's alone with the agent; where it shows nothing, it
    /// is taken for a group, in which more is kept from the agent.
    #[must_use]
    pub fn kind_of(&self, jid: &str) -> ChatKind {
        let id = jid.split_once(':').map_or(jid, |(_, id)| id);
        if self.forms.is_direct(id) { ChatKind::Direct } else { ChatKind::Group }
    }
}

/// The addresses of all accounts that are known, those that are away too.
#[derive(Clone, Debug, Default)]
pub struct Addresses(Vec<Platform>);

impl From<Vec<Platform>> for Addresses {
    fn from(accounts: Vec<Platform>) -> Self {
        Self(accounts)
    }
}

impl Addresses {
    /// Returns the account that an address is one of.
    #[must_use]
    pub fn of(&self, jid: &str) -> Option<&Platform> {
        const HERE: &Platform = &LOCAL;
        if is_local(jid) { Some(HERE) } else { self.0.iter().find(|account| account.owns(jid)) }
    }

    /// Returns the account of this name.
    #[must_use]
    pub fn named(&self, channel: &str) -> Option<&Platform> {
        self.0.iter().find(|account| account.channel == channel)
    }

    /// Returns the name of the channel that owns an address: of one that no account has told of what it begins with; `unknown`
    /// where it begins with nothing.
    #[must_use]
    pub fn channel_of<'a>(&'a self, jid: &'a str) -> &'a str {
        match self.of(jid) {
            Some(account) => &account.channel,
            None => jid.split_once(':').map_or("unknown", |(prefix, _)| prefix),
        }
    }

    /// Returns what the address of a chat shows of its kind.
    #[must_use]
    pub fn kind_of(&self, jid: &str) -> ChatKind {
        self.of(jid).map_or(ChatKind::Group, |account| account.kind_of(jid))
    }

    /// Whether those who write to an account are programs, so that nobody there can be an owner.
    #[must_use]
    pub fn is_of_programs(&self, channel: &str) -> bool {
        self.named(channel).is_some_and(|account| account.forms.programs)
    }

    /// Returns a sender's id as users are named; see [`user_id`].
    #[must_use]
    pub fn user_id(&self, chat_jid: &str, sender: &str) -> String {
        let people = match chat_jid.split_once(':') {
            Some((prefix, _)) => prefix,
            None => self.of(chat_jid).map_or("unknown", Platform::prefix),
        };
        user_id(people, sender)
    }

    /// Returns the chat in which a user is alone with us: the one that their id names.
    #[must_use]
    pub fn direct_chat<'a>(&self, user: &'a str) -> &'a str {
        let Some((prefix, own)) = user.split_once(':') else { return user };
        let has_ending = |account: &Platform| account.prefix == prefix && account.forms.has_ending(own);
        if self.0.iter().any(has_ending) { own } else { user }
    }
}

/// Returns the id of a sender in a chat as users are named; see [`user_id`]. The sender in a chat without a prefix is named so already.
#[must_use]
pub fn user_in(chat_jid: &str, sender: &str) -> String {
    chat_jid.split_once(':').map_or_else(|| sender.to_owned(), |(prefix, _)| user_id(prefix, sender))
}

/// Whether a text may be the address of a chat: it has a prefix, or ends as addresses of some account may.
#[must_use]
pub fn may_be_an_address(text: &str) -> bool {
    text.contains(':') || text.find('@').is_some_and(|at| at > 0 && at + 1 < text.len())
}

/// Whether a chat is a terminal of this machine.
#[must_use]
pub fn is_local(jid: &str) -> bool {
    jid.strip_prefix("local").is_some_and(|rest| rest.starts_with(':'))
}

/// Whether a thread of a group is its main line, where everybody writes who opens no thread. `main_thread`: the one that its account
/// names so.
#[must_use]
pub fn is_main_line(main_thread: &str, thread: &str) -> bool {
    thread.is_empty() || thread == main_thread
}

/// Returns a sender's id as users are named: with the prefix of the account's people, unless it has that one. A handle with another
/// prefix is a handle: nobody is somebody of another account by what they call themselves. Empty where the account does not say who
/// it is.
#[must_use]
pub fn user_id(prefix: &str, sender: &str) -> String {
    match sender.split_once(':') {
        _ if sender.is_empty() => String::new(),
        Some((before, _)) if before == prefix => sender.to_owned(),
        Some(_) | None => format!("{prefix}:{sender}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(endings: &[&str], direct: &str) -> protocol::Addresses {
        let endings = endings.iter().map(|ending| (*ending).to_owned()).collect();
        protocol::Addresses { endings, direct: direct.into(), ..Default::default() }
    }

    fn account(channel: &str, prefix: &str, endings: &[&str], direct: &str) -> Platform {
        Platform::new(channel, prefix, Forms::told(channel, &told(endings, direct)).unwrap())
    }

    fn known() -> Addresses {
        let whatsapp = ["@g.us", "@s.whatsapp.net"];
        vec![
            account("slack", "slack", &[], "D.*"),
            account("telegram", "tg", &[], "[0-9]+"),
            account("telegram.work", "tg.work", &[], "[0-9]+"),
            account("whatsapp", "whatsapp", &whatsapp, r".*@s\.whatsapp\.net"),
            account("whatsapp.work", "whatsapp.work", &whatsapp, r".*@s\.whatsapp\.net"),
            Platform::new("irc", "irc", Forms::NONE),
        ]
        .into()
    }

    #[test]
    fn an_address_shows_whose_it_is_and_whether_somebody_is_alone_with_the_agent() {
        use ChatKind::{Direct, Group};
        let known = known();
        for (jid, channel, kind) in [
            ("local:main", "local", Direct),
            ("tg:-1001234", "telegram", Group),
            ("tg:1234", "telegram", Direct),
            ("tg:", "telegram", Group),
            ("tg:12x", "telegram", Group),
            ("tg:1\n", "telegram", Group),
            ("49170@s.whatsapp.net", "whatsapp", Direct),
            ("1203@g.us", "whatsapp", Group),
            ("whatsapp:1203@g.us", "whatsapp", Group),
            ("whatsapp.work:49@s.whatsapp.net", "whatsapp.work", Direct),
            ("slack:C123", "slack", Group),
            ("slack:D123", "slack", Direct),
            ("irc:#chess", "irc", Group),
            ("tg.work:7", "telegram.work", Direct),
            ("tg.work:-7", "telegram.work", Group),
            // Of no account.
            ("x", "unknown", Group),
            ("@g.us", "unknown", Group),
            ("mx:!a:example.org", "mx", Group),
            ("slack.work:D1", "slack.work", Group),
        ] {
            assert_eq!((known.channel_of(jid), known.kind_of(jid)), (channel, kind), "{jid}");
        }
        let none = Addresses::default();
        assert_eq!((none.channel_of("1@g.us"), none.kind_of("tg:7")), ("unknown", Group));
        assert!(Platform::named("fake").owns("fake:1") && !Platform::named("fake").owns("faker:1"));
        assert!(is_local("local:x") && !is_local("localx:1") && !is_local("local"));
    }

    #[test]
    fn a_sender_is_named_by_the_account_of_their_chat_and_handle() {
        let known = known();
        for (chat, sender, id) in [
            ("local:main", "local:me", "local:me"),
            ("tg:-100", "42", "tg:42"),
            ("tg:-100", "tg:42", "tg:42"),
            ("teams:x", "29:abc", "teams:29:abc"),
            ("irc:x", "local:me", "irc:local:me"),
            ("local:x", "tg:42", "local:tg:42"),
            ("123@g.us", "local:me", "whatsapp:local:me"),
            ("123@g.us", "49:2@s.whatsapp.net", "whatsapp:49:2@s.whatsapp.net"),
            ("123@g.us", "whatsapp:49@s.whatsapp.net", "whatsapp:49@s.whatsapp.net"),
            ("123@g.us", "49@s.whatsapp.net", "whatsapp:49@s.whatsapp.net"),
            ("123@other", "49", "unknown:49"),
            ("tg:-100", "", ""),
        ] {
            assert_eq!(known.user_id(chat, sender), id);
        }
        assert_eq!(known.direct_chat("tg:7"), "tg:7");
        assert_eq!(known.direct_chat("whatsapp:49@s.whatsapp.net"), "49@s.whatsapp.net");
        assert_eq!(known.direct_chat("whatsapp.work:49@s.whatsapp.net"), "whatsapp.work:49@s.whatsapp.net");
        assert_eq!(
            Addresses::default().direct_chat("whatsapp:49@s.whatsapp.net"),
            "whatsapp:49@s.whatsapp.net"
        );
    }

    #[test]
    fn what_an_adapter_tells_of_its_addresses_is_bounded() {
        let refused =
            |endings: &[&str], direct: &str| Forms::told("toy", &told(endings, direct)).unwrap_err();
        assert_eq!(refused(&["@a"; MOST_ENDINGS + 1], ""), BadForms::ManyEndings);
        for bad in ["", "a", "a:b", "a b", "a\n", &"x".repeat(LONGEST_ENDING + 1)] {
            assert!(matches!(refused(&[bad], ""), BadForms::Ending(_)), "{bad:?}");
        }
        assert_eq!(refused(&[], &"a".repeat(LONGEST_DIRECT + 1)), BadForms::LongDirect);
        for bad in ["(", "a)(b", "a{1000}{1000}", r"(\w{200}){200}", &"(".repeat(100)] {
            assert!(matches!(refused(&[], bad), BadForms::Direct(_)), "{bad:?}");
        }
        let wordy = protocol::Addresses { main_thread: "x".repeat(LONGEST_THREAD + 1), ..Default::default() };
        assert_eq!(Forms::told("toy", &wordy).unwrap_err(), BadForms::MainThread);
        // Of alternatives each has to be the whole.
        let either = account("toy", "toy", &[], "a|b");
        assert_eq!(
            ["toy:a", "toy:ab", "toy:b"].map(|jid| either.kind_of(jid) == ChatKind::Direct),
            [true, false, true]
        );
        // A kept expression that can't be read shows nothing.
        let broken = Platform::new("toy", "toy", Forms::kept(Vec::new(), "(".into(), String::new(), false));
        assert_eq!(broken.kind_of("toy:1"), ChatKind::Group);
    }
}
