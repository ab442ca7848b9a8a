//! From an update to what the daemon is told. Pure.

use std::collections::BTreeMap;

use channel_protocol::{Attached, Chat, ChatKind, Event, EventKind, From, Kind, Mention, ReplyTo};
use jiff::Timestamp;
use serde_json::Value;

use super::wire;

/// The largest file that Telegram gives to a bot.
pub(super) const LARGEST_IN: u64 = 20 << 20;
/// The topic of a forum that is always there.
pub(super) const GENERAL: &str = "1";

/// Who we are, as far as reading needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Us {
    pub(super) prefix: String,
    pub(super) id: i64,
    /// Without the `@`.
    pub(super) handle: String,
    /// When the connection began by Telegram's clock; earlier messages are late.
    pub(super) since: Option<i64>,
}

/// What an update becomes, in order. The last one is an event, which has the cursor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Event(Box<Event>),
    /// A pressed button, and the id by which the presser is answered.
    Press(Box<Event>, String),
    Moved {
        from: String,
        to: String,
    },
    Chat(Chat),
}

/// Makes one message of the pieces of an album that stand beside one another. It has the first piece's key and id, and the last
/// one's cursor: the pieces are stored together, or told again.
pub(super) fn joined(items: Vec<Item>) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::new();
    for item in items {
        let item = match item {
            Item::Event(more) => match all.last_mut() {
                Some(Item::Event(one)) if is_piece(one, &more) => {
                    join(one, *more);
                    continue;
                }
                Some(_) | None => Item::Event(more),
            },
            other => other,
        };
        all.push(item);
    }
    all
}

fn is_piece(one: &Event, more: &Event) -> bool {
    let of = |event: &Event| (event.kind, event.album.clone(), event.chat.clone(), event.from.id.clone());
    one.kind == EventKind::Message && one.album.is_some() && of(one) == of(more)
}

fn join(one: &mut Event, more: Event) {
    if !more.text.is_empty() {
        let between = if one.text.is_empty() { "" } else { "\n" };
        one.text = format!("{}{between}{}", one.text, more.text);
    }
    if more.mention == Mention::Me {
        one.mention = Mention::Me;
    }
    one.attachments.extend(more.attachments);
    one.cursor = more.cursor;
}

/// Whether the newest update is a piece of an album: more of it may come.
pub(super) fn ends_in_album(updates: &Value) -> bool {
    let newest = updates.as_array().and_then(|all| all.last());
    let message = newest.and_then(|update| update.get("message").or_else(|| update.get("channel_post")));
    message.is_some_and(|message| message.get("media_group_id").is_some())
}

impl Us {
    pub(super) fn chat(&self, id: i64) -> String {
        format!("{}:{id}", self.prefix)
    }

    /// Reads an update.
    pub(super) fn read(&self, update: wire::Update) -> Vec<Item> {
        let key = format!("u{}", update.update_id);
        let mut items = self.items(update);
        if !matches!(items.last(), Some(Item::Event(_) | Item::Press(..))) {
            items.push(Item::Event(Box::new(Event { kind: EventKind::Nothing, ..Event::default() })));
        }
        let mut part = 0;
        for item in &mut items {
            if let Item::Event(event) | Item::Press(event, _) = item {
                event.key = if part == 0 { key.clone() } else { format!("{key}.{part}") };
                part += 1;
            }
        }
        if let Some(Item::Event(event) | Item::Press(event, _)) = items.last_mut() {
            event.cursor = cursor(&key[1..]);
        }
        items
    }

    fn items(&self, update: wire::Update) -> Vec<Item> {
        if let Some(message) = update.message.or(update.channel_post) {
            return self.message(*message, EventKind::Message);
        }
        if let Some(message) = update.edited_message.or(update.edited_channel_post) {
            return self.message(*message, EventKind::Edit);
        }
        if let Some(press) = update.callback_query {
            return self.press(*press).into_iter().collect();
        }
        if let Some(reacted) = update.message_reaction {
            return self.reactions(*reacted);
        }
        if let Some(member) = update.my_chat_member {
            return vec![Item::Chat(self.about(&member.chat))];
        }
        Vec::new()
    }

