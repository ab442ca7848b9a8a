//! Removes old history: for a person, with the daemon up or down, and for the daemon if `keep_days` is set. The steps are the
//! same.
//!
//! A receipt is the proof that a command file was dealt with. Before one goes, its file must be gone for good: first it
//! is looked what waits in the boxes, then what is claimed (a file on its way is seen at one of the two), then the file
//! system is synced. A file that is not there then never comes back, and a receipt that one of the two may need stays. So do runs:
//! the token of a command that waits, is claimed or is tried again names one.
//!
//! | a crash after | leaves | the next pass |
//! |---|---|---|
//! | a step's removal (`prune.removed`) | nothing of it: the step was not committed | does it |
//! | its commit (`prune.committed`) | the rest of the history | goes on |
//! | the rows of runs (`prune.rows`) | folders in `data/runs/` that no run has | removes them |

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ipc_handlers::{Folder, Time};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::housekeeping::{Housekept, blocking, housekeep};
pub use super::housekeeping::{How, PruneError};
use crate::{
    config::{Config, Live},
    domain::{
        kept::prune::{History, Horizon, Keep, counted_from, pause},
        machine::loops::LoopName,
        shown::errors::chain,
    },
    engine::{Error, Loop, Plan, Sole, Then, Why, until_stop},
    ipc::{peek, sync_all},
    root,
    store::{Store, StoreError},
    system::{failpoint, world::World},
};

/// How many rows a step removes.
const STEP: usize = 250;
/// How often a step is tried that the store can't take.
const TRIES: u32 = 5;
/// How often the daemon looks.
const EVERY: Duration = Duration::from_hours(24);
/// How often it looks whether events of the feed can go, and how long it leaves the writer to others after some went.
const TRIM_EVERY: Duration = Duration::from_secs(10);
const TRIM_REST: Duration = Duration::from_millis(20);

/// Removes old events of the feed, a few at a time.
pub struct Trim(Arc<Scissors>);

/// What events are removed with.
pub struct Scissors {
    world: World,
    store: Store,
}

impl Trim {
    #[must_use]
    pub fn new(world: World, store: Store) -> Self {
        Self(Arc::new(Scissors { world, store }))
    }
}

impl Loop for Trim {
    const NAME: LoopName = LoopName::Trim;
    type Key = Sole;
    type Job = ();
    type Hands = Scissors;

    fn hands(&self) -> Arc<Scissors> {
        Arc::clone(&self.0)
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        Ok(Plan { begin: vec![(Sole, ())], again: Some(TRIM_EVERY), ..Plan::default() })
    }

    async fn perform(with: Arc<Scissors>, _: Sole, (): (), _: CancellationToken) -> Result<Then, Error> {
        let is_more = with.store.trim_events(with.world.now()).await?;
        Ok(if is_more { Then::After(TRIM_REST) } else { Then::Done })
    }
}

/// The removed rows, or those that would be, by their table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub rows: BTreeMap<&'static str, usize>,
    /// Folders of runs in `data/runs/`.
    pub run_folders: usize,
    /// The runs that would be removed, where nothing is.
    pub would_go: BTreeSet<i64>,
}

/// Returns up to when things are history now. See [`counted_from`].
///
/// # Errors
/// [`StoreError`]
pub fn horizon(store: &Store, now: Time, days: u32, deny_ttl_ms: i64) -> Result<Horizon, StoreError> {
    Ok(Horizon::new(counted_from(now, store.newest()?), days, deny_ttl_ms))
}

