//! From an update to what the daemon is told. Pure.

use std::collections::BTreeMap;

use channel_protocol::{Attached, Chat, ChatKind, Event, EventKind, From, Kind, Mention, ReplyTo};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    entities::{Command, Marked},
    wire::{handle, is, list, name, number, object, text},
    words::{self, Place, Rich, Said},
};
use crate::kit::{LONGEST_ANSWERED, LONGEST_TEXT, below_one_another, cut, forwarded};

/// The largest file that Telegram gives to a bot.
pub(super) const LARGEST_IN: u64 = 20 << 20;
/// The topic of a forum that is always there.
pub(super) const GENERAL: &str = "1";
/// The files of one message that are told of.
const MOST_FILES: usize = 32;

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

    /// Whether a handle is ours, without its `@`.
    pub(super) fn is_called(&self, name: &str) -> bool {
        !self.handle.is_empty() && name.eq_ignore_ascii_case(&self.handle)
    }

    /// Reads an update, which has a number.
    pub(super) fn read(&self, number: i64, update: &Value) -> Vec<Item> {
        let mut items = self.items(update);
        if !matches!(items.last(), Some(Item::Event(_) | Item::Press(..))) {
            items.push(Item::Event(Box::new(Event { kind: EventKind::Nothing, ..Event::default() })));
        }
        let mut part = 0;
        for item in &mut items {
            if let Item::Event(event) | Item::Press(event, _) = item {
                event.key = if part == 0 { format!("u{number}") } else { format!("u{number}.{part}") };
                part += 1;
            }
        }
        if let Some(Item::Event(event) | Item::Press(event, _)) = items.last_mut() {
            event.cursor = cursor(number);
        }
        items
    }

    fn items(&self, update: &Value) -> Vec<Item> {
        let of = |kinds: [&str; 2]| kinds.iter().find_map(|kind| object(update, kind));
        if let Some(message) = of(["message", "channel_post"]) {
            return self.message(message, EventKind::Message);
        }
        if let Some(message) = of(["edited_message", "edited_channel_post"]) {
            return self.message(message, EventKind::Edit);
        }
        if let Some(press) = object(update, "callback_query") {
            return self.press(press).into_iter().collect();
        }
        if let Some(reacted) = object(update, "message_reaction") {
            return self.reactions(reacted);
        }
        if let Some(member) = object(update, "my_chat_member") {
            let hears_all = Some(is_admin(&member["new_chat_member"]));
            let about = self.about(&member["chat"]).map(|chat| Chat { hears_all, ..chat });
            return about.map(Item::Chat).into_iter().collect();
        }
        Vec::new()
    }

    fn message(&self, message: &Value, kind: EventKind) -> Vec<Item> {
        let (Some(id), Some(about)) = (number(&message["chat"], "id"), self.about(&message["chat"])) else {
            return Vec::new();
        };
        if let Some(to) = number(message, "migrate_to_chat_id") {
            return vec![Item::Moved { from: self.chat(id), to: self.chat(to) }];
        }
        if let Some(from) = number(message, "migrate_from_chat_id") {
            return vec![Item::Moved { from: self.chat(from), to: self.chat(id) }];
        }
        let marked = Marked::of(message);
        let is_edit = kind == EventKind::Edit;
        let forwarded_from = forwarded_from(message);
        // What another bot is told to do is not for us, but for where somebody shows it around.
        let command = if forwarded_from.is_none() { marked.command(self) } else { Command::Open };
        if command == Command::Others {
            return Vec::new();
        }
        let rich = Rich::of(message).unwrap_or_default();
        let attachments: Vec<Attached> = [message]
            .into_iter()
            .chain(rich.files.iter().copied())
            .flat_map(attachments)
            .take(MOST_FILES)
            .collect();
        let is_move = is_edit && object(message, "location").is_some() && object(message, "venue").is_none();
        let written = [marked.told(&command, self), rich.text.clone()];
        let is_empty = written.iter().all(String::is_empty) && attachments.is_empty();
        let (said, unknown_kind) = match words::said(message) {
            Said::Words(_) if is_move => (moved_place(&message["location"]), String::new()),
            Said::Words(words) => (words, String::new()),
            Said::Nothing if is_empty => return Vec::new(),
            Said::Unknown(kind) if is_empty => (words::unknown(&kind), kind),
            Said::Nothing | Said::Unknown(_) => (String::new(), String::new()),
        };
        let mut reply_to = self.reply_to(message);
        let named = marked.names(self) || rich.named.iter().any(|piece| self.is_named(piece));
        let is_for_us = named || reply_to.as_ref().is_some_and(|to| to.myself);
        // The words of another one name nobody for the person who forwards them.
        let is_own = forwarded_from.is_none() || about.kind == ChatKind::Direct;
        if let Some(to) = reply_to.as_mut().filter(|_| !is_own) {
            to.myself = false;
        }
        let date = number(message, "date").unwrap_or(0);
        let at = number(message, "edit_date").filter(|_| is_edit).unwrap_or(date);
        let id = number(message, "message_id").unwrap_or(0).to_string();
        let album = message["media_group_id"].as_str().map(str::to_owned);
        // An edit has one piece of an album, which says nothing of the others.
        let is_piece = is_edit && album.is_some();
        vec![Item::Event(Box::new(Event {
            kind,
            chat: about.chat.clone(),
            thread: thread(message),
            of: if is_edit { id.clone() } else { String::new() },
            id,
            at: instant(at),
            late: self.since.is_some_and(|since| at < since),
            from: self.from(message),
            text: cut(&below_one_another(&[&said, &written[0], &written[1]]), LONGEST_TEXT),
            mention: if is_for_us && is_own { Mention::Me } else { Mention::None },
            reply_to,
            forwarded_from,
            unknown_kind,
            album,
            attachments: if is_piece { Vec::new() } else { attachments },
            quiet: is_move,
            about: Some(about),
            ..Event::default()
        }))]
    }

    fn press(&self, press: &Value) -> Option<Item> {
        let message = object(press, "message")?;
        let about = self.about(&message["chat"])?;
        let id = number(message, "message_id").unwrap_or(0).to_string();
        let event = Event {
            kind: EventKind::Press,
            chat: about.chat.clone(),
            thread: thread(message),
            of: id.clone(),
            id,
            from: self.person(&press["from"]),
            press: press["data"].as_str()?.to_owned(),
            about: Some(about),
            ..Event::default()
        };
        Some(Item::Press(Box::new(event), text(press, "id").to_owned()))
    }

    fn reactions(&self, reacted: &Value) -> Vec<Item> {
        let Some(chat) = number(&reacted["chat"], "id") else { return Vec::new() };
        let id = number(reacted, "message_id").unwrap_or(0).to_string();
        let from = match object(reacted, "actor_chat") {
            Some(chat) => in_the_name_of(chat, ""),
            None => self.person(&reacted["user"]),
        };
        let at = number(reacted, "date").unwrap_or(0);
        let event = |reaction: &Value, on| {
            Item::Event(Box::new(Event {
                kind: EventKind::Reaction,
                chat: self.chat(chat),
                id: id.clone(),
                of: id.clone(),
                at: instant(at),
                late: self.since.is_some_and(|since| at < since),
                from: from.clone(),
                emoji: match text(reaction, "type") {
                    "custom_emoji" => format!("custom:{}", text(reaction, "custom_emoji_id")),
                    "paid" => "⭐".into(),
                    _ => text(reaction, "emoji").to_owned(),
                },
                on,
                ..Event::default()
            }))
        };
        let (old, new) = (list(reacted, "old_reaction"), list(reacted, "new_reaction"));
        let taken = old.iter().filter(|was| !new.contains(was)).map(|was| event(was, false));
        let put = new.iter().filter(|is| !old.contains(is)).map(|is| event(is, true));
        taken.chain(put).collect()
    }

    fn reply_to(&self, message: &Value) -> Option<ReplyTo> {
        let quote = message["quote"]["text"].as_str().map(str::to_owned);
        // In a topic everything answers the notice that made the topic, unless a person answers something.
        let here = object(message, "reply_to_message").filter(|to| to["forum_topic_created"].is_null());
        if let Some(to) = here {
            let from = self.from(to);
            return Some(ReplyTo {
                id: number(to, "message_id").unwrap_or(0).to_string(),
                myself: from.myself,
                from: from.name,
                text: self.answered(to),
                quote: quote.or_else(|| words::answered_part(message, to)),
                kind: attachments(to).first().map(|file| file.kind),
                ..ReplyTo::default()
            });
        }
        if let Some(to) = object(message, "external_reply") {
            let is_here =
                number(&to["chat"], "id").is_some_and(|id| number(&message["chat"], "id") == Some(id));
            let elsewhere = Some(name(&to["chat"])).filter(|name| !name.is_empty());
            let id = number(to, "message_id").filter(|_| is_here);
            return Some(ReplyTo {
                // An id of another chat could be one of ours here.
                id: id.map(|id| id.to_string()).unwrap_or_default(),
                from: origin(&to["origin"]),
                myself: number(&to["origin"]["sender_user"], "id") == Some(self.id),
                text: self.answered(to),
                quote,
                kind: attachments(to).first().map(|file| file.kind),
                elsewhere: match is_here {
                    true => String::new(),
                    false => elsewhere.unwrap_or_else(|| "another chat".into()),
                },
            });
        }
        let story = object(message, "reply_to_story")?;
        Some(ReplyTo {
            from: name(&story["chat"]),
            text: Some("[Story]".into()),
            quote,
            ..ReplyTo::default()
        })
    }

    /// Returns what a message says that is answered.
    fn answered(&self, to: &Value) -> Option<String> {
        let marked = Marked::of(to);
        let written = marked.told(&marked.command(self), self);
        let said = match words::said(to) {
            Said::Words(words) => words,
            Said::Nothing | Said::Unknown(_) => String::new(),
        };
        let rich = Rich::of(to).unwrap_or_default().text;
        let of_another = forwarded_from(to).map(|from| forwarded(&from)).unwrap_or_default();
        let told = cut(&below_one_another(&[&of_another, &said, &written, &rich]), LONGEST_ANSWERED);
        Some(told).filter(|told| !told.is_empty())
    }

    /// Whether a piece of a rich text names us.
    fn is_named(&self, piece: &Value) -> bool {
        number(&piece["user"], "id") == Some(self.id)
            || self.is_called(text(piece, "username").trim_start_matches('@'))
    }

    /// Returns who wrote a message.
    fn from(&self, message: &Value) -> From {
        // A sender in the name of a chat has that chat's id: the user beside it is the same for everybody.
        match object(message, "sender_chat") {
            Some(chat) => in_the_name_of(chat, text(message, "author_signature")),
            None => self.person(&message["from"]),
        }
    }

    fn person(&self, user: &Value) -> From {
        let Some(id) = number(user, "id") else { return From::default() };
        From {
            id: id.to_string(),
            name: name(user),
            handle: handle(user),
            bot: is(user, "is_bot"),
            myself: id == self.id,
            ..From::default()
        }
    }

    fn about(&self, chat: &Value) -> Option<Chat> {
        Some(Chat {
            chat: self.chat(number(chat, "id")?),
            name: name(chat),
            kind: if text(chat, "type") == "private" { ChatKind::Direct } else { ChatKind::Group },
            threaded: is(chat, "is_forum"),
            members: None,
            hears_all: None,
        })
    }

    /// Reads what Telegram answers about a chat, and about us there.
    pub(super) fn standing(&self, chat: &Value, member: &Value) -> Option<Chat> {
        self.about(chat).map(|about| Chat { hears_all: Some(is_admin(member)), ..about })
    }
}