    fn message(&self, message: wire::Message, kind: EventKind) -> Vec<Item> {
        if let Some(to) = message.migrate_to_chat_id {
            return vec![Item::Moved { from: self.chat(message.chat.id), to: self.chat(to) }];
        }
        if let Some(from) = message.migrate_from_chat_id {
            return vec![Item::Moved { from: self.chat(from), to: self.chat(message.chat.id) }];
        }
        let attachments = attachments(&message);
        let (text, entities) = match (&message.text, &message.caption) {
            (Some(text), _) => (text.clone(), &message.entities),
            (None, Some(caption)) => (caption.clone(), &message.caption_entities),
            (None, None) => (in_words(&message), &message.entities),
        };
        if text.is_empty() && attachments.is_empty() {
            // Somebody joined, a message was pinned: nothing that was said.
            return Vec::new();
        }
        let reply_to = self.reply_to(&message);
        let replies_to_us = reply_to.as_ref().is_some_and(|to| to.myself);
        let named = entities.iter().any(|entity| self.is_named(entity, &text));
        let at = message.edit_date.filter(|_| kind == EventKind::Edit).unwrap_or(message.date);
        let id = message.message_id.to_string();
        vec![Item::Event(Box::new(Event {
            kind,
            chat: self.chat(message.chat.id),
            thread: thread(&message),
            of: if kind == EventKind::Edit { id.clone() } else { String::new() },
            id,
            at: instant(at),
            late: self.since.is_some_and(|since| at < since),
            from: self.from(message.sender_chat.as_ref(), message.from.as_ref()),
            text,
            mention: if named || replies_to_us { Mention::Me } else { Mention::None },
            reply_to,
            forwarded_from: message.forward_origin.as_ref().map(origin),
            album: message.media_group_id.clone(),
            attachments,
            about: Some(self.about(&message.chat)),
            ..Event::default()
        }))]
    }

    fn press(&self, press: wire::Press) -> Option<Item> {
        let message = press.message?;
        let id = message.message_id.to_string();
        let event = Event {
            kind: EventKind::Press,
            chat: self.chat(message.chat.id),
            thread: thread(&message),
            of: id.clone(),
            id,
            from: self.from(None, Some(&press.from)),
            press: press.data?,
            about: Some(self.about(&message.chat)),
            ..Event::default()
        };
        Some(Item::Press(Box::new(event), press.id))
    }

    fn reactions(&self, reacted: wire::Reacted) -> Vec<Item> {
        let id = reacted.message_id.to_string();
        let from = self.from(reacted.actor_chat.as_ref(), reacted.user.as_ref());
        let event = |reaction: &wire::Reaction, on| {
            Item::Event(Box::new(Event {
                kind: EventKind::Reaction,
                chat: self.chat(reacted.chat.id),
                id: id.clone(),
                of: id.clone(),
                at: instant(reacted.date),
                late: self.since.is_some_and(|since| reacted.date < since),
                from: from.clone(),
                emoji: match reaction.kind.as_str() {
                    "custom_emoji" => format!("custom:{}", reaction.custom_emoji_id),
                    "paid" => "⭐".into(),
                    _ => reaction.emoji.clone(),
                },
                on,
                ..Event::default()
            }))
        };
        let (old, new) = (&reacted.old_reaction, &reacted.new_reaction);
        let taken = old.iter().filter(|was| !new.contains(was)).map(|was| event(was, false));
        let put = new.iter().filter(|is| !old.contains(is)).map(|is| event(is, true));
        taken.chain(put).collect()
    }

