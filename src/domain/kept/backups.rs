//! When the daemon makes its daily backup.

use ipc_handlers::Time;
use jiff::{civil, tz::TimeZone};

/// How long after a backup that failed the next one is tried, ms.
pub const AGAIN_MS: i64 = 3_600_000;

/// A time of day, to the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay(civil::Time);

impl TimeOfDay {
    /// Reads `HH:MM`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (hour, minute) = text.split_once(':')?;
        let number =
            |text: &str| text.parse::<i8>().ok().filter(|_| text.len() == 2 && !text.starts_with('+'));
        civil::Time::new(number(hour)?, number(minute)?, 0, 0).ok().map(Self)
    }

    /// Returns it as a time of clocks.
    #[must_use]
    pub fn civil(self) -> civil::Time {
        self.0
    }

    /// Returns this time on a day; where clocks jump over it, as much later.
    fn on(self, day: civil::Date, zone: &TimeZone) -> Option<Time> {
        day.to_datetime(self.0).to_zoned(zone.clone()).ok().map(|zoned| Time::from_jiff(zoned.timestamp()))
    }

    /// Returns the newest of these times that is not after `now`, and the next one.
    fn around(self, now: Time, zone: &TimeZone) -> (Option<Time>, Option<Time>) {
        let today = now.to_jiff().to_zoned(zone.clone()).date();
        let days = [today.yesterday().ok(), Some(today), today.tomorrow().ok()];
        let times = days.map(|day| day.and_then(|day| self.on(day, zone)));
        let before = times.iter().flatten().filter(|at| **at <= now).max().copied();
        let after = times.iter().flatten().filter(|at| **at > now).min().copied();
        (before, after)
    }
}

/// What became of the backups before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last one that was made, or the instant from which on there are to be some.
    pub done: Option<Time>,
    /// The last one that failed since.
    pub failed: Option<Time>,
    /// When a person asked for one that is not made yet.
    pub wanted: Option<Time>,
}

/// Whether a backup is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    NotBefore(Time),
}

/// Decides whether a backup is due. Of all that were missed one is made up for. One that a person asks for is made at once, and if it
/// fails, as the daily one.
#[must_use]
pub fn due(at: TimeOfDay, zone: &TimeZone, past: Past, now: Time) -> Due {
    let (before, after) = at.around(now, zone);
    if past.wanted.is_some_and(|wanted| past.failed.is_none_or(|failed| failed < wanted)) {
        return Due::Now;
    }
    let is_missed =
        past.wanted.is_some() || before.zip(past.done).is_some_and(|(before, done)| done < before);
    let next = after.unwrap_or(now.plus_ms(AGAIN_MS));
    match past.failed.map(|failed| failed.plus_ms(AGAIN_MS)) {
        // A clock that was ahead when it failed puts off nothing for longer.
        Some(again) if is_missed && now < again && again.ms_since(now) <= AGAIN_MS => {
            Due::NotBefore(again.min(next))
        }
        _ if is_missed => Due::Now,
        _ => Due::NotBefore(next),
    }
}

/// Returns how much of an archive a part of a root may take that was weighed a moment ago, bytes: containers go on writing.
#[must_use]
pub fn allowance(weighed: u64) -> u64 {
    weighed.saturating_add(weighed / 8).saturating_add(1 << 20)
}

/// What can be in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// All of the root.
    All,
    /// All but these folders of groups.
    Without(Vec<String>),
    /// It needs so much room, bytes, even without any folder of a group.
    TooMuch { wanted: u64 },
}

/// Decides what of a root can be in a backup that may take `room`. The store and what else is the root's own takes `own`. Of the
/// groups' folders the largest are left out, as many as need be: one group's excess costs no other its backup.
#[must_use]
pub fn fit<'a>(room: u64, own: u64, folders: impl IntoIterator<Item = (&'a str, u64)>) -> Fit {
    let mut folders: Vec<(&str, u64)> =
        folders.into_iter().map(|(name, bytes)| (name, allowance(bytes))).collect();
    folders.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let mut wanted = folders.iter().fold(own, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if own > room {
        return Fit::TooMuch { wanted: own };
    }
    let mut without = Vec::new();
    for (name, bytes) in folders {
        if wanted <= room {
            break;
        }
        wanted -= bytes;
        without.push(name.to_owned());
    }
    if without.is_empty() { Fit::All } else { Fit::Without(without) }
}

/// Which backups go first where there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The oldest.
    Oldest,
    /// Those that a newer one of their day follows, then the oldest: however many are asked for in a day, they take the place of those
    /// of one other day at most.
    OfOneDay,
}

