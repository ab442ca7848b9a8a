//! What an adapter tells, as the store takes it in. Nothing of it is trusted: what is too long or not its own is left out.

use std::collections::BTreeSet;

use channel_protocol::{
    Attached, Chat, ChatKind as Kind, Event, EventKind, Kind as FileKind, LONGEST_TITLE, MOST_REFERENCES,
    Mention, ReplyTo,
};
use ipc_handlers::{Time, file::MediaKind};

use crate::{
    domain::heard::origin::Origin,
    domain::platforms::{
        addresses::Platform,
        attachments::{Attachment, MOST, NOT_FETCHED, Todo, name_of},
        channels::{Mark, MarkKind},
        chats::{ChatInfo, ChatKind, Listing},
    },
    domain::rows::{Answered, Inbound},
    store::Arrival,
};

/// The longest id, key, address or name, bytes.
const LONGEST_WORD: usize = 512;
/// The longest name that is kept, characters.
const LONGEST_NAME: usize = 128;
/// The most chats of one list that are taken in.
const MOST_LISTED: usize = 10_000;
/// The longest text that fetches a file, bytes.
const LONGEST_FETCH: usize = 2048;
/// The largest size of a file that a sender can state, bytes. A larger one counts as this.
const LARGEST_TOLD: u64 = 1 << 40;
/// The longest name, type and problem of a file, characters.
const LONGEST_OF_FILE: usize = 200;
/// A message that is older than this when it comes late wakes nobody, ms.
const LATE_MS: i64 = 3_600_000;

/// Why an event is not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadEvent {
    #[error("{0:?} is no chat of this account")]
    Chat(String),
    #[error("its {0} is missing, longer than {LONGEST_WORD} bytes, or has control characters")]
    Word(&'static str),
}

/// Checks a word that has to be there.
fn word<'a>(name: &'static str, word: &'a str) -> Result<&'a str, BadEvent> {
    match !word.is_empty() && word.len() <= LONGEST_WORD && !word.chars().any(char::is_control) {
        true => Ok(word),
        false => Err(BadEvent::Word(name)),
    }
}

/// Checks a word that may be missing.
fn word_or_none<'a>(name: &'static str, text: &'a str) -> Result<&'a str, BadEvent> {
    if text.is_empty() { Ok(text) } else { word(name, text) }
}

/// Checks the address of a chat.
pub(super) fn chat<'a>(platform: &Platform, jid: &'a str) -> Result<&'a str, BadEvent> {
    let has_id = jid.split_once(':').is_none_or(|(_, id)| !id.is_empty());
    let own = has_id && word("chat", jid).is_ok() && platform.owns(jid);
    if own { Ok(jid) } else { Err(BadEvent::Chat(jid.chars().take(LONGEST_NAME).collect())) }
}

/// Returns a text as it is shown in one line, cut.
fn line(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect::<String>().trim().to_owned()
}

fn name(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}

/// Reads the ids of earlier messages, as many of the newest as are looked for.
fn references(told: &[String]) -> Vec<String> {
    let newest = told.iter().skip(told.len().saturating_sub(MOST_REFERENCES));
    newest.filter(|id| word("references", id).is_ok()).cloned().collect()
}

/// Reads the facts about a chat.
pub(super) fn info(chat: &Chat) -> ChatInfo {
    let kind = match chat.kind {
        Kind::Direct => ChatKind::Direct,
        Kind::Group => ChatKind::Group,
    };
    ChatInfo {
        name: name(&chat.name),
        kind,
        threaded: chat.threaded,
        members: chat.members,
        hears_all: chat.hears_all,
    }
}

/// Reads the chats that an adapter lists, and says why the first one is passed over that can't be used.
pub(super) fn listing(platform: &Platform, told: &[Chat]) -> (Listing, Option<String>) {
    let (mut listing, mut why, mut known) = (Listing::default(), None, BTreeSet::new());
    for one in told {
        let reason = match chat(platform, &one.chat) {
            Err(error) => error.to_string(),
            Ok(jid) if known.contains(jid) => format!("{:?} is listed twice", name(jid)),
            Ok(_) if known.len() >= MOST_LISTED => format!("more than {MOST_LISTED} are listed"),
            Ok(jid) => {
                known.insert(jid);
                listing.chats.push((jid.to_owned(), info(one)));
                continue;
            }
        };
        listing.passed_over += 1;
        why.get_or_insert(reason);
    }
    (listing, why)
}

