//! The loops of the daemon. Each waits for news of the store's feed or a time, reads the world, decides with `domain`, and
//! acts: one path for the normal case, the retry and the restart. What one loop commits, the others read in the feed.
//!
//! | loop | waits for | does |
//! |---|---|---|
//! | `control` | the socket | takes messages of local chats in, answers the command line |
//! | `dispatch` | messages, tasks, runs | judges the inbox, owns the lanes, starts, pipes and closes runs |
//! | `run` | one container | launches or adopts it, applies its records, judges its health, ends it |
//! | `ipc` | command files | claims, reads, settles and answers them |
//! | `schedule` | the next due instant | has `dispatch` look for due tasks |
//! | `deliver` | the outbox | says what is to be said, in order within a chat |
//! | `typing` | agents at work | shows in chats that an agent works for them |
//! | `snapshots` | what is shown | writes the files in which agents read the state of things |
//! | `search` | what is archived | keeps the index of archived sessions |
//! | `usage` | the gateway's books | stores what runs have used |
//! | `prune` | a day, where `keep_days` is set | removes what is only history |
//! | `problems` | a minute, or the end of some work | looks what a person has to mend, and tells the log of it |
//! | `intake`, no loop | the start | notes what it takes in, so that the third that dies over a group sets it aside |
//! | `reconcile`, `room` | the start, the engine, the disk | adopts or ends what an earlier daemon left, holds launches back, stops who fills the disk |

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use ipc_handlers::Folder;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channels, local::Local},
    config::Config,
    domain::{
        host::{errors::chain, problems::Problem, room::Disk, zone::Zone},
        mailbox::{bucket::Bucket, holds::Holds},
        runs::lanes::Event,
    },
    gateway::Gateway,
    ipc::{Claims, GroupBoxes, HostDirs, Owner},
    ops::ipc::Hand,
    sandbox::Sandbox,
    store::{HandoverLimits, Store},
};

use intake::Intake;
pub use keeper::Operations;
use snapshots::Snapshots;

pub mod control;
pub mod deliver;
pub mod dispatch;
pub mod intake;
pub mod ipc;
mod keeper;
pub mod problems;
pub mod prune;
pub mod reconcile;
mod room;
mod run;
pub mod schedule;
pub mod search;
pub mod snapshots;
pub mod typing;
pub mod usage;

/// What every loop works on.
pub struct Host {
    pub config: Config,
    pub root: PathBuf,
    pub store: Store,
    pub sandbox: Box<dyn Sandbox>,
    /// The containers' way to the model's host.
    pub gateway: Gateway,
    pub channels: Arc<Channels>,
    pub local: Local,
    pub dirs: Arc<HostDirs>,
    pub claims: Claims,
    pub boxes: RwLock<BTreeMap<Folder, Arc<GroupBoxes>>>,
    /// What each group may still do in this minute, by files and by what it says on stdout; see [`Host::allow`].
    pub allowances: Mutex<BTreeMap<Folder, Allowance>>,
    /// Has a place for each file that a group takes in with many others, see [`ipc::CROWD`].
    pub crowd: Semaphore,
    /// Searches that wait for their answer.
    pub searches: ipc::searches::Searches,
    /// What is kept from being claimed. Whoever claims looks while it claims.
    pub holds: RwLock<Holds>,
    /// What this start takes in of what it found.
    pub intake: Intake,
    /// User and group of containers, which own the boxes; `None`: the daemon's own.
    pub box_owner: Option<Owner>,
    /// Tasks may be due.
    pub due: Notify,
    pub snapshots: Snapshots,
    /// News for the lanes.
    pub lanes: mpsc::UnboundedSender<Event>,
    /// Requests to the ipc loop.
    pub mailboxes: mpsc::UnboundedSender<Ask>,
    /// What runs' tokens are signed with.
    pub token_key: ipc_handlers::token::Key,
    /// This root's id; a label of every container.
    pub instance: String,
    /// Instance, boot, process and its start time: who owns a run.
    pub owner: String,
    pub stop: CancellationToken,
    /// Every run is to leave, and nothing is started any more.
    pub retire: CancellationToken,
    /// Whether launching is possible is to be looked at now.
    pub look_again: Notify,
    /// Why nothing is launched, while that is so.
    pub obstacle: Mutex<Option<Obstacle>>,
    /// The operations under way.
    pub operations: keeper::Operations,
    /// What a person has to mend, as it was last seen.
    pub known_problems: Mutex<Vec<Problem>>,
    /// Groups whose runs are ended as the disk has no room for what they write, and why; until there is room again.
    pub without_room: Mutex<BTreeMap<Folder, String>>,
    /// Why no event tells of what comes into the boxes of some groups, while that is so.
    pub unwatched: Mutex<Option<String>>,
}

