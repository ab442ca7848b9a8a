//! What an event says to those who see it, in words. Pure.

use channel_protocol::{Attached, Kind};
use serde_json::Value;

use crate::kit::{Poll, below_one_another, cut, unknown};

/// What stands in place of a message that was removed.
pub(super) const DELETED: &str = "[deleted message]";
/// The longest word of the platform's that is told, bytes.
const LONGEST_WORD: usize = 64;

/// What an event says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Told {
    pub(super) text: String,
    /// The text is its writer's own: it may name people, and have HTML beside it.
    pub(super) is_text: bool,
    pub(super) files: Vec<Attached>,
    pub(super) unknown_kind: String,
    /// The event that it is about.
    pub(super) answers: Option<String>,
}

impl Told {
    fn words(text: impl Into<String>) -> Option<Self> {
        Some(Self { text: text.into(), ..Self::default() })
    }
}

/// Returns what an event of a kind says. `None`: it is nothing that people read.
pub(super) fn told(kind: &str, content: &Value, event: &Value) -> Option<Told> {
    // What was removed has nothing.
    content.as_object().filter(|content| !content.is_empty())?;
    match kind {
        "m.room.message" => Some(message(content)),
        "m.sticker" => Some(Told {
            text: format!("[sticker: {}]", text(content, "body")),
            files: file("m.image", content).into_iter().collect(),
            ..Told::default()
        }),
        "m.poll.start" | "org.matrix.msc3381.poll.start" => Told::words(poll(content)),
        "m.poll.end" | "org.matrix.msc3381.poll.end" => {
            let answers = content["m.relates_to"]["event_id"].as_str().map(str::to_owned);
            let text = below_one_another(&["[Poll has ended]", &plain(content)]);
            Some(Told { text, answers, ..Told::default() })
        }
        "m.beacon_info" | "org.matrix.msc3672.beacon_info" => beacon(kind, content, event),
        "m.beacon" | "org.matrix.msc3672.beacon" => {
            moves(kind, event)?;
            Told::words(format!("[Live location: {}]", place(content)?))
        }
        "m.call.invite" => Told::words("[Call begins]"),
        // State is about the room. Of another kind clients show the words for those that do not know it.
        _ if event.get("state_key").is_some() || plain(content).is_empty() => None,
        _ => {
            let kind = cut(kind, LONGEST_WORD);
            let text = below_one_another(&[&unknown(&kind), &plain(content)]);
            Some(Told { text, unknown_kind: kind, ..Told::default() })
        }
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

fn message(content: &Value) -> Told {
    let (msgtype, body) = (text(content, "msgtype"), text(content, "body"));
    if let Some(file) = file(msgtype, content) {
        // The body is the file's name, unless there is a name beside it.
        let has_words = content["filename"].as_str().is_some_and(|name| name != body);
        let text = if has_words { body.to_owned() } else { String::new() };
        return Told { text, is_text: has_words, files: vec![file], ..Told::default() };
    }
    match msgtype {
        "m.text" | "m.notice" | "m.emote" | "m.server_notice" if !body.is_empty() => {
            Told { text: body.to_owned(), is_text: true, ..Told::default() }
        }
        "m.location" if place(content).is_some() => {
            let about = description(content);
            let place = place(content).unwrap_or_default();
            Told { text: below_one_another(&[&format!("[Location: {place}]"), about]), ..Told::default() }
        }
        _ => {
            let kind = if msgtype.is_empty() { "m.room.message" } else { msgtype };
            let kind = cut(kind, LONGEST_WORD);
            let text = below_one_another(&[&unknown(&kind), &plain(content)]);
            Told { text, unknown_kind: kind, ..Told::default() }
        }
    }
}

/// Returns the words that an event has for clients that do not know its kind.
fn plain(content: &Value) -> String {
    let words = |of: &Value| match of {
        Value::String(text) => text.clone(),
        Value::Array(ways) => {
            let is_plain = |way: &&Value| way["mimetype"].is_null() || way["mimetype"] == "text/plain";
            ways.iter().find(is_plain).map(|way| text(way, "body").to_owned()).unwrap_or_default()
        }
        _ => String::new(),
    };
    ["body", "m.text", "org.matrix.msc1767.text", "org.matrix.msc1767.message"]
        .iter()
        .map(|name| words(&content[*name]))
        .find(|words| !words.is_empty())
        .unwrap_or_default()
}

fn poll(content: &Value) -> String {
    let poll = ["m.poll", "org.matrix.msc3381.poll.start"]
        .iter()
        .map(|name| &content[*name])
        .find(|poll| poll.is_object());
    let Some(poll) = poll else { return below_one_another(&["[Poll]", &plain(content)]) };
    let answers = poll["answers"].as_array().map_or(&[][..], Vec::as_slice);
    Poll {
        several: poll["max_selections"].as_u64().is_some_and(|most| most > 1),
        question: plain(&poll["question"]),
        options: answers.iter().map(|answer| (plain(answer), 0)).collect(),
        ..Poll::default()
    }
    .words()
}

/// A live location begins or ends.
fn beacon(kind: &str, content: &Value, event: &Value) -> Option<Told> {
    // Only a person's own one is.
    event["state_key"].as_str().filter(|of| event["sender"] == **of)?;
    let about = text(content, "description");
    if content["live"] == true {
        return Told::words(below_one_another(&["[Live location]", about]));
    }
    moves(kind, event)?;
    Told::words(below_one_another(&["[Live location, ended]", about]))
}

/// Returns the event whose place an event takes, where a place moves or a live location ends.
pub(super) fn moves<'a>(kind: &str, event: &'a Value) -> Option<&'a str> {
    let content = &event["content"];
    match kind {
        "m.beacon" | "org.matrix.msc3672.beacon" => content["m.relates_to"]["event_id"].as_str(),
        "m.beacon_info" | "org.matrix.msc3672.beacon_info" if content["live"] != true => {
            event["unsigned"]["replaces_state"].as_str()
        }
        _ => None,
    }
}

fn located(content: &Value) -> &Value {
    let name = if content["m.location"].is_object() { "m.location" } else { "org.matrix.msc3488.location" };
    &content[name]
}

fn description(content: &Value) -> &str {
    text(located(content), "description")
}

/// Returns the degrees of a place: `52.5, 13.4` of `geo:52.5,13.4;u=35`.
fn place(content: &Value) -> Option<String> {
    let uri = content["geo_uri"].as_str().or_else(|| located(content)["uri"].as_str())?;
    let degrees = uri.strip_prefix("geo:")?.split(';').next()?;
    let parts: Vec<f64> = degrees.split(',').take(2).filter_map(|part| part.parse().ok()).collect();
    match parts[..] {
        [latitude, longitude] => Some(format!("{latitude}, {longitude}")),
        _ => None,
    }
}

fn file(msgtype: &str, said: &Value) -> Option<Attached> {
    let kind = match msgtype {
        "m.image" => Kind::Image,
        "m.video" => Kind::Video,
        "m.audio" if said.get("org.matrix.msc3245.voice").is_some() || said.get("m.voice").is_some() => {
            Kind::Voice
        }
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
