//! Times as people say them: how they are shown on a screen, and how a moment that has passed may be written.

use ipc_handlers::Time;
use jiff::{ToSpan as _, Zoned, civil, tz::TimeZone};

/// How a moment that has passed may be written, for messages.
pub const FORMS: &str = "write an age (90s, 15m, 2h, 1d, 2w), a time of day (22:00), a day (today, yesterday, monday, 2026-01-02), a day and a time, or an instant (RFC 3339)";

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const UNITS: [(&str, i64); 5] = [("w", 7 * DAY), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)];

/// Returns a moment as people at `now` on the clocks of `zone` say it: `3 min ago`, `in 20 s`, `today 14:05`,
/// `23 Nov 14:05`, `2025-11-23 14:05`.
#[must_use]
pub fn shown(at: Time, now: Time, zone: &TimeZone) -> String {
    let ago = now.ms_since(at);
    match ago.abs() {
        near if near < SECOND => return "now".into(),
        near if near < HOUR && ago > 0 => return format!("{} ago", length(near / SECOND * SECOND)),
        near if near < HOUR => return format!("in {}", length(near / SECOND * SECOND)),
        _ => {}
    }
    let (then, here) = (at.to_jiff().to_zoned(zone.clone()), now.to_jiff().to_zoned(zone.clone()));
    let is = |day: Result<Zoned, jiff::Error>| day.is_ok_and(|day| day.date() == then.date());
    let form = if then.date() == here.date() {
        "today %H:%M"
    } else if is(here.yesterday()) {
        "yesterday %H:%M"
    } else if is(here.tomorrow()) {
        "tomorrow %H:%M"
    } else if then.year() == here.year() {
        "%-d %b %H:%M"
    } else {
        "%Y-%m-%d %H:%M"
    };
    then.strftime(form).to_string()
}

/// Returns a moment to come as a clock of `zone` shows it at `now`: `14:05`, `14:05 tomorrow`, `14:05 on 23 Nov`.
#[must_use]
pub fn clock(at: Time, now: Time, zone: &TimeZone) -> String {
    let (then, here) = (at.to_jiff().to_zoned(zone.clone()), now.to_jiff().to_zoned(zone.clone()));
    let form = if then.date() == here.date() {
        "%H:%M"
    } else if here.tomorrow().is_ok_and(|day| day.date() == then.date()) {
        "%H:%M tomorrow"
    } else {
        "%H:%M on %-d %b"
    };
    then.strftime(form).to_string()
}

/// Returns a length of time in at most two units: `350 ms`, `1.2 s`, `3 min`, `5 h 10 min`, `3 d 2 h`.
#[must_use]
pub fn length(ms: i64) -> String {
    let two = |whole: i64, unit: &str, rest: i64, smaller: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {smaller}"),
    };
    match ms.max(0) {
        ms if ms < SECOND => format!("{ms} ms"),
        ms if ms < 10 * SECOND && ms % SECOND >= 100 => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        ms if ms < MINUTE => format!("{} s", ms / SECOND),
        ms if ms < HOUR => format!("{} min", ms / MINUTE),
        ms if ms < 2 * DAY => two(ms / HOUR, "h", ms % HOUR / MINUTE, "min"),
        ms => two(ms / DAY, "d", ms % DAY / HOUR, "h"),
    }
}

/// Reads a moment that has passed at `now`, on the clocks of `zone`. A time of day alone, and a weekday, are the last of that
/// name; a day alone is its beginning. `None`: it is written in no form of [`FORMS`].
#[must_use]
pub fn past(text: &str, now: Time, zone: &TimeZone) -> Option<Time> {
    let text = text.trim();
    if let Some(age) = age(&text.to_ascii_lowercase()) {
        return Some(now.plus_ms(-age));
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(Time::from_jiff(instant));
    }
    let here = now.to_jiff().to_zoned(zone.clone()).datetime();
    let at = clocks(&text.to_ascii_lowercase(), here)?;
    Some(Time::from_jiff(at.to_zoned(zone.clone()).ok()?.timestamp()))
}

