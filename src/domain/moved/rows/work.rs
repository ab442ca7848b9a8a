//! Lanes with their sessions, archived sessions, tasks, runs and use.

use ipc_handlers::{
    Folder, ScheduleKind, TaskStatus, Time,
    effect::{CatchUp, ContextMode, OutputMode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::stamp;
use crate::states::{RunKind, RunStatus, SandboxName, TaskOrigin};

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
