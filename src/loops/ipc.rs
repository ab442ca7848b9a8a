//! Command files, from their box to their receipt. One worker per group, so that no group's files wait for another's;
//! events are hints, and looks are the truth: every two seconds the change stamp of each box, and a scan where it is new.
//!
//! ```text
//! hint or scan ─▶ claim ─▶ read ─▶ settle (one savepoint: receipt, effects) ─▶ snapshots, reply, done/ or dead/, unlink
//! ```
//!
//! Files are claimed in the order of their events and settled in the order of their claims; those that wait are
//! committed together. What a writer may still be busy with is looked at again while others go on.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{Allowances, Ask, Boxes, Drained, Held, Machine, snapshots::Snapshots, starts::Starts};
use crate::{
    channels::Channels,
    config::Live,
    domain::host::{errors::chain, metrics::Latency},
    ipc::{Claimed, Claims, GroupBoxes, Hint, Swept, Watch},
    ops::ipc::ByHand,
    store::Store,
    system::{clock, media::Media},
};

mod answer;
mod fault;
mod files;
mod flow;
mod gate;
mod open;
mod read;
mod recover;
pub mod searches;
mod transcripts;
mod worker;

use open::{
    Line, act_on_identity, known_groups, look_at_identity, open_groups, put_away, put_off, refuse_gone,
    reopen, watch_again,
};
pub use recover::{Left, recover};
use worker::Job;

/// The parts of the daemon that take in command files.
pub struct Mailboxes {
    pub config: Arc<Live>,
    pub root: PathBuf,
    pub store: Store,
    pub boxes: Arc<Boxes>,
    pub claims: Arc<Claims>,
    pub held: Arc<Held>,
    pub allowances: Arc<Allowances>,
    /// Has [`CROWD`] places: one for each file that a group takes in with many others.
    pub crowd: Semaphore,
    /// Searches that wait for their answer.
    pub searches: searches::Searches,
    /// How long commands took from their being claimed to their reply.
    pub times: Arc<Latency>,
    pub machine: Arc<Machine>,
    pub starts: Arc<Starts>,
    pub snapshots: Arc<Snapshots>,
    /// Files that are said.
    pub media: Arc<Media>,
    /// Who takes them.
    pub channels: Arc<Channels>,
    /// Runs' tokens are signed with it.
    pub token_key: ipc_handlers::token::Key,
    pub stop: CancellationToken,
}

impl Mailboxes {
    /// Returns the parts by which a person's decisions on commands are done.
    fn hand(&self) -> ByHand<'_> {
        ByHand { store: &self.store, dirs: &self.boxes.dirs, claims: &self.claims }
    }
}

/// What the log says of a group's commands stands in this span, at whatever level it logs.
fn span(group: &Folder) -> tracing::Span {
    tracing::error_span!("mailbox", group = %group)
}

/// How many files all busy groups together take in at a time. Another group's command waits for no more than these, and more
/// at once would only wait for one another.
pub const CROWD: usize = 384;
/// How often the boxes of groups are scanned that no event tells of.
const BLIND: Duration = Duration::from_millis(200);
/// How often it is tried to open and watch them after all.
const WATCH_AGAIN: Duration = Duration::from_secs(2);
/// How many files of the trash are removed at a time.
const SWEEP: usize = 10_000;

