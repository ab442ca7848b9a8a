//! What a message says, in words. Pure.

use serde_json::Value;

use super::people::{People, Who, one_line};
use crate::kit::{LONGEST_TEXT, Poll, below_one_another, cut, unknown};

/// How many mentions of a text are named.
const MOST_MENTIONS: usize = 200;
/// The longest name that stands in a text of somebody's, bytes.
const LONGEST_NAMED: usize = 64;
/// The longest piece that is told of what is no text, bytes.
const LONGEST: usize = 1024;
/// Fields of a message that say nothing to people, or are told elsewhere.
const KNOWN: [&str; 24] = [
    "timestamp",
    "message",
    "expiresInSeconds",
    "isExpirationUpdate",
    "viewOnce",
    "reaction",
    "quote",
    "mentions",
    "previews",
    "attachments",
    "remoteDelete",
    "textStyles",
    "groupInfo",
    "groupV2",
    "storyContext",
    "pinMessage",
    "unpinMessage",
    "adminDelete",
    "pollVote",
    "pollTerminate",
    "destination",
    "destinationNumber",
    "destinationUuid",
    "editMessage",
];

/// What a message says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    /// It names us.
    pub(super) names_us: bool,
    /// What stands behind our name, where that is the first word.
    pub(super) behind_us: Option<String>,
    /// Of a kind that is not known: Signal's word for it.
    pub(super) unknown_kind: String,
}

/// Reads a message.
pub(super) fn said(message: &Value, people: &People) -> Said {
    let text = message["message"].as_str().unwrap_or_default();
    let Named { text, names_us, behind_us } = named(text, &message["mentions"], people);
    let text = cut(&text, LONGEST_TEXT);
    let mut parts = vec![];
    if message["storyContext"].is_object() {
        parts.push("[answers a story]".to_owned());
    }
    parts.push(text);
    if message["viewOnce"] == true {
        parts.push("[a file that can be seen once; G2 does not have it]".into());
    }
    if message["sticker"].is_object() {
        parts.push("[sticker]".into());
    }
    for contact in array(&message["contacts"]).iter().take(10) {
        parts.push(card(contact));
    }
    if message["payment"].is_object() {
        parts.push(labelled("payment", message["payment"]["note"].as_str().unwrap_or_default()));
    }
    if message["pollCreate"].is_object() {
        parts.push(poll(&message["pollCreate"]).words());
    }
    let mut said = Said {
        text: below_one_another(&parts.iter().map(String::as_str).collect::<Vec<_>>()),
        names_us,
        behind_us,
        ..Said::default()
    };
    if said.text.trim().is_empty() && array(&message["attachments"]).is_empty() {
        let preview = array(&message["previews"]).iter().find_map(|preview| preview["url"].as_str());
        said.text = preview.map(|url| cut(url, LONGEST)).unwrap_or_default();
    }
    if said.text.is_empty() && array(&message["attachments"]).is_empty() {
        let fields = message.as_object().into_iter().flatten();
        let is_new = |(name, value): &(&String, &Value)| {
            let says = value.is_object() || value.as_array().is_some_and(|all| !all.is_empty());
            says && !KNOWN.contains(&name.as_str())
        };
        if let Some((name, _)) = fields.into_iter().find(is_new) {
            said.unknown_kind = cut(name, 64);
            said.text = unknown(&said.unknown_kind);
        }
    }
    said
}

/// Returns a text with the names of those whom it mentions.
pub(super) fn with_names(text: &str, mentions: &Value, people: &People) -> String {
    named(text, mentions, people).text
}

struct Named {
    text: String,
    names_us: bool,
    behind_us: Option<String>,
}

/// Puts names where a text mentions somebody: Signal has one character there, and says beside the text whose it is.
fn named(text: &str, mentions: &Value, people: &People) -> Named {
    let place = |mention: &Value, of: &str| usize::try_from(mention[of].as_u64()?).ok();
    let mut places: Vec<(usize, usize, Who)> = array(mentions)
        .iter()
        .take(MOST_MENTIONS)
        .filter_map(|mention| {
            let who = Who::of(&mention["uuid"], &mention["number"], &mention["name"])?;
            Some((place(mention, "start")?, place(mention, "length")?.min(LONGEST), who))
        })
        .collect();
    places.sort_by_key(|(start, ..)| *start);
    let mut places = places.into_iter().peekable();
    let mut named = Named { text: String::with_capacity(text.len()), names_us: false, behind_us: None };
    // Where we are in the text, in UTF-16, and up to where a name stands instead of it.
    let (mut at, mut covered, mut our_end) = (0, 0, None);
    for c in text.chars() {
        while let Some((start, length, who)) = places.next_if(|(start, ..)| *start <= at) {
            if start < covered || start != at {
                continue;
            }
            let is_us = people.us.is(&who);
            let first = named.text.trim().is_empty();
            named.text.push('@');
            named.text.push_str(&one_line(&people.name(&who), LONGEST_NAMED));
            named.names_us |= is_us;
            if is_us && first {
                our_end = Some(named.text.len());
            }
            covered = start + length;
        }
        if at >= covered {
            named.text.push(c);
        }
        at += c.len_utf16();
    }
    named.behind_us = our_end.map(|end| named.text[end..].to_owned());
    named
}

/// Returns a contact that somebody shares, on a line.
fn card(contact: &Value) -> String {
    let name = &contact["name"];
    let part = |of: &str| name[of].as_str().unwrap_or_default().trim();
    let parts = [part("given"), part("middle"), part("family")].join(" ");
    let shown = parts.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = if shown.is_empty() { part("nickname").to_owned() } else { shown };
    let values = ["phone", "email"]
        .map(|of| array(&contact[of]).iter().take(5).filter_map(|one| one["value"].as_str()));
    let mut all = vec![shown];
    all.extend(values.into_iter().flatten().map(str::to_owned));
    all.retain(|one| !one.trim().is_empty());
    labelled("contact", &all.join(", "))
}

fn labelled(kind: &str, says: &str) -> String {
    if says.trim().is_empty() {
        format!("[{kind}]")
    } else {
        format!("[{kind}: {}]", cut(says.trim(), LONGEST))
    }
}

fn poll(poll: &Value) -> Poll {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Poll {
        several: poll["allowMultiple"] == true,
        question: text(&poll["question"]),
        options: array(&poll["options"]).iter().map(|option| (text(option), 0)).collect(),
        ..Poll::default()
    }
}

pub(super) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}
