//! What events of a room mean. Pure.

use std::collections::VecDeque;

use channel_protocol::{Event, EventKind, From, Kind, Mention, ReplyTo};
use serde_json::Value;

use super::{
    html::{self, Link},
    said,
};
use crate::kit::{LONGEST_TEXT, command_behind, cut};

/// How many messages are remembered, so that what is answered is known.
const REMEMBERED: usize = 1000;
/// How much of one is, bytes.
const REMEMBERED_TEXT: usize = 2048;
/// The longest id that is.
const LONGEST_ID: usize = 512;
/// How many reactions are remembered, so that taking one back is known as that.
const REACTIONS: usize = 4096;

/// The account, as events are read for it.
pub(super) struct Reader {
    /// Our own id: `@bot:example.org`.
    pub(super) me: String,
    /// What we are called, in small letters.
    names: Vec<String>,
    /// What addresses of chats begin with.
    pub(super) prefix: String,
    /// What was written before this is late, ms since 1970.
    pub(super) began: i64,
    /// Reactions by their event: the message and the sign.
    reactions: VecDeque<(String, String, String)>,
    /// The newest messages, by their room and their event.
    remembered: VecDeque<(String, String, Known)>,
}

/// A message that may be answered.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    sender: String,
    text: String,
    kind: Option<Kind>,
}

/// What an event of a room is to us.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    Event(Box<Event>),
    /// The room went on elsewhere.
    Moved(String),
    /// It changes a message that is not known: only its sender may, so it is asked for first.
    Unknown(String),
    /// It can't be read, for it is encrypted.
    Encrypted,
    Nothing,
}

impl Reader {
    pub(super) fn new(me: String, shown_as: &str, prefix: String, began: i64) -> Self {
        let mut names = vec![display_name(&me).to_lowercase(), shown_as.to_lowercase()];
        names.retain(|name| !name.is_empty());
        Self { me, names, prefix, began, reactions: VecDeque::new(), remembered: VecDeque::new() }
    }

    /// The connection begins, or begins again: what was written before is late.
    pub(super) fn connected(&mut self) {
        self.began = jiff::Timestamp::now().as_millisecond();
    }

    /// Returns the address of a room.
    pub(super) fn chat(&self, room: &str) -> String {
        format!("{}:{room}", self.prefix)
    }

    /// Reads an event of a room's timeline.
    pub(super) fn read(&mut self, room: &str, event: &Value) -> Read {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let (kind, id, sender) = (text("type"), text("event_id"), text("sender"));
        if kind == "m.room.tombstone" {
            let to = event["content"]["replacement_room"].as_str().unwrap_or_default();
            return if to.is_empty() { Read::Nothing } else { Read::Moved(to.to_owned()) };
        }
        if id.is_empty() || sender.is_empty() {
            return Read::Nothing;
        }
        let content = &event["content"];
        let base = Event {
            key: id.to_owned(),
            chat: self.chat(room),
            id: id.to_owned(),
            at: event["origin_server_ts"].as_i64().and_then(rfc3339),
            late: event["origin_server_ts"].as_i64().is_some_and(|at| at < self.began),
            from: From {
                id: sender.to_owned(),
                name: display_name(sender),
                handle: sender.to_owned(),
                ..From::default()
            },
            ..Event::default()
        };
        let found = match kind {
            "m.room.encrypted" if sender != self.me => return Read::Encrypted,
            "m.reaction" if sender != self.me => self.reaction(base, content),
            "m.room.redaction" => {
                let of = event["redacts"].as_str().or_else(|| content["redacts"].as_str());
                of.map(|of| self.redaction(room, base, of))
            }
            _ => match changes(kind, event) {
                Some(of) if sender != self.me && self.known(room, of).is_none() => {
                    return Read::Unknown(of.to_owned());
                }
                of => self.message(room, base, kind, event, of),
            },
        };
        match found {
            Some(event) if event.from.id != self.me => Read::Event(Box::new(event)),
            Some(_) | None => Read::Nothing,
        }
    }