/// Runs until `stop`, which comes after every run was let go or ended; what was claimed is settled first. Takes over
/// what [`recover()`] returned.
pub async fn run(
    mail: Arc<Mailboxes>,
    mut watch: Watch,
    mut asks: mpsc::UnboundedReceiver<Ask>,
    recovered: Left,
    stop: CancellationToken,
) {
    let mut workers: BTreeMap<Folder, Line> = BTreeMap::new();
    let mut running = tokio::task::JoinSet::new();
    let mut ending: BTreeMap<Folder, CancellationToken> = BTreeMap::new();
    let mut growing: BTreeMap<Folder, Vec<Claimed>> = BTreeMap::new();
    let Left { growing: unsettled, mut aside } = recovered;
    for claimed in unsettled {
        growing.entry(claimed.folder.clone()).or_default().push(claimed);
    }
    let mut checked = None;
    let mut looking = tokio::task::JoinSet::new();
    let mut changed = mail.config.follow();
    let mut scan_every = changed.borrow_and_update().limits.scan_every;
    let (mut every, mut blind) = (each(scan_every), each(BLIND.min(scan_every)));
    let mut again = each(WATCH_AGAIN);
    let known = known_groups(&mail).await;
    open_groups(&mail, known, &mut watch, &mut workers, &mut running, &mut growing);
    // All boxes were just looked at.
    every.reset();
    let mut sweeping = sweep(&mail);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ask) = asks.recv() => match ask {
                Ask::Groups(done) => {
                    let known = known_groups(&mail).await;
                    if let Some(known) = &known {
                        refuse_gone(&mail, known, &mut growing).await;
                    }
                    // No await from here on: claims of a released group must come before its new files.
                    let changed = mail.held.look_again();
                    open_groups(&mail, known, &mut watch, &mut workers, &mut running, &mut growing);
                    match changed {
                        Ok(false) => {}
                        Ok(true) => {
                            go_on_with_released(&mail, &workers, &mut aside, &mut growing);
                            rescan_all(&mut workers);
                        }
                        Err(error) => tracing::error!(error = %chain(&error), "reading what is held failed"),
                    }
                    let _ = done.send(());
                }
                Ask::PutAway(folder, done) => {
                    ending.retain(|_, ended| !ended.is_cancelled());
                    if let Some(ended) = put_away(&mail, &mut watch, &mut workers, &folder) {
                        ending.insert(folder.clone(), ended);
                    }
                    // An earlier try may have put it away, and its worker may still be at work.
                    let ended = ending.get(&folder).cloned();
                    let _ = done.send(ended.unwrap_or_else(has_ended));
                }
                Ask::Drain(folder, done) => {
                    if !workers.contains_key(&folder) {
                        let known = known_groups(&mail).await;
                        open_groups(&mail, known, &mut watch, &mut workers, &mut running, &mut growing);
                    }
                    match workers.get(&folder) {
                        Some(worker) => worker.give(Job::Drain(done)),
                        None => drop(done.send(undrained(&mail, &folder).await)),
                    }
                }
                Ask::Settle(claimed, done) => {
                    match workers.get(&claimed.folder) {
                        Some(worker) => worker.give(Job::Settle(Box::new(claimed), done)),
                        None => {
                            put_off(&mail, claimed, &mut growing, &mut aside).await;
                            let _ = done.send(());
                        }
                    }
                }
            },
            Ok(()) = changed.changed() => {
                let wanted = changed.borrow_and_update().limits.scan_every;
                if wanted != scan_every {
                    scan_every = wanted;
                    (every, blind) = (each(scan_every), each(BLIND.min(scan_every)));
                }
            }
            _ = again.tick(), if !mail.machine.unwatched().is_empty() => {
                watch_again(&mail, &mut watch, &mut workers, &mut running, &mut growing).await;
            }
            _ = blind.tick(), if !mail.machine.unwatched().is_empty() => scan_unwatched(&mail, &workers),
            // A worker sees to its own faults.
            Some(Err(fault)) = running.join_next() => {
                tracing::error!(fault = %chain(&fault), "our own fault: a group's commands are not taken in until a restart");
            }
            Some(looked) = looking.join_next() => {
                act_on_identity(&mail, &mut watch, &mut workers, looked.unwrap_or_default());
            }
            _ = every.tick() => {
                if looking.is_empty() {
                    look_at_identity(&mail, &mut looking, &mut checked);
                }
                scan_changed(&mail, &workers);
                // A container may see to it that something is thrown away all the time.
                if sweeping.is_finished() && mail.boxes.dirs.has_discarded() {
                    sweeping = sweep(&mail);
                }
            }
            // Last: a container can see to it that there is always another one.
            hint = watch.next() => match hint {
                Hint::File { folder, in_box, name } => {
                    if let Some(worker) = workers.get_mut(&folder) {
                        worker.hints.send(Hint::File { folder, in_box, name });
                    }
                }
                Hint::Rescan => rescan_all(&mut workers),
                Hint::Lost { folder } => {
                    tracing::warn!(group = %folder, "a box is watched no more; opening the boxes anew");
                    reopen(&mail, &mut watch, &mut workers, &folder);
                }
            },
        }
    }
    drop(workers);
    while running.join_next().await.is_some() {}
}

