//! Holds: groups and single files that must not be claimed.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use ipc_handlers::Folder;

use crate::{
    domain::mailbox::holds::Holds,
    store::{Store, StoreError},
};

/// The holds, as the store had them at the last look. A claim looks here first.
pub struct Held {
    store: Store,
    known: RwLock<Holds>,
}

impl Held {
    /// Reads the holds.
    ///
    /// # Errors
    /// The store's.
    pub fn read(store: Store) -> Result<Self, StoreError> {
        let known = RwLock::new(Holds::new(store.holds()?));
        Ok(Self { store, known })
    }

    /// Returns whether all of a group's commands wait.
    #[must_use]
    pub fn group(&self, group: &Folder) -> bool {
        self.now().group(group)
    }

    /// Returns whether the daemon set a group aside.
    #[must_use]
    pub fn is_aside(&self, group: &Folder) -> bool {
        self.now().aside(group)
    }

    /// Returns the holds. While the guard lives none is added or lifted.
    pub fn now(&self) -> RwLockReadGuard<'_, Holds> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the holds again; returns whether they have changed. From then on nothing that is held is claimed.
    ///
    /// # Errors
    /// The store's.
    pub fn look_again(&self) -> Result<bool, StoreError> {
        let now = Holds::new(self.store.holds()?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *known != now;
        *known = now;
        Ok(changed)
    }
}
