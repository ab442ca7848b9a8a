//! Keeps the index of archived sessions, on a thread of its own.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::Machine;
use crate::{
    domain::{
        kept::disk::{self, Space},
        machine::loops::LoopName,
        shown::feed::EventKind,
    },
    engine::{Error, Loop, Plan, Sole, Then, Why},
    store::{Indexer, Store, StoreError},
    system::locked::Locked as _,
};

/// How long it rests where the disk has too little room.
const REST: Duration = Duration::from_secs(1);
/// How long it rests at most where it fails: searches wait for the index.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Indexes what is archived.
pub struct Search(Arc<Desk>);

/// What the loop works with.
pub struct Desk {
    store: Store,
    machine: Arc<Machine>,
    /// None before the first work, and after a fault: what it knew may be half done.
    indexer: Mutex<Option<Indexer>>,
}

impl Search {
    #[must_use]
    pub fn new(store: Store, machine: Arc<Machine>) -> Self {
        Self(Arc::new(Desk { store, machine, indexer: Mutex::default() }))
    }
}

impl Loop for Search {
    const NAME: LoopName = LoopName::Search;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Session, EventKind::Group];
    const RESTS_AT_MOST: Duration = LONGEST_REST;
    type Key = Sole;
    type Job = ();
    type Hands = Desk;

    fn hands(&self) -> Arc<Desk> {
        Arc::clone(&self.0)
    }

    async fn asked(&mut self) {
        self.0.store.index_is_wanted().await;
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        Ok(Plan { wake: vec![(Sole, ())], ..Plan::default() })
    }

    async fn perform(desk: Arc<Desk>, _: Sole, (): (), stop: CancellationToken) -> Result<Then, Error> {
        let world = desk.machine.world.clone();
        Ok(world.patiently("search", move || desk.index(&stop)).await??)
    }
}

impl Desk {
    /// Indexes piece by piece until there is nothing to do. Blocks.
    fn index(&self, stop: &CancellationToken) -> Result<Then, StoreError> {
        let mut kept = self.indexer.locked();
        // If it panics, the next work begins with another one.
        let mut indexer = match kept.take() {
            Some(indexer) => indexer,
            None => self.store.indexer()?,
        };
        let then = loop {
            if stop.is_cancelled() {
                break Ok(Then::Done);
            }
            // The index is large and can be made later. The last space on the disk is for work that people wait for.
            if disk::space(&self.machine.whole_disk()) != Space::Enough {
                break Ok(Then::After(REST));
            }
            match indexer.work() {
                Ok(true) => {}
                Ok(false) => break Ok(Then::Done),
                Err(error) => break Err(error),
            }
        };
        *kept = Some(indexer);
        then
    }
}
