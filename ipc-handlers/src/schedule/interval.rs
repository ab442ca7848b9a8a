//! `interval`: whole milliseconds on a grid.

use crate::{Code, Refusal, Time, refusal::quoted};

/// The shortest interval, 1 s: below it a task would only ever catch up with itself.
pub const MIN_INTERVAL_MS: i64 = 1_000;
/// The longest interval, 100 years.
pub const MAX_INTERVAL_MS: i64 = 3_155_760_000_000;

/// Returns the milliseconds that `value` says: digits only, within the bounds.
pub(super) fn parse(value: &str) -> Result<i64, Refusal> {
    let text = value.trim();
    let refused = |fault: &str| {
        Refusal::new(
            Code::InvalidSchedule,
            format!("interval {} {fault}", quoted(text)),
            "write whole milliseconds, digits only, from 1000 (1 s) to 3155760000000 (100 years); for example \"3600000\" for every hour",
        )
    };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused("is not a whole number of milliseconds"));
    }
    // Only digits: what does not fit is too long an interval.
    match text.parse::<i64>().unwrap_or(i64::MAX) {
        ms @ MIN_INTERVAL_MS..=MAX_INTERVAL_MS => Ok(ms),
        ms if ms < MIN_INTERVAL_MS => Err(refused("is shorter than 1000 ms")),
        _ => Err(refused("is longer than 100 years")),
    }
}

/// Returns the first instant of `previous`' grid after both `previous` and `now`.
pub(super) fn next(ms: i64, previous: Time, now: Time) -> Option<Time> {
    let passed = now.ms_since(previous).max(0) / ms;
    let next = previous.0.checked_add(passed.checked_add(1)?.checked_mul(ms)?)?;
    (next <= Time::MAX.0).then_some(Time(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_whole_milliseconds_within_the_bounds_are_taken() {
        for (text, ms) in [
            ("1000", 1_000),
            (" 3600000 ", 3_600_000),
            ("0060000", 60_000),
            ("3155760000000", MAX_INTERVAL_MS),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
        for bad in [
            "",
            " ",
            "abc",
            "12abc",
            "1e6",
            "0x10",
            "1.9",
            "-5000",
            "+5000",
            "1_000_000",
            "1,000",
            "1h",
            "5 m",
            "٣٤٥٦",
            "0",
            "1",
            "999",
            "3155760000001",
            "99999999999999999999999999",
        ] {
            let refusal = parse(bad).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidSchedule, "{bad}");
            assert!(refusal.message.contains(&quoted(bad.trim())), "{refusal}");
        }
    }

    #[test]
    fn the_grid_is_kept_however_much_was_missed() {
        let at = |previous, now| next(60_000, Time(previous), Time(now)).unwrap().0;
        assert_eq!(at(0, 2_000), 60_000);
        assert_eq!(at(0, 60_000), 120_000);
        assert_eq!(at(7, 600_000), 600_007);
        assert_eq!(at(7, 600_007), 660_007);
        assert_eq!(at(100_000, 0), 160_000, "a clock that went back never repeats a slot");
        let century = Time(MAX_INTERVAL_MS);
        assert_eq!(next(1_000, Time(1), century), Some(Time(century.0 + 1)), "no loop over what was missed");
    }

    #[test]
    fn instants_beyond_what_can_be_expressed_are_none() {
        assert_eq!(next(1_000, Time(i64::MIN), Time(i64::MAX)), None);
        assert_eq!(next(1_000, Time(i64::MAX), Time(0)), None);
        assert_eq!(next(1_000, Time::MAX, Time(0)), None);
    }
}
