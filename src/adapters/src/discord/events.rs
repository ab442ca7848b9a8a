//! What comes from Discord, and what it is for G2. Nothing here asks anybody.

use std::ops::Deref;

use channel_protocol::{Attached, Event, EventKind, From, Kind, Mention, ReplyTo};
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::IgnoredAny};
use serde_json::Value;

use super::said::Notice;
use crate::kit::{LONGEST_ANSWERED, LONGEST_TEXT, below_one_another, cut, forwarded, unknown};

/// The files of one message that are told of.
const MOST_FILES: usize = 32;

/// Reads a field. One that is `null`, or of another type than documented, is as one that is not there: it spoils none beside it.
fn some<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(from: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

/// A list, without what can't be read of it.
#[derive(Clone, Debug)]
pub(super) struct Many<T>(pub(super) Vec<T>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for Many<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = Vec::<Value>::deserialize(from)?;
        Ok(Self(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()))
    }
}

/// The message that another one names.
#[derive(Clone, Debug, Default)]
pub(super) enum Referenced {
    /// Discord does not say what stands there.
    #[default]
    Untold,
    Deleted,
    Message(Box<Message>),
}

impl<'de> Deserialize<'de> for Referenced {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        if value.is_null() {
            return Ok(Self::Deleted);
        }
        Ok(serde_json::from_value(value).map_or(Self::Untold, Self::Message))
    }
}

impl Referenced {
    fn message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Untold | Self::Deleted => None,
        }
    }
}

macro_rules! read {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $of:ty),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default)]
        pub(super) struct $name {
            $($(#[$field_about])* #[serde(deserialize_with = "some")] pub(super) $field: $of,)*
        }
    };
}

read!(User { id: String, username: String, global_name: String, bot: bool });
read!(Member { nick: String, user: User });
read!(File { url: String, filename: String, content_type: String, size: u64, duration_secs: f64 });
read!(Named { name: String });
read!(Field { name: String, value: String });
read!(Footer { text: String });
read!(Embed {
    r#type: String,
    title: String,
    url: String,
    description: String,
    author: Named,
    fields: Many<Field>,
    footer: Footer,
});
read!(Answer { text: String, emoji: Named });
read!(Choice { answer_id: u64, poll_media: Answer });
read!(Votes { id: u64, count: u64 });
read!(Results { is_finalized: bool, answer_counts: Many<Votes> });
read!(Poll { question: Answer, answers: Many<Choice>, allow_multiselect: bool, results: Results });
read!(Reference {
    /// 1: forwarded.
    r#type: u64,
    message_id: String,
    channel_id: String,
});
read!(
    /// A message that was forwarded, as it was then.
    Snapshot { message: Message, }
);
read!(
    /// A message, whole or what an edit tells of it.
    Message {
        id: String,
        channel_id: String,
        guild_id: String,
        author: User,
        member: Member,
        content: Option<String>,
        timestamp: String,
        edited_timestamp: String,
        mention_everyone: bool,
        mentions: Many<User>,
        mention_roles: Many<String>,
        attachments: Many<File>,
        embeds: Many<Embed>,
        sticker_items: Many<Named>,
        poll: Option<Poll>,
        activity: Option<serde_json::Map<String, Value>>,
        application: Named,
        components: Value,
        webhook_id: String,
        r#type: u64,
        flags: u64,
        message_reference: Reference,
        referenced_message: Referenced,
        message_snapshots: Many<Snapshot>,
        nonce: Value,
    }
);
read!(Emoji { id: String, name: String });
read!(
    /// A sign that was put to a message, or taken back.
    Reaction { user_id: String, channel_id: String, message_id: String, guild_id: String, member: Member, emoji: Emoji, }
);
read!(Deleted { id: String, ids: Many<String>, channel_id: String, guild_id: String, });
read!(
    /// What stands behind a command.
    Given { value: Value, }
);
read!(
    /// What was pressed, or which command was given.
    Pressed { custom_id: String, name: String, r#type: u64, options: Many<Given>, }
);
read!(
    /// A button that was pressed, or a command that was chosen from the list.
    Interaction {
        id: String,
        application_id: String,
        r#type: u64,
        token: String,
        channel_id: String,
        guild_id: String,
        member: Member,
        user: User,
        message: Message,
        data: Pressed,
        app_permissions: String,
    }
);
read!(
    /// A channel, a thread or a chat with one person.
    Channel {
        id: String,
        r#type: u64,
        name: String,
        guild_id: String,
        parent_id: String,
        last_message_id: String,
        recipients: Many<User>,
    }
);
read!(
    /// A server with its channels.
    Guild {
        id: String,
        name: String,
        unavailable: bool,
        joined_at: String,
        channels: Many<Channel>,
        threads: Many<Channel>,
        roles: Many<Role>,
    }
);
read!(Tags { bot_id: String });
read!(
    /// A role of a server; Discord itself gives each bot one of its own.
    Role { id: String, name: String, tags: Tags, }
);
read!(
    /// A role that came, changed or went.
    RoleTold { guild_id: String, role: Role, role_id: String, }
);
read!(Unready { id: String });
read!(Ready { guilds: Many<Unready>, });

/// One thing that the gateway tells.
#[derive(Debug)]
pub(super) enum Told {
    Ready(Ready),
    Resumed,
    Guild(Box<Guild>),
    Channel(Box<Channel>),
    Role(Box<RoleTold>),
    Message(Box<Message>),
    Edited(Box<Message>),
    Deleted(Deleted),
    Reaction(Box<Reaction>, bool),
    Interaction(Box<Interaction>),
}

#[derive(Deserialize)]
struct Kinded<'a> {
    #[serde(borrow)]
    t: Option<&'a str>,
    #[serde(rename = "d")]
    _data: IgnoredAny,
}

