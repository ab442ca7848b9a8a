//! Clocks that change: whether one was set, told by one that nobody sets, and when tasks run then.

use ipc_handlers::{Schedule, Time};
use jiff::tz::TimeZone;

/// The clock may differ from the steady one by so much between two readings: it is kept in step by small corrections.
const SLACK_MS: i64 = 2_000;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub clock: Time,
    /// A count of milliseconds that only grows. It may stand still while the machine sleeps.
    pub steady_ms: i64,
}

/// What happened to the clock between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    None,
    /// It went forward, or the machine slept.
    Forward {
        ms: i64,
    },
    Back {
        ms: i64,
    },
}

impl Reading {
    /// Returns what happened to the clock between this reading and a later one.
    #[must_use]
    pub fn jump_to(self, later: Self) -> Jump {
        let jumped = later.clock.ms_since(self.clock).saturating_sub(later.steady_ms - self.steady_ms);
        match jumped {
            ms if ms > SLACK_MS => Jump::Forward { ms },
            ms if ms < -SLACK_MS => Jump::Back { ms: ms.saturating_neg() },
            _ => Jump::None,
        }
    }
}

/// Where a task stands whose next time is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It waits for its next slot.
    Waits,
    /// The run of this slot is under way.
    Runs(Time),
    /// This slot has failed, and is tried again.
    Rests(Time),
    /// This missed slot is made up for.
    MakesUp(Time),
}

/// When a task runs next, found anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anew {
    pub next: Time,
    /// Its slot is no longer tried, and what was missed no longer made up for.
    pub gives_up: bool,
}

/// What changed, for tasks that are not due yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Their user lives in another zone. What runs once stays where it is.
    Zone,
    /// The zones have other rules.
    Data,
    /// The clock shows again what it has shown before.
    SetBack,
}

/// How many occurrences are looked at for one that has had no run.
const MOST_LOOKED_AT: usize = 1_000;

impl Clocks {
    /// Returns when a task runs next that stands so and was to run at `next`; `None`: nothing changes. `has_run` says whether
    /// a slot has had its run: none has two.
    ///
    /// Where the clock was set back, a slot that is tried again, or whose run may fail, lies in a time that comes only later:
    /// it is given up, so that the task goes on by the clock as it is now. What runs once is tried again at once.
    ///
    /// # Errors
    /// That of `has_run`.
    pub fn anew<E>(
        self,
        schedule: &Schedule,
        stands: Stands,
        next: Time,
        now: Time,
        zone: &TimeZone,
        mut has_run: impl FnMut(Time) -> Result<bool, E>,
    ) -> Result<Option<Anew>, E> {
        let (from, gives_up) = match (self, stands) {
            (_, Stands::Waits) | (Self::Zone | Self::Data, Stands::Runs(_)) => (next, false),
            (Self::Zone | Self::Data, Stands::Rests(_) | Stands::MakesUp(_)) => return Ok(None),
            (Self::SetBack, Stands::Runs(slot) | Stands::Rests(slot)) => {
                match schedule.next_after(slot, now, zone) {
                    Some(after) => (after, true),
                    None => return Ok(Some(Anew { next: now, gives_up: false })),
                }
            }
            (Self::SetBack, Stands::MakesUp(slot)) if slot <= now => {
                return Ok(Some(Anew { next: slot, gives_up: true }));
            }
            (Self::SetBack, Stands::MakesUp(slot)) => (slot, true),
        };
        let own = match stands {
            Stands::Runs(slot) | Stands::Rests(slot) => Some(slot),
            Stands::Waits | Stands::MakesUp(_) => None,
        };
        let next = self.next(schedule, from, now, zone, |at| Ok(own == Some(at) || has_run(at)?))?;
        Ok(Some(Anew { next, gives_up }))
    }