/// Reads an event.
///
/// # Errors
/// [`BadEvent`]; it will be the same however often it is told.
pub(super) fn arrival(platform: &Platform, event: Event, now: Time) -> Result<Arrival, BadEvent> {
    if event.kind == EventKind::Nothing {
        return Ok(if event.unread.is_empty() { Arrival::Nothing } else { Arrival::PassedOver });
    }
    let chat_jid = chat(platform, &event.chat)?.to_owned();
    let sender = match word_or_none("sender", &event.from.id)? {
        "" => String::new(),
        id => format!("{}:{id}", platform.prefix()),
    };
    let key = word("key", &event.key)?.to_owned();
    let (kind, message_id) = match event.kind {
        EventKind::Press => {
            let press = word("press", &event.press)?.to_owned();
            return Ok(Arrival::Press { press, user: sender, chat: chat_jid, of: event.of.clone() });
        }
        EventKind::Delete => (MarkKind::Deleted, word("of", &event.of)?),
        EventKind::Reaction if event.on => (MarkKind::Reaction, word("of", &event.of)?),
        EventKind::Reaction => (MarkKind::ReactionGone, word("of", &event.of)?),
        EventKind::Edit => {
            return message(platform, chat_jid, key, word("of", &event.of)?.to_owned(), sender, &event, now);
        }
        EventKind::Message => {
            return message(platform, chat_jid, key, word("id", &event.id)?.to_owned(), sender, &event, now);
        }
        EventKind::Nothing => return Ok(Arrival::Nothing),
    };
    let reaction = if kind == MarkKind::Deleted {
        String::new()
    } else {
        word("emoji", &event.emoji)?.chars().take(64).collect()
    };
    Ok(Arrival::Mark(Mark {
        chat_jid,
        replay_key: key,
        message_id: message_id.to_owned(),
        sender,
        kind,
        reaction,
    }))
}

fn message(
    platform: &Platform,
    chat_jid: String,
    replay_key: String,
    id: String,
    sender: String,
    event: &Event,
    now: Time,
) -> Result<Arrival, BadEvent> {
    let at = event.at.as_deref().and_then(|at| at.parse().ok()).map(Time::from_jiff);
    let reply = event.reply_to.as_ref();
    let attachments: Vec<Attachment> = event.attachments.iter().take(MOST).map(attachment).collect();
    // An edit takes words out.
    let says_nothing =
        event.text.trim().is_empty() && event.comment.trim().is_empty() && attachments.is_empty();
    if says_nothing && event.kind != EventKind::Edit {
        return Ok(Arrival::Nothing);
    }
    let sender_name = match name(&event.from.name) {
        shown if shown.trim().is_empty() => name(&event.from.id),
        shown => shown,
    };
    Ok(Arrival::Message(Box::new(Inbound {
        chat_jid,
        replay_key,
        id,
        thread: word_or_none("thread", &event.thread)?.to_owned(),
        sender,
        sender_name,
        text: event.text.clone(),
        title: line(&event.title, LONGEST_TITLE),
        references: references(&event.references),
        forwarded_from: event.forwarded_from.as_deref().map(name),
        comment: event.forwarded_from.as_ref().map(|_| event.comment.clone()).unwrap_or_default(),
        quiet: event.kind == EventKind::Edit && event.quiet,
        unknown_kind: !event.unknown_kind.is_empty(),
        origin: match (event.kind, &event.forwarded_from) {
            (EventKind::Edit, _) => Origin::Edited,
            (_, Some(_)) => Origin::Forwarded,
            (_, None) => Origin::Written,
        },
        at: at.or(Some(now)),
        from_me: event.from.myself,
        bot: event.from.bot,
        // A forward that stands below an answer to us is another one's words all the same.
        mentioned: event.mention == Mention::Me
            || (event.forwarded_from.is_none() && reply.is_some_and(|reply| reply.myself)),
        reply_to_id: reply.map(|reply| word_or_none("reply_to", &reply.id).map(str::to_owned)).transpose()?,
        reply_to_text: reply.and_then(|reply| reply.text.clone()),
        reply_to_sender: reply.map(|reply| name(&reply.from)),
        answered: reply.map(answered).unwrap_or_default(),
        attachments,
        chat: event
            .about
            .as_ref()
            .filter(|about| platform.owns(&about.chat) || about.chat.is_empty())
            .map(info),
        late: event.late && at.is_some_and(|at| now.ms_since(at) > LATE_MS),
    })))
}