/// A backup among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Among<T> {
    pub file: T,
    pub day: civil::Date,
    pub whole: Whole,
}

/// Decides which backups of a shelf are removed, of all that it has, the oldest first, so that `keep` stay. The newest whole one stays in
/// any case: newer ones may lack what it has.
#[must_use]
pub fn surplus<T>(shelf: Vec<Among<T>>, keep: usize, first: First) -> Vec<T> {
    let newest_whole = shelf.iter().rposition(|one| one.whole == Whole::Yes);
    let too_many = shelf.len().saturating_sub(keep);
    let days: Vec<civil::Date> = shelf.iter().map(|one| one.day).collect();
    let is_followed = |n: usize| days.get(n + 1) == days.get(n);
    let (mut goes, stays): (Vec<_>, Vec<_>) =
        shelf.into_iter().enumerate().partition(|(n, _)| first == First::OfOneDay && is_followed(*n));
    goes.extend(stays);
    goes.truncate(too_many);
    goes.into_iter().filter(|(n, _)| Some(*n) != newest_whole).map(|(_, one)| one.file).collect()
}

/// Whether a backup has the folders of all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Time {
        Time::from_jiff(text.parse().unwrap())
    }

    #[test]
    fn a_time_of_day_is_two_numbers_of_two_digits() {
        for (text, is_one) in [
            ("03:30", true),
            ("23:59", true),
            ("00:00", true),
            ("24:00", false),
            ("3:30", false),
            ("03:3", false),
            ("+3:30", false),
            ("", false),
            ("03:60", false),
        ] {
            assert_eq!(TimeOfDay::parse(text).is_some(), is_one, "{text}");
        }
    }

    #[test]
    fn one_missed_backup_is_made_up_for_and_a_failed_one_is_tried_each_hour() {
        let at = TimeOfDay::parse("03:30").unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let past = |done: &str, failed: Option<&str>| Past {
            done: Some(time(done)),
            failed: failed.map(time),
            wanted: None,
        };
        let now = time("2026-01-10T12:00:00Z");
        let tomorrow = Due::NotBefore(time("2026-01-11T02:30:00Z"));
        for (past, expected) in [
            // Nothing was ever to be made, or today's is made.
            (Past::default(), tomorrow),
            (past("2026-01-10T02:30:01Z", None), tomorrow),
            // Yesterday's, and those of a year.
            (past("2026-01-09T02:30:00Z", None), Due::Now),
            (past("2025-01-09T02:30:00Z", None), Due::Now),
            (
                past("2026-01-09T02:30:00Z", Some("2026-01-10T11:30:00Z")),
                Due::NotBefore(time("2026-01-10T12:30:00Z")),
            ),
            (past("2026-01-09T02:30:00Z", Some("2026-01-10T11:00:00Z")), Due::Now),
            (past("2026-01-09T02:30:00Z", Some("2027-01-10T11:00:00Z")), Due::Now),
        ] {
            assert_eq!(due(at, &zone, past, now), expected, "{past:?}");
        }
    }

    #[test]
    fn one_that_a_person_asks_for_is_made_at_once_and_tried_each_hour_if_it_fails() {
        let (at, zone) = (TimeOfDay::parse("03:30").unwrap(), TimeZone::UTC);
        let now = time("2026-01-10T12:00:00Z");
        for (failed, expected) in [
            (None, Due::Now),
            (Some("2026-01-10T11:00:00Z"), Due::Now),
            (Some("2026-01-10T11:45:00Z"), Due::NotBefore(time("2026-01-10T12:45:00Z"))),
        ] {
            let (done, wanted) = (time("2026-01-10T03:30:01Z"), time("2026-01-10T11:40:00Z"));
            let past = Past { done: Some(done), failed: failed.map(time), wanted: Some(wanted) };
            assert_eq!(due(at, &zone, past, now), expected, "{past:?}");
        }
    }

    #[test]
    fn a_day_whose_clocks_jump_over_the_time_has_a_backup_all_the_same() {
        let at = TimeOfDay::parse("02:30").unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let past = Past { done: Some(time("2026-03-28T01:30:00Z")), ..Past::default() };
        assert_eq!(
            due(at, &zone, past, time("2026-03-28T12:00:00Z")),
            Due::NotBefore(time("2026-03-29T01:30:00Z"))
        );
        assert_eq!(due(at, &zone, past, time("2026-03-29T02:00:00Z")), Due::Now);
    }

    #[test]
    fn the_largest_folders_are_left_out_and_no_more_than_need_be() {
        const MIB: u64 = 1 << 20;
        let folders = [("groups/a", 8 * MIB), ("groups/evil", 800 * MIB), ("groups/b", 80 * MIB)];
        let without = |names: &[&str]| Fit::Without(names.iter().map(|name| (*name).to_owned()).collect());
        for (room, expected) in [
            (2000 * MIB, Fit::All),
            (500 * MIB, without(&["groups/evil"])),
            (60 * MIB, without(&["groups/evil", "groups/b"])),
            (17 * MIB, without(&["groups/evil", "groups/b", "groups/a"])),
            (9 * MIB, Fit::TooMuch { wanted: 10 * MIB }),
        ] {
            assert_eq!(fit(room, 10 * MIB, folders), expected, "{room}");
        }
        assert_eq!(fit(u64::MAX, u64::MAX, []), Fit::All);
    }

    #[test]
    fn the_newest_whole_backup_stays_however_many_follow_that_are_not() {
        use Whole::{No, Yes};
        let gone = |shelf: &[Whole], keep| {
            let day = civil::date(2026, 1, 1);
            let among = |(file, whole): (usize, &Whole)| Among { file, day, whole: *whole };
            surplus(shelf.iter().enumerate().map(among).collect(), keep, First::Oldest)
        };
        assert_eq!(gone(&[Yes, Yes, Yes], 2), [0]);
        assert_eq!(gone(&[Yes, Yes, No, No, No], 2), [0, 2]);
        assert_eq!(gone(&[No, No], 1), [0]);
        assert_eq!(gone(&[Yes], 3), [] as [usize; 0]);
    }

    #[test]
    fn backups_that_are_asked_for_take_the_place_of_others_of_their_day() {
        let gone = |days: &[i8], keep, first| {
            let among = |(file, day): (usize, &i8)| Among {
                file,
                day: civil::date(2026, 1, *day),
                whole: Whole::Yes,
            };
            surplus(days.iter().enumerate().map(among).collect(), keep, first)
        };
        for (days, expected) in [
            (&[1, 2, 3, 3][..], &[2][..]),
            (&[1, 2, 3, 3, 3], &[2, 3]),
            (&[1, 1, 2, 2, 3], &[0, 2]),
            (&[1, 2, 3, 4], &[0]),
            (&[1, 2, 3], &[]),
        ] {
            assert_eq!(gone(days, 3, First::OfOneDay), expected, "{days:?}");
        }
        assert_eq!(gone(&[1, 2, 3, 3], 3, First::Oldest), [0]);
    }

    proptest! {
        #[test]
        fn a_backup_just_made_leaves_none_due_and_the_next_is_within_two_days(ms in 0_i64..4_000_000_000_000, minute in 0_i8..59, hour in 0_i8..23) {
            let at = TimeOfDay::parse(&format!("{hour:02}:{minute:02}")).unwrap();
            let zone = TimeZone::get("America/New_York").unwrap();
            let now = Time(ms);
            match due(at, &zone, Past { done: Some(now), ..Past::default() }, now) {
                Due::Now => prop_assert!(false, "due again"),
                Due::NotBefore(next) => prop_assert!(next > now && next.ms_since(now) <= 2 * 86_400_000),
            }
        }
    }
}
