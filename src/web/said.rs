//! What came of a change, kept for the page that is shown after it.

use crate::system::locked::Locked as _;
use std::{collections::VecDeque, sync::Mutex};

/// How many are kept: a browser asks for its own at once.
const KEPT: usize = 256;

/// The newest outcomes, of all sessions.
#[derive(Default)]
pub(super) struct Said(Mutex<(u64, VecDeque<Kept>)>);

struct Kept {
    n: u64,
    session: i64,
    outcome: Outcome,
}

/// What came of a change, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) done: bool,
    pub(super) says: String,
    /// The command that does the same.
    pub(super) command: Option<String>,
}

impl Said {
    /// Keeps an outcome for a session; returns its number.
    pub(super) fn keep(&self, session: i64, outcome: Outcome) -> u64 {
        let mut kept = self.0.locked();
        kept.0 += 1;
        let n = kept.0;
        kept.1.push_back(Kept { n, session, outcome });
        if kept.1.len() > KEPT {
            kept.1.pop_front();
        }
        n
    }

    /// Returns an outcome to the session that it is for.
    pub(super) fn get(&self, session: i64, n: u64) -> Option<Outcome> {
        let kept = self.0.locked();
        kept.1.iter().find(|kept| kept.n == n && kept.session == session).map(|kept| kept.outcome.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_shown_to_its_session_alone_and_few_are_kept() {
        let said = Said::default();
        let outcome = Outcome { done: true, says: "done".into(), command: None };
        let n = said.keep(1, outcome.clone());
        assert_eq!(said.get(1, n), Some(outcome.clone()));
        assert_eq!(said.get(2, n), None);
        for _ in 0..KEPT {
            let _ = said.keep(3, outcome.clone());
        }
        assert_eq!(said.get(1, n), None);
    }
}
