//! The keys of a loop: which wait, which are at work, which rest. Pure: time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{Blame, Error, Then};

/// The panics in a row that set a key aside until a person releases it.
pub(super) const ASIDE_AFTER: u32 = 5;
/// The rest after a first failure. It doubles with each further one.
pub(super) const FIRST_REST: Duration = Duration::from_secs(1);

/// How work on a key ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Then(Then),
    Failed(Error),
    Panicked(String),
}

/// How a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It waits for a place.
    Waits,
    AtWork,
    /// `failed`: news does not shorten it.
    Rests {
        until: Instant,
        failed: bool,
    },
    /// It panics again and again, and waits for a person.
    Aside,
}

/// Whether a job is new, or was found in a list that may be read again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// It does not shorten a rest.
    Listed,
    /// It ends a rest that is no failure's.
    New,
}

#[derive(Debug)]
struct Entry<J> {
    life: Life,
    job: J,
    /// What came while it was at work.
    more: Option<(Wish, J)>,
    /// In a row; panics are failures, too.
    failures: u32,
    panics: u32,
    why: Option<Error>,
}

/// A key that fails, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble<K> {
    pub key: K,
    pub failures: u32,
    pub aside: bool,
    pub why: Error,
}

/// All keys of a loop that are not through.
#[derive(Debug)]
pub(super) struct Keys<K, J> {
    all: BTreeMap<K, Entry<J>>,
    /// Those that wait, the longest first.
    queue: VecDeque<K>,
    rests: BTreeSet<(Instant, K)>,
    failing: BTreeSet<K>,
    at_work: usize,
    most: usize,
    longest_rest: Duration,
    sets_aside: bool,
}

impl<K: Ord + Clone, J: Clone> Keys<K, J> {
    /// `most`: how many are at work at a time. `longest_rest`: of a key that fails. `sets_aside`: whether one is over which we panic.
    #[must_use]
    pub(super) const fn new(most: usize, longest_rest: Duration, sets_aside: bool) -> Self {
        Self {
            all: BTreeMap::new(),
            queue: VecDeque::new(),
            rests: BTreeSet::new(),
            failing: BTreeSet::new(),
            at_work: 0,
            most,
            longest_rest,
            sets_aside,
        }
    }

    /// Returns how many are at work, wait for a place, and rest or are set aside.
    #[must_use]
    pub(super) fn count(&self) -> (usize, usize, usize) {
        let waiting = self.queue.len();
        (self.at_work, waiting, self.all.len() - self.at_work - waiting)
    }

    /// Whether there is something to do for a key.
    #[must_use]
    pub(super) fn has(&self, key: &K) -> bool {
        self.all.contains_key(key)
    }

    /// Returns how a key stands; `None`: there is nothing to do for it.
    #[cfg(test)]
    fn life(&self, key: &K) -> Option<Life> {
        self.all.get(key).map(|entry| entry.life)
    }

    /// Returns the keys at work.
    pub(super) fn at_work(&self) -> impl Iterator<Item = &K> {
        self.all.iter().filter(|(_, entry)| entry.life == Life::AtWork).map(|(key, _)| key)
    }

    /// There is something to do for a key. What it had to do and has not begun is replaced.
    pub(super) fn want(&mut self, key: K, job: J, wish: Wish) {
        let Some(entry) = self.all.get_mut(&key) else {
            let (life, more, why) = (Life::Waits, None, None);
            self.queue.push_back(key.clone());
            self.all.insert(key, Entry { life, job, more, failures: 0, panics: 0, why });
            return;
        };
        match entry.life {
            Life::AtWork => {
                let wish = entry.more.as_ref().map_or(wish, |(known, _)| wish.max(*known));
                entry.more = Some((wish, job));
            }
            Life::Waits | Life::Aside => entry.job = job,
            Life::Rests { until, failed } => {
                entry.job = job;
                if wish == Wish::New && !failed {
                    entry.life = Life::Waits;
                    self.rests.remove(&(until, key.clone()));
                    self.queue.push_back(key);
                }
            }
        }
    }

