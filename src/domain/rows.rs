//! Rows as commands, loops and the command line see them. Field names are those that `--json` prints.

use std::fmt::Display;

use ipc_handlers::{
    Code, Folder, ScheduleKind, TaskStatus, Time,
    effect::{CatchUp, ContextMode, EngageMode, IgnoredMessages, OutputMode, SenderScope},
    file::MediaKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{
    heard::{
        access::UnknownSenders,
        origin::{Author, Origin},
    },
    platforms::{
        attachments::Attachment,
        chats::{self, ChatInfo},
    },
    runs::group_config::{BadGroupConfig, GroupConfig},
    shown::metrics::WaitCause,
    states::{
        CauseKind, DeliveryStatus, QueueState, RunKind, RunStatus, SandboxName, SessionState, SlotOutcome,
        SlotReason, TaskOrigin,
    },
};

/// Writes an instant as RFC 3339 UTC with milliseconds.
pub fn rfc3339<S: Serializer>(time: &Time, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(time)
}

/// Writes an instant as RFC 3339 UTC with milliseconds, or `null`.
pub fn rfc3339_option<S: Serializer>(time: &Option<Time>, s: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => s.collect_str(time),
        None => s.serialize_none(),
    }
}

fn in_words<S: Serializer>(reason: &Option<SlotReason>, s: S) -> Result<S::Ok, S::Error> {
    reason.map(SlotReason::says).serialize(s)
}

/// An agent with a folder, memory, mailbox and container settings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Group {
    pub folder: Folder,
    pub name: String,
    pub is_main: bool,
    /// What a message must start with to mention this agent, e.g. `@G2`.
    pub trigger: String,
    /// Which provider drives the agent; `None`: the setting's.
    pub provider: Option<String>,
    /// A script for the scripted agent, as a path; `None`: the setting's.
    pub script: Option<String>,
    pub image: Option<String>,
    /// Its other settings, as they are stored; see [`Group::config`].
    pub config: serde_json::Value,
    /// The chats that are wired to it.
    pub chats: Vec<String>,
}

impl Group {
    /// Returns what the group wants for itself.
    ///
    /// # Errors
    /// [`BadGroupConfig`] if another program wrote the stored config.
    pub fn config(&self) -> Result<GroupConfig, BadGroupConfig> {
        GroupConfig::from_json(&self.config.to_string())
    }
}

/// An address on a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Chat {
    pub jid: String,
    pub channel: String,
    pub name: String,
    pub kind: chats::ChatKind,
    /// What becomes of senders whom the group does not know.
    pub unknown_sender_policy: UnknownSenders,
    /// Whether the platform divides it into threads.
    pub threaded: bool,
}

/// Changes of a chat: all or none are made. Fields that are left out keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatChanges {
    /// What becomes of senders whom a group does not know.
    pub policy: Option<UnknownSenders>,
    /// A name for people.
    pub name: Option<String>,
    pub kind: Option<chats::ChatKind>,
    /// Whether the platform divides it into threads.
    pub threaded: Option<bool>,
}

/// A chat wired to a group, with the rules that say when it engages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wiring {
    pub id: i64,
    pub group: Folder,
    pub chat_jid: String,
    pub engage_mode: EngageMode,
    pub engage_pattern: Option<String>,
    pub sender_scope: SenderScope,
    pub ignored_message_policy: IgnoredMessages,
    /// What a message of this chat starts with to mention the agent; `None`: the group's trigger.
    pub trigger: Option<String>,
    /// Where its agent listens without being addressed again.
    pub sticky: Vec<StickyThread>,
}

/// Changes of a wiring: all or none are made. Fields that are left out keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WiringChanges {
    /// Messages that wake the agent.
    pub engage: Option<EngageMode>,
    /// A JavaScript regular expression; only with engage=pattern.
    pub pattern: Option<String>,
    pub sender_scope: Option<SenderScope>,
    /// Messages that do not wake the agent: dropped, or kept as context.
    pub ignored: Option<IgnoredMessages>,
}

/// A thread of a chat in which an agent was addressed, and listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StickyThread {
    /// Empty: the chat itself.
    pub thread: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub since: Time,
}

