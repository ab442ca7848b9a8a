//! What comes from Slack, and what it is for G2. Nothing here asks anybody.

use channel_protocol::{Event, EventKind, From, Mention, ReplyTo};
use serde_json::Value;

use super::{
    marks,
    said::{Reader, all, files, text},
    signs,
};
use crate::kit::{LONGEST_TEXT, cut, unknown};

/// How much of a list is looked at.
const PARTS: usize = 100;

/// Who we are.
#[derive(Clone, Debug, Default)]
pub(super) struct Us {
    pub(super) id: String,
    /// The id under which the bot writes.
    pub(super) bot: String,
    pub(super) team: String,
    pub(super) enterprise: String,
}

/// Somebody who writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) handle: String,
    pub(super) bot: bool,
}

impl Person {
    /// Reads what Slack says of a person.
    pub(super) fn read(user: &Value) -> Self {
        let profile = &user["profile"];
        let names = [
            text(profile, "display_name"),
            text(profile, "real_name"),
            text(user, "real_name"),
            text(user, "name"),
        ];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let bot = user["is_bot"].as_bool().unwrap_or_default() || text(user, "id") == "USLACKBOT";
        Self { name: cut(name, 256), handle: cut(text(user, "name"), 256), bot }
    }
}

/// One thing that an envelope tells.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    Message(Value),
    /// A message as it is now, and as it was.
    Edited {
        message: Value,
        before: Value,
        at: String,
    },
    Deleted {
        ts: String,
        thread: String,
    },
    Reaction {
        user: String,
        ts: String,
        name: String,
        on: bool,
        key: String,
    },
    Press(Press),
    Command(Command),
    /// Nothing that concerns us.
    Nothing,
    /// It is of another workspace than the bot's.
    Foreign,
    Unreadable(&'static str),
}

/// A button that was pressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Press {
    pub(super) key: String,
    pub(super) user: String,
    pub(super) name: String,
    pub(super) ts: String,
    pub(super) thread: String,
    pub(super) value: String,
}

/// A command that was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) key: String,
    pub(super) user: String,
    pub(super) name: String,
    pub(super) words: String,
}

/// Returns what an envelope tells, and the channel in which it happened.
pub(super) fn read(envelope: &Value, us: &Us) -> (String, Told) {
    let payload = &envelope["payload"];
    if !payload.is_object() {
        return (String::new(), Told::Unreadable("it has no payload"));
    }
    if !is_ours(payload, us) {
        return (String::new(), Told::Foreign);
    }
    match text(envelope, "type") {
        "events_api" => of_event(payload, us),
        "interactive" => pressed(payload),
        "slash_commands" => commanded(payload),
        _ => (String::new(), Told::Nothing),
    }
}

/// Whether it is of the workspace that the bot is installed in. One socket tells of all workspaces of its app.
fn is_ours(payload: &Value, us: &Us) -> bool {
    let of = |one: &Value| {
        let team =
            if text(one, "team_id").is_empty() { text(&one["team"], "id") } else { text(one, "team_id") };
        let whole = one["is_enterprise_install"] == true || one["is_enterprise_install"] == "true";
        team == us.team || (whole && !us.enterprise.is_empty() && text(one, "enterprise_id") == us.enterprise)
    };
    of(payload) || all(payload, "authorizations").iter().take(PARTS).any(of)
}

