//! Cron expressions, read by the rules of v1's cron-parser.
//!
//! The `cron` crate serves as a matcher of civil times on a timeline without gaps and folds. It numbers Sunday 1
//! and wants both day fields to match, so it is given lists of its own numbers and, when both day fields are
//! restricted, one expression for each. Which instant a civil time is, [`super::instant`] decides.

use std::{fmt, str::FromStr as _};

use chrono::{DateTime, Datelike as _, Utc};
use jiff::tz::TimeZone;

use super::{
    day::{Day, Days, list},
    field::{Bits, HOUR, MINUTE, MONTH, SECOND, Spec},
    instant,
};
use crate::{Code, Refusal, Time, refusal::quoted};

const HINT: &str = "write five fields: minute hour day-of-month month day-of-week (0 or 7 is Sunday), for example \"0 9 * * 1-5\" for 09:00 on weekdays or \"*/15 * * * *\" for every 15 minutes; a sixth field in front is seconds";
const SECONDS_OF_DAY: i64 = 86_400;

/// A cron expression: five fields, or six with seconds in front, or a name like `@daily`.
///
/// Instants end with the year 2100. Two expressions are equal when they are written the same.
#[derive(Clone)]
pub struct Cron {
    text: String,
    matchers: Vec<Matcher>,
    hours: Hours,
    fields: Fields,
}

/// What the fields name.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) seconds: Bits,
    pub(super) minutes: Bits,
    pub(super) hours: Bits,
    pub(super) of_month: Days,
    pub(super) months: Bits,
    pub(super) of_week: Days,
}

/// Whether the hour field names every hour; then clocks that jump change nothing but the hour's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hours {
    Every,
    Some,
}

#[derive(Clone)]
struct Matcher {
    schedule: cron::Schedule,
    /// What the `cron` crate can't express and lets pass: checked afterwards.
    days: Option<Days>,
}

impl Cron {
    /// Returns the expression that `text` says. Nothing is filled in for fields that are missing.
    ///
    /// # Errors
    /// `invalid_schedule`, naming the field.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        read(text).map_err(|fault| {
            Refusal::new(Code::InvalidSchedule, format!("cron {}: {fault}", quoted(text)), HINT)
        })
    }

    /// Returns the first instant after `after` on the clocks of `zone`; `None` when there is none before 2101.
    #[must_use]
    pub fn next(&self, after: Time, zone: &TimeZone) -> Option<Time> {
        instant::next(self, after, zone)
    }

    pub(super) fn hours(&self) -> Hours {
        self.hours
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Returns whether a civil time matches, in seconds as if the clocks showed UTC.
    pub(super) fn matches(&self, civil: i64) -> bool {
        self.at_or_after(civil) == Some(civil)
    }

    /// Returns the first match at or after a civil time; both in seconds as if the clocks showed UTC.
    pub(super) fn at_or_after(&self, civil: i64) -> Option<i64> {
        self.matchers.iter().filter_map(|matcher| matcher.at_or_after(civil)).min()
    }
}

impl Matcher {
    fn at_or_after(&self, civil: i64) -> Option<i64> {
        let mut from = civil;
        // Each turn leaves a day behind, and the crate's years end with 2100.
        loop {
            let found =
                self.schedule.after(&DateTime::<Utc>::from_timestamp(from.checked_sub(1)?, 0)?).next()?;
            match &self.days {
                Some(days) if !days.include(day_of(found)) => {
                    from = (found.timestamp().div_euclid(SECONDS_OF_DAY) + 1) * SECONDS_OF_DAY;
                }
                Some(_) | None => return Some(found.timestamp()),
            }
        }
    }
}

fn day_of(time: DateTime<Utc>) -> Day {
    Day {
        of_month: time.day(),
        days_in_month: u32::from(time.num_days_in_month()),
        of_week: time.weekday().num_days_from_sunday(),
    }
}

