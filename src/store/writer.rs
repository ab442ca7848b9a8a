//! The one thread that writes. Work that waits is committed together, a savepoint each, so that one failing piece
//! doesn't sink its neighbours and a durable commit is shared by everybody who waits for one.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Fault, StoreError, talk::events::Feed};
use crate::{
    domain::host::{
        errors::chain,
        metrics::{Histogram, Latency},
    },
    system::{clock, failpoint},
};

/// How many pieces of work share one commit at most.
const BATCH: usize = 512;

/// How long the readers of the feed wait for a caller that wakes them itself. If a commit is under way then, they wait for its end.
const CALLERS_TURN: Duration = Duration::from_millis(3);

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

/// Returns what to do once the commit is known. Without a connection (the transaction could not begin) it does nothing.
type Work = Box<dyn FnOnce(Option<&Connection>) -> Done + Send>;
type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A handle to the writer thread. The thread ends, after what waits, when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    /// How long commits took.
    commits: Arc<Latency>,
}

impl Writer {
    pub(super) fn start(connection: Connection, feed: Arc<Feed>) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel();
        let commits = Arc::<Latency>::default();
        let times = Arc::clone(&commits);
        std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(&connection, &waiting, &feed, &times))
            .map_err(StoreError::Thread)?;
        Ok(Self { jobs, commits })
    }

    /// Returns how long commits took so far.
    pub(super) fn commits(&self) -> Histogram {
        self.commits.so_far()
    }

    /// Runs `work` in a savepoint of the next commit and returns its value once that commit is durable.
    ///
    /// The work is queued when this is called, not when the future is first polled: order of calls is order of effects.
    pub(super) fn write<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.give(Wakes::Writer, move |connection| in_savepoint(connection, work))
    }

    /// Runs `work` in a savepoint of the next commit and returns its value before that commit. For changes that may be lost: if the
    /// commit fails, only the log says so.
    pub(super) fn write_early<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let Some(connection) = connection else {
                return Box::new(move |commit| {
                    let _ = answer.send(commit.and(Err(StoreError::Closed)));
                });
            };
            let _ = answer.send(in_savepoint(connection, work));
            Box::new(|commit| {
                if let Err(error) = commit {
                    tracing::warn!(error = %chain(&error), "a change that was acted on could not be committed; it may be made again");
                }
            })
        });
        self.queue(work, Wakes::Writer, result)
    }

    /// Runs `work` in the next commit without a savepoint around it: what fails in it is undone by savepoints of its own. One
    /// around many would keep each page that they change a second time. The caller wakes the readers of the feed.
    pub(super) fn write_pieces<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> T + Send + 'static,
    {
        self.give(Wakes::Caller, move |connection| Ok(work(connection)))
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
        let (answer, result) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let outcome = connection.map_or(Err(StoreError::Closed), work);
            Box::new(move |commit| {
                let _ = answer.send(commit.and(outcome));
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
        async move {
            sent.map_err(|_| StoreError::Closed)?;
            answer.await.map_err(|_| StoreError::Closed)?
        }
    }
}

pub(super) fn in_savepoint<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    execute(connection, "SAVEPOINT piece")?;
    let outcome = work(connection);
    if outcome.is_err() {
        // The transaction is gone, and every savepoint with it: what comes next would be committed by itself.
        if connection.is_autocommit() {
            return outcome;
        }
        execute(connection, "ROLLBACK TO piece")?;
    }
    execute(connection, "RELEASE piece")?;
    outcome
}

