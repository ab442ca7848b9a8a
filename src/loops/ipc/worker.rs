//! The worker of one group: which files are taken, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, PoisonError},
    time::Duration,
};

use ipc_handlers::Folder;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::Instant,
};

use super::{
    super::Host,
    answer::settle_again,
    chain,
    flow::{CLAIMED_AT_ONCE, Flow, Handled, TOGETHER, handle},
    gate::{self, Gate},
    read::{Patience, Taken, claim},
};
use crate::{
    clock,
    domain::scan::{self, Found, Look, Sight, Turns},
    failpoint,
    ipc::{Claimed, CommandBox, Entry, Hint, Hints, Kind, Writer},
};

/// So few files are taken at once; for more a group waits until the crowd has places.
const FEW: usize = 8;
/// So many places in the crowd a group takes at least: a dozen at once keep the disk busy.
const LEAST: usize = 32;
/// How many files of a box are listed at a time.
const LISTED: usize = 16_384;
/// How often one that is being written is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long an event of a container that is dead may be on its way: its last ones were sent before we were told.
const LAST_EVENTS: Duration = Duration::from_millis(50);
/// How far the clock by which files are stamped may be behind ours, ms.
const CLOCK_TICK_MS: i64 = 10;

/// How many hints wait for one group's worker.
pub(super) const HINTS: usize = 4096;

pub(super) enum Job {
    Scan(Sight),
    Drain(oneshot::Sender<()>),
    Settle(Box<Claimed>, oneshot::Sender<()>),
}

/// The state of one group's worker.
pub(super) struct Worker {
    host: Arc<Host>,
    folder: Folder,
    /// Claimed files that may not be whole yet, with when they were claimed.
    growing: Vec<(Claimed, Instant)>,
    /// How large those are together, bytes.
    unsettled: u64,
    /// Which of what it has seen and was told of may be taken.
    turns: Turns<(CommandBox, OsString)>,
    /// When it began: looks are dated from then.
    began: Instant,
    /// Directories named like commands that were told of.
    told_of: BTreeSet<(CommandBox, OsString)>,
    /// How much may be taken.
    gate: Gate,
}

/// What a worker has been told since it last looked.
#[derive(Default)]
struct News {
    files: Vec<(CommandBox, OsString)>,
    scan: Option<Sight>,
    drained: Vec<oneshot::Sender<()>>,
    by_hand: Vec<(Claimed, oneshot::Sender<()>)>,
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
            Job::Settle(claimed, done) => self.by_hand.push((*claimed, done)),
        }
    }
}

impl Worker {
    /// A worker that has not looked yet, with the files that an earlier daemon had claimed.
    pub(super) fn new(host: Arc<Host>, folder: Folder, growing: Vec<(Claimed, Instant)>) -> Self {
        let gate = Gate::new(&host, clock::now());
        Self {
            host,
            folder,
            growing,
            unsettled: 0,
            turns: Turns::default(),
            began: Instant::now(),
            told_of: BTreeSet::new(),
            gate,
        }
    }