    fn reply_to(&self, message: &wire::Message) -> Option<ReplyTo> {
        // In a topic everything answers the notice that made the topic, unless a person answers something.
        let to = message.reply_to_message.as_ref().filter(|to| to.forum_topic_created.is_none())?;
        let from = self.from(to.sender_chat.as_ref(), to.from.as_ref());
        Some(ReplyTo {
            id: to.message_id.to_string(),
            myself: from.myself,
            from: from.id,
            text: to.text.clone().or_else(|| to.caption.clone()),
            quote: message.quote.as_ref().map(|quote| quote.text.clone()),
            ..ReplyTo::default()
        })
    }

    fn from(&self, chat: Option<&wire::Chat>, user: Option<&wire::User>) -> From {
        // A sender in the name of a chat has that chat's id: the user beside it is the same for everybody.
        if let Some(chat) = chat {
            return From {
                id: chat.id.to_string(),
                name: chat_name(chat),
                handle: handle(chat.username.as_deref()),
                ..From::default()
            };
        }
        let Some(user) = user else { return From::default() };
        From {
            id: user.id.to_string(),
            name: full_name(&user.first_name, user.last_name.as_deref()),
            handle: handle(user.username.as_deref()),
            bot: user.is_bot,
            myself: user.id == self.id,
        }
    }

    /// Whether a stretch of a text names us.
    fn is_named(&self, entity: &wire::Entity, text: &str) -> bool {
        let is_ours = |name: &str| !self.handle.is_empty() && name.eq_ignore_ascii_case(&self.handle);
        match entity.kind.as_str() {
            "mention" => stretch(text, entity).strip_prefix('@').is_some_and(is_ours),
            "bot_command" => stretch(text, entity).split_once('@').is_some_and(|(_, name)| is_ours(name)),
            "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == self.id),
            _ => false,
        }
    }

    fn about(&self, chat: &wire::Chat) -> Chat {
        Chat {
            chat: self.chat(chat.id),
            name: chat_name(chat),
            kind: if chat.kind == "private" { ChatKind::Direct } else { ChatKind::Group },
            threaded: chat.is_forum,
            members: None,
        }
    }
}

/// Where the adapter goes on after an update.
pub(super) fn cursor(update: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("updates".to_owned(), update.to_owned())])
}

fn instant(seconds: i64) -> Option<String> {
    Timestamp::from_second(seconds).ok().filter(|_| seconds > 0).map(|at| at.to_string())
}

fn thread(message: &wire::Message) -> String {
    match message.message_thread_id {
        Some(thread) if message.is_topic_message => thread.to_string(),
        // A plain group names a thread for each answer to an answer; those are no topics.
        _ if message.chat.is_forum && message.chat.kind == "supergroup" => GENERAL.to_owned(),
        _ => String::new(),
    }
}

fn full_name(first: &str, last: Option<&str>) -> String {
    last.map_or_else(|| first.to_owned(), |last| format!("{first} {last}").trim().to_owned())
}

fn chat_name(chat: &wire::Chat) -> String {
    chat.title.clone().unwrap_or_else(|| {
        full_name(chat.first_name.as_deref().unwrap_or_default(), chat.last_name.as_deref())
    })
}

fn handle(name: Option<&str>) -> String {
    name.map(|name| format!("@{name}")).unwrap_or_default()
}

fn origin(origin: &wire::Origin) -> String {
    let user = origin.sender_user.as_ref();
    user.map(|user| full_name(&user.first_name, user.last_name.as_deref()))
        .or_else(|| origin.sender_user_name.clone())
        .or_else(|| origin.sender_chat.as_ref().or(origin.chat.as_ref()).map(chat_name))
        .unwrap_or_default()
}

/// Returns a stretch of a text; empty where it goes beyond the text.
fn stretch(text: &str, entity: &wire::Entity) -> String {
    let units: Vec<u16> = text.encode_utf16().skip(entity.offset).take(entity.length).collect();
    String::from_utf16(&units).unwrap_or_default()
}

