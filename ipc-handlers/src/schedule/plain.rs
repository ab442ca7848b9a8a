//! A schedule in plain words, told from what was read and not from how it was written.

use std::fmt::Write as _;

use super::{
    cron::{Cron, Fields},
    day::Days,
    field::{Bits, DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, Spec},
    interval::UNITS,
};

/// The longest description, bytes; an expression that takes more is shown as it was written.
const LONGEST: usize = 160;
/// How many times of a day are listed.
const MOST_TIMES: u32 = 6;

/// Says how long an interval is: `every 1 day 12 hours`.
pub(super) fn interval(ms: i64) -> String {
    let mut left = ms;
    let mut parts = Vec::new();
    for (_, unit, name) in UNITS {
        let many = left / unit;
        left %= unit;
        match many {
            0 => {}
            1 => parts.push(format!("1 {name}")),
            _ => parts.push(format!("{many} {name}s")),
        }
    }
    if left > 0 {
        parts.push(format!("{left} ms"));
    }
    match parts.as_slice() {
        // One of a unit needs no number.
        [only] => format!("every {}", only.strip_prefix("1 ").unwrap_or(only)),
        several => format!("every {}", several.join(" ")),
    }
}

/// Says when an expression matches, without the zone: `weekdays at 09:00`.
pub(super) fn cron(cron: &Cron) -> String {
    let fields = cron.fields();
    let days = days(fields);
    let text = match times(fields) {
        Times::At(times) => format!("{} at {times}", days.as_deref().unwrap_or("every day")),
        Times::Every(every) => match days {
            Some(days) => format!("{every} on {days}"),
            None => every,
        },
    };
    if text.len() <= LONGEST { text } else { format!("cron \"{cron}\"") }
}

enum Times {
    /// Some times of the day.
    At(String),
    /// A rhythm.
    Every(String),
}

fn times(fields: &Fields) -> Times {
    let Fields { seconds, minutes, hours, .. } = *fields;
    let all = |bits: Bits, spec: &Spec| bits == spec.all();
    let (every_minute, every_hour) = (all(minutes, &MINUTE), all(hours, &HOUR));
    if let Some(second) = only(seconds) {
        if minutes.count_ones() * hours.count_ones() <= MOST_TIMES {
            let times = bits(hours).flat_map(|hour| bits(minutes).map(move |minute| (hour, minute)));
            let times: Vec<String> = times.map(|(hour, minute)| clock(hour, minute, second)).collect();
            return Times::At(and(&times));
        }
        let rhythm = match (step(minutes, &MINUTE), only(minutes)) {
            (Some(n), _) => Some(every(n, "minute")),
            (None, Some(_)) => {
                step(hours, &HOUR).or_else(|| stretch(hours).map(|_| 1)).map(|n| every(n, "hour"))
            }
            (None, None) => None,
        };
        let first = (hours.trailing_zeros(), minutes.trailing_zeros());
        let last = (63 - hours.leading_zeros(), 63 - minutes.leading_zeros());
        let from_to =
            format!("from {} to {}", clock(first.0, first.1, second), clock(last.0, last.1, second));
        match rhythm {
            Some(rhythm) if every_hour && second == 0 && step(minutes, &MINUTE).is_some() => {
                return Times::Every(rhythm);
            }
            Some(rhythm) if every_hour && second == 0 && minutes == 1 => return Times::Every(rhythm),
            Some(rhythm) if only(minutes).is_some() && !every_hour => {
                return Times::Every(format!("{rhythm} {from_to}"));
            }
            Some(rhythm) if stretch(hours).is_some() && !every_hour => {
                return Times::Every(format!("{rhythm} {from_to}"));
            }
            Some(_) | None => {}
        }
    } else if let (Some(n), true, true) = (step(seconds, &SECOND), every_minute, every_hour) {
        return Times::Every(every(n, "second"));
    }
    let mut text = String::new();
    if seconds != 1 {
        let _ = write!(text, "{} of ", named("second", seconds, &SECOND));
    }
    if !(seconds != 1 && every_minute && every_hour) {
        let _ = write!(text, "{} of ", named("minute", minutes, &MINUTE));
    } else {
        return Times::Every(format!("{text}every minute"));
    }
    Times::Every(if every_hour {
        format!("{text}every hour")
    } else {
        format!("{text}{}", named("hour", hours, &HOUR))
    })
}

