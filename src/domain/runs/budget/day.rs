//! Days of the user's zone.

use ipc_handlers::Time;
use jiff::{ToSpan as _, tz::TimeZone};

/// A day, from its first instant to that of the next one. It has 23 to 25 hours where the clocks are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    pub start: Time,
    /// The start of the next one.
    pub end: Time,
}

impl Day {
    /// Returns the day of `zone` in which `now` lies.
    #[must_use]
    pub fn of(now: Time, zone: &TimeZone) -> Self {
        let here = now.to_jiff().to_zoned(zone.clone());
        let start = here.start_of_day().map_or(now, |start| Time::from_jiff(start.timestamp()));
        let next = here.date().checked_add(1.day()).and_then(|date| date.to_zoned(zone.clone()));
        // Only beyond the years that there are.
        let end = next.map_or(Time(i64::MAX), |next| Time::from_jiff(next.timestamp()));
        Self { start, end }
    }

    /// Whether it is over, or has not begun: the clock may have been set.
    #[must_use]
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.end || now < self.start
    }
}