    /// Takes the next key that is to be worked on, if there is a place for it.
    pub(super) fn next(&mut self, now: Instant) -> Option<(K, J)> {
        while self.rests.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = self.rests.pop_first() else { break };
            if let Some(entry) = self.all.get_mut(&key) {
                entry.life = Life::Waits;
                self.queue.push_back(key);
            }
        }
        if self.at_work >= self.most {
            return None;
        }
        let key = self.queue.pop_front()?;
        let entry = self.all.get_mut(&key)?;
        entry.life = Life::AtWork;
        self.at_work += 1;
        Some((key, entry.job.clone()))
    }

    /// Work on a key has ended.
    pub(super) fn ended(&mut self, key: &K, exit: Exit, now: Instant) {
        let Some(entry) = self.all.get_mut(key).filter(|entry| entry.life == Life::AtWork) else { return };
        self.at_work -= 1;
        let more = entry.more.take();
        let is_new = matches!(more, Some((Wish::New, _)));
        let is_more = more.is_some();
        if let Some((_, job)) = more {
            entry.job = job;
        }
        let until = match exit {
            Exit::Then(Then::Done) => {
                (entry.failures, entry.panics, entry.why) = (0, 0, None);
                self.failing.remove(key);
                if !is_more {
                    self.all.remove(key);
                    return;
                }
                None
            }
            Exit::Then(Then::Again) => {
                (entry.failures, entry.panics, entry.why) = (0, 0, None);
                self.failing.remove(key);
                None
            }
            // A row of failures goes on: each may be followed by a look at when it is tried again.
            Exit::Then(Then::After(rest)) => (!is_new).then(|| (now + rest, false)),
            Exit::Failed(why) => {
                (entry.failures, entry.panics, entry.why) = (entry.failures.saturating_add(1), 0, Some(why));
                Some((now + rest_after(entry.failures, self.longest_rest), true))
            }
            Exit::Panicked(why) => {
                let why = Error { blame: Blame::Ours, why };
                (entry.failures, entry.why) = (entry.failures.saturating_add(1), Some(why));
                entry.panics = entry.panics.saturating_add(1);
                self.failing.insert(key.clone());
                if self.sets_aside && entry.panics >= ASIDE_AFTER {
                    entry.life = Life::Aside;
                    return;
                }
                Some((now + rest_after(entry.failures, self.longest_rest), true))
            }
        };
        match until {
            Some((until, failed)) => {
                if failed {
                    self.failing.insert(key.clone());
                }
                entry.life = Life::Rests { until, failed };
                self.rests.insert((until, key.clone()));
            }
            None => {
                entry.life = Life::Waits;
                self.queue.push_back(key.clone());
            }
        }
    }

    /// There is nothing more to do for a key. Work under way goes on to its end.
    pub(super) fn forget(&mut self, key: &K) {
        let Some(entry) = self.all.get_mut(key) else { return };
        match entry.life {
            Life::AtWork => return entry.more = None,
            Life::Waits => self.queue.retain(|waits| waits != key),
            Life::Rests { until, .. } => drop(self.rests.remove(&(until, key.clone()))),
            Life::Aside => {}
        }
        self.failing.remove(key);
        self.all.remove(key);
    }

    /// Returns when the next rest ends.
    #[must_use]
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.rests.first().map(|(until, _)| *until)
    }

    /// Returns how a key fails; `None`: it does not.
    #[must_use]
    pub(super) fn trouble(&self, key: &K) -> Option<Trouble<K>> {
        let entry = self.all.get(key)?;
        let aside = entry.life == Life::Aside;
        let (failures, why) = (entry.failures, entry.why.clone()?);
        Some(Trouble { key: key.clone(), failures, aside, why })
    }

    /// Returns the keys that fail: at most `most`, those that were set aside first, then those that fail longest.
    #[must_use]
    pub(super) fn troubles(&self, most: usize) -> Vec<Trouble<K>> {
        let mut all: Vec<Trouble<K>> = self.failing.iter().filter_map(|key| self.trouble(key)).collect();
        all.sort_by_key(|trouble| (!trouble.aside, std::cmp::Reverse(trouble.failures)));
        all.truncate(most);
        all
    }

    /// Has keys that are set aside, or rest after a failure, tried at once; all, or those of which `is_it` holds. Returns how many.
    pub(super) fn release(&mut self, is_it: impl Fn(&K) -> bool) -> usize {
        let of: Vec<K> = self.failing.iter().filter(|key| is_it(key)).cloned().collect();
        let mut released = 0;
        for key in of {
            let Some(entry) = self.all.get_mut(&key) else { continue };
            match entry.life {
                Life::Aside => {}
                Life::Rests { until, failed: true } => drop(self.rests.remove(&(until, key.clone()))),
                Life::Rests { failed: false, .. } | Life::Waits | Life::AtWork => continue,
            }
            (entry.life, entry.failures, entry.panics) = (Life::Waits, 0, 0);
            entry.why = None;
            self.failing.remove(&key);
            self.queue.push_back(key);
            released += 1;
        }
        released
    }
}

