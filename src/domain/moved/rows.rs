//! The rows that move. An export writes them as JSON Lines, and every source of an import yields them.
//!
//! A row names others by what they have in its source: a group by its folder, a chat by its jid, a run by its key.

use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::stamp;
use crate::{
    heard::{access::UnknownSenders, people::Role as Right},
    platforms::chats::ChatKind,
};

mod talk;
mod work;

pub use talk::{Act, Fate, File, Heard, Mark, Message, Moved, Reply, Said, Text};
pub use work::{Archive, Lane, Run, Task, Usage};

/// A longer key of a row is none, bytes.
pub const LONGEST_KEY: usize = 512;
/// A row with more text than this is not taken, bytes.
pub const LONGEST_ROW: usize = 4 << 20;

words! {
    /// What rows are about: a step of an import, and a file of an export.
    #[derive(JsonSchema)]
    pub enum Part: "part" {
        /// Settings, and names of secrets.
        Settings = "settings",
        /// Groups, chats, and which listens where.
        Groups = "groups",
        /// People, their rights, whom groups know, answered questions about strangers.
        People = "people",
        /// Messages, later acts on them, and texts that were said.
        Messages = "messages",
        /// Conversations of agents: live ones and archived ones.
        Sessions = "sessions",
        /// Scheduled prompts.
        Tasks = "tasks",
        /// Runs that have ended, and what was used.
        Runs = "runs",
        /// Files of groups, transcripts, files beside messages.
        Files = "files",
        /// Changes and their authors. They are written out, and never taken in.
        Audit = "audit",
    }
}

/// A row, with its key in its source: the same key again is the same row, and changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Keyed {
    /// At most 512 bytes; unique among the rows of its kind.
    pub key: String,
    #[serde(flatten)]
    pub row: Row,
}

/// Everything that moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum Row {
    Setting(Setting),
    Secret(Secret),
    List(List),
    Group(Group),
    Chat(Chat),
    Wiring(Wiring),
    User(User),
    Role(Role),
    Member(Member),
    Approval(Approval),
    Message(Box<Message>),
    Mark(Mark),
    Lane(Lane),
    Archive(Archive),
    Task(Box<Task>),
    Run(Box<Run>),
    Usage(Usage),
    Text(Box<Text>),
    Audit(Audit),
}

words! {
    /// What a row is: its `row` in JSON, and its kind where it is kept that it was imported.
    #[derive(JsonSchema)]
    pub enum Kind: "kind of row" {
        Setting = "setting",
        Secret = "secret",
        List = "list",
        Group = "group",
        Chat = "chat",
        Wiring = "wiring",
        User = "user",
        Role = "role",
        Member = "member",
        Approval = "approval",
        Message = "message",
        Mark = "mark",
        Lane = "lane",
        Archive = "archive",
        Task = "task",
        Run = "run",
        Usage = "usage",
        Text = "text",
        Audit = "audit",
        /// A file or a folder: no row.
        File = "file",
        /// A table, a column or a whole source: no row.
        Source = "source",
    }
}

impl Kind {
    /// Returns what it is about.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Self::Setting | Self::Secret | Self::List | Self::Source => Part::Settings,
            Self::Group | Self::Chat | Self::Wiring => Part::Groups,
            Self::User | Self::Role | Self::Member | Self::Approval => Part::People,
            Self::Message | Self::Mark | Self::Text => Part::Messages,
            Self::Lane | Self::Archive => Part::Sessions,
            Self::Task => Part::Tasks,
            Self::Run | Self::Usage => Part::Runs,
            Self::File => Part::Files,
            Self::Audit => Part::Audit,
        }
    }
}

impl Row {
    /// Returns what it is about. The list of senders says who is heard, so it is about people: chats without it would hear more.
    #[must_use]
    pub fn part(&self) -> Part {
        let is_of_senders = matches!(self, Self::List(list) if list.name == ListName::Senders);
        if is_of_senders { Part::People } else { self.kind().part() }
    }

