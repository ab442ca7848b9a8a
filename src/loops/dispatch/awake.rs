//! Since when the daemon has been up without a break, and what the log says of slots that came and did not run.

use std::time::Instant;

use ipc_handlers::{Folder, Time};

use crate::domain::{
    runs::slots::{self, Passed},
    states::SlotReason,
};

/// Since when the daemon has been up: a machine that slept was not.
pub(super) struct Awake {
    since: Time,
    /// When it was looked last.
    looked: (Time, Instant),
}

impl Awake {
    pub(super) fn new(now: Time, steady: Instant) -> Self {
        Self { since: now, looked: (now, steady) }
    }

    /// Looks at the clock, which goes on while the machine sleeps, and at what has passed, which does not.
    pub(super) fn since(&mut self, now: Time, steady: Instant) -> Time {
        let (clock, before) = self.looked;
        let passed_ms = i64::try_from(steady.duration_since(before).as_millis()).unwrap_or(i64::MAX);
        self.since = slots::up_since(self.since, now, now.ms_since(clock), passed_ms);
        self.looked = (now, steady);
        self.since
    }
}

/// Logs which slots of a task do not run.
pub(super) fn log(group: &Folder, task: &str, passed: &[Passed]) {
    for Passed { first, last, count, reason, .. } in passed {
        let why = reason.says();
        match reason {
            SlotReason::PreviousRun => {
                tracing::info!(group = %group, %first, %last, count, "skipping {task}: {why}");
            }
            SlotReason::Rest
            | SlotReason::Paused
            | SlotReason::HostDown
            | SlotReason::Budget
            | SlotReason::OutsideWindow
            | SlotReason::TooMany => {
                tracing::info!(group = %group, task, %first, %last, count, reason = why, "slots of a task did not run");
            }
        }
    }
}
