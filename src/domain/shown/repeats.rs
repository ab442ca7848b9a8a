//! How often the log is told of what happens again and again: at once the first time, then once a minute with the count.

use std::collections::BTreeMap;

use ipc_handlers::Time;

/// How long the next line of a kind waits, ms.
const REST_MS: i64 = 60_000;

/// What was told of lately, by kind. Kinds are few: a closed enum, or one for each run that is up.
#[derive(Debug)]
pub struct Repeats<K>(BTreeMap<K, Told>);

#[derive(Debug)]
struct Told {
    at: Time,
    /// How often it has happened since.
    untold: u64,
}

impl<K> Default for Repeats<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Repeats<K> {
    /// Notes that it has happened; returns how often the log is to be told that it has, `None` while that waits.
    pub fn happened(&mut self, kind: K, now: Time) -> Option<u64> {
        let Some(told) = self.0.get_mut(&kind) else {
            self.0.insert(kind, Told { at: now, untold: 0 });
            return Some(1);
        };
        told.untold += 1;
        told.is_over(now).then(|| told.tell(now))
    }

    /// Returns what has waited for long enough, with how often it has happened, and forgets what happens no more.
    pub fn due(&mut self, now: Time) -> Vec<(K, u64)> {
        self.0.retain(|_, told| told.untold > 0 || !told.is_over(now));
        let over = self.0.iter_mut().filter(|(_, told)| told.untold > 0 && told.is_over(now));
        over.map(|(kind, told)| (kind.clone(), told.tell(now))).collect()
    }

    /// Returns all that still waits, and forgets everything.
    pub fn rest(&mut self) -> Vec<(K, u64)> {
        let all = std::mem::take(&mut self.0).into_iter();
        all.filter(|(_, told)| told.untold > 0).map(|(kind, told)| (kind, told.untold)).collect()
    }
}

impl Told {
    /// A clock that was set back must not silence the log.
    fn is_over(&self, now: Time) -> bool {
        !(0..REST_MS).contains(&now.ms_since(self.at))
    }

    fn tell(&mut self, now: Time) -> u64 {
        self.at = now;
        std::mem::take(&mut self.untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000);

    #[test]
    fn the_first_is_told_at_once_and_the_others_once_a_minute_with_their_count() {
        let mut log = Repeats::default();
        assert_eq!(log.happened('a', START), Some(1));
        for ms in 0..59_999 {
            assert_eq!(log.happened('a', START.plus_ms(ms)), None);
        }
        assert_eq!(log.due(START.plus_ms(59_999)), []);
        assert_eq!(log.due(START.plus_ms(60_000)), [('a', 59_999)]);
        assert_eq!(log.happened('a', START.plus_ms(60_001)), None);
        assert_eq!(log.happened('a', START.plus_ms(120_000)), Some(2), "it is one of those that it counts");
        assert_eq!(log.rest(), []);
    }

    #[test]
    fn kinds_do_not_silence_each_other_and_what_ends_is_forgotten() {
        let mut log = Repeats::default();
        assert_eq!((log.happened('a', START), log.happened('b', START)), (Some(1), Some(1)));
        assert_eq!((log.happened('a', START), log.happened('b', START)), (None, None));
        assert_eq!(log.due(START.plus_ms(60_000)), [('a', 1), ('b', 1)]);
        assert_eq!(log.due(START.plus_ms(120_000)), []);
        assert!(log.0.is_empty());
        assert_eq!(log.happened('a', START.plus_ms(120_001)), Some(1));
        assert_eq!(log.happened('a', START.plus_ms(120_001)), None);
        assert_eq!(log.rest(), [('a', 1)]);
    }

    #[test]
    fn a_clock_that_is_set_back_silences_nothing() {
        let mut log = Repeats::default();
        assert_eq!(log.happened((), START), Some(1));
        assert_eq!(log.happened((), START.plus_ms(-3_600_000)), Some(1));
        assert_eq!(log.happened((), START.plus_ms(-3_599_999)), None);
    }
}