/// Whether somebody is an admin of a chat: a bot that is one is told all of its messages, whatever its privacy mode.
fn is_admin(member: &Value) -> bool {
    matches!(text(member, "status"), "administrator" | "creator")
}

/// Where the adapter goes on after an update.
pub(super) fn cursor(update: i64) -> BTreeMap<String, String> {
    BTreeMap::from([("updates".to_owned(), update.to_string())])
}

pub(super) fn instant(seconds: i64) -> Option<String> {
    Timestamp::from_second(seconds).ok().filter(|_| seconds > 0).map(|at| at.to_string())
}

fn in_the_name_of(chat: &Value, signature: &str) -> From {
    let id = number(chat, "id").unwrap_or(0).to_string();
    From { id, name: signed(chat, signature), handle: handle(chat), ..From::default() }
}

/// Returns what a chat is called, and who of it signed.
fn signed(chat: &Value, signature: &str) -> String {
    if signature.is_empty() { name(chat) } else { format!("{} ({signature})", name(chat)) }
}

fn thread(message: &Value) -> String {
    let chat = &message["chat"];
    match number(message, "message_thread_id") {
        Some(thread) if is(message, "is_topic_message") => thread.to_string(),
        // A plain group names a thread for each answer to an answer; those are no topics.
        _ if is(chat, "is_forum") && text(chat, "type") == "supergroup" => GENERAL.to_owned(),
        _ => String::new(),
    }
}