/// Names the days where not every one is meant.
fn days(fields: &Fields) -> Option<String> {
    let Fields { of_month, months, of_week, .. } = fields;
    let month = (*months != MONTH.all()).then(|| {
        let names: Vec<String> =
            runs(*months).map(|run| run.named(" to ", |n| word(&MONTH, n - 1))).collect();
        and(&names)
    });
    let week = week(of_week);
    // Either field's days are meant, so one that names all of them leaves nothing out.
    let dates = if all_dates(of_month) { None } else { dates(of_month) };
    let restricted = [(of_month, &dates), (of_week, &week)];
    let whole = restricted.iter().any(|(days, text)| **days != Days::Every && text.is_none());
    let named: Vec<String> =
        if whole { Vec::new() } else { [dates.clone(), week].into_iter().flatten().collect() };
    match (named.as_slice(), month) {
        ([], None) => None,
        ([], Some(month)) => Some(format!("every day in {month}")),
        ([days], None) => Some(if dates.is_some() { format!("{days} of the month") } else { days.clone() }),
        ([days], Some(month)) if dates.is_some() => Some(format!("{days} of {month}")),
        ([days], Some(month)) => Some(format!("{days} in {month}")),
        ([dates, week, ..], month) => {
            let of = month.map_or_else(|| "the month".to_owned(), |month| month.clone());
            Some(format!("{dates} of {of} or {week}"))
        }
    }
}

fn all_dates(days: &Days) -> bool {
    matches!(days, Days::OfMonth { days, .. } if *days == DAY_OF_MONTH.all())
}

/// `day 13`, `days 1 to 7 and 15 and the last day`.
fn dates(days: &Days) -> Option<String> {
    let Days::OfMonth { days, last } = days else { return None };
    let dates = (*days != 0).then(|| named("day", *days, &DAY_OF_MONTH));
    let last = last.then(|| "the last day".to_owned());
    Some(and(&dates.into_iter().chain(last).collect::<Vec<_>>()))
}

/// `weekdays`, `Mondays and Fridays`, `the second Monday of the month`; `None` for every day.
fn week(days: &Days) -> Option<String> {
    const NTH: [&str; 6] = ["", "first", "second", "third", "fourth", "fifth"];
    let Days::OfWeek { days, last, nth } = days else { return None };
    // Sunday last, as people count them.
    let week = (days & 0x7e) | (days & 1) << 7;
    let mut parts: Vec<String> = match week {
        0b1111_1110 => return None,
        0b0011_1110 => vec!["weekdays".into()],
        0b1100_0000 => vec!["weekends".into()],
        week => {
            runs(week).map(|run| run.named(" to ", |n| format!("{}s", word(&DAY_OF_WEEK, n % 7)))).collect()
        }
    };
    // `Mondays to Fridays` is `Monday to Friday`.
    for part in &mut parts {
        if let Some((from, to)) = part.split_once("s to ") {
            *part = format!("{from} to {}", to.trim_end_matches('s'));
        }
    }
    for (n, named) in nth.iter().enumerate() {
        parts.extend(
            bits(*named).map(|day| format!("the {} {} of the month", NTH[n], word(&DAY_OF_WEEK, day))),
        );
    }
    parts.extend(bits(*last).map(|day| format!("the last {} of the month", word(&DAY_OF_WEEK, day))));
    Some(and(&parts))
}

/// Numbers in a row: three at least, or one alone.
struct Run {
    first: u32,
    last: u32,
}

impl Run {
    fn named(&self, to: &str, name: impl Fn(u32) -> String) -> String {
        if self.first == self.last {
            name(self.first)
        } else {
            format!("{}{to}{}", name(self.first), name(self.last))
        }
    }
}

