//! What signal-cli tells, as events. Nothing here asks anybody.

use std::collections::BTreeMap;

use channel_protocol::{Attached, Chat, ChatKind, Event, EventKind, From, Kind, Mention, ReplyTo, Start};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    LARGEST,
    people::{MOST_CHANGES, People, Who},
    said::{Said, array, said, with_names},
};
use crate::kit::{LONGEST_ANSWERED, command_behind, cut};

/// How many files of a message are told.
const MOST_FILES: usize = 32;
/// The longest sign of a reaction, and the longest id of a file, bytes.
const LONGEST_SIGN: usize = 64;
const LONGEST_FILE: usize = 256;
/// How many words of messages are remembered for quotes, and how long they are, bytes.
const MOST_HEARD: usize = 256;
const LONGEST_HEARD: usize = 256;
/// The kind of a file that has the rest of a long text, which signal-cli puts into the text.
const LONG_TEXT: &str = "text/x-signal-plain";
/// What the numbers of entries and of changes are called among the cursors.
const NUMBER: &str = "told";
const CHANGE: &str = "edit.";
/// How many changes go with one event: the daemon takes 64 cursors of it.
const MOST_SAVED: usize = 32;

/// Reads what is told, and remembers what later things are about.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) people: People,
    /// When this life began, ms.
    began: i64,
    /// The newest words by their messages' ids, for quotes.
    heard: std::collections::VecDeque<(String, String)>,
    /// Changes that go with the next event, and the number of the next one.
    unsaved: Vec<(String, String)>,
    change: usize,
    /// Chats that are known by a number.
    by_number: std::collections::BTreeSet<String>,
}

/// What is told of an entry.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    Event(Box<Event>),
    /// A group is called so now.
    Group(Chat),
    Nothing,
}

/// Whether something that signal-cli tells is for people; all others pass by and are not kept.
pub(super) fn matters(told: &Value) -> bool {
    let envelope = &told["envelope"];
    ["dataMessage", "editMessage"].iter().any(|of| envelope[of].is_object())
        || envelope["syncMessage"]["sentMessage"].is_object()
        || envelope["callMessage"]["offerMessage"].is_object()
        || told["exception"].is_object()
}

/// Returns the number of the newest entry that the daemon has stored.
pub(super) fn stored(start: &Start) -> u64 {
    start.cursor.get(NUMBER).and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// A message, with what stands around it.
struct Message<'a> {
    says: &'a Value,
    /// The message that it takes the place of.
    changes: Option<u64>,
    by: Who,
    /// The time of the change, or of the message: with its author, its id.
    at: u64,
    /// It was written on another device of our own account.
    from_us: bool,
    chat: String,
    group: Option<String>,
    /// It stands in the account's Note to Self.
    to_us: bool,
}

impl Reader {
    pub(super) fn new(people: People, start: &Start, began: i64) -> Self {
        let by_number = start.chats.keys().filter(|chat| chat.contains(":+")).cloned().collect();
        let mut this = Self { people, began, by_number, ..Self::default() };
        let changes = start.cursor.range(CHANGE.to_owned()..).take_while(|(key, _)| key.starts_with(CHANGE));
        let mut changes: Vec<(usize, &str, &str)> = changes
            .filter_map(|(_, change)| {
                let (n, ids) = change.split_once(' ')?;
                let (new, first) = ids.split_once(' ')?;
                Some((n.parse().ok()?, new, first))
            })
            .collect();
        changes.sort_unstable();
        for (n, new, first) in changes {
            this.people.changed(new.to_owned(), first.to_owned());
            this.change = n.saturating_add(1);
        }
        this
    }

