//! Command files, from their box to their receipt. One worker per group, so that no group's files wait for another's;
//! events are hints, and a scan every two seconds is the truth.
//!
//! ```text
//! hint or scan ─▶ claim ─▶ read ─▶ settle (one savepoint: receipt, effects) ─▶ snapshots, reply, done/ or dead/, unlink
//! ```
//!
//! Files are claimed in the order of their events and settled in the order of their claims; those that wait are
//! committed together. What a writer may still be busy with is looked at again while others go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use ipc_handlers::{
    Folder, Time,
    refusal::{Code, Refusal},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Host,
    snapshots::{self, Shown},
};
use crate::{
    clock,
    domain::lanes::{Event, LaneId},
    failpoint,
    ipc::{
        ClaimError, Claimed, CommandBox, GroupBoxes, Hint, HintSender, Hints, PutError, ReadError, Swept,
        Watch, Why, Writer, hints,
    },
    store::{CommandFile, Receipt, Settled},
};

/// At most so many claims of a group are not acknowledged at a time.
const IN_FLIGHT: usize = 64;
/// How many files of a box are listed at a time.
const LISTED: usize = 4096;
/// How long a file that can't be parsed is given to become whole.
const HALF_WRITTEN: Duration = Duration::from_secs(2);
/// How long one is given whose writer still has it open.
const WRITER_LIMIT: Duration = Duration::from_secs(60);
/// How many files of the trash are removed at a time.
const SWEEP: usize = 10_000;
/// How many groups' boxes are compared with those on disk at a time.
const IDENTITIES: usize = 64;
/// How often one that is being written is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long an event may be on its way. Events come in the order in which files were published; a scan that was
/// faster could only guess it.
const EVENT_LAG: Duration = Duration::from_secs(1);
/// The same for a container that is dead: its last events were sent before we were told.
const LAST_EVENTS: Duration = Duration::from_millis(50);
/// How far the clock by which files are stamped may be behind ours, ms.
const CLOCK_TICK_MS: i64 = 10;
/// How many hints wait for one group's worker.
const HINTS: usize = 4096;

/// What others may ask of this loop.
pub enum Ask {
    /// Settle everything that lies in a group's boxes; its container is dead. Answered when that is done.
    Drain(Folder, oneshot::Sender<()>),
    /// Groups were added or removed: open and watch what is new, let go of what is gone and remove its boxes. Answered
    /// when that is done.
    Groups(oneshot::Sender<()>),
}

enum Job {
    Scan(Sight),
    Drain(oneshot::Sender<()>),
}

/// What a scan may take of what it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sight {
    /// What was seen a while ago: an event may still be on its way for the rest.
    Second,
    /// Everything that was there before the look: there are no events for it, or they were lost.
    First,
}

/// How one group's worker is reached.
struct Line {
    hints: HintSender,
    jobs: mpsc::UnboundedSender<Job>,
}

/// Runs until `stop`, which comes after every run was let go or ended; what was claimed is settled first. Takes over
/// what [`recover`] returned.
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
    // Without events there is nothing to wait for.
    let unwatched = if watch.is_some() { Sight::Second } else { Sight::First };
    let mut every = tokio::time::interval(host.config.scan_every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    open_groups(&host, watch.as_ref(), &mut workers, &mut running, &mut growing);
    sweep(&host);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(hint) = hints.recv() => match hint {
                Hint::File { folder, in_box, name } => {
                    if let Some(worker) = workers.get(&folder) {
                        worker.hints.send(Hint::File { folder, in_box, name });
                    }
                }
                Hint::Rescan => scan_all(&host, &workers, Look::AtAll),
                Hint::Lost { folder } => {
                    tracing::warn!(group = %folder, "a box is watched no more; opening the boxes anew");
                    reopen(&host, watch.as_ref(), &folder);
                    scan_all(&host, &workers, Look::AtAll);
                }
            },
            Some(ask) = asks.recv() => match ask {
                Ask::Groups(done) => {
                    open_groups(&host, watch.as_ref(), &mut workers, &mut running, &mut growing);
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
            },
            _ = every.tick() => {
                check_identity(&host, watch.as_ref(), &mut checked);
                scan_all(&host, &workers, Look::AtChanged(unwatched));
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
        if let Some(watch) = watch
            && let Err(error) = watch.watch_group(&boxes)
        {
            tracing::warn!(group = %folder, error = %chain(&error), "the boxes can't be watched; they are scanned every 2 s");
        }
        let (jobs, queue) = mpsc::unbounded_channel();
        let (sender, hints) = hints(HINTS);
        let now = Instant::now();
        let growing = growing.remove(&folder).unwrap_or_default();
        running.spawn(
            Worker {
                host: Arc::clone(host),
                folder: folder.clone(),
                growing: growing.into_iter().map(|claimed| (claimed, now)).collect(),
                first_seen: BTreeMap::new(),
            }
            .run(hints, queue),
        );
        workers.insert(folder, Line { hints: sender, jobs });
    }
}

/// The group was removed: its boxes are unwatched and go to the trash.
fn forget(host: &Arc<Host>, watch: Option<&Watch>, folder: &Folder) {
    let boxes = host.boxes.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(folder);
    let Some(boxes) = boxes else { return };
    if let Some(watch) = watch {
        watch.unwatch(&boxes);
    }
    match boxes.remove() {
        Ok(()) => sweep(host),
        Err(error) => tracing::warn!(group = %folder, error = %chain(&error), "removing the boxes failed"),
    }
}

/// Empties the trash in the background.
fn sweep(host: &Arc<Host>) {
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
    });
}