fn of_event(payload: &Value, us: &Us) -> (String, Told) {
    let event = &payload["event"];
    let channel = text(event, "channel").to_owned();
    let told = match (text(event, "type"), text(event, "subtype")) {
        ("message", "message_changed") => {
            let (message, before) = (&event["message"], &event["previous_message"]);
            match text(message, "subtype") {
                // The root of a thread leaves a stone.
                "tombstone" => deleted(event, text(message, "ts"), before),
                _ if message.is_object() => {
                    let edited = text(&message["edited"], "ts");
                    let at = if edited.is_empty() { text(event, "event_ts") } else { edited };
                    Told::Edited { message: message.clone(), before: before.clone(), at: at.to_owned() }
                }
                _ => Told::Unreadable("an edit has no message"),
            }
        }
        ("message", "message_deleted") => {
            deleted(event, text(event, "deleted_ts"), &event["previous_message"])
        }
        ("message" | "app_mention", _) => Told::Message(event.clone()),
        (kind @ ("reaction_added" | "reaction_removed"), _) => {
            let item = &event["item"];
            if text(item, "type") != "message" || text(event, "user") == us.id {
                return (String::new(), Told::Nothing);
            }
            let key = format!("r{}.{}", text(event, "event_ts"), text(payload, "event_id"));
            let told = Told::Reaction {
                user: text(event, "user").to_owned(),
                ts: text(item, "ts").to_owned(),
                name: text(event, "reaction").to_owned(),
                on: kind == "reaction_added",
                key,
            };
            return placed(text(item, "channel"), text(item, "ts"), told);
        }
        _ => return (channel, Told::Nothing),
    };
    let ts = match &told {
        Told::Message(message) | Told::Edited { message, .. } => text(message, "ts").to_owned(),
        Told::Deleted { ts, .. } => ts.clone(),
        _ => "0.1".into(),
    };
    placed(&channel, &ts, told)
}

fn deleted(event: &Value, ts: &str, before: &Value) -> Told {
    let thread = text(before, "thread_ts");
    let thread = if thread == ts || thread.is_empty() { text(event, "thread_ts") } else { thread };
    Told::Deleted { ts: ts.to_owned(), thread: thread.to_owned() }
}

/// What has no place, or an id that is none, can't be told.
fn placed(channel: &str, ts: &str, told: Told) -> (String, Told) {
    match (is_id(channel), is_time(ts)) {
        (false, _) => (String::new(), Told::Unreadable("it has no channel")),
        (_, false) => (String::new(), Told::Unreadable("it has no time")),
        _ => (channel.to_owned(), told),
    }
}

fn pressed(payload: &Value) -> (String, Told) {
    if text(payload, "type") != "block_actions" {
        return (String::new(), Told::Nothing);
    }
    let (user, container) = (&payload["user"], &payload["container"]);
    let channel = match text(&payload["channel"], "id") {
        "" => text(container, "channel_id"),
        channel => channel,
    };
    let ts = text(container, "message_ts");
    let Some(action) = all(payload, "actions").first().filter(|action| text(action, "type") == "button")
    else {
        return (String::new(), Told::Nothing);
    };
    // A button that only leads somewhere carries nothing.
    if text(action, "value").is_empty() {
        return (String::new(), Told::Nothing);
    }
    let thread = text(&payload["message"], "thread_ts");
    let press = Press {
        key: format!("p{}.{}.{ts}", text(action, "action_ts"), text(user, "id")),
        user: text(user, "id").to_owned(),
        name: text(user, "name").to_owned(),
        ts: ts.to_owned(),
        thread: if thread == ts { String::new() } else { thread.to_owned() },
        value: text(action, "value").to_owned(),
    };
    placed(channel, ts, Told::Press(press))
}

fn commanded(payload: &Value) -> (String, Told) {
    let (name, given) = (text(payload, "command"), text(payload, "text").trim());
    // `/g2 stop` is `/stop`; another command of the app is itself.
    let words = match name {
        "/g2" if given.is_empty() => "/help".to_owned(),
        "/g2" => format!("/{}", given.trim_start_matches('/')),
        name => format!("{name} {given}"),
    };
    let command = Command {
        key: format!("c{}", text(payload, "trigger_id")),
        user: text(payload, "user_id").to_owned(),
        name: text(payload, "user_name").to_owned(),
        words: cut(words.trim_end(), LONGEST_TEXT),
    };
    if !name.starts_with('/') || text(payload, "trigger_id").is_empty() {
        return (String::new(), Told::Unreadable("it is no command"));
    }
    placed(text(payload, "channel_id"), "0.1", Told::Command(command))
}