/// Reads what is told of an answered message, beside its sender and its text.
fn answered(reply: &ReplyTo) -> Answered {
    Answered {
        own: reply.myself,
        quote: reply.quote.clone().filter(|quote| !quote.is_empty()),
        kind: reply.kind.map(media_kind),
        chat: Some(name(&reply.elsewhere)).filter(|chat| !chat.trim().is_empty()),
    }
}

fn media_kind(kind: FileKind) -> MediaKind {
    match kind {
        FileKind::Image => MediaKind::Image,
        FileKind::Video => MediaKind::Video,
        FileKind::Audio => MediaKind::Audio,
        FileKind::Voice => MediaKind::Voice,
        FileKind::Document => MediaKind::Document,
    }
}

/// Reads what is told of a file. It is there with the message, or is fetched once that is heard, or is missing.
fn attachment(file: &Attached) -> Attachment {
    let kind = media_kind(file.kind);
    let told = |text: &str| -> Option<String> {
        let text: String = text.chars().filter(|c| !c.is_control()).take(LONGEST_OF_FILE).collect();
        (!text.trim().is_empty()).then_some(text)
    };
    let problem = file.problem.as_deref().and_then(told);
    let todo = match (&problem, &file.file, &file.fetch) {
        (Some(_), _, _) => None,
        (None, Some(place), _) => Some(Todo::Take(place.clone())),
        (None, None, Some(what)) => {
            (1..=LONGEST_FETCH).contains(&what.len()).then(|| Todo::Fetch(what.clone()))
        }
        (None, None, None) => None,
    };
    Attachment {
        name: file.name.as_deref().and_then(told).unwrap_or_else(|| name_of(kind, &file.mime)),
        kind,
        mime: told(&file.mime).unwrap_or_else(|| "application/octet-stream".into()),
        claimed: true,
        size: file.bytes.unwrap_or(0).min(LARGEST_TOLD),
        problem: Some(match problem {
            Some(why) => format!("{NOT_FETCHED}: {why}"),
            None => NOT_FETCHED.to_owned(),
        }),
        seconds: file.seconds.and_then(|seconds| u32::try_from(seconds).ok()),
        todo,
        ..Attachment::default()
    }
}

#[cfg(test)]
mod tests {
    use channel_protocol::From;

    use crate::domain::platforms::addresses::Forms;

    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    fn event() -> Event {
        Event {
            n: 1,
            key: "u1".into(),
            chat: "tg:-5".into(),
            id: "7".into(),
            text: "hello".into(),
            from: From { id: "12".into(), name: "Ada\nX".into(), ..From::default() },
            ..Event::default()
        }
    }

    fn read(event: Event) -> Result<Arrival, BadEvent> {
        arrival(&Platform::new("telegram", "tg", Forms::NONE), event, NOW)
    }