fn reopen(host: &Arc<Host>, watch: Option<&Watch>, folder: &Folder) {
    host.boxes.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(folder);
    match host.boxes(folder) {
        Ok(boxes) => {
            if let Some(watch) = watch
                && let Err(error) = watch.watch_group(&boxes)
            {
                tracing::warn!(group = %folder, error = %chain(&error), "the boxes can't be watched; they are scanned every 2 s");
            }
        }
        Err(error) => tracing::error!(group = %folder, error = %chain(&error), "opening the boxes failed"),
    }
}

/// Boxes that somebody removed or replaced are opened and watched anew. Looks at some groups at a time, those that come
/// after `last`: of most of what happens to a box, an event tells.
fn check_identity(host: &Arc<Host>, watch: Option<&Watch>, last: &mut Option<Folder>) {
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
                reopen(host, watch, boxes.folder());
            }
            Err(error) => {
                tracing::warn!(group = %boxes.folder(), error = %chain(&error), "looking at the boxes failed")
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    AtAll,
    AtChanged(Sight),
}

fn scan_all(host: &Arc<Host>, workers: &BTreeMap<Folder, Line>, look: Look) {
    let sight = match look {
        Look::AtAll => {
            for worker in workers.values() {
                let _ = worker.jobs.send(Job::Scan(Sight::First));
            }
            return;
        }
        Look::AtChanged(sight) => sight,
    };
    let open = host.boxes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (folder, worker) in workers {
        // What can't be looked at now is opened again by the scan.
        let idle =
            open.get(folder).is_some_and(|boxes| boxes.changed().is_ok_and(|changed| changed.is_empty()));
        if !idle {
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

/// The state of one group's worker.
struct Worker {
    host: Arc<Host>,
    folder: Folder,
    /// Claimed files that may not be whole yet, with when they were claimed.
    growing: Vec<(Claimed, Instant)>,
    /// Names that only a scan has seen, with when it first did.
    first_seen: BTreeMap<(CommandBox, OsString), Instant>,
}

/// A claimed file on its way to the store.
struct Pending {
    claimed: Claimed,
    file: CommandFile,
    /// What is kept of it for people: all of its bytes, or as many as were read of one that is too large.
    kept: Vec<u8>,
    /// How often it was settled and could not be answered.
    unanswered: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// A writer may not be done: look again later.
    Some,
    /// Its container is dead: what is there is all there will be.
    None,
}

/// What a worker has been told since it last looked.
#[derive(Default)]
struct News {
    files: Vec<(CommandBox, OsString)>,
    scan: Option<Sight>,
    drained: Vec<oneshot::Sender<()>>,
}

impl News {
    fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::File { in_box, name, .. } => self.files.push((in_box, name)),
            Hint::Rescan | Hint::Lost { .. } => self.scan = Some(Sight::First),
        }
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Scan(sight) => self.scan = self.scan.max(Some(sight)),
            Job::Drain(done) => self.drained.push(done),
        }
    }
}

