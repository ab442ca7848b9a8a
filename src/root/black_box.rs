//! The black box of a run, in its folder: what was known of it when it was ended against its will.

use std::path::{Path, PathBuf};

use ipc_handlers::Time;
use serde::Serialize;

use crate::{
    domain::rows::{rfc3339, rfc3339_option},
    system::family::Relative,
};

/// What was known.
#[derive(Clone, Debug, Serialize)]
pub struct BlackBox {
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    /// Why it was ended.
    pub reason: String,
    /// What that rests on.
    pub evidence: String,
    /// The last sign of life: a record, or a heartbeat that changed.
    #[serde(serialize_with = "rfc3339")]
    pub last_sign: Time,
    #[serde(serialize_with = "rfc3339")]
    pub last_record: Time,
    /// Since when it had a message or a task in hand.
    #[serde(serialize_with = "rfc3339_option")]
    pub in_hand_since: Option<Time>,
    /// The tool that it ran.
    pub tool: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    pub tool_since: Option<Time>,
    /// Requests to the model that had no whole answer; `null`: it has no way to the model over the gateway.
    pub requests_in_flight: Option<usize>,
    /// How much of its output was read, bytes.
    pub output_bytes: u64,
    /// Its last records, oldest first.
    pub records: Vec<HeardRecord>,
    /// The last lines of its output.
    pub log: Vec<String>,
    /// Its processes, parents first, where they could be seen.
    pub processes: Vec<Relative>,
    /// Its use of the machine in the last minutes, oldest first.
    pub samples: Vec<Sample>,
}

/// A record that it wrote.
#[derive(Clone, Debug, Serialize)]
pub struct HeardRecord {
    pub n: u64,
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub kind: String,
    /// Its beginning.
    pub text: String,
}

/// The use of the machine by all processes of a run, at one instant.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub processes: usize,
    /// Time on a processor since they were started, ms.
    pub cpu_ms: u64,
    /// Read from disks and written to them, KiB.
    pub disk_kib: u64,
    pub memory_kib: u64,
}

/// Keeps the black box of a run in its folder.
///
/// # Errors
/// The operating system's.
pub fn put_black_box(root: &Path, run: i64, black_box: &BlackBox) -> std::io::Result<()> {
    let bytes = serde_json::to_vec_pretty(black_box)?;
    std::fs::write(file(root, run), bytes)
}

/// Returns the black box of a run; `None`: it has none, or it can't be read.
#[must_use]
pub fn read_black_box(root: &Path, run: i64) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(file(root, run)).ok()?).ok()
}

fn file(root: &Path, run: i64) -> PathBuf {
    root.join("data/runs").join(run.to_string()).join("blackbox.json")
}
