//! What an adapter tells G2.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many ids a person may have beside the first.
pub const MOST_ALSO: usize = 8;
/// How many earlier messages a message may name that it continues.
pub const MOST_REFERENCES: usize = 32;
/// The longest title of a message, characters.
pub const LONGEST_TITLE: usize = 300;
/// How many endings the addresses of an account may have.
pub const MOST_ENDINGS: usize = 16;
/// The longest expression for chats of one person, bytes.
pub const LONGEST_DIRECT: usize = 256;

/// A line of an adapter's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Up {
    /// The first line, once the platform has let it in.
    Hello(Box<Hello>),
    /// How it stands, at each change.
    State(State),
    /// What a person needs to link the account; it is shown to who asks for it, and never logged.
    Pair(Pair),
    /// What is known of a chat.
    Chat(Chat),
    /// A chat has a new address. G2 moves what it has of the old one. Answered by `took` as an event is.
    ChatMoved {
        n: u64,
        from: String,
        to: String,
    },
    /// Something came in. Answered by `took`.
    Event(Box<Event>),
    /// A person has these ids, each without the prefix. Answered by `took` as an event is.
    PersonIs {
        n: u64,
        id: String,
        /// All others of theirs, at most [`MOST_ALSO`]: one that is not named is no longer theirs.
        also: Vec<String>,
    },
    /// Ends a `send` or an `amend`.
    Done(Done),
    /// Ends a `look_for`.
    Found(Found),
    /// Ends an `open_dm`; no chat: it can't be opened, for this reason.
    ChatOf {
        r: u64,
        #[serde(default)]
        chat: Option<String>,
        #[serde(default)]
        why: String,
    },
    /// Ends a `list_chats`: all chats, as many as a line holds; or why the platform did not tell.
    Chats {
        r: u64,
        #[serde(default)]
        chats: Vec<Chat>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// Ends a `fetch`: a file below the spool, or why there is none.
    Fetched {
        r: u64,
        #[serde(default)]
        file: Option<String>,
        #[serde(default)]
        problem: Option<String>,
    },
    /// Ends a `request`.
    Response(Response),
    Pong {
        r: u64,
    },
    #[serde(other)]
    Unknown,
}

/// What the sender of a request is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Response {
    pub r: u64,
    /// HTTP's number: 202 once what it brought is stored.
    pub status: u16,
    /// One line for people.
    pub says: String,
}

/// What an adapter is and can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Hello {
    /// The version of the protocol that it speaks.
    pub v: u32,
    /// Its name and version, for people.
    pub adapter: String,
    #[serde(rename = "self")]
    pub myself: Myself,
    pub text: TextLimit,
    /// The longest text beside a file, in the text's unit; 0: files have none.
    pub caption_max: usize,
    pub sent_twice: SentTwice,
    /// What it can do; words that are not known are ignored.
    pub can: Vec<Can>,
    pub buttons: Buttons,
    pub media: Media,
    pub pace: Pace,
    /// How often a sign of life has to be repeated, ms.
    pub typing_ms: u64,
    /// How often a text may be changed while it grows, ms.
    pub draft_ms: u64,
    /// Whether the platform tells the account all messages of groups, or only those that are meant for it. Absent: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hears_all: Option<bool>,
    /// How its addresses read beside their prefix. Absent: they have the prefix, and each chat counts as a group's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Addresses>,
}

/// How the addresses of an account read, beside that they begin with the prefix and a colon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Addresses {
    /// Addresses without a prefix that end so are the account's too: `@g.us`. Only an account without a name of its own
    /// (`whatsapp`, not `whatsapp.work`) serves them. At most [`MOST_ENDINGS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endings: Vec<String>,
    /// A regular expression over the whole id behind the prefix, or over the whole address that has none: such a chat is one
    /// person's alone with the agent. At most [`LONGEST_DIRECT`] bytes; empty: no address shows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub direct: String,
    /// The thread that is the main line of a group, where everybody writes who opens no thread; empty: there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub main_thread: String,
    /// Those who write are programs, no people.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub programs: bool,
}

/// Who the account is on its platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Myself {
    pub id: String,
    pub name: String,
    pub handle: String,
}

