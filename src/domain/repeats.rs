//! Lines of a log that repeat: each kind is said at once, and then once a minute with how often it came.

use std::collections::BTreeMap;

use ipc_handlers::Time;

/// For how long a kind that was said is only counted, ms.
const QUIET_MS: i64 = 60_000;

/// What is said of one run, by kind; a kind is one of few.
#[derive(Debug)]
pub struct Repeats<K>(BTreeMap<K, Said>);

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Time,
    /// How often it came since.
    unsaid: u64,
}

impl<K: Ord> Default for Repeats<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Repeats<K> {
    /// Counts a line; returns how many times it stands for when it is to be said now.
    pub fn note(&mut self, kind: K, now: Time) -> Option<u64> {
        let Some(said) = self.0.get_mut(&kind) else {
            self.0.insert(kind, Said { at: now, unsaid: 0 });
            return Some(1);
        };
        said.unsaid = said.unsaid.saturating_add(1);
        // A clock that was set back must not keep it quiet for long.
        if (0..QUIET_MS).contains(&now.ms_since(said.at)) {
            return None;
        }
        said.at = now;
        Some(std::mem::take(&mut said.unsaid))
    }

    /// Returns what was counted and not said, when no more will come.
    pub fn rest(&mut self) -> Vec<(K, u64)> {
        let unsaid = |(kind, said): (&K, &mut Said)| (*kind, std::mem::take(&mut said.unsaid));
        self.0.iter_mut().map(unsaid).filter(|(_, times)| *times > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_at_once_then_once_a_minute_with_its_count_and_what_is_left_at_the_end() {
        let (mut repeats, start) = (Repeats::default(), Time(1_000));
        assert_eq!(repeats.note('a', start), Some(1));
        assert_eq!(repeats.note('b', start), Some(1));
        for ms in 1..1_000 {
            assert_eq!(repeats.note('a', start.plus_ms(ms)), None);
        }
        assert_eq!(repeats.note('a', start.plus_ms(60_000)), Some(1_000));
        assert_eq!(repeats.note('a', start.plus_ms(60_001)), None);
        assert_eq!(repeats.note('b', start.plus_ms(-5)), Some(1));
        assert_eq!(repeats.rest(), [('a', 1)]);
        assert_eq!(repeats.rest(), []);
    }
}