/// Returns what was said without words or files.
fn in_words(message: &wire::Message) -> String {
    if let Some(sticker) = &message.sticker {
        return format!("[{}]", format!("Sticker {}", sticker.emoji).trim_end());
    }
    if let Some(venue) = &message.venue {
        return format!("[Location: {}, {}]", venue.title, venue.address);
    }
    if let Some(at) = &message.location {
        return format!("[Location: {}, {}]", at.latitude, at.longitude);
    }
    if let Some(contact) = &message.contact {
        let name = full_name(&contact.first_name, contact.last_name.as_deref());
        return format!("[Contact: {name}, {}]", contact.phone_number);
    }
    if let Some(poll) = &message.poll {
        return format!("[Poll: {}]", poll.question);
    }
    message.dice.as_ref().map(|dice| format!("[Dice {} {}]", dice.emoji, dice.value)).unwrap_or_default()
}

fn attachments(message: &wire::Message) -> Vec<Attached> {
    // The sizes of a photo come smallest first. An animation comes with a document that is the same file.
    let photo = message.photo.last().map(|photo| (photo, Kind::Image, "image/jpeg"));
    let animation = message.animation.as_ref();
    let document = message.document.as_ref().filter(|_| animation.is_none());
    [
        photo,
        animation.map(|file| (file, Kind::Video, "video/mp4")),
        document.map(|file| (file, kind_of(file), "application/octet-stream")),
        message.video.as_ref().map(|file| (file, Kind::Video, "video/mp4")),
        message.video_note.as_ref().map(|file| (file, Kind::Video, "video/mp4")),
        message.audio.as_ref().map(|file| (file, Kind::Audio, "audio/mpeg")),
        message.voice.as_ref().map(|file| (file, Kind::Voice, "audio/ogg")),
    ]
    .into_iter()
    .flatten()
    .map(|(file, kind, mime)| attached(file, kind, mime))
    .collect()
}

fn kind_of(file: &wire::File) -> Kind {
    match file.mime_type.as_deref().and_then(|mime| mime.split('/').next()) {
        Some("image") => Kind::Image,
        Some("video") => Kind::Video,
        Some("audio") => Kind::Audio,
        _ => Kind::Document,
    }
}

