//! When a task runs: `cron` in the user's zone, `interval` on its own grid, `once`.
//!
//! One question is answered: the next instant after this one. Nothing here reads a clock; a zone is an argument.
//!
//! Cron expressions mean what they mean to v1's cron-parser, but where that is wrong or says nothing:
//!
//! | expression or moment | cron-parser 5.5 | here |
//! |---|---|---|
//! | fewer than five fields | filled up with `*`: an empty text is every minute | refused |
//! | `@minutely` `@secondly` `@weekdays` `@weekends`, `H` | taken | refused, with the names that are known |
//! | a step beyond its field, as `*/90` minutes | taken | refused, with `interval` as the way to say it |
//! | `FRI-SUN`, `FEBRUARY`, `@midnight` | refused | taken |
//! | a fixed time in the fold, asked for in the second pass | found again | found once, in the first pass |
//! | a midnight that is shown twice (Havana) | the second | the first |
//! | half an hour shown twice or left out (Lord Howe) | missed, or the same past instant for ever | found once |
//! | a whole day left out (Apia, 2011) | passed over | made up once |

mod cron;
mod day;
mod field;
mod instant;
mod interval;
mod note;
mod once;
mod plain;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Serialize, Serializer, ser::SerializeStruct as _};

pub use cron::Cron;
pub(crate) use interval::length as duration;
pub use interval::{MAX_INTERVAL_MS, MIN_INTERVAL_MS};

use crate::{Code, Refusal, Time, refusal::quoted, words};

words! {
    /// The kinds of schedule.
    #[derive(JsonSchema)]
    pub enum ScheduleKind: "schedule_type" {
        /// At the times that an expression matches.
        Cron = "cron",
        /// Every so often.
        Interval = "interval",
        /// At one instant.
        Once = "once",
    }
}

/// The clock that shows this or more is wrong, as far as cron is concerned: an expression has no instant long after it. 2100-01-01.
pub const CRON_ENDS: Time = Time(4_102_444_800_000);

/// How long ago a `once` may be that is asked for, ms: it says "now", and took a while on its way.
const LATE_MS: i64 = 60_000;

/// When a task runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// At the times that an expression matches on the clocks of the user's zone.
    Cron(Cron),
    /// Every so often.
    Interval {
        /// [`MIN_INTERVAL_MS`] to [`MAX_INTERVAL_MS`].
        ms: i64,
    },
    /// At one instant.
    Once {
        /// The instant.
        at: Time,
        /// As it was written (a number: the instant in RFC 3339).
        written: String,
    },
}

/// The value of a schedule as a command carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ScheduleValue {
    /// Text.
    Text(String),
    /// A number: milliseconds of an interval, or since the epoch.
    Number(#[schemars(with = "f64")] serde_json::Number),
}

impl Schedule {
    /// Returns the schedule that `kind` (`cron`, `interval`, `once`) and `value` say.
    ///
    /// `zone` reads a date without an offset; `now` finds an expression that will never match again. What
    /// [`Schedule::kind`] and [`Schedule::value`] return is read back to the same schedule.
    ///
    /// # Errors
    /// `invalid_schedule`, with the wrong part, its fault and an example.
    pub fn parse(kind: &str, value: &str, zone: &TimeZone, now: Time) -> Result<Self, Refusal> {
        match kind {
            "cron" => {
                let schedule = Self::Cron(Cron::parse(value)?);
                schedule.first_run(now, zone).ok_or_else(|| match now < CRON_ENDS {
                    true => schedule.never_runs(),
                    false => Refusal::new(
                        Code::InvalidSchedule,
                        format!("the clock shows {now}, and cron can't reckon with times after the year 2099"),
                        "ask the owner of the machine to set its clock; an interval such as \"2h\" works by any clock",
                    ),
                })?;
                Ok(schedule)
            }
            "interval" => interval::parse(value).map(|ms| Self::Interval { ms }),
            "once" => once::parse(value, zone).map(|at| Self::Once { at, written: value.trim().to_owned() }),
            other => Err(Refusal::new(
                Code::InvalidSchedule,
                format!("schedule_type {} is not one of cron, interval, once", quoted(other)),
                r#"for example "schedule_type":"cron","schedule_value":"0 9 * * *", or "interval" with a duration such as "2h", or "once" with a local date and time"#,
            )),
        }
    }

    /// Returns the schedule of a command; as [`Schedule::parse`], and a number is taken where v1 took it: the
    /// milliseconds of an interval, or since the epoch for `once`.
    ///
    /// # Errors
    /// `invalid_schedule`.
    pub fn from_value(
        kind: &str,
        value: &ScheduleValue,
        zone: &TimeZone,
        now: Time,
    ) -> Result<Self, Refusal> {
        match value {
            ScheduleValue::Text(text) => Self::parse(kind, text, zone, now),
            ScheduleValue::Number(number) => match (kind, whole(number)) {
                ("interval", Some(ms)) => Self::parse(kind, &ms.to_string(), zone, now),
                ("once", Some(ms)) => {
                    let at = once::at_epoch_ms(ms)?;
                    Ok(Self::Once { at, written: at.to_string() })
                }
                _ => Self::parse(kind, &number.to_string(), zone, now),
            },
        }
    }

    /// Returns what kind of schedule it is.
    #[must_use]
    pub fn kind(&self) -> ScheduleKind {
        match self {
            Self::Cron(_) => ScheduleKind::Cron,
            Self::Interval { .. } => ScheduleKind::Interval,
            Self::Once { .. } => ScheduleKind::Once,
        }
    }

