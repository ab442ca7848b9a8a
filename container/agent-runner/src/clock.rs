//! The only place in the runner that reads the time or lets it pass.
#![expect(clippy::disallowed_methods, reason = "this file is the runner's door to the clock")]

use std::{
    sync::OnceLock,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Returns the wall-clock time of the container, ms since the epoch. The host never compares it with its own.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns how much time has passed since this was asked first.
pub(crate) fn passed() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

/// A point in monotonic time at which waiting ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `after` from now; further off than a century is a century.
    pub(crate) fn after(after: Duration) -> Self {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        Self(Instant::now() + after.min(CENTURY))
    }

    /// Returns the rest of the time, or `None` once it has passed.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// Lets `length` pass.
pub(crate) fn pause(length: Duration) {
    let until = Deadline::after(length);
    while let Some(left) = until.left() {
        thread::park_timeout(left);
    }
}

/// Never returns and takes no processor time.
pub(crate) fn hang() -> ! {
    loop {
        thread::park();
    }
}
