//! Messages, later acts on them, and texts that were said.

use ipc_handlers::{Folder, Time, file::MediaKind, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::stamp;

/// A message that came in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub chat: String,
    /// What tells it from others of its chat; where its channel brings it again, it is the same one.
    pub replay_key: String,
    /// The platform's id.
    pub id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    pub sender: String,
    pub sender_name: String,
    pub text: String,
    /// What it stands under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was written, as the platform says.
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Time>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub received_at: Time,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_me: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bot: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mentioned: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// `forwarded` or `edited`; absent: its sender wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Moved>,
    /// Of a forwarded one: the name of its author, empty if nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When an edit replaced its words last.
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub edited_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// What became of it in each group that listens; none: no group is asked about it any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<Heard>,
}

words! {
    /// How a message came to stand there.
    #[derive(JsonSchema)]
    pub enum Moved: "origin of a moved message" {
        Forwarded = "forwarded",
        Edited = "edited",
    }
}

/// The message that another one answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The account itself wrote it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MediaKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
}

words! {
    /// What became of a message in a group.
    #[derive(JsonSchema)]
    pub enum Fate: "fate of a message" {
        /// It woke the agent, which was given it.
        Answered = "answered",
        /// The agent was given it as context.
        Given = "given",
        /// It is context for the next message that wakes the agent.
        Kept = "kept",
        Ignored = "ignored",
        /// It was to wake the agent, and was not answered: an owner is asked once about all of these.
        Waits = "waits",
    }
}

/// What became of a message in one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heard {
    #[schemars(with = "String")]
    pub group: Folder,
    pub fate: Fate,
    /// The rule that decided, as `g2 why` says it; absent: none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A file beside a message or a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    pub name: String,
    pub kind: MediaKind,
    /// Its media type, such as `image/png`.
    #[serde(rename = "type")]
    pub mime: String,
    pub size: u64,
    /// Its path below the source's folder of such files; absent: it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// The words that a hook read in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
}

words! {
    /// A later act on a message.
    #[derive(JsonSchema)]
    pub enum Act: "act on a message" {
        Deleted = "deleted",
        Reaction = "reaction",
        ReactionGone = "reaction_gone",
    }
}

/// A later act of somebody on a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    pub chat: String,
    pub replay_key: String,
    pub message_id: String,
    pub act: Act,
    pub sender: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reaction: String,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub at: Time,
}

words! {
    /// How far a text for a chat came.
    #[derive(JsonSchema)]
    pub enum Said: "state of a moved text" {
        Sent = "sent",
        /// Its channel did not take it.
        Failed = "failed",
        /// It was still to be sent, or nobody knows: an owner is asked once about all of these.
        Unsent = "unsent",
    }
}

/// A text for a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    pub chat: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    /// The group whose agent said it; absent: the host or a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub group: Option<Folder>,
    pub text: String,
    /// The name that it was said under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    pub state: Said,
    /// Why it was said, in words.
    pub cause: String,
    /// The key of the run that said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
    /// There if it was sent.
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub sent_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The platform's ids of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
}
