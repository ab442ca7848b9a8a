//! How long something takes, counted as it happens: a few atomic numbers, whoever looks.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::domain::host::metrics::{BOUNDS, Histogram, bucket};

/// Counts of durations by buckets, since the process began.
#[derive(Debug, Default)]
pub struct Latency {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

impl Latency {
    /// Counts one.
    pub fn took(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn so_far(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|n| self.counts[n].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}