    /// Says what an entry means.
    pub(super) fn read(&mut self, number: u64, told: &Value) -> Read {
        let envelope = &told["envelope"];
        let source = Who::of(&envelope["sourceUuid"], &envelope["sourceNumber"], &envelope["source"]);
        if let (Some(account), Some(ours)) = (told["account"].as_str(), &self.people.us.number)
            && account.starts_with('+')
            && account != ours
        {
            // One that was started for a single account ignores which one is asked for.
            let unread = format!(
                "signal-cli tells the messages of {}, and `account` in g2.toml is {ours}: they are passed over",
                cut(account, LONGEST_SIGN)
            );
            let key = format!("unread.{number}");
            let cursor = self.cursor(number);
            let event = Event { key, kind: EventKind::Nothing, unread, cursor, ..Event::default() };
            return Read::Event(Box::new(event));
        }
        if let Some(who) = &source {
            self.people.learn(who, envelope["sourceName"].as_str().unwrap_or_default());
        }
        let read = match source.and_then(|source| self.message(envelope, source)) {
            Some(message) => self.event(&message, envelope),
            None => unread(told).map_or(Read::Nothing, |event| Read::Event(Box::new(event))),
        };
        match read {
            Read::Event(mut event) => {
                event.cursor = self.cursor(number);
                Read::Event(event)
            }
            other => other,
        }
    }

    /// Returns the cursors that go with an entry.
    fn cursor(&mut self, number: u64) -> BTreeMap<String, String> {
        let mut cursor = BTreeMap::from([(NUMBER.to_owned(), number.to_string())]);
        let some = self.unsaved.len().min(MOST_SAVED);
        for (new, first) in self.unsaved.drain(..some) {
            let n = self.change;
            cursor.insert(format!("{CHANGE}{}", n % MOST_CHANGES), format!("{n} {new} {first}"));
            self.change = n.wrapping_add(1);
        }
        cursor
    }

    /// A text took the place of a message; both are ids. It is kept with the next event.
    pub(super) fn changed(&mut self, new: String, first: String) {
        if self.unsaved.len() < MOST_CHANGES {
            self.unsaved.push((new.clone(), first.clone()));
        }
        self.people.changed(new, first);
    }

    /// Remembers words for quotes.
    pub(super) fn hear(&mut self, id: String, text: &str) {
        if self.heard.len() >= MOST_HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back((id, cut(text, LONGEST_HEARD)));
    }

    pub(super) fn heard(&self, id: &str) -> &str {
        self.heard.iter().rev().find(|(of, _)| of == id).map_or("", |(_, text)| text)
    }

    /// Returns the address that a chat had before the account's id of its person was known, once. Only the number that this very
    /// event came from says that: what was known earlier may be another one's by now.
    pub(super) fn moved(&mut self, event: &Event) -> Option<String> {
        let old = self.people.direct(&event.from.handle);
        let is_theirs = event.chat == self.people.direct(&event.from.id) && event.chat != old;
        (is_theirs && self.by_number.remove(&old)).then_some(old)
    }

