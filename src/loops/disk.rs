//! Watches free disk space, and stops the group that fills the disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ipc_handlers::{Folder, Time};

use super::{Machine, ToLanes};
use crate::{
    config::Live,
    domain::{
        kept::disk::{self, A_NAME, Admission, Disk, Filler, Free, LEAST, Space, Written},
        runs::lanes::{Event, Holding},
        shown::errors::chain,
    },
    ipc::{BoxName, Weight, weigh},
    store::{Store, StoreError},
};

/// How many names of one of a group's folders are weighed.
const NAMES: usize = 500_000;

/// How long space must be low before a group is stopped for it.
const LASTS: Duration = Duration::from_secs(3);

/// How many groups a notice names.
const NAMED: usize = 8;

/// The parts of the daemon that this needs.
pub(super) struct Ground {
    pub config: Arc<Live>,
    pub root: PathBuf,
    pub store: Store,
    pub machine: Arc<Machine>,
    /// News for the lanes.
    pub lanes: ToLanes,
}

/// The memory from one look to the next.
#[derive(Default)]
pub(super) struct Watched {
    /// The weight of running groups' folders when they were first weighed since there was plenty of space, or since a group was
    /// stopped: the stopped group's files stay, and must not count against its neighbours.
    before: BTreeMap<Folder, u64>,
    /// Since when space is low, or short.
    low_since: Option<Instant>,
    /// The free room when no group was found to have written enough.
    nobody_at: Option<Free>,
    /// When this daemon last saw enough space, and how much.
    room: Option<(Time, Free)>,
    /// What groups had in the store then.
    stored: BTreeMap<Folder, u64>,
    /// Groups whose commands wait because they have more in the store than the space that is left; main's chat was told.
    ahead: BTreeSet<Folder>,
    /// The free space when there was plenty of it last, or when `before` was weighed, whichever is later.
    free: Option<Free>,
    /// No group's folders show what fills the disk, and main's chat was told.
    not_seen: bool,
}

impl Watched {
    /// Whether the disk is filled by what no group's folders show.
    pub(super) const fn is_filled_unseen(&self) -> bool {
        self.not_seen
    }

    /// Looks at the disk, and if space is low, stops the group that fills it. Returns how much space there is.
    pub(super) async fn look(&mut self, ground: &Arc<Ground>) -> Space {
        let looked_at = ground.machine.world.now();
        let disk = ground.machine.whole_disk();
        let free_now = disk.all_free();
        let room = disk::space(&disk);
        // Without the sizes in the store nobody is stopped, and nobody released.
        let Some(stored) = stored(ground) else { return room };
        self.look_at_the_store(ground, &stored, &disk).await;
        tracing::debug!(free = free_now.bytes, ?room, "the disk was looked at");
        match room {
            Space::Enough => {
                let now = Some((looked_at, free_now));
                if self.low_since.take().is_some() || !disk.is_near() {
                    self.before.clear();
                    (self.free, self.room) = (Some(free_now), now);
                }
                if disk.is_near() {
                    self.weigh_before(ground, &stored, free_now).await;
                }
                self.room = now;
                self.nobody_at = None;
                self.not_seen = false;
                release(ground, &stored);
                self.stored = stored;
            }
            Space::Low { .. } if self.low_since.is_none() => {
                self.low_since = Some(ground.machine.world.monotonic());
                self.weigh_before(ground, &stored, free_now).await;
            }
            Space::Low { missing } if self.has_lasted(ground.machine.world.monotonic()) => {
                // It may stay low for days: nobody is weighed each time while nobody can have written enough.
                if self.nobody_at.is_none_or(|then| disk::lost(then, free_now) >= LEAST) {
                    self.find_who_fills(ground, &stored, &disk, missing).await;
                }
            }
            Space::Low { .. } => {}
            Space::Short { missing } => {
                self.low_since.get_or_insert_with(|| ground.machine.world.monotonic());
                self.find_who_fills(ground, &stored, &disk, missing).await;
            }
        }
        room
    }

    fn has_lasted(&self, now: Instant) -> bool {
        self.low_since.is_some_and(|since| now.duration_since(since) >= LASTS)
    }

    /// Returns how much a group wrote since there was enough space.
    fn wrote(&self, weight: &Weight, free_now: Free) -> Option<u64> {
        self.room.map(|(_, then)| disk::wrote(weight.changed, disk::lost(then, free_now)))
    }

    /// Weighs groups that were not weighed yet, to know later how much they grew.
    async fn weigh_before(&mut self, ground: &Arc<Ground>, stored: &BTreeMap<Folder, u64>, free_now: Free) {
        let now = self.weigh(ground, stored, Whom::New).await;
        self.free.get_or_insert(free_now);
        for (group, weight) in now {
            let before = weight.all - self.wrote(&weight, free_now).unwrap_or(0);
            self.before.insert(group, before);
        }
    }

