//! `once`: a date and time on the user's clocks, an instant with an offset, or milliseconds since the epoch.

use jiff::{Timestamp, civil, tz::TimeZone};

use crate::{Code, Refusal, Time, refusal::quoted};

/// Returns the instant that `value` says.
///
/// With `Z` or an offset, that instant; without, the user's clocks, a date alone being its midnight. A time that
/// the clocks skip moves forward by what they skip; one that they show twice is the first.
pub(super) fn parse(value: &str, zone: &TimeZone) -> Result<Time, Refusal> {
    let text = value.trim();
    let refused = |fault: &str| refusal(&quoted(text), fault);
    // A zone's name would have to be looked up, on disk.
    if text.contains('[') {
        return Err(refused("names a zone in brackets, which is not taken"));
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return checked(instant).ok_or_else(|| refused("is too far away"));
    }
    let clocks: civil::DateTime = text.parse().map_err(|_| refused("is not a date and time that exists"))?;
    zone.to_ambiguous_timestamp(clocks)
        .compatible()
        .ok()
        .and_then(checked)
        .ok_or_else(|| refused("is too far away"))
}

/// Returns the date and time on clocks that a text says, with no instant named.
pub(super) fn clocks(text: &str) -> Option<civil::DateTime> {
    let text = text.trim();
    if text.contains('[') || text.parse::<Timestamp>().is_ok() {
        return None;
    }
    text.parse().ok()
}

/// Returns whether a text begins as a date does, whatever follows.
pub(super) fn looks_like(text: &str) -> bool {
    let mut bytes = text.trim().bytes();
    bytes.by_ref().take(4).all(|byte| byte.is_ascii_digit()) && bytes.next() == Some(b'-')
}

/// Returns the instant `ms` milliseconds after the epoch.
pub(super) fn at_epoch_ms(ms: i64) -> Result<Time, Refusal> {
    Timestamp::from_millisecond(ms)
        .ok()
        .and_then(checked)
        .ok_or_else(|| refusal(&ms.to_string(), "is too far away"))
}

fn checked(instant: Timestamp) -> Option<Time> {
    Some(Time::from_jiff(instant)).filter(|time| *time <= Time::MAX)
}

fn refusal(shown: &str, fault: &str) -> Refusal {
    Refusal::new(
        Code::InvalidSchedule,
        format!("once {shown} {fault}"),
        "write the user's local date and time, for example \"2026-12-31T18:30:00\", or an instant, for example \"2026-12-31T18:30:00Z\" or \"2026-12-31T18:30:00-05:00\"",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{NEW_YORK, zone};

    #[test]
    fn clocks_instants_and_dates_are_read() {
        for (text, instant) in [
            ("2026-12-31T18:30:00", "2026-12-31T23:30:00.000Z"),
            ("2026-07-01T18:30:00", "2026-07-01T22:30:00.000Z"),
            (" 2026-12-31 18:30 ", "2026-12-31T23:30:00.000Z"),
            ("2026-12-31T18:30:00.123456", "2026-12-31T23:30:00.123Z"),
            ("2026-12-31T18:30:00Z", "2026-12-31T18:30:00.000Z"),
            ("2026-12-31T18:30Z", "2026-12-31T18:30:00.000Z"),
            ("2026-12-31T18:30:00.000+09:00", "2026-12-31T09:30:00.000Z"),
            ("2026-12-31", "2026-12-31T05:00:00.000Z"),
            ("1999-01-01T00:00:00", "1999-01-01T05:00:00.000Z"),
            // The clocks skip 02:30 and show 01:30 twice.
            ("2026-03-08T02:30:00", "2026-03-08T07:30:00.000Z"),
            ("2026-11-01T01:30:00", "2026-11-01T05:30:00.000Z"),
        ] {
            assert_eq!(parse(text, &zone(NEW_YORK)).unwrap().to_string(), instant, "{text}");
        }
    }

    #[test]
    fn what_is_no_existing_date_and_time_is_refused() {
        for bad in [
            "",
            " ",
            "not-a-date",
            "tomorrow",
            "2026-02-30T09:00:00",
            "2026-02-30T09:00:00Z",
            "2026-13-01",
            "2026",
            "2026-12-31T25:00:00",
            "2026-12-31T24:00:00",
            "18:30",
            "1767225600000",
            "2026-12-31T18:30:00+99:00",
            "2026-12-31T18:30:00[Europe/Paris]",
            "2026-12-31T18:30:00+01:00[Europe/Paris]",
            "31.12.2026 18:30",
            "12/31/2026",
            "Dec 31, 2026 18:30",
            "2026-12-31T18:30:00 PST",
        ] {
            let refusal = parse(bad, &zone(NEW_YORK)).expect_err(bad);
            assert_eq!(refusal.code, Code::InvalidSchedule, "{bad}");
            assert!(refusal.hint.contains("2026-12-31T18:30:00Z"));
        }
    }

    #[test]
    fn milliseconds_since_the_epoch_are_bounded() {
        assert_eq!(at_epoch_ms(1_767_225_600_000), Ok(Time(1_767_225_600_000)));
        assert_eq!(at_epoch_ms(-1), Ok(Time(-1)));
        for far in [i64::MAX, i64::MIN, Time::MAX.0 + 1] {
            assert_eq!(at_epoch_ms(far).unwrap_err().code, Code::InvalidSchedule);
        }
    }
}
