//! A date and time as people type it: `tomorrow 9:00`, `friday at 18:30`, `in 2h`.

use ipc_handlers::{Refusal, Schedule, Time};
use jiff::{ToSpan as _, civil, tz::TimeZone};

/// How a moment may be written, for messages.
pub const FORMS: &str =
    "write, for example, \"9:00\", \"tomorrow 9:00\", \"friday 18:30\", \"2026-12-31 18:30\" or \"in 2h\"";

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Returns the value of a schedule `once` that a text says at `now` on the clocks of `zone`; a text in another form as it
/// is. A time alone, and a weekday, are the next of that name.
///
/// # Errors
/// `in` and a time that is no interval.
pub fn once(text: &str, now: Time, zone: &TimeZone) -> Result<String, Refusal> {
    let lower = text.trim().to_lowercase();
    if let Some(length) = lower.strip_prefix("in ") {
        let Schedule::Interval { ms } = Schedule::parse("interval", &length.replace(' ', ""), zone, now)?
        else {
            return Ok(text.to_owned());
        };
        // An instant: however the clocks jump meanwhile, the distance stays. Whole seconds, as people reckon.
        let at = Time(now.plus_ms(ms).0.div_euclid(1_000) * 1_000).to_jiff().to_zoned(zone.clone());
        return Ok(at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
    }
    let here = now.to_jiff().to_zoned(zone.clone()).datetime();
    Ok(clocks(&lower, here)
        .map_or_else(|| text.to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string()))
}

/// Reads `[today|tomorrow|[next] WEEKDAY|DATE] [at] H[:MM[:SS]]` beside the clocks that show `here`.
fn clocks(text: &str, here: civil::DateTime) -> Option<civil::DateTime> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "at").collect();
    let (day, time) = match words.as_slice() {
        [time] => (None, *time),
        ["next", day, time] | [day, time] => (Some(*day), *time),
        _ => return None,
    };
    let time = time_of_day(time, day.is_some())?;
    let on = |days: i64| here.date().checked_add(days.days()).ok().map(|date| date.to_datetime(time));
    let Some(day) = day else { return on(0).filter(|at| *at > here).or_else(|| on(1)) };
    match day {
        "today" => on(0),
        "tomorrow" => on(1),
        date if date.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(date.parse::<civil::Date>().ok()?.to_datetime(time))
        }
        name => {
            let is_named = |full: &str| name == full || name == &full[..3];
            let wanted = i64::try_from(WEEKDAYS.iter().position(|full| is_named(full))?).ok()?;
            let ahead = (wanted - i64::from(here.weekday().to_monday_zero_offset())).rem_euclid(7);
            let week = (ahead == 0 && (on(0)? <= here || words.first() == Some(&"next"))).then_some(7);
            on(week.unwrap_or(ahead))
        }
    }
}

/// Reads `9:00`, `09:00:30`, and behind a day `9`.
fn time_of_day(text: &str, hour_alone: bool) -> Option<civil::Time> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize| -> Option<i8> {
        let Some(part) = parts.get(at) else { return Some(0) };
        let plain = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse().ok())?
    };
    let fits = (2..=3).contains(&parts.len()) || (hour_alone && parts.len() == 1);
    let minutes_whole = parts.iter().skip(1).all(|part| part.len() == 2);
    if !fits || !minutes_whole {
        return None;
    }
    civil::Time::new(number(0)?, number(1)?, number(2)?, 0).ok()
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Code;
    use jiff::tz::TimeZoneDatabase;

    use super::*;

    /// Monday, 10:30 in Paris.
    const NOW: &str = "2026-11-23T09:30:00Z";

    fn read(text: &str) -> Result<String, Refusal> {
        let paris = TimeZoneDatabase::bundled().get("Europe/Paris").unwrap();
        once(text, Time::from_jiff(NOW.parse().unwrap()), &paris)
    }

    #[test]
    fn moments_are_read_on_the_clocks_of_the_zone() {
        for (text, at) in [
            ("11:00", "2026-11-23T11:00:00"),
            ("9:00", "2026-11-24T09:00:00"),
            ("10:30", "2026-11-24T10:30:00"),
            ("today 9:00", "2026-11-23T09:00:00"),
            ("tomorrow 9:00", "2026-11-24T09:00:00"),
            ("Tomorrow at 9", "2026-11-24T09:00:00"),
            (" tomorrow  09:15:30 ", "2026-11-24T09:15:30"),
            ("monday 11:00", "2026-11-23T11:00:00"),
            ("monday 9:00", "2026-11-30T09:00:00"),
            ("next monday 11:00", "2026-11-30T11:00:00"),
            ("next tuesday 9:00", "2026-11-24T09:00:00"),
            ("sun 18:30", "2026-11-29T18:30:00"),
            ("Friday at 18", "2026-11-27T18:00:00"),
            ("2026-12-31 9:00", "2026-12-31T09:00:00"),
            ("2026-12-31 at 18:30", "2026-12-31T18:30:00"),
            ("2020-01-01 9", "2020-01-01T09:00:00"),
            ("in 2h", "2026-11-23T12:30:00+01:00"),
            ("in 1d 12h", "2026-11-24T22:30:00+01:00"),
            ("In 90s", "2026-11-23T10:31:30+01:00"),
        ] {
            assert_eq!(read(text), Ok(at.to_owned()), "{text}");
        }
    }

    #[test]
    fn any_other_text_is_left_to_the_reader_of_dates() {
        for text in [
            "",
            "9",
            "soon",
            "tomorrow",
            "tomorrow 25:00",
            "tomorrow 9:5",
            "9am",
            "mon",
            "2026-02-30 9:00",
            "2026-12-31T18:30:00Z",
            "yesterday 9:00",
            "funday 9:00",
            "tomorrow 9:00 sharp",
            "é 9:00",
        ] {
            assert_eq!(read(text), Ok(text.to_owned()));
        }
        assert_eq!(read("in a while").unwrap_err().code, Code::InvalidSchedule);
    }
}
