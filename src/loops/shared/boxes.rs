//! The boxes of all groups, held open, and the users that they belong to.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use ipc_handlers::Folder;

use crate::{
    domain::shown::errors::chain,
    ipc::{GroupBoxes, HostDirs, Owner, WorldFault, lay_out_group},
    store::{Store, StoreError},
};

/// The boxes of all groups.
pub struct Boxes {
    pub dirs: Arc<HostDirs>,
    /// User and group of containers, which own the boxes; `None`: the daemon's own.
    pub agent: Option<Owner>,
    root: PathBuf,
    /// The first user id that is given to agents; `None`: all agents are the same user.
    uid_base: Option<u32>,
    store: Store,
    open: RwLock<BTreeMap<Folder, Arc<GroupBoxes>>>,
}

impl Boxes {
    /// No boxes are open yet.
    #[must_use]
    pub fn new(
        dirs: Arc<HostDirs>,
        agent: Option<Owner>,
        root: PathBuf,
        uid_base: Option<u32>,
        store: Store,
    ) -> Self {
        Self { dirs, agent, root, uid_base, store, open: RwLock::default() }
    }

    /// Returns the group's boxes, opening them when they are not yet. A group that is gone has none: work that is
    /// still under way for it makes none anew.
    ///
    /// # Errors
    /// The world's fault; the group is gone.
    pub fn of(&self, group: &Folder) -> Result<Arc<GroupBoxes>, WorldFault> {
        if let Some(boxes) = self.open().get(group) {
            return Ok(Arc::clone(boxes));
        }
        let opened = self.of_disk(group)?;
        let mut all = self.open.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(all.entry(group.clone()).or_insert(opened)))
    }

    /// Opens the group's boxes anew and returns them; those that are open stay when they can't be.
    ///
    /// # Errors
    /// As [`Boxes::of`].
    pub fn anew(&self, group: &Folder) -> Result<Arc<GroupBoxes>, WorldFault> {
        let opened = self.of_disk(group)?;
        let mut all = self.open.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(group.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    fn of_disk(&self, group: &Folder) -> Result<Arc<GroupBoxes>, WorldFault> {
        // Of a store that can't be read, nothing is removed either.
        if matches!(self.store.has_group(group), Ok(false)) {
            return Err(WorldFault::of_gone(group));
        }
        Ok(Arc::new(GroupBoxes::open(&self.dirs, group, self.owner_now(group))?))
    }

    /// Returns the boxes that are open. While the guard lives none is opened or let go of.
    pub fn open(&self) -> RwLockReadGuard<'_, BTreeMap<Folder, Arc<GroupBoxes>>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a group's boxes; returns them if they were open.
    pub fn let_go(&self, group: &Folder) -> Option<Arc<GroupBoxes>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(group)
    }

    /// Makes the folder of a group that never had one with files. A failure is logged: a launch does it again.
    pub fn lay_out(&self, group: &Folder) {
        // One that had is there, or it is lost.
        if matches!(self.store.folder_had_files(group), Ok(true)) {
            return;
        }
        if let Err(error) = lay_out_group(&self.root, group, self.agent) {
            tracing::error!(group = %group, error = %chain(&error), "laying out a group's folder failed; it is done when the group is launched");
        }
    }

    /// Makes boxes anew into which no file can be put. The group must have no container. Blocks.
    ///
    /// # Errors
    /// [`WorldFault`] when a box can't be opened or made anew.
    pub fn renew(&self, group: &Folder) -> Result<(), WorldFault> {
        let renewed = self.of(group)?.renew()?;
        if !renewed.is_empty() {
            tracing::warn!(%group, ?renewed, "nothing could be put into these boxes; they are made anew");
            // An event tells that they are gone, and has them watched anew.
            self.let_go(group);
            self.of(group)?;
        }
        Ok(())
    }

    /// Returns the owner of a group's boxes: its agent's user at the last launch. `None`: the daemon's own.
    pub fn owner_now(&self, group: &Folder) -> Option<Owner> {
        let agent = self.agent?;
        // Of a store that can't be read, nothing is launched; the next launch sees to it.
        Some(self.store.group_uid(group).unwrap_or_default().owner(agent))
    }

    /// Returns the user as which a group's agent is launched next; `None`: the daemon's own.
    ///
    /// # Errors
    /// The store's.
    pub fn owner_next(&self, group: &Folder) -> Result<Option<Owner>, StoreError> {
        let Some(agent) = self.agent else { return Ok(None) };
        let Some(base) = self.uid_base else { return Ok(Some(agent)) };
        let number = self.store.group_uid(group)?.number;
        let uid = number.and_then(|number| base.checked_add(number)).filter(|uid| *uid < u32::MAX);
        Ok(Some(uid.map_or(agent, |uid| (uid, uid))))
    }
}
