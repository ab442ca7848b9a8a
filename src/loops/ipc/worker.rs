//! The worker of one group: which files are taken, and when.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_channel::mpsc;
use ipc_handlers::Folder;
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;

use super::{
    super::{Drained, Trouble, starts::What},
    Mailboxes,
    answer::{LONGEST_REST, REST},
    fault::blocking,
    flow::WRITER_LIMIT,
    gate::{self, Gate, Unrefused},
    read::Patience,
};
use crate::{
    domain::{
        mailbox::scan::{Sight, Turns},
        shown::errors::chain,
    },
    engine::{passed, rested},
    ipc::{Claimed, CommandBox, Hint, Hints},
    system::{failpoint, panics::caught},
};

mod scan;
mod take;

/// How often one that is being written is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The pauses between looks at what a dead container left, while something is in the way, ms.
const DRAIN_AGAIN: [u64; 4] = [100, 200, 400, 800];
/// How long an event of a container that is dead may be on its way: its last ones were sent before we were told.
const LAST_EVENTS: Duration = Duration::from_millis(50);

/// How many hints wait for one group's worker.
pub(super) const HINTS: usize = 4096;

pub(super) enum Job {
    Scan(Sight),
    Drain(oneshot::Sender<Drained>),
    Settle(Box<Claimed>, oneshot::Sender<()>),
    /// These were claimed by an earlier daemon, and may be taken in now.
    Recover(Vec<Claimed>),
}

/// What a worker begins with, after the files that an earlier daemon had claimed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// What is in its boxes.
    Look,
    /// They were seen to be empty, and are watched.
    Nothing,
}

/// What a worker does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Begin(First),
    /// Its work panicked.
    Anew,
    Work,
}

/// The state of one group's worker.
pub(super) struct Worker {
    mail: Arc<Mailboxes>,
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
    /// Some of `growing` are whole, and are taken in before anything younger is.
    left: bool,
    /// Claimed files were left to the next start, as the daemon stops: nothing younger goes before them.
    ended: bool,
    /// Something was in the way of a look: files may be left that could be taken.
    missed: bool,
    /// What a dead container left is looked for the last time: if one box can't be listed, the other's files are taken.
    is_last_try: bool,
    /// When files that could not be read may be looked at again.
    rested: Instant,
    /// Cancels, as the worker is dropped, the token that tells of its end.
    _at_work: DropGuard,
}

/// What a worker has been told since it last looked.
#[derive(Default)]
struct News {
    files: Vec<(CommandBox, OsString)>,
    scan: Option<Sight>,
    drained: Vec<oneshot::Sender<Drained>>,
    by_hand: Vec<(Claimed, oneshot::Sender<()>)>,
    recovered: Vec<Claimed>,
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
            Job::Recover(claims) => self.recovered.extend(claims),
        }
    }
}

impl Worker {
    /// A worker that has not looked yet, with the files that an earlier daemon had claimed. It drops `at_work` at its end.
    pub(super) fn new(
        mail: Arc<Mailboxes>,
        folder: Folder,
        growing: Vec<(Claimed, Instant)>,
        at_work: DropGuard,
    ) -> Self {
        let now = mail.machine.world.monotonic();
        Self {
            mail,
            folder,
            growing,
            unsettled: 0,
            turns: Turns::default(),
            began: now,
            told_of: BTreeSet::new(),
            gate: Gate::default(),
            left: false,
            ended: false,
            missed: false,
            is_last_try: false,
            rested: now,
            _at_work: at_work,
        }
    }

    /// Works until nobody can tell it anything any more. Work that panics begins anew after a rest, with the claimed files that
    /// nobody works on any more; drains that it was at get no answer. Most workers wait, and one that waits takes little
    /// memory: the state of the work is boxed, and the future holds the worker once.
    #[expect(clippy::manual_async_fn, reason = "the future of an `async fn` holds its arguments twice")]
    pub(super) fn run(
        mut self,
        first: First,
        mut hints: Hints,
        mut jobs: mpsc::UnboundedReceiver<Job>,
    ) -> impl Future<Output = ()> + Send {
        async move {
            let (mut next, mut rest) = (Next::Begin(first), REST);
            loop {
                match caught(self.go_on(next, &mut hints, &mut jobs)).await {
                    Ok(Some(())) => (next, rest) = (self.is_well(next), REST),
                    Ok(None) => return,
                    Err(fault) => {
                        tracing::error!(
                            fault = %chain(&fault),
                            "our own fault: the work on a group's commands failed; it begins anew"
                        );
                        self.mail
                            .machine
                            .troubles
                            .note(Trouble::Commands(self.folder.clone()), chain(&fault));
                        next = Next::Anew;
                        // At a stop it begins anew at once: what is claimed is settled first.
                        let _stops = rested(&self.mail.stop, rest).await;
                        rest = (rest * 2).min(LONGEST_REST);
                    }
                }
            }
        }
    }

