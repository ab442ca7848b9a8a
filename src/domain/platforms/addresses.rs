//! How the addresses of each platform read, and the ids of its people: one entry a platform, and nothing else knows them.

use std::borrow::Cow;

use super::chats::ChatKind;

/// How the addresses of one account on a platform read.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The channel's name: `telegram`, or `telegram.work` of another account.
    pub channel: Cow<'static, str>,
    form: Form,
    /// The thread that is a group's main line, beside the one without a name; empty: there is none.
    main_line: &'static str,
}

/// Where an address says whose it is.
#[derive(Clone, Debug)]
enum Form {
    /// `PREFIX:ID`, its people as well. `direct`: whether such an id is that of a chat with one person.
    Prefix { prefix: Cow<'static, str>, direct: fn(&str) -> bool },
    /// It ends so, and has no prefix. Its people are `CHANNEL:ADDRESS`, and `direct` ends the address of one.
    Suffixes { suffixes: &'static [&'static str], direct: &'static str },
}

fn digits(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())
}

/// The terminals of this machine: each chat is its own user's.
pub const LOCAL: Platform = Platform::prefixed("local", "local", |_| true);

/// An address without a prefix is one of WhatsApp's, of whatever kind.
const WHATSAPP: Platform = Platform {
    channel: Cow::Borrowed("whatsapp"),
    form: Form::Suffixes { suffixes: &["@g.us", "@s.whatsapp.net"], direct: "@s.whatsapp.net" },
    main_line: "",
};

/// Every platform whose addresses begin with something other than its name, or show more than whose they are.
static KNOWN: [Platform; 8] = [
    LOCAL,
    // The topic General of a forum.
    Platform::prefixed("telegram", "tg", digits).with_main_line("1"),
    Platform::prefixed("discord", "dc", |_| false),
    Platform::prefixed("matrix", "mx", |_| false),
    // Its channels begin with C or G, and chats with one person with D.
    Platform::prefixed("slack", "slack", |id| id.starts_with('D')),
    // A person's id or number; groups have a word before theirs.
    Platform::prefixed("signal", "signal", |id| !id.starts_with("group.")),
    // A program and the agent.
    Platform::prefixed("webhook", "hook", |_| true),
    WHATSAPP,
];

/// Divides `telegram.work`, or `tg.work`, into the platform's part and the account's; an account that has no name of its own has
/// no second part.
fn account(name: &str) -> (&str, &str) {
    name.split_at(name.find('.').unwrap_or(name.len()))
}

impl Platform {
    /// A platform whose addresses are `NAME:ID`.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self::prefixed(name, name, |_| false)
    }

    const fn prefixed(channel: &'static str, prefix: &'static str, direct: fn(&str) -> bool) -> Self {
        Self {
            channel: Cow::Borrowed(channel),
            form: Form::Prefix { prefix: Cow::Borrowed(prefix), direct },
            main_line: "",
        }
    }

    const fn with_main_line(mut self, thread: &'static str) -> Self {
        self.main_line = thread;
        self
    }

    /// The account that is called so in the settings: `telegram`, `telegram.work`.
    #[must_use]
    pub fn of_account(name: &str) -> Self {
        let (base, own) = account(name);
        let known = KNOWN.iter().find(|platform| platform.channel == base);
        let (prefix, direct) = match known.map(|platform| &platform.form) {
            Some(Form::Prefix { prefix, direct }) => (format!("{prefix}{own}"), *direct),
            Some(Form::Suffixes { .. }) | None => (name.to_owned(), (|_| false) as fn(&str) -> bool),
        };
        let main_line = known.map_or("", |platform| platform.main_line);
        let form = Form::Prefix { prefix: prefix.into(), direct };
        Self { channel: Cow::Owned(name.to_owned()), form, main_line }
    }

    /// Returns what its addresses begin with, without the colon; empty where they begin with nothing.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match &self.form {
            Form::Prefix { prefix, .. } => prefix,
            Form::Suffixes { .. } => "",
        }
    }

    /// Whether an address is one of this platform's.
    #[must_use]
    pub fn owns(&self, jid: &str) -> bool {
        match &self.form {
            Form::Prefix { prefix, .. } => jid.split_once(':').is_some_and(|(before, _)| before == prefix),
            Form::Suffixes { suffixes, .. } => {
                !jid.contains(':') && suffixes.iter().any(|suffix| jid.ends_with(suffix))
            }
        }
    }
}

/// Returns the platform of an address, whatever account it is of.
fn platform_of(jid: &str) -> Option<&'static Platform> {
    let base = jid.split_once(':').map(|(prefix, _)| account(prefix).0);
    KNOWN.iter().find(|platform| match (&platform.form, base) {
        (Form::Prefix { prefix, .. }, Some(base)) => prefix == base,
        (Form::Prefix { .. }, None) => false,
        (Form::Suffixes { .. }, _) => platform.owns(jid),
    })
}

