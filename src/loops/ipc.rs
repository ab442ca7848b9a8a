//! Command files, from their box to their receipt. One worker per group, so that no group's files wait for another's;
//! events are hints, and scans are the truth: every two seconds of groups at work, within thirty of each other one.
//!
//! ```text
//! hint or scan ─▶ claim ─▶ read ─▶ settle (one savepoint: receipt, effects) ─▶ snapshots, reply, done/ or dead/, unlink
//! ```
//!
//! Files are claimed in the order of their events and settled in the order of their claims; those that wait are
//! committed together. What a writer may still be busy with is looked at again while others go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use ipc_handlers::Folder;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{Host, snapshots::Shown};
use crate::{
    domain::{rounds::Rounds, scan::Sight},
    ipc::{Claimed, GroupBoxes, Hint, HintSender, Hints, Swept, Watch, hints},
};

mod answer;
mod flow;
mod gate;
pub mod hand;
mod read;
mod recover;
mod searches;
mod show;
mod transcripts;
mod worker;

pub use hand::Hand;
pub use recover::recover;
use worker::{HINTS, Job, Worker};

/// How many files all groups that take in more than a few have in hand at a time: somebody else's command waits for no more
/// than these, and more groups at once would only wait for one another.
pub const CROWD: usize = 384;
/// How many files of the trash are removed at a time.
const SWEEP: usize = 10_000;
/// How many groups' boxes are compared with those on disk at a time.
const IDENTITIES: usize = 64;

/// What others may ask of this loop.
pub enum Ask {
    /// Settle everything that lies in a group's boxes; its container is dead. Answered when that is done.
    Drain(Folder, oneshot::Sender<()>),
    /// Groups were added or removed, or something was held or released: open and watch what is new, let go of what is
    /// gone and remove its boxes, claim nothing that is held and look at what is held no more. Answered when that is done.
    Groups(oneshot::Sender<()>),
    /// Settle a claimed file as it is, its writer done or not: a person has decided on it. Answered when that is done.
    Settle(Claimed, oneshot::Sender<()>),
}

/// How one group's worker is reached.
struct Line {
    hints: HintSender,
    jobs: mpsc::UnboundedSender<Job>,
    /// Whether events tell of what comes into its boxes.
    watched: bool,
}

/// Runs until `stop`, which comes after every run was let go or ended; what was claimed is settled first. Takes over
/// what [`recover()`] returned.
pub async fn run(
    host: Arc<Host>,
    watch: Option<Watch>,
    mut hints: Hints,
    mut asks: mpsc::UnboundedReceiver<Ask>,
    recovered: Vec<Claimed>,
    stop: CancellationToken,
) {
    let mut workers: BTreeMap<Folder, Line> = BTreeMap::new();
    let mut running = tokio::task::JoinSet::new();
    let mut growing: BTreeMap<Folder, Vec<Claimed>> = BTreeMap::new();
    for claimed in recovered {
        growing.entry(claimed.folder.clone()).or_default().push(claimed);
    }
    let mut checked = None;
    let mut rounds = Rounds::default();
    // Without events there is nothing to wait for.
    let unwatched = if watch.is_some() { Sight::Second } else { Sight::First };
    let mut every = tokio::time::interval(host.config.scan_every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    open_groups(&host, watch.as_ref(), &mut workers, &mut running, &mut growing);
    let mut sweeping = sweep(&host);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(hint) = hints.recv() => match hint {
                Hint::File { folder, in_box, name } => {
                    if let Some(worker) = workers.get(&folder) {
                        rounds.heard(&folder);
                        worker.hints.send(Hint::File { folder, in_box, name });
                    }
                }
                Hint::Rescan => rescan_all(&workers),
                Hint::Lost { folder } => {
                    tracing::warn!(group = %folder, "a box is watched no more; opening the boxes anew");
                    reopen(&host, watch.as_ref(), &mut workers, &folder);
                    rescan_all(&workers);
                }
            },
            Some(ask) = asks.recv() => match ask {
                Ask::Groups(done) => {
                    let changed = host.look_at_holds();
                    open_groups(&host, watch.as_ref(), &mut workers, &mut running, &mut growing);
                    match changed {
                        Ok(false) => {}
                        Ok(true) => rescan_all(&workers),
                        Err(error) => tracing::error!(error = %chain(&error), "reading what is held failed"),
                    }
                    let _ = done.send(());
                }
                Ask::Drain(folder, done) => {
                    if !workers.contains_key(&folder) {
                        open_groups(&host, watch.as_ref(), &mut workers, &mut running, &mut growing);
                    }
                    if let Some(worker) = workers.get(&folder) {
                        let _ = worker.jobs.send(Job::Drain(done));
                    }
                }
                Ask::Settle(claimed, done) => {
                    if let Some(worker) = workers.get(&claimed.folder) {
                        let _ = worker.jobs.send(Job::Settle(Box::new(claimed), done));
                    }
                }
            },
            _ = every.tick() => {
                check_identity(&host, watch.as_ref(), &mut workers, &mut checked);
                scan_changed(&host, &workers, &mut rounds, unwatched);
                // A container may see to it that something is thrown away all the time.
                if sweeping.is_finished() && host.dirs.has_discarded() {
                    sweeping = sweep(&host);
                }
            }
        }
    }
    drop(workers);
    while running.join_next().await.is_some() {}
}