impl Worker {
    async fn run(mut self, mut hints: Hints, mut jobs: mpsc::UnboundedReceiver<Job>) {
        // What was there before anybody watched is older than whatever is told of.
        self.scan(Sight::First, Patience::Some).await;
        loop {
            let look_again = if self.growing.is_empty() && self.first_seen.is_empty() {
                Duration::from_secs(3600)
            } else {
                LOOK_AGAIN
            };
            let mut news = News::default();
            tokio::select! {
                hint = hints.recv() => match hint { Some(hint) => news.hint(hint), None => return },
                job = jobs.recv() => match job { Some(job) => news.job(job), None => return },
                () = tokio::time::sleep(look_again) => {
                    news.scan = (!self.first_seen.is_empty()).then_some(Sight::Second);
                }
            }
            while let Ok(job) = jobs.try_recv() {
                news.job(job);
            }
            // What was told of goes first, whatever a scan would find.
            while news.scan != Some(Sight::First)
                && news.files.len() < HINTS
                && let Some(hint) = hints.try_recv()
            {
                news.hint(hint);
            }
            let News { files, scan, drained } = news;
            self.take(files, Patience::Some).await;
            if drained.is_empty() {
                if let Some(sight) = scan {
                    self.scan(sight, Patience::Some).await;
                }
                self.look_again(Patience::Some).await;
            } else {
                self.hear_the_last(&mut hints).await;
                self.scan(Sight::First, Patience::None).await;
                self.look_again(Patience::None).await;
            }
            for done in drained {
                let _ = done.send(());
            }
        }
    }

    /// Takes what a dead container's last events tell of, if it has left anything.
    async fn hear_the_last(&mut self, hints: &mut Hints) {
        let until = Instant::now() + LAST_EVENTS;
        while self.anything_waits().await {
            let Ok(Some(hint)) = tokio::time::timeout_at(until, hints.recv()).await else { return };
            let mut news = News::default();
            news.hint(hint);
            while let Some(hint) = hints.try_recv() {
                news.hint(hint);
            }
            self.take(news.files, Patience::Some).await;
        }
    }

    async fn anything_waits(&self) -> bool {
        let Ok(boxes) = self.host.boxes(&self.folder) else { return false };
        let waits = move || {
            CommandBox::ALL
                .into_iter()
                .any(|in_box| boxes.list(in_box, 1).is_ok_and(|listing| !listing.entries.is_empty()))
        };
        spawn_blocking(waits).await.unwrap_or(false)
    }

    /// Goes through both boxes by (ctime, name) until nothing is left that may be taken now.
    async fn scan(&mut self, sight: Sight, patience: Patience) {
        let stamp = |at: Time| at.0.saturating_mul(1_000_000);
        let begun = stamp(clock::now());
        loop {
            let Ok(boxes) = self.host.boxes(&self.folder) else { return };
            // Of what is published while the boxes are read, a later file may be seen and an earlier one not.
            let complete_until = stamp(clock::now().plus_ms(-CLOCK_TICK_MS));
            let listed = spawn_blocking(move || {
                let mut found = Vec::new();
                let mut more = false;
                let mut until = i64::MAX;
                for in_box in CommandBox::ALL {
                    match boxes.list(in_box, LISTED) {
                        Ok(listing) => {
                            if listing.has_more() {
                                more = true;
                                // What follows the last one here may be older than what the other box has.
                                until = until.min(listing.entries.last().map_or(i64::MAX, |last| last.ctime));
                            }
                            for directory in &listing.directories {
                                tracing::debug!(group = %boxes.folder(), name = ?directory.name, "a directory is named like a command; its writer has to remove it");
                            }
                            found.extend(listing.entries.into_iter().map(|entry| {
                                let idle = matches!(boxes.writer(in_box, &entry), Writer::None);
                                (in_box, entry, idle)
                            }));
                        }
                        Err(error) => tracing::warn!(group = %boxes.folder(), error = %chain(&error), "listing a box failed; it is tried again"),
                    }
                }
                found.retain(|(_, entry, _)| entry.ctime <= until);
                found.sort_by(|a, b| a.1.cmp(&b.1));
                (found, more)
            })
            .await;
            let Ok((found, more)) = listed else { return };
            let now = Instant::now();
            let mut take = Vec::new();
            let mut seen = BTreeMap::new();
            let mut too_new = false;
            let mut in_turn = true;
            for (in_box, entry, idle) in found {
                let key = (in_box, entry.name);
                let since = *self.first_seen.get(&key).unwrap_or(&now);
                let age = now.duration_since(since);
                let told = (sight == Sight::First && entry.ctime < complete_until) || age >= EVENT_LAG;
                // Nobody may ever tell of it: it can be from before the watch, and goes before what is told of.
                too_new |= sight == Sight::First && !told && entry.ctime < begun;
                // What is older goes first, though it was seen later: a listing can miss it.
                in_turn &= told;
                if (idle && in_turn) || patience == Patience::None || age >= HALF_WRITTEN {
                    take.push(key);
                } else {
                    seen.insert(key, since);
                }
            }
            self.first_seen = seen;
            let taken = self.take(take, patience).await;
            if too_new && complete_until < begun && patience == Patience::Some {
                tokio::time::sleep(Duration::from_millis(CLOCK_TICK_MS.unsigned_abs() + 1)).await;
            } else if taken == 0 || !more {
                // Where nothing could be claimed (the world is in the way), the next look tries again.
                return;
            }
        }
    }