    /// Returns the value as it was written, for people and the store.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Self::Cron(cron) => cron.to_string(),
            Self::Interval { ms } => ms.to_string(),
            Self::Once { written, .. } => written.clone(),
        }
    }

    /// Returns the schedule that a text alone says: an interval, a date and time, or otherwise a cron expression.
    ///
    /// # Errors
    /// As [`Schedule::parse`].
    pub fn guess(text: &str, zone: &TimeZone, now: Time) -> Result<Self, Refusal> {
        let kind = if interval::looks_like(text) {
            ScheduleKind::Interval
        } else if once::looks_like(text) {
            ScheduleKind::Once
        } else if text.split_whitespace().count() < 4 && !text.contains(['*', '@']) {
            return Err(Refusal::new(
                Code::InvalidSchedule,
                format!("{} is no schedule", quoted(text.trim())),
                "write an interval such as \"2h\", a date and time such as \"2026-12-31 18:30\", or a cron expression such as \"0 9 * * 1-5\"",
            ));
        } else {
            ScheduleKind::Cron
        };
        Self::parse(kind.as_str(), text, zone, now)
    }

    /// Says in plain words when it runs, on clocks of the zone `name`: `weekdays at 09:00 Europe/Paris`.
    #[must_use]
    pub fn in_words(&self, zone: &TimeZone, name: &str) -> String {
        match self {
            Self::Cron(cron) => format!("{} {name}", plain::cron(cron)),
            Self::Interval { ms } => plain::interval(*ms),
            Self::Once { at, .. } => {
                let local = at.to_jiff().to_zoned(zone.clone());
                format!("once on {} {name}", local.strftime("%Y-%m-%d at %H:%M"))
            }
        }
    }

    /// Says what clocks that jump have to do with its instant `at`: a time moved out of the gap, or which of two equal
    /// times it is.
    #[must_use]
    pub fn note(&self, at: Time, zone: &TimeZone) -> Option<String> {
        let meant = match self {
            Self::Cron(cron) => note::moved_cron(cron, at, zone),
            Self::Once { written, .. } => note::moved_once(written, zone),
            Self::Interval { .. } => None,
        };
        meant.or_else(|| note::fold(at, zone))
    }

    /// Refuses a `once` that was over for more than a minute when it was asked for. `now` is named in the refusal, by the
    /// clocks of the zone `name`.
    ///
    /// # Errors
    /// `invalid_schedule`.
    pub fn check_ahead(&self, asked: Time, now: Time, zone: &TimeZone, name: &str) -> Result<(), Refusal> {
        match self {
            Self::Once { at, .. } if *at < asked.plus_ms(-LATE_MS) => {
                let local = |at: Time| at.to_jiff().to_zoned(zone.clone());
                Err(Refusal::new(
                    Code::InvalidSchedule,
                    format!(
                        "once {} is in the past: the time now is {} {name}",
                        quoted(&self.value()),
                        local(now).strftime("%a %Y-%m-%d %H:%M:%S"),
                    ),
                    format!(
                        "write a later time, for example \"{}\", which is in an hour",
                        local(now.plus_ms(3_600_000)).strftime("%Y-%m-%dT%H:%M:%S"),
                    ),
                ))
            }
            Self::Cron(_) | Self::Interval { .. } | Self::Once { .. } => Ok(()),
        }
    }

    /// Returns when a task made at `now` runs first; in the past for an overdue `once`. `None`: never.
    #[must_use]
    pub fn first_run(&self, now: Time, zone: &TimeZone) -> Option<Time> {
        match self {
            Self::Cron(cron) => cron.next(now, zone),
            Self::Interval { ms } => interval::next(*ms, now, now),
            Self::Once { at, .. } => Some(*at),
        }
    }

    /// Returns when a task that was due at `previous` is due next, later than both `previous` and `now`.
    ///
    /// An interval keeps to the grid of `previous`, however many slots were missed (arithmetic, no loop). With
    /// `now` = `previous` the slot that follows is returned, missed or not. `None`: it was the last time, as
    /// always for `once`.
    #[must_use]
    pub fn next_after(&self, previous: Time, now: Time, zone: &TimeZone) -> Option<Time> {
        match self {
            Self::Cron(cron) => cron.next(previous.max(now), zone),
            Self::Interval { ms } => interval::next(*ms, previous, now),
            Self::Once { .. } => None,
        }
    }

    /// Returns when a task made at `now` runs, one time after another.
    pub fn instants(&self, now: Time, zone: &TimeZone) -> impl Iterator<Item = Time> {
        std::iter::successors(self.first_run(now, zone), |at| self.next_after(*at, *at, zone))
    }

    /// Returns the refusal of a schedule without any instant to come.
    pub(crate) fn never_runs(&self) -> Refusal {
        Refusal::new(
            Code::InvalidSchedule,
            format!("{} {} never runs", self.kind(), quoted(&self.value())),
            "choose a date that exists",
        )
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Schedule", 2)?;
        fields.serialize_field("schedule_type", &self.kind())?;
        fields.serialize_field("schedule_value", &self.value())?;
        fields.end()
    }
}

/// Returns the number when it is whole and exact; `1e6` and `1000000.0` are, as in JavaScript.
pub(crate) fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    number.as_i64().or_else(|| {
        number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT).map(|float| float as i64)
    })
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
