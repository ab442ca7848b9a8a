//! The rows that move. An export writes them as JSON Lines, and every source of an import yields them.
//!
//! A row names others by what they have in its source: a group by its folder, a chat by its jid, a run by its key.

use ipc_handlers::{
    Folder, ScheduleKind, TaskStatus, Time,
    effect::{CatchUp, ContextMode, EngageMode, IgnoredMessages, OutputMode, SenderScope},
    file::MediaKind,
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::stamp;
use crate::{
    heard::{access::UnknownSenders, people::Role as Right},
    platforms::chats::ChatKind,
    states::{RunKind, RunStatus, SandboxName, TaskOrigin},
};

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
    /// Hosts outside that it may reach, or may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
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

/// A group in a chat, or in a thread of it, with the session that goes on there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    #[schemars(with = "String")]
    pub group: Folder,
    pub chat: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    /// Since when the agent listens without being addressed again.
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub sticky_at: Option<Time>,
    /// The agent's own name of its session; its transcript is among the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub active_at: Option<Time>,
}

/// A session that is kept under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Archive {
    #[schemars(with = "String")]
    pub group: Folder,
    pub session: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub archived_at: Time,
}

/// A scheduled prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub id: String,
    #[schemars(with = "String")]
    pub group: Folder,
    pub chat: String,
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[schemars(with = "String")]
    pub schedule_type: ScheduleKind,
    pub schedule_value: String,
    pub context_mode: ContextMode,
    pub catch_up: CatchUp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_window_ms: Option<i64>,
    pub output: OutputMode,
    #[schemars(with = "String")]
    pub status: TaskStatus,
    pub origin: TaskOrigin,
    /// The next time, as its source has it. One that has passed is passed over.
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub next_run: Option<Time>,
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_run: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_result: Option<String>,
    /// Why the host paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_for: Option<String>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
}

/// A run that has ended. One that goes on is told as cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    #[schemars(with = "String")]
    pub group: Folder,
    pub chat: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    pub kind: RunKind,
    /// The task that it was for; there unless the kind is `message`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When that task was due.
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub slot: Option<Time>,
    pub attempt: u32,
    /// `succeeded`, `failed` or `cancelled`.
    pub status: RunStatus,
    pub sandbox: SandboxName,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub created_at: Time,
    #[serde(default, with = "stamp::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Time>,
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub ended_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Requests of a run to a model, in a quarter of an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The key of the run, which may be gone.
    pub run: String,
    #[schemars(with = "String")]
    pub group: Folder,
    /// Empty: requests that were answered without one, and refusals.
    pub model: String,
    /// Where the quarter begins.
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub quarter: Time,
    pub requests: i64,
    pub errors: i64,
    pub refused: i64,
    pub input_tokens: i64,
    pub cache_creation_tokens: i64,
    pub cache_read_tokens: i64,
    pub output_tokens: i64,
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
