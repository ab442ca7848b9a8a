//! How long an adapter waits before it tries again what failed.

use std::time::Duration;

/// The first wait; each one after it is twice as long as the one before.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait that nobody asked for.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait that a platform may ask for, ms: a day.
const LONGEST_ASKED_MS: u64 = 86_400_000;
/// For how long a platform is left alone that does not say for how long, ms.
pub(crate) const UNSAID_MS: u64 = 5000;

/// The waits between tries.
#[derive(Clone, Copy, Debug)]
pub struct Rest(Duration);

impl Default for Rest {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Rest {
    /// Waits for as long as the platform asks for, otherwise longer each time.
    pub async fn wait(&mut self, asked_ms: Option<u64>) {
        tokio::time::sleep(self.next(asked_ms)).await;
    }

    /// Returns the next wait, which is the caller's to make.
    #[must_use]
    pub fn next(&mut self, asked_ms: Option<u64>) -> Duration {
        let own = self.0;
        self.0 = (own * 2).min(LONGEST);
        asked_ms.map_or(own, |ms| Duration::from_millis(asked(ms)))
    }
}

/// What a platform asks for, within bounds: a wait, and an end of it.
pub(crate) fn asked(ms: u64) -> u64 {
    ms.clamp(1, LONGEST_ASKED_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer_to_half_a_minute_and_what_the_platform_asks_for_goes_before() {
        let mut rest = Rest::default();
        let waits: Vec<u64> = (0..7).map(|_| rest.next(None).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(rest.next(Some(490_000)).as_secs(), 490);
        assert_eq!(rest.next(Some(u64::MAX)).as_secs(), 86_400);
        assert_eq!(rest.next(Some(0)), Duration::from_millis(1));
        assert_eq!(rest.next(None).as_secs(), 30);
    }
}