/// Reads an age, ms: `90s`, `1h30m`, `2h ago`.
fn age(text: &str) -> Option<i64> {
    let mut rest = text.strip_suffix("ago").unwrap_or(text).trim_end();
    let (mut ms, mut units) = (0_i64, UNITS.iter());
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let count: i64 = number.parse::<u32>().ok()?.into();
        // A larger unit stands before a smaller one, each once.
        let (unit, of_unit) = units.find(|(unit, _)| after.starts_with(unit))?;
        ms = ms.checked_add(count.checked_mul(*of_unit)?)?;
        rest = &after[unit.len()..];
    }
    Some(ms)
}

/// Reads `now`, `DAY`, `H:MM[:SS]` or `DAY [at] H:MM[:SS]` beside the clocks that show `here`.
fn clocks(text: &str, here: civil::DateTime) -> Option<civil::DateTime> {
    let text = text.replacen('t', " ", usize::from(text.starts_with(|c: char| c.is_ascii_digit())));
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "at").collect();
    match words.as_slice() {
        ["now"] => Some(here),
        [time] if time.contains(':') => {
            let at = here.date().to_datetime(time_of_day(time)?);
            if at > here { at.checked_sub(1.day()).ok() } else { Some(at) }
        }
        [day] => Some(date(day, here.date())?.to_datetime(civil::Time::midnight())),
        [day, time] => {
            let at = date(day, here.date())?.to_datetime(time_of_day(time)?);
            // On a Monday morning, the last Monday evening is a week ago.
            let is_weekday =
                day.starts_with(|c: char| c.is_ascii_alphabetic()) && !matches!(*day, "today" | "yesterday");
            if is_weekday && at > here { at.checked_sub(1.week()).ok() } else { Some(at) }
        }
        _ => None,
    }
}

/// Reads a day; a weekday is the last one of that name, today included.
fn date(day: &str, today: civil::Date) -> Option<civil::Date> {
    match day {
        "today" => Some(today),
        "yesterday" => today.yesterday().ok(),
        date if date.starts_with(|c: char| c.is_ascii_digit()) => date.parse().ok(),
        name => {
            let is_named = |full: &str| name == full || name == &full[..3];
            let wanted = i64::try_from(WEEKDAYS.iter().position(|full| is_named(full))?).ok()?;
            let back = (i64::from(today.weekday().to_monday_zero_offset()) - wanted).rem_euclid(7);
            today.checked_sub(back.days()).ok()
        }
    }
}