    /// Takes in what a message says that is answered, and was asked for.
    pub(super) fn learn(&mut self, room: &str, event: &Value) {
        let _ = self.read(room, event);
        let (id, sender) = (event["event_id"].as_str(), event["sender"].as_str());
        if let (Some(id), Some(sender)) = (id, sender)
            && event["unsigned"]["redacted_because"].is_object()
        {
            let from = From { id: sender.to_owned(), ..From::default() };
            self.remember(room, id, &Event { from, text: said::DELETED.into(), ..Event::default() });
        }
        // Its newest change comes with it.
        let _ = self.read(room, &event["unsigned"]["m.relations"]["m.replace"]);
    }

    /// Says what is known of the message of a room that is answered. `from` is its sender's id.
    pub(super) fn answered(&self, room: &str, to: &mut ReplyTo) {
        if let Some(known) = self.known(room, &to.id) {
            to.from.clone_from(&known.sender);
            to.myself = known.sender == self.me;
            to.text = Some(known.text.clone()).filter(|text| !text.is_empty());
            to.kind = known.kind;
        }
    }

    fn known(&self, room: &str, id: &str) -> Option<&Known> {
        let is = |(of, at, _): &&(String, String, Known)| of == room && at == id;
        self.remembered.iter().rev().find(is).map(|(_, _, known)| known)
    }

    fn remember(&mut self, room: &str, id: &str, event: &Event) {
        if [room, id, &event.from.id].iter().any(|id| id.len() > LONGEST_ID) {
            return;
        }
        let known = Known {
            sender: event.from.id.clone(),
            text: cut(&event.text, REMEMBERED_TEXT),
            kind: event.attachments.first().map(|file| file.kind),
        };
        self.remembered.retain(|(of, at, _)| of != room || at != id);
        self.remembered.push_back((room.to_owned(), id.to_owned(), known));
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
    }

    /// Reads something that people see as a message, and what changes one.
    fn message(
        &mut self,
        room: &str,
        base: Event,
        kind: &str,
        event: &Value,
        of: Option<&str>,
    ) -> Option<Event> {
        let content = &event["content"];
        let relation = &content["m.relates_to"];
        let is_edit = is_edit(event);
        // Anybody can send a change of anybody's message; clients show that of its sender alone.
        match of {
            Some(of) if self.known(room, of).is_none_or(|known| known.sender != base.from.id) => return None,
            None if is_edit => return None,
            Some(_) | None => {}
        }
        let said = if is_edit { &content["m.new_content"] } else { content };
        let mut told = said::told(kind, said, event)?;
        let thread = match &relation["rel_type"] {
            Value::String(kind) if kind == "m.thread" => relation["event_id"].as_str().unwrap_or_default(),
            _ => "",
        };
        let answers = relation["m.in_reply_to"]["event_id"].as_str();
        // In a thread, clients that know none are shown an answer to its last message.
        let answers = answers.filter(|_| relation["is_falling_back"] != true).or(told.answers.as_deref());
        let mut mention = self.mention(said, "", &[]);
        if told.is_text {
            let html = said["formatted_body"].as_str().unwrap_or_default();
            let body = if answers.is_some() { without_quote(&told.text, html) } else { &told.text };
            let links = html::links(html);
            mention = self.mention(said, body, &links);
            let text = match self.command(body) {
                Some(command) => command.to_owned(),
                None => html::told(body, &links),
            };
            told.text =
                if said["msgtype"] == "m.emote" { format!("* {} {text}", base.from.name) } else { text };
        }
        let reply_to = answers.map(|id| {
            let mut to = ReplyTo { id: id.to_owned(), ..ReplyTo::default() };
            self.answered(room, &mut to);
            to
        });
        let event = Event {
            kind: if of.is_some() { EventKind::Edit } else { EventKind::Message },
            quiet: of.is_some() && !is_edit,
            of: of.unwrap_or_default().to_owned(),
            thread: thread.to_owned(),
            mention,
            reply_to,
            // Texts of G2 have a key, also those of another one.
            from: From { bot: said["msgtype"] == "m.notice" || content[super::KEY].is_string(), ..base.from },
            attachments: told.files,
            text: cut(&told.text, LONGEST_TEXT),
            unknown_kind: told.unknown_kind,
            ..base
        };
        let id = if event.of.is_empty() { &event.id } else { &event.of }.clone();
        self.remember(room, &id, &event);
        Some(event)
    }

