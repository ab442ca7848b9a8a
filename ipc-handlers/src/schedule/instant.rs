//! Civil matches → instants, where clocks jump.
//!
//! The instants of an expression are a set, whatever instant one asks from. Between two jumps a zone's offset is
//! constant, so clock time and instant go in step, and each stretch is searched by itself:
//!
//! - every hour named: the instants whose clock time matches. A gap has none of its own; in a fold both passes
//!   count.
//! - only some hours named: of a fold only the first pass counts, and a time inside a gap moves forward by the
//!   gap (02:30 → 03:30). Where it meets another match, that is one instant, not two.

use jiff::{Timestamp, tz::TimeZone};

use super::cron::{Cron, Hours};
use crate::Time;

/// 2101-01-02 in seconds: later, no expression matches anywhere.
const END: i64 = 4_133_980_800 + 86_400;

/// More than any clock ever jumped, seconds: a day, where a date was left out.
const LONGEST_JUMP: i64 = 2 * 86_400;

/// A stretch of constant offset; all in seconds.
struct Stretch {
    /// Where it begins and the offset before; `None` where that is so long ago that nothing of the jump is left.
    begins: Option<(i64, i64)>,
    /// Where the next one begins; `None` for the last.
    ends: Option<i64>,
    offset: i64,
}

/// Returns the first instant of `cron` strictly after `after`.
pub(super) fn next(cron: &Cron, after: Time, zone: &TimeZone) -> Option<Time> {
    // Matches are whole seconds. Expressions match nothing before 1970 by the clock.
    let mut from = after.0.div_euclid(1_000).saturating_add(1).max(-2 * 86_400);
    while from < END {
        let stretch = Stretch::at(from, zone)?;
        if let Some(found) = stretch.first(cron, from) {
            return Some(Time(found * 1_000));
        }
        from = stretch.ends?;
    }
    None
}

impl Stretch {
    fn at(instant: i64, zone: &TimeZone) -> Option<Self> {
        let offset = |at: i64| Some(i64::from(zone.to_offset(Timestamp::from_second(at).ok()?).seconds()));
        // Found by going forward: going back, jiff 0.2 steps over the last jump that a zone's data lists by itself when its
        // rule has one before that, as for America/Ciudad_Juarez in November 2022.
        let jumps = zone.following(Timestamp::from_second(instant - LONGEST_JUMP).ok()?);
        let begins =
            match jumps.map(|jump| jump.timestamp().as_second()).take_while(|at| *at <= instant).last() {
                Some(at) => Some((at, offset(at - 1)?)),
                None => None,
            };
        let ends = zone
            .following(Timestamp::from_second(instant).ok()?)
            .next()
            .map(|jump| jump.timestamp().as_second());
        Some(Self { begins, ends, offset: offset(instant)? })
    }

    /// Returns the first instant of `cron` in this stretch, from `from` on.
    fn first(&self, cron: &Cron, from: i64) -> Option<i64> {
        let in_step = |civil: i64| cron.at_or_after(civil).map(|civil| civil - self.offset);
        let (direct, moved) = match (cron.hours(), self.begins) {
            (Hours::Every, _) | (Hours::Some, None) => (in_step(from + self.offset), None),
            (Hours::Some, Some((start, before))) => {
                // What the clocks showed last before the jump, and first after it.
                let (left, reached) = (start + before, start + self.offset);
                let direct = in_step((from + self.offset).max(left));
                let moved = (left < reached)
                    .then(|| cron.at_or_after(left.max(from + before)))
                    .flatten()
                    .filter(|civil| *civil < reached)
                    .map(|civil| civil - before);
                (direct, moved)
            }
        };
        let first = direct.into_iter().chain(moved).min()?;
        self.ends.is_none_or(|end| first < end).then_some(first)
    }
}