fn attached(file: &wire::File, kind: Kind, mime: &str) -> Attached {
    let too_large = file.file_size.filter(|size| *size > LARGEST_IN);
    Attached {
        file: None,
        fetch: too_large.is_none().then(|| file.file_id.clone()),
        kind,
        mime: file.mime_type.clone().unwrap_or_else(|| mime.to_owned()),
        name: file.file_name.clone(),
        bytes: file.file_size,
        seconds: file.duration,
        problem: too_large.map(|size| {
            format!("it has {} MB; Telegram gives a bot files of at most 20 MB", size.div_ceil(1 << 20))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn us() -> Us {
        Us { prefix: "tg.work".into(), id: 42, handle: "g2bot".into(), since: Some(100) }
    }

    fn read(update: Value) -> Vec<Item> {
        us().read(serde_json::from_value(update).unwrap())
    }

    /// Reads a message of Ada's with more fields.
    fn message(more: Value) -> Event {
        let mut message = json!({
            "message_id": 9, "date": 200, "from": {"id": 7, "first_name": "Ada"},
            "chat": {"id": -5, "type": "group", "title": "Chess"}, "text": "hello",
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match read(json!({"update_id": 3, "message": message})).remove(0) {
            Item::Event(event) => *event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pieces_of_an_album_are_one_message_where_nothing_stands_between_them() {
        let piece = |update: i64, album: &str, more: Value| {
            let mut message = json!({
                "message_id": update, "date": 200, "from": {"id": 7, "first_name": "Ada"}, "media_group_id": album,
                "chat": {"id": -5, "type": "group"}, "photo": [{"file_id": format!("p{update}")}],
            });
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(json!({"update_id": update, "message": message}))
        };
        let of = |items: Vec<Item>| -> Vec<(String, usize, String, Option<String>)> {
            let event = |item: Item| match item {
                Item::Event(e) => (e.key, e.attachments.len(), e.text, e.cursor.get("updates").cloned()),
                other => panic!("{other:?}"),
            };
            joined(items).into_iter().map(event).collect()
        };
        let one = |key: &str, files, text: &str, cursor: &str| {
            (key.to_owned(), files, text.to_owned(), Some(cursor.to_owned()))
        };
        let named = json!({"caption": "@g2bot look", "caption_entities": [{"type": "mention", "offset": 0, "length": 6}]});
        let album =
            [piece(1, "a", json!({"caption": "x"})), piece(2, "a", json!({})), piece(3, "a", named)].concat();
        assert_eq!(of(album), [one("u1", 3, "x\n@g2bot look", "3")]);
        let mixed = [
            piece(1, "a", json!({})),
            piece(2, "a", json!({"from": {"id": 8, "first_name": "Bob"}})),
            piece(3, "b", json!({})),
            piece(4, "b", json!({"chat": {"id": -6, "type": "group"}})),
        ];
        assert_eq!(of(mixed.concat()).len(), 4);
        let ends = |updates: Value| ends_in_album(&updates);
        let (piece, plain) = (json!({"message": {"media_group_id": "a"}}), json!({"message": {}}));
        assert!(ends(json!([plain, piece])) && !ends(json!([piece, plain])) && !ends(json!([])));
        assert!(ends(json!([{"channel_post": {"media_group_id": "a"}}])));
    }

    #[test]
    fn addresses_have_the_prefix_of_the_account_and_senders_their_plain_numbers() {
        let event = message(json!({}));
        assert_eq!((event.chat.as_str(), event.from.id.as_str()), ("tg.work:-5", "7"));
        assert_eq!((event.key.as_str(), event.cursor["updates"].as_str()), ("u3", "3"));
        assert!(!event.late && message(json!({"date": 99})).late);
    }

    #[test]
    fn the_bot_is_named_by_its_handle_a_command_a_link_or_an_answer() {
        let entity = |kind: &str, at: usize, len: usize| json!([{"type": kind, "offset": at, "length": len}]);
        for (more, is) in [
            (json!({}), Mention::None),
            (json!({"text": "@G2BOT hi", "entities": entity("mention", 0, 6)}), Mention::Me),
            (json!({"text": "@g2bot2 hi", "entities": entity("mention", 0, 7)}), Mention::None),
            (json!({"text": "@g2bot in no entity"}), Mention::None),
            (json!({"text": "/help@g2bot", "entities": entity("bot_command", 0, 11)}), Mention::Me),
            (json!({"text": "/help", "entities": entity("bot_command", 0, 5)}), Mention::None),
            (
                json!({"entities": [{"type": "text_mention", "offset": 0, "length": 5, "user": {"id": 42}}]}),
                Mention::Me,
            ),
            (
                json!({"entities": [{"type": "text_mention", "offset": 0, "length": 5, "user": {"id": 43}}]}),
                Mention::None,
            ),
            (json!({"entities": entity("mention", 4000, 9)}), Mention::None),
            (json!({"reply_to_message": {"message_id": 1, "from": {"id": 42}}}), Mention::Me),
            (json!({"reply_to_message": {"message_id": 1, "from": {"id": 43}}}), Mention::None),
            (
                json!({"text": null, "caption": "@g2bot", "photo": [{"file_id": "p"}],
                    "caption_entities": entity("mention", 0, 6)}),
                Mention::Me,
            ),
        ] {
            assert_eq!(message(more.clone()).mention, is, "{more}");
        }
    }

    #[test]
    fn who_writes_in_the_name_of_a_chat_has_its_number() {
        let channel = json!({"id": -100, "type": "channel", "title": "News", "username": "news"});
        let event = message(json!({"from": {"id": 1_087_968_824, "is_bot": true}, "sender_chat": channel}));
        assert_eq!(
            (event.from.id.as_str(), event.from.name.as_str(), event.from.bot),
            ("-100", "News", false)
        );
        let event = message(json!({"from": {"id": 8, "is_bot": true, "first_name": "Other"}}));
        assert!(event.from.bot && !event.from.myself);
        let post =
            json!({"message_id": 1, "date": 200, "chat": channel, "sender_chat": channel, "text": "x"});
        let Item::Event(event) = read(json!({"update_id": 3, "channel_post": post})).remove(0) else {
            panic!()
        };
        assert_eq!((event.chat.as_str(), event.from.handle.as_str()), ("tg.work:-100", "@news"));
    }

    #[test]
    fn a_topic_is_a_thread_and_an_answer_in_a_plain_group_is_none() {
        let forum = json!({"id": -5, "type": "supergroup", "title": "Club", "is_forum": true});
        let created = json!({"message_id": 4, "from": {"id": 42}, "forum_topic_created": {"name": "t"}});
        let event = message(
            json!({"chat": forum, "message_thread_id": 4, "is_topic_message": true, "reply_to_message": created}),
        );
        assert_eq!((event.thread.as_str(), event.reply_to, event.mention), ("4", None, Mention::None));
        assert_eq!(message(json!({"chat": forum})).thread, "1");
        assert_eq!(message(json!({"message_thread_id": 4})).thread, "");
    }

    #[test]
    fn what_has_no_words_is_said_in_words() {
        let said = |more: Value| {
            let mut all = json!({"text": null});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            message(all).text
        };
        for (more, words) in [
            (json!({"sticker": {"emoji": "👍"}}), "[Sticker 👍]"),
            (json!({"sticker": {}}), "[Sticker]"),
            (json!({"location": {"latitude": 52.5, "longitude": 13.4}}), "[Location: 52.5, 13.4]"),
            (json!({"contact": {"first_name": "Bob", "phone_number": "+49"}}), "[Contact: Bob, +49]"),
            (json!({"poll": {"question": "Tea?"}}), "[Poll: Tea?]"),
            (json!({"dice": {"emoji": "🎲", "value": 4}}), "[Dice 🎲 4]"),
        ] {
            assert_eq!(said(more), words);
        }
    }

    #[test]
    fn a_forwarded_message_names_where_it_is_from() {
        for (origin, name) in [
            (json!({"type": "user", "sender_user": {"first_name": "Bob", "last_name": "K"}}), "Bob K"),
            (json!({"type": "hidden_user", "sender_user_name": "Somebody"}), "Somebody"),
            (json!({"type": "channel", "chat": {"id": -1, "title": "News"}}), "News"),
        ] {
            assert_eq!(message(json!({"forward_origin": origin})).forwarded_from.as_deref(), Some(name));
        }
    }

    #[test]
    fn a_file_that_is_shown_twice_is_one_and_says_its_kind() {
        let gif = json!({"file_id": "g", "mime_type": "video/mp4", "duration": 3});
        let files = message(json!({"animation": gif, "document": gif})).attachments;
        assert_eq!((files.len(), files[0].kind, files[0].seconds), (1, Kind::Video, Some(3)));
        let picture = json!({"file_id": "d", "mime_type": "image/png", "file_name": "a.png"});
        let files = message(json!({"document": picture})).attachments;
        assert_eq!((files[0].kind, files[0].name.as_deref()), (Kind::Image, Some("a.png")));
    }

    #[test]
    fn every_update_ends_with_an_event_that_has_the_cursor() {
        for update in [
            json!({}),
            json!({"poll_answer": {"x": 1}}),
            json!({"message": {"chat": {"id": 1}, "new_chat_title": "x"}}),
            json!({"my_chat_member": {"chat": {"id": 1}}}),
            json!({"message": {"chat": {"id": 1}, "migrate_to_chat_id": -100}}),
            json!({"callback_query": {"id": "q", "data": "x"}}),
            json!({"message_reaction": {"chat": {"id": 1}, "old_reaction": [], "new_reaction": []}}),
        ] {
            let mut with_id = update.clone();
            with_id["update_id"] = 8.into();
            let Some(Item::Event(last)) = read(with_id).pop() else { panic!("{update}") };
            assert_eq!((last.kind, last.cursor["updates"].as_str()), (EventKind::Nothing, "8"), "{update}");
        }
    }
}