/// Opens the boxes of every group that has none yet, starts its worker and has it look at what is there already.
fn open_groups(
    host: &Arc<Host>,
    watch: Option<&Watch>,
    workers: &mut BTreeMap<Folder, Line>,
    running: &mut tokio::task::JoinSet<()>,
    growing: &mut BTreeMap<Folder, Vec<Claimed>>,
) {
    let groups = match host.store.groups() {
        Ok(groups) => groups,
        Err(error) => return tracing::error!(%error, "reading the groups failed"),
    };
    let known: BTreeSet<Folder> = groups.into_iter().map(|g| g.folder).collect();
    let gone: Vec<Folder> = workers.keys().filter(|folder| !known.contains(*folder)).cloned().collect();
    for folder in gone {
        workers.remove(&folder);
        forget(host, watch, &folder);
    }
    for folder in known {
        if workers.contains_key(&folder) {
            continue;
        }
        let boxes = match host.boxes(&folder) {
            Ok(boxes) => boxes,
            Err(error) => {
                tracing::error!(group = %folder, error = %chain(&error), "opening the boxes failed");
                continue;
            }
        };
        let watched = watch_boxes(watch, &boxes);
        // The worker's first look comes after this: for what is here now no scan is needed.
        let _ = boxes.changed();
        let (jobs, queue) = mpsc::unbounded_channel();
        let (sender, hints) = hints(HINTS);
        let now = Instant::now();
        let growing = growing.remove(&folder).unwrap_or_default();
        running.spawn(
            Worker::new(
                Arc::clone(host),
                folder.clone(),
                growing.into_iter().map(|claimed| (claimed, now)).collect(),
            )
            .run(hints, queue),
        );
        workers.insert(folder, Line { hints: sender, jobs, watched });
    }
}

/// The group was removed: its boxes are unwatched and go to the trash.
fn forget(host: &Host, watch: Option<&Watch>, folder: &Folder) {
    let boxes = host.boxes.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(folder);
    let Some(boxes) = boxes else { return };
    if let Some(watch) = watch {
        watch.unwatch(&boxes);
    }
    if let Err(error) = boxes.remove() {
        tracing::warn!(group = %folder, error = %chain(&error), "removing the boxes failed");
    }
}

/// Empties the trash in the background.
fn sweep(host: &Arc<Host>) -> tokio::task::JoinHandle<()> {
    let host = Arc::clone(host);
    tokio::task::spawn_blocking(move || {
        loop {
            match host.dirs.sweep(SWEEP) {
                Ok(Swept::More) if !host.stop.is_cancelled() => {}
                Ok(Swept::All | Swept::More) => return,
                Ok(Swept::Stuck(left)) => {
                    return tracing::warn!(left, "something in data/tmp/trash can't be removed");
                }
                Err(error) => {
                    return tracing::warn!(error = %chain(&error), "emptying data/tmp/trash failed");
                }
            }
        }
    })
}

