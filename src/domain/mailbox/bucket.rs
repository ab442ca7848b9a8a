//! A limit of N times a minute; unused times are saved up for one minute.

use ipc_handlers::Time;

/// What one time costs; a minute has as many milliseconds, so that all of this is whole numbers.
const ONE: i64 = 60_000;

/// A bucket of tokens that is full at first and fills evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens a minute, and how many it holds at most.
    per_minute: i64,
    /// In parts of a token; below 0 it is in debt.
    level: i64,
    filled_at: Time,
}

impl Bucket {
    /// Returns a full bucket; one of 0 a minute counts as 1.
    #[must_use]
    pub fn new(per_minute: u32, now: Time) -> Self {
        let per_minute = i64::from(per_minute.max(1));
        Self { per_minute, level: per_minute * ONE, filled_at: now }
    }

    /// From now on it fills as fast as this, and holds as many. What is missing stays missing.
    pub fn set(&mut self, per_minute: u32, now: Time) {
        let per_minute = i64::from(per_minute.max(1));
        if per_minute != self.per_minute {
            self.fill(now);
            self.per_minute = per_minute;
            self.level = self.level.min(per_minute * ONE);
        }
    }

    /// Returns how many tokens there are.
    pub fn available(&mut self, now: Time) -> usize {
        self.fill(now);
        usize::try_from(self.level / ONE).unwrap_or(0)
    }

    /// Takes tokens, also those that are not there: they are missing later.
    pub fn take(&mut self, count: usize, now: Time) {
        self.fill(now);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.level = self.level.saturating_sub(count.saturating_mul(ONE));
    }

    /// Takes one token, now or in advance; returns in how many ms it is there.
    ///
    /// # Errors
    /// Where that is more than `patience`: in how many ms it would be there. Nothing is taken then.
    pub fn reserve(&mut self, patience: i64, now: Time) -> Result<i64, i64> {
        self.fill(now);
        let left = self.level.saturating_sub(ONE);
        let wait = left.min(0).saturating_neg().saturating_add(self.per_minute - 1) / self.per_minute;
        if wait > patience {
            return Err(wait);
        }
        self.level = left;
        Ok(wait)
    }

    fn fill(&mut self, now: Time) {
        // A clock that was set back gives nothing and takes nothing.
        let elapsed = now.ms_since(self.filled_at).max(0);
        self.filled_at = now;
        self.level =
            self.level.saturating_add(elapsed.saturating_mul(self.per_minute)).min(self.per_minute * ONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000);

    #[test]
    fn another_limit_holds_at_once_and_gives_nothing() {
        let mut bucket = Bucket::new(10, START);
        bucket.set(2, START);
        assert_eq!(bucket.available(START), 2);
        bucket.take(2, START);
        bucket.set(60, START);
        assert_eq!(bucket.available(START), 0);
        assert_eq!(bucket.available(START.plus_ms(1000)), 1);
        bucket.take(5, START.plus_ms(1000));
        bucket.set(1, START.plus_ms(1000));
        assert_eq!(bucket.available(START.plus_ms(4 * 60_000 + 999)), 0);
        assert_eq!(bucket.available(START.plus_ms(6 * 60_000 + 1000)), 1);
    }

    #[test]
    fn what_is_taken_comes_back_evenly_and_no_more_than_a_minute_s_worth() {
        let mut bucket = Bucket::new(600, START);
        assert_eq!(bucket.available(START), 600);
        bucket.take(600, START);
        assert_eq!(bucket.available(START), 0);
        assert_eq!(bucket.available(START.plus_ms(99)), 0);
        assert_eq!(bucket.available(START.plus_ms(100)), 1);
        assert_eq!(bucket.available(START.plus_ms(1_000)), 10);
        assert_eq!(bucket.available(START.plus_ms(10_000_000)), 600);
    }

    #[test]
    fn who_comes_too_early_is_told_when_and_takes_nothing() {
        let mut bucket = Bucket::new(600, START);
        bucket.take(599, START);
        let waits: Vec<_> = (0..4).map(|_| bucket.reserve(200, START)).collect();
        assert_eq!(waits, [Ok(0), Ok(100), Ok(200), Err(300)]);
        assert_eq!(bucket.reserve(200, START.plus_ms(100)), Ok(200));
        assert_eq!(bucket.reserve(0, START.plus_ms(299)), Err(101));
        assert_eq!(bucket.reserve(0, START.plus_ms(10_000_000)), Ok(0));
        bucket.take(usize::MAX, START.plus_ms(10_000_000));
        assert!(bucket.reserve(i64::MAX - 1, START.plus_ms(10_000_000)).is_ok());
    }

    #[test]
    fn a_debt_is_paid_before_anything_is_had_again() {
        let mut bucket = Bucket::new(60, START);
        bucket.take(63, START);
        assert_eq!(bucket.available(START.plus_ms(3_000)), 0);
        assert_eq!(bucket.available(START.plus_ms(4_000)), 1);
    }

    #[test]
    fn a_clock_that_is_set_neither_gives_nor_takes() {
        let mut bucket = Bucket::new(60, START);
        bucket.take(60, START);
        assert_eq!(bucket.available(START.plus_ms(-3_600_000)), 0);
        assert_eq!(bucket.available(START.plus_ms(-3_599_000)), 1);
        let mut bucket = Bucket::new(0, START);
        bucket.take(usize::MAX, START);
        assert_eq!(bucket.available(Time::MAX), 0);
        assert_eq!(Bucket::new(u32::MAX, Time(i64::MIN)).available(Time::MAX), u32::MAX as usize);
    }
}
