//! Removes files that nothing needs any more, of each group those beyond its bounds; and weighs what each group takes on the
//! disk. A person has the first done by `g2 prune`, with the daemon up or down.
//!
//! Of a run that has ended, its folder goes first, and then its row says so. A crash leaves either, and the next pass does the
//! rest: it looks at the rows and at the folders.
//!
//! | a crash after | leaves | the next pass |
//! |---|---|---|
//! | some files of a run are removed | its folder, and its row as it was | removes the rest |
//! | the folder is removed (`housekeeping.run`) | its row as it was | finds no folder, and changes the row |
//! | the rows are changed (`housekeeping.runs`) | nothing | |
//! | a file of a session is removed (`old.removed`) | the others | looks anew |
//!
//! The needed sessions are asked for before the files are looked at. A session that becomes needed after that was so before (it was
//! archived, or a lane's), or it is new, and then its files are young.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ipc_handlers::{Folder, Time};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Housekeeping, Live},
    domain::{
        kept::{
            disk::A_NAME,
            housekeeping::{Aged, Bounds, GroupDisk, outlived},
            prune::{DAY_MS, pause},
        },
        machine::loops::LoopName,
        shown::errors::chain,
    },
    engine::{Error, Loop, Plan, Sole, Then, Why, until_stop},
    ipc::{self, Gap, OldFile, Removed, Weight, WorldFault, old_files, remove_old, weigh},
    root,
    store::{FilesOfRun, Needed, Store, StoreError},
    system::{failpoint, locked::Locked as _, panics::Panicked, world::World},
};

/// How many names of a group's `.claude` are looked at at a time, and how often in one pass.
const NAMES: usize = 100_000;
const ROUNDS: usize = 20;
/// How many names of a group's replies are looked at.
const REPLIES: usize = 10_000;
/// How many files, or runs, are removed in one step.
const STEP: usize = 250;
/// How many names of each of a group's folders are weighed.
const WEIGHED: usize = 500_000;
/// How long after the start groups are weighed first, and how often from then on.
const WEIGH_FIRST: Duration = Duration::from_secs(60);
const WEIGH_EVERY: Duration = Duration::from_hours(1);
/// How often weights are noted while groups are weighed: a commit for each small group costs more than weighing it.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// Whether rows are removed or counted, and whether a daemon works on the store meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing is removed; it is counted what would be.
    DryRun,
    /// A daemon is at work: it has the store for longer than we have.
    Beside,
    Alone,
}

/// Why it ended early. The steps before it are done.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    World(#[from] WorldFault),
    #[error("looking at the folders of runs failed")]
    Folders(#[source] std::io::Error),
    #[error("a fault of our own")]
    Fault(#[from] Panicked),
}

impl From<PruneError> for Error {
    fn from(error: PruneError) -> Self {
        match error {
            PruneError::Store(error) => error.into(),
            PruneError::Fault(fault) => fault.into(),
            PruneError::World(_) | PruneError::Folders(_) => Self::world(&error),
        }
    }
}

/// The removed files, or those that would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Housekept {
    /// Runs whose files went.
    pub runs: usize,
    pub run_bytes: u64,
    /// What agents' programs had kept for themselves.
    pub sessions: Removed,
}

/// Removes files that nothing needs any more, or counts them, but not those of runs that are removed `elsewhere`.
///
/// # Errors
/// [`PruneError`]. A group whose folder can't be looked at is logged, and the others go on.
pub async fn housekeep(
    world: &World,
    store: &Store,
    root: &Path,
    bounds: &Housekeeping,
    now: Time,
    (how, elsewhere): (How, &BTreeSet<i64>),
) -> Result<Housekept, PruneError> {
    let mut kept = Housekept::default();
    let (runs, bytes) = runs(world, store, root, bounds.runs(), now, (how, elsewhere)).await?;
    (kept.runs, kept.run_bytes) = (runs, bytes);
    let groups = store.groups().await?;
    if how != How::DryRun {
        for group in &groups {
            replies(world, store, root, &group.folder, now).await?;
        }
    }
    if bounds.sessions().are_none() {
        return Ok(kept);
    }
    for group in groups {
        kept.sessions += sessions(world, store, root, group.folder, bounds.sessions(), now, how).await?;
    }
    Ok(kept)
}

/// Removes replies to commands of no run that are a day old. Others go when a run of their group begins.
async fn replies(
    world: &World,
    store: &Store,
    root: &Path,
    group: &Folder,
    now: Time,
) -> Result<(), PruneError> {
    let (store, data, group) = (store.clone(), root.join("data"), group.clone());
    let done = blocking(world, move || {
        let ids = ipc::replies(&data, &group, REPLIES)?;
        let outlived = store.outlived_requests(&group, &ids, now.plus_ms(-DAY_MS))?;
        Ok(ipc::remove_replies(&data, &group, &outlived).map_err(|error| (group, error)))
    });
    if let Err((group, error)) = done.await? {
        tracing::warn!(%group, error = %chain(&error), "old replies can't be removed");
    }
    Ok(())
}