    /// Returns the command of a text that is our name and it: `G2: /stop`.
    fn command<'a>(&self, body: &'a str) -> Option<&'a str> {
        let body = body.trim_start();
        let named = |name: &str, body: &'a str| {
            let end = body.char_indices().nth(name.chars().count()).map_or(body.len(), |(at, _)| at);
            let behind = &body[end..];
            (body[..end].to_lowercase() == name && behind.starts_with([' ', ':', ','])).then_some(behind)
        };
        let bare = body.strip_prefix('@').unwrap_or(body);
        let behind = named(&self.me.to_lowercase(), body)
            .or_else(|| self.names.iter().find_map(|name| named(name, bare)))?;
        command_behind(behind)
    }

    fn mention(&self, said: &Value, body: &str, links: &[Link]) -> Mention {
        if let Some(named) = said["m.mentions"].as_object() {
            let me = named.get("user_ids").and_then(Value::as_array);
            if me.is_some_and(|ids| ids.iter().any(|id| *id == *self.me)) {
                return Mention::Me;
            }
            return if named.get("room") == Some(&Value::Bool(true)) { Mention::All } else { Mention::None };
        }
        // Clients that do not say whom they mean.
        if links.iter().any(|link| link.person().as_ref() == Some(&self.me)) || body.contains(&self.me) {
            return Mention::Me;
        }
        let body = body.to_lowercase();
        let is_word = |c: char| c.is_alphanumeric() || "_-=".contains(c);
        let named = self.names.iter().any(|name| {
            body.match_indices(name).any(|(at, found)| {
                let (before, after) = (&body[..at], &body[at + found.len()..]);
                !before.ends_with(is_word) && !after.starts_with(is_word)
            })
        });
        if named { Mention::Me } else { Mention::None }
    }

    fn reaction(&mut self, base: Event, content: &Value) -> Option<Event> {
        let relation = &content["m.relates_to"];
        let (of, emoji) = (relation["event_id"].as_str()?, relation["key"].as_str()?);
        self.reactions.push_back((base.id.clone(), of.to_owned(), emoji.to_owned()));
        if self.reactions.len() > REACTIONS {
            self.reactions.pop_front();
        }
        let (of, emoji) = (of.to_owned(), emoji.to_owned());
        Some(Event { kind: EventKind::Reaction, of, emoji, on: true, ..base })
    }

    /// A removed reaction was taken back; anything else that is removed is a deletion.
    fn redaction(&mut self, room: &str, base: Event, of: &str) -> Event {
        let known = self.reactions.iter().find(|(event, _, _)| event == of).cloned();
        let is = |(at, event, _): &&mut (String, String, Known)| at == room && event == of;
        if let Some((_, _, known)) = self.remembered.iter_mut().find(is) {
            (known.text, known.kind) = (said::DELETED.into(), None);
        }
        match known {
            Some((_, of, emoji)) => Event { kind: EventKind::Reaction, of, emoji, on: false, ..base },
            None => Event { kind: EventKind::Delete, of: of.to_owned(), ..base },
        }
    }
}

/// Returns what a person is called where nothing better is known: `ada` of `@ada:example.org`.
pub(super) fn display_name(user: &str) -> String {
    user.trim_start_matches('@').split(':').next().unwrap_or_default().to_owned()
}

/// Whether an event has other words for a message. Those of the room's state have none.
fn is_edit(event: &Value) -> bool {
    event["content"]["m.relates_to"]["rel_type"] == "m.replace" && event.get("state_key").is_none()
}

/// Returns the message whose place an event takes.
fn changes<'a>(kind: &str, event: &'a Value) -> Option<&'a str> {
    if is_edit(event) {
        return event["content"]["m.relates_to"]["event_id"].as_str();
    }
    said::moves(kind, event)
}

/// Takes the lines off that quote what is answered, for clients that do not know answers. Such lines begin with who is quoted, or
/// are marked in the HTML; others are a quote of the writer's own.
fn without_quote<'a>(body: &'a str, html: &str) -> &'a str {
    let names_sender = body.starts_with("> <@") || body.starts_with("> * <@");
    if !body.starts_with("> ") || !(names_sender || html.trim_start().starts_with("<mx-reply>")) {
        return body;
    }
    let mut rest = body;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.trim_start_matches('\n')
}

/// Writes a time in ms since 1970 as RFC 3339, in UTC.
fn rfc3339(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests;
