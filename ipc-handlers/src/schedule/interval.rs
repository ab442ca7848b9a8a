//! `interval`: a duration on a grid.

use crate::{Code, Refusal, Time, refusal::quoted};

/// The shortest interval, 1 s: below it a task would only ever catch up with itself.
pub const MIN_INTERVAL_MS: i64 = 1_000;
/// The longest interval, 10 years.
pub const MAX_INTERVAL_MS: i64 = 315_576_000_000;

/// The units, longest first, in milliseconds.
pub(super) const UNITS: [(char, i64, &str); 5] = [
    ('w', 604_800_000, "week"),
    ('d', 86_400_000, "day"),
    ('h', 3_600_000, "hour"),
    ('m', 60_000, "minute"),
    ('s', 1_000, "second"),
];

/// Returns the milliseconds that `value` says, within the bounds: whole milliseconds, or numbers with units (`1d12h`).
pub(super) fn parse(value: &str) -> Result<i64, Refusal> {
    let text = value.trim();
    let refused = |fault: &str| {
        Refusal::new(
            Code::InvalidSchedule,
            format!("interval {} {fault}", quoted(text)),
            "write a duration from 1s to 10 years with the units w, d, h, m and s, for example \"15m\", \"2h\" or \"1d12h\"; digits alone are milliseconds, for example \"3600000\" for every hour",
        )
    };
    match length(text).ok_or_else(|| refused("is no duration"))? {
        ms @ MIN_INTERVAL_MS..=MAX_INTERVAL_MS => Ok(ms),
        ms if ms < MIN_INTERVAL_MS => Err(refused("is shorter than 1 s")),
        _ => Err(refused("is longer than 10 years")),
    }
}

/// Returns whether a text has the form of an interval, whatever its length.
pub(super) fn looks_like(text: &str) -> bool {
    length(text.trim()).is_some()
}

/// Returns the milliseconds of a duration; of one that is too long to count, the most there are. Each unit stands once at
/// most, longer ones first.
pub(crate) fn length(text: &str) -> Option<i64> {
    // Only digits: what does not fit is too long an interval.
    let number = |digits: &str| -> Option<i64> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().unwrap_or(i64::MAX))
    };
    if let Some(ms) = number(text) {
        return Some(ms);
    }
    let (mut rest, mut sum, mut units) = (text, 0_i64, UNITS.as_slice());
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let unit = after.chars().next()?;
        let at = units.iter().position(|(letter, ..)| *letter == unit)?;
        sum = sum.saturating_add(number(digits)?.saturating_mul(units[at].1));
        (rest, units) = (&after[unit.len_utf8()..], &units[at + 1..]);
    }
    (!text.is_empty()).then_some(sum)
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
    fn durations_and_plain_milliseconds_within_the_bounds_are_taken() {
        for (text, ms) in [
            ("1000", 1_000),
            (" 3600000 ", 3_600_000),
            ("0060000", 60_000),
            ("315576000000", MAX_INTERVAL_MS),
            ("1s", 1_000),
            ("15m", 900_000),
            (" 2h ", 7_200_000),
            ("1d12h", 129_600_000),
            ("1w2d3h4m5s", 788_645_000),
            ("90m", 5_400_000),
            ("0h1m", 60_000),
            ("3652d12h", MAX_INTERVAL_MS),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_duration_or_out_of_bounds_is_refused() {
        for (fault, texts) in [
            (
                "is no duration",
                [
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
                    "5 m",
                    "٣٤٥٦",
                    "٣m",
                    "h",
                    "2h2h",
                    "30m2h",
                    "2hours",
                    "1.5h",
                    "-2h",
                    "2h30",
                    "1H",
                    "2h 30m",
                    "5é",
                ]
                .as_slice(),
            ),
            ("is shorter than 1 s", &["0", "1", "999", "0s", "0d0h"]),
            (
                "is longer than 10 years",
                &[
                    "315576000001",
                    "3652d12h1s",
                    "99999999999999999999999999",
                    "99999999999999999999999999w",
                    "9223372036854775807w9223372036854775807d",
                ],
            ),
        ] {
            for bad in texts {
                let refusal = parse(bad).unwrap_err();
                assert_eq!(refusal.code, Code::InvalidSchedule, "{bad}");
                assert_eq!(refusal.message, format!("interval {} {fault}", quoted(bad.trim())));
            }
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
        let decade = Time(MAX_INTERVAL_MS);
        assert_eq!(next(1_000, Time(1), decade), Some(Time(decade.0 + 1)), "no loop over what was missed");
    }

    #[test]
    fn instants_beyond_what_can_be_expressed_are_none() {
        assert_eq!(next(1_000, Time(i64::MIN), Time(i64::MAX)), None);
        assert_eq!(next(1_000, Time(i64::MAX), Time(0)), None);
        assert_eq!(next(1_000, Time::MAX, Time(0)), None);
    }
}
