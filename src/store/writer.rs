//! The one thread that writes. Work that waits is committed together, a savepoint each, so that one piece that fails or
//! panics doesn't sink its neighbours and a durable commit is shared by everybody who waits for one.
//!
//! A panic outside of a piece (in a commit, or in the feed) leaves nobody who writes: it ends the process, before anybody is
//! answered. The next start finds what the last commit left.

use std::{
    panic::{AssertUnwindSafe, Location, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{self, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use ipc_handlers::Time;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Fault, StoreError, talk::events::Feed};
use crate::{
    domain::{
        kept::writing::{HeldUp, Obstacle, Writing},
        shown::{
            errors::chain,
            metrics::{Histogram, Latency},
        },
    },
    system::{
        failpoint,
        locked::Locked as _,
        world::{Actor, Bell, World},
    },
};

mod piece;

pub(super) use piece::execute;
use piece::{in_savepoint, said};

/// How many pieces of work share one commit at most.
const BATCH: usize = 512;

/// How long the readers of the feed wait for a caller that wakes them itself. If a commit is under way then, they wait for its end.
const CALLERS_TURN: Duration = Duration::from_millis(3);

/// For how long a panic of a piece of work is told, ms.
const FAULT_FADES_MS: i64 = 600_000;

/// Work to do on the writer's connection.
struct Job {
    work: Work,
    wakes: Wakes,
}

/// Who wakes the readers of the feed after a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wakes {
    /// The writer.
    Writer,
    /// The caller, after its more urgent work. If it has not done so after [`CALLERS_TURN`], the writer does.
    Caller,
}

/// Whether the piece behind one goes into the same commit.
pub(super) enum Next {
    Goes,
    Waits,
}

/// Returns what to do once the commit is known. Without a connection (the transaction could not begin) it does nothing.
type Work = Box<dyn FnOnce(Option<&Connection>) -> Done + Send>;
type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A handle to the writer thread. The thread ends, after what waits, when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Writer {
    world: World,
    jobs: mpsc::Sender<Job>,
    bell: Bell,
    told: Arc<Told>,
}

/// What the thread tells of itself.
struct Told {
    world: World,
    /// How long commits took.
    commits: Latency,
    writing: Mutex<Writing>,
    /// When a piece of work panicked last, and where and why.
    fault: Mutex<Option<(Time, String)>>,
}

impl Told {
    fn new(world: World) -> Self {
        Self { world, commits: Latency::default(), writing: Mutex::default(), fault: Mutex::default() }
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.locked()
    }

    fn fault(&self) -> MutexGuard<'_, Option<(Time, String)>> {
        self.fault.locked()
    }

    /// Does a piece of work in a savepoint, and keeps in mind if it panics.
    fn piece<T>(
        &self,
        connection: &Connection,
        place: &'static Location<'static>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let outcome = in_savepoint(connection, place, work);
        if let Err(StoreError::Panicked { place, why }) = &outcome {
            *self.fault() = Some((self.world.now(), format!("{place}: {why}")));
        }
        outcome
    }

    fn has_failed(&self, why: &StoreError) {
        let by = match why {
            _ if super::is_disk_full(why) => Obstacle::NoRoom,
            _ if super::is_locked(why) => Obstacle::Lock,
            _ => Obstacle::Fault(chain(why)),
        };
        self.writing().has_failed(by, self.world.now());
    }
}

