//! A root that no daemon serves: what the daemon's loops would do at once is done here, or left to its start.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, OnceLock},
};

use ipc_handlers::Folder;

use super::{Keeper, Later, OpError, ipc::ByHand};
use crate::{
    domain::{
        machine::loops::LoopName,
        platforms::chats::{Listed, NotListed},
    },
    ipc::{Claimed, Claims, GroupBoxes, HostDirs, Owner, Swept, peek},
    store::{Store, StoreError},
    system::failpoint,
};

/// The keeper of a root whose lock we hold.
pub struct Alone<'a> {
    root: &'a Path,
    store: &'a Store,
    /// User and group of containers; `None`: our own.
    agent: Option<Owner>,
    dirs: OnceLock<Arc<HostDirs>>,
    claims: OnceLock<Claims>,
}

impl<'a> Alone<'a> {
    /// Keeps a root. Only for who holds its lock.
    #[must_use]
    pub fn new(root: &'a Path, store: &'a Store, agent: Option<Owner>) -> Self {
        Self { root, store, agent, dirs: OnceLock::new(), claims: OnceLock::new() }
    }

    /// Returns the folders in `data/`, opened when they are first needed.
    fn dirs(&self) -> Result<&Arc<HostDirs>, OpError> {
        if let Some(dirs) = self.dirs.get() {
            return Ok(dirs);
        }
        let dirs = HostDirs::open(&self.root.join("data"))?;
        Ok(self.dirs.get_or_init(|| dirs))
    }

    async fn lay_out(&self, group: Option<&Folder>) -> Result<(), OpError> {
        match group {
            Some(group) if self.store.has_group(group)? => self.boxes(group).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// Removes the mailbox of a group that is gone.
    fn discard_box(&self, group: &Folder) -> Result<(), OpError> {
        self.dirs()?.discard_box(group)?;
        while self.dirs()?.sweep(usize::MAX)? == (Swept::More {}) {}
        Ok(())
    }

    async fn put_away(&self, group: &Folder) -> Result<(), OpError> {
        self.discard_box(group)?;
        failpoint::reach("op.group_put_away");
        Ok(self.store.has_left(group.clone()).await?)
    }

    async fn clear(&self, group: &Folder) -> Result<(), OpError> {
        if self.store.group(group).await?.is_some() {
            return Ok(());
        }
        match self.claimed_of(group)? {
            0 => self.put_away(group).await,
            left => {
                let text = format!("{left} commands of an earlier group {group} are not settled yet");
                Err(OpError::refused(text).hint("start the daemon with `g2 start`, which settles them"))
            }
        }
    }

    fn claimed_of(&self, group: &Folder) -> Result<usize, OpError> {
        let claimed = peek::claimed(&self.root.join("data"))?;
        Ok(claimed.into_iter().filter(|claim| claim.group == group.as_str()).count())
    }

    /// Nobody is here who settles commands.
    fn check_empty(&self, group: &Folder) -> Result<(), OpError> {
        let data = self.root.join("data");
        let claimed = self.claimed_of(group)?;
        // A directory is never settled: it goes with the boxes.
        let waiting = peek::waiting(&data, [group], 1).whole()?;
        match waiting.seen - waiting.directories + claimed {
            0 => Ok(()),
            left => Err(OpError::refused(format!("{left} commands of group {group} are not settled yet"))
                .hint("start the daemon with `g2 start`, then remove the group")),
        }
    }
}

/// Returns whose a group's boxes are, where containers run as `agent`; `None`: ours.
///
/// # Errors
/// The store's.
pub fn owner_of(store: &Store, group: &Folder, agent: Option<Owner>) -> Result<Option<Owner>, StoreError> {
    let Some(agent) = agent else { return Ok(None) };
    Ok(Some(store.group_uid(group)?.owner(agent)))
}

impl Keeper for Alone<'_> {
    fn changed<'a>(&'a self, group: Option<&'a Folder>) -> Later<'a, Result<(), OpError>> {
        Box::pin(async move { self.lay_out(group).await })
    }

    fn settings(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn waits(&self, _: &Folder, _: i64) {}

    fn wake(&self, _: &Folder, _: &[i64]) {}

    fn pushes(&self) {}

    fn backs_up(&self) {}

    fn clear<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>> {
        Box::pin(Alone::clear(self, group))
    }

    fn rules_changed(&self, _: &Folder) -> Result<(), OpError> {
        Ok(())
    }

    fn relaunch(&self, _: &Folder) {}

    fn has_its_folder(&self, _: &Folder) {}

    fn stop_run(&self, _: &Folder, _: i64) {}

    fn keep_out(&self, _: &Folder) -> Result<(), OpError> {
        Ok(())
    }

    fn let_in(&self, _: &Folder) {}

    fn empty<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>> {
        Box::pin(async move { self.check_empty(group) })
    }

    fn put_away<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<usize, OpError>> {
        Box::pin(async move { Alone::put_away(self, group).await.map(|()| 0) })
    }

    fn boxes(&self, group: &Folder) -> Result<Arc<GroupBoxes>, OpError> {
        let owner = owner_of(self.store, group, self.agent)?;
        Ok(Arc::new(GroupBoxes::open(self.dirs()?, group, owner)?))
    }

    fn hand(&self) -> Result<ByHand<'_>, OpError> {
        let dirs = self.dirs()?;
        let claims = match self.claims.get() {
            Some(claims) => claims,
            None => {
                let opened = Claims::open(dirs, self.store.last_claim()?)?;
                self.claims.get_or_init(|| opened)
            }
        };
        Ok(ByHand { store: self.store, dirs, claims })
    }

    fn settle(&self, claimed: Claimed) -> Later<'_, Option<Claimed>> {
        Box::pin(std::future::ready(Some(claimed)))
    }

    /// Nobody is connected.
    fn list_chats<'a>(&'a self, accounts: &'a [String]) -> Later<'a, BTreeMap<String, Listed>> {
        let offline = |account: &String| (account.clone(), Listed::Not(NotListed::Offline));
        Box::pin(std::future::ready(accounts.iter().map(offline).collect()))
    }

    fn release_keys<'a>(&'a self, _: LoopName, _: Option<&'a str>) -> Later<'a, Result<usize, OpError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn is_serving(&self) -> bool {
        false
    }
}
