//! What events of a room mean. Pure.

use std::collections::VecDeque;

use channel_protocol::{Attached, Event, EventKind, From, Kind, Mention, ReplyTo};
use serde_json::Value;

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
}

/// What an event of a room is to us.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    Event(Box<Event>),
    /// The room went on elsewhere.
    Moved(String),
    /// It can't be read, for it is encrypted.
    Encrypted,
    Nothing,
}

impl Reader {
    pub(super) fn new(me: String, shown_as: &str, prefix: String, began: i64) -> Self {
        let mut names = vec![display_name(&me).to_lowercase(), shown_as.to_lowercase()];
        names.retain(|name| !name.is_empty());
        Self { me, names, prefix, began, reactions: VecDeque::new() }
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
        if sender == self.me || id.is_empty() || sender.is_empty() {
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
            "m.room.message" => self.message(base, content),
            "m.room.encrypted" => return Read::Encrypted,
            "m.reaction" => self.reaction(base, content),
            "m.room.redaction" => {
                let of = event["redacts"].as_str().or_else(|| content["redacts"].as_str());
                of.map(|of| self.redaction(base, of))
            }
            _ => None,
        };
        found.map_or(Read::Nothing, |event| Read::Event(Box::new(event)))
    }

    fn message(&self, base: Event, content: &Value) -> Option<Event> {
        let relation = &content["m.relates_to"];
        let is_edit = relation["rel_type"] == "m.replace";
        let said = if is_edit { &content["m.new_content"] } else { content };
        // A message that was removed has no content.
        let msgtype = said["msgtype"].as_str()?;
        let thread = match &relation["rel_type"] {
            Value::String(kind) if kind == "m.thread" => relation["event_id"].as_str().unwrap_or_default(),
            _ => "",
        };
        let answers = relation["m.in_reply_to"]["event_id"].as_str();
        // In a thread, clients that know none are shown an answer to its last message.
        let answers = answers.filter(|_| relation["is_falling_back"] != true);
        let body = said["body"].as_str().unwrap_or_default();
        let body = if answers.is_some() { without_quote(body) } else { body };
        let attached = attachment(msgtype, said);
        let text = match (&attached, said["filename"].as_str()) {
            (None, _) if msgtype == "m.emote" => format!("* {} {body}", base.from.name),
            (None, _) => body.to_owned(),
            // The body is the file's name, unless there is a name beside it.
            (Some(_), Some(name)) if name != body => body.to_owned(),
            (Some(_), _) => String::new(),
        };
        Some(Event {
            kind: if is_edit { EventKind::Edit } else { EventKind::Message },
            of: if is_edit { relation["event_id"].as_str()?.to_owned() } else { String::new() },
            thread: thread.to_owned(),
            mention: self.mention(said, body),
            reply_to: answers.map(|id| ReplyTo { id: id.to_owned(), ..ReplyTo::default() }),
            // Texts of G2 have a key, also those of another one.
            from: From { bot: msgtype == "m.notice" || content[super::KEY].is_string(), ..base.from },
            attachments: attached.into_iter().collect(),
            text,
            ..base
        })
    }