impl Writer {
    pub(super) fn start(world: World, connection: Connection, feed: Arc<Feed>) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel();
        let told = Arc::new(Told::new(world.clone()));
        let turns = Turns::new(world.clone(), connection, waiting, feed, Arc::clone(&told));
        let bell = world.begin("store-writer", turns).map_err(StoreError::Thread)?;
        Ok(Self { world, jobs, bell, told })
    }

    /// Returns how long commits took so far.
    pub(super) fn commits(&self) -> Histogram {
        self.told.commits.so_far()
    }

    /// Returns what keeps changes from being stored.
    pub(super) fn held_up(&self) -> Option<HeldUp> {
        self.told.writing().held_up(self.world.now())
    }

    /// Returns where and why a piece of work panicked last, if that was not long before `now`.
    pub(super) fn our_fault(&self, now: Time) -> Option<String> {
        let fault = self.told.fault();
        fault.as_ref().filter(|(at, _)| now.ms_since(*at) < FAULT_FADES_MS).map(|(_, why)| why.clone())
    }

    /// Runs `work` in a savepoint of the next commit and returns its value once that commit is durable.
    ///
    /// The work is queued when this is called, not when the future is first polled: order of calls is order of effects. Work that
    /// panics is undone, and answered by [`StoreError::Panicked`].
    #[track_caller]
    pub(super) fn write<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (place, told) = (Location::caller(), Arc::clone(&self.told));
        self.give(Wakes::Writer, move |connection| told.piece(connection, place, work))
    }

    /// Runs `work` in a savepoint of the next commit and returns its value before that commit. For changes that may be lost: if the
    /// commit fails, only the log says so.
    #[track_caller]
    pub(super) fn write_early<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (place, told) = (Location::caller(), Arc::clone(&self.told));
        let (answer, result) = Answer::new();
        let work: Work = Box::new(move |connection| {
            let Some(connection) = connection else {
                return Box::new(move |commit| answer.send(commit.and(Err(StoreError::Closed))));
            };
            let outcome = told.piece(connection, place, work);
            tell(move || answer.send(outcome));
            Box::new(|commit| {
                if let Err(error) = commit {
                    tracing::warn!(error = %chain(&error), "a change that was acted on could not be committed; it may be made again");
                }
            })
        });
        self.queue(work, Wakes::Writer, result)
    }

    /// Runs `work` for one piece after the other in the next commit, a savepoint each, and returns what became of them in order. One
    /// savepoint around many would keep each page that they change a second time. Where the world fails for one, or its work says
    /// so, those behind it are not tried: their outcomes are missing. The caller wakes the readers of the feed.
    #[track_caller]
    pub(super) fn write_pieces<P, T, F>(
        &self,
        pieces: Vec<P>,
        mut work: F,
    ) -> impl Future<Output = Result<Vec<Result<T, StoreError>>, StoreError>> + Send + use<P, T, F>
    where
        P: Send + 'static,
        T: Send + 'static,
        F: FnMut(&Connection, P) -> Result<(T, Next), StoreError> + Send + 'static,
    {
        let (place, told) = (Location::caller(), Arc::clone(&self.told));
        // All that callers do is done within a savepoint: nothing of a piece that panics can be left.
        self.give(Wakes::Caller, move |connection| {
            let mut outcomes = Vec::new();
            for piece in pieces {
                let (outcome, next) = match told.piece(connection, place, |c| work(c, piece)) {
                    Ok((value, next)) => (Ok(value), next),
                    Err(error) if error.is_worlds_fault() => (Err(error), Next::Waits),
                    Err(error) => (Err(error), Next::Goes),
                };
                outcomes.push(outcome);
                match next {
                    Next::Goes if !connection.is_autocommit() => {}
                    Next::Goes | Next::Waits => break,
                }
            }
            Ok(outcomes)
        })
    }

    fn give<T, F>(
        &self,
        wakes: Wakes,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, result) = Answer::new();
        let work: Work = Box::new(move |connection| {
            let outcome = connection.map_or(Err(StoreError::Closed), work);
            Box::new(move |commit| {
                answer.send(match outcome {
                    // Whatever became of the rest: it would do so again.
                    Err(panicked @ StoreError::Panicked { .. }) => Err(panicked),
                    outcome => commit.and(outcome),
                });
            })
        });
        self.queue(work, wakes, result)
    }

    /// Queues work at once, and returns what it answers.
    fn queue<T>(
        &self,
        work: Work,
        wakes: Wakes,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T>
    where
        T: Send + 'static,
    {
        let sent = self.jobs.send(Job { work, wakes });
        self.bell.ring();
        async move {
            sent.map_err(|_| StoreError::Closed)?;
            answer.await.map_err(|_| StoreError::Closed)?
        }
    }
}

/// Where a caller waits. While the writer itself panics nobody is answered: the process ends, and what a caller would take for a
/// failure may have been committed.
struct Answer<T>(Option<oneshot::Sender<Result<T, StoreError>>>);

impl<T> Answer<T> {
    fn new() -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    fn send(mut self, outcome: Result<T, StoreError>) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(outcome);
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

/// Tells a caller what came of its work. If waking it panics, the others are told all the same.
fn tell(answering: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(answering)) {
        tracing::error!(
            why = said(&*panic),
            "our own fault: telling what came of work on the store panicked"
        );
    }
}

/// What the thread does, a commit or a look at the feed at a time.
struct Turns {
    world: World,
    connection: Connection,
    waiting: mpsc::Receiver<Job>,
    feed: Arc<Feed>,
    told: Arc<Told>,
    /// By it we know of commits of other processes.
    others: Option<i64>,
    /// Since when readers wait for a caller to wake them.
    waits: Option<Instant>,
}

impl Actor for Turns {
    fn turn(&mut self, may_wait: bool) -> Option<Duration> {
        match catch_unwind(AssertUnwindSafe(|| self.work(may_wait))) {
            Ok(Went::Worked) => Some(Duration::ZERO),
            Ok(Went::Waited) => Some(self.rest()),
            Ok(Went::Ended) => None,
            Err(panic) => {
                self.world.end_as_broken(|| {
                    tracing::error!(
                        why = said(&*panic),
                        "our own fault: the store's writer panicked, so this process ends; the next one goes on from the last commit"
                    );
                });
                None
            }
        }
    }
}