    pub(super) async fn run(mut self, mut hints: Hints, mut jobs: mpsc::UnboundedReceiver<Job>) {
        // What was there before anybody watched is older than whatever is told of.
        self.scan(Sight::First, Patience::Some).await;
        loop {
            let look_again = if self.growing.is_empty() && !self.turns.anything_waits() {
                Duration::from_secs(3600)
            } else {
                LOOK_AGAIN
            };
            let mut news = News::default();
            tokio::select! {
                hint = hints.recv() => match hint { Some(hint) => news.hint(hint), None => return },
                job = jobs.recv() => match job { Some(job) => news.job(job), None => return },
                () = tokio::time::sleep(look_again) => {
                    news.scan = self.turns.anything_waits().then_some(Sight::Second);
                }
                () = shut_until(self.gate.shut_until()) => {}
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
            self.mind_the_gate(&mut news).await;
            let News { files, scan, drained, by_hand } = news;
            for (claimed, done) in by_hand {
                self.settle_by_hand(claimed).await;
                let _ = done.send(());
            }
            self.take_told(files).await;
            if drained.is_empty() {
                if let Some(sight) = scan {
                    self.scan(sight, Patience::Some).await;
                    self.take_told(Vec::new()).await;
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

    /// What is told of while the gate is shut waits behind what waits already: a scan takes all of it, oldest first.
    async fn mind_the_gate(&mut self, news: &mut News) {
        let Some(until) = self.gate.shut_until() else { return };
        news.files.clear();
        self.turns.forget();
        if Instant::now() < until {
            news.scan = None;
            return;
        }
        self.gate.open();
        news.scan = Some(Sight::First);
        let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
        let unread = spawn_blocking(move || gate::refuse_excess(&host, &folder)).await;
        let now = Instant::now();
        self.growing.extend(unread.unwrap_or_default().into_iter().map(|claimed| (claimed, now)));
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
            self.take_told(news.files).await;
        }
    }

    /// Takes these files, of which events have told, unless others go before them.
    async fn take_told(&mut self, files: Vec<(CommandBox, OsString)>) {
        let take = self.turns.told(files);
        self.take(take, Patience::Some).await;
    }

    /// Settles a claimed file now: a person has decided on it.
    async fn settle_by_hand(&mut self, claimed: Claimed) {
        let known = self.growing.iter().position(|(growing, _)| growing.id == claimed.id);
        let claimed = known.map_or(claimed, |at| self.growing.swap_remove(at).0);
        let taken = vec![Taken::before(claimed, Duration::ZERO)];
        let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
        let handled = spawn_blocking(move || handle(&host, &folder, taken, Patience::None)).await;
        let handled = handled.unwrap_or_default();
        self.gate.took(0, handled.messages);
        self.unsettled += handled.unsettled;
        let now = Instant::now();
        self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
        settle_again(&self.host, &self.folder, handled.waiting).await;
    }

    async fn anything_waits(&self) -> bool {
        if self.host.is_held(&self.folder) {
            return false;
        }
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
        let sight = self.turns.sight(sight);
        let begun = scan::stamp_after(clock::now());
        loop {
            if self.host.is_held(&self.folder) {
                self.turns.forget();
                return;
            }
            let Ok(boxes) = self.host.boxes(&self.folder) else { return };
            // Of what is published while the boxes are read, a later file may be seen and an earlier one not.
            let complete_until = scan::stamp_after(clock::now().plus_ms(-CLOCK_TICK_MS - 1));
            let listed = spawn_blocking(move || {
                let (mut found, mut directories) = (Vec::new(), BTreeSet::new());
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
                            directories.extend(listing.directories.into_iter().map(|entry| (in_box, entry.name)));
                            found.extend(listing.entries.into_iter().map(|entry| {
                                // What is no file has no writer that could be waited for.
                                let open = entry.kind == Kind::File
                                    && !matches!(boxes.writer(in_box, &entry), Writer::None);
                                (in_box, entry, open)
                            }));
                        }
                        Err(error) => tracing::warn!(group = %boxes.folder(), error = %chain(&error), "listing a box failed; it is tried again"),
                    }
                }
                found.retain(|(_, entry, _)| entry.ctime <= until);
                found.sort_by(|a, b| a.1.cmp(&b.1));
                (found, directories, more)
            })
            .await;
            let Ok((found, directories, more)) = listed else { return };
            self.tell_of(directories);
            let found = self.without_held(found);
            let look = Look { sight, more, begun, complete_until, now: self.began.elapsed() };
            let (take, too_new) = match patience {
                Patience::Some => {
                    let turn = self.turns.look(look, found);
                    (turn.take, turn.too_new && complete_until < begun)
                }
                Patience::None => {
                    self.turns.forget();
                    (found.into_iter().map(|file| file.key).collect(), false)
                }
            };
            let taken = self.take(take, patience).await;
            if too_new {
                tokio::time::sleep(Duration::from_millis(CLOCK_TICK_MS.unsigned_abs() + 1)).await;
            } else if taken == 0 || !more {
                // Where nothing could be claimed (the world is in the way), the next look tries again.
                return;
            }
        }
    }

    /// Says which directories are named like commands, each once for as long as it is there.
    fn tell_of(&mut self, directories: BTreeSet<(CommandBox, OsString)>) {
        for (in_box, name) in directories.difference(&self.told_of) {
            tracing::warn!(group = %self.folder, %in_box, ?name, "a directory is named like a command; its writer has to remove it");
        }
        self.told_of = directories;
    }

    fn without_held(&self, found: Vec<(CommandBox, Entry, bool)>) -> Vec<Found<(CommandBox, OsString)>> {
        let holds = self.host.holds.read().unwrap_or_else(PoisonError::into_inner);
        let is_held = |in_box: CommandBox, entry: &Entry| {
            holds.file(&self.folder, in_box.as_str(), entry.name.as_bytes())
        };
        let left = found.into_iter().filter(|(in_box, entry, _)| !is_held(*in_box, entry));
        left.map(|(in_box, entry, open)| Found { key: (in_box, entry.name), ctime: entry.ctime, open })
            .collect()
    }

    /// Claims, reads, settles and answers files; returns how many were claimed.
    async fn take(&mut self, files: Vec<(CommandBox, OsString)>, patience: Patience) -> usize {
        let mut count = 0;
        let mut files = files.into_iter();
        while files.len() > 0 {
            let open = self.gate.opens_for(&self.host, &self.folder, self.unsettled);
            if open == 0 {
                return count;
            }
            let wanted = if files.len() > FEW { files.len().clamp(LEAST, TOGETHER) } else { 0 };
            let places = self.host.crowd.acquire_many(u32::try_from(wanted).unwrap_or(0)).await;
            let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
            let room = host.config.waiting_bytes.saturating_sub(self.unsettled);
            // One thread from the claim to the answer: each change of threads would cost more than the work.
            let taken = spawn_blocking(move || take_in(&host, &folder, files, open, room, patience)).await;
            let TakenIn { rest, claimed, handled, stuck } = taken.unwrap_or_default();
            drop(places);
            files = rest;
            count += claimed;
            self.gate.took(claimed, handled.messages);
            self.unsettled += handled.unsettled;
            let now = Instant::now();
            self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
            settle_again(&self.host, &self.folder, handled.waiting).await;
            if stuck {
                self.gate.shut();
                return count;
            }
        }
        count
    }

    /// Looks at files again that were not whole.
    async fn look_again(&mut self, patience: Patience) {
        let growing = std::mem::take(&mut self.growing);
        if growing.is_empty() {
            self.unsettled = 0;
            return;
        }
        let now = Instant::now();
        let since: BTreeMap<i64, Instant> = growing.iter().map(|(claimed, at)| (claimed.id, *at)).collect();
        self.unsettled = 0;
        let taken: Vec<_> =
            growing.into_iter().map(|(claimed, at)| Taken::before(claimed, now.duration_since(at))).collect();
        let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
        let handled =
            spawn_blocking(move || handle(&host, &folder, taken, patience)).await.unwrap_or_default();
        self.gate.took(0, handled.messages);
        self.unsettled += handled.unsettled;
        self.growing.extend(handled.growing.into_iter().map(|claimed| {
            let at = since.get(&claimed.id).copied().unwrap_or(now);
            (claimed, at)
        }));
        settle_again(&self.host, &self.folder, handled.waiting).await;
    }
}

/// What became of files that were to be taken.
#[derive(Default)]
struct TakenIn {
    /// Those that were not looked at, as the world is in the way of what came before, or too much is unsettled.
    rest: std::vec::IntoIter<(CommandBox, OsString)>,
    claimed: usize,
    handled: Handled,
    /// One could not be claimed: what is younger must not go before it.
    stuck: bool,
}

/// Claims at most `open` files, while what can't be settled yet has less than `room` bytes. On a thread that may block.
fn take_in(
    host: &Arc<Host>,
    folder: &Folder,
    mut files: std::vec::IntoIter<(CommandBox, OsString)>,
    open: usize,
    room: u64,
    patience: Patience,
) -> TakenIn {
    let mut flow = Flow::new(host, folder, patience);
    let (mut open, mut claimed, mut stuck) = (open, 0, false);
    while !stuck
        && open > 0
        && files.len() > 0
        && flow.so_far().unsettled < room
        && flow.so_far().waiting.is_empty()
    {
        failpoint::reach("ipc.seen");
        let Ok(boxes) = host.boxes(folder) else {
            files = Vec::new().into_iter();
            break;
        };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < TOGETHER
            && bytes < CLAIMED_AT_ONCE
            && open > 0
            && let Some((in_box, name)) = files.next()
        {
            open -= 1;
            match claim(host, &boxes, in_box, &name) {
                Ok(None) => {}
                Ok(Some(file)) => {
                    bytes += file.bytes();
                    taken.push(file);
                }
                Err(_) => {
                    stuck = true;
                    break;
                }
            }
        }
        if !taken.is_empty() {
            failpoint::reach("ipc.claimed");
            claimed += taken.len();
            flow.take(taken, files.len());
        }
    }
    TakenIn { rest: files, claimed, handled: flow.end(), stuck }
}

/// Waits for the gate to be tried again; for ever while it is open.
async fn shut_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
