//! `[limits]`, `[housekeeping]` and `[health]`: how much, and for how long.

use std::{num::NonZeroUsize, time::Duration};

use serde::Deserialize;

use super::units::{
    count_or_none, hours_or_none_ms, kib, mib, mib_or_none, mib_u32, millis, minutes, ms_or_none,
};
use crate::domain::{kept::housekeeping::Bounds, runs::tasks::TaskLimits};

/// How much there may be of things.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    #[serde(rename = "max_concurrent_containers")]
    pub max_containers: NonZeroUsize,
    #[serde(rename = "max_messages_per_prompt")]
    pub max_context: usize,
    pub batch_messages: usize,
    #[serde(rename = "batch_kib", deserialize_with = "kib")]
    pub batch_bytes: usize,
    pub retry_base_ms: i64,
    /// How long after one missed slot of a task that is made up for the next one is, ms.
    pub catch_up_spacing_ms: i64,
    #[serde(rename = "poll_interval_ms", deserialize_with = "millis")]
    pub scan_every: Duration,
    #[serde(rename = "min_free_mib", deserialize_with = "mib")]
    pub min_free_bytes: u64,
    /// Commands of a group that are taken in a minute.
    pub commands_per_minute: u32,
    /// Messages that a group may send by commands in a minute.
    pub messages_per_minute: u32,
    /// How much a group may put into the store by commands in a minute, with their replies, bytes.
    #[serde(rename = "commands_mib_per_minute", deserialize_with = "mib_u32")]
    pub command_bytes_per_minute: u32,
    /// How much of a group is kept in the store before its commands may put no more there, bytes.
    #[serde(rename = "stored_mib", deserialize_with = "mib")]
    pub stored_bytes: u64,
    /// How much of a group may be claimed and not settled, bytes.
    #[serde(rename = "waiting_mib", deserialize_with = "mib")]
    pub waiting_bytes: u64,
    /// How many files of a group may wait before the newest are refused.
    pub waiting_files: usize,
    /// How many groups there may be; those that are there stay.
    pub groups: usize,
    tasks: usize,
    #[serde(rename = "tasks_mib", deserialize_with = "mib")]
    tasks_bytes: u64,
    #[serde(rename = "task_prompt_kib", deserialize_with = "kib")]
    task_prompt_bytes: usize,
    #[serde(rename = "task_script_kib", deserialize_with = "kib")]
    task_script_bytes: usize,
    /// How much is replied to a group in a minute, and how much of its long replies is kept, bytes.
    #[serde(rename = "replies_mib", deserialize_with = "mib")]
    pub replies_bytes: u64,
    /// How many archived sessions of a group are kept; `None`: all.
    #[serde(deserialize_with = "count_or_none")]
    pub archives: Option<usize>,
    /// How much of what was said in them is kept, bytes; `None`: all of it.
    #[serde(rename = "archives_mib", deserialize_with = "mib_or_none")]
    pub archives_bytes: Option<u64>,
    /// Of how many days history is kept; 0: nothing is removed by itself.
    pub keep_days: u32,
    /// Minutes from the start of the daemon to its first look for older history.
    #[serde(rename = "keep_first_minutes", deserialize_with = "minutes")]
    pub keep_first: Duration,
}

impl Limits {
    /// Returns what the tasks of a group may be.
    #[must_use]
    pub fn tasks(&self) -> TaskLimits {
        TaskLimits {
            count: self.tasks,
            bytes: self.tasks_bytes,
            prompt: self.task_prompt_bytes,
            script: self.task_script_bytes,
        }
    }
}

/// How long files are kept that nothing needs any more, and how many MiB of them each group has at most.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Housekeeping {
    runs_days: u32,
    runs_mib: u64,
    sessions_days: u32,
    sessions_mib: u64,
}

impl Housekeeping {
    /// Returns the bounds of the files of a group's runs.
    #[must_use]
    pub fn runs(&self) -> Bounds {
        Bounds::new(self.runs_days, self.runs_mib)
    }

    /// Returns the bounds of the files that a group's agent keeps of its sessions.
    #[must_use]
    pub fn sessions(&self) -> Bounds {
        Bounds::new(self.sessions_days, self.sessions_mib)
    }
}

/// For how long containers may do what, ms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    pub startup_ms: u64,
    pub ceiling_ms: u64,
    pub claim_ms: u64,
    pub idle_ms: u64,
    pub container_ms: u64,
    pub close_grace_ms: u64,
    /// For how long a session may be silent before it begins afresh, ms; `None`: for ever.
    #[serde(rename = "fresh_after_hours", deserialize_with = "hours_or_none_ms")]
    pub fresh_after_ms: Option<i64>,
    /// An owner is told once of a message whose next attempt is that long away, ms; `None`: never.
    #[serde(deserialize_with = "ms_or_none")]
    pub tell_retry_ms: Option<i64>,
}
