//! Connections that read beside the writer, and the threads on which talk is read. The threads belong to the store alone, so
//! a read is answered even if all of the runtime's blocking threads wait for one.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        mpsc::{self, TryRecvError},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Result, StoreError, place::StoreFile, prepare};
use crate::system::locked::Locked as _;
use crate::system::{
    memory,
    world::{Actor, Bell, World},
};

/// How many connections are kept that nobody reads with, and how many threads read talk.
const READERS: usize = 4;
/// How many are kept at rest. Each has the whole schema in memory, half a MiB.
const AT_REST: usize = 2;
/// How long one of the others is kept. The next read that ends has it closed.
const UNUSED: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Reads the store.
pub(super) struct Readers {
    world: World,
    place: StoreFile,
    idle: Mutex<Idle<Connection>>,
    /// The threads begin with the first question, and end when nobody can ask any more.
    asks: OnceLock<Asks>,
}

/// How the threads are asked.
struct Asks {
    jobs: mpsc::Sender<Job>,
    bells: Vec<Bell>,
}

impl Asks {
    fn send(&self, job: Job) -> Result<()> {
        self.jobs.send(job).map_err(|_| StoreError::Closed)?;
        self.bells.iter().for_each(Bell::ring);
        Ok(())
    }
}

/// One of the threads.
struct Reader(Arc<Mutex<mpsc::Receiver<Job>>>);

impl Actor for Reader {
    fn turn(&mut self, may_wait: bool) -> Option<Duration> {
        let next = {
            let waiting = self.0.locked();
            if may_wait { waiting.recv().map_err(TryRecvError::from) } else { waiting.try_recv() }
        };
        match next {
            Ok(job) => {
                job();
                Some(Duration::ZERO)
            }
            Err(TryRecvError::Empty) => Some(Duration::MAX),
            Err(TryRecvError::Disconnected) => None,
        }
    }
}

impl Readers {
    pub(super) fn of(world: World, place: StoreFile) -> Self {
        Self { world, place, idle: Mutex::default(), asks: OnceLock::new() }
    }

    pub(super) const fn place(&self) -> &StoreFile {
        &self.place
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.place.is_read_only()
    }

    /// Reads on an idle connection, or on a new one. The caller waits for the disk.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle().take();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let mut connection = self.place.connect()?;
                prepare(&mut connection)?;
                connection
            }
        };
        let outcome = work(&connection);
        if let Back::Unused(unused) = self.idle().put(connection, self.world.monotonic()) {
            self.close(unused);
        }
        outcome
    }

    /// Closes a connection, and gives back what it had. Nobody who reads waits for that where there are threads for it.
    fn close(&self, unused: Connection) {
        let close = || {
            drop(unused);
            memory::give_back();
        };
        match self.asks.get() {
            // They end with the store alone.
            Some(asks) => drop(asks.send(Box::new(close))),
            None => close(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle<Connection>> {
        self.idle.locked()
    }

    /// Reads on a thread of the store's own.
    ///
    /// # Panics
    /// As the work does.
    pub(super) fn ask<T, F>(self: &Arc<Self>, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let readers = Arc::clone(self);
        async move {
            let (answer, answered) = oneshot::channel();
            let asked = Arc::downgrade(&readers);
            let job: Job = Box::new(move || {
                // Not asked for any more, or the store is gone.
                let Some(readers) = asked.upgrade().filter(|_| !answer.is_closed()) else { return };
                let _ = answer.send(catch_unwind(AssertUnwindSafe(|| readers.read(work))));
            });
            readers.asks()?.send(job)?;
            match answered.await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => Err(StoreError::Closed),
            }
        }
    }

    fn asks(&self) -> Result<&Asks> {
        if let Some(asks) = self.asks.get() {
            return Ok(asks);
        }
        let (jobs, waiting) = mpsc::channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        let begin = |n| self.world.begin(&format!("store-reader-{n}"), Reader(Arc::clone(&waiting)));
        let bells = (0..READERS).map(begin).collect::<std::io::Result<_>>().map_err(StoreError::Thread)?;
        // Of two that begin at once, the threads of one end at once.
        Ok(self.asks.get_or_init(|| Asks { jobs, bells }))
    }
}

/// What becomes of a connection that is taken back.
#[derive(Debug, PartialEq, Eq)]
enum Back<T> {
    Kept,
    /// There are enough without it: it is to be closed.
    TooMany(T),
    /// It is kept, and this one is to be closed, which nobody has read with for long.
    Unused(T),
}

/// Connections that nobody reads with, each with the time since when. The one that was used last is taken first.
struct Idle<T>(Vec<(T, Instant)>);

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Idle<T> {
    fn take(&mut self) -> Option<T> {
        self.0.pop().map(|(connection, _)| connection)
    }

    /// Takes one back at `now`.
    fn put(&mut self, connection: T, now: Instant) -> Back<T> {
        if self.0.len() >= READERS {
            return Back::TooMany(connection);
        }
        self.0.push((connection, now));
        let is_unused = |since: Instant| now.saturating_duration_since(since) >= UNUSED;
        match self.0.first() {
            Some((_, since)) if self.0.len() > AT_REST && is_unused(*since) => {
                Back::Unused(self.0.remove(0).0)
            }
            Some(_) | None => Back::Kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn connections_beyond_two_are_closed_once_nobody_reads_with_them() {
        let begin = World::real().monotonic();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut idle = Idle::default();
        assert_eq!(idle.take(), None);
        for n in 0..READERS {
            assert_eq!(idle.put(n, begin), Back::Kept);
        }
        assert_eq!(idle.put(READERS, begin), Back::TooMany(READERS));
        // One at a time, so the last two are used.
        for ms in [1, 9_999] {
            let (last, before) = (idle.take().unwrap(), idle.take().unwrap());
            assert_eq!((last, before), (3, 2));
            assert_eq!((idle.put(before, at(ms)), idle.put(last, at(ms))), (Back::Kept, Back::Kept));
        }
        let last = idle.take().unwrap();
        assert_eq!(idle.put(last, at(10_000)), Back::Unused(0));
        let last = idle.take().unwrap();
        assert_eq!(idle.put(last, at(10_000)), Back::Unused(1));
        // However long.
        for hour in 1..9 {
            let last = idle.take().unwrap();
            assert_eq!((last, idle.put(last, at(hour * 3_600_000))), (3, Back::Kept));
        }
        assert_eq!((idle.take(), idle.take(), idle.take()), (Some(3), Some(2), None));
    }

    #[test]
    fn talk_is_read_while_every_thread_that_may_block_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let all = async {
            let waiting = (0..8).map(|_| {
                let store = store.clone();
                tokio::task::spawn_blocking(move || {
                    tokio::runtime::Handle::current().block_on(store.groups()).unwrap().len()
                })
            });
            futures_util::future::join_all(waiting).await
        };
        let counted = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), all).await });
        assert!(counted.expect("nobody waits for ever").into_iter().all(|groups| groups.unwrap() == 0));
    }

    #[tokio::test]
    async fn a_read_that_panics_does_so_for_the_asker_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        for _ in 0..9 {
            let asking = store.clone();
            let fails = tokio::spawn(async move { asking.ask::<(), _>(|_| panic!("as wanted")).await });
            assert!(fails.await.unwrap_err().is_panic());
        }
        assert_eq!(store.groups().await.unwrap().len(), 0);
    }
}
