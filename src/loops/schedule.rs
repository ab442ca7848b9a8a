//! Sleeps until the next task is due, then has `dispatch` look for due tasks; looks again whenever tasks change.

use std::{sync::Arc, time::Duration};

use super::Host;
use crate::clock;

/// However far off the next task is, the clock is looked at this often: it may have been set.
const LONGEST_SLEEP_MS: i64 = 60_000;

/// Runs until the daemon stops.
pub async fn run(host: Arc<Host>) {
    loop {
        let now = clock::now();
        let sleep_ms = match host.store.next_due(now) {
            Ok(Some(due)) => due.ms_since(now).clamp(0, LONGEST_SLEEP_MS),
            Ok(None) => LONGEST_SLEEP_MS,
            Err(error) => {
                tracing::error!(%error, "reading the next due task failed; looking again in a second");
                1000
            }
        };
        tokio::select! {
            () = host.stop.cancelled() => return,
            () = host.nudges.schedule.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(sleep_ms.unsigned_abs())) => {}
        }
        host.nudges.due.notify_one();
    }
}
