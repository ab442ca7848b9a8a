//! Which slot of a task runs now, which comes next, and what becomes of those that have passed.
//!
//! A slot is an instant at which a task is due. One that comes while the daemon is up runs as soon as there is room. Slots that came
//! while it was down, or while the group's budget was used up, are made up for as the catch-up rule says. Each other slot is skipped or
//! missed, for a reason. The work is bounded: slots are counted up to [`MOST_COUNTED`], and the newest are found without a walk
//! through all.

use ipc_handlers::{Schedule, Time, effect::CatchUp};
use jiff::tz::TimeZone;

use crate::states::SlotReason;

/// How many missed slots are made up for at most.
pub const MOST_MADE_UP: usize = 24;
/// For how long a missed slot can be made up for, where its task does not say: 7 days, ms.
pub const WINDOW_MS: i64 = 7 * 24 * 3_600_000;
/// The most slots of an expression that are counted: two days of minutes. Beyond that only their least number is known.
pub const MOST_COUNTED: u64 = 3_000;
/// How far the clock goes beyond what has passed before the machine has slept, or the clock was set, ms.
pub const JUMP_MS: i64 = 10_000;

/// How a task repeats, and what of it is made up for.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub schedule: &'a Schedule,
    pub zone: &'a TimeZone,
    pub catch_up: CatchUp,
    pub window_ms: i64,
}

/// When it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Time,
    /// Since when the daemon has been up without a break, and the task's group had a budget left.
    pub up_since: Time,
    /// Why slots before that did not run.
    pub down: SlotReason,
    /// How long after one slot that is made up for the next one is, ms.
    pub spacing_ms: i64,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// This slot is due, and has not been tried.
    Due(Time),
    /// This slot was due already when somebody asked for it: it runs, however late it is.
    Asked(Time),
    /// This slot is tried again. What became of each slot up to `accounted` is known.
    Again { slot: Time, accounted: Time },
}

/// What is done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The slot that runs; `None`: none of those that have passed does.
    pub run: Option<Time>,
    /// When the task is due next; `None`: it was the last time.
    pub next: Option<Next>,
    /// The slots that do not run.
    pub passed: Vec<Passed>,
    /// What became of each slot up to here is known then.
    pub accounted: Time,
}

/// When a task is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub at: Time,
    /// The missed slot that is made up for then; `None`: `at` is the slot.
    pub slot: Option<Time>,
}

/// Slots that follow one another and do not run, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    pub first: Time,
    pub last: Time,
    pub count: u64,
    /// There may be more between the first and the last.
    pub at_least: bool,
    pub reason: SlotReason,
}

/// Returns since when the daemon has been up, when it was looked at `clock_ms` ago by the clock and `passed_ms` ago in truth:
/// a machine that slept was not up.
#[must_use]
pub fn up_since(before: Time, now: Time, clock_ms: i64, passed_ms: i64) -> Time {
    if clock_ms.saturating_sub(passed_ms) > JUMP_MS { now } else { before.min(now) }
}

/// Decides what a task that is due does now.
#[must_use]
pub fn plan(rules: Rules<'_>, stand: Stand, moment: Moment) -> Plan {
    let Moment { now, up_since, down, .. } = moment;
    let (first, asked) = match stand {
        Stand::Due(slot) => (slot, false),
        Stand::Asked(slot) => (slot, true),
        Stand::Again { slot, accounted } => return again(rules, slot, accounted, moment),
    };
    if asked {
        let skipped = Skipped { behind: rules.after(first), reason: SlotReason::PreviousRun };
        return to_the_present(rules, first, Some(first), skipped, moment);
    }
    let late = Range { first: Some(first), until: up_since.min(now.plus_ms(1)) };
    let from = now.plus_ms(-rules.window_ms);
    let kept = newest(rules, late.from(from, rules), rules.most());
    match *kept.as_slice() {
        [] => {
            let missed = rules.missed(late, from, down);
            let up = rules.at_or_after(first, up_since).filter(|slot| *slot <= now);
            let behind = up.and_then(|slot| rules.after(slot));
            let skipped = Skipped { behind, reason: SlotReason::PreviousRun };
            let plan = to_the_present(rules, first, up, skipped, moment);
            Plan { passed: missed.into_iter().chain(plan.passed).collect(), ..plan }
        }
        [only] => {
            let missed = rules.missed(Range { until: only, ..late }, from, rules.beyond(down));
            if let Some(next) = live_behind(rules, only, moment) {
                return Plan { run: Some(only), next: Some(next), passed: missed, accounted: only };
            }
            let skipped = Skipped { behind: rules.after(only), reason: SlotReason::PreviousRun };
            let plan = to_the_present(rules, only, Some(only), skipped, moment);
            Plan { passed: missed.into_iter().chain(plan.passed).collect(), ..plan }
        }
        [oldest, second, ..] => Plan {
            run: Some(oldest),
            next: Some(Next { at: now.plus_ms(moment.spacing_ms), slot: Some(second) }),
            passed: rules.missed(Range { until: oldest, ..late }, from, rules.beyond(down)),
            accounted: oldest,
        },
    }
}