/// Executes a statement without values, parsed once.
pub(super) fn execute(connection: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn run(connection: &Connection, waiting: &mpsc::Receiver<Job>, feed: &Feed, times: &Latency) {
    let mut others = data_version(connection);
    feed.learn_newest(connection);
    // Since when readers wait for a caller to wake them.
    let mut waits: Option<Instant> = None;
    loop {
        let rest = waits.map(|since| CALLERS_TURN.saturating_sub(since.elapsed()));
        let received = waiting.recv_timeout(rest.unwrap_or_else(|| feed.look_every()));
        let mut looks = rest.is_none();
        // If the caller has woken them, the next commit begins a wait of its own.
        waits = waits.filter(|_| feed.has_news());
        match received {
            Ok(first) => match commit(connection, first, waiting, feed, times) {
                Committed::Nothing => {}
                Committed::Woken => (waits, looks) = (None, false),
                Committed::Waits => (waits, looks) = (waits.or_else(|| Some(clock::monotonic())), false),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if waits.is_some_and(|since| since.elapsed() >= CALLERS_TURN) {
            waits = None;
            feed.wake();
        }
        if !looks {
            continue;
        }
        // Another process committed; only this number tells us.
        let now = data_version(connection);
        if now != others || feed.is_behind() {
            others = now;
            feed.learn_newest(connection);
            feed.wake();
        }
    }
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
    times: &Latency,
) -> Committed {
    let began = clock::monotonic();
    // A transaction that can't begin, or ends by itself (disk full, I/O error), fails everything in it: the
    // callers know how to try again.
    if let Err(error) = execute(connection, "BEGIN IMMEDIATE") {
        (first.work)(None)(Err(error.into()));
        return Committed::Nothing;
    }
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
        let lost = || StoreError::RolledBack;
        done.into_iter().for_each(|tell| tell(Err(lost())));
        return Committed::Nothing;
    }
    let changed = connection.total_changes() != before;
    failpoint::reach("feed.written");
    match execute(connection, "COMMIT") {
        Ok(()) => {
            if changed {
                times.took(began.elapsed());
                failpoint::reach("feed.committed");
                feed.learn(connection);
            }
            done.into_iter().for_each(|tell| tell(Ok(())));
        }
        Err(error) => {
            let _ = connection.execute_batch("ROLLBACK");
            let fault = Fault::from(error);
            done.into_iter().for_each(|tell| tell(Err(StoreError::Commit(fault.clone()))));
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
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_of_the_feed_wait_for_a_caller_that_wakes_them_itself_and_not_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let connection = Connection::open(dir.path().join("g2.sqlite")).unwrap();
        let feed = Feed::new();
        feed.learn_newest(&connection);
        feed.wake();
        let mut woken = feed.bell();
        let mut is_woken = || {
            let is_woken = woken.has_changed().unwrap();
            woken.mark_unchanged();
            is_woken
        };
        let (jobs, waiting) = mpsc::channel::<Job>();
        let commit_of = |wakes: &[Wakes]| {
            let job = |wakes: &Wakes| Job {
                wakes: *wakes,
                work: Box::new(|c| {
                    c.unwrap()
                        .execute("INSERT INTO events (at, kind, subject) VALUES (0, 'task', 't')", [])
                        .unwrap();
                    Box::new(|commit| commit.unwrap())
                }),
            };
            wakes[1..].iter().for_each(|wakes| jobs.send(job(wakes)).unwrap());
            commit(&connection, job(&wakes[0]), &waiting, &feed, &Latency::default())
        };
        assert_eq!((commit_of(&[Wakes::Caller, Wakes::Caller]), is_woken()), (Committed::Waits, false));
        feed.wake();
        assert!(is_woken());
        assert_eq!((commit_of(&[Wakes::Writer]), is_woken()), (Committed::Woken, true));
        assert_eq!((commit_of(&[Wakes::Caller, Wakes::Writer]), is_woken()), (Committed::Woken, true));
        // Nobody wakes them, and the writer does.
        let mut bell = store.bell();
        let queued = store.write_pieces(|c| {
            c.execute("INSERT INTO events (at, kind, subject) VALUES (0, 'task', 't')", []).map(drop)
        });
        bell.changed().await.unwrap();
        queued.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_early_answer_comes_before_the_commit_and_a_piece_that_fails_takes_nothing_with_it() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let writer = Writer::start(connection, Arc::new(Feed::new())).unwrap();
        let insert = |n: i64| {
            move |c: &Connection| c.execute("INSERT INTO t VALUES (?1)", [n]).map_err(StoreError::from)
        };
        let (begun, has_begun) = mpsc::channel::<()>();
        let (hold, held) = mpsc::channel::<()>();
        let first = writer.write(move |c| {
            let _ = has_begun.recv();
            insert(1)(c)
        });
        let early = writer.write_early(insert(2));
        let refused = writer.write_early::<usize, _>(move |c| {
            insert(3)(c)?;
            Err(StoreError::Closed)
        });
        // It keeps the commit from being made until the early answer is here.
        let last = writer.write(move |c| {
            let _ = held.recv();
            insert(4)(c)
        });
        begun.send(()).unwrap();
        assert_eq!(early.await.unwrap(), 1);
        assert!(matches!(refused.await, Err(StoreError::Closed)));
        hold.send(()).unwrap();
        assert_eq!((first.await.unwrap(), last.await.unwrap()), (1, 1));
        let kept: Vec<i64> = writer
            .write(|c| {
                let mut rows = c.prepare("SELECT n FROM t ORDER BY n")?;
                Ok(rows.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
            })
            .await
            .unwrap();
        assert_eq!(kept, [1, 2, 4]);
        // It was answered, and lost with the transaction that SQLite ended.
        let (hold, held) = mpsc::channel::<()>();
        let first = writer.write(move |c| {
            let _ = held.recv();
            insert(5)(c)
        });
        let early = writer.write_early(insert(6));
        let ends = writer.write(|c| Ok(c.execute_batch("ROLLBACK")?));
        hold.send(()).unwrap();
        assert_eq!(early.await.unwrap(), 1);
        assert!(matches!(
            (first.await, ends.await),
            (Err(StoreError::RolledBack), Err(StoreError::RolledBack))
        ));
        let count = writer.write(|c| Ok(c.query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0))?));
        assert_eq!(count.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn what_shared_a_transaction_that_sqlite_ended_is_told_so_and_the_next_is_a_new_one() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let writer = Writer::start(connection, Arc::new(Feed::new())).unwrap();
        let (hold, held) = mpsc::channel::<()>();
        // While the first piece is at work, the others come to wait for the same commit.
        let first = writer.write(move |c| {
            let _ = held.recv();
            c.execute("INSERT INTO t VALUES (1)", []).map_err(Into::into)
        });
        let second = writer.write(|c| {
            // As a full disk or an I/O error does in the middle of it.
            c.execute_batch("ROLLBACK")?;
            Ok(())
        });
        let third = writer.write(|c| c.execute("INSERT INTO t VALUES (3)", []).map_err(Into::into));
        hold.send(()).unwrap();
        assert!(matches!(first.await, Err(StoreError::RolledBack)), "what came before is gone with it");
        assert!(matches!(second.await, Err(StoreError::RolledBack)));
        assert_eq!(third.await.unwrap(), 1, "what comes after is in a transaction of its own");
        let kept: Vec<i64> = writer
            .write(|c| {
                let mut rows = c.prepare("SELECT n FROM t")?;
                Ok(rows.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
            })
            .await
            .unwrap();
        assert_eq!(kept, [3]);
    }
}
