//! Command files, from their box to their receipt. One worker per group, so that no group's files wait for another's;
//! events are hints, and looks are the truth: every two seconds the change stamp of each box, and a scan where it is new.
//!
//! ```text
//! hint or scan ─▶ claim ─▶ read ─▶ settle (one savepoint: receipt, effects) ─▶ snapshots, reply, done/ or dead/, unlink
//! ```
//!
//! Files are claimed in the order of their events and settled in the order of their claims; those that wait are
//! committed together. A file that its writer may still be busy with is looked at again while others go on.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use ipc_handlers::Folder;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Allowances, Ask, Boxes, Drained, Held, Machine, chats::Listings, snapshots::Snapshots, starts::Starts,
};
use crate::{
    channels::Channels,
    config::{Config, Live},
    domain::{
        machine::loops::LoopName,
        shown::{errors::chain, metrics::Latency},
    },
    engine::{Either, Error, Loop, Plan, Then, Why, either},
    ipc::{Claimed, Claims, GroupBoxes, Hint, Swept, Watch},
    ops::ipc::ByHand,
    store::Store,
    system::{locked::Locked as _, media::Media},
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
    Begun, Known, Line, Looked, act_on_identity, compare, known_groups, next_boxes, open_groups, put_away,
    put_off, refuse_gone, reopen, watch_again,
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
    /// The lists of accounts' chats.
    pub listings: Arc<Listings>,
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
/// How many hints are handed on before the loop looks at anything else.
const HINTS_AT_ONCE: usize = 1024;
/// How many files of the trash are removed at a time.
const SWEEP: usize = 10_000;

/// Takes in the command files of all groups. It stops after every run was let go or ended; what was claimed is settled first.
pub struct Mailbox {
    mail: Arc<Mailboxes>,
    watch: Watch,
    asks: mpsc::UnboundedReceiver<Ask>,
    settings: watch::Receiver<Arc<Config>>,
    /// News that were not taken in.
    heard: VecDeque<Heard>,
    workers: BTreeMap<Folder, Line>,
    /// Workers that are to begin.
    begun: Vec<(Folder, Begun)>,
    ending: BTreeMap<Folder, CancellationToken>,
    /// Groups whose workers have died.
    dead: BTreeSet<Folder>,
    /// Claims that wait for a worker, and those of groups that are set aside.
    growing: BTreeMap<Folder, Vec<Claimed>>,
    aside: BTreeMap<Folder, Vec<Claimed>>,
    /// After which group it is looked next whether boxes were replaced, and what was found.
    checked: Option<Folder>,
    found: Arc<Mutex<Vec<Looked>>>,
    is_looking: bool,
    is_sweeping: bool,
    scan_every: Duration,
    /// When all boxes are looked at, those that no event tells of, and when it is tried to watch these.
    scan: Instant,
    blind: Instant,
    again: Instant,
}

/// What the loop is told.
enum Heard {
    Ask(Ask),
    Hint(Hint),
}

/// What work is serial in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A group's mailbox.
    Group(Folder),
    /// All boxes, of which it is looked whether they were replaced.
    Boxes,
    Trash,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(folder) => folder.fmt(f),
            Self::Boxes => f.write_str("all boxes"),
            Self::Trash => f.write_str("data/tmp/trash"),
        }
    }
}

/// The work of this loop.
#[derive(Clone)]
pub enum Task {
    /// A group's commands are taken in, by a worker that begins once.
    Work(Begun),
    /// It is looked whether these boxes were replaced.
    Compare(Vec<Arc<GroupBoxes>>, Arc<Mutex<Vec<Looked>>>),
    Sweep,
}