    /// Returns when a task runs next that was to run at `next`. `has_run` says whether a slot has had its run: none has two.
    ///
    /// # Errors
    /// That of `has_run`.
    fn next<E>(
        self,
        schedule: &Schedule,
        next: Time,
        now: Time,
        zone: &TimeZone,
        mut has_run: impl FnMut(Time) -> Result<bool, E>,
    ) -> Result<Time, E> {
        match (schedule, self) {
            (Schedule::Cron(cron), _) => {
                let mut at = cron.next(now, zone);
                for _ in 0..MOST_LOOKED_AT {
                    match at {
                        Some(slot) if has_run(slot)? => at = cron.next(slot, zone),
                        Some(_) | None => break,
                    }
                }
                Ok(at.unwrap_or(next))
            }
            // The next slot is never further off than the interval. On a grid that is moved by 1 ms, no slot is one
            // that has had a run.
            (Schedule::Interval { ms }, Self::SetBack) if next.ms_since(now) > *ms => {
                let too_far = (next.ms_since(now) - 1) / ms;
                Ok(Time(next.0 - too_far * ms).plus_ms(1))
            }
            (Schedule::Once { .. }, Self::Data) => Ok(schedule.first_run(now, zone).unwrap_or(next)),
            (Schedule::Interval { .. } | Schedule::Once { .. }, _) => Ok(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use jiff::tz::TimeZoneDatabase;

    use super::*;

    fn next(changed: Clocks, schedule: &str, next: &str, now: &str, zone: &str, ran: &[&str]) -> String {
        let zone = TimeZoneDatabase::bundled().get(zone).unwrap();
        let time = |text: &str| Time::from_jiff(text.parse().unwrap());
        let schedule = Schedule::guess(schedule, &zone, time(now)).unwrap();
        let has_run = |slot: Time| Ok::<_, Infallible>(ran.iter().any(|ran| time(ran) == slot));
        let Ok(next) = changed.next(&schedule, time(next), time(now), &zone, has_run);
        next.to_string()
    }

    #[test]
    fn a_clock_that_is_set_back_brings_tasks_near_again_and_runs_no_slot_twice() {
        // It showed 2027 by mistake.
        let back = |schedule: &str, then: &str, ran: &[&str]| {
            next(Clocks::SetBack, schedule, then, "2026-03-02T08:30:00Z", "UTC", ran)
        };
        assert_eq!(back("0 9 * * *", "2027-05-01T09:00:00Z", &[]), "2026-03-02T09:00:00.000Z");
        // An hour's step back, after the run of 09:00.
        assert_eq!(
            back("0 9 * * *", "2026-03-03T09:00:00Z", &["2026-03-02T09:00:00Z"]),
            "2026-03-03T09:00:00.000Z"
        );
        assert_eq!(back("15m", "2027-05-01T09:07:00Z", &[]), "2026-03-02T08:37:00.001Z");
        assert_eq!(back("15m", "2026-03-02T08:37:00Z", &[]), "2026-03-02T08:37:00.000Z");
        let once = "2027-05-01T09:00:00.000Z";
        assert_eq!(back("2027-05-01T09:00:00", once, &[]), once);
    }

    #[test]
    fn new_rules_and_new_zones_move_what_is_told_by_the_clock() {
        let now = "2026-03-02T08:30:00Z";
        let moved = |changed: Clocks, schedule: &str, then: &str| {
            next(changed, schedule, then, now, "Asia/Tokyo", &[])
        };
        for changed in [Clocks::Zone, Clocks::Data] {
            assert_eq!(moved(changed, "0 9 * * *", "2026-03-02T09:00:00Z"), "2026-03-03T00:00:00.000Z");
            assert_eq!(moved(changed, "2h", "2026-03-02T09:00:00Z"), "2026-03-02T09:00:00.000Z");
        }
        let (then, later) = ("2026-06-01T09:00:00.000Z", "2026-06-01T00:00:00.000Z");
        assert_eq!(moved(Clocks::Zone, "2026-06-01T09:00", then), then);
        assert_eq!(moved(Clocks::Data, "2026-06-01T09:00", then), later);
        assert_eq!(moved(Clocks::Data, "2026-06-01T09:00Z", then), then);
    }

    #[test]
    fn a_clock_that_is_set_and_a_machine_that_slept_are_told_from_time_that_passes() {
        let before = Reading { clock: Time(1_000_000), steady_ms: 5_000 };
        let after = |clock: i64, steady: i64| {
            before.jump_to(Reading { clock: Time(1_000_000 + clock), steady_ms: 5_000 + steady })
        };
        assert_eq!(after(60_000, 60_000), Jump::None);
        assert_eq!(after(61_900, 60_000), Jump::None);
        assert_eq!(after(58_100, 60_000), Jump::None);
        assert_eq!(after(3_660_000, 60_000), Jump::Forward { ms: 3_600_000 });
        assert_eq!(after(-3_540_000, 60_000), Jump::Back { ms: 3_600_000 });
        assert_eq!(after(60_000, 0), Jump::Forward { ms: 60_000 });
        assert_eq!(after(i64::MAX - 1_000_000, 0), Jump::Forward { ms: i64::MAX - 1_000_000 });
    }
}