fn runs(of: Bits) -> impl Iterator<Item = Run> {
    let mut runs: Vec<Run> = Vec::new();
    for n in bits(of) {
        match runs.last_mut() {
            Some(run) if run.last + 1 == n => run.last = n,
            Some(_) | None => runs.push(Run { first: n, last: n }),
        }
    }
    // Two in a row are two.
    runs.into_iter().flat_map(|run| match run.last - run.first {
        1 => vec![Run { first: run.first, last: run.first }, Run { first: run.last, last: run.last }],
        _ => vec![run],
    })
}

/// `minute 15`, `minutes 0 to 10 and 30`, `every minute`.
fn named(unit: &str, numbers: Bits, spec: &Spec) -> String {
    if numbers == spec.all() {
        return format!("every {unit}");
    }
    let s = if numbers.count_ones() == 1 { "" } else { "s" };
    let parts: Vec<String> = runs(numbers).map(|run| run.named(" to ", |n| n.to_string())).collect();
    format!("{unit}{s} {}", and(&parts))
}

/// The step of a field that goes round evenly from its start; 1 for one that names all.
fn step(numbers: Bits, spec: &Spec) -> Option<u32> {
    let size = spec.max - spec.min + 1;
    (1..size).filter(|step| size.is_multiple_of(*step)).find(|step| {
        (spec.min..=spec.max).step_by(*step as usize).fold(0, |bits, n| bits | 1 << n) == numbers
    })
}

/// The numbers in one row, where there are two at least.
fn stretch(numbers: Bits) -> Option<(u32, u32)> {
    let (first, last) = (numbers.trailing_zeros(), 63 - numbers.leading_zeros());
    (last > first && last - first + 1 == numbers.count_ones()).then_some((first, last))
}

fn every(n: u32, unit: &str) -> String {
    if n == 1 { format!("every {unit}") } else { format!("every {n} {unit}s") }
}

fn clock(hour: u32, minute: u32, second: u32) -> String {
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

/// A word of a field, with a capital.
fn word(spec: &Spec, at: u32) -> String {
    let word = spec.words.get(at as usize).copied().unwrap_or_default();
    word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1)).collect()
}

fn and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn only(bits: Bits) -> Option<u32> {
    (bits.count_ones() == 1).then(|| bits.trailing_zeros())
}

