//! Instants as other programs write them.

use ipc_handlers::Time;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// Numbers from here on are milliseconds; smaller ones are seconds. Both since 1970.
const MILLISECONDS: i64 = 100_000_000_000;

/// Reads an instant: RFC 3339 with any offset, `2026-05-20 09:10:30` as SQLite writes it, which is UTC, a number of seconds or
/// milliseconds, or a date and time without an offset, which is of `zone`. `None`: it is none, or before 1970.
#[must_use]
pub fn read(text: &str, zone: &TimeZone) -> Option<Time> {
    let text = text.trim();
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    let time = if let Ok(number) = text.parse::<i64>() {
        Time(if number >= MILLISECONDS { number } else { number.checked_mul(1000)? })
    } else if let Ok(instant) = text.parse::<Timestamp>() {
        Time::from_jiff(instant)
    } else {
        let civil = text.parse::<DateTime>().ok()?;
        let zone = if text.contains(' ') { TimeZone::UTC } else { zone.clone() };
        Time::from_jiff(zone.to_ambiguous_timestamp(civil).compatible().ok()?)
    };
    (Time(0) <= time && time <= Time::MAX).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_an_instant_is_read_and_others_are_none() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        for (text, read_as) in [
            ("2026-05-20T09:10:30.000Z", Some("2026-05-20T09:10:30.000Z")),
            ("2026-05-20T11:10:30+02:00", Some("2026-05-20T09:10:30.000Z")),
            ("2026-05-20T14:40:30.5+05:30", Some("2026-05-20T09:10:30.500Z")),
            ("2026-05-20 09:10:30", Some("2026-05-20T09:10:30.000Z")),
            ("2026-05-20T11:10:30", Some("2026-05-20T09:10:30.000Z")),
            ("1779268230", Some("2026-05-20T09:10:30.000Z")),
            ("1779268230000", Some("2026-05-20T09:10:30.000Z")),
            ("9223372036854775807", None),
            ("-62135596800", None),
            ("yesterday", None),
            ("2026-13-40T00:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(read(text, &berlin).map(|time| time.to_string()).as_deref(), read_as, "{text}");
        }
    }
}