    /// Claims, reads and settles files, at most [`IN_FLIGHT`] at a time; returns how many were claimed.
    async fn take(&mut self, files: Vec<(CommandBox, OsString)>, patience: Patience) -> usize {
        let mut count = 0;
        let mut files = files.into_iter().peekable();
        while files.peek().is_some() {
            let some: Vec<_> = files.by_ref().take(IN_FLIGHT).collect();
            failpoint::reach("ipc.seen");
            let Ok(boxes) = self.host.boxes(&self.folder) else { return count };
            let host = Arc::clone(&self.host);
            let later = files.len();
            // One thread from the claim to the answer: each change of threads would cost more than the work.
            let (claimed, handled) = spawn_blocking(move || {
                let claimed: Vec<_> = some
                    .into_iter()
                    .filter_map(|(in_box, name)| claim(&host, &boxes, in_box, &name))
                    .map(|(claimed, refusal)| Taken { claimed, refusal, age: Duration::ZERO })
                    .collect();
                if claimed.is_empty() {
                    return (0, Handled::default());
                }
                failpoint::reach("ipc.claimed");
                (claimed.len(), handle(&host, boxes.folder(), claimed, patience, later))
            })
            .await
            .unwrap_or_default();
            count += claimed;
            let now = Instant::now();
            self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
            settle_again(&self.host, &self.folder, handled.waiting).await;
        }
        count
    }

    /// Looks at files again that were not whole.
    async fn look_again(&mut self, patience: Patience) {
        let growing = std::mem::take(&mut self.growing);
        if growing.is_empty() {
            return;
        }
        let now = Instant::now();
        let since: BTreeMap<i64, Instant> = growing.iter().map(|(claimed, at)| (claimed.id, *at)).collect();
        let taken: Vec<_> = growing
            .into_iter()
            .map(|(claimed, at)| Taken { claimed, refusal: None, age: now.duration_since(at) })
            .collect();
        let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
        let handled =
            spawn_blocking(move || handle(&host, &folder, taken, patience, 0)).await.unwrap_or_default();
        self.growing.extend(handled.growing.into_iter().map(|claimed| {
            let at = since.get(&claimed.id).copied().unwrap_or(now);
            (claimed, at)
        }));
        settle_again(&self.host, &self.folder, handled.waiting).await;
    }
}

/// A claimed file that is to be read.
struct Taken {
    claimed: Claimed,
    /// Why it could not be a command.
    refusal: Option<Refusal>,
    /// How long ago it was claimed.
    age: Duration,
}

/// What is left of files that were handled.
#[derive(Default)]
struct Handled {
    /// Those that may not be whole yet.
    growing: Vec<Claimed>,
    /// Those that the store could not take.
    waiting: Vec<Pending>,
}

/// Reads claimed files of a group, settles and answers them, in order. Of the same group `later` more are known to
/// wait behind them. On a thread that may block.
fn handle(host: &Arc<Host>, folder: &Folder, taken: Vec<Taken>, patience: Patience, later: usize) -> Handled {
    let run = host.store.active_run_of(folder).unwrap_or_default();
    let mut handled = Handled::default();
    let mut pending = Vec::new();
    for Taken { claimed, refusal, age } in taken {
        let patience = if age >= WRITER_LIMIT { Patience::None } else { patience };
        match read(host, claimed, refusal, run, patience, age) {
            Reading::Ready(ready) => pending.push(*ready),
            Reading::NotYet(claimed) => handled.growing.push(claimed),
            Reading::Nothing => {}
        }
    }
    failpoint::reach("ipc.read");
    handled.waiting = settle(host, folder, pending, later);
    handled
}