/// Returns whose words a message has, where they are not its sender's. What Telegram itself brings from a channel to the group
/// beside it is the channel's own.
fn forwarded_from(message: &Value) -> Option<String> {
    if is(message, "is_automatic_forward") {
        return None;
    }
    match message.get("forward_origin").filter(|origin| !origin.is_null()) {
        Some(from) => Some(origin(from)),
        None if message["forward_date"].is_null() => None,
        None => Some(origin_before_7(message)),
    }
}

/// Returns whose words a message has, as servers tell it that are older than Bot API 7.0.
fn origin_before_7(message: &Value) -> String {
    let person = object(message, "forward_from").map(name);
    let hidden = Some(text(message, "forward_sender_name")).filter(|hidden| !hidden.is_empty());
    let chat = object(message, "forward_from_chat");
    person
        .or_else(|| hidden.map(str::to_owned))
        .or_else(|| chat.map(|chat| signed(chat, text(message, "forward_signature"))))
        .unwrap_or_default()
}

fn origin(origin: &Value) -> String {
    let chat = object(origin, "sender_chat").or_else(|| object(origin, "chat"));
    match (object(origin, "sender_user"), text(origin, "sender_user_name"), chat) {
        (Some(user), ..) => name(user),
        (None, "", Some(chat)) => signed(chat, text(origin, "author_signature")),
        (None, hidden, _) => hidden.to_owned(),
    }
}