/// Removes old history from a root's store and from `data/runs/`.
///
/// # Errors
/// [`PruneError`]
pub async fn prune(
    world: &World,
    store: &Store,
    data: &Path,
    horizon: Horizon,
    how: How,
) -> Result<Pruned, PruneError> {
    let keep = look(world, store, data, horizon).await?;
    if how != How::DryRun {
        let data = data.to_owned();
        blocking(world, move || Ok(sync_all(&data)?)).await?;
    }
    let mut pruned = Pruned::default();
    let before = horizon.before;
    let found = store.dropped_until(before)?;
    let dropped = aged(world, how, found, || store.remove_dropped(before, STEP)).await?;
    pruned.rows.insert("dropped", dropped);
    let found = store.marks_until(before)?;
    let marks = aged(world, how, found, || store.remove_marks(before, STEP)).await?;
    pruned.rows.insert("message_marks", marks);
    let found = store.slots_until(before)?;
    let slots = aged(world, how, found, || store.remove_slots(before, STEP)).await?;
    pruned.rows.insert("slots", slots);
    let found = store.audit_until(horizon.audit)?;
    let audit = aged(world, how, found, || store.remove_audit(horizon.audit, STEP)).await?;
    pruned.rows.insert("audit", audit);
    let folders: Vec<i64> = root::run_folders(data).map_err(PruneError::Folders)?.into_iter().collect();
    let mut unneeded: BTreeSet<i64> = store.runs_gone(&folders)?.into_iter().collect();
    if how == How::DryRun {
        let (store, keep) = (store.clone(), keep);
        for (what, ids) in blocking(world, move || Ok(store.history(&keep)?)).await? {
            pruned.rows.insert(what.name(), ids.len());
            if what == History::Runs {
                unneeded.extend(folders.iter().filter(|run| ids.binary_search(run).is_ok()));
                pruned.would_go.extend(ids);
            }
        }
        pruned.run_folders = unneeded.len();
        return Ok(pruned);
    }
    for what in History::ALL {
        let (mut after, mut count) = (0, 0);
        loop {
            let ids = next_history(world, store, what, &keep, after).await?;
            let Some(last) = ids.last() else { break };
            after = *last;
            if what == History::Runs {
                unneeded.extend(folders.iter().filter(|run| ids.binary_search(run).is_ok()));
            }
            count += step(world, how, || store.remove_history(what, keep.clone(), ids.clone())).await?;
        }
        pruned.rows.insert(what.name(), count);
    }
    failpoint::reach("prune.rows");
    // A run that was kept after all, for something that came meanwhile, keeps its folder.
    let unneeded = store.runs_gone(&unneeded.into_iter().collect::<Vec<_>>())?;
    pruned.run_folders = unneeded.len();
    let data = data.to_owned();
    blocking(world, move || {
        unneeded.iter().try_for_each(|run| root::remove_run_folder(&data, *run)).map_err(PruneError::Folders)
    })
    .await?;
    Ok(pruned)
}

/// Looks for history above an id, on a thread that may block: where most is kept, this reads through most of a table.
async fn next_history(
    world: &World,
    store: &Store,
    what: History,
    keep: &Keep,
    after: i64,
) -> Result<Vec<i64>, PruneError> {
    let (store, keep) = (store.clone(), keep.clone());
    blocking(world, move || Ok(store.next_history(what, &keep, after, STEP)?)).await
}

/// Looks at the boxes, and then at claimed files.
async fn look(world: &World, store: &Store, data: &Path, horizon: Horizon) -> Result<Keep, PruneError> {
    let groups: Vec<Folder> = store.groups().await?.into_iter().map(|group| group.folder).collect();
    let data: PathBuf = data.to_owned();
    blocking(world, move || {
        let mut oldest = BTreeMap::new();
        for group in &groups {
            match peek::waiting(&data, [group], 1).whole() {
                Ok(waiting) if !waiting.partial => {
                    let since = waiting.files.first().map(|file| file.since);
                    oldest.extend(since.map(|since| (group.to_string(), Some(since))));
                }
                Ok(_) => drop(oldest.insert(group.to_string(), None)),
                Err(error) => {
                    tracing::warn!(group = %group, error = %chain(&error), "a box can't be looked at; its group's receipts are kept");
                    oldest.insert(group.to_string(), None);
                }
            }
        }
        let claimed = peek::claimed(&data)?;
        let groups = horizon.kept_for_boxes(oldest);
        // The look at claimed files is bounded. If there are more, any receipt may be of a file that was not looked at.
        let receipts = if claimed.len() < peek::LOOKED_AT { horizon.receipts } else { Time(i64::MIN) };
        let origins = peek::origins(&data, &claimed)?;
        let working: BTreeSet<String> = claimed.iter().map(|lying| lying.group.clone()).collect();
        let working = working.into_iter().collect();
        let claimed = claimed.iter().filter_map(|lying| lying.claim).collect();
        Ok(Keep { horizon: Horizon { receipts, ..horizon }, groups, claimed, origins, working })
    })
    .await
}

/// Removes rows that are history by their age alone, or counts them; `found` is their number.
async fn aged<F>(world: &World, how: How, found: usize, remove: impl Fn() -> F) -> Result<usize, PruneError>
where
    F: Future<Output = Result<usize, StoreError>>,
{
    if how == How::DryRun {
        return Ok(found);
    }
    let mut removed = 0;
    while removed < found {
        match step(world, how, &remove).await? {
            0 => break,
            more => removed += more,
        }
    }
    Ok(removed)
}