/// What others may ask of the loop `ipc`.
pub enum Ask {
    /// Settle everything that lies in a group's boxes; its container is dead. Answered when that is done.
    Drain(Folder, tokio::sync::oneshot::Sender<()>),
    /// Groups were added or removed, or something was held or released: open and watch what is new, let go of what is
    /// gone and remove its boxes, claim nothing that is held and look at what is held no more. Answered when that is done.
    Groups(tokio::sync::oneshot::Sender<()>),
    /// Settle a claimed file as it is, its writer done or not: a person has decided on it. Answered when that is done.
    Settle(crate::ipc::Claimed, tokio::sync::oneshot::Sender<()>),
}

/// Why nothing is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The disk has no room.
    NoRoom(String),
    /// The engine does not answer.
    Engine(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::NoRoom(why) | Self::Engine(why)) = self;
        f.write_str(why)
    }
}

/// What a group may still do.
pub struct Allowance {
    /// Commands, and records on stdout.
    pub commands: Bucket,
    /// Those of them that say something in a chat.
    pub messages: Bucket,
    /// The bytes of its command files, with their replies, and of what its records say.
    pub bytes: Bucket,
}

impl Host {
    /// Returns the group's boxes, opening them when they are not yet.
    ///
    /// # Errors
    /// The world's fault, as text for a log or a run's reason.
    pub fn boxes(&self, group: &Folder) -> Result<Arc<GroupBoxes>, crate::ipc::World> {
        if let Some(boxes) = self.boxes.read().unwrap_or_else(PoisonError::into_inner).get(group) {
            return Ok(Arc::clone(boxes));
        }
        let opened = Arc::new(GroupBoxes::open(&self.dirs, group, self.owner_now(group))?);
        let mut all = self.boxes.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(all.entry(group.clone()).or_insert(opened)))
    }

    /// Looks at what a group may still do, or takes of it. It is what it was for whichever way the group is at work; a start
    /// of the daemon makes it anew.
    pub fn allow<T>(&self, group: &Folder, look: impl FnOnce(&mut Allowance) -> T) -> T {
        let mut all = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        let allowance = all.entry(group.clone()).or_insert_with(|| {
            let now = crate::clock::now();
            Allowance {
                commands: Bucket::new(self.config.limits.commands_per_minute, now),
                messages: Bucket::new(self.config.limits.messages_per_minute, now),
                bytes: Bucket::new(self.config.limits.command_bytes_per_minute, now),
            }
        });
        look(allowance)
    }

    /// Returns whether all of a group's commands wait.
    #[must_use]
    pub fn is_held(&self, group: &Folder) -> bool {
        self.holds.read().unwrap_or_else(PoisonError::into_inner).group(group)
    }

    /// Returns whether the daemon set a group aside.
    #[must_use]
    pub fn is_aside(&self, group: &Folder) -> bool {
        self.holds.read().unwrap_or_else(PoisonError::into_inner).aside(group)
    }

    /// Looks again what is held; returns whether that has changed. From then on nothing is claimed against it.
    ///
    /// # Errors
    /// The store's.
    pub fn look_at_holds(&self) -> Result<bool, crate::store::StoreError> {
        let now = Holds::new(self.store.holds()?);
        let mut known = self.holds.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *known != now;
        *known = now;
        Ok(changed)
    }

    /// Returns what is needed to act on commands.
    #[must_use]
    pub fn hand(&self) -> Hand<'_> {
        Hand { store: &self.store, dirs: &self.dirs, claims: &self.claims }
    }

    /// Returns why nothing is launched, while that is so.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the disk as it is now, but for what is free inside of the store.
    #[must_use]
    pub fn disk(&self) -> Disk {
        let data = self.root.join("data");
        let (free_inodes, all_inodes) = crate::root::inodes(&data);
        let free = crate::root::free_bytes(&data).unwrap_or(u64::MAX);
        Disk { free, inside: 0, wanted: self.config.limits.min_free_bytes, free_inodes, all_inodes }
    }

    /// Returns the disk as it is now, with what is free inside of the store.
    #[must_use]
    pub fn whole_disk(&self) -> Disk {
        Disk { inside: self.store.size().map_or(0, |size| size.free), ..self.disk() }
    }

    /// Returns whose a group's boxes are: its agent's, as it was launched last. `None`: ours.
    pub fn owner_now(&self, group: &Folder) -> Option<Owner> {
        let agent = self.box_owner?;
        // Of a store that can't be read, nothing is launched; the next launch sees to it.
        Some(self.store.group_uid(group).unwrap_or_default().owner(agent))
    }

    /// Returns as whom a group's agent is launched next; `None`: as ourselves.
    ///
    /// # Errors
    /// The store's.
    pub fn owner_next(&self, group: &Folder) -> Result<Option<Owner>, crate::store::StoreError> {
        let Some(agent) = self.box_owner else { return Ok(None) };
        let Some(base) = self.config.sandbox.uid_base else { return Ok(Some(agent)) };
        let number = self.store.group_uid(group)?.number;
        let uid = number.and_then(|number| base.checked_add(number)).filter(|uid| *uid < u32::MAX);
        Ok(Some(uid.map_or(agent, |uid| (uid, uid))))
    }

    /// Returns why boxes are looked at without file events, while that is so.
    fn unwatched(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.unwatched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the groups that are stopped for want of room, with the reason.
    fn without_room(&self) -> std::sync::MutexGuard<'_, BTreeMap<Folder, String>> {
        self.without_room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_obstacle(&self, obstacle: Option<Obstacle>) {
        *self.obstacle.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
    }

    /// Returns what saying things needs.
    #[must_use]
    pub fn post(&self) -> deliver::Post {
        deliver::Post {
            store: self.store.clone(),
            channels: Arc::clone(&self.channels),
            unknown: self.config.outbox.on_unknown,
            stop: self.stop.clone(),
        }
    }

    /// Returns how much goes into one batch.
    #[must_use]
    pub fn handover_limits(&self) -> HandoverLimits {
        HandoverLimits {
            messages: self.config.limits.batch_messages,
            bytes: self.config.limits.batch_bytes,
            context: self.config.limits.max_context,
        }
    }

    /// Returns the folder of a run's own files, out of every container's reach.
    #[must_use]
    pub fn run_dir(&self, run: i64) -> PathBuf {
        self.root.join("data/runs").join(run.to_string())
    }

    /// Returns the folder of a run's socket, which its container sees as `/run/g2`.
    #[must_use]
    pub fn gateway_dir(&self, run: i64) -> PathBuf {
        self.run_dir(run).join("gateway")
    }

    /// Returns the zone in which a group's messages are shown; everybody's where its own can't be read.
    #[must_use]
    pub fn zone_of(&self, group: &Folder) -> Zone {
        self.store.zone_of(group, &self.config.zones).unwrap_or_else(|error| {
            tracing::error!(group = %group, error = %chain(&error), "reading a group's time zone failed");
            self.config.zones.of(None)
        })
    }
}
