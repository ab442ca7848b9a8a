//! Stores what runs have used of the model. Nobody waits for it: what comes while a commit is under way goes into the
//! next one. A daemon that is killed loses what the store has not taken yet.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    domain::{machine::loops::LoopName, runs::usage::Page, shown::errors::chain},
    engine::{Error, Loop, Plan, Sole, Why},
    gateway::Gateway,
    store::{Store, StoreError},
    system::world::World,
};

/// Stores the gateway's books whenever they have changed.
pub struct Usage {
    world: World,
    store: Store,
    gateway: Arc<Gateway>,
    /// Counts that were taken out of the books and are not stored yet.
    taken: BTreeMap<i64, Page>,
    /// The books have changed, and no look has succeeded since.
    has_changed: bool,
}

impl Usage {
    #[must_use]
    pub fn new(world: World, store: Store, gateway: Arc<Gateway>) -> Self {
        Self { world, store, gateway, taken: BTreeMap::new(), has_changed: false }
    }

    /// Stores the counts. Those that can't be stored are kept.
    async fn put(&mut self) -> Result<(), StoreError> {
        let books = self.gateway.books();
        books.put_back(std::mem::take(&mut self.taken));
        self.taken = books.take();
        if !self.taken.is_empty() {
            self.store.add_usage(self.taken.clone(), self.world.now()).await?;
            self.taken.clear();
        }
        Ok(())
    }
}

impl Loop for Usage {
    const NAME: LoopName = LoopName::Usage;
    /// A count that is being stored at a stop is not stored twice.
    const FINISHES_LOOKS: bool = true;
    type Key = Sole;
    type Job = ();
    type Hands = ();

    fn hands(&self) -> Arc<()> {
        Arc::default()
    }

    async fn asked(&mut self) {
        if self.has_changed {
            // They stay as they are until they are looked at.
            return std::future::pending().await;
        }
        self.gateway.books().changed().await;
        self.has_changed = true;
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        self.put().await?;
        self.has_changed = false;
        Ok(Plan::default())
    }

    /// No run is watched any more: what the gateway still has under way ends, and is stored.
    async fn finish(&mut self) {
        self.gateway.stop().await;
        if let Err(error) = self.put().await {
            tracing::error!(error = %chain(&error), "what runs have used last can't be stored, and is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::world::World;
    use crate::{
        domain::runs::usage::Sum,
        gateway::{Credentials, Limits, Upstream},
    };

    #[tokio::test]
    async fn what_was_taken_and_not_stored_is_stored_later_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let upstream = Upstream::parse("http://127.0.0.1:9").unwrap();
        let credentials = Credentials::new(dir.path().join(".env"), None);
        let gateway = Arc::new(Gateway::new(World::real(), upstream, credentials, Limits::default()));
        let mut usage = Usage::new(World::real(), store.clone(), Arc::clone(&gateway));
        let pages = |requests| {
            let models = BTreeMap::from([("m".to_owned(), Sum { requests, ..Sum::default() })]);
            BTreeMap::from([(1, Page { models, ..Page::default() })])
        };
        let (why, requests) = (Why::default(), |pages: &BTreeMap<i64, Page>| pages[&1].models["m"].requests);
        store.breaks("usage").await.unwrap();
        gateway.books().put_back(pages(2));
        usage.asked().await;
        usage.look(&why).await.unwrap_err();
        assert_eq!(requests(&usage.taken), 2);
        gateway.books().put_back(pages(3));
        let asked = tokio::time::timeout(std::time::Duration::from_millis(10), usage.asked());
        asked.await.expect_err("it has been told so already");
        usage.look(&why).await.unwrap_err();
        assert_eq!(requests(&usage.taken), 5, "all of it is kept, once");
        store.is_mended("usage").await.unwrap();
        usage.look(&why).await.unwrap();
        assert!(usage.taken.is_empty() && gateway.books().take().is_empty());
        gateway.books().put_back(pages(1));
        usage.asked().await;
        usage.finish().await;
        assert!(usage.taken.is_empty(), "what comes last is stored at the end");
    }
}