#[derive(Deserialize)]
struct Data<T> {
    d: T,
}

/// Reads a line of the gateway's. `None`: nothing that concerns us.
pub(super) fn read(line: &str) -> Result<Option<Told>, serde_json::Error> {
    fn data<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, serde_json::Error> {
        Ok(serde_json::from_str::<Data<T>>(line)?.d)
    }
    let kind = serde_json::from_str::<Kinded>(line)?.t.unwrap_or_default();
    Ok(Some(match kind {
        "READY" => Told::Ready(data(line)?),
        "RESUMED" => Told::Resumed,
        "GUILD_CREATE" => Told::Guild(data(line)?),
        "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => Told::Channel(data(line)?),
        "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" | "GUILD_ROLE_DELETE" => Told::Role(data(line)?),
        "MESSAGE_CREATE" => Told::Message(data(line)?),
        "MESSAGE_UPDATE" => Told::Edited(data(line)?),
        "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => Told::Deleted(data(line)?),
        "MESSAGE_REACTION_ADD" => Told::Reaction(data(line)?, true),
        "MESSAGE_REACTION_REMOVE" => Told::Reaction(data(line)?, false),
        "INTERACTION_CREATE" => Told::Interaction(data(line)?),
        _ => return Ok(None),
    }))
}

impl Interaction {
    /// Whether we may see where it was made: a command can be chosen where the bot is shut out. An administrator sees everything.
    pub(super) fn is_seen(&self) -> bool {
        const ADMINISTRATOR: u64 = 1 << 3;
        const VIEW_CHANNEL: u64 = 1 << 10;
        self.app_permissions.is_empty() || number(&self.app_permissions) & (ADMINISTRATOR | VIEW_CHANNEL) != 0
    }

    /// Returns the words that a chosen command stands for. `None`: it is none of the texts that begin with a slash.
    pub(super) fn words(&self) -> Option<String> {
        // 2: a command; of its kinds 1 is one that is written.
        if self.r#type != 2 || self.data.r#type != 1 || self.data.name.is_empty() {
            return None;
        }
        let given = self.data.options.iter().filter_map(|given| given.value.as_str()).map(str::trim);
        let all = given
            .filter(|text| !text.is_empty())
            .fold(format!("/{}", self.data.name), |all, text| all + " " + text);
        Some(cut(&all, LONGEST_TEXT))
    }
}

