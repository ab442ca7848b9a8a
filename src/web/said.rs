//! What came of a change, kept for the page that is shown after it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::timeout;

use crate::system::locked::Locked as _;

/// How many are kept: a browser asks for its own at once.
const KEPT: usize = 256;
/// How long a browser waits for a change: less than a request may take.
const SOON: Duration = Duration::from_secs(10);

/// The newest outcomes, of all sessions.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<(u64, VecDeque<Kept>)>>);

struct Kept {
    n: u64,
    session: i64,
    outcome: Outcome,
    is_under_way: bool,
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
        self.put(session, outcome, false)
    }

    /// Has a change made that goes on however long it takes, and keeps what comes of it for a session. Returns its number: when it
    /// is made, or as soon as nobody is to wait for it any longer.
    pub(super) async fn coming(
        &self,
        session: i64,
        command: Option<String>,
        change: impl Future<Output = Outcome> + Send + 'static,
    ) -> u64 {
        let says = "this goes on, and is not over yet".to_owned();
        let n = self.put(session, Outcome { done: true, says, command: command.clone() }, true);
        let said = self.clone();
        let made = tokio::spawn(async move { said.end(n, change.await) });
        if let Ok(Err(_)) = timeout(SOON, made).await {
            let says = "the daemon failed while it did this: look whether it is done".to_owned();
            self.end(n, Outcome { done: false, says, command });
        }
        n
    }

    fn end(&self, n: u64, outcome: Outcome) {
        if let Some(kept) = self.0.locked().1.iter_mut().find(|kept| kept.n == n) {
            (kept.outcome, kept.is_under_way) = (outcome, false);
        }
    }

    fn put(&self, session: i64, outcome: Outcome, is_under_way: bool) -> u64 {
        let mut kept = self.0.locked();
        kept.0 += 1;
        let n = kept.0;
        kept.1.push_back(Kept { n, session, outcome, is_under_way });
        if kept.1.len() > KEPT {
            kept.1.pop_front();
        }
        n
    }

    /// Whether a change is still being made.
    pub(super) fn is_under_way(&self, session: i64, n: u64) -> bool {
        let kept = self.0.locked();
        kept.1.iter().any(|kept| kept.n == n && kept.session == session && kept.is_under_way)
    }

    /// Returns an outcome to the session that it is for.
    pub(super) fn get(&self, session: i64, n: u64) -> Option<Outcome> {
        let kept = self.0.locked();
        kept.1.iter().find(|kept| kept.n == n && kept.session == session).map(|kept| kept.outcome.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_that_takes_long_goes_on_and_what_came_of_it_is_kept() {
        let said = Said::default();
        let (end, ended) = oneshot::channel::<()>();
        let outcome = Outcome { done: true, says: "done".into(), command: None };
        let comes = outcome.clone();
        let change = async move {
            let _ = ended.await;
            comes
        };
        let n = said.coming(1, None, change).await;
        assert!(said.is_under_way(1, n) && said.get(1, n).unwrap().says.contains("goes on"));
        assert!(!said.is_under_way(2, n));
        end.send(()).unwrap();
        while said.is_under_way(1, n) {
            tokio::task::yield_now().await;
        }
        assert_eq!(said.get(1, n), Some(outcome.clone()));
        // One that is made soon is waited for, and a fault is told.
        let n = said.coming(1, None, async move { outcome }).await;
        assert_eq!(said.get(1, n).unwrap().says, "done");
        let n = said.coming(1, None, async { panic!("a fault") }).await;
        assert!(!said.is_under_way(1, n) && said.get(1, n).unwrap().says.contains("failed"));
    }

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