/// What the kind of a message means.
#[derive(Debug, PartialEq)]
enum Notice {
    Written,
    Words(String),
    /// Nothing to read: somebody joined, a message was pinned.
    Nothing,
    /// Slack has a word for it that we do not know.
    Unknown,
}

fn notice(message: &Value, reader: &Reader<'_>) -> Notice {
    match text(message, "subtype") {
        "" | "file_share" | "me_message" | "thread_broadcast" | "bot_message" | "reply_broadcast" => {
            Notice::Written
        }
        "channel_topic" | "group_topic" => {
            Notice::Words(format!("[Topic of the channel: {}]", reader.words(&topic(message, "topic"))))
        }
        "channel_purpose" | "group_purpose" => Notice::Words(format!(
            "[Description of the channel: {}]",
            reader.words(&topic(message, "purpose"))
        )),
        "huddle_thread" | "sh_room_created" => Notice::Words("[Huddle begins]".into()),
        "channel_archive" | "group_archive" => Notice::Words("[The channel is put into the archive]".into()),
        "channel_join"
        | "channel_leave"
        | "group_join"
        | "group_leave"
        | "channel_name"
        | "group_name"
        | "channel_unarchive"
        | "group_unarchive"
        | "channel_convert_to_private"
        | "channel_convert_to_public"
        | "channel_posting_permissions"
        | "pinned_item"
        | "unpinned_item"
        | "bot_add"
        | "bot_remove"
        | "bot_enable"
        | "bot_disable"
        | "message_replied"
        | "reminder_add"
        | "reminder_delete"
        | "tombstone"
        | "ekm_access_denied"
        | "assistant_app_thread"
        | "file_comment"
        | "file_mention"
        | "bookmark_added"
        | "sh_room_shared"
        | "document_mention"
        | "app_conversation_join"
        | "joiner_notification"
        | "joiner_notification_for_inviter" => Notice::Nothing,
        _ => Notice::Unknown,
    }
}

fn topic(message: &Value, name: &str) -> Value {
    serde_json::json!({"text": text(message, name)})
}

/// Returns the people whose names are needed to tell of a message.
pub(super) fn people(message: &Value) -> Vec<String> {
    let mut all: Vec<String> = marks::named(text(message, "text")).into_iter().map(str::to_owned).collect();
    all.extend(Some(text(message, "user").to_owned()).filter(|id| is_id(id)));
    all
}

/// Whether a message is our own.
pub(super) fn is_own(message: &Value, us: &Us) -> bool {
    text(message, "user") == us.id || (!us.bot.is_empty() && text(message, "bot_id") == us.bot)
}

/// Returns the thread that a message stands in; empty: it stands in the channel itself.
pub(super) fn thread_of(message: &Value) -> &str {
    let thread = text(message, "thread_ts");
    if thread == text(message, "ts") || !is_time(thread) { "" } else { thread }
}

fn from(message: &Value, known: Option<&Person>) -> From {
    let (user, bot_id) = (text(message, "user"), text(message, "bot_id"));
    let is_bot = !bot_id.is_empty() || text(message, "subtype") == "bot_message";
    let person = known.cloned().unwrap_or_default();
    let own = [text(message, "username"), text(&message["bot_profile"], "name")];
    let own = own.into_iter().find(|name| is_bot && !name.is_empty());
    let id = if user.is_empty() { bot_id } else { user };
    let name = own.map_or(person.name, |name| cut(name, 256));
    From {
        id: id.to_owned(),
        name: if name.is_empty() { id.to_owned() } else { name },
        handle: person.handle,
        bot: is_bot || person.bot,
        ..From::default()
    }
}

