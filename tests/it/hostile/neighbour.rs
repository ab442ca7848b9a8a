//! How long a neighbour waits: alone, and beside an attack in the same run.
#![expect(clippy::disallowed_methods, reason = "measures how long a neighbour waits")]

use std::time::{Duration, Instant};

use super::scene::ask;
use crate::support::{DEADLINE, Root};

/// Asks again and again for as long as `goes_on` says so of how often it was; returns how long the slowest but a tenth took.
pub(super) fn asked(root: &Root, name: &str, goes_on: &dyn Fn(usize) -> bool) -> Duration {
    let begun = Instant::now();
    let mut took = Vec::new();
    while took.is_empty() || (goes_on(took.len()) && begun.elapsed() < DEADLINE) {
        let since = Instant::now();
        ask(root, "good", &format!("{name}-{}", took.len()));
        took.push(since.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 9 / 10]
}

/// Fails where it waited far longer beside an attack than alone.
pub(super) fn assert_not_held_back(alone: Duration, beside: Duration) {
    eprintln!("a neighbour: {alone:?} alone, {beside:?} beside");
    assert!(beside <= 10 * alone + Duration::from_millis(50), "{beside:?} after {alone:?}");
}