    fn mention(&self, said: &Value, body: &str) -> Mention {
        if let Some(named) = said["m.mentions"].as_object() {
            let me = named.get("user_ids").and_then(Value::as_array);
            if me.is_some_and(|ids| ids.iter().any(|id| *id == *self.me)) {
                return Mention::Me;
            }
            return if named.get("room") == Some(&Value::Bool(true)) { Mention::All } else { Mention::None };
        }
        // Clients that do not say whom they mean.
        let html = said["formatted_body"].as_str().unwrap_or_default();
        if html.contains(&format!("matrix.to/#/{}", self.me)) || body.contains(&self.me) {
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
    fn redaction(&mut self, base: Event, of: &str) -> Event {
        let known = self.reactions.iter().find(|(event, _, _)| event == of).cloned();
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

/// Takes the lines off that quote what is answered, for clients that do not know answers.
fn without_quote(body: &str) -> &str {
    if !body.starts_with("> ") {
        return body;
    }
    let mut rest = body;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.trim_start_matches('\n')
}

fn attachment(msgtype: &str, said: &Value) -> Option<Attached> {
    let kind = match msgtype {
        "m.image" => Kind::Image,
        "m.video" => Kind::Video,
        "m.audio" if said.get("org.matrix.msc3245.voice").is_some() => Kind::Voice,
        "m.audio" => Kind::Audio,
        "m.file" => Kind::Document,
        _ => return None,
    };
    let info = &said["info"];
    let url = said["url"].as_str();
    Some(Attached {
        fetch: url.map(str::to_owned),
        kind,
        mime: info["mimetype"].as_str().unwrap_or("application/octet-stream").to_owned(),
        name: said["filename"].as_str().or_else(|| said["body"].as_str()).map(str::to_owned),
        bytes: info["size"].as_u64(),
        seconds: info["duration"].as_u64().map(|ms| ms / 1000),
        problem: url.is_none().then(|| "it is encrypted, which G2 can't read".to_owned()),
        ..Attached::default()
    })
}

/// Writes a time in ms since 1970 as RFC 3339, in UTC.
fn rfc3339(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reader() -> Reader {
        Reader::new("@g2:example.org".into(), "The Helper", "mx".into(), 1000)
    }

    fn event(kind: &str, content: Value) -> Value {
        json!({"type": kind, "event_id": "$1", "sender": "@ada:example.org", "origin_server_ts": 2000, "content": content})
    }

    fn read(kind: &str, content: Value) -> Event {
        match reader().read("!r:example.org", &event(kind, content)) {
            Read::Event(event) => *event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_has_its_chat_its_sender_and_its_time() {
        let found = read("m.room.message", json!({"msgtype": "m.text", "body": "hello"}));
        assert_eq!((&found.key[..], &found.chat[..], &found.text[..]), ("$1", "mx:!r:example.org", "hello"));
        assert_eq!((&found.from.id[..], &found.from.name[..]), ("@ada:example.org", "ada"));
        assert_eq!((found.at.as_deref(), found.late), (Some("1970-01-01T00:00:02.000Z"), false));
        let emote = read("m.room.message", json!({"msgtype": "m.emote", "body": "waves"}));
        assert_eq!(emote.text, "* ada waves");
        assert!(read("m.room.message", json!({"msgtype": "m.notice", "body": "x"})).from.bot);
        let of_g2 = json!({"msgtype": "m.text", "body": "x", "dev.g2.key": "other.1"});
        assert!(read("m.room.message", of_g2).from.bot);
    }

    #[test]
    fn a_mention_is_meant_and_not_found_in_other_words() {
        for (content, mention) in [
            (json!({"body": "x", "m.mentions": {"user_ids": ["@g2:example.org"]}}), Mention::Me),
            (json!({"body": "@g2:example.org", "m.mentions": {}}), Mention::None),
            (json!({"body": "@room", "m.mentions": {"room": true}}), Mention::All),
            (json!({"body": "G2: look"}), Mention::Me),
            (json!({"body": "ask the helper."}), Mention::Me),
            (json!({"body": "g2x and ag2"}), Mention::None),
            (
                json!({"body": "hi", "formatted_body": "<a href=\"https://matrix.to/#/@g2:example.org\">G2</a>"}),
                Mention::Me,
            ),
        ] {
            let mut content = content;
            content["msgtype"] = "m.text".into();
            assert_eq!(read("m.room.message", content.clone()).mention, mention, "{content}");
        }
    }

    #[test]
    fn threads_answers_and_edits_are_told_apart() {
        let relates = |relation: Value| json!({"msgtype": "m.text", "body": "> <@g2:example.org> old\n> more\n\nnew", "m.relates_to": relation});
        let answer = read("m.room.message", relates(json!({"m.in_reply_to": {"event_id": "$0"}})));
        assert_eq!((answer.text.as_str(), answer.reply_to.unwrap().id), ("new", "$0".into()));
        let thread = json!({"rel_type": "m.thread", "event_id": "$t", "is_falling_back": true, "m.in_reply_to": {"event_id": "$0"}});
        let thread = read("m.room.message", relates(thread));
        assert_eq!((thread.thread.as_str(), thread.reply_to), ("$t", None));
        let edit = json!({
            "msgtype": "m.text", "body": "* now", "m.new_content": {"msgtype": "m.text", "body": "now"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"},
        });
        let edit = read("m.room.message", edit);
        assert_eq!((edit.kind, &edit.of[..], &edit.text[..]), (EventKind::Edit, "$0", "now"));
    }

    #[test]
    fn a_removed_reaction_was_taken_back_and_a_removed_message_deleted() {
        let mut reader = reader();
        let sign = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "👍"}});
        let Read::Event(on) = reader.read("!r", &event("m.reaction", sign)) else { panic!() };
        assert_eq!((on.kind, &on.of[..], &on.emoji[..], on.on), (EventKind::Reaction, "$0", "👍", true));
        let mut off = |of: &str| {
            let event = json!({"type": "m.room.redaction", "event_id": "$2", "sender": "@ada:example.org", "redacts": of, "content": {}});
            let Read::Event(off) = reader.read("!r", &event) else { panic!() };
            off
        };
        let off_sign = off("$1");
        assert_eq!((off_sign.kind, &off_sign.of[..], off_sign.on), (EventKind::Reaction, "$0", false));
        let gone = off("$0");
        assert_eq!((gone.kind, &gone.of[..]), (EventKind::Delete, "$0"));
    }

    #[test]
    fn a_file_is_named_with_its_text_and_one_that_is_encrypted_has_its_problem() {
        let content = json!({"msgtype": "m.image", "body": "look!", "filename": "a.png", "url": "mxc://e/1",
            "info": {"mimetype": "image/png", "size": 7}});
        let found = read("m.room.message", content);
        let file = &found.attachments[0];
        assert_eq!((&found.text[..], file.name.as_deref(), file.bytes), ("look!", Some("a.png"), Some(7)));
        assert_eq!((file.kind, file.fetch.as_deref()), (Kind::Image, Some("mxc://e/1")));
        let found = read("m.room.message", json!({"msgtype": "m.file", "body": "b.pdf", "file": {}}));
        assert!(found.text.is_empty() && found.attachments[0].problem.is_some());
    }

    #[test]
    fn what_is_ours_odd_or_of_no_use_is_passed_over() {
        let mut reader = reader();
        let mut own = event("m.room.message", json!({"msgtype": "m.text", "body": "x"}));
        own["sender"] = "@g2:example.org".into();
        for event in [
            own,
            event("m.room.message", json!({})),
            event("m.room.message", json!("x")),
            event("m.reaction", json!({"m.relates_to": 7})),
            event("m.room.topic", json!({"topic": "x"})),
            json!(null),
            json!([1]),
        ] {
            assert_eq!(reader.read("!r", &event), Read::Nothing, "{event}");
        }
        assert_eq!(reader.read("!r", &event("m.room.encrypted", json!({}))), Read::Encrypted);
        let moved = event("m.room.tombstone", json!({"replacement_room": "!new"}));
        assert_eq!(reader.read("!r", &moved), Read::Moved("!new".into()));
    }
}