    /// Stops the group that fills the disk; `missing` bytes are wanted. If no group does, tells main's chat so.
    async fn find_who_fills(
        &mut self,
        ground: &Arc<Ground>,
        stored: &BTreeMap<Folder, u64>,
        disk: &Disk,
        missing: u64,
    ) {
        let free_now = disk.all_free();
        let lost = self.free.map_or(0, |then| disk::lost(then, free_now));
        let now = self.weigh(ground, stored, Whom::All).await;
        let written = |(group, now): (&Folder, &Weight)| Written {
            group: group.clone(),
            now: now.all,
            before: self.before.get(group).copied(),
            wrote: self.wrote(now, free_now),
        };
        let written: Vec<Written> = now.iter().map(written).collect();
        let free_mib = disk.free >> 20;
        self.nobody_at = None;
        match disk::filler(missing, lost, &written) {
            Filler::Groups(groups, grown) => {
                for group in groups {
                    let put = stored.get(group).unwrap_or(&0) >> 20;
                    let why =
                        format!("the group wrote {} MiB lately; it has {put} MiB in the store", grown >> 20);
                    stop_for_the_disk(ground, group, free_mib, &why).await;
                }
                self.weigh_anew();
            }
            Filler::NotSeen => {
                self.nobody_at = Some(free_now);
                if !self.not_seen && ground.machine.without_space().is_empty() {
                    self.not_seen = true;
                    tell_of_nobody(ground, free_mib, &partly_weighed(&now)).await;
                }
            }
            Filler::NotKnown => {}
        }
        for (group, weight) in now {
            self.before.entry(group).or_insert(weight.all);
        }
        self.free.get_or_insert(free_now);
    }

    /// Stops groups that have far more in the store than they may, and tells main's chat whose commands wait.
    async fn look_at_the_store(&mut self, ground: &Ground, stored: &BTreeMap<Folder, u64>, disk: &Disk) {
        let most = ground.config.now().limits.stored_bytes;
        for (group, bytes) in stored {
            let (mib, left) = (bytes >> 20, disk.left() >> 20);
            if disk::is_over(*bytes, most) {
                let reason =
                    format!("{mib} MiB of it are in the store, and at most {} MiB are kept", most >> 20);
                stop(ground, group, reason, "It goes on when it has less there").await;
            } else if disk::admission(*bytes, most, disk) == Admission::Ahead
                && self.ahead.insert(group.clone())
            {
                tracing::warn!(group = %group, mib, left, "a group has more in the store than what is left of the disk; its commands wait");
                let text = format!(
                    "The group {group} has {mib} MiB in the store, and only {left} MiB are left before nothing is started any more. So its commands wait until there is room, and nobody else's. {HOW}."
                );
                tell_main(ground, text, format!("{group} has more than what is left")).await;
            }
        }
        // A group that writes on as soon as it may is not told of each time.
        self.ahead.retain(|group| stored.get(group).is_some_and(|bytes| *bytes > disk.left() / 2));
    }

    /// Weighs every group anew from here on: the stopped group's files stay.
    fn weigh_anew(&mut self) {
        self.before.clear();
        self.room = None;
        self.free = None;
    }
}

/// Which groups are weighed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    All,
    /// Those that were not weighed yet.
    New,
}

/// How people get space back from the store.
const HOW: &str = "`g2 prune` removes what is only history, `g2 tasks remove` tasks; `limits.stored_mib` is how much is kept of a group";

/// Returns what each group has in the store; `None`: it can't be read, which is logged.
fn stored(ground: &Ground) -> Option<BTreeMap<Folder, u64>> {
    let log = |error: &StoreError| tracing::warn!(error = %chain(error), "reading the size of groups in the store failed; it is read again in some seconds");
    ground.store.stored().inspect_err(log).ok()
}

