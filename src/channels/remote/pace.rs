//! How much of an adapter's output is read: what is more waits in its pipe, and so does the adapter.

use std::time::Duration;

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// A share of something in each second.
pub(super) struct Share {
    most: u64,
    left: u64,
    since: Instant,
}

impl Share {
    pub(super) fn a_second(most: u64) -> Self {
        Self { most, left: most, since: Instant::now() }
    }

    /// Takes some. Once all of a second's is taken, returns when that second is over.
    pub(super) async fn take(&mut self, some: u64) {
        if let Some(until) = self.taken(some, Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Takes some; returns until when nothing more is taken.
    fn taken(&mut self, some: u64, now: Instant) -> Option<Instant> {
        if now.duration_since(self.since) >= SECOND {
            (self.left, self.since) = (self.most, now);
        }
        self.left = self.left.saturating_sub(some);
        (self.left == 0).then(|| self.since + SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_share_and_what_is_more_waits_for_the_next() {
        let mut share = Share::a_second(10);
        let began = share.since;
        let at = |ms| began + Duration::from_millis(ms);
        assert_eq!(share.taken(4, at(0)), None);
        assert_eq!(share.taken(5, at(900)), None);
        assert_eq!(share.taken(1, at(950)), Some(at(1000)));
        // One piece may be larger than a share; it waits once.
        assert_eq!(share.taken(1000, at(1000)), Some(at(2000)));
        assert_eq!(share.taken(9, at(12_000)), None);
        assert_eq!(share.taken(1, at(12_500)), Some(at(13_000)));
    }
}
