//! How long a neighbour waits for its replies: alone, and beside an attack in the same run. All tests of the suite that
//! measure this do it here.
#![expect(
    clippy::disallowed_methods,
    reason = "measures how long a neighbour waits, on a machine that may be quiet"
)]

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::scene::{ask, peak_kib};
use crate::support::{DEADLINE, Daemon, Root};

/// How often it asks alone.
const ALONE: usize = 100;
/// The promise: of a hundred replies beside an attack, 99 come sooner. Asserted where nothing else is at work on the machine.
const PROMISED: Duration = Duration::from_millis(50);
/// What an attack may take of the daemon's memory, above what ordinary work took, KiB.
const MORE_KIB: u64 = 64 << 10;

/// How long each of several things took, shortest first.
pub(crate) struct Waits(Vec<Duration>);

impl Waits {
    pub(crate) fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    /// Of fewer than a hundred, this is the longest.
    fn p99(&self) -> Duration {
        self.0[(self.0.len() * 99).div_ceil(100) - 1]
    }

    fn max(&self) -> Duration {
        self.0[self.0.len() - 1]
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?}/{:.1?}/{:.1?}", self.median(), self.p99(), self.max())
    }
}

/// The group `good`, and how long it waits while nobody attacks.
pub(super) struct Neighbour<'a> {
    root: &'a Root,
    alone: Waits,
    quiet_kib: u64,
}

impl<'a> Neighbour<'a> {
    /// Has it ask before any attack, and notes what the daemon's memory is then. Once in a root.
    pub(super) fn of(root: &'a Root, daemon: &Daemon) -> Self {
        let alone = asked(root, "alone", |count| count < ALONE);
        Self { root, alone, quiet_kib: peak_kib(daemon.pid()) }
    }

    /// Has it ask beside an attack, once at least and for as long as `goes_on` says so of how often it has. Says how long it
    /// waited, which is returned too, and fails where that is far longer than alone.
    pub(super) fn beside(&self, attack: &str, goes_on: impl FnMut(usize) -> bool) -> Waits {
        let beside = asked(self.root, &format!("beside {attack}"), goes_on);
        compare(attack, &self.alone, &beside);
        beside
    }

    /// Fails where a daemon, this one or one after it, took much more memory than the neighbour's own work did.
    pub(super) fn assert_no_more_memory(&self, attack: &str, daemon: &Daemon) {
        let (quiet, peak) = (self.quiet_kib, peak_kib(daemon.pid()));
        eprintln!("memory beside {attack}: {quiet} KiB alone, {peak} KiB at most");
        assert!(peak < quiet + MORE_KIB, "{attack}: {peak} KiB after {quiet} KiB");
    }
}

/// Says how long a neighbour waited, and fails where that is far longer beside the attack than alone.
pub(crate) fn compare(attack: &str, alone: &Waits, beside: &Waits) {
    eprintln!("neighbour of {attack}: alone {alone}, beside {beside}");
    // Where the machine does other work as well, both are many times what they are on a quiet one.
    let far = |alone: Duration, more| 10 * alone + Duration::from_millis(more);
    assert!(beside.median() <= far(alone.median(), 500), "{attack}: {beside} after {alone}");
    assert!(beside.p99() <= far(alone.p99(), 2_000), "{attack}: {beside} after {alone}");
    assert!(beside.max() <= far(alone.max(), 5_000), "{attack}: {beside} after {alone}");
    if std::env::var_os("G2_QUIET").is_some_and(|quiet| quiet == "1") {
        assert!(beside.p99() < PROMISED, "{attack}: {beside} after {alone}");
    }
}

fn asked(root: &Root, name: &str, goes_on: impl FnMut(usize) -> bool) -> Waits {
    let request = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    timed(goes_on, |count| ask(root, "good", &format!("{request}-{count}")))
}

/// Does something once at least, and for as long as `goes_on` says so of how often it was done.
pub(crate) fn timed(mut goes_on: impl FnMut(usize) -> bool, mut each: impl FnMut(usize)) -> Waits {
    let begun = Instant::now();
    let mut waits = Vec::new();
    while waits.is_empty() || goes_on(waits.len()) {
        assert!(begun.elapsed() < 3 * DEADLINE, "no end; the longest so far is {:?}", waits.iter().max());
        let since = Instant::now();
        each(waits.len());
        waits.push(since.elapsed());
    }
    waits.sort_unstable();
    Waits(waits)
}