    /// Finds the message of an envelope.
    fn message<'a>(&self, envelope: &'a Value, by: Who) -> Option<Message<'a>> {
        let sent = &envelope["syncMessage"]["sentMessage"];
        let around = if sent.is_object() { sent } else { envelope };
        let edit = &around["editMessage"];
        let says = match (edit.is_object(), sent.is_object()) {
            (true, _) => &edit["dataMessage"],
            (false, true) => sent,
            (false, false) if envelope["callMessage"]["offerMessage"].is_object() => &envelope["callMessage"],
            (false, false) => &envelope["dataMessage"],
        };
        says.is_object().then_some(())?;
        let at = [&says["timestamp"], &envelope["timestamp"]].iter().find_map(|at| at.as_u64())?;
        let group = ["groupInfo", "groupV2"]
            .iter()
            .find_map(|of| ["groupId", "id"].iter().find_map(|id| says[*of][*id].as_str()));
        let to = Who::of(&sent["destinationUuid"], &sent["destinationNumber"], &sent["destination"]);
        let from_us = sent.is_object();
        let to_us =
            from_us && group.is_none() && to.as_ref().is_some_and(|to| by.is(to) || self.people.us.is(to));
        let chat = match (group, from_us) {
            (Some(group), _) => self.people.group(group)?,
            (None, true) => self.people.direct(to?.id()),
            (None, false) => self.people.direct(by.id()),
        };
        let changes = edit.is_object().then(|| edit["targetSentTimestamp"].as_u64()).flatten();
        Some(Message { says, changes, by, at, from_us, chat, group: group.map(str::to_owned), to_us })
    }

    fn event(&mut self, message: &Message, envelope: &Value) -> Read {
        let says = message.says;
        if let Some(group) = &message.group {
            let info = if says["groupInfo"].is_object() { &says["groupInfo"] } else { &says["groupV2"] };
            let name = ["groupName", "name"].iter().find_map(|of| info[*of].as_str());
            self.people.learn_group(group, name.unwrap_or_default());
        }
        let about = self.about(message);
        let id = self.people.message(message.at, &message.by);
        let server = envelope["serverReceivedTimestamp"].as_i64().filter(|at| *at > 0);
        let at = server.or_else(|| i64::try_from(message.at).ok()).unwrap_or_default();
        let mut event = Event {
            key: id.clone(),
            id,
            chat: message.chat.clone(),
            at: Timestamp::from_millisecond(at).ok().map(|at| at.to_string()),
            late: at < self.began,
            from: self.from(message),
            mention: Mention::None,
            about: Some(about.clone()),
            ..Event::default()
        };
        let target = |of: &Value| {
            Who::of(&of["targetAuthorUuid"], &of["targetAuthorNumber"], &of["targetAuthor"])
                .zip(of["targetSentTimestamp"].as_u64())
        };
        let known = |people: &People, at: u64, by: &Who| {
            let id = people.message(at, by);
            people.first(&id).to_owned()
        };
        let nothing = || match says["groupInfo"]["type"] == "UPDATE" && !about.name.is_empty() {
            true => Read::Group(about.clone()),
            false => Read::Nothing,
        };
        if let Some(of) = says["remoteDelete"]["timestamp"].as_u64() {
            event.kind = EventKind::Delete;
            event.of = known(&self.people, of, &message.by);
        } else if let Some((by, of)) = target(&says["adminDelete"]) {
            event.kind = EventKind::Delete;
            event.of = known(&self.people, of, &by);
        } else if says["reaction"].is_object() {
            let reaction = &says["reaction"];
            let Some((by, of)) = target(reaction) else { return Read::Nothing };
            event.kind = EventKind::Reaction;
            event.of = known(&self.people, of, &by);
            event.emoji = cut(reaction["emoji"].as_str().unwrap_or_default(), LONGEST_SIGN);
            event.on = reaction["isRemove"] != true;
        } else if says["offerMessage"].is_object() {
            event.text = "[call]".into();
        } else {
            let Said { text, names_us, behind_us, unknown_kind } = said(says, &self.people);
            event.attachments = self.files(says);
            let is_silent = says["isExpirationUpdate"] == true && text.is_empty();
            if is_silent || (text.trim().is_empty() && event.attachments.is_empty()) {
                return nothing();
            }
            let command = behind_us.as_deref().and_then(command_behind).map(str::to_owned);
            event.text = command.unwrap_or(text);
            event.unknown_kind = unknown_kind;
            event.mention = if names_us { Mention::Me } else { Mention::None };
            event.reply_to = self.answered(&says["quote"]);
            if let Some(of) = message.changes {
                let first = known(&self.people, of, &message.by);
                event.kind = EventKind::Edit;
                self.changed(event.id.clone(), first.clone());
                event.of.clone_from(&first);
                event.id = first;
                event.key = format!("edit.{}", event.key);
            }
            self.hear(event.id.clone(), &event.text);
        }
        Read::Event(Box::new(event))
    }

    fn from(&self, message: &Message) -> From {
        From {
            id: message.by.id().to_owned(),
            also: self.people.also(&message.by),
            name: self.people.name(&message.by),
            handle: message.by.number.clone().unwrap_or_default(),
            // What people write to themselves is theirs: no program of ours writes there from another device.
            myself: message.from_us && !message.to_us,
            ..From::default()
        }
    }

    fn about(&self, message: &Message) -> Chat {
        let (name, kind) = match &message.group {
            Some(group) => (self.people.group_name(group).to_owned(), ChatKind::Group),
            None if message.to_us => ("Note to Self".to_owned(), ChatKind::Direct),
            None if message.from_us => (String::new(), ChatKind::Direct),
            None => (self.people.name(&message.by), ChatKind::Direct),
        };
        Chat { chat: message.chat.clone(), name, kind, ..Chat::default() }
    }

    fn answered(&self, quote: &Value) -> Option<ReplyTo> {
        let at = quote["id"].as_u64()?;
        let by = Who::of(&quote["authorUuid"], &quote["authorNumber"], &quote["author"])?;
        let text = with_names(quote["text"].as_str().unwrap_or_default(), &quote["mentions"], &self.people);
        let file = array(&quote["attachments"]).first().map(kind);
        let id = self.people.message(at, &by);
        Some(ReplyTo {
            id: self.people.first(&id).to_owned(),
            from: self.people.name(&by),
            myself: self.people.us.is(&by),
            // What it says is its sender's word: the daemon's own text of the message goes before it.
            quote: Some(cut(&text, LONGEST_ANSWERED)).filter(|text| !text.is_empty()),
            kind: file,
            ..ReplyTo::default()
        })
    }

    fn files(&self, says: &Value) -> Vec<Attached> {
        if says["viewOnce"] == true {
            return Vec::new();
        }
        let files = array(&says["attachments"]).iter().filter(|file| file["contentType"] != LONG_TEXT);
        files.take(MOST_FILES).map(file).collect()
    }
}

