//! How many requests are taken: of each name, of all together, and of names that are new. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

/// How many requests of a name are taken at once after a quiet time.
const AT_ONCE: u32 = 120;
/// How often one more is taken.
const ONE_MORE: Duration = Duration::from_millis(500);
/// The same of all names together.
const ALL_AT_ONCE: u32 = 1200;
const ONE_MORE_OF_ALL: Duration = Duration::from_millis(50);
/// How many names by which nobody wrote yet are taken at once, as an owner may be asked about each, and how often one more is.
const NEW_AT_ONCE: u32 = 20;
const ONE_MORE_NEW: Duration = Duration::from_mins(3);
/// How many names are counted; of more than that, the quietest is forgotten.
const MOST_HOOKS: usize = 1000;

/// What the names of an account have left.
#[derive(Debug)]
pub(super) struct Paces {
    hooks: HashMap<String, Pace>,
    all: Pace,
    new: Pace,
    /// The names by which somebody wrote.
    known: BTreeSet<String>,
}

/// What is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Used {
    Name,
    All,
    NewNames,
}

/// How much of a bound is left, and since when.
#[derive(Debug)]
struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    fn new(most: u32, now: Instant) -> Self {
        Self { left: most, since: now }
    }

    /// Takes one. False: there is none.
    fn takes(&mut self, most: u32, one_more: Duration, now: Instant) -> bool {
        let more = now.saturating_duration_since(self.since).as_millis() / one_more.as_millis();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let left = self.left.saturating_add(more);
        // What is over of the time for one counts for the next, unless nothing is missing.
        self.since = if left >= most { now } else { self.since + one_more * more };
        self.left = left.min(most);
        let takes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        takes
    }
}

impl Paces {
    /// `known`: the names by which somebody wrote before.
    pub(super) fn new(known: BTreeSet<String>, now: Instant) -> Self {
        let [all, new] = [ALL_AT_ONCE, NEW_AT_ONCE].map(|most| Pace::new(most, now));
        Self { hooks: HashMap::new(), all, new, known }
    }

    /// Counts a request of a name.
    pub(super) fn passes(&mut self, name: &str, now: Instant) -> Result<(), Used> {
        if !self.all.takes(ALL_AT_ONCE, ONE_MORE_OF_ALL, now) {
            return Err(Used::All);
        }
        if !self.known.contains(name) {
            if !self.new.takes(NEW_AT_ONCE, ONE_MORE_NEW, now) {
                return Err(Used::NewNames);
            }
            self.known.insert(name.to_owned());
        }
        if !self.hooks.contains_key(name) && self.hooks.len() >= MOST_HOOKS {
            let quietest = self.hooks.iter().min_by_key(|(_, pace)| pace.since).map(|(name, _)| name.clone());
            quietest.and_then(|name| self.hooks.remove(&name));
        }
        let pace = self.hooks.entry(name.to_owned()).or_insert_with(|| Pace::new(AT_ONCE, now));
        if pace.takes(AT_ONCE, ONE_MORE, now) { Ok(()) } else { Err(Used::Name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_bound_for_itself_and_gets_it_back_and_so_have_all_and_new_ones() {
        let begun = Instant::now();
        let known = (0..3000).map(|n| n.to_string()).chain(["a".into(), "b".into()]).collect();
        let mut paces = Paces::new(known, begun);
        let mut passed = |name: &str, at_ms| paces.passes(name, begun + Duration::from_millis(at_ms));
        assert!((0..AT_ONCE).all(|_| passed("a", 0).is_ok()));
        assert_eq!((passed("a", 0), passed("a", 499)), (Err(Used::Name), Err(Used::Name)));
        assert_eq!(passed("b", 499), Ok(()), "each has its own");
        assert_eq!(
            (passed("a", 500), passed("a", 999), passed("a", 1000)),
            (Ok(()), Err(Used::Name), Ok(()))
        );
        let later = 1 << 30;
        assert!((0..ALL_AT_ONCE).all(|n| passed(&n.to_string(), later).is_ok()));
        assert_eq!((passed("b", later), passed("b", later + 50)), (Err(Used::All), Ok(())));
        let end = 2 << 30;
        assert!((0..NEW_AT_ONCE).all(|n| passed(&format!("new{n}"), end).is_ok()));
        assert_eq!((passed("newer", end), passed("new1", end)), (Err(Used::NewNames), Ok(())));
        assert_eq!(passed("newer", end + 180_000), Ok(()));
        for n in 0..3000_u64 {
            let _ = passed(&n.to_string(), end + 180_000 + 50 * n);
        }
        assert_eq!(paces.hooks.len(), MOST_HOOKS);
    }
}