impl Mailbox {
    /// Takes over what [`recover()`] returned.
    #[must_use]
    pub fn new(
        mail: Arc<Mailboxes>,
        watch: Watch,
        asks: mpsc::UnboundedReceiver<Ask>,
        recovered: Left,
    ) -> Self {
        let mut growing: BTreeMap<Folder, Vec<Claimed>> = BTreeMap::new();
        for claimed in recovered.growing {
            growing.entry(claimed.folder.clone()).or_default().push(claimed);
        }
        let mut settings = mail.config.follow();
        let scan_every = settings.borrow_and_update().limits.scan_every;
        let now = mail.machine.world.monotonic();
        Self {
            mail,
            watch,
            asks,
            settings,
            heard: VecDeque::new(),
            workers: BTreeMap::new(),
            begun: Vec::new(),
            ending: BTreeMap::new(),
            dead: BTreeSet::new(),
            growing,
            aside: recovered.aside,
            checked: None,
            found: Arc::default(),
            is_looking: false,
            is_sweeping: false,
            scan_every,
            scan: now,
            blind: now,
            again: now,
        }
    }
}

impl Loop for Mailbox {
    const NAME: LoopName = LoopName::Mailbox;
    const AT_ONCE: usize = usize::MAX;
    const LOOKS_AT_ENDS: bool = true;
    const FINISHES_LOOKS: bool = true;
    /// Claimed files are settled.
    const FINISHES_WITHIN: Duration = Duration::from_secs(20);
    /// A look acts on boxes, and so waits for their file system.
    const LOOKS_WITHIN: Duration = Duration::from_secs(300);
    /// Which workers there are is in memory alone.
    const OUTLIVES_PANICS: bool = false;
    type Key = Place;
    type Job = Task;
    type Hands = Mailboxes;

    fn hands(&self) -> Arc<Mailboxes> {
        Arc::clone(&self.mail)
    }

    async fn asked(&mut self) {
        let Self { asks, settings, watch, heard, .. } = self;
        // Hints last: a container can see to it that there is always another one.
        match either(asks.recv(), either(settings.changed(), watch.next())).await {
            Either::First(Some(ask)) => heard.push_back(Heard::Ask(ask)),
            // Everybody who could ask something has gone.
            Either::First(None) | Either::Second(Either::First(Err(_))) => std::future::pending().await,
            Either::Second(Either::First(Ok(()))) => {}
            Either::Second(Either::Second(hint)) => heard.push_back(Heard::Hint(hint)),
        }
    }

    async fn look(&mut self, why: &Why<Place>) -> Result<Plan<Place, Task>, Error> {
        let wanted = self.settings.borrow_and_update().limits.scan_every;
        let now = self.mail.machine.world.monotonic();
        if wanted != self.scan_every {
            (self.scan_every, self.scan, self.blind) = (wanted, now, now);
        }
        if why.all {
            let known = known_groups(&self.mail).await;
            self.open_groups(known);
            // All boxes were just looked at.
            self.scan = now + self.scan_every;
            self.is_sweeping = true;
        }
        let mut wake: Vec<(Place, Task)> = Vec::new();
        if why.all {
            wake.push((Place::Trash, Task::Sweep));
        }
        self.have_ended(&why.ended);
        self.dead.retain(|folder| self.workers.get(folder).is_some_and(|worker| !worker.is_at_work()));
        while let Some(heard) =
            self.heard.pop_front().or_else(|| Some(Heard::Ask(self.asks.try_recv().ok()?)))
        {
            match heard {
                Heard::Ask(ask) => self.answer(ask).await,
                Heard::Hint(hint) => self.hint(hint),
            }
        }
        for _ in 0..HINTS_AT_ONCE {
            let Some(hint) = self.watch.next().now_or_never() else { break };
            self.hint(hint);
        }
        let is_blind = !self.mail.machine.unwatched().is_empty();
        if is_blind && self.again <= now {
            self.again = now + WATCH_AGAIN;
            self.watch_again().await;
        }
        if is_blind && self.blind <= now {
            self.blind = now + BLIND.min(self.scan_every);
            scan_unwatched(&self.mail, &self.workers);
        }
        if self.scan <= now {
            self.scan = now + self.scan_every;
            if !std::mem::replace(&mut self.is_looking, true) {
                let some = next_boxes(&self.mail, &mut self.checked);
                wake.push((Place::Boxes, Task::Compare(some, Arc::clone(&self.found))));
            }
            self.begin_anew().await;
            scan_changed(&self.mail, &self.workers);
            // A container may see to it that something is thrown away all the time.
            if self.mail.boxes.dirs.has_discarded() && !std::mem::replace(&mut self.is_sweeping, true) {
                wake.push((Place::Trash, Task::Sweep));
            }
        }
        let begun = std::mem::take(&mut self.begun);
        wake.extend(begun.into_iter().map(|(folder, begun)| (Place::Group(folder), Task::Work(begun))));
        let next = match self.mail.machine.unwatched().is_empty() {
            true => self.scan,
            false => self.scan.min(self.blind).min(self.again),
        };
        let again = next.duration_since(self.mail.machine.world.monotonic());
        Ok(Plan { wake, again: Some(again), ..Plan::default() })
    }

