//! How the loops stand: what `status`, metrics and `report` show, what is a problem, and the door by which a person lets go of
//! keys that were set aside.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::Error;
use crate::{
    domain::{
        machine::loops::{KeyState, LoopName, LoopState, NAMED, TOLD_AFTER},
        problems::Problem,
    },
    system::{locked::Locked as _, world::World},
};

/// A loop that can't look for so long is a problem.
pub(super) const TOLD: Duration = Duration::from_secs(10);

/// Which keys are to be released; `None`: all. It is answered with how many were.
pub(super) type Release = (Option<String>, oneshot::Sender<usize>);

/// All loops that are driven.
pub struct Loops {
    world: World,
    all: Mutex<BTreeMap<LoopName, Arc<Seen>>>,
}

/// No loop of this name is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the loop {0} is not driven now")]
pub struct NoSuchLoop(pub LoopName);

/// A loop, as the engine shows it.
pub(super) struct Seen {
    world: World,
    name: LoopName,
    within: Duration,
    /// What it knows is in memory alone: without it nothing goes on.
    is_vital: bool,
    now: Mutex<Now>,
    release: mpsc::UnboundedSender<Release>,
}

#[derive(Default)]
struct Now {
    state: Option<LoopState>,
    /// Since when it is looking.
    looking: Option<Instant>,
    /// Since when looks fail, and why.
    failing: Option<(Instant, Error)>,
}

impl Loops {
    /// None is driven yet.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self { world, all: Mutex::default() }
    }

    /// A loop begins.
    pub(super) fn enter(
        &self,
        name: LoopName,
        within: Duration,
        is_vital: bool,
    ) -> (Arc<Seen>, mpsc::UnboundedReceiver<Release>) {
        let (release, releases) = mpsc::unbounded_channel();
        let world = self.world.clone();
        let seen = Arc::new(Seen { world, name, within, is_vital, now: Mutex::default(), release });
        self.all.locked().insert(name, Arc::clone(&seen));
        (seen, releases)
    }

    /// Returns how every loop stands, by name.
    #[must_use]
    pub fn states(&self) -> Vec<LoopState> {
        let all: Vec<Arc<Seen>> = self.all.locked().values().cloned().collect();
        all.iter().map(|seen| seen.state()).collect()
    }

    /// Returns the loops that have not come round within their bound.
    #[must_use]
    pub fn stuck(&self) -> Vec<(LoopName, Duration)> {
        let now = Instant::now();
        let all = self.all.locked();
        let stuck = all
            .values()
            .filter_map(|seen| seen.stuck(&seen.now.locked(), now).map(|since| (seen.name, since)));
        stuck.collect()
    }

    /// As [`Self::stuck`], of the loops without which nothing goes on. A new daemon would do better then.
    #[must_use]
    pub fn vital_stuck(&self) -> Vec<(LoopName, Duration)> {
        let vital: Vec<LoopName> =
            self.all.locked().values().filter(|seen| seen.is_vital).map(|seen| seen.name).collect();
        self.stuck().into_iter().filter(|(name, _)| vital.contains(name)).collect()
    }

    /// Returns what a person has to know.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found: Vec<Problem> = self
            .stuck()
            .into_iter()
            .map(|(name, since)| Problem::LoopStuck { name, secs: since.as_secs() })
            .collect();
        let now = Instant::now();
        let all: Vec<Arc<Seen>> = self.all.locked().values().cloned().collect();
        for seen in all {
            let of = seen.now.locked();
            if let Some((since, error)) = &of.failing {
                let lasts = now.duration_since(*since);
                if lasts >= TOLD {
                    let (secs, why) = (lasts.as_secs(), error.why.clone());
                    found.push(Problem::Loop { name: seen.name, secs, why });
                }
            }
            let keys = of.state.iter().flat_map(|state| &state.keys);
            let named = keys.filter(|key| key.aside || key.failures >= TOLD_AFTER);
            // Keys of one reason are one problem.
            let mut by_why: BTreeMap<(bool, &str), Vec<&KeyState>> = BTreeMap::new();
            for key in named {
                by_why.entry((!key.aside, &key.why)).or_default().push(key);
            }
            for ((_, why), keys) in by_why {
                let Some(first) = keys.first() else { continue };
                found.push(Problem::LoopKey {
                    name: seen.name,
                    key: first.key.clone(),
                    more: keys.len() - 1,
                    failures: first.failures,
                    aside: first.aside,
                    why: why.to_owned(),
                });
            }
        }
        found
    }

    /// Lets keys go on that were set aside or rest after a failure: one, or all. Returns how many did.
    ///
    /// # Errors
    /// [`NoSuchLoop`]
    pub async fn release(&self, name: LoopName, key: Option<String>) -> Result<usize, NoSuchLoop> {
        let (done, released) = oneshot::channel();
        let seen = self.all.locked().get(&name).cloned().ok_or(NoSuchLoop(name))?;
        seen.release.send((key, done)).map_err(|_| NoSuchLoop(name))?;
        released.await.map_err(|_| NoSuchLoop(name))
    }
}

impl Seen {
    fn change(&self, change: impl FnOnce(&mut LoopState)) {
        let mut now = self.now.locked();
        change(now.state.get_or_insert_with(|| LoopState::new(self.name)));
    }

    /// Returns how long a look has taken, if that is longer than its bound.
    fn stuck(&self, of: &Now, now: Instant) -> Option<Duration> {
        let since = now.duration_since(of.looking?);
        (since > self.within).then_some(since)
    }

    fn state(&self) -> LoopState {
        let of = self.now.locked();
        let stuck_secs = self.stuck(&of, Instant::now()).map(|since| since.as_secs());
        let state = of.state.clone().unwrap_or_else(|| LoopState::new(self.name));
        LoopState { stuck_secs, ..state }
    }

    pub(super) fn looks(&self) {
        self.now.locked().looking = Some(Instant::now());
    }

    /// It has looked; returns since when it could not before.
    pub(super) fn looked(&self, failed: Option<&Error>, is_whole: bool) -> Option<Instant> {
        let mut now = self.now.locked();
        now.looking = None;
        let Some(error) = failed else {
            let at = self.world.now();
            let state = now.state.get_or_insert_with(|| LoopState::new(self.name));
            state.looked = Some(at);
            if !is_whole {
                return None;
            }
            state.why = None;
            return now.failing.take().map(|(since, _)| since);
        };
        let since = now.failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        now.failing = Some((since, error.clone()));
        let state = now.state.get_or_insert_with(|| LoopState::new(self.name));
        state.why = Some(error.why.clone());
        state.failures += 1;
        None
    }

    pub(super) fn counts(&self, (at_work, waiting, resting): (usize, usize, usize)) {
        self.change(|state| {
            (state.at_work, state.waiting, state.resting) = (at_work, waiting, resting);
        });
    }

    pub(super) fn failed(&self) {
        self.change(|state| state.failures += 1);
    }

    pub(super) fn keys(&self, keys: Vec<KeyState>) {
        self.change(|state| state.keys = keys);
    }
}

pub(super) const MOST_NAMED: usize = NAMED;
