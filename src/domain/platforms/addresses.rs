//! How the addresses of each platform read, and the ids of its people: one entry a platform, and nothing else knows them.

use super::chats::ChatKind;

/// How one platform's addresses read.
#[derive(Clone, Copy, Debug)]
pub struct Platform {
    /// The channel's name.
    pub channel: &'static str,
    form: Form,
}

/// Where an address says whose it is.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// `PREFIX:ID`, its people as well. `direct`: whether such an id is that of a chat with one person.
    Prefix { prefix: &'static str, direct: fn(&str) -> bool },
    /// It ends so, and has no prefix. Its people are `CHANNEL:ADDRESS`, and `direct` ends the address of one.
    Suffixes { suffixes: &'static [&'static str], direct: &'static str },
}

fn digits(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())
}

/// The terminals of this machine: each chat is its own user's.
pub const LOCAL: Platform =
    Platform { channel: "local", form: Form::Prefix { prefix: "local", direct: |_| true } };

/// Every platform whose addresses do not just begin with its name.
const KNOWN: [Platform; 4] = [
    LOCAL,
    Platform { channel: "telegram", form: Form::Prefix { prefix: "tg", direct: digits } },
    Platform { channel: "discord", form: Form::Prefix { prefix: "dc", direct: |_| false } },
    Platform {
        channel: "whatsapp",
        form: Form::Suffixes { suffixes: &["@g.us", "@s.whatsapp.net"], direct: "@s.whatsapp.net" },
    },
];

impl Platform {
    /// A platform whose addresses are `NAME:ID`.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self { channel: name, form: Form::Prefix { prefix: name, direct: |_| false } }
    }

    /// Whether an address is one of this platform's.
    #[must_use]
    pub fn owns(&self, jid: &str) -> bool {
        match self.form {
            Form::Prefix { prefix, .. } => jid.split_once(':').is_some_and(|(before, _)| before == prefix),
            Form::Suffixes { suffixes, .. } => {
                !jid.contains(':') && suffixes.iter().any(|suffix| jid.ends_with(suffix))
            }
        }
    }

    /// What the ids of its people begin with.
    fn people(&self) -> &'static str {
        match self.form {
            Form::Prefix { prefix, .. } => prefix,
            Form::Suffixes { .. } => self.channel,
        }
    }
}

fn platform_of(jid: &str) -> Option<&'static Platform> {
    KNOWN.iter().find(|platform| platform.owns(jid))
}

/// Returns the name of the channel that owns an address; `unknown` where none does.
#[must_use]
pub fn channel_of(jid: &str) -> &str {
    match (platform_of(jid), jid.split_once(':')) {
        (Some(platform), _) => platform.channel,
        (None, Some((prefix, _))) => prefix,
        (None, None) => "unknown",
    }
}

/// Returns whether the address of a chat shows that it is a person's alone with the agent; where it shows nothing, it is taken
/// for a group, in which more is kept from the agent.
#[must_use]
pub fn kind_of(jid: &str) -> ChatKind {
    let direct = platform_of(jid).is_some_and(|platform| match platform.form {
        Form::Prefix { direct, .. } => jid.split_once(':').is_some_and(|(_, id)| direct(id)),
        Form::Suffixes { direct, .. } => jid.ends_with(direct),
    });
    if direct { ChatKind::Direct } else { ChatKind::Group }
}

/// Returns a sender's id as users are named: with the prefix of the platform's people, unless it has that one. A handle with
/// another channel's prefix is a handle: nobody is somebody of another channel by what they call themselves. Empty where the
/// channel does not say who it is.
#[must_use]
pub fn user_id(chat_jid: &str, sender: &str) -> String {
    let people = match (platform_of(chat_jid), chat_jid.split_once(':')) {
        (Some(platform), _) => platform.people(),
        (None, Some((prefix, _))) => prefix,
        // An address without a prefix is one of WhatsApp's, of whatever kind.
        (None, None) => KNOWN[3].people(),
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
    let whole = |platform: &&Platform| matches!(platform.form, Form::Suffixes { .. });
    let mut whole = KNOWN.iter().filter(whole);
    let address = whole.find_map(|platform| user.strip_prefix(platform.people())?.strip_prefix(':'));
    address.unwrap_or(user)
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
            ("irc:#chess", "irc", ChatKind::Group),
            ("x", "unknown", ChatKind::Group),
        ] {
            assert_eq!((channel_of(jid), kind_of(jid)), (channel, kind), "{jid}");
        }
        assert!(Platform::named("fake").owns("fake:1") && !Platform::named("fake").owns("faker:1"));
    }

    #[test]
    fn the_chat_of_a_user_is_their_id_but_on_whatsapp_where_the_id_holds_it() {
        assert_eq!(direct_chat("tg:7"), "tg:7");
        assert_eq!(direct_chat("whatsapp:49@s.whatsapp.net"), "49@s.whatsapp.net");
    }
}