    fn inbound(event: Event) -> Inbound {
        match read(event) {
            Ok(Arrival::Message(inbound)) => *inbound,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_is_of_its_account_and_an_answer_to_us_is_a_mention() {
        let plain = inbound(event());
        assert_eq!((plain.sender.as_str(), plain.sender_name.as_str()), ("tg:12", "AdaX"));
        assert_eq!((plain.mentioned, plain.late, plain.at), (false, false, Some(NOW)));
        let reply = ReplyTo { id: "3".into(), myself: true, ..ReplyTo::default() };
        assert!(inbound(Event { reply_to: Some(reply), ..event() }).mentioned);
        assert!(inbound(Event { mention: Mention::Me, ..event() }).mentioned);
        assert!(!inbound(Event { mention: Mention::All, ..event() }).mentioned);
        let edit = inbound(Event { kind: EventKind::Edit, of: "6".into(), id: String::new(), ..event() });
        assert_eq!((edit.id.as_str(), edit.replay_key.as_str(), edit.origin), ("6", "u1", Origin::Edited));
        let forward = Event { forwarded_from: Some("Eve".into()), comment: "look".into(), ..event() };
        let edit = inbound(Event { kind: EventKind::Edit, of: "6".into(), ..forward });
        let (from, comment) = (edit.forwarded_from.as_deref(), edit.comment.as_str());
        assert_eq!((edit.origin, from, comment), (Origin::Edited, Some("Eve"), "look"));
        // A platform need not say from whom it is.
        let forwarded = inbound(Event { forwarded_from: Some(String::new()), ..event() });
        assert_eq!((plain.origin, forwarded.origin), (Origin::Written, Origin::Forwarded));
        for chat in ["tg.work:-5", "local:main", "tg:", "", "tg:\u{7}"] {
            assert!(
                matches!(read(Event { chat: chat.into(), ..event() }), Err(BadEvent::Chat(_))),
                "{chat:?}"
            );
        }
        for bad in [
            Event { key: String::new(), ..event() },
            Event { id: "x".repeat(513), ..event() },
            Event { kind: EventKind::Delete, ..event() },
            Event { kind: EventKind::Press, ..event() },
        ] {
            assert!(matches!(read(bad), Err(BadEvent::Word(_))));
        }
    }

    #[test]
    fn a_forward_an_answer_and_an_unknown_kind_are_told_with_all_that_is_known_of_them() {
        let forward =
            inbound(Event { forwarded_from: Some("Eve\u{7}".repeat(60)), comment: "look".into(), ..event() });
        assert_eq!(forward.forwarded_from.as_deref().map(str::len), Some(LONGEST_NAME));
        assert_eq!((forward.text.as_str(), forward.comment.as_str()), ("hello", "look"));
        // Only beside a forwarded text there is a comment.
        let plain = inbound(Event { comment: "look".into(), quiet: true, ..event() });
        assert_eq!((plain.comment.as_str(), plain.quiet, plain.unknown_kind), ("", false, false));
        let emptied = Event { kind: EventKind::Edit, of: "6".into(), text: String::new(), ..event() };
        assert_eq!(inbound(emptied).text, "");
        let nothing = Event { text: String::new(), forwarded_from: Some(String::new()), ..event() };
        assert!(matches!(read(nothing.clone()), Ok(Arrival::Nothing)));
        assert_eq!(inbound(Event { comment: "look".into(), ..nothing }).comment, "look");
        let moved = inbound(Event { kind: EventKind::Edit, of: "6".into(), quiet: true, ..event() });
        assert_eq!((moved.origin, moved.quiet), (Origin::Edited, true));
        let poll = inbound(Event { unknown_kind: "poll".into(), text: "[poll]".into(), ..event() });
        assert_eq!((poll.unknown_kind, poll.text.as_str()), (true, "[poll]"));
        let reply = ReplyTo {
            id: "3".into(),
            from: "Bob\n".into(),
            text: Some("all of it".into()),
            quote: Some("it".into()),
            kind: Some(FileKind::Voice),
            elsewhere: "Chess".into(),
            ..ReplyTo::default()
        };
        let answer = inbound(Event { reply_to: Some(reply), ..event() });
        assert_eq!(
            (answer.reply_to_sender.as_deref(), answer.reply_to_text.as_deref()),
            (Some("Bob"), Some("all of it"))
        );
        let (kind, chat, quote) = (Some(MediaKind::Voice), Some("Chess".into()), Some("it".into()));
        assert_eq!(answer.answered, Answered { own: false, quote, kind, chat });
        let none =
            inbound(Event { reply_to: Some(ReplyTo { id: "3".into(), ..ReplyTo::default() }), ..event() });
        assert_eq!(none.answered, Answered::default());
        assert!(matches!(
            read(Event { kind: EventKind::Nothing, unread: "a lone surrogate".into(), ..event() }),
            Ok(Arrival::PassedOver)
        ));
    }

    #[test]
    fn a_late_message_is_one_that_is_more_than_an_hour_old() {
        let at = |minutes: i64| Event {
            late: true,
            at: Some(NOW.plus_ms(-minutes * 60_000).to_string()),
            ..event()
        };
        assert!(!inbound(at(59)).late && inbound(at(61)).late);
        assert!(!inbound(Event { late: false, ..at(61) }).late);
        assert!(!inbound(Event { at: Some("yesterday".into()), ..at(61) }).late);
    }

    #[test]
    fn a_file_without_a_text_is_a_message_all_the_same() {
        let file = Attached {
            name: Some("a\n.jpg".into()),
            kind: FileKind::Image,
            mime: "image/jpeg".into(),
            bytes: Some(7),
            ..Attached::default()
        };
        let of = |file: Attached| {
            let event = Event { text: String::new(), attachments: vec![file], ..event() };
            inbound(event).attachments.remove(0)
        };
        let missing = of(Attached { problem: Some("31 MB".into()), fetch: Some("x".into()), ..file.clone() });
        assert_eq!((missing.line(""), missing.todo), ("[image: a.jpg — not fetched: 31 MB]".into(), None));
        let later = of(Attached { fetch: Some("x".into()), name: None, ..file.clone() });
        assert_eq!((later.name.as_str(), later.todo), ("image.jpg", Some(Todo::Fetch("x".into()))));
        let now = of(Attached { file: Some("in/1".into()), ..file.clone() });
        assert_eq!(now.todo, Some(Todo::Take("in/1".into())));
        let long = of(Attached { fetch: Some("x".repeat(LONGEST_FETCH + 1)), ..file.clone() });
        assert_eq!((long.problem.as_deref(), long.todo), (Some(NOT_FETCHED), None));
        assert_eq!(inbound(Event { attachments: vec![file; 99], ..event() }).attachments.len(), MOST);
        assert!(matches!(read(Event { text: " ".into(), ..event() }), Ok(Arrival::Nothing)));
    }

    #[test]
    fn of_a_list_each_chat_of_the_account_is_taken_once_within_bounds() {
        let platform = Platform::new("telegram.work", "tg.work", Forms::NONE);
        let chat = |chat: &str, name: &str| Chat { chat: chat.into(), name: name.into(), ..Chat::default() };
        let (listing, why) = listing(&platform, &[]);
        assert_eq!((listing, why), (Listing::default(), None));
        let long = "x".repeat(LONGEST_WORD);
        let told = [
            chat("tg.work:-1", &"n\n".repeat(500)),
            chat("tg:-1", "another account's"),
            chat("local:main", "ours"),
            chat("tg.work:", ""),
            chat("", ""),
            chat(&format!("tg.work:{long}"), ""),
            chat("tg.work:-2\u{1b}", ""),
            chat("tg.work:-1", "again"),
            Chat { kind: Kind::Direct, threaded: true, members: Some(2), ..chat("tg.work:7", "") },
        ];
        let (listing, why) = super::listing(&platform, &told);
        assert_eq!(why.unwrap(), r#""tg:-1" is no chat of this account"#);
        assert_eq!(listing.passed_over, 7);
        let direct = ChatInfo {
            name: String::new(),
            kind: ChatKind::Direct,
            threaded: true,
            members: Some(2),
            hears_all: None,
        };
        assert_eq!(listing.chats[1], ("tg.work:7".to_owned(), direct));
        assert_eq!((listing.chats.len(), listing.chats[0].1.name.len()), (2, LONGEST_NAME));
        let crowd: Vec<Chat> = (0..70_000).map(|n| chat(&format!("tg.work:{n}"), "")).collect();
        let (listing, why) = super::listing(&platform, &crowd);
        assert_eq!((listing.chats.len(), listing.passed_over), (MOST_LISTED, 70_000 - MOST_LISTED));
        assert_eq!(why.as_deref(), Some("more than 10000 are listed"));
    }
}
