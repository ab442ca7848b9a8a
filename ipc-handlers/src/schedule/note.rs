//! What a jump of the clocks has to do with an instant, for people.

use jiff::{
    Timestamp, civil,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

use super::{
    cron::{Cron, Hours},
    once,
};
use crate::Time;

/// More than any clock ever jumped, seconds: a day, where a date was left out.
const LONGEST_JUMP: i64 = 2 * 86_400;

/// Says from where a fixed time was moved, if `at` is one that the clocks would have shown in a gap.
pub(super) fn moved_cron(cron: &Cron, at: Time, zone: &TimeZone) -> Option<String> {
    if cron.hours() == Hours::Every {
        return None;
    }
    let second = at.0.div_euclid(1_000);
    // The last jump at or before it.
    let jumps = zone.following(Timestamp::from_second(second.checked_sub(LONGEST_JUMP)?).ok()?);
    let start = jumps.map(|jump| jump.timestamp().as_second()).take_while(|start| *start <= second).last()?;
    let offset = |at: i64| Some(zone.to_offset(Timestamp::from_second(at).ok()?));
    let (before, after) = (offset(start - 1)?, offset(start)?);
    // What the old clocks would show now, and what they first show no more.
    let old = second + i64::from(before.seconds());
    let is_in_gap = old < start + i64::from(after.seconds());
    (is_in_gap && cron.matches(old)).then(|| moved(civil_at(second, before), civil_at(second, after)))?
}

/// Says from where a date and time was moved that the clocks never show.
pub(super) fn moved_once(written: &str, zone: &TimeZone) -> Option<String> {
    let clocks = once::clocks(written)?;
    let ambiguous = zone.to_ambiguous_timestamp(clocks);
    let AmbiguousOffset::Gap { .. } = ambiguous.offset() else { return None };
    let shown = zone.to_datetime(ambiguous.compatible().ok()?);
    moved(Some(clocks), Some(shown))
}

/// Says which of two equal times an instant is.
pub(super) fn fold(at: Time, zone: &TimeZone) -> Option<String> {
    let at = at.to_jiff();
    let shown = zone.to_datetime(at);
    let AmbiguousOffset::Fold { before, .. } = zone.to_ambiguous_timestamp(shown).offset() else {
        return None;
    };
    let which = if zone.to_offset(at) == before { "first" } else { "second" };
    Some(format!("DST fold: the {which} of two {}", clock(shown)))
}

fn moved(from: Option<civil::DateTime>, to: Option<civil::DateTime>) -> Option<String> {
    let (from, to) = (from?, to?);
    Some(if from.date() == to.date() {
        format!("DST gap: moved from {} to {}", clock(from), clock(to))
    } else {
        format!("DST gap: moved from {} {} to {} {}", from.date(), clock(from), to.date(), clock(to))
    })
}

fn civil_at(second: i64, offset: Offset) -> Option<civil::DateTime> {
    Some(offset.to_datetime(Timestamp::from_second(second).ok()?))
}

/// A time as clocks show it; with seconds where there are any.
fn clock(time: civil::DateTime) -> String {
    let seconds = if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    time.strftime(seconds).to_string()
}

#[cfg(test)]
mod tests {
    use crate::{
        Schedule,
        schedule::testing::{APIA, LORD_HOWE, NEW_YORK, time, zone},
    };

    /// The local time, the offset and the note of the first instants after `after`.
    fn notes(text: &str, name: &str, after: &str, count: usize) -> Vec<(String, Option<String>)> {
        let (zone, mut at) = (zone(name), time(after));
        let schedule = Schedule::guess(text, &zone, at).unwrap();
        let mut rows = Vec::new();
        let mut next = schedule.first_run(at, &zone);
        while let Some(found) = next.filter(|_| rows.len() < count) {
            let local = found.to_jiff().to_zoned(zone.clone()).strftime("%m-%dT%H:%M:%S%:::z").to_string();
            rows.push((local, schedule.note(found, &zone)));
            at = found;
            next = schedule.next_after(at, at, &zone);
        }
        rows
    }

    fn texts(rows: &[(String, Option<String>)]) -> Vec<(&str, &str)> {
        rows.iter().map(|(local, note)| (local.as_str(), note.as_deref().unwrap_or("-"))).collect()
    }

    #[test]
    fn a_time_that_the_clocks_skip_is_noted_as_moved() {
        let moved = "DST gap: moved from 02:30 to 03:30";
        let spring = "2026-03-07T12:00:00Z";
        let rows = notes("30 2 * * *", NEW_YORK, spring, 2);
        assert_eq!(texts(&rows), [("03-08T03:30:00-04", moved), ("03-09T02:30:00-04", "-")]);
        // Met by another match, it is one instant: both are answered for.
        assert_eq!(texts(&notes("30 2,3 * * *", NEW_YORK, spring, 1)), [("03-08T03:30:00-04", moved)]);
        assert_eq!(texts(&notes("30 3 * * *", NEW_YORK, spring, 1)), [("03-08T03:30:00-04", "-")]);
        // Where every hour is named, nothing is moved.
        assert_eq!(
            texts(&notes("30 * * * *", NEW_YORK, "2026-03-08T06:00:00Z", 2)),
            [("03-08T01:30:00-05", "-"), ("03-08T03:30:00-04", "-")]
        );
        assert_eq!(
            texts(&notes("2026-03-08T02:30:15", NEW_YORK, spring, 1)),
            [("03-08T03:30:15-04", "DST gap: moved from 02:30:15 to 03:30:15")]
        );
        assert_eq!(
            texts(&notes("0 9 * * *", APIA, "2011-12-29T20:00:00Z", 2)),
            [
                ("12-31T09:00:00+14", "DST gap: moved from 2011-12-30 09:00 to 2011-12-31 09:00"),
                ("01-01T09:00:00+14", "-")
            ]
        );
    }

    #[test]
    fn of_two_equal_times_it_is_said_which_it_is() {
        let autumn = "2026-11-01T04:00:00Z";
        assert_eq!(
            texts(&notes("30 1 * * *", NEW_YORK, autumn, 2)),
            [("11-01T01:30:00-04", "DST fold: the first of two 01:30"), ("11-02T01:30:00-05", "-")]
        );
        let both = [
            ("11-01T00:30:00-04", "-"),
            ("11-01T01:30:00-04", "DST fold: the first of two 01:30"),
            ("11-01T01:30:00-05", "DST fold: the second of two 01:30"),
            ("11-01T02:30:00-05", "-"),
        ];
        assert_eq!(texts(&notes("30 * * * *", NEW_YORK, autumn, 4)), both);
        assert_eq!(texts(&notes("1h", NEW_YORK, "2026-11-01T03:30:00Z", 4)), both);
        assert_eq!(
            texts(&notes("2026-11-01T01:30:00", NEW_YORK, autumn, 2)),
            [("11-01T01:30:00-04", "DST fold: the first of two 01:30")]
        );
        assert_eq!(
            texts(&notes("2026-11-01T06:30:00Z", NEW_YORK, autumn, 2)),
            [("11-01T01:30:00-05", "DST fold: the second of two 01:30")]
        );
        assert_eq!(
            texts(&notes("45 1 * * *", LORD_HOWE, "2026-04-04T12:00:00Z", 1)),
            [("04-05T01:45:00+11", "DST fold: the first of two 01:45")]
        );
    }
}