/// Does one step, and lets others have the store for a while.
async fn step<F>(world: &World, how: How, work: impl Fn() -> F) -> Result<usize, StoreError>
where
    F: Future<Output = Result<usize, StoreError>>,
{
    let mut tries = 1;
    loop {
        let began = world.monotonic();
        let outcome = work().await;
        if how == How::Beside {
            tokio::time::sleep(pause(world.monotonic().duration_since(began))).await;
        }
        match outcome {
            Err(error) if error.is_worlds_fault() && tries < TRIES => tries += 1,
            outcome => {
                failpoint::reach("prune.committed");
                return outcome;
            }
        }
    }
}

/// Prunes what is older than `limits.keep_days`, and removes files that nothing needs any more, after the first pause and then
/// once a day. A clock that is wrong when the machine starts is mostly set right in that pause.
pub struct Prune {
    broom: Arc<Broom>,
    began: Instant,
    /// When the last pass was to begin.
    last: Option<Instant>,
    /// Tells of changed settings.
    changes: watch::Receiver<Arc<Config>>,
}

/// What a pass is made with.
pub struct Broom {
    world: World,
    store: Store,
    root: PathBuf,
    config: Arc<Live>,
}

impl Prune {
    /// The first pause begins now.
    #[must_use]
    pub fn new(world: World, store: Store, root: PathBuf, config: Arc<Live>) -> Self {
        let (changes, began) = (config.follow(), world.monotonic());
        Self { broom: Arc::new(Broom { world, store, root, config }), began, last: None, changes }
    }
}

impl Loop for Prune {
    const NAME: LoopName = LoopName::Prune;
    /// A pass reads most of the store.
    const RESTS_AT_MOST: Duration = Duration::from_hours(1);
    type Key = Sole;
    type Job = ();
    type Hands = Broom;

    fn hands(&self) -> Arc<Broom> {
        Arc::clone(&self.broom)
    }

    async fn asked(&mut self) {
        // Who changes them lives as long as we do.
        if self.changes.changed().await.is_err() {
            std::future::pending().await
        }
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        let now = self.broom.world.monotonic();
        let next =
            self.last.map_or(self.began + self.broom.config.now().limits.keep_first, |last| last + EVERY);
        if now < next {
            return Ok(Plan::again(next - now));
        }
        self.last = Some(now);
        Ok(Plan { begin: vec![(Sole, ())], again: Some(EVERY), ..Plan::default() })
    }

    /// Makes a pass. One that ends early is made again after a rest, and goes on where it was. At a stop it is let go.
    async fn perform(broom: Arc<Broom>, _: Sole, (): (), stop: CancellationToken) -> Result<Then, Error> {
        let config = broom.config.now();
        let pass = pass(&broom.world, &broom.store, &broom.root, &config);
        let Some(done) = until_stop(&stop, pass).await else { return Ok(Then::Done) };
        let (pruned, kept) = done?;
        log(&pruned, config.limits.keep_days);
        log_files(&kept);
        Ok(Then::Done)
    }
}

async fn pass(
    world: &World,
    store: &Store,
    root: &Path,
    config: &Config,
) -> Result<(Pruned, Housekept), PruneError> {
    let now = world.now();
    let pruned = if config.limits.keep_days > 0 {
        let horizon = horizon(store, now, config.limits.keep_days, config.approvals.deny_ttl_ms)?;
        prune(world, store, &root.join("data"), horizon, How::Beside).await?
    } else {
        Pruned::default()
    };
    let from = counted_from(now, store.newest()?);
    let kept =
        housekeep(world, store, root, &config.housekeeping, from, (How::Beside, &BTreeSet::new())).await?;
    Ok((pruned, kept))
}

fn log(pruned: &Pruned, days: u32) {
    let removed: Vec<String> = pruned
        .rows
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(table, count)| format!("{count} {table}"))
        .collect();
    if !removed.is_empty() || pruned.run_folders > 0 {
        tracing::info!(days, rows = removed.join(", "), run_folders = pruned.run_folders, "history removed");
    }
}

fn log_files(kept: &Housekept) {
    if *kept != Housekept::default() {
        let mib = kept.run_bytes.saturating_add(kept.sessions.bytes) >> 20;
        tracing::info!(
            runs = kept.runs,
            files_of_sessions = kept.sessions.files,
            mib,
            "files that nothing needs any more are removed"
        );
    }
}
