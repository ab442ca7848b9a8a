//! What comes from Discord, and what it is for G2. Nothing here asks anybody.

use channel_protocol::{Attached, Event, EventKind, From, Kind, Mention, ReplyTo};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// The files of one message that are told of.
const MOST_FILES: usize = 10;

/// Makes `null` the same as a field that is not there.
fn some<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
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
read!(Embed { title: String, description: String });
read!(Sticker { name: String });
read!(Reference {
    /// 1: forwarded.
    r#type: u8,
    message_id: String,
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
        mentions: Vec<User>,
        attachments: Vec<File>,
        embeds: Vec<Embed>,
        sticker_items: Vec<Sticker>,
        webhook_id: String,
        r#type: u8,
        flags: u64,
        message_reference: Reference,
        referenced_message: Option<Box<Message>>,
        message_snapshots: Vec<Snapshot>,
        nonce: serde_json::Value,
    }
);
read!(Emoji { id: String, name: String });
read!(
    /// A sign that was put to a message, or taken back.
    Reaction { user_id: String, channel_id: String, message_id: String, guild_id: String, member: Member, emoji: Emoji, }
);
read!(Deleted { id: String, ids: Vec<String>, channel_id: String, guild_id: String, });
read!(Pressed { custom_id: String });
read!(
    /// A button that was pressed.
    Interaction {
        id: String,
        application_id: String,
        r#type: u8,
        token: String,
        channel_id: String,
        guild_id: String,
        member: Member,
        user: User,
        message: Message,
        data: Pressed,
    }
);
read!(
    /// A channel, a thread or a chat with one person.
    Channel {
        id: String,
        r#type: u8,
        name: String,
        guild_id: String,
        parent_id: String,
        last_message_id: String,
        recipients: Vec<User>,
    }
);
read!(
    /// A server with its channels.
    Guild { id: String, name: String, unavailable: bool, joined_at: String, channels: Vec<Channel>, threads: Vec<Channel>, }
);
read!(Unready { id: String });
read!(Ready { guilds: Vec<Unready>, });

/// One thing that the gateway tells.
#[derive(Debug)]
pub(super) enum Told {
    Ready(Ready),
    Resumed,
    Guild(Box<Guild>),
    Channel(Box<Channel>),
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
        "MESSAGE_CREATE" => Told::Message(data(line)?),
        "MESSAGE_UPDATE" => Told::Edited(data(line)?),
        "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => Told::Deleted(data(line)?),
        "MESSAGE_REACTION_ADD" => Told::Reaction(data(line)?, true),
        "MESSAGE_REACTION_REMOVE" => Told::Reaction(data(line)?, false),
        "INTERACTION_CREATE" => Told::Interaction(data(line)?),
        _ => return Ok(None),
    }))
}