/// Messages that a wiring can't decide about. They wait for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldMessages {
    /// How many there are. The other fields are the oldest one's.
    pub count: usize,
    pub seq: i64,
    pub group: String,
    pub chat_jid: String,
    pub reason: String,
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    pub seq: i64,
    pub id: String,
    pub chat_jid: String,
    pub thread: String,
    pub sender: String,
    pub sender_name: String,
    pub text: String,
    /// What it stands under: the subject of a mail, the title of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When the platform says it was written.
    #[serde(serialize_with = "rfc3339_option")]
    pub at: Option<Time>,
    #[serde(serialize_with = "rfc3339")]
    pub received_at: Time,
    pub from_me: bool,
    pub bot: bool,
    pub mentioned: bool,
    pub reply_to_id: Option<String>,
    pub reply_to_text: Option<String>,
    pub reply_to_sender: Option<String>,
    #[serde(flatten)]
    pub answered: Answered,
    /// How its text came to stand there; absent: its sender wrote it.
    #[serde(skip_serializing_if = "is_written")]
    pub origin: Origin,
    /// Of a forwarded text: the name of its author, empty if nobody says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_from: Option<String>,
    /// Of a forwarded text: what its sender wrote beside it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// When an edit took the place of its words last; absent: they are those that came first.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rfc3339_option")]
    pub edited_at: Option<Time>,
    /// The whole of it in one text, for people.
    #[serde(skip)]
    pub shown: String,
    /// The files beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl Message {
    /// Returns who wrote its text.
    #[must_use]
    pub fn author(&self) -> Author {
        Author::of(self.origin, self.forwarded_from.as_deref())
    }
}

fn is_written(origin: &Origin) -> bool {
    *origin == Origin::Written
}

/// What is told of a message that another one answers, beside its id, its sender and its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// The account itself wrote it.
    #[serde(rename = "reply_to_self", skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// The part of it that is answered.
    #[serde(rename = "reply_to_quote", skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The kind of the file that stands there.
    #[serde(rename = "reply_to_kind", skip_serializing_if = "Option::is_none")]
    pub kind: Option<MediaKind>,
    /// The name of the chat that it stands in, where that is another one.
    #[serde(rename = "reply_to_chat", skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
}

/// A message that another one answers, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted {
    pub sender_name: String,
    pub text: String,
    /// The kind of its first file.
    pub kind: Option<MediaKind>,
    /// We said it.
    pub own: bool,
}

impl Quoted {
    /// Returns what is told of it beside its sender and its text.
    #[must_use]
    pub fn answered(&self) -> Answered {
        Answered { own: self.own, kind: self.kind, ..Answered::default() }
    }
}

/// A text for a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutboxRow {
    pub id: i64,
    pub chat_jid: String,
    pub thread: String,
    pub text: String,
    pub sender: Option<String>,
    pub reply_to: Option<String>,
    pub status: DeliveryStatus,
    pub attempts: i64,
    /// Why it is said: `run 3 record 2`, `command 17`, `notice: …`.
    pub cause: String,
    #[serde(skip)]
    pub cause_kind: CauseKind,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub created_at: Time,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub sent_at: Option<Time>,
    pub error: Option<String>,
    /// Why it is said in the chat, without its thread; absent: it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_gone: Option<String>,
    /// The files beside it; absent: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// A scheduled prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Task {
    pub id: String,
    pub group: Folder,
    pub chat_jid: String,
    pub prompt: String,
    pub script: Option<String>,
    pub schedule_type: ScheduleKind,
    pub schedule_value: String,
    pub context_mode: ContextMode,
    pub catch_up: CatchUp,
    /// How long ago a missed slot may be for it to be made up for, ms.
    pub catch_up_window_ms: i64,
    pub output: OutputMode,
    pub origin: TaskOrigin,
    pub status: TaskStatus,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub next_run: Option<Time>,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub last_run: Option<Time>,
    pub last_result: Option<String>,
    /// Occurrences that failed in a row.
    pub failures: u32,
    /// Until when it rests after its runs were killed.
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub rest_until: Option<Time>,
    /// Why G2 paused it.
    pub paused_for: Option<String>,
}

impl Lane {
    /// Says, where something waits in it for nothing but a slot, that its group's folder is lost.
    pub fn wait_for_folder(&mut self, is_lost: impl FnOnce(&Folder) -> bool) {
        if self.wait_cause == Some(WaitCause::Slot) && is_lost(&self.group) {
            self.wait_cause = Some(WaitCause::Folder);
            self.waits_for = Some(lost_folder(&self.group));
        }
    }
}

/// What a group whose folder is lost waits for, in words.
#[must_use]
pub fn lost_folder(group: impl Display) -> String {
    format!("the folder groups/{group}, which is lost; `g2 status` says how to go on")
}

/// A lane: a group, a chat and a thread of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lane {
    pub group: Folder,
    pub chat_jid: String,
    pub thread: Option<String>,
    /// How many messages wait in it for the agent.
    pub waiting: i64,
    /// When the oldest of them came.
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Time>,
    /// What they wait for.
    pub waits_for: Option<String>,
    /// The same as a kind.
    #[serde(skip)]
    pub wait_cause: Option<WaitCause>,
    /// How many attempts at the oldest of them have failed.
    pub failed_attempts: u32,
    /// Until when it rests.
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub rest_until: Option<Time>,
    /// Why it rests: the error of its last run.
    pub why: Option<String>,
    /// Its run, while it has one.
    pub run: Option<i64>,
}

