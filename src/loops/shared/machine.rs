//! The machine as the daemon last saw it: whether anything can be launched, which groups are stopped for want of space,
//! whether file events come, what of the groups' own files can't be taken, and what can't be removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use ipc_handlers::Folder;
use tokio::sync::Notify;

use super::Troubles;
use crate::{
    config::Live,
    domain::{kept::disk::Disk, runs::heartbeat::Fault},
    engine::Loops,
    store::Store,
    system::{locked::Locked as _, world::World},
};

/// The machine as the daemon last saw it.
pub struct Machine {
    /// The time, chance and threads of the loops.
    pub world: World,
    /// `data/` of the root.
    data: PathBuf,
    config: Arc<Live>,
    store: Store,
    /// Work of the daemon's own that is tried again.
    pub troubles: Arc<Troubles>,
    /// How the loops stand.
    pub loops: Arc<Loops>,
    /// Asks for a look now whether launching is possible.
    pub look_again: Notify,
    /// Asks for a look now at runs that wait for a person.
    pub look_at_runs: Notify,
    unread: Mutex<Option<String>>,
    obstacle: Mutex<Option<Obstacle>>,
    without_space: Mutex<BTreeMap<Folder, String>>,
    unwatched: Mutex<BTreeMap<Option<Folder>, Blind>>,
    heartbeats: Mutex<BTreeMap<Folder, Vec<Fault>>>,
    remains: Mutex<BTreeMap<Folder, String>>,
    lost: Mutex<BTreeSet<Folder>>,
    /// Why the operator's page can't be served.
    page: Mutex<Option<String>>,
    problems: AtomicUsize,
}

/// Why commands of a group are found late, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blind {
    /// Its boxes can't be opened: as many files are open as may be.
    NoFiles,
    /// Anything else, as it is told.
    Why(String),
}

impl std::fmt::Display for Blind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoFiles => "as many files are open as may be",
            Self::Why(why) => why,
        })
    }
}

/// Why nothing is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Too little disk space is free.
    NoSpace(String),
    /// The engine does not answer.
    Engine(String),
    /// The runs of an earlier daemon can't be read, and one of them may be at work.
    RunsUnread(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::NoSpace(why) | Self::Engine(why) | Self::RunsUnread(why)) = self;
        f.write_str(why)
    }
}

impl Machine {
    /// Nothing is in the way yet.
    #[must_use]
    pub fn new(
        world: World,
        data: PathBuf,
        config: Arc<Live>,
        store: Store,
        troubles: Arc<Troubles>,
    ) -> Self {
        let loops = Arc::new(Loops::new(world.clone()));
        Self {
            world,
            data,
            config,
            store,
            troubles,
            loops,
            look_again: Notify::new(),
            look_at_runs: Notify::new(),
            unread: Mutex::default(),
            obstacle: Mutex::default(),
            without_space: Mutex::default(),
            unwatched: Mutex::default(),
            heartbeats: Mutex::default(),
            remains: Mutex::default(),
            lost: Mutex::default(),
            page: Mutex::default(),
            problems: AtomicUsize::new(0),
        }
    }

    /// Returns why nothing is launched, while that is so.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        let unread = self.unread.locked().clone();
        unread.map(Obstacle::RunsUnread).or_else(|| self.obstacle_of_the_world())
    }

    /// Notes why the operator's page can't be served; `None`: it is.
    pub fn page_stands(&self, why: Option<String>) {
        *self.page.locked() = why;
    }

    /// Returns why the operator's page can't be served.
    #[must_use]
    pub fn page_fault(&self) -> Option<String> {
        self.page.locked().clone()
    }

    /// Notes why the runs of an earlier daemon can't be read; `None`: they are read.
    pub fn set_unread(&self, why: Option<String>) {
        *self.unread.locked() = why;
    }

    fn obstacle_of_the_world(&self) -> Option<Obstacle> {
        self.obstacle.locked().clone()
    }

    /// Notes why the world lets nothing be launched; `None`: it does.
    pub fn set_obstacle(&self, obstacle: Option<Obstacle>) {
        *self.obstacle.locked() = obstacle;
    }

    /// Returns the groups that are stopped for want of disk space, each with the reason.
    pub fn without_space(&self) -> MutexGuard<'_, BTreeMap<Folder, String>> {
        self.without_space.locked()
    }

    /// Returns why groups' boxes can't be opened or are polled instead of watched, while that is so: of a group for a reason
    /// of its own, of no group for what all share.
    pub fn unwatched(&self) -> MutexGuard<'_, BTreeMap<Option<Folder>, Blind>> {
        self.unwatched.locked()
    }

    /// Returns the groups of whose `HEARTBEAT.md` something can't be taken, each with what.
    pub fn heartbeats(&self) -> MutexGuard<'_, BTreeMap<Folder, Vec<Fault>>> {
        self.heartbeats.locked()
    }

    /// Returns the groups that were removed and of which something is left, each with why.
    pub fn remains(&self) -> MutexGuard<'_, BTreeMap<Folder, String>> {
        self.remains.locked()
    }

    /// Returns the groups whose folders are lost.
    pub fn lost(&self) -> MutexGuard<'_, BTreeSet<Folder>> {
        self.lost.locked()
    }

    /// Returns how many problems wait for a person, as the last look found.
    pub fn problems(&self) -> usize {
        self.problems.load(Ordering::Relaxed)
    }

    /// Notes how many problems a look found.
    pub fn note_problems(&self, count: usize) {
        self.problems.store(count, Ordering::Relaxed);
    }

    /// Returns the disk as it is now, but for the pages that are free inside of the store.
    #[must_use]
    pub fn disk(&self) -> Disk {
        let (free_inodes, all_inodes) = crate::system::disk::inodes(&self.data);
        let free = crate::system::disk::free_bytes(&self.data).unwrap_or(u64::MAX);
        Disk { free, inside: 0, wanted: self.config.now().limits.min_free_bytes, free_inodes, all_inodes }
    }

    /// Returns the disk as it is now, with the pages that are free inside of the store.
    #[must_use]
    pub fn whole_disk(&self) -> Disk {
        Disk { inside: self.store.size().map_or(0, |size| size.free), ..self.disk() }
    }
}