fn claim(
    host: &Host,
    boxes: &GroupBoxes,
    in_box: CommandBox,
    name: &std::ffi::OsStr,
) -> Option<(Claimed, Option<Refusal>)> {
    let no_file = |kind: &str| {
        Refusal::new(
            Code::Malformed,
            format!("the command is a {kind}"),
            "write commands as regular files: a temporary name in the same box, then rename",
        )
    };
    match boxes.claim(in_box, name, &host.claims) {
        Ok(claimed) => Some((claimed, None)),
        Err(ClaimError::Gone) => None,
        Err(ClaimError::Directory) => {
            tracing::warn!(group = %boxes.folder(), %in_box, ?name, "a directory is named like a command; its writer has to remove it");
            None
        }
        Err(ClaimError::NotAFile { claimed, kind }) => Some((claimed, Some(no_file(&kind.to_string())))),
        Err(ClaimError::DirectoryMoved { claimed }) => Some((claimed, Some(no_file("directory")))),
        Err(ClaimError::World(error)) => {
            tracing::warn!(group = %boxes.folder(), error = %chain(&error), "claiming failed; it is tried again");
            None
        }
    }
}

enum Reading {
    Ready(Box<Pending>),
    /// Its writer may not be done, or the world failed: again later.
    NotYet(Claimed),
    Nothing,
}

fn read(
    host: &Host,
    claimed: Claimed,
    refusal: Option<Refusal>,
    run: Option<i64>,
    patience: Patience,
    age: Duration,
) -> Reading {
    let (box_name, name) = match &claimed.source {
        Some(source) => (source.in_box.to_string(), source.name.clone()),
        None => ("unknown".to_owned(), "unknown".to_owned()),
    };
    // What has no inode of its own any more is identified by its claim.
    let no_origin = format!("claim:{}", claimed.id).into_bytes();
    let mut kept = Vec::new();
    let (body, origin) = match refusal {
        Some(refusal) => (Err(refusal), no_origin),
        None => match host.claims.read(&claimed) {
            Ok(read) => {
                let malformed = ipc_handlers::envelope::parse(&read.bytes)
                    .is_err_and(|rejected| rejected.fault == ipc_handlers::Fault::Malformed);
                let writer = || host.claims.writer(&claimed);
                if malformed
                    && patience == Patience::Some
                    && (age < HALF_WRITTEN || matches!(writer(), Writer::Holds))
                {
                    return Reading::NotYet(claimed);
                }
                if read.origin.kind == crate::ipc::OriginKind::Weak
                    && let Some(source) = &claimed.source
                    && let Ok(boxes) = host.boxes(&claimed.folder)
                    && let Err(error) = host.claims.sync_source(&boxes, source.in_box)
                {
                    tracing::warn!(claim = claimed.id, error = %chain(&error), "syncing a box failed");
                }
                kept.clone_from(&read.bytes);
                (Ok(read.bytes), read.origin.key)
            }
            Err(ReadError::Gone) => return Reading::Nothing,
            Err(ReadError::TooLarge { size, head, origin }) => {
                kept = head;
                let refusal = Refusal::new(
                    Code::TooLarge,
                    format!("the command has {size} bytes; the limit is {}", crate::ipc::COMMAND_LIMIT),
                    "put long text into a file of the group and send its name",
                );
                (Err(refusal), origin.key)
            }
            Err(ReadError::NotAFile(kind)) => (
                Err(Refusal::new(
                    Code::Malformed,
                    format!("the command is a {kind}"),
                    "write commands as regular files",
                )),
                no_origin,
            ),
            Err(ReadError::World(error)) => {
                tracing::warn!(claim = claimed.id, error = %chain(&error), "reading a claimed command failed; it is tried again");
                return Reading::NotYet(claimed);
            }
        },
    };
    let file =
        CommandFile { claim: claimed.id, group: claimed.folder.clone(), box_name, name, origin, run, body };
    Reading::Ready(Box::new(Pending { claimed, file, kept, unanswered: 0 }))
}

/// Settles files that the store could not take, until it can: they stay claimed meanwhile.
async fn settle_again(host: &Arc<Host>, folder: &Folder, waiting: Vec<Pending>) {
    let mut waiting = waiting;
    let mut rest = Duration::from_secs(1);
    while !waiting.is_empty() {
        tokio::select! {
            () = host.stop.cancelled() => return,
            () = tokio::time::sleep(rest) => {}
        }
        rest = (rest * 2).min(Duration::from_secs(60));
        let (host, folder) = (Arc::clone(host), folder.clone());
        waiting = spawn_blocking(move || settle(&host, &folder, waiting, 0)).await.unwrap_or_default();
    }
}