/// Returns the rest after this many failures in a row.
#[must_use]
pub(super) fn rest_after(failures: u32, longest: Duration) -> Duration {
    FIRST_REST.saturating_mul(2_u32.saturating_pow(failures.clamp(1, 16) - 1)).min(longest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What may happen to a key.
    #[derive(Clone, Debug)]
    enum Step {
        Want(u8, Wish),
        Next,
        Ends(u8, Exit),
        Passes(u64),
        Release(u8),
        Forget(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let wish = prop_oneof![Just(Wish::Listed), Just(Wish::New)];
        let exit = prop_oneof![
            3 => Just(Exit::Then(Then::Done)),
            1 => Just(Exit::Then(Then::Again)),
            1 => (0..90_u64).prop_map(|s| Exit::Then(Then::After(Duration::from_secs(s)))),
            2 => Just(Exit::Failed(Error { blame: Blame::World, why: "w".into() })),
            2 => Just(Exit::Panicked("p".into())),
        ];
        prop_oneof![
            4 => (0..6_u8, wish).prop_map(|(key, wish)| Step::Want(key, wish)),
            4 => Just(Step::Next),
            4 => (0..6_u8, exit).prop_map(|(key, exit)| Step::Ends(key, exit)),
            2 => (0..70_u64).prop_map(Step::Passes),
            1 => (0..6_u8).prop_map(Step::Release),
            1 => (0..6_u8).prop_map(Step::Forget),
        ]
    }

    proptest! {
        /// Each job that is wanted is done once at least after it was wanted, unless its key is set aside; one at a time per key,
        /// at most three in all.
        #[test]
        fn whatever_is_wanted_is_begun_after_it_was_wanted(steps in prop::collection::vec(step(), 0..200)) {
            let mut now = Instant::now();
            let mut keys: Keys<u8, usize> = Keys::new(3, Duration::from_secs(60), true);
            // The newest job of each key that was not begun yet.
            let mut owed: BTreeMap<u8, usize> = BTreeMap::new();
            let mut at_work: BTreeMap<u8, usize> = BTreeMap::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Want(key, wish) => {
                        keys.want(key, n, wish);
                        owed.insert(key, n);
                    }
                    Step::Next => {
                        if let Some((key, job)) = keys.next(now) {
                            prop_assert!(at_work.insert(key, job).is_none());
                            if let Some(wanted) = owed.remove(&key) {
                                prop_assert_eq!(job, wanted);
                            }
                        }
                    }
                    Step::Ends(key, exit) => {
                        let was = at_work.remove(&key);
                        keys.ended(&key, exit.clone(), now);
                        if was.is_some() && exit != Exit::Then(Then::Done) {
                            // It is done again, with what it was to do, or with what came.
                            prop_assert!(keys.life(&key).is_some());
                        }
                    }
                    Step::Passes(secs) => now += Duration::from_secs(secs),
                    Step::Release(key) => drop(keys.release(|of| *of == key)),
                    Step::Forget(key) => {
                        keys.forget(&key);
                        owed.remove(&key);
                        prop_assert_eq!(keys.life(&key).is_some(), at_work.contains_key(&key));
                    }
                }
                let (working, waiting, resting) = keys.count();
                prop_assert_eq!(working, at_work.len());
                prop_assert!(working <= 3);
                prop_assert_eq!(working + waiting + resting, keys.all.len());
                for key in owed.keys() {
                    prop_assert!(keys.life(key).is_some(), "{key} is forgotten");
                }
                for (until, key) in &keys.rests {
                    let rests = matches!(keys.life(key), Some(Life::Rests { until: at, .. }) if at == *until);
                    prop_assert!(rests && *until <= now + Duration::from_secs(90));
                }
                for trouble in keys.troubles(9) {
                    prop_assert_eq!(trouble.aside, keys.life(&trouble.key) == Some(Life::Aside));
                }
            }
            // Nothing fails any more: all that is owed is done.
            keys.release(|_| true);
            for _ in 0..60 {
                while let Some((key, job)) = keys.next(now) {
                    at_work.insert(key, job);
                    owed.remove(&key);
                }
                for (key, _) in std::mem::take(&mut at_work) {
                    keys.ended(&key, Exit::Then(Then::Done), now);
                }
                keys.release(|_| true);
                now += Duration::from_secs(60);
            }
            prop_assert!(owed.is_empty());
            prop_assert_eq!(keys.count(), (0, 0, 0));
        }
    }

    #[test]
    fn rests_double_up_to_the_longest() {
        let rests = [1, 2, 3, 6, 7, 99].map(|n| rest_after(n, Duration::from_secs(60)).as_secs());
        assert_eq!(rests, [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn a_list_does_not_shorten_a_rest_and_news_does_unless_it_failed() {
        let now = Instant::now();
        let begun = |exit| {
            let mut keys: Keys<u8, ()> = Keys::new(1, Duration::from_secs(60), true);
            keys.want(1, (), Wish::Listed);
            keys.next(now).unwrap();
            keys.ended(&1, exit, now);
            keys
        };
        for (exit, is_begun) in [
            (Exit::Then(Then::After(Duration::from_secs(9))), true),
            (Exit::Failed(Error { blame: Blame::World, why: "x".into() }), false),
        ] {
            let mut keys = begun(exit);
            keys.want(1, (), Wish::Listed);
            assert_eq!(keys.next(now), None);
            keys.want(1, (), Wish::New);
            assert_eq!(keys.next(now).is_some(), is_begun);
        }
    }

    #[test]
    fn a_key_over_which_we_panic_is_set_aside_until_it_is_released() {
        let mut now = Instant::now();
        let mut keys: Keys<u8, ()> = Keys::new(9, Duration::from_secs(60), true);
        keys.want(1, (), Wish::New);
        for _ in 0..ASIDE_AFTER {
            keys.next(now).unwrap();
            keys.ended(&1, Exit::Panicked("boom".into()), now);
            now += Duration::from_secs(60);
        }
        assert_eq!((keys.life(&1), keys.next(now), keys.wakes_at()), (Some(Life::Aside), None, None));
        keys.want(1, (), Wish::New);
        assert_eq!(keys.next(now), None);
        assert!(keys.troubles(9)[0].aside);
        assert_eq!((keys.release(|key| *key == 2), keys.release(|key| *key == 1)), (0, 1));
        assert_eq!(keys.next(now), Some((1, ())));
    }
}