fn bits(of: Bits) -> impl Iterator<Item = u32> + Clone {
    (0..64).filter(move |n| of >> n & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Schedule, Time, schedule::testing::zone};

    #[test]
    fn expressions_read_as_people_say_them() {
        for (text, words) in [
            ("0 9 * * 1-5", "weekdays at 09:00"),
            ("0 9 * * MON-FRI", "weekdays at 09:00"),
            ("0 9 * * *", "every day at 09:00"),
            ("0 9 * * 0-6", "every day at 09:00"),
            ("0 9 */1 * *", "every day at 09:00"),
            ("0 9,18 * * *", "every day at 09:00 and 18:00"),
            ("0,30 9 * * 6,0", "weekends at 09:00 and 09:30"),
            ("0 9 * * 0", "Sundays at 09:00"),
            ("0 9 * * 7", "Sundays at 09:00"),
            ("0 9 * * 1,3,5", "Mondays, Wednesdays and Fridays at 09:00"),
            ("0 9 * * 1-4", "Monday to Thursday at 09:00"),
            ("0 9 * * FRI-SUN", "Friday to Sunday at 09:00"),
            ("0 9 * * 1,2", "Mondays and Tuesdays at 09:00"),
            ("0 9 1 * *", "day 1 of the month at 09:00"),
            ("0 9 1,15 * *", "days 1 and 15 of the month at 09:00"),
            ("0 9 L * *", "the last day of the month at 09:00"),
            ("0 9 1-7,L * *", "days 1 to 7 and the last day of the month at 09:00"),
            ("0 9 * * 5L", "the last Friday of the month at 09:00"),
            ("0 9 * * 1#2", "the second Monday of the month at 09:00"),
            ("0 9 13 * 5", "day 13 of the month or Fridays at 09:00"),
            ("0 9 13 * 0-6", "every day at 09:00"),
            ("0 9 */1 * 5", "every day at 09:00"),
            ("0 9 13 3 5", "day 13 of March or Fridays at 09:00"),
            ("0 0 1 1 *", "day 1 of January at 00:00"),
            ("0 0 1 */3 *", "day 1 of January, April, July and October at 00:00"),
            ("0 9 * 6-8 1-5", "weekdays in June to August at 09:00"),
            ("0 9 * 12 *", "every day in December at 09:00"),
            ("@daily", "every day at 00:00"),
            ("@weekly", "Sundays at 00:00"),
            ("@hourly", "every hour"),
            ("* * * * *", "every minute"),
            ("*/15 * * * *", "every 15 minutes"),
            ("*/15 * * * 1-5", "every 15 minutes on weekdays"),
            ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on weekdays"),
            ("0 9-17 * * 1-5", "every hour from 09:00 to 17:00 on weekdays"),
            ("15 9-17 * * *", "every hour from 09:15 to 17:15"),
            ("0 */2 * * *", "every 2 hours from 00:00 to 22:00"),
            ("15 * * * *", "minute 15 of every hour"),
            ("5,35 * * * *", "minutes 5 and 35 of every hour"),
            ("*/7 * * * *", "minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
            ("*/20 8,20 * * *", "every day at 08:00, 08:20, 08:40, 20:00, 20:20 and 20:40"),
            ("*/15 8,20 * * *", "minutes 0, 15, 30 and 45 of hours 8 and 20"),
            ("0-10 9,17 * * *", "minutes 0 to 10 of hours 9 and 17"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("30 0 9 * * *", "every day at 09:00:30"),
            ("0,30 0 9 * * *", "seconds 0 and 30 of minute 0 of hour 9"),
            ("30 * * * * *", "second 30 of every minute"),
            (
                "*/5 9-10 1-31/2 1,3,5,7,9,11 1#1,2#2,3#3,4#4,5#5,0L",
                "cron \"*/5 9-10 1-31/2 1,3,5,7,9,11 1#1,2#2,3#3,4#4,5#5,0L\"",
            ),
        ] {
            assert_eq!(cron(&Cron::parse(text).unwrap()), words, "{text}");
        }
    }

    #[test]
    fn durations_read_as_people_say_them() {
        for (ms, words) in [
            (1_000, "every second"),
            (60_000, "every minute"),
            (900_000, "every 15 minutes"),
            (7_200_000, "every 2 hours"),
            (129_600_000, "every 1 day 12 hours"),
            (604_800_000, "every week"),
            (90_500, "every 1 minute 30 seconds 500 ms"),
        ] {
            assert_eq!(interval(ms), words);
        }
    }

    #[test]
    fn the_zone_is_named_where_clocks_matter() {
        let zone = zone("Europe/Paris");
        for (text, words) in [
            ("0 9 * * 1-5", "weekdays at 09:00 Europe/Paris"),
            ("2h", "every 2 hours"),
            ("2026-12-31T18:30:00", "once on 2026-12-31 at 18:30 Europe/Paris"),
            ("2026-12-31T17:30:00Z", "once on 2026-12-31 at 18:30 Europe/Paris"),
        ] {
            let schedule = Schedule::guess(text, &zone, Time(0)).unwrap();
            assert_eq!(schedule.in_words(&zone, "Europe/Paris"), words);
        }
    }

    proptest! {
        #[test]
        fn words_of_any_expression_are_bounded(fields in proptest::collection::vec("[0-9*?/,L#-]{1,12}|[*]|[0-5]", 5..=6)) {
            if let Ok(parsed) = Cron::parse(&fields.join(" ")) {
                let words = cron(&parsed);
                prop_assert!(words.len() <= LONGEST || words.starts_with("cron "));
            }
        }
    }
}