impl Channel {
    pub(super) const fn is_direct(&self) -> bool {
        matches!(self.r#type, 1 | 3)
    }

    pub(super) const fn is_thread(&self) -> bool {
        matches!(self.r#type, 10..=12)
    }

    /// Whether everybody reads it who reads the channel above it.
    pub(super) const fn is_open_thread(&self) -> bool {
        matches!(self.r#type, 10 | 11)
    }

    /// Whether messages are written there: not in categories, forums and shops.
    pub(super) const fn has_messages(&self) -> bool {
        matches!(self.r#type, 0..=3 | 5 | 10..=13)
    }
}

/// Who we are where a message was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Us<'a> {
    pub(super) id: &'a str,
    /// The role that is ours alone in this server.
    pub(super) role: Option<&'a Role>,
}

impl User {
    pub(super) fn shown(&self, member: &Member) -> String {
        let names = [&member.nick, &self.global_name, &self.username];
        names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
    }

    pub(super) fn is(&self, member: &Member) -> From {
        From {
            id: self.id.clone(),
            name: self.shown(member),
            handle: self.username.clone(),
            bot: self.bot,
            ..From::default()
        }
    }
}

impl Message {
    fn from(&self) -> From {
        From { bot: self.author.bot || !self.webhook_id.is_empty(), ..self.author.is(&self.member) }
    }

    /// Whom it names. Another role or everybody is nobody in particular.
    fn mention(&self, us: Us<'_>) -> Mention {
        let by_role = us.role.is_some_and(|role| self.mention_roles.contains(&role.id));
        if by_role || self.mentions.iter().any(|user| user.id == us.id) {
            Mention::Me
        } else if self.mention_everyone {
            Mention::All
        } else {
            Mention::None
        }
    }

    fn reply_to(&self, us: Us<'_>) -> Option<ReplyTo> {
        let to = &self.message_reference;
        // A post that Discord brings from a channel that is followed names where it is from.
        let is_brought = self.flags & (1 << 1) != 0;
        if to.r#type != 0 || to.message_id.is_empty() || is_brought {
            return None;
        }
        let is_here = to.channel_id.is_empty() || to.channel_id == self.channel_id;
        let of = self.referenced_message.message();
        Some(ReplyTo {
            id: if is_here { to.message_id.clone() } else { String::new() },
            from: of.map(|of| of.author.shown(&of.member)).unwrap_or_default(),
            myself: of.is_some_and(|of| of.author.id == us.id),
            text: match &self.referenced_message {
                Referenced::Message(of) => some_text(&cut(&of.said(us), LONGEST_ANSWERED)),
                Referenced::Deleted => Some("[deleted message]".into()),
                Referenced::Untold => None,
            },
            quote: None,
            kind: of.and_then(|of| of.files().first().map(|file| file.kind)),
            elsewhere: if is_here { String::new() } else { "another channel".into() },
        })
    }

    fn files(&self) -> Vec<Attached> {
        // A spoken message says so.
        let told = |of: &Self| -> Vec<Attached> {
            let voice = of.flags & (1 << 13) != 0;
            of.attachments.iter().map(|file| file.told(voice)).collect()
        };
        let forwarded = self.message_snapshots.iter().flat_map(|snapshot| told(&snapshot.message));
        forwarded.chain(told(self)).take(MOST_FILES).collect()
    }

    /// What was forwarded, in words. `None`: nothing was.
    fn forwarded(&self, us: Us<'_>) -> Option<String> {
        if self.message_reference.r#type != 1 && self.message_snapshots.is_empty() {
            return None;
        }
        let all: Vec<String> = self
            .message_snapshots
            .iter()
            .take(MOST_FILES)
            .map(|snapshot| snapshot.message.words(us))
            .collect();
        let all = below_one_another(&all.iter().map(String::as_str).collect::<Vec<_>>());
        Some(cut(&all, LONGEST_TEXT))
    }

    /// All that it says, its author's words first. Discord does not tell whose the forwarded ones are.
    fn said(&self, us: Us<'_>) -> String {
        let of_another = self.forwarded(us).map(|words| below_one_another(&[&forwarded(""), &words]));
        below_one_another(&[&self.words(us), &of_another.unwrap_or_default()])
    }

    /// The event that it is for G2, without its place. `None`: it says nothing, such as that somebody joined. `from` is what the
    /// channel is called that a forwarded message is from; empty: Discord does not say.
    pub(super) fn event(&self, us: Us<'_>, from: &str) -> Option<Event> {
        let base = Event {
            key: self.id.clone(),
            kind: EventKind::Message,
            id: self.id.clone(),
            at: some_text(&self.timestamp),
            from: self.from(),
            ..Event::default()
        };
        match self.notice(us) {
            Notice::Written => Some(self.whole(us, from, base)),
            Notice::Words(words) => Some(Event { text: words, mention: Mention::None, ..base }),
            Notice::Nothing => None,
            Notice::Unknown => {
                Some(self.whole(us, from, Event { unknown_kind: self.r#type.to_string(), ..base }))
            }
        }
    }

    /// Puts all that it says to its event: its words, its files, what it answers, and what was forwarded.
    fn whole(&self, us: Us<'_>, from: &str, base: Event) -> Event {
        let kind = Some(&base.unknown_kind).filter(|kind| !kind.is_empty());
        let kind = kind.map(|kind| unknown(kind)).unwrap_or_default();
        let text = below_one_another(&[&kind, &self.words(us)]);
        let attachments = self.files();
        let (mention, reply_to) = (self.mention(us), self.reply_to(us));
        let event = Event { mention, reply_to, attachments, ..base };
        match self.forwarded(us) {
            Some(forwarded) => Event {
                text: match forwarded.is_empty() && event.attachments.is_empty() {
                    true => "[forwarded message of which Discord shows bots nothing]".into(),
                    false => forwarded,
                },
                comment: text,
                forwarded_from: Some(from.to_owned()),
                ..event
            },
            None if text.is_empty() && event.attachments.is_empty() => Event {
                text: "[message of which Discord shows bots nothing]".into(),
                unknown_kind: "empty".into(),
                ..event
            },
            None => Event { text, ..event },
        }
    }

    /// The event of its edit. `None`: only Discord changed something, as a picture for a link. `from` is as for the message itself.
    pub(super) fn edit(&self, us: Us<'_>, from: &str) -> Option<Event> {
        if self.edited_timestamp.is_empty() || self.content.is_none() {
            return None;
        }
        let base = Event {
            key: format!("e{}.{}", self.id, self.edited_timestamp),
            kind: EventKind::Edit,
            id: self.id.clone(),
            of: self.id.clone(),
            at: some_text(&self.edited_timestamp),
            from: self.from(),
            ..Event::default()
        };
        Some(self.whole(us, from, base))
    }
}

impl Message {
    /// Whether its edit is older than a time, ms since 1970: Discord tells it again where such a message is pinned.
    pub(super) fn was_edited_before(&self, ms: i64) -> bool {
        let edited = self.edited_timestamp.parse::<jiff::Timestamp>();
        edited.is_ok_and(|edited| edited.as_millisecond() < ms)
    }
}

fn some_text(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

impl File {
    fn told(&self, voice: bool) -> Attached {
        let mime = self.content_type.clone();
        let kind = match mime.split('/').next() {
            Some("audio") if voice => Kind::Voice,
            Some("audio") => Kind::Audio,
            Some("image") => Kind::Image,
            Some("video") => Kind::Video,
            _ => Kind::Document,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "seconds, between none and a day"
        )]
        let seconds = (self.duration_secs > 0.0).then(|| self.duration_secs.min(86_400.0).round() as u64);
        Attached {
            fetch: some_text(&self.url),
            kind,
            mime,
            name: some_text(&self.filename),
            bytes: Some(self.size),
            seconds,
            ..Attached::default()
        }
    }
}

impl Emoji {
    /// The sign itself, or the name and the number of a server's own one.
    pub(super) fn shown(&self) -> String {
        if self.id.is_empty() { self.name.clone() } else { format!("{}:{}", self.name, self.id) }
    }
}

/// The time in an id, ms since 1970.
pub(super) const fn at_ms(id: u64) -> u64 {
    (id >> 22) + 1_420_070_400_000
}

/// The time in an id, RFC 3339. `None`: it is none.
pub(super) fn time_of(id: &str) -> Option<String> {
    let ms = i64::try_from(at_ms(number(id))).ok()?;
    jiff::Timestamp::from_millisecond(ms).ok().map(|at| at.to_string())
}

/// The least id of a time.
pub(super) const fn id_at(ms: u64) -> u64 {
    ms.saturating_sub(1_420_070_400_000) << 22
}

/// An id as a number; 0: it is none.
pub(super) fn number(id: &str) -> u64 {
    id.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