/// How long a text may be, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TextLimit {
    /// 0: of any length.
    pub max: usize,
    pub unit: Unit,
    pub format: Format,
}

impl Default for TextLimit {
    fn default() -> Self {
        Self { max: 2000, unit: Unit::Chars, format: Format::Plain }
    }
}

/// In what a platform counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Utf16,
    #[default]
    Chars,
    Bytes,
}

impl Unit {
    /// Returns how long a text is.
    #[must_use]
    pub fn of(self, text: &str) -> usize {
        match self {
            Self::Bytes => text.len(),
            Self::Chars => text.chars().count(),
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
        }
    }

    /// Returns how long a character is.
    #[must_use]
    pub fn of_char(self, c: char) -> usize {
        match self {
            Self::Bytes => c.len_utf8(),
            Self::Chars => 1,
            Self::Utf16 => c.len_utf16(),
        }
    }
}

/// How a platform takes a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The words, and ranges that say what they look like: Telegram, Signal.
    Spans,
    Discord,
    Slack,
    Whatsapp,
    /// The words, and HTML.
    Matrix,
    /// One line a part.
    Irc,
    #[default]
    #[serde(other)]
    Plain,
}

/// What becomes of a text that is sent a second time with the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum SentTwice {
    /// The platform knows the key, and shows it once; for so long, ms, where that ends.
    Key {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window_ms: Option<u64>,
        /// After that it can be looked for.
        #[serde(default)]
        readback: bool,
    },
    /// It can be looked for.
    Readback,
    /// It is shown twice.
    #[default]
    #[serde(other)]
    Never,
}

/// Something that not every platform can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Can {
    Typing,
    Draft,
    Edit,
    Delete,
    React,
    Buttons,
    Reply,
    Threads,
    MediaIn,
    MediaOut,
    OpenDm,
    ListChats,
    Requests,
    #[serde(other)]
    Unknown,
}

/// The bounds on buttons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Buttons {
    pub max: usize,
    pub per_row: usize,
    pub press_bytes: usize,
}

/// The bounds on files, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Media {
    /// The largest file that goes out; several of one message have no more together.
    pub out_max: u64,
    pub in_max: u64,
    /// How many files one `send` may have that are alike: pictures and films, sounds, or others. 0 and 1: one.
    pub together: usize,
}

/// How fast the platform lets a bot speak; 0: it says nothing about that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pace {
    /// Between two texts to one chat, ms.
    pub chat_ms: u64,
    pub group_per_min: u32,
    pub account_per_s: u32,
}

/// How an adapter stands: the connection, what comes in, what goes out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct State {
    pub transport: Light,
    pub inbound: Light,
    pub outbound: Light,
    /// Why, where a light is not `ok`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// One light of three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Light {
    Ok,
    /// It is being tried.
    Waiting,
    Failing,
    /// A person has to do something; it is not tried again before.
    Refused,
    #[default]
    #[serde(other)]
    Unknown,
}

/// What links an account: a QR code's text, or a code to type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pair {
    /// `qr`, `code` or `link`.
    pub kind: String,
    pub data: String,
    /// How long it holds, RFC 3339.
    pub until: String,
}

/// What is known of a chat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chat {
    pub chat: String,
    pub name: String,
    pub kind: ChatKind,
    pub threaded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    /// Whether the platform tells the account all messages of this chat, whatever `hello` says. Absent: nothing new is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hears_all: Option<bool>,
}

/// What kind of place a chat is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    /// One person and the bot.
    Direct,
    #[default]
    #[serde(other)]
    Group,
}