/// The event that a message is for G2, without its place. `None`: it says nothing. `author`: who wrote it, as far as known.
pub(super) fn event(message: &Value, reader: &Reader<'_>, author: Option<&Person>) -> Option<Event> {
    let ts = text(message, "ts");
    let base = Event {
        key: ts.to_owned(),
        kind: EventKind::Message,
        id: ts.to_owned(),
        at: at(ts),
        from: from(message, author),
        ..Event::default()
    };
    match notice(message, reader) {
        Notice::Written => Some(whole(message, reader, base)),
        Notice::Words(words) => Some(Event { text: words, mention: Mention::None, ..base }),
        Notice::Nothing => None,
        Notice::Unknown => {
            let kind = cut(text(message, "subtype"), 100);
            let event = whole(message, reader, Event { unknown_kind: kind.clone(), ..base });
            let text = crate::kit::below_one_another(&[&unknown(&kind), &event.text]);
            Some(Event { text, ..event })
        }
    }
}

/// Puts all that it says to its event.
fn whole(message: &Value, reader: &Reader<'_>, base: Event) -> Event {
    let own = text(message, "text");
    let mention = if own.contains(&format!("<@{}>", reader.me)) || own.contains(&format!("<@{}|", reader.me))
    {
        Mention::Me
    } else if marks::calls_all(own) {
        Mention::All
    } else {
        Mention::None
    };
    // What stands in a thread below our own message answers it.
    let below_ours = !thread_of(message).is_empty() && text(message, "parent_user_id") == reader.me;
    let reply_to = below_ours.then(|| ReplyTo {
        id: text(message, "thread_ts").to_owned(),
        myself: true,
        ..ReplyTo::default()
    });
    let attachments = files(message);
    let words = reader.words(message);
    let event = Event { mention, reply_to, attachments, ..base };
    match reader.shared(message) {
        Some((author, shared)) => {
            Event { text: shared, comment: words, forwarded_from: Some(author), ..event }
        }
        None if words.is_empty() && event.attachments.is_empty() => Event {
            text: "[message of which Slack shows apps nothing]".into(),
            unknown_kind: "empty".into(),
            ..event
        },
        None => Event { text: words, ..event },
    }
}

/// The event of an edit. `None`: the words are the same, as where Slack puts a page's picture to a link.
pub(super) fn edit(
    message: &Value,
    before: &Value,
    when: &str,
    reader: &Reader<'_>,
    author: Option<&Person>,
) -> Option<Event> {
    let now = event(message, reader, author)?;
    let was = event(before, reader, author).filter(|_| before.is_object());
    let says = |event: &Event| {
        (
            event.text.clone(),
            event.comment.clone(),
            event.mention,
            event.attachments.iter().map(|file| file.fetch.clone()).collect::<Vec<_>>(),
        )
    };
    if was.is_some_and(|was| says(&was) == says(&now)) {
        return None;
    }
    let ts = text(message, "ts");
    Some(Event {
        key: format!("e{ts}.{when}"),
        kind: EventKind::Edit,
        of: ts.to_owned(),
        at: at(when).or(now.at),
        ..now
    })
}

/// The sign of a reaction, as people see it.
pub(super) fn sign(name: &str) -> String {
    cut(&signs::shown(name), 256)
}

/// A time of Slack's, which is the id of a message, too, RFC 3339. `None`: it is none.
pub(super) fn at(ts: &str) -> Option<String> {
    let micros = i64::try_from(micros(ts)).ok().filter(|micros| *micros > 0)?;
    jiff::Timestamp::from_microsecond(micros).ok().map(|at| at.to_string())
}

/// A time of Slack's in µs since 1970; 0: it is none.
pub(super) fn micros(ts: &str) -> u64 {
    let read = || {
        let (seconds, rest) = ts.split_once('.').unwrap_or((ts, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let rest = format!("{rest:0<6}");
        (digits(seconds) && digits(&rest) && seconds.len() <= 11 && rest.len() == 6)
            .then(|| Some(seconds.parse::<u64>().ok()? * 1_000_000 + rest.parse::<u64>().ok()?))?
    };
    read().unwrap_or(0)
}

/// Writes a time as Slack does.
pub(super) fn time(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

pub(super) fn is_time(ts: &str) -> bool {
    micros(ts) > 0
}

/// Whether a text is an id of Slack's.
pub(super) fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests;