/// Removes files of runs; returns of how many, and their bytes.
async fn runs(
    world: &World,
    store: &Store,
    root: &Path,
    bounds: Bounds,
    now: Time,
    (how, elsewhere): (How, &BTreeSet<i64>),
) -> Result<(usize, u64), PruneError> {
    if bounds.are_none() {
        return Ok((0, 0));
    }
    let (of, data) = (store.clone(), root.join("data"));
    let found = blocking(world, move || {
        let folders = root::folders_of_runs(&data).map_err(PruneError::Folders)?;
        Ok(of.runs_with_files(&folders)?)
    })
    .await?;
    let mut by_group: BTreeMap<Folder, Vec<FilesOfRun>> = BTreeMap::new();
    for files in found.into_iter().filter(|files| !elsewhere.contains(&files.run)) {
        by_group.entry(files.group.clone()).or_default().push(files);
    }
    let (mut count, mut bytes) = (0, 0);
    for runs in by_group.into_values() {
        let aged = |run: &FilesOfRun| Aged { changed: run.ended_at, bytes: run.bytes, is_needed: false };
        let goes = outlived(&runs.iter().map(aged).collect::<Vec<_>>(), bounds, now);
        let goes: Vec<&FilesOfRun> = goes.into_iter().map(|at| &runs[at]).collect();
        count += goes.len();
        bytes += goes.iter().map(|run| run.bytes).sum::<u64>();
        if how == How::DryRun {
            continue;
        }
        for step in goes.chunks(STEP) {
            let began = world.monotonic();
            let (data, ids) = (root.join("data"), step.iter().map(|run| run.run).collect::<Vec<_>>());
            let gone = ids.clone();
            blocking(world, move || {
                for run in ids {
                    root::remove_files_of_run(&data, run).map_err(PruneError::Folders)?;
                    failpoint::reach("housekeeping.run");
                }
                Ok(())
            })
            .await?;
            store.runs_without_files(gone).await?;
            failpoint::reach("housekeeping.runs");
            rest(world, how, began).await;
        }
    }
    Ok((count, bytes))
}

/// Removes what a group's agent keeps of sessions that nothing needs any more.
async fn sessions(
    world: &World,
    store: &Store,
    root: &Path,
    group: Folder,
    bounds: Bounds,
    now: Time,
    how: How,
) -> Result<Removed, PruneError> {
    let mut all = Removed::default();
    for _ in 0..ROUNDS {
        let needed = store.needed_sessions(&group)?;
        let (path, of) = (root.to_owned(), group.clone());
        let looked = blocking(world, move || {
            let looked = old_files(&path, &of, NAMES)?;
            Ok((going(looked.files, &needed, bounds, now), looked.partial))
        })
        .await;
        let (goes, partial) = match looked {
            Ok(looked) => looked,
            Err(PruneError::World(error)) => {
                tracing::warn!(group = %group, error = %chain(&error), "what an agent keeps of its sessions can't be looked at");
                return Ok(all);
            }
            Err(error) => return Err(error),
        };
        if how == How::DryRun {
            let files = goes.iter().filter(|file| !file.is_folder).count();
            return Ok(Removed { files, bytes: goes.iter().map(|file| file.bytes).sum(), stuck: 0 });
        }
        let mut removed = Removed::default();
        for step in goes.chunks(STEP) {
            let began = world.monotonic();
            let (path, of, step) = (root.to_owned(), group.clone(), step.to_vec());
            removed += blocking(world, move || Ok(remove_old(&path, &of, &step)?)).await?;
            rest(world, how, began).await;
        }
        all += removed;
        // The rest is looked at again where room was made for it.
        if !partial || removed.files == 0 {
            break;
        }
    }
    if all.stuck > 0 {
        tracing::warn!(group = %group, files = all.stuck, "old files of sessions can't be removed");
    }
    Ok(all)
}

/// Returns which files go.
fn going(mut files: Vec<OldFile>, needed: &Needed, bounds: Bounds, now: Time) -> Vec<OldFile> {
    let aged = |file: &OldFile| Aged {
        changed: file.changed,
        bytes: file.bytes,
        is_needed: file.session.as_ref().is_some_and(|id| needed.sessions.contains(id))
            || needed.busy_since.is_some_and(|since| file.changed >= since),
    };
    let mut goes = outlived(&files.iter().map(aged).collect::<Vec<_>>(), bounds, now);
    // As they were found: folders after their contents.
    goes.sort_unstable();
    let mut at = 0;
    let mut goes = goes.into_iter().peekable();
    files.retain(|_| {
        let is_it = goes.next_if_eq(&at).is_some();
        at += 1;
        is_it
    });
    files
}

/// Leaves the disk to others after a step, where a daemon is at work.
async fn rest(world: &World, how: How, began: Instant) {
    if how == How::Beside {
        tokio::time::sleep(pause(world.monotonic().duration_since(began))).await;
    }
}