    /// Returns what it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Setting(_) => Kind::Setting,
            Self::Secret(_) => Kind::Secret,
            Self::List(_) => Kind::List,
            Self::Group(_) => Kind::Group,
            Self::Chat(_) => Kind::Chat,
            Self::Wiring(_) => Kind::Wiring,
            Self::User(_) => Kind::User,
            Self::Role(_) => Kind::Role,
            Self::Member(_) => Kind::Member,
            Self::Approval(_) => Kind::Approval,
            Self::Message(_) => Kind::Message,
            Self::Mark(_) => Kind::Mark,
            Self::Lane(_) => Kind::Lane,
            Self::Archive(_) => Kind::Archive,
            Self::Task(_) => Kind::Task,
            Self::Run(_) => Kind::Run,
            Self::Usage(_) => Kind::Usage,
            Self::Text(_) => Kind::Text,
            Self::Audit(_) => Kind::Audit,
        }
    }
}

/// A setting of `g2.toml`. One that is set here stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name, such as `limits.keep_days`.
    pub name: String,
    pub value: Value,
}

/// A secret. It is named, and its value is written nowhere but to its own place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// The variable of `.env`.
    pub name: String,
    #[serde(skip)]
    pub value: Hidden,
}

/// A value that nobody prints, and no row tells.
#[derive(Clone, Default, PartialEq)]
pub struct Hidden(pub Option<String>);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "hidden" } else { "none" })
    }
}

words! {
    /// Lists that users keep beside the root, as JSON files.
    #[derive(JsonSchema)]
    pub enum ListName: "list" {
        Senders = "sender-allowlist",
        Mounts = "mount-allowlist",
    }
}

/// A list that a user keeps in the configuration folder. One that is there stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    pub name: ListName,
    pub content: Value,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    #[schemars(with = "String")]
    pub folder: Folder,
    pub name: String,
    /// Its agent may act for all groups. There is one; a second one comes without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_main: bool,
    /// The word at the start of a message that mentions it.
    pub trigger: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its settings, as `g2 groups set` has them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Present if a person holds its commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Hosts outside that it may reach, or may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
}

/// That the commands of a group wait, because a person said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub since: Time,
}

/// A rule about a host outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    pub host: String,
    pub allowed: bool,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub at: Time,
}

/// An address on a platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chat {
    pub jid: String,
    pub channel: String,
    pub name: String,
    pub kind: ChatKind,
    pub unknown_senders: UnknownSenders,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub threaded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<i64>,
    /// Its new address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<String>,
    /// A person took the last group out of it: nobody is asked about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wired_before: bool,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
}

/// A group that listens in a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wiring {
    #[schemars(with = "String")]
    pub group: Folder,
    pub chat: String,
    pub engage_mode: EngageMode,
    /// A JavaScript regular expression; there for the mode `pattern` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engage_pattern: Option<String>,
    pub sender_scope: SenderScope,
    pub ignored_messages: IgnoredMessages,
    /// The word that mentions the agent in this chat; absent: the group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
}

/// Somebody, by `channel:handle`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dm_chat: Option<String>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
}

/// A right to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Role {
    pub user: String,
    pub role: Right,
    /// The group of an admin; absent: all groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub group: Option<Folder>,
    pub granted_by: String,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub granted_at: Time,
}

/// Somebody whom a group knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    pub user: String,
    #[schemars(with = "String")]
    pub group: Folder,
    pub added_by: String,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub added_at: Time,
}

words! {
    /// What a question was about.
    #[derive(JsonSchema)]
    pub enum Asked: "subject of a question" {
        /// Whether a sender is heard.
        Sender = "sender",
        /// Whether a group listens in a chat.
        Chat = "channel",
    }
}

/// A question about a stranger or a chat that a person has answered. An open one is not taken: the next message asks anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub about: Asked,
    pub chat: String,
    pub sender: String,
    pub sender_name: String,
    pub approver: String,
    pub card_chat: String,
    pub yes: bool,
    /// The group that a chat was connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The word of the answer: `allow`, `deny`, `connect`, `new`, `ignore`.
    pub decision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub decided_at: Time,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub expires_at: Time,
}

/// A change, and its author.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub at: Time,
    pub origin: String,
    pub who: String,
    pub what: String,
    pub step: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