/// Somebody who waits for a turn: a lane, or a task that is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiter {
    pub group: Folder,
    pub chat_jid: String,
    pub thread: Option<String>,
    /// The task; `null`: people wait.
    pub task: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    pub since: Time,
    pub waits_for: String,
}

/// What became of a slot of a task: one run for it, or slots that follow one another and did not run, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskSlot {
    /// `None`: its run has not begun, or never did.
    pub outcome: Option<SlotOutcome>,
    /// When it was due; of several, the first.
    #[serde(serialize_with = "rfc3339_option")]
    pub due: Option<Time>,
    /// Of several, when the last was due.
    #[serde(serialize_with = "rfc3339_option")]
    pub last_due: Option<Time>,
    /// How many.
    pub slots: u64,
    /// There were at least this many: not all were counted.
    pub at_least: bool,
    /// Why it did not run.
    #[serde(serialize_with = "in_words")]
    pub reason: Option<SlotReason>,
    pub run: Option<i64>,
    /// Which try of that slot, from 1.
    pub attempt: Option<i64>,
    pub status: Option<RunStatus>,
    #[serde(serialize_with = "rfc3339_option")]
    pub started_at: Option<Time>,
    /// From when it was due to when its container was started.
    pub waited_ms: Option<i64>,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Time>,
    pub duration_ms: Option<i64>,
    /// What the agent said: the first 16 KiB.
    pub result: Option<String>,
    /// Below the root, the file that has the whole of a longer one.
    pub result_file: Option<String>,
    pub error: Option<String>,
    /// What it sent to chats: the first 20 texts.
    pub sent: Vec<SentText>,
}

/// The beginning of a text that a run sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SentText {
    /// The row of the outbox.
    pub id: i64,
    pub chat_jid: String,
    /// Its first 200 characters.
    pub text: String,
    pub status: DeliveryStatus,
}

/// A conversation of an agent: one that a lane has, or an archived one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Session {
    /// The number of an archived one.
    pub id: Option<i64>,
    pub group: Folder,
    pub state: SessionState,
    pub name: Option<String>,
    /// The agent's own name for it.
    pub session_id: String,
    /// The chat, and thread where there is one, of a live one.
    pub chat_jid: Option<String>,
    pub thread: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub archived_at: Option<Time>,
}

/// One life of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Run {
    pub id: i64,
    pub group: Folder,
    /// `chat_jid`, with `#thread` when there is one; for a task, the chat it belongs to.
    pub lane: String,
    pub kind: RunKind,
    pub source: String,
    pub status: RunStatus,
    pub owner: Option<String>,
    pub sandbox: SandboxName,
    pub container: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Time>,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Time>,
    /// How many records it has written.
    pub records: i64,
    pub error: Option<String>,
}

/// One command of the mailbox, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IpcRow {
    /// The claim id; `null` while the file waits in its box.
    pub id: Option<i64>,
    pub group: String,
    #[serde(rename = "box")]
    pub box_name: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub request_id: Option<String>,
    pub state: QueueState,
    pub age_ms: i64,
    pub code: Option<Code>,
    pub reason: Option<String>,
}

/// A platform's event on its way into the store. Nothing was decided about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    pub chat_jid: String,
    /// What tells the event from every other of its chat; the same key again is the same event and changes nothing. For
    /// a new message its id will do if the platform never gives one twice, otherwise id and sender. For an edit: the id and
    /// what tells this edit from others (its time, its version); it is a message of its own, read after the first one.
    pub replay_key: String,
    /// The platform's id of the message, as agents see it. Several messages may have it.
    pub id: String,
    pub thread: String,
    pub sender: String,
    pub sender_name: String,
    pub text: String,
    /// What it stands under: the subject of a mail; empty: nothing.
    pub title: String,
    /// The platform's ids of messages that it continues, the newest last.
    pub references: Vec<String>,
    pub origin: Origin,
    /// Of a forwarded text: the name of its author, empty if nobody says.
    pub forwarded_from: Option<String>,
    /// Of a forwarded text: what its sender wrote beside it.
    pub comment: String,
    /// Of an edit: no person made it. It takes the place of the words before, and wakes nobody.
    pub quiet: bool,
    /// Its adapter does not know its kind.
    pub unknown_kind: bool,
    pub at: Option<Time>,
    pub from_me: bool,
    pub bot: bool,
    pub mentioned: bool,
    pub reply_to_id: Option<String>,
    pub reply_to_text: Option<String>,
    pub reply_to_sender: Option<String>,
    pub answered: Answered,
    /// The files beside it, each of which `data/media/` has already, or a reason why it is missing. Those are kept that fit: see
    /// [`attachments::kept`](super::platforms::attachments::kept).
    pub attachments: Vec<Attachment>,
    /// The channel's facts about the chat; `None`: it has none, and the known facts stay.
    pub chat: Option<ChatInfo>,
    /// It was written long before it came, while its channel was away: it wakes nobody.
    pub late: bool,
}