    async fn perform(
        mail: Arc<Mailboxes>,
        _: Place,
        task: Task,
        _: CancellationToken,
    ) -> Result<Then, Error> {
        let world = mail.machine.world.clone();
        match task {
            // One that has died is begun anew by the loop.
            Task::Work(begun) => {
                if let Some(working) = begun.take() {
                    working.await;
                }
            }
            Task::Compare(some, found) => {
                let looked = world.blocking(move || compare(&mail, &some)).await;
                let looked = looked.map_err(|fault| Error::ours(&fault))?;
                *found.locked() = looked;
            }
            Task::Sweep => {
                world.blocking(move || sweep(&mail)).await.map_err(|fault| Error::ours(&fault))?;
            }
        }
        Ok(Then::Done)
    }

    fn span(place: &Place, _: &Task) -> tracing::Span {
        match place {
            Place::Group(folder) => span(folder),
            Place::Boxes | Place::Trash => tracing::Span::none(),
        }
    }

    fn stops(&mut self) {
        self.workers.clear();
    }
}

impl Mailbox {
    /// Takes in what has ended.
    fn have_ended(&mut self, ended: &[Place]) {
        for place in ended {
            match place {
                Place::Trash => self.is_sweeping = false,
                Place::Boxes => {
                    self.is_looking = false;
                    let found = std::mem::take(&mut *self.found.locked());
                    act_on_identity(&self.mail, &mut self.watch, &mut self.workers, found);
                }
                // A group that is gone has no worker, and one that has just come has another.
                Place::Group(folder) => drop(self.dead.insert(folder.clone())),
            }
        }
    }

    /// Begins workers anew that have died, with the claimed files that nobody works on any more. While these can't be read, it is tried
    /// again at the next scan.
    async fn begin_anew(&mut self) {
        let dead: Vec<Folder> = self.dead.iter().cloned().collect();
        if dead.is_empty() {
            return;
        }
        let looking = Arc::clone(&self.mail);
        let found = match self.mail.machine.world.blocking(move || looking.claims.left_over()).await {
            Ok(Ok(found)) => found.claims,
            Ok(Err(error)) => {
                return tracing::error!(error = %chain(&error), "reading data/claimed failed; it is tried again");
            }
            Err(fault) => {
                return tracing::error!(fault = %chain(&fault), "our own fault: reading data/claimed failed; it is tried again");
            }
        };
        for folder in dead {
            self.dead.remove(&folder);
            if self.workers.get(&folder).is_none_or(Line::is_at_work) {
                continue;
            }
            tracing::error!(group = %folder, "our own fault: the work on a group's commands died; it begins anew");
            self.workers.remove(&folder);
            let claims = found.iter().filter(|claimed| claimed.folder == folder).cloned().collect();
            self.growing.insert(folder, claims);
        }
        let known = known_groups(&self.mail).await;
        self.open_groups(known);
    }

