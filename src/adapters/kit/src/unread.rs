//! Answers that nobody can read: cut short, asked for again, and passed over in the end. Pure.

use std::time::Duration;

use channel_protocol::{Start, mended};
use serde_json::Value;
use tokio::time::Instant;

use super::doubt::sure_after;

/// How often an answer is asked for at least before it is passed over.
pub const TRIES: u32 = 3;

/// What the last answers were like. An answer that can't be read may be a short trouble of the platform's, as may be the first ones
/// after it.
#[derive(Clone, Debug)]
pub struct Unread {
    apart: Duration,
    tries: u32,
    /// When the first one came.
    since: Option<Instant>,
}

impl Unread {
    /// Begins for an account.
    #[must_use]
    pub fn of(start: &Start) -> Self {
        Self { apart: sure_after(start), tries: 0, since: None }
    }

    /// An answer could be read.
    pub const fn read(&mut self) {
        (self.tries, self.since) = (0, None);
    }

    /// The last answer could not be read.
    #[must_use]
    pub const fn is_stuck(&self) -> bool {
        self.tries > 0
    }

    /// An answer could not be read. Returns whether it was asked for often and long enough to be passed over.
    #[must_use]
    pub fn again(&mut self, now: Instant) -> bool {
        self.tries = self.tries.saturating_add(1);
        let first = *self.since.get_or_insert(now);
        self.tries >= TRIES && now.saturating_duration_since(first) >= self.apart
    }
}

/// Whether an answer ends before its JSON does: it came over a connection that broke.
#[must_use]
pub fn is_cut(answer: &[u8]) -> bool {
    serde_json::from_str::<Value>(&mended(answer)).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_read_is_asked_for_three_times_and_for_a_minute() {
        let now = Instant::now();
        let at = |s| now + Duration::from_secs(s);
        let mut unread = Unread::of(&Start::default());
        assert!(!unread.is_stuck() && !unread.again(at(0)) && unread.is_stuck());
        assert!(
            !unread.again(at(1)) && !unread.again(at(3)) && !unread.again(at(59)) && unread.again(at(60))
        );
        unread.read();
        assert!(
            !unread.is_stuck() && !unread.again(at(100)) && !unread.again(at(1000)) && unread.again(at(1001))
        );
        let config = serde_json::json!({"sure_after_s": 0}).as_object().cloned().unwrap_or_default();
        let mut sure = Unread::of(&Start { config, ..Start::default() });
        assert!(!sure.again(at(0)) && !sure.again(at(0)) && sure.again(at(0)));
    }

    #[test]
    fn half_an_answer_is_told_from_one_that_is_no_json() {
        let whole = r#"{"ok":true,"result":[{"update_id":7,"text":"a\ud800\"ü"},[1.5]]}"#;
        assert!((0..whole.len()).all(|end| is_cut(&whole.as_bytes()[..end])));
        for other in [whole, "<html>", r#"{"text":"a\x"}"#, r#"{"text":"a\x"#, "[1 2", "{}}", "nil"] {
            assert!(!is_cut(other.as_bytes()), "{other}");
        }
    }
}
