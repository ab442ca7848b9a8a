//! Sleeps until the next task is due, then has `dispatch` look for due tasks; looks again whenever tasks change.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::host::{errors::chain, feed::EventKind},
    store::Store,
    system::clock,
};

/// However far off the next task is, the clock is looked at this often: it may have been set.
const LONGEST_SLEEP_MS: i64 = 60_000;

/// Tells by `due` that tasks may be due, until the daemon stops.
pub async fn run(store: Store, due: Arc<Notify>, stop: CancellationToken) {
    let mut feed = match store.follow_kinds(&[EventKind::Task]).await {
        Ok(feed) => feed,
        Err(error) => {
            return tracing::error!(error = %chain(&error), "reading the feed of changes failed; no task is started");
        }
    };
    loop {
        let now = clock::now();
        let sleep_ms = match store.next_due(now) {
            Ok(Some(due)) => due.ms_since(now).clamp(0, LONGEST_SLEEP_MS),
            Ok(None) => LONGEST_SLEEP_MS,
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the next due task failed; looking again in a second");
                1000
            }
        };
        let sleep = tokio::time::sleep(Duration::from_millis(sleep_ms.unsigned_abs()));
        tokio::select! {
            () = stop.cancelled() => return,
            _ = feed.next() => {}
            () = sleep => {}
        }
        due.notify_one();
    }
}
