//! How many requests of each hook are taken. Pure.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How many requests of a hook are taken at once after a quiet time.
pub(super) const AT_ONCE: u32 = 120;
/// How often one more is taken.
const ONE_MORE: Duration = Duration::from_millis(500);
/// How many hooks are counted; of more than that, the quietest is forgotten.
const MOST_HOOKS: usize = 1000;

/// What the hooks of an account have left.
#[derive(Debug, Default)]
pub(super) struct Paces(HashMap<String, Pace>);

/// How much of its bound a hook has left, and since when.
#[derive(Debug)]
struct Pace {
    left: u32,
    since: Instant,
}

impl Paces {
    /// Counts a request of a hook. False: it is one too many.
    pub(super) fn passes(&mut self, name: &str, now: Instant) -> bool {
        if !self.0.contains_key(name) && self.0.len() >= MOST_HOOKS {
            let quietest = self.0.iter().min_by_key(|(_, pace)| pace.since).map(|(name, _)| name.clone());
            quietest.and_then(|name| self.0.remove(&name));
        }
        let pace = self.0.entry(name.to_owned()).or_insert(Pace { left: AT_ONCE, since: now });
        let more = now.duration_since(pace.since).as_millis() / ONE_MORE.as_millis();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let left = pace.left.saturating_add(more);
        // What is over of half a second counts for the next one, unless nothing is missing.
        pace.since = if left >= AT_ONCE { now } else { pace.since + ONE_MORE * more };
        pace.left = left.min(AT_ONCE);
        let passes = pace.left > 0;
        pace.left = pace.left.saturating_sub(1);
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_has_its_bound_for_itself_and_gets_it_back() {
        let (mut paces, begun) = (Paces::default(), Instant::now());
        let mut passed = |name: &str, at_ms| paces.passes(name, begun + Duration::from_millis(at_ms));
        assert!((0..AT_ONCE).all(|_| passed("a", 0)) && !passed("a", 0) && !passed("a", 499));
        assert!(passed("b", 499), "each hook has its own");
        assert!(passed("a", 500) && !passed("a", 999) && passed("a", 1000));
        assert!((0..AT_ONCE).all(|_| passed("a", 1 << 30)) && !passed("a", 1 << 30));
        for n in 0..2 * MOST_HOOKS {
            passed(&n.to_string(), (1 << 30) + 1);
        }
        assert_eq!(paces.0.len(), MOST_HOOKS);
    }
}