impl Channel {
    pub(super) const fn is_direct(&self) -> bool {
        matches!(self.r#type, 1 | 3)
    }

    pub(super) const fn is_thread(&self) -> bool {
        matches!(self.r#type, 10..=12)
    }

    /// Whether messages are written there: not in categories, forums and shops.
    pub(super) const fn has_messages(&self) -> bool {
        matches!(self.r#type, 0..=3 | 5 | 10..=13)
    }
}

impl User {
    fn shown(&self, member: &Member) -> String {
        let names = [&member.nick, &self.global_name, &self.username];
        names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
    }

    pub(super) fn is(&self, member: &Member) -> From {
        From {
            id: self.id.clone(),
            name: self.shown(member),
            handle: self.username.clone(),
            bot: self.bot,
            myself: false,
        }
    }
}

impl Message {
    /// Whether a person or a bot wrote it: Discord itself tells of joins, pins and boosts.
    pub(super) const fn is_written(&self) -> bool {
        matches!(self.r#type, 0 | 19 | 20 | 23)
    }

    fn from(&self) -> From {
        From { bot: self.author.bot || !self.webhook_id.is_empty(), ..self.author.is(&self.member) }
    }

    /// The text, with people and not their numbers in it; what a bot shows in place of one.
    fn text(&self) -> String {
        let mut text = self.content.clone().unwrap_or_default();
        for user in &self.mentions {
            let shown = format!("@{}", user.shown(&Member::default()));
            text =
                text.replace(&format!("<@{}>", user.id), &shown).replace(&format!("<@!{}>", user.id), &shown);
        }
        if text.is_empty() {
            let embeds = self.embeds.iter().flat_map(|embed| [&embed.title, &embed.description]);
            let lines: Vec<&str> = embeds.filter(|line| !line.is_empty()).map(|line| &line[..]).collect();
            text = lines.join("\n");
        }
        if text.is_empty() {
            let stickers = self.sticker_items.iter().map(|sticker| format!("[sticker: {}]", sticker.name));
            text = stickers.collect::<Vec<_>>().join(" ");
        }
        text
    }

    /// Whom it names. A role or everybody is nobody in particular.
    fn mention(&self, me: &str) -> Mention {
        if self.mentions.iter().any(|user| user.id == me) {
            Mention::Me
        } else if self.mention_everyone {
            Mention::All
        } else {
            Mention::None
        }
    }

    fn reply_to(&self, me: &str) -> Option<ReplyTo> {
        if self.message_reference.r#type != 0 || self.message_reference.message_id.is_empty() {
            return None;
        }
        let of = self.referenced_message.as_deref();
        Some(ReplyTo {
            id: self.message_reference.message_id.clone(),
            from: of.map(|of| of.author.shown(&of.member)).unwrap_or_default(),
            myself: of.is_some_and(|of| of.author.id == me),
            text: of.map(Self::text),
            quote: None,
            ..ReplyTo::default()
        })
    }

    fn files(&self) -> Vec<Attached> {
        // A spoken message says so.
        let voice = self.flags & (1 << 13) != 0;
        self.attachments.iter().take(MOST_FILES).map(|file| file.told(voice)).collect()
    }

    /// The event that it is for G2, without its place.
    pub(super) fn event(&self, me: &str) -> Event {
        let forwarded = self.message_snapshots.first().map(|snapshot| &snapshot.message);
        let of = forwarded.unwrap_or(self);
        Event {
            key: self.id.clone(),
            kind: EventKind::Message,
            id: self.id.clone(),
            at: some_text(&self.timestamp),
            from: self.from(),
            text: of.text(),
            mention: self.mention(me),
            reply_to: self.reply_to(me),
            forwarded_from: (self.message_reference.r#type == 1 || forwarded.is_some())
                .then(|| "another channel".into()),
            attachments: of.files(),
            ..Event::default()
        }
    }

    /// The event of its edit. `None`: only Discord changed something, as a picture for a link.
    pub(super) fn edit(&self, me: &str) -> Option<Event> {
        if self.edited_timestamp.is_empty() || self.content.is_none() {
            return None;
        }
        Some(Event {
            key: format!("e{}.{}", self.id, self.edited_timestamp),
            kind: EventKind::Edit,
            id: self.id.clone(),
            of: self.id.clone(),
            at: some_text(&self.edited_timestamp),
            from: self.from(),
            text: self.text(),
            mention: self.mention(me),
            ..Event::default()
        })
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

/// The least id of a time.
pub(super) const fn id_at(ms: u64) -> u64 {
    ms.saturating_sub(1_420_070_400_000) << 22
}

/// An id as a number; 0: it is none.
pub(super) fn number(id: &str) -> u64 {
    id.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(more: serde_json::Value) -> Message {
        let mut message = json!({
            "id": "7", "channel_id": "5", "type": 0, "content": "hi", "timestamp": "2026-11-23T10:00:00.000000+00:00",
            "author": {"id": "1", "username": "ada", "global_name": null}, "edited_timestamp": null, "nonce": 5,
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn only_a_name_of_ours_is_a_mention() {
        let me = json!({"id": "9", "username": "g2", "global_name": "G2"});
        for (more, mention, text) in [
            (json!({"content": "<@9> <@!9> hi", "mentions": [me]}), Mention::Me, "@G2 @G2 hi"),
            (json!({"content": "@everyone", "mention_everyone": true}), Mention::All, "@everyone"),
            (json!({"content": "<@&9>", "mention_roles": ["9"]}), Mention::None, "<@&9>"),
            (json!({"content": "<@1>", "mentions": [{"id": "1", "username": "ada"}]}), Mention::None, "@ada"),
        ] {
            let event = message(more).event("9");
            assert_eq!((event.mention, &event.text[..]), (mention, text));
        }
    }

    #[test]
    fn a_name_is_the_one_that_is_shown_and_a_webhook_is_a_bot() {
        let more = json!({"member": {"nick": "Countess"}, "author": {"id": "1", "username": "ada", "global_name": "Ada"}});
        let from = message(more).event("9").from;
        assert_eq!((&from.name[..], &from.handle[..], from.bot), ("Countess", "ada", false));
        assert!(message(json!({"webhook_id": "3"})).event("9").from.bot);
    }

    #[test]
    fn answers_forwards_embeds_stickers_and_spoken_messages_say_what_they_are() {
        let of = json!({"id": "6", "content": "card", "author": {"id": "9", "username": "g2"}});
        let event =
            message(json!({"type": 19, "message_reference": {"message_id": "6"}, "referenced_message": of}))
                .event("9");
        let reply = event.reply_to.unwrap();
        assert_eq!((&reply.id[..], reply.myself, reply.text.as_deref()), ("6", true, Some("card")));
        let file = json!({"url": "https://cdn.discordapp.com/v", "filename": "v.ogg", "content_type": "audio/ogg", "size": 4, "duration_secs": 1.6});
        let event = message(json!({"content": "", "message_reference": {"type": 1, "message_id": "6"},
            "message_snapshots": [{"message": {"content": "before", "flags": 8192, "attachments": [file]}}]}))
        .event("9");
        assert_eq!((&event.text[..], event.reply_to, event.forwarded_from.is_some()), ("before", None, true));
        assert_eq!((event.attachments[0].kind, event.attachments[0].seconds), (Kind::Voice, Some(2)));
        let event = message(
            json!({"content": "", "embeds": [{"title": "a", "description": null}, {"description": "b"}]}),
        )
        .event("9");
        assert_eq!(event.text, "a\nb");
        assert_eq!(
            message(json!({"content": "", "sticker_items": [{"name": "Wave"}]})).event("9").text,
            "[sticker: Wave]"
        );
    }

    #[test]
    fn a_picture_that_discord_adds_to_a_link_is_no_edit() {
        assert!(message(json!({"embeds": [{"title": "x"}]})).edit("9").is_none());
        let edit = message(json!({"edited_timestamp": "2026-11-23T10:00:01+00:00", "content": "ho"}))
            .edit("9")
            .unwrap();
        assert_eq!(
            (&edit.of[..], &edit.text[..], &edit.key[..]),
            ("7", "ho", "e7.2026-11-23T10:00:01+00:00")
        );
    }

    #[test]
    fn lines_that_do_not_concern_us_and_unknown_fields_are_passed_over() {
        assert!(read(r#"{"op":0,"s":1,"t":"TYPING_START","d":{"x":[1,{}]}}"#).unwrap().is_none());
        assert!(read(r#"{"op":11,"t":null,"d":null}"#).unwrap().is_none());
        let line =
            r#"{"op":0,"s":1,"t":"READY","d":{"v":10,"guilds":[{"id":"4","unavailable":true}],"new":1}}"#;
        assert!(matches!(read(line).unwrap(), Some(Told::Ready(ready)) if ready.guilds[0].id == "4"));
    }

    #[test]
    fn ids_hold_their_time() {
        assert_eq!(at_ms(175_928_847_299_117_063), 1_462_015_105_796);
        assert_eq!(at_ms(id_at(1_462_015_105_796)), 1_462_015_105_796);
    }
}