fn read(text: &str) -> Result<Cron, String> {
    let expanded = match text.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        name if name.starts_with('@') => {
            return Err(
                "the name is not one of @hourly @daily @midnight @weekly @monthly @yearly @annually".into()
            );
        }
        _ => text,
    };
    let written: Vec<&str> = expanded.split_whitespace().collect();
    let (second, rest) = match written.as_slice() {
        [second, rest @ ..] if rest.len() == 5 => (*second, rest),
        rest => ("0", rest),
    };
    let [minute, hour, of_month, month, of_week] = *rest else {
        return Err(format!("it has {} fields, not 5 or 6", written.len()));
    };
    let seconds = numbers(&SECOND, second)?;
    let minutes = numbers(&MINUTE, minute)?;
    let hours = numbers(&HOUR, hour)?;
    let of_month_field = of_month;
    let of_month = Days::of_month(of_month).map_err(with_example(&super::field::DAY_OF_MONTH))?;
    let months = numbers(&MONTH, month)?;
    let of_week = Days::of_week(of_week).map_err(with_example(&super::field::DAY_OF_WEEK))?;
    if !of_month.exist_in(months) {
        return Err(format!(
            "the day-of-month field: no month of {} has a day {}",
            quoted(month),
            quoted(of_month_field)
        ));
    }
    let fields =
        Fields { seconds, minutes, hours, of_month: of_month.clone(), months, of_week: of_week.clone() };
    // Restricted both: a day that either names is one.
    let either = match (of_month, of_week) {
        (Days::Every, of_week) => vec![of_week],
        (of_month, Days::Every) => vec![of_month],
        (of_month, of_week) => vec![of_month, of_week],
    };
    let time = format!("{} {} {}", list(seconds, 0), list(minutes, 0), list(hours, 0));
    let matchers = either.into_iter().map(|days| matcher(&time, months, days)).collect::<Result<_, _>>()?;
    let hours = if hours == HOUR.all() { Hours::Every } else { Hours::Some };
    Ok(Cron { text: text.to_owned(), matchers, hours, fields })
}

fn numbers(spec: &'static Spec, field: &str) -> Result<Bits, String> {
    field.split(',').try_fold(0, |bits, item| Ok(bits | spec.item(item)?)).map_err(with_example(spec))
}

fn with_example(spec: &'static Spec) -> impl Fn(String) -> String {
    move |fault| format!("{fault} (for example {})", spec.example)
}

fn matcher(time: &str, months: Bits, days: Days) -> Result<Matcher, String> {
    let expressed = days.for_crate();
    let checked_after = expressed.is_none().then_some(days);
    let (of_month, of_week) = expressed.unwrap_or(("*".into(), "*".into()));
    let expression = format!("{time} {of_month} {} {of_week}", list(months, 0));
    let schedule =
        cron::Schedule::from_str(&expression).map_err(|error| format!("it can't be matched: {error}"))?;
    Ok(Matcher { schedule, days: checked_after })
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cron").field(&self.text).finish()
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_field_and_shows_an_example() {
        for (text, named) in [
            ("61 * * * *", "the minute field: \"61\" is outside 0-59"),
            ("60 * * * * *", "the second field: \"60\""),
            ("0 9 * * 1-9", "the day-of-week field: \"1-9\""),
            ("0 9 0 * *", "the day-of-month field: \"0\""),
            ("0 9 * 13 *", "the month field: \"13\""),
            ("0 22-2 * * *", "the hour field: \"22-2\""),
            ("0 0 31 2 *", "no month of \"2\" has a day \"31\""),
            ("0 0 30 2 1", "no month of \"2\" has a day \"30\""),
            ("0 0 31 4,6 *", "no month of \"4,6\""),
            ("* * * *", "it has 4 fields"),
            ("", "it has 0 fields"),
            (" ", "it has 0 fields"),
            ("0 0 1 1 * 2027 *", "it has 7 fields"),
            ("5", "it has 1 fields"),
            ("@minutely", "@hourly @daily"),
            ("every day", "it has 2 fields"),
            ("not a cron", "it has 3 fields"),
            ("0 0 1W * *", "the day-of-month field"),
            ("H * * * *", "the minute field"),
            ("1,,2 * * * *", "the minute field"),
        ] {
            let refusal = Cron::parse(text).expect_err(text);
            assert_eq!(refusal.code, Code::InvalidSchedule);
            assert!(refusal.message.contains(named), "{text}: {}", refusal.message);
            assert!(refusal.hint.contains("0 9 * * 1-5"));
        }
    }

    #[test]
    fn it_shows_as_written() {
        assert_eq!(Cron::parse("  0  9 * * MON ").unwrap().to_string(), "0  9 * * MON");
        assert_eq!(Cron::parse("@daily").unwrap().to_string(), "@daily");
    }

    #[test]
    fn only_an_hour_field_that_names_every_hour_goes_on_through_jumps() {
        for (text, hours) in [
            ("0 * * * *", Hours::Every),
            ("0 */1 * * *", Hours::Every),
            ("0 0-23 * * *", Hours::Every),
            ("@hourly", Hours::Every),
            ("0 */2 * * *", Hours::Some),
            ("0 9 * * *", Hours::Some),
        ] {
            assert_eq!(Cron::parse(text).unwrap().hours(), hours, "{text}");
        }
    }
}
