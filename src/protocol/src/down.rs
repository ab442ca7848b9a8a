//! What G2 tells an adapter.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A line of G2's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Down {
    /// The first line.
    Start(Box<Start>),
    /// The event `n` is stored; only now may the platform be told that it was received.
    Took { n: u64 },
    /// What the person behind the event `n`, a pressed button, is told.
    Told { n: u64, text: String },
    /// Sends something. Answered by `done`. At most one is open for each chat.
    Send(Box<Send>),
    /// Asks whether the platform has what may have been sent. Answered by `found`.
    LookFor(LookFor),
    /// Changes something that was sent, deletes it, or puts a reaction to any message. Answered by `done`.
    Amend(Amend),
    /// A sign of life in a chat; never answered, and the latest one counts.
    Show(Hint),
    /// Asks for the chat with one person. Answered by `chat_of`.
    OpenDm { r: u64, user: String },
    /// Asks which chats there are. Answered by `chats`.
    ListChats { r: u64 },
    /// Asks for a file of an event that was not fetched at once. Answered by `fetched`.
    Fetch(Fetch),
    /// A request that reached the page's listener below `/hook/` and the account's name. Answered by `response`.
    Request(Box<Request>),
    /// Answered by `pong` within 10 s.
    Ping { r: u64 },
    /// Leave: finish what is being written, then exit with 0 within 5 s.
    Stop {},
    #[serde(other)]
    Unknown,
}

/// What an adapter begins with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Start {
    /// The version of the protocol that G2 speaks.
    pub v: u32,
    /// The name of the account in G2: `telegram`, `telegram.work`.
    pub instance: String,
    /// What the addresses of its chats and people begin with, without the colon: `tg`, `tg.work`.
    pub prefix: String,
    /// The account's table of `g2.toml`, with its secrets.
    pub config: Map<String, Value>,
    /// The values that came with events, as they were stored with them last.
    pub cursor: BTreeMap<String, String>,
    /// The newest message known of each chat, for platforms that are asked chat by chat what was missed.
    pub chats: BTreeMap<String, String>,
    /// A folder for files, made for this start: the adapter writes below `in/` and reads below `out/`.
    pub spool: String,
    /// A folder that the adapter keeps from start to start.
    pub state_dir: String,
    /// Where the platform is reached instead of its own address: another server of it, or a test's.
    pub upstream: Option<String>,
    /// Words that are commands in chats, for the platform's own list of them. A message that consists of `/NAME` is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
}

/// A word that is a command in chats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Command {
    /// Without its slash: at most 32 small letters, digits and underscores.
    pub name: String,
    /// What it does, in at most 100 characters.
    pub does: String,
    /// What may stand behind it, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<String>,
}

/// Something to send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Send {
    /// The request's number, which its answer has.
    pub r: u64,
    /// Our id of it: the same each time it is sent, and no other's. At most 25 ASCII letters, digits and dots.
    pub key: String,
    pub chat: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thread: String,
    /// The platform's id of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// May be empty where there are files.
    pub text: String,
    /// Where the format is `spans`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// Where the format is `matrix`: the same text as HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<File>,
    /// Rows of buttons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Vec<Button>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// The name under which it is said, where the platform has such a thing.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub said_as: Option<String>,
    /// The draft that this becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
}

/// A stretch of a text, in UTF-16 code units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub at: usize,
    pub len: usize,
    #[serde(flatten)]
    pub is: Style,
}

/// How a stretch of text is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Style {
    Bold,
    Italic,
    Strike,
    Code,
    Pre {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lang: Option<String>,
    },
    Link {
        to: String,
    },
    Quote,
    Spoiler,
}

/// A file that goes with a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct File {
    /// Below the spool.
    pub file: String,
    pub kind: super::Kind,
    pub mime: String,
    pub name: String,
    /// Whether the text is shown with it.
    pub caption: bool,
}

/// A button below a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Button {
    pub label: String,
    /// What comes back when it is pressed.
    pub press: String,
}

/// Which sent text is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LookFor {
    pub r: u64,
    pub key: String,
    pub chat: String,
    pub thread: String,
    /// Not earlier than this, RFC 3339.
    pub since: String,
    pub text: String,
}

/// A change of a message: a new text, its removal, or a reaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Amend {
    pub r: u64,
    pub key: String,
    pub chat: String,
    pub thread: String,
    /// The platform's id.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// The buttons that stay; none: they go.
    pub buttons: Vec<Vec<Button>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
    /// Empty: our reaction goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub react: Option<String>,
}

/// A sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Hint {
    pub chat: String,
    pub thread: String,
    pub typing: bool,
    /// The text so far, under an id of G2's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    pub text: String,
}

/// Which file is fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fetch {
    pub r: u64,
    pub chat: String,
    /// The attachment's own `fetch` value.
    pub what: String,
    /// No more bytes than that.
    pub most: u64,
}

/// A POST of somebody who knows the account's address, as it came: nobody has looked at who sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Request {
    pub r: u64,
    /// What stands behind the account's name, without the slash: `github`.
    pub path: String,
    /// By their names in small letters; of several of one name the first.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}