    async fn answer(&mut self, ask: Ask) {
        let mail = Arc::clone(&self.mail);
        match ask {
            Ask::Groups(done) => {
                let known = known_groups(&mail).await;
                if let Some(known) = &known {
                    refuse_gone(&mail, known, &mut self.growing).await;
                }
                // No await from here on: claims of a released group must come before its new files.
                let changed = mail.held.look_again();
                self.open_groups(known);
                match changed {
                    Ok(false) => {}
                    Ok(true) => {
                        go_on_with_released(&mail, &self.workers, &mut self.aside, &mut self.growing);
                        rescan_all(&mut self.workers);
                    }
                    Err(error) => tracing::error!(error = %chain(&error), "reading what is held failed"),
                }
                // Who asked may have gone; so it is with the answers below.
                let _ = done.send(());
            }
            Ask::PutAway(folder, done) => {
                self.ending.retain(|_, ended| !ended.is_cancelled());
                if let Some(ended) = put_away(&mail, &mut self.watch, &mut self.workers, &folder) {
                    self.ending.insert(folder.clone(), ended);
                }
                // An earlier try may have put it away, and its worker may still be at work.
                let ended = self.ending.get(&folder).cloned();
                let _ = done.send(ended.unwrap_or_else(has_ended));
            }
            Ask::Drain(folder, done) => {
                if !self.workers.contains_key(&folder) {
                    let known = known_groups(&mail).await;
                    self.open_groups(known);
                }
                match self.workers.get(&folder) {
                    Some(worker) => worker.give(Job::Drain(done)),
                    None => drop(done.send(undrained(&mail, &folder).await)),
                }
            }
            Ask::Settle(claimed, done) => match self.workers.get(&claimed.folder) {
                Some(worker) => worker.give(Job::Settle(Box::new(claimed), done)),
                None => {
                    put_off(&mail, claimed, &mut self.growing, &mut self.aside).await;
                    let _ = done.send(());
                }
            },
        }
    }

    fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::File { folder, in_box, name } => {
                if let Some(worker) = self.workers.get_mut(&folder) {
                    worker.hints.send(Hint::File { folder, in_box, name });
                }
            }
            Hint::Rescan => rescan_all(&mut self.workers),
            Hint::Lost { folder } => {
                tracing::warn!(group = %folder, "a box is watched no more; opening the boxes anew");
                reopen(&self.mail, &mut self.watch, &mut self.workers, &folder);
            }
        }
    }

    fn open_groups(&mut self, known: Option<Known>) {
        let Self { mail, watch, workers, begun, growing, .. } = self;
        open_groups(mail, known, watch, workers, begun, growing);
    }

    async fn watch_again(&mut self) {
        let Self { mail, watch, workers, begun, growing, .. } = self;
        watch_again(mail, watch, workers, begun, growing).await;
    }
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

/// Empties the trash. Blocks.
fn sweep(mail: &Mailboxes) {
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
    mail.machine.look_at_runs.notify_one();
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
        // Boxes that can't be looked at now are opened again by the scan.
        if boxes.is_none_or(|(_, boxes)| has_changed(mail, boxes) != Some(false)) {
            worker.give(Job::Scan(worker.sight()));
        }
    }
}

/// Whether something may have come into a group's boxes since the last look; `None` where they can't be looked at.
fn has_changed(mail: &Mailboxes, boxes: &GroupBoxes) -> Option<bool> {
    Some(!boxes.changed(mail.machine.world.now()).ok()?.is_empty())
}

/// Has the workers scan whose boxes have changed without an event telling of it.
fn scan_unwatched(mail: &Mailboxes, workers: &BTreeMap<Folder, Line>) {
    let open = mail.boxes.open();
    for (folder, worker) in workers.iter().filter(|(_, worker)| !worker.watched) {
        // Boxes that can't be looked at are opened again by the scan of all.
        if open.get(folder).is_some_and(|boxes| has_changed(mail, boxes) == Some(true)) {
            worker.give(Job::Scan(worker.sight()));
        }
    }
}
