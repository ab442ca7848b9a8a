//! Looks whether the world lets us launch: whether the engine answers, whether the disk has room, whether lost folders are back.
//! The lanes are told.

use std::{sync::Arc, time::Duration};

use super::{Obstacle, Runs, disk, lost};
use crate::{
    domain::{kept::disk::Space, machine::loops::LoopName, runs::lanes::Event, shown::errors::chain},
    engine::{Error, Loop, Plan, Sole, Why},
};

/// How often an engine that is away is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Watches the ground on which runs stand.
pub struct Ground {
    runs: Arc<Runs>,
    under: Arc<disk::Ground>,
    disk: disk::Watched,
    paused: bool,
}

impl Ground {
    #[must_use]
    pub fn new(runs: Arc<Runs>) -> Self {
        let under = Arc::new(disk::Ground {
            config: Arc::clone(&runs.config),
            root: runs.root.clone(),
            store: runs.store.clone(),
            machine: Arc::clone(&runs.machine),
            lanes: runs.lanes.clone(),
        });
        Self { runs, under, disk: disk::Watched::default(), paused: false }
    }
}

impl Loop for Ground {
    const NAME: LoopName = LoopName::Ground;
    /// Groups are weighed in it where the disk is low.
    const LOOKS_WITHIN: Duration = Duration::from_secs(600);
    type Key = Sole;
    type Job = ();
    type Hands = ();

    fn hands(&self) -> Arc<()> {
        Arc::default()
    }

    async fn asked(&mut self) {
        self.runs.machine.look_again.notified().await;
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        let runs = &self.runs;
        lost::look_again(runs).await;
        let obstacle = match self.disk.look(&self.under).await {
            Space::Enough => runs.engine_away().await.map(Obstacle::Engine),
            Space::Low { .. } | Space::Short { .. } => {
                Some(Obstacle::NoSpace(no_space(runs, self.disk.is_filled_unseen())))
            }
        };
        runs.machine.set_obstacle(obstacle);
        let obstacle = runs.machine.obstacle();
        match (&obstacle, self.paused) {
            (Some(why), false) => tracing::warn!(%why, "nothing is launched until this is mended"),
            (None, true) => tracing::info!("launching goes on"),
            (Some(_), true) | (None, false) => {}
        }
        // Said each time: a run that found the engine away has paused the lanes by itself.
        runs.lanes.tell(if obstacle.is_some() { Event::Pause } else { Event::Resume });
        self.paused = obstacle.is_some();
        Ok(Plan::again(ASK_AGAIN))
    }
}

impl Runs {
    /// Returns why the engine can't launch anything, if so.
    async fn engine_away(&self) -> Option<String> {
        self.sandbox.list(&self.instance).await.err().map(|error| chain(&error))
    }
}

/// Says why the disk lets nothing be launched.
fn no_space(runs: &Runs, from_outside: bool) -> String {
    let data = runs.root.join("data");
    let (free, wanted) =
        (crate::system::disk::free_bytes(&data).unwrap_or(0), runs.config.now().limits.min_free_bytes);
    let shown = data.display();
    let mut why = if free < wanted {
        let (free, wanted) = (free >> 20, wanted >> 20);
        format!(
            "only {free} MiB are free under {shown}; at least {wanted} MiB are wanted (limits.min_free_mib)"
        )
    } else {
        format!("fewer than 5 % of the inodes are free under {shown}")
    };
    for group in runs.machine.without_space().keys() {
        why.push_str(&format!("; group {group} was stopped, as it filled it"));
    }
    if from_outside {
        why.push_str("; no group was seen filling it");
    }
    why
}