/// Passes over the slots from `due` on, which came while a run of the task was under way.
#[must_use]
pub fn skipped(rules: Rules<'_>, due: Time, now: Time) -> Plan {
    let passed = passed(rules, due, now, SlotReason::PreviousRun);
    let next = rules.schedule.next_after(due, now, rules.zone);
    Plan {
        run: None,
        next: next.map(|at| Next { at, slot: None }),
        passed: passed.into_iter().collect(),
        accounted: now,
    }
}

/// Where all missed slots are made up for, and this is the last of them: the first slot that has come meanwhile runs behind it,
/// unless the next one is due as soon.
fn live_behind(rules: Rules<'_>, last: Time, moment: Moment) -> Option<Next> {
    let Moment { now, up_since, spacing_ms, .. } = moment;
    let live = rules.after(last).filter(|_| rules.catch_up == CatchUp::All)?;
    let live = rules.at_or_after(live, up_since).filter(|slot| *slot <= now)?;
    let at = now.plus_ms(spacing_ms);
    let coming = rules.schedule.next_after(live, now, rules.zone);
    coming.is_none_or(|coming| coming > at).then_some(Next { at, slot: Some(live) })
}

/// The slot of a failed run is tried again. Missed ones that were to be made up for after it still are.
fn again(rules: Rules<'_>, slot: Time, accounted: Time, moment: Moment) -> Plan {
    let behind = rules.schedule.next_after(slot, accounted.max(slot), rules.zone);
    let late = Range { first: behind, until: moment.up_since.min(moment.now) };
    let from = moment.now.plus_ms(-rules.window_ms);
    let kept = match rules.catch_up {
        CatchUp::All => newest(rules, late.from(from, rules), MOST_MADE_UP),
        CatchUp::Latest | CatchUp::Skip => Vec::new(),
    };
    match kept.first() {
        Some(second) => Plan {
            run: Some(slot),
            next: Some(Next { at: moment.now.plus_ms(moment.spacing_ms), slot: Some(*second) }),
            passed: rules.missed(Range { until: *second, ..late }, from, rules.beyond(moment.down)),
            accounted: second.plus_ms(-1),
        },
        None => to_the_present(rules, slot, Some(slot), Skipped { behind, reason: SlotReason::Rest }, moment),
    }
}

/// The slots behind the one that runs, and why they do not.
struct Skipped {
    /// The first of them; `None`: there are none.
    behind: Option<Time>,
    /// For those that came while the daemon was up.
    reason: SlotReason,
}

/// Runs `run`, passes over all slots behind it up to now, and goes on with the first one to come on the grid of `slot`.
fn to_the_present(rules: Rules<'_>, slot: Time, run: Option<Time>, skipped: Skipped, moment: Moment) -> Plan {
    let Moment { now, up_since, down, .. } = moment;
    let Skipped { behind, reason } = skipped;
    let passed = Range { first: behind, until: now.plus_ms(1) };
    let from = now.plus_ms(-rules.window_ms);
    let missed = rules.missed(Range { until: up_since.min(passed.until), ..passed }, from, down);
    let skipped = counted(rules, passed.from(up_since, rules), reason);
    Plan {
        run,
        next: rules.schedule.next_after(slot, now, rules.zone).map(|at| Next { at, slot: None }),
        passed: missed.into_iter().chain(skipped).collect(),
        accounted: now,
    }
}

/// Slots from one that is known to be one, before an instant.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// `None`: there are none.
    first: Option<Time>,
    until: Time,
}