/// Returns the name of the channel that owns an address; `unknown` where none does.
#[must_use]
pub fn channel_of(jid: &str) -> Cow<'_, str> {
    match (platform_of(jid), jid.split_once(':')) {
        (Some(platform), Some((prefix, _))) => match account(prefix).1 {
            "" => Cow::Borrowed(&*platform.channel),
            own => Cow::Owned(format!("{}{own}", platform.channel)),
        },
        (Some(platform), None) => Cow::Borrowed(&*platform.channel),
        (None, Some((prefix, _))) => Cow::Borrowed(prefix),
        (None, None) => Cow::Borrowed("unknown"),
    }
}

/// Returns whether the address of a chat shows that it is a person's alone with the agent; where it shows nothing, it is taken
/// for a group, in which more is kept from the agent.
#[must_use]
pub fn kind_of(jid: &str) -> ChatKind {
    let direct = platform_of(jid).is_some_and(|platform| match &platform.form {
        Form::Prefix { direct, .. } => jid.split_once(':').is_some_and(|(_, id)| direct(id)),
        Form::Suffixes { direct, .. } => jid.ends_with(direct),
    });
    if direct { ChatKind::Direct } else { ChatKind::Group }
}

/// Whether a thread of a group is its main line, where everybody writes who opens no thread.
#[must_use]
pub fn is_main_line(jid: &str, thread: &str) -> bool {
    thread.is_empty() || platform_of(jid).is_some_and(|platform| platform.main_line == thread)
}

/// Returns a sender's id as users are named: with the prefix of the platform's people, unless it has that one. A handle with
/// another channel's prefix is a handle: nobody is somebody of another channel by what they call themselves. Empty where the
/// channel does not say who it is.
#[must_use]
pub fn user_id(chat_jid: &str, sender: &str) -> String {
    let people = match chat_jid.split_once(':') {
        Some((prefix, _)) => prefix,
        None => "whatsapp",
    };
    match sender.split_once(':') {
        _ if sender.is_empty() => String::new(),
        Some((prefix, _)) if prefix == people => sender.to_owned(),
        Some(_) | None => format!("{people}:{sender}"),
    }
}

/// Returns the chat in which a user is alone with us: the one that their id names.
#[must_use]
pub fn direct_chat(user: &str) -> &str {
    user.strip_prefix("whatsapp").and_then(|rest| rest.strip_prefix(':')).unwrap_or(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_whose_it_is_and_whether_somebody_is_alone_with_the_agent() {
        for (jid, channel, kind) in [
            ("local:main", "local", ChatKind::Direct),
            ("tg:-1001234", "telegram", ChatKind::Group),
            ("tg:1234", "telegram", ChatKind::Direct),
            ("tg:", "telegram", ChatKind::Group),
            ("tg:12x", "telegram", ChatKind::Group),
            ("49170@s.whatsapp.net", "whatsapp", ChatKind::Direct),
            ("1203@g.us", "whatsapp", ChatKind::Group),
            ("dc:123", "discord", ChatKind::Group),
            ("slack:C123", "slack", ChatKind::Group),
            ("slack:D123", "slack", ChatKind::Direct),
            ("slack.work:D123", "slack.work", ChatKind::Direct),
            ("signal:a0000000-0000-4000-8000-000000000100", "signal", ChatKind::Direct),
            ("signal.work:+4930123456", "signal.work", ChatKind::Direct),
            ("signal:group.-_v7", "signal", ChatKind::Group),
            ("irc:#chess", "irc", ChatKind::Group),
            ("x", "unknown", ChatKind::Group),
            ("hook:github", "webhook", ChatKind::Direct),
            ("tg.work:7", "telegram.work", ChatKind::Direct),
            ("tg.work:-7", "telegram.work", ChatKind::Group),
            ("mx:!a:example.org", "matrix", ChatKind::Group),
            ("irc.libera:#chess", "irc.libera", ChatKind::Group),
        ] {
            assert_eq!((&*channel_of(jid), kind_of(jid)), (channel, kind), "{jid}");
        }
        for (name, prefix) in
            [("telegram", "tg"), ("telegram.work", "tg.work"), ("matrix", "mx"), ("irc.libera", "irc.libera")]
        {
            let account = Platform::of_account(name);
            assert_eq!(account.prefix(), prefix);
            let jid = format!("{prefix}:1");
            assert!(
                account.owns(&jid) && channel_of(&jid) == name && user_id(&jid, "7") == format!("{prefix}:7")
            );
        }
        assert!(!Platform::of_account("telegram").owns("tg.work:1"));
        assert!(Platform::named("fake").owns("fake:1") && !Platform::named("fake").owns("faker:1"));
    }

    #[test]
    fn the_chat_of_a_user_is_their_id_but_on_whatsapp_where_the_id_holds_it() {
        assert_eq!(direct_chat("tg:7"), "tg:7");
        assert_eq!(direct_chat("whatsapp:49@s.whatsapp.net"), "49@s.whatsapp.net");
    }
}