    /// Does one piece of work; `None`: there is none, and nothing comes any more.
    async fn go_on(
        &mut self,
        next: Next,
        hints: &mut Hints,
        jobs: &mut mpsc::UnboundedReceiver<Job>,
    ) -> Option<()> {
        match next {
            Next::Begin(first) => Box::pin(self.begin(first)).await,
            Next::Anew => Box::pin(self.begin_anew()).await,
            Next::Work => {
                let news = self.news(hints, jobs).await?;
                Box::pin(self.act(news, hints)).await;
            }
        }
        Some(())
    }

    /// A piece of work is done. Others tell of the next one.
    fn is_well(&self, done: Next) -> Next {
        if done == Next::Anew {
            self.mail.machine.troubles.is_over(&Trouble::Commands(self.folder.clone()));
        }
        Next::Work
    }

    /// Takes up what earlier work that panicked had in hand, and looks at everything.
    async fn begin_anew(&mut self) {
        self.after_a_panic(Patience::Some).await;
        if !self.mail.searches.has(&self.folder) {
            self.mail.starts.taken(&self.folder, What::Claims);
        }
        self.gate.open();
        self.scan(Sight::First, Patience::Some).await;
    }

    async fn begin(&mut self, first: First) {
        // Claims of an earlier daemon are older than files in the boxes, and these than files that are told of.
        if self.mail.starts.is_left(&self.folder, What::Claims) {
            let turn = self.mail.starts.turn().await;
            self.mail.starts.taking(&self.folder, What::Claims);
            self.look_again(Patience::Some).await;
            if self.mail.searches.has(&self.folder) {
                self.mail.starts.rests(&self.folder, What::Claims);
            } else {
                self.mail.starts.taken(&self.folder, What::Claims);
            }
            drop(turn);
        } else {
            self.look_again(Patience::Some).await;
        }
        if first == First::Look {
            self.scan(Sight::First, Patience::Some).await;
        }
    }

    /// Waits until there may be something to do. `None`: nothing comes any more.
    async fn news(&self, hints: &mut Hints, jobs: &mut mpsc::UnboundedReceiver<Job>) -> Option<News> {
        let look_again = if self.growing.is_empty() && !self.turns.anything_waits() {
            Duration::from_secs(3600)
        } else {
            LOOK_AGAIN.max(self.rested.duration_since(self.mail.machine.world.monotonic()))
        };
        let mut news = News::default();
        tokio::select! {
            hint = hints.recv() => news.hint(hint?),
            job = jobs.recv() => news.job(job.ok()?),
            () = tokio::time::sleep(look_again) => {
                news.scan = self.turns.anything_waits().then_some(Sight::Second);
            }
            () = passed(self.gate.shut_until()) => {}
        }
        while let Ok(job) = jobs.try_recv() {
            news.job(job);
        }
        // Files that were told of go first, whatever a scan would find.
        while news.scan != Some(Sight::First)
            && news.files.len() < HINTS
            && let Some(hint) = hints.try_recv()
        {
            news.hint(hint);
        }
        Some(news)
    }

