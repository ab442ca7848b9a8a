//! `[egress]`, `[approvals]`, `[words]`, `[backup]`, `[outbox]`, `[gateway]` and `[ipc]`: the sections that say little.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use super::units::{mib, minutes, minutes_ms, path_or_none, text_or_none, word};
use crate::domain::{
    heard::chat_commands::Words,
    kept::backups::TimeOfDay,
    rows::UnknownDeliveries,
    runs::{outside::Pattern, run_settings::NoSuchValue},
};

/// Hosts outside that containers may reach, and how much.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    pub allow: Vec<Pattern>,
    /// Of each group at a time.
    pub connections: usize,
    pub connections_per_minute: u32,
    #[serde(rename = "mib_per_hour", deserialize_with = "mib")]
    pub bytes_per_hour: u64,
    #[serde(rename = "connection_minutes", deserialize_with = "minutes")]
    pub life: Duration,
}

/// Questions about strangers and new chats.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    /// How long a no to a question is remembered, ms; 0: it is not.
    #[serde(rename = "deny_ttl_minutes", deserialize_with = "minutes_ms")]
    pub deny_ttl_ms: i64,
}

/// Words by which an owner or an admin has a hand in the work of a chat's agents.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatWords {
    #[serde(deserialize_with = "text_or_none")]
    stop: Option<String>,
    #[serde(deserialize_with = "text_or_none")]
    retry: Option<String>,
}

impl From<ChatWords> for Words {
    fn from(words: ChatWords) -> Self {
        Self { stop: words.stop, retry: words.retry }
    }
}

/// The daily backup.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// The folder for backups; `None`: none is made.
    #[serde(deserialize_with = "path_or_none")]
    pub to: Option<PathBuf>,
    /// How many of the newest stay.
    pub keep: usize,
    /// In the user's zone.
    #[serde(deserialize_with = "time_of_day")]
    pub at: TimeOfDay,
    pub with_secrets: bool,
}

fn time_of_day<'de, D: serde::Deserializer<'de>>(from: D) -> Result<TimeOfDay, D::Error> {
    word(from, "backup.at", |text| TimeOfDay::parse(text).ok_or(NoSuchValue("use a time such as \"03:30\"")))
}

/// The outbox.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outbox {
    #[serde(deserialize_with = "on_unknown")]
    pub on_unknown: UnknownDeliveries,
}

/// The containers' way to the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// The address of the model's host.
    pub upstream: String,
    /// Where the key is kept when it is not in `.env`.
    #[serde(deserialize_with = "path_or_none")]
    pub token_file: Option<PathBuf>,
}

/// Agents' command files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ipc {
    /// Whether a command needs its run's token; without, the box that it lies in says whose it is.
    pub require_token: bool,
}

fn on_unknown<'de, D: serde::Deserializer<'de>>(from: D) -> Result<UnknownDeliveries, D::Error> {
    word(from, "outbox.on_unknown", |text| match text {
        "resend" => Ok(UnknownDeliveries::Resend),
        "leave" => Ok(UnknownDeliveries::Leave),
        _ => Err(NoSuchValue("use \"resend\" or \"leave\"")),
    })
}