impl Watched {
    /// Weighs the folders of groups that run, or that put something into the store, with their kept commands and their rows in
    /// the store; and how much of that was changed since there was enough space.
    async fn weigh(
        &self,
        ground: &Arc<Ground>,
        stored: &BTreeMap<Folder, u64>,
        whom: Whom,
    ) -> BTreeMap<Folder, Weight> {
        let running = match ground.store.active_runs() {
            Ok(runs) => runs,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "reading the active runs failed; nobody's folders are weighed");
                return BTreeMap::new();
            }
        };
        let mut groups: BTreeSet<Folder> = running.into_iter().map(|run| run.group).collect();
        // A group's rows in the store, and how much they grew since there was enough space.
        let mut put = BTreeMap::new();
        for (group, bytes) in stored {
            let grown = bytes.saturating_sub(*self.stored.get(group).unwrap_or(&0));
            if grown > 0 {
                groups.insert(group.clone());
            }
            put.insert(group.clone(), Weight { all: *bytes, changed: grown, gap: None });
        }
        if whom == Whom::New {
            groups.retain(|group| !self.before.contains_key(group));
        }
        let at_work = Arc::clone(ground);
        let since = self.room.map_or(Time(i64::MAX), |(at, _)| at);
        let weigh_one = move |group: Folder| {
            let folders = folders_of(&at_work, &group);
            let mut whole = put.get(&group).copied().unwrap_or_default();
            for folder in &folders {
                whole += weigh(folder, A_NAME, NAMES, since);
            }
            (group, whole)
        };
        let weigh_them = move || groups.into_iter().map(weigh_one).collect();
        ground.machine.world.blocking(weigh_them).await.unwrap_or_else(|fault| {
            tracing::error!(fault = %chain(&fault), "our own fault: weighing the folders of groups failed");
            BTreeMap::new()
        })
    }
}

/// The folders that a group writes to. Snapshots and other files of the daemon beside its boxes are not the group's.
fn folders_of(ground: &Ground, group: &Folder) -> Vec<PathBuf> {
    let boxes =
        BoxName::ALL.map(|name| ground.root.join("data/ipc").join(group.as_str()).join(name.as_str()));
    let places = ["groups", "data/sessions", "data/done", "data/dead"];
    let own = places.map(|place| ground.root.join(place).join(group.as_str()));
    own.into_iter().chain(boxes).collect()
}

/// Releases stopped groups, except those that still have too much in the store.
fn release(ground: &Ground, stored: &BTreeMap<Folder, u64>) {
    let most = ground.config.now().limits.stored_bytes;
    let is_over = |group: &Folder| stored.get(group).is_some_and(|bytes| disk::is_over(*bytes, most));
    ground.machine.without_space().retain(|group, _| {
        let stays = is_over(group);
        if !stays {
            ground.lanes.tell(Event::Release { group: group.clone(), reason: Holding::NoSpace });
        }
        stays
    });
}

/// Returns the groups whose folders can't be weighed in full, each with the reason, the first [`NAMED`] of them.
fn partly_weighed(weights: &BTreeMap<Folder, Weight>) -> String {
    let partly = weights.iter().filter_map(|(group, weight)| Some(format!("{group} ({})", weight.gap?)));
    partly.take(NAMED).collect::<Vec<_>>().join(", ")
}

/// Stops a group that fills the disk.
async fn stop_for_the_disk(ground: &Ground, group: &Folder, free_mib: u64, why: &str) {
    let reason = format!("the disk is nearly full ({free_mib} MiB are free), and {why}");
    let look = format!(
        "Nothing is started until there is room again; look into groups/{group}, data/sessions/{group} and data/ipc/{group}"
    );
    stop(ground, group, reason, &look).await;
}

/// Kills a group's run, and starts nothing and takes no command of it. Main's chat is told once.
async fn stop(ground: &Ground, group: &Folder, reason: String, then: &str) {
    if ground.machine.without_space().insert(group.clone(), reason.clone()).is_some() {
        return;
    }
    ground.lanes.tell(Event::Hold { group: group.clone(), reason: Holding::NoSpace });
    tracing::error!(group = %group, reason, "stopping a group");
    let text = format!("I stopped the group {group}: {reason}. {then}. {HOW}.");
    tell_main(ground, text, format!("no room for {group}")).await;
}

/// Has main's chat told that no group was seen filling the disk.
async fn tell_of_nobody(ground: &Ground, free_mib: u64, partly: &str) {
    tracing::error!(free_mib, partly, "the disk is nearly full, and no group was seen filling it");
    let partly = if partly.is_empty() {
        String::new()
    } else {
        format!(" Not weighed in full: the folders of {partly}.")
    };
    let text = format!(
        "The disk is nearly full ({free_mib} MiB are free). No group's folders show who fills it, so I stopped nobody: it is something else, or files that were removed and that a process still holds open.{partly} Nothing is started and no command is taken in until there is room again."
    );
    tell_main(ground, text, "no room".to_owned()).await;
}

async fn tell_main(ground: &Ground, text: String, cause: String) {
    let told = match ground.store.chat_of_main().await {
        Ok(Some(chat)) => ground.store.tell(chat, text, cause, ground.machine.world.now()).await,
        Ok(None) => return tracing::warn!("no chat is main's, so nobody is told"),
        Err(error) => Err(error),
    };
    if let Err(error) = told {
        tracing::error!(error = %chain(&error), "telling main of it failed");
    }
}
