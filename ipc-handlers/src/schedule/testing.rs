//! Zones for the tests of schedules, from the compiled-in data: the same on every machine.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::Time;

pub(super) const NEW_YORK: &str = "America/New_York";
pub(super) const LONDON: &str = "Europe/London";
pub(super) const LORD_HOWE: &str = "Australia/Lord_Howe";
pub(super) const APIA: &str = "Pacific/Apia";

pub(super) fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// An instant from RFC 3339.
pub(super) fn time(text: &str) -> Time {
    Time::from_jiff(text.parse().unwrap())
}