impl Inbound {
    /// Returns its sender's own words in a chat of this kind, which alone engage an agent.
    #[must_use]
    pub fn own_words(&self, kind: chats::ChatKind) -> String {
        Author::of(self.origin, self.forwarded_from.as_deref()).own_words(kind, &self.text, &self.comment)
    }
}

/// Somebody, with what they may decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct User {
    /// `channel:handle`.
    pub id: String,
    pub name: String,
    /// Their other ids, as their account tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// `owner`, `admin` (everywhere) or `admin:GROUP`.
    pub roles: Vec<String>,
    /// The groups that know them by a row of their own.
    pub member_of: Vec<String>,
    /// Where they are asked; `None`: in the chat that their id names.
    pub dm_chat: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub created_at: Time,
}

/// A code by which somebody becomes an owner or an admin. The code itself is not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claim {
    pub id: i64,
    pub role: super::heard::people::Role,
    /// The group of an admin; `None`: all groups.
    pub group: Option<Folder>,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub made_at: Time,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub expires_at: Time,
    pub state: super::heard::claims::ClaimState,
    /// The user who wrote it, and the chat in which they did.
    pub used_by: Option<String>,
    pub chat: Option<String>,
}

/// Whom a group knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Member {
    pub group: Folder,
    pub user: String,
    pub name: String,
    pub added_by: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub added_at: Time,
}

/// What would have engaged an agent and was not heard, of one sender in one chat by one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    pub chat_jid: String,
    /// `None`: no group was wired to the chat.
    pub group: Option<String>,
    pub sender: String,
    pub sender_name: String,
    pub rule: String,
    pub reason: String,
    pub count: i64,
    #[serde(serialize_with = "rfc3339")]
    pub first_at: Time,
    #[serde(serialize_with = "rfc3339")]
    pub last_at: Time,
    /// The newest message's sequence number.
    pub last_seq: i64,
}

/// Whether a platform is connected, as its channel said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelState {
    pub channel: String,
    pub state: super::platforms::channels::Connection,
    /// Whether events come in.
    pub inbound: super::platforms::channels::Lamp,
    /// Whether texts go out.
    pub outbound: super::platforms::channels::Lamp,
    pub why: Option<String>,
    /// What a person can do about it.
    pub hint: Option<String>,
    pub since: Time,
    /// The newest event of it, and the newest text that it took.
    pub last_in: Option<Time>,
    pub last_out: Option<Time>,
    /// How often its adapter was started.
    pub starts: i64,
    /// How often a person wanted it started anew.
    #[serde(skip)]
    pub wanted: i64,
    /// How many messages were of a kind that its adapter does not know.
    #[serde(default)]
    pub unknown_kinds: i64,
    /// How many of its events could not be taken in, and when the last one came.
    #[serde(default)]
    pub passed_over: i64,
    #[serde(default)]
    pub passed_over_at: Option<Time>,
    /// Whether the platform tells it all messages of groups; absent: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hears_all: Option<bool>,
}

/// Something on its way to a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The outbox row's id: the platform's own key, where it takes one.
    pub id: i64,
    pub chat_jid: String,
    pub thread: String,
    /// It was for a thread that went, and is said without it.
    #[serde(skip)]
    pub thread_gone: bool,
    pub text: String,
    /// An agent wrote it: marks in it mean something.
    #[serde(skip)]
    pub is_markdown: bool,
    /// It is said, or was, before it is whole.
    #[serde(skip)]
    pub growth: Option<super::platforms::growth::Growth>,
    pub sender: Option<String>,
    pub reply_to: Option<String>,
    /// Tries before this one.
    pub attempts: u32,
    /// Where an earlier try may have arrived: since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_doubt_since: Option<Time>,
    /// Whether a person waits for it: it goes before what tasks say.
    #[serde(skip)]
    pub for_people: bool,
    /// Whether an earlier try had cut it into parts.
    #[serde(skip)]
    pub is_laid: bool,
    /// What it can be answered with, for channels that have buttons; the text says the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Button>,
    /// The files that go with it. A channel that does not take one is given a line in the text instead.
    #[serde(skip)]
    pub attachments: Vec<Attachment>,
}

/// A button below a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub label: String,
    /// What the channel hands back when it is pressed, with who did; at most 64 bytes.
    pub press: String,
}

ipc_handlers::words! {
    /// What to do with rows of which nobody can know whether they arrived.
    #[derive(Default)]
    pub enum UnknownDeliveries: "way with unknown deliveries" {
        #[default]
        Resend = "resend",
        Leave = "leave",
    }
}