/// What comes of a drain of a group that has no worker.
async fn undrained(mail: &Mailboxes, folder: &Folder) -> Drained {
    if matches!(mail.store.group(folder).await, Ok(None)) {
        return Drained::Done;
    }
    let why = mail.machine.unwatched().get(&Some(folder.clone())).cloned();
    Drained::Unopened(why.map_or_else(|| "the groups can't be read".to_owned(), |why| why.to_string()))
}

/// The end of a worker that was never begun: it has come.
fn has_ended() -> CancellationToken {
    let ended = CancellationToken::new();
    ended.cancel();
    ended
}

/// Ticks at once and then with this pause, however late the tick before was taken.
fn each(pause: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(pause);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

/// Empties the trash in the background.
fn sweep(mail: &Arc<Mailboxes>) -> tokio::task::JoinHandle<()> {
    let mail = Arc::clone(mail);
    tokio::task::spawn_blocking(move || {
        loop {
            match mail.boxes.dirs.sweep(SWEEP) {
                Ok(Swept::More) if !mail.stop.is_cancelled() => {}
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

/// Goes on with groups that were set aside and are released: their claimed files go before the files that wait, and the output of
/// their runs is read. Claims of a group whose boxes can't be opened are `left` until they can.
fn go_on_with_released(
    mail: &Mailboxes,
    workers: &BTreeMap<Folder, Line>,
    aside: &mut BTreeMap<Folder, Vec<Claimed>>,
    left: &mut BTreeMap<Folder, Vec<Claimed>>,
) {
    for (folder, mut claims) in aside.extract_if(.., |folder, _| !mail.held.is_aside(folder)) {
        // Some may have been dropped meanwhile.
        claims.retain(|claimed| !matches!(mail.claims.find(claimed.id), Ok(None)));
        match workers.get(&folder) {
            Some(worker) => worker.give(Job::Recover(claims)),
            None => {
                let of_group = left.entry(folder).or_default();
                of_group.extend(claims);
                of_group.sort_by_key(|claimed| claimed.id);
                of_group.dedup_by_key(|claimed| claimed.id);
            }
        }
    }
    mail.machine.look_again.notify_one();
}

/// Hints were lost: every worker scans its boxes, after the hints before the loss and before those after it.
fn rescan_all(workers: &mut BTreeMap<Folder, Line>) {
    for worker in workers.values_mut() {
        worker.hints.send(Hint::Rescan);
    }
}

/// Has the workers scan whose boxes have changed.
fn scan_changed(mail: &Mailboxes, workers: &BTreeMap<Folder, Line>) {
    let open = mail.boxes.open();
    // Both are in the order of the folders: looking up each of a thousand groups would cost as much as the look itself.
    let mut opened = open.iter().peekable();
    for (folder, worker) in workers {
        while opened.next_if(|(other, _)| *other < folder).is_some() {}
        let boxes = opened.next_if(|(other, _)| *other == folder);
        // What can't be looked at now is opened again by the scan.
        if boxes.is_none_or(|(_, boxes)| has_changed(boxes) != Some(false)) {
            worker.give(Job::Scan(worker.sight()));
        }
    }
}

/// Whether something may have come into a group's boxes since the last look; `None` where they can't be looked at.
fn has_changed(boxes: &GroupBoxes) -> Option<bool> {
    Some(!boxes.changed(clock::now()).ok()?.is_empty())
}

/// Has the workers scan whose boxes have changed without an event telling of it.
fn scan_unwatched(mail: &Mailboxes, workers: &BTreeMap<Folder, Line>) {
    let open = mail.boxes.open();
    for (folder, worker) in workers.iter().filter(|(_, worker)| !worker.watched) {
        // What can't be looked at is opened again by the scan of all.
        if open.get(folder).is_some_and(|boxes| has_changed(boxes) == Some(true)) {
            worker.give(Job::Scan(worker.sight()));
        }
    }
}
