//! The only place that reads the time.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ipc_handlers::Time;

/// Returns the wall-clock time.
#[must_use]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns a reading of the monotonic clock; ages are counted with it.
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}