/// Settles files in order, committed together, and answers them; returns those that the store can't take now.
fn settle(host: &Arc<Host>, folder: &Folder, pending: Vec<Pending>, later: usize) -> Vec<Pending> {
    if pending.is_empty() {
        return pending;
    }
    let runtime = tokio::runtime::Handle::current();
    let now = clock::now();
    let settling: Vec<_> =
        pending.iter().map(|p| host.store.settle(p.file.clone(), host.zone(), now)).collect();
    let mut answers = Vec::new();
    let mut again = Vec::new();
    for (pending, settling) in pending.into_iter().zip(settling) {
        match runtime.block_on(settling) {
            Ok(settled) => answers.push((pending, settled)),
            Err(error) if error.is_worlds_fault() => {
                tracing::warn!(claim = pending.claimed.id, error = %chain(&error), "the store can't take a command now; it stays claimed and is tried again");
                again.push(pending);
            }
            Err(error) => {
                tracing::error!(claim = pending.claimed.id, error = %chain(&error), "our own fault: a command could not be decided");
                if let Some(settled) = runtime.block_on(record_our_fault(host, &pending)) {
                    answers.push((pending, settled));
                }
            }
        }
    }
    failpoint::reach("ipc.committed");
    again.extend(answer_all(host, folder, answers, later));
    again
}

/// Writes down that a command met a fault of ours, so that it is answered and not tried for ever.
async fn record_our_fault(host: &Arc<Host>, pending: &Pending) -> Option<Settled> {
    match host.store.refuse(pending.file.clone(), Refusal::internal(), clock::now()).await {
        Ok(settled) => Some(settled),
        Err(error) => {
            tracing::error!(claim = pending.claimed.id, error = %chain(&error), "the receipt could not be written either; the file stays claimed");
            None
        }
    }
}

/// Snapshots, replies, `done/` and `dead/`, and at last the claimed files' end.
/// The world may be in the way (a full disk): what could not be answered is returned, to be tried again.
fn answer_all(host: &Host, folder: &Folder, answers: Vec<(Pending, Settled)>, later: usize) -> Vec<Pending> {
    let mut again = Vec::new();
    if answers.is_empty() {
        return again;
    }
    let mut nudge_schedule = false;
    // What was committed by a daemon that died may not be shown yet either.
    if answers.iter().any(|(_, settled)| settled.tasks_changed || !settled.fresh) {
        // Shown to the group before it is answered. Where nobody waits for an answer, once for many commands.
        if answers.iter().any(|(_, settled)| settled.receipt.request_id.is_some()) {
            snapshots::write_now(host, folder, Shown::Tasks);
        } else {
            host.snapshots.soon(folder, Shown::Tasks);
        }
        snapshots::show_main(host, folder);
        nudge_schedule = true;
    }
    let mut cleared = BTreeSet::new();
    for (lane, generation) in answers.iter().flat_map(|(_, settled)| settled.cleared.iter()) {
        let group = host.store.group_of_lane(*lane).ok().flatten().unwrap_or_else(|| folder.clone());
        cleared.insert(group.clone());
        let _ =
            host.lanes.send(Event::SessionCleared { group, lane: LaneId(*lane), generation: *generation });
    }
    for group in &cleared {
        snapshots::write_now(host, group, Shown::All);
    }
    let mut unplaced = BTreeSet::new();
    for (pending, settled) in &answers {
        if put_reply(host, &pending.claimed, &settled.receipt) == Placed::NotNow {
            unplaced.insert(pending.claimed.id);
        }
        failpoint::reach("ipc.replied");
    }
    if nudge_schedule {
        host.nudges.schedule.notify_one();
    }
    if answers.iter().any(|(_, settled)| settled.said) {
        host.nudges.deliver.notify_one();
    }
    let count = answers.len();
    for (n, (mut pending, settled)) in answers.into_iter().enumerate() {
        let receipt = &settled.receipt;
        tracing::info!(
            group = %folder, claim = receipt.claim, kind = receipt.kind.as_deref().unwrap_or("-"),
            outcome = receipt.outcome, code = receipt.code.as_deref().unwrap_or("-"), again = !settled.fresh,
            run = pending.file.run.unwrap_or(0), "command settled"
        );
        let aside = if unplaced.contains(&pending.claimed.id) && pending.unanswered < ANSWER_TRIES {
            false
        } else {
            let kept = set_aside(host, &pending, receipt, later + count - 1 - n);
            if let Err(error) = &kept {
                tracing::warn!(claim = pending.claimed.id, error = %chain(error), "setting a settled command aside failed; its receipt holds");
            }
            kept.is_ok()
        };
        if !aside && pending.unanswered < ANSWER_TRIES {
            pending.unanswered += 1;
            again.push(pending);
        }
    }
    host.nudges.settled.ring();
    again
}