/// What kind of file it is. Speech has no name.
fn kind(file: &Value) -> Kind {
    match file["contentType"].as_str().unwrap_or_default().split('/').next() {
        Some("image") => Kind::Image,
        Some("video") => Kind::Video,
        Some("audio") if file["filename"].as_str().is_none_or(str::is_empty) => Kind::Voice,
        Some("audio") => Kind::Audio,
        _ => Kind::Document,
    }
}

fn file(file: &Value) -> Attached {
    let bytes = file["size"].as_u64();
    let is_name = |id: &&str| {
        (1..=LONGEST_FILE).contains(&id.len())
            && !id.starts_with('.')
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+' | b'='))
    };
    let fetch = file["id"].as_str().filter(is_name).map(str::to_owned);
    let problem = match (&fetch, bytes) {
        (None, _) => Some("signal-cli did not fetch it".to_owned()),
        (_, Some(bytes)) if bytes > LARGEST => {
            Some(format!("{} MB, G2 takes {}", bytes >> 20, LARGEST >> 20))
        }
        _ => None,
    };
    let name = file["filename"].as_str().filter(|name| !name.is_empty());
    Attached {
        fetch: fetch.filter(|_| problem.is_none()),
        kind: kind(file),
        mime: cut(file["contentType"].as_str().unwrap_or_default(), LONGEST_FILE),
        name: name.map(|name| cut(name, LONGEST_FILE)),
        bytes,
        problem,
        ..Attached::default()
    }
}

/// What is told of a message that signal-cli could not read.
fn unread(told: &Value) -> Option<Event> {
    let kind = told["exception"]["type"].as_str()?;
    // It was told before, or is none of ours.
    if kind.contains("Duplicate") || kind.contains("SelfSend") {
        return None;
    }
    let envelope = &told["envelope"];
    let who = Who::of(&envelope["sourceUuid"], &envelope["sourceNumber"], &envelope["source"]);
    let who = who.as_ref().map_or("somebody", Who::id);
    let why = match kind.contains("UntrustedIdentity") {
        true => {
            "their safety number has changed; look at `signal-cli listIdentities`, then `signal-cli trust`"
                .to_owned()
        }
        false => cut(kind, LONGEST_FILE),
    };
    Some(Event {
        key: format!("unread.{}.{who}", envelope["timestamp"].as_u64().unwrap_or_default()),
        kind: EventKind::Nothing,
        unread: format!("signal-cli could not read a message of {who}: {why}"),
        ..Event::default()
    })
}

#[cfg(test)]
mod tests;
