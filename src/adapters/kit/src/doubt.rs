//! Whether a platform means it that it does not know us: a single such answer is often an outage of its own. Pure.

use std::time::Duration;

use channel_protocol::Start;
use serde_json::Value;
use tokio::time::Instant;

/// How far two such answers have to be apart at least, s, if the account's table says nothing else.
const APART_S: u64 = 60;
/// The most that it may say, s.
const MOST_S: u64 = 86_400;

/// What is known of an account's login.
#[derive(Clone, Debug)]
pub struct Doubt {
    apart: Duration,
    /// The platform has known us before.
    was_known: bool,
    /// When the platform said first that it does not.
    since: Option<Instant>,
}

impl Doubt {
    /// Begins for an account. One that was never let in has a wrong token rather than a platform in trouble.
    #[must_use]
    pub fn of(start: &Start) -> Self {
        Self {
            apart: sure_after(start),
            was_known: !start.cursor.is_empty() || !start.chats.is_empty(),
            since: None,
        }
    }

    /// The platform knows us.
    pub fn known(&mut self) {
        (self.was_known, self.since) = (true, None);
    }

    /// Asked who we are, the platform says that it does not know us. Returns whether that counts.
    #[must_use]
    pub fn denied(&mut self, now: Instant) -> bool {
        let again = self.since.is_some_and(|first| now.saturating_duration_since(first) >= self.apart);
        self.since.get_or_insert(now);
        again || !self.was_known
    }
}

/// How long something has to go on until it counts, as the account's table says.
pub(super) fn sure_after(start: &Start) -> Duration {
    let apart = start.config.get("sure_after_s").and_then(Value::as_u64).unwrap_or(APART_S);
    Duration::from_secs(apart.min(MOST_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(cursor: &[&str], more: &Value) -> Doubt {
        let cursor = cursor.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect();
        let config = more.as_object().cloned().unwrap_or_default();
        Doubt::of(&Start { cursor, config, ..Start::default() })
    }

    #[test]
    fn an_account_that_was_let_in_before_is_denied_twice_a_minute_apart() {
        let now = Instant::now();
        let at = |s| now + Duration::from_secs(s);
        let mut one = doubt(&["updates"], &Value::Null);
        assert!(!one.denied(at(0)) && !one.denied(at(1)) && !one.denied(at(59)) && one.denied(at(60)));
        one.known();
        assert!(!one.denied(at(61)) && !one.denied(at(120)) && one.denied(at(121)));
        let mut new = doubt(&[], &Value::Null);
        assert!(new.clone().denied(at(0)));
        new.known();
        assert!(!new.denied(at(0)));
        let mut sure = doubt(&["since"], &serde_json::json!({"sure_after_s": 0}));
        assert!(!sure.denied(at(0)) && sure.denied(at(1)));
        let mut forever = doubt(&["since"], &serde_json::json!({"sure_after_s": u64::MAX}));
        assert!(!forever.denied(at(0)) && !forever.denied(at(86_399)) && forever.denied(at(86_400)));
    }
}