/// How often a settled command is answered before that is left to the next start.
const ANSWER_TRIES: u32 = 12;

/// What became of a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placed {
    /// It is there, nobody asked for one, or it never can be.
    Done,
    /// The world was in the way.
    NotNow,
}

fn put_reply(host: &Host, claimed: &Claimed, receipt: &Receipt) -> Placed {
    let (Some(id), Some(reply)) = (&receipt.request_id, &receipt.reply) else { return Placed::Done };
    let Ok(boxes) = host.boxes(&claimed.folder) else { return Placed::Done };
    match boxes.put_reply(id, reply) {
        Ok(()) => Placed::Done,
        Err(PutError::World(error)) => {
            tracing::warn!(claim = claimed.id, error = %chain(&error), "a reply could not be placed; it is tried again");
            Placed::NotNow
        }
        Err(error) => {
            tracing::warn!(claim = claimed.id, %error, "a reply could not be placed and is given up");
            Placed::Done
        }
    }
}

/// Keeps a settled command for people, unless the `later` ones would put it out at once; then it has an end.
fn set_aside(
    host: &Host,
    pending: &Pending,
    receipt: &Receipt,
    later: usize,
) -> Result<(), crate::ipc::World> {
    let claimed = &pending.claimed;
    let bytes = pending.kept.as_slice();
    let why = || Why {
        code: receipt.code.clone().unwrap_or_default(),
        message: receipt.reason.clone().unwrap_or_default(),
        hint: receipt.hint.clone(),
        at: receipt.at,
    };
    match receipt.outcome.as_str() {
        "malformed" => host.claims.settle_dead(claimed, bytes, &why())?,
        _ if later >= crate::ipc::DONE_FILES => {}
        "applied" => host.claims.settle_applied(claimed, bytes, receipt.reply.as_deref())?,
        _ => host.claims.settle_refused(claimed, bytes, &why())?,
    }
    failpoint::reach("ipc.set_aside");
    host.claims.acknowledge(claimed)
}

/// At start, before anything is launched and a box is looked at: goes on with what an earlier daemon had claimed, in the
/// order of the claims. Returns what could not be settled yet, as its writer may still be at it: [`run`] goes on with it.
pub async fn recover(host: &Arc<Host>) -> Vec<Claimed> {
    let left = match host.claims.left_over() {
        Ok(left) => left,
        Err(error) => {
            tracing::error!(error = %chain(&error), "reading data/claimed failed");
            return Vec::new();
        }
    };
    for name in left.strange {
        tracing::warn!(name, "something in data/claimed is no claim of ours; it is left alone");
    }
    let mut by_group: BTreeMap<Folder, Vec<Claimed>> = BTreeMap::new();
    for claimed in left.claims {
        by_group.entry(claimed.folder.clone()).or_default().push(claimed);
    }
    let groups = by_group.into_iter().map(|(folder, claims)| recover_group(host, folder, claims));
    futures_util::future::join_all(groups).await.into_iter().flatten().collect()
}

async fn recover_group(host: &Arc<Host>, folder: Folder, claims: Vec<Claimed>) -> Vec<Claimed> {
    // Nobody looks again on behalf of a group that is gone.
    let gone = matches!(host.store.group(&folder), Ok(None));
    let patience = if gone { Patience::None } else { Patience::Some };
    let taken =
        claims.into_iter().map(|claimed| Taken { claimed, refusal: None, age: Duration::ZERO }).collect();
    let (handling, of) = (Arc::clone(host), folder.clone());
    let handled =
        spawn_blocking(move || handle(&handling, &of, taken, patience, 0)).await.unwrap_or_default();
    settle_again(host, &folder, handled.waiting).await;
    handled.growing
}