/// Does what may block on a thread that may.
pub(super) async fn blocking<T: Send + 'static>(
    world: &World,
    work: impl FnOnce() -> Result<T, PruneError> + Send + 'static,
) -> Result<T, PruneError> {
    world.blocking(work).await?
}

/// Weighs every group after a minute and then each hour, one after the other.
pub struct Weighing {
    scales: Arc<Scales>,
    /// How long after the start groups are weighed first.
    first: Duration,
    began: bool,
}

/// What groups are weighed with.
pub struct Scales {
    world: World,
    store: Store,
    root: PathBuf,
    /// Groups that are still to be weighed this time; `None`: all.
    left: Mutex<Option<BTreeSet<Folder>>>,
}

impl Weighing {
    #[must_use]
    pub fn new(world: World, store: Store, root: PathBuf, config: Arc<Live>) -> Self {
        let first = WEIGH_FIRST.min(config.now().limits.keep_first);
        let scales = Scales { world, store, root, left: Mutex::default() };
        Self { scales: Arc::new(scales), first, began: false }
    }
}

impl Loop for Weighing {
    const NAME: LoopName = LoopName::Housekeeping;
    /// It walks through folders.
    const RESTS_AT_MOST: Duration = Duration::from_mins(10);
    type Key = Sole;
    type Job = ();
    type Hands = Scales;

    fn hands(&self) -> Arc<Scales> {
        Arc::clone(&self.scales)
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        if !std::mem::replace(&mut self.began, true) {
            return Ok(Plan::again(self.first));
        }
        *self.scales.left.locked() = None;
        Ok(Plan { begin: vec![(Sole, ())], again: Some(WEIGH_EVERY), ..Plan::default() })
    }

    /// Weighs those that are left. At a stop that is let go.
    async fn perform(scales: Arc<Scales>, _: Sole, (): (), stop: CancellationToken) -> Result<Then, Error> {
        let data = scales.root.join("data");
        if let Err(error) = scales.world.tried(move || root::turn_daemon_log(&data)).await {
            tracing::warn!(error = %chain(&error), "data/daemon.log can't be turned over; the next hour does it");
        }
        let weighed = until_stop(&stop, scales.weigh_all()).await;
        weighed.unwrap_or(Ok(()))?;
        Ok(Then::Done)
    }
}

impl Scales {
    /// Weighs the groups that are left, and notes what can be. Those that can't be weighed or noted are left.
    async fn weigh_all(&self) -> Result<(), PruneError> {
        let left = self.left.locked().clone();
        let is_left = |group: &Folder| left.as_ref().is_none_or(|left| left.contains(group));
        let groups: Vec<Folder> = self.store.groups().await?.into_iter().map(|group| group.folder).collect();
        let groups: Vec<Folder> = groups.into_iter().filter(is_left).collect();
        *self.left.locked() = Some(groups.iter().cloned().collect());
        let world = &self.world;
        let (mut weighed, mut first) = (Vec::new(), world.monotonic());
        let mut outcome = Ok(());
        for group in groups {
            let began = world.monotonic();
            let (of, path, folder) = (self.store.clone(), self.root.clone(), group.clone());
            match blocking(world, move || Ok(weigh_group(&of, &path, &folder)?)).await {
                Ok(disk) => weighed.push((group, disk, world.now())),
                // The others are noted all the same.
                Err(error) => outcome = Err(error),
            }
            if world.monotonic().duration_since(first) >= NOTED_EVERY {
                self.note(std::mem::take(&mut weighed)).await?;
                first = world.monotonic();
            }
            rest(world, How::Beside, began).await;
        }
        self.note(weighed).await?;
        outcome?;
        *self.left.locked() = None;
        Ok(())
    }

    async fn note(&self, weighed: Vec<(Folder, GroupDisk, Time)>) -> Result<(), PruneError> {
        let groups: Vec<Folder> = weighed.iter().map(|(group, ..)| group.clone()).collect();
        self.store.weighed(weighed).await?;
        let mut left = self.left.locked();
        if let Some(left) = left.as_mut() {
            left.retain(|group| !groups.contains(group));
        }
        Ok(())
    }
}

/// Returns what a group takes on the disk now. Blocks.
///
/// # Errors
/// The store's.
pub fn weigh_group(store: &Store, root: &Path, group: &Folder) -> crate::store::Result<GroupDisk> {
    let mut gap: Option<Gap> = None;
    let mut at = |place: &str| {
        let Weight { all, gap: more, .. } =
            weigh(&root.join(place).join(group.as_str()), A_NAME, WEIGHED, Time(i64::MAX));
        gap = gap.or(more);
        all
    };
    let (working_folder, sessions, media) = (at("groups"), at("data/sessions"), at("data/media-of"));
    let mailbox = ["data/ipc", "data/done", "data/dead"].map(&mut at).into_iter().sum();
    let runs = store.bytes_of_runs(group)?;
    Ok(GroupDisk { working_folder, sessions, runs, media, mailbox, partial: gap.is_some() })
}