impl Range {
    /// Returns those of them that are not before `from`.
    fn from(self, from: Time, rules: Rules<'_>) -> Self {
        Self { first: self.first.and_then(|first| rules.at_or_after(first, from)), ..self }
    }

    /// Returns the first, if there is one.
    fn first(self) -> Option<Time> {
        self.first.filter(|first| *first < self.until)
    }
}

impl Rules<'_> {
    /// How many of those that were missed run.
    fn most(self) -> usize {
        match self.catch_up {
            CatchUp::Skip => 0,
            CatchUp::Latest => 1,
            CatchUp::All => MOST_MADE_UP,
        }
    }

    /// Why those before the ones that run do not.
    fn beyond(self, down: SlotReason) -> SlotReason {
        match self.catch_up {
            CatchUp::All => SlotReason::TooMany,
            CatchUp::Latest | CatchUp::Skip => down,
        }
    }

    /// Returns the slot that follows `slot`.
    fn after(self, slot: Time) -> Option<Time> {
        self.schedule.next_after(slot, slot, self.zone)
    }

    /// Returns the first slot that is not before `from`; `first` is a slot, and none before it counts.
    fn at_or_after(self, first: Time, from: Time) -> Option<Time> {
        if first >= from { Some(first) } else { self.schedule.next_after(first, from.plus_ms(-1), self.zone) }
    }

    /// Counts missed slots: those before `from` are outside the window, and the others do not run for `reason`.
    fn missed(self, range: Range, from: Time, reason: SlotReason) -> Vec<Passed> {
        let outside = Range { until: from.min(range.until), ..range };
        let outside = counted(self, outside, SlotReason::OutsideWindow);
        outside.into_iter().chain(counted(self, range.from(from, self), reason)).collect()
    }
}

/// Counts the slots of a task from `first` to `now`, which do not run for `reason`.
#[must_use]
pub fn passed(rules: Rules<'_>, first: Time, now: Time, reason: SlotReason) -> Option<Passed> {
    counted(rules, Range { first: Some(first), until: now.plus_ms(1) }, reason)
}

fn counted(rules: Rules<'_>, range: Range, reason: SlotReason) -> Option<Passed> {
    let first = range.first()?;
    if let Schedule::Interval { ms } = rules.schedule {
        let steps = (range.until.ms_since(first) - 1) / ms;
        let count = u64::try_from(steps).unwrap_or(0) + 1;
        return Some(Passed { first, last: first.plus_ms(steps * ms), count, at_least: false, reason });
    }
    let (mut last, mut count) = (first, 1);
    while let Some(next) = rules.after(last).filter(|next| *next < range.until) {
        if count == MOST_COUNTED {
            let last = newest(rules, range, 1).last().copied().unwrap_or(last);
            return Some(Passed { first, last, count, at_least: true, reason });
        }
        (last, count) = (next, count + 1);
    }
    Some(Passed { first, last, count, at_least: false, reason })
}

/// Returns the newest slots of a range, `most` at most, oldest first. Looked for from its end: a look goes back twice as far
/// as the one before it until it finds enough, and half as far where it finds too much.
fn newest(rules: Rules<'_>, range: Range, most: usize) -> Vec<Time> {
    /// How many slots one look walks through.
    const WALK: usize = 1_000;
    let Some(first) = range.first().filter(|_| most > 0) else { return Vec::new() };
    // `None`: there are more than one look walks through.
    let look = |from: Time| -> Option<Vec<Time>> {
        let mut slots = Vec::new();
        let mut at = rules.at_or_after(first, from);
        while let Some(slot) = at.filter(|slot| *slot < range.until) {
            if slots.len() == WALK {
                return None;
            }
            slots.push(slot);
            at = rules.after(slot);
        }
        Some(slots)
    };
    let (mut back, mut too_far, mut too_near) = (60_000, None, 0);
    loop {
        let from = range.until.plus_ms(-back);
        match look(from) {
            Some(slots) if slots.len() >= most || from <= first => {
                return slots[slots.len().saturating_sub(most)..].to_vec();
            }
            Some(_) => too_near = back,
            None => too_far = Some(back),
        }
        back = match too_far {
            Some(far) if far - too_near <= 1 => return Vec::new(),
            Some(far) => too_near + (far - too_near) / 2,
            None => back.saturating_mul(2),
        };
    }
}

#[cfg(test)]
mod tests;