/// Reads `9:00` or `09:00:30`.
fn time_of_day(text: &str) -> Option<civil::Time> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_plain =
        |part: &&str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let rest_is_whole = parts.iter().skip(1).all(|part| part.len() == 2);
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(is_plain) || !rest_is_whole {
        return None;
    }
    let number = |at: usize| parts.get(at).map_or(Some(0), |part| part.parse::<i8>().ok());
    civil::Time::new(number(0)?, number(1)?, number(2)?, 0).ok()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZoneDatabase;
    use proptest::prelude::*;

    use super::*;

    /// Monday, 10:30 in Paris.
    const NOW: &str = "2026-11-23T09:30:00Z";

    fn time(text: &str) -> Time {
        Time::from_jiff(text.parse().unwrap())
    }

    fn paris() -> TimeZone {
        TimeZoneDatabase::bundled().get("Europe/Paris").unwrap()
    }

    #[test]
    fn a_moment_is_said_by_how_far_it_is_and_on_which_day() {
        for (at, said) in [
            ("2026-11-23T09:30:00.400Z", "now"),
            ("2026-11-23T09:29:48Z", "12 s ago"),
            ("2026-11-23T09:29:54.700Z", "5 s ago"),
            ("2026-11-23T09:27:00Z", "3 min ago"),
            ("2026-11-23T09:32:30Z", "in 2 min"),
            ("2026-11-23T08:00:00Z", "today 09:00"),
            ("2026-11-23T22:59:00Z", "today 23:59"),
            ("2026-11-23T23:00:00Z", "tomorrow 00:00"),
            ("2026-11-22T22:59:00Z", "yesterday 23:59"),
            ("2026-11-21T22:59:00Z", "21 Nov 23:59"),
            ("2026-03-01T11:00:00Z", "1 Mar 12:00"),
            ("2025-11-23T09:30:00Z", "2025-11-23 10:30"),
            ("2099-01-01T08:00:00Z", "2099-01-01 09:00"),
        ] {
            assert_eq!(shown(time(at), time(NOW), &paris()), said, "{at}");
        }
    }

    #[test]
    fn a_length_has_at_most_two_units() {
        for (ms, said) in [
            (-5, "0 ms"),
            (350, "350 ms"),
            (1_000, "1 s"),
            (1_240, "1.2 s"),
            (59_999, "59 s"),
            (3 * MINUTE + 59_000, "3 min"),
            (5 * HOUR, "5 h"),
            (29 * HOUR + 10 * MINUTE, "29 h 10 min"),
            (3 * DAY + 2 * HOUR, "3 d 2 h"),
        ] {
            assert_eq!(length(ms), said);
        }
    }

    #[test]
    fn a_moment_is_read_on_the_clocks_of_the_zone_as_the_last_one_of_its_name() {
        for (text, at) in [
            ("90s", "2026-11-23T09:28:30Z"),
            ("15m", "2026-11-23T09:15:00Z"),
            ("1h30m", "2026-11-23T08:00:00Z"),
            ("2h ago", "2026-11-23T07:30:00Z"),
            ("1d", "2026-11-22T09:30:00Z"),
            ("2w", "2026-11-09T09:30:00Z"),
            ("now", "2026-11-23T09:30:00Z"),
            ("10:29", "2026-11-23T09:29:00Z"),
            ("10:31", "2026-11-22T09:31:00Z"),
            ("22:00", "2026-11-22T21:00:00Z"),
            ("today", "2026-11-22T23:00:00Z"),
            ("Yesterday", "2026-11-21T23:00:00Z"),
            ("yesterday 22:00", "2026-11-22T21:00:00Z"),
            ("yesterday at 9:00:30", "2026-11-22T08:00:30Z"),
            ("today 23:00", "2026-11-23T22:00:00Z"),
            ("monday", "2026-11-22T23:00:00Z"),
            ("mon 9:00", "2026-11-23T08:00:00Z"),
            ("mon 11:00", "2026-11-16T10:00:00Z"),
            ("tuesday", "2026-11-16T23:00:00Z"),
            ("2026-01-02", "2026-01-01T23:00:00Z"),
            ("2026-01-02 22:00", "2026-01-02T21:00:00Z"),
            ("2026-07-02T22:00", "2026-07-02T20:00:00Z"),
            ("2026-01-02T22:00:00Z", "2026-01-02T22:00:00Z"),
            ("2026-01-02T22:00:00+05:00", "2026-01-02T17:00:00Z"),
        ] {
            assert_eq!(past(text, time(NOW), &paris()), Some(time(at)), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "s",
            "-1s",
            "1",
            "1é",
            "30m1h",
            "1h1h",
            "99999999999d",
            "ago",
            "soon",
            "25:00",
            "9:5",
            "9",
            "2026-02-30",
            "2026-13-01 9:00",
            "funday",
            "m",
            "yesterday 9",
            "tomorrow",
            "yesterday 9:00 sharp",
            "1:2:3:4",
        ] {
            assert_eq!(past(text, time(NOW), &paris()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_any_moment_is_said(text in "\\PC{0,24}", at in -4_000_000_000_000_i64..9_000_000_000_000) {
            let _ = past(&text, time(NOW), &paris());
            prop_assert!(shown(Time(at), time(NOW), &paris()).len() <= 17);
        }
    }
}