/// Reads values of which some may be `null`.
fn values<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let read = BTreeMap::<String, Option<String>>::deserialize(from)?;
    Ok(read.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

/// Something that came in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Event {
    /// Counts up from 1 in each life of an adapter.
    pub n: u64,
    /// What tells the event from every other of its chat, for ever.
    pub key: String,
    /// Stored with the event: where the adapter goes on after it. A key whose value is `null`, or empty, is forgotten.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "values")]
    #[schemars(with = "BTreeMap<String, Option<String>>")]
    pub cursor: BTreeMap<String, String>,
    pub kind: EventKind,
    pub chat: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thread: String,
    /// The platform's id of the message.
    pub id: String,
    /// When it was written, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// It was written while the adapter was away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    pub from: From,
    pub text: String,
    pub mention: Mention,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
    /// The author of a text that was forwarded; empty: the platform does not say who it is. Such a text answers no question, and
    /// is no command. Absent: its sender wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_from: Option<String>,
    /// Of a forwarded text: what the person who forwarded it wrote beside it. Only these words are theirs: they engage an agent, and
    /// the forwarded ones do not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// The platform's word for a kind of message that the adapter does not know. `text` names it for people; G2 counts it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unknown_kind: String,
    /// Of `nothing`: why what the platform told can't be read. G2 counts it, notes it in the account's log, and tells a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unread: String,
    /// What it stands under: the subject of a mail, the title of a thread. At most [`LONGEST_TITLE`] characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The platform's ids of earlier messages that it continues, the newest last; at most [`MOST_REFERENCES`]. Without a `thread`
    /// it belongs into that of the newest one which G2 knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// The id of the album that it is a piece of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attached>,
    /// Of an edit, a deletion or a reaction: the message that it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Of an edit that no person wrote, such as a live location that moved: the new text takes the place of the old one, and wakes
    /// nobody.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Of a reaction.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emoji: String,
    /// Of a reaction: whether it was put there, or taken back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on: bool,
    /// Of a press: what the button carries.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub press: String,
    /// Facts about the chat that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<Chat>,
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    #[default]
    Message,
    /// A text of before was changed. It answers no question, and is no command.
    Edit,
    Delete,
    Reaction,
    Press,
    /// Nothing that G2 knows: its cursor is stored, and no more.
    #[serde(other)]
    Nothing,
}

/// Who wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct From {
    /// The platform's id, without the prefix.
    pub id: String,
    /// All other ids of the same person, each without the prefix, at most [`MOST_ALSO`]: the person is known by any of them.
    /// Empty: nothing new is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub handle: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bot: bool,
    /// It is the account itself.
    #[serde(rename = "self", skip_serializing_if = "std::ops::Not::not")]
    pub myself: bool,
}

/// Whom a message names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mention {
    Me,
    /// Everybody: nobody in particular.
    All,
    None,
    /// The platform can't tell.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The message that another one answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReplyTo {
    pub id: String,
    /// Who wrote it, by the name that people see.
    pub from: String,
    #[serde(rename = "self")]
    pub myself: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The part of it that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The kind of the file that stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The name of the chat that it stands in, where that is another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub elsewhere: String,
}

/// A file beside a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Attached {
    /// Below the spool, where it was fetched at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What fetches it later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<String>,
    pub kind: Kind,
    pub mime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Why there is none; the message comes all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Image,
    Video,
    Audio,
    /// Speech.
    Voice,
    #[default]
    #[serde(other)]
    Document,
}

/// What became of something that was sent or changed: exactly one of `ids`, `not` and `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Done {
    pub r: u64,
    /// The platform has it, under these ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// The platform certainly has nothing of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<NotSent>,
    /// Nobody knows whether the platform has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Why the platform has nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NotSent {
    /// It wants to be left alone for so long; this costs no try.
    Busy {
        after_ms: u64,
        #[serde(default)]
        scope: Scope,
    },
    /// There is no connection; it is sent when there is one. This costs no try.
    Offline,
    /// Another try may help.
    Again { text: String },
    /// It never will take it.
    Refused {
        #[serde(default)]
        code: String,
        text: String,
        #[serde(default)]
        hint: String,
    },
    /// The place is no more, or we are not in it: nothing can be said there before a person acts.
    Gone {
        #[serde(default)]
        text: String,
        /// What a person can do about it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hint: String,
        #[serde(default)]
        what: Went,
    },
}

/// What is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Went {
    /// The thread alone. The chat itself has the same readers, so that the text may be said there.
    Thread,
    /// The thread alone. Others would read the text in the chat, or nothing can be said outside of threads there.
    ClosedThread,
    #[default]
    #[serde(other)]
    Chat,
}

/// What is to be left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Account,
    #[default]
    #[serde(other)]
    Chat,
}

/// Whether the platform has what was looked for: exactly one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Found {
    pub r: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_sent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_tell: Option<String>,
}