/// A location that is changed was told live. It has no period any more once that is over.
fn moved_place(at: &Value) -> String {
    words::location(at, if at["live_period"].is_null() { Place::Ended } else { Place::Live })
}

fn attachments(of: &Value) -> Vec<Attached> {
    // The sizes of a photo come smallest first. An animation comes with a document that is the same file.
    let file = |field: &str| object(of, field);
    let photo = list(of, "photo").last().map(|photo| (photo, Kind::Image, "image/jpeg"));
    let document = file("document").filter(|_| file("animation").is_none());
    let mut all: Vec<Attached> = [
        photo,
        file("animation").map(|file| (file, Kind::Video, "video/mp4")),
        document.map(|file| (file, kind_of(file), "application/octet-stream")),
        file("video").map(|file| (file, Kind::Video, "video/mp4")),
        file("live_photo").map(|file| (file, Kind::Video, "video/mp4")),
        file("video_note").map(|file| (file, Kind::Video, "video/mp4")),
        file("audio").map(|file| (file, Kind::Audio, "audio/mpeg")),
        file("voice").map(|file| (file, Kind::Voice, "audio/ogg")),
        file("voice_note").map(|file| (file, Kind::Voice, "audio/ogg")),
    ]
    .into_iter()
    .flatten()
    .filter(|(file, ..)| !text(file, "file_id").is_empty())
    .map(|(file, kind, mime)| attached(file, kind, mime))
    .collect();
    let paid = list(&of["paid_media"], "paid_media").iter();
    all.extend(paid.take(MOST_FILES).chain(object(&of["poll"], "media")).flat_map(attachments));
    all
}

fn kind_of(file: &Value) -> Kind {
    match text(file, "mime_type").split('/').next() {
        Some("image") => Kind::Image,
        Some("video") => Kind::Video,
        Some("audio") => Kind::Audio,
        _ => Kind::Document,
    }
}

fn attached(file: &Value, kind: Kind, mime: &str) -> Attached {
    let some = |field: &str| Some(text(file, field)).filter(|text| !text.is_empty()).map(str::to_owned);
    let count = |field: &str| number(file, field).and_then(|count| u64::try_from(count).ok());
    let size = count("file_size");
    let too_large = size.filter(|size| *size > LARGEST_IN);
    Attached {
        file: None,
        fetch: if too_large.is_none() { some("file_id") } else { None },
        kind,
        mime: some("mime_type").unwrap_or_else(|| mime.to_owned()),
        name: some("file_name"),
        bytes: size,
        seconds: count("duration"),
        problem: too_large.map(|size| {
            format!("it has {} MB; Telegram gives a bot files of at most 20 MB", size.div_ceil(1 << 20))
        }),
    }
}

#[cfg(test)]
mod tests;