    async fn act(&mut self, mut news: News, hints: &mut Hints) {
        self.mind_the_gate(&mut news).await;
        let News { files, scan, drained, by_hand, recovered } = news;
        for (claimed, done) in by_hand {
            self.settle_by_hand(claimed).await;
            // Who asked may have gone; so it is below.
            let _ = done.send(());
        }
        if !recovered.is_empty() {
            let now = self.mail.machine.world.monotonic();
            self.growing.extend(recovered.into_iter().map(|claimed| (claimed, now)));
            self.look_again(Patience::Some).await;
        }
        // A writer makes one file after the other, so the earlier ones are finished by now.
        self.look_again(if drained.is_empty() { Patience::Some } else { Patience::None }).await;
        self.take_told(files).await;
        if drained.is_empty() {
            if let Some(sight) = scan {
                self.scan(sight, Patience::Some).await;
                self.take_told(Vec::new()).await;
            }
        } else {
            failpoint::reach_of("ipc.draining", self.folder.as_str());
            self.hear_the_last(hints).await;
            self.drain().await;
        }
        // Where files were left to the next start, nobody is told that they are settled.
        for done in drained.into_iter().filter(|_| !self.ended) {
            let _ = done.send(Drained::Done);
        }
    }

    /// A file that is told of while the gate is shut waits behind those that wait already: a scan takes all, oldest first.
    async fn mind_the_gate(&mut self, news: &mut News) {
        let Some(until) = self.gate.shut_until() else { return };
        news.files.clear();
        self.turns.forget();
        if self.mail.machine.world.monotonic() < until {
            news.scan = None;
            return;
        }
        news.scan = Some(Sight::First);
        let for_space = self.gate.waits_for_space();
        self.gate.open();
        // A refusal is written down, too.
        if for_space || self.ended {
            return;
        }
        let (mail, folder) = (Arc::clone(&self.mail), self.folder.clone());
        let work = move || gate::refuse_excess(&mail, &folder);
        let Ok(Unrefused { unread, waiting }) =
            blocking(&self.mail, &self.folder, "refusing the excess", work).await
        else {
            return self.after_a_panic(Patience::Some).await;
        };
        let now = self.mail.machine.world.monotonic();
        self.growing.extend(unread.into_iter().map(|claimed| (claimed, now)));
        self.settle_rest(waiting, Patience::Some).await;
    }

    /// Takes what a dead container left, as far as it may be taken. Where something is in the way, it is tried a few times.
    async fn drain(&mut self) {
        let mut pauses = DRAIN_AGAIN.into_iter().map(Duration::from_millis);
        loop {
            self.missed = false;
            let pause = pauses.next();
            self.is_last_try = pause.is_none();
            self.look_again(Patience::None).await;
            self.scan(Sight::First, Patience::None).await;
            self.look_again(Patience::None).await;
            // Claimed files that are still there could not be read. After a minute nobody waits for one any more.
            let now = self.mail.machine.world.monotonic();
            let is_unread = self.growing.iter().any(|(_, at)| now.duration_since(*at) < WRITER_LIMIT);
            if !(self.missed || is_unread) || self.ended {
                return;
            }
            let Some(pause) = pause else { break };
            if rested(&self.mail.stop, pause).await {
                return self.ended = true;
            }
        }
        tracing::error!(
            "something is in the way: some commands of this group are not settled before its run is judged, or before it is removed"
        );
    }

    /// Takes what a dead container's last events tell of, if it has left anything.
    async fn hear_the_last(&mut self, hints: &mut Hints) {
        let until = self.mail.machine.world.monotonic() + LAST_EVENTS;
        while !self.ended && self.mail.machine.world.monotonic() < until && self.anything_waits().await {
            let Ok(Some(hint)) = tokio::time::timeout_at(until.into(), hints.recv()).await else { return };
            let mut news = News::default();
            news.hint(hint);
            while let Some(hint) = hints.try_recv() {
                news.hint(hint);
            }
            self.look_again(Patience::None).await;
            self.take_told(news.files).await;
        }
    }

    /// Takes these files, of which events have told, unless others go before them.
    async fn take_told(&mut self, files: Vec<(CommandBox, OsString)>) {
        if self.gate.shut_until().is_some() {
            // Older files wait. The next scan takes all of them, in order.
            return self.turns.forget();
        }
        let take = self.turns.told(files);
        self.take(take, Patience::Some).await;
    }

    async fn anything_waits(&self) -> bool {
        if self.mail.held.group(&self.folder) {
            return false;
        }
        let Ok(boxes) = self.mail.boxes.of(&self.folder) else { return false };
        let waits = move || {
            CommandBox::ALL
                .into_iter()
                .any(|in_box| boxes.list(in_box, 1).is_ok_and(|listing| !listing.entries.is_empty()))
        };
        // The last look sees it, too.
        self.mail.machine.world.blocking(waits).await.unwrap_or(false)
    }
}
