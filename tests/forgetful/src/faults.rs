//! What a disk does besides forgetting: calls that fail, and syncs that take long.

use std::time::Duration;

use crate::random::Random;

/// A call that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Bytes are written.
    Write,
    /// A file or folder is synced.
    Sync,
    /// A node or name is made.
    Make,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `EIO`.
    Broken,
    /// `ENOSPC`.
    Full,
}

/// Calls that are to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub call: Call,
    /// How.
    pub how: Failure,
    /// How many of them go well before.
    pub after: u64,
    /// How many of them fail then.
    pub times: u64,
}

/// Syncs that are answered, and do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Those of files.
    Files,
    /// Those of folders.
    Folders,
}

/// Syncs that take long.
#[derive(Clone, Debug)]
pub struct Slowness {
    /// The longest that one takes.
    pub most: Duration,
    /// How long each takes.
    pub random: Random,
}

/// All that is to go wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    all: Vec<Fault>,
    slow: Option<Slowness>,
    lie: Option<Lie>,
}

impl Faults {
    /// Adds one.
    pub fn add(&mut self, fault: Fault) {
        self.all.push(fault);
    }

    /// Lets no call fail any more.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// How many calls are still to fail.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.all.iter().map(|fault| fault.times).sum()
    }

    /// Makes syncs slow, or quick again.
    pub fn slow(&mut self, slow: Option<Slowness>) {
        self.slow = slow;
    }

    /// Makes a disk that lies, as some do, so that a test shows that it would notice.
    pub fn lie(&mut self, lie: Option<Lie>) {
        self.lie = lie;
    }

    /// Whether a sync does nothing.
    pub(crate) fn lies(&self, of: Lie) -> bool {
        self.lie == Some(of)
    }

    /// Counts a call; returns how it fails, if it does.
    pub(crate) fn next(&mut self, call: Call) -> Option<Failure> {
        let mut failure = None;
        for fault in self.all.iter_mut().filter(|fault| fault.call == call) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 && failure.is_none() {
                fault.times -= 1;
                failure = Some(fault.how);
            }
        }
        self.all.retain(|fault| fault.times > 0);
        failure
    }

    /// How long the next sync takes.
    pub(crate) fn rest(&mut self) -> Duration {
        self.slow.as_mut().map_or(Duration::ZERO, |slow| {
            let most = u64::try_from(slow.most.as_micros()).unwrap_or(u64::MAX).max(1);
            Duration::from_micros(slow.random.below(most))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_and_others_do_not() {
        let mut faults = Faults::default();
        faults.add(Fault { call: Call::Write, how: Failure::Full, after: 2, times: 2 });
        let found: Vec<_> = (0..5).map(|_| faults.next(Call::Write)).collect();
        assert_eq!(found, [None, None, Some(Failure::Full), Some(Failure::Full), None]);
        assert_eq!(faults.next(Call::Sync), None);
        faults.add(Fault { call: Call::Sync, how: Failure::Broken, after: 0, times: 3 });
        assert_eq!((faults.next(Call::Sync), faults.left()), (Some(Failure::Broken), 2));
    }
}