/// Watches a group's boxes; returns whether events tell of what comes into them.
fn watch_boxes(watch: Option<&Watch>, boxes: &GroupBoxes) -> bool {
    let watched = watch.map(|watch| watch.watch_group(boxes));
    if let Some(Err(error)) = &watched {
        tracing::warn!(group = %boxes.folder(), error = %chain(error), "the boxes can't be watched; they are scanned every 2 s");
    }
    matches!(watched, Some(Ok(())))
}

fn reopen(host: &Arc<Host>, watch: Option<&Watch>, workers: &mut BTreeMap<Folder, Line>, folder: &Folder) {
    host.boxes.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(folder);
    let watched = match host.boxes(folder) {
        Ok(boxes) => {
            // They may be new ones: what an agent reads there is not to wait for the next change.
            host.snapshots.soon(folder, Shown::All);
            watch_boxes(watch, &boxes)
        }
        Err(error) => {
            tracing::error!(group = %folder, error = %chain(&error), "opening the boxes failed");
            false
        }
    };
    if let Some(worker) = workers.get_mut(folder) {
        worker.watched = watched;
    }
}

/// Boxes that somebody removed or replaced are opened and watched anew. Looks at some groups at a time, those that come
/// after `last`: of most of what happens to a box, an event tells.
fn check_identity(
    host: &Arc<Host>,
    watch: Option<&Watch>,
    workers: &mut BTreeMap<Folder, Line>,
    last: &mut Option<Folder>,
) {
    let after = last.take().map_or(Bound::Unbounded, Bound::Excluded);
    let some: Vec<Arc<GroupBoxes>> = host
        .boxes
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .range((after, Bound::Unbounded))
        .take(IDENTITIES)
        .map(|(_, boxes)| Arc::clone(boxes))
        .collect();
    if some.len() == IDENTITIES {
        *last = some.last().map(|boxes| boxes.folder().clone());
    }
    for boxes in some {
        match boxes.identity() {
            Ok(crate::ipc::Identity::Same) => {}
            Ok(crate::ipc::Identity::Replaced(which)) => {
                tracing::warn!(group = %boxes.folder(), which = which.as_str(), "a box was replaced; opening the boxes anew");
                reopen(host, watch, workers, boxes.folder());
            }
            Err(error) => {
                tracing::warn!(group = %boxes.folder(), error = %chain(&error), "looking at the boxes failed")
            }
        }
    }
}

/// Hints were lost: everybody looks, after what was told before the loss and before what is told after it.
fn rescan_all(workers: &BTreeMap<Folder, Line>) {
    for worker in workers.values() {
        worker.hints.send(Hint::Rescan);
    }
}

/// Has the workers scan whose turn it is and whose boxes have changed. Each time that is every group at work and every one
/// that no event tells of.
fn scan_changed(host: &Arc<Host>, workers: &BTreeMap<Folder, Line>, rounds: &mut Rounds, sight: Sight) {
    let running = host.store.groups_with_a_run().unwrap_or_else(|error| {
        tracing::error!(error = %chain(&error), "finding the groups at work failed");
        BTreeSet::new()
    });
    let unwatched = |group: &Folder| workers.get(group).is_none_or(|worker| !worker.watched);
    let chosen = rounds.next(workers, |group| running.contains(group) || unwatched(group));
    let open = host.boxes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    for folder in chosen {
        // What can't be looked at now is opened again by the scan.
        let idle =
            open.get(&folder).is_some_and(|boxes| boxes.changed().is_ok_and(|changed| changed.is_empty()));
        if !idle && let Some(worker) = workers.get(&folder) {
            rounds.heard(&folder);
            let _ = worker.jobs.send(Job::Scan(sight));
        }
    }
}

/// Returns an error with its causes, for one line of a log.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
