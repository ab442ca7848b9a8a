//! What each run is doing now, as its supervisor saw it last.

use std::{collections::BTreeMap, sync::Mutex};

use crate::system::locked::Locked as _;
use ipc_handlers::{Time, words};
use serde::{Deserialize, Serialize};

words! {
    /// The action that comes next on a run if nothing changes.
    pub enum EndsHow: "next action" {
        /// It is asked to leave.
        Closed = "closed",
        Stopped = "stopped",
        Killed = "killed",
    }
}

/// What a run is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    pub run: i64,
    /// The last sign of life.
    pub last_sign: Time,
    /// Since when it has a message or a task in hand.
    pub in_hand_since: Option<Time>,
    /// The tool that it runs now.
    pub tool: Option<String>,
    pub tool_since: Option<Time>,
    /// Its requests to the model that have no whole answer; `None`: they do not go over the gateway.
    pub requests: Option<usize>,
    /// When it was seen at work last: by a request to its model, or by its use of processor and disk.
    pub last_work: Option<Time>,
    /// When it is asked to leave, stopped or killed if it gives no sign of life until then.
    pub ends_at: Option<Time>,
    pub ends_how: Option<EndsHow>,
    pub ends_why: Option<String>,
}

/// What all runs are doing.
#[derive(Default)]
pub struct Sights(Mutex<BTreeMap<i64, Sight>>);

impl Sights {
    /// A supervisor has looked at its run.
    pub fn saw(&self, sight: Sight) {
        self.0.locked().insert(sight.run, sight);
    }

    /// A run is over, or let go of.
    pub fn forget(&self, run: i64) {
        self.0.locked().remove(&run);
    }

    /// Returns what each run is doing.
    #[must_use]
    pub fn all(&self) -> Vec<Sight> {
        self.0.locked().values().cloned().collect()
    }
}
