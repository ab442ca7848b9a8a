//! How long a lane rests after a failure, and when it gives up.
//!
//! The clock ends a rest, not the next message. Nothing here counts or stores: tries are columns.

use ipc_handlers::Time;

/// How often a batch is tried again after its first failure.
pub const MAX_RETRIES: u32 = 5;
/// How often an occurrence of a task is.
pub const TASK_RETRIES: u32 = 3;
/// The first rest, ms; each is twice as long as the one before.
pub const BASE_MS: i64 = 5_000;

/// The longest rest after something could not be said, ms.
pub const LONGEST_DELIVERY_REST_MS: i64 = 64_000;

/// Returns how long to rest before something is said once more, after `failures` before this one: 1, 2, 4 … 64 s.
#[must_use]
pub fn delivery_rest_ms(failures: u32) -> i64 {
    1_000_i64.checked_shl(failures).map_or(LONGEST_DELIVERY_REST_MS, |ms| ms.min(LONGEST_DELIVERY_REST_MS))
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this many milliseconds.
    RestFor(i64),
    /// The last retry has failed too.
    GiveUp,
}

/// Whether a rest still lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Over,
    /// The milliseconds that are left.
    Lasts(i64),
}

/// Returns what follows a failure when `tries_so_far` tries had failed before it, of `retries` beside the first: rests of 1,
/// 2, 4, 8 and 16 times `base_ms`, then the end.
#[must_use]
pub fn after_failure(tries_so_far: u32, retries: u32, base_ms: i64) -> Retry {
    if tries_so_far < retries.min(MAX_RETRIES) {
        Retry::RestFor(base_ms.saturating_mul(1 << tries_so_far))
    } else {
        Retry::GiveUp
    }
}

/// Returns the longest rest that [`after_failure`] asks for, ms.
#[must_use]
pub fn longest_ms(base_ms: i64) -> i64 {
    base_ms.saturating_mul(1 << (MAX_RETRIES - 1))
}

/// Returns whether a rest until `rest_until` lasts at `now`.
///
/// A rest that has further to go than `longest_ms` was written before the clock was set back: it is over.
#[must_use]
pub fn rest(rest_until: Time, now: Time, longest_ms: i64) -> Rest {
    let left = rest_until.ms_since(now);
    if left <= 0 || left > longest_ms { Rest::Over } else { Rest::Lasts(left) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rests_double_from_5_to_80_seconds_and_then_it_gives_up() {
        let rests: Vec<Retry> = (0..7).map(|tries| after_failure(tries, MAX_RETRIES, BASE_MS)).collect();
        let expected = [5_000, 10_000, 20_000, 40_000, 80_000].map(Retry::RestFor);
        assert_eq!(rests[..5], expected);
        assert_eq!(rests[5..], [Retry::GiveUp, Retry::GiveUp]);
        assert_eq!(after_failure(2, TASK_RETRIES, BASE_MS), Retry::RestFor(20_000));
        assert_eq!(after_failure(3, TASK_RETRIES, BASE_MS), Retry::GiveUp);
        assert_eq!(longest_ms(BASE_MS), 80_000);
        assert_eq!(after_failure(u32::MAX, MAX_RETRIES, BASE_MS), Retry::GiveUp);
        assert_eq!(after_failure(4, MAX_RETRIES, i64::MAX), Retry::RestFor(i64::MAX));
    }

    #[test]
    fn a_rest_ends_by_the_clock_and_one_further_off_than_the_longest_is_over() {
        let now = Time(1_000_000);
        for (until, expected) in [
            (-1, Rest::Over),
            (0, Rest::Over),
            (1, Rest::Lasts(1)),
            (80_000, Rest::Lasts(80_000)),
            (80_001, Rest::Over),
            (i64::MAX / 2, Rest::Over),
        ] {
            assert_eq!(rest(now.plus_ms(until), now, longest_ms(BASE_MS)), expected, "{until}");
        }
    }

    proptest! {
        #[test]
        fn no_clock_makes_a_rest_longer_than_its_longest(until: i64, now: i64, longest in 0..1_000_000_i64) {
            match rest(Time(until), Time(now), longest) {
                Rest::Over => {}
                Rest::Lasts(left) => prop_assert!((1..=longest).contains(&left)),
            }
        }
    }
}