impl Turns {
    fn new(
        world: World,
        connection: Connection,
        waiting: mpsc::Receiver<Job>,
        feed: Arc<Feed>,
        told: Arc<Told>,
    ) -> Self {
        let others = data_version(&connection);
        feed.learn_newest(&connection);
        Self { world, connection, waiting, feed, told, others, waits: None }
    }

    fn since(&self, instant: Instant) -> Duration {
        self.world.monotonic().saturating_duration_since(instant)
    }

    /// Returns how long it waits for work at most.
    fn rest(&self) -> Duration {
        match self.waits {
            Some(since) => CALLERS_TURN.saturating_sub(self.since(since)),
            None => self.feed.look_every(),
        }
    }

    fn work(&mut self, may_wait: bool) -> Went {
        let received = match may_wait {
            true => self.waiting.recv_timeout(self.rest()),
            false => self.waiting.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        };
        let received_work = received.is_ok();
        let mut looks = self.waits.is_none();
        // If the caller has woken them, the next commit begins a wait of its own.
        self.waits = self.waits.filter(|_| self.feed.has_news());
        match received {
            Ok(first) => match commit(&self.connection, first, &self.waiting, &self.feed, &self.told) {
                Committed::Nothing => {}
                Committed::Woken => (self.waits, looks) = (None, false),
                Committed::Waits => {
                    (self.waits, looks) = (self.waits.or_else(|| Some(self.world.monotonic())), false);
                }
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Went::Ended,
        }
        if self.waits.is_some_and(|since| self.since(since) >= CALLERS_TURN) {
            self.waits = None;
            self.feed.wake();
        }
        if looks {
            // Another process committed; only this number tells us.
            let now = data_version(&self.connection);
            if now != self.others || self.feed.is_behind() {
                self.others = now;
                self.feed.learn_newest(&self.connection);
                self.feed.wake();
            }
        }
        if received_work { Went::Worked } else { Went::Waited }
    }
}

/// What a turn of the thread came to.
enum Went {
    Worked,
    /// There was no work.
    Waited,
    /// Nobody can give it work any more.
    Ended,
}

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Committed {
    /// Nothing was written.
    Nothing,
    /// The readers of the feed were woken.
    Woken,
    /// They wait for the caller.
    Waits,
}

/// What changes when another connection commits; `None` when it can't be read.
fn data_version(connection: &Connection) -> Option<i64> {
    connection.prepare_cached("PRAGMA data_version").ok()?.query_row([], |r| r.get(0)).ok()
}

/// Commits waiting work together, puts its events into the feed, answers the callers who wait for it, then wakes the readers of the feed, unless
/// all callers do so themselves. In that order, so that a caller who knows of its change finds it in the feed, and goes on before
/// those readers do.
fn commit(
    connection: &Connection,
    first: Job,
    waiting: &mpsc::Receiver<Job>,
    feed: &Feed,
    tells: &Told,
) -> Committed {
    let began = tells.world.monotonic();
    tells.writing().begins(tells.world.now());
    // A transaction that can't begin, or ends by itself (disk full, I/O error), fails everything in it: the
    // callers know how to try again.
    if let Err(error) = execute(connection, "BEGIN IMMEDIATE") {
        let error = StoreError::from(error);
        tells.has_failed(&error);
        let done = (first.work)(None);
        tell(|| done(Err(error)));
        return Committed::Nothing;
    }
    tells.writing().has_lock();
    let before = connection.total_changes();
    let mut wakes = first.wakes;
    let mut done = vec![(first.work)(Some(connection))];
    // A full disk or an I/O error can end the transaction in the middle: what came before is gone with it.
    while done.len() < BATCH && !connection.is_autocommit() {
        let Ok(next) = waiting.try_recv() else { break };
        if next.wakes == Wakes::Writer {
            wakes = Wakes::Writer;
        }
        done.push((next.work)(Some(connection)));
    }
    if connection.is_autocommit() {
        tells.has_failed(&StoreError::RolledBack);
        done.into_iter().for_each(|done| tell(|| done(Err(StoreError::RolledBack))));
        return Committed::Nothing;
    }
    let changed = connection.total_changes() != before;
    failpoint::reach("feed.written");
    match execute(connection, "COMMIT") {
        Ok(()) => {
            tells.writing().is_done();
            if changed {
                tells.commits.took(tells.world.monotonic().saturating_duration_since(began));
                failpoint::reach("feed.committed");
                feed.learn(connection);
            }
            done.into_iter().for_each(|done| tell(|| done(Ok(()))));
        }
        Err(error) => {
            let _ = connection.execute_batch("ROLLBACK");
            let fault = Fault::from(error);
            tells.has_failed(&StoreError::Commit(fault.clone()));
            done.into_iter().for_each(|done| tell(|| done(Err(StoreError::Commit(fault.clone())))));
        }
    }
    match (wakes, changed) {
        (Wakes::Caller, true) => Committed::Waits,
        (_, true) => {
            feed.wake();
            Committed::Woken
        }
        (_, false) => Committed::Nothing,
    }
}

#[cfg(test)]
mod tests;
