//! SQLite, and the only SQL in the project, in two halves that meet in `crossing`: `talk` and `work`.
//!
//! One writer thread commits waiting work together, durably (`WAL`, `synchronous=FULL`), a savepoint each; readers
//! work beside it. Methods speak domain types: nothing of SQLite leaks, so a second backend can come. Each file is
//! one family of tables. Whatever must not happen twice is refused by the schema, not by code.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use ipc_handlers::Time;
use rusqlite::Connection;

use crate::domain::{
    kept::writing::HeldUp,
    platforms::attachments::MediaLimits,
    runs::tasks::TaskLimits,
    shown::{errors::with_hint, metrics::Histogram},
};
use crate::system::world::World;

mod audit;
mod backup;
mod both;
#[cfg(test)]
mod broken;
mod check;
mod columns;
mod crossing;
mod fault;
mod log;
mod media;
mod meta;
mod migrate;
mod moving;
mod place;
#[cfg(test)]
mod plans;
mod prune;
mod readers;
mod restored;
mod search;
mod stored;
mod talk;
mod totals;
mod version;
mod views;
mod which;
mod work;
mod writer;

pub use audit::{Change, Changes, Ended, Ends};
pub use backup::copy_to;
pub use check::{Inspection, Schema, Soundness, inspect, schema_of};
pub use crossing::attach::SaidToRun;
pub use crossing::budget::BudgetNews;
pub use crossing::chat_commands::{Spoken, Wish, WordDone};
pub use crossing::due::{Started, TaskStart};
pub use crossing::fallbacks::FallbackRow;
pub use crossing::handover::{Content, Handed, HandedTask, HandoverLimits};
pub use crossing::notices::{Noticed, PUSHED_FOR_MS, Push, PushWay, Ways};
pub use crossing::waiting::WaitingLane;
pub use fault::Fault;
pub use log::make_log_durable;
pub use meta::Upgrade;
pub use moving::{Arriving, Page, Taken};
pub use prune::{Size, shrink};
pub use restored::{HeldBack, check_foreign, settle_restored};
pub use search::{Found, Indexer, Stop};
pub use stored::Counted;
pub use talk::approvals::{Asking, Decided, How, Names, Pick};
pub use talk::arrivals::{Arrival, Arrived, UnknownChat};
pub use talk::chats::Learned;
pub use talk::events::{Follower, News};
pub use talk::files::{FileRead, FileStep, FileWork, FilesWanted};
pub use talk::groups::{NewGroup, NewWiring};
pub use talk::lines::{By, Heard, Line};
pub use talk::messages::{Accepted, AllJudged, Judged, ReadAs, Unjudged};
pub use talk::outbox::{HowFar, NextDelivery, OutboxPart};
pub use talk::restored::{HeldThen, HeldWhich};
pub use version::Version;
pub use views::conversation::Conversation;
pub use views::health::Health;
pub use views::metrics::Figures;
pub use views::page::{
    ChatShown, Chats, OutboxShown, OutboxWanted, QuestionShown, TaskShown, Transcript, Utterance, Whence,
};
pub use views::story::{Activity, Happened, SeenOfRun};
pub use views::trace::{Effected, IpcFilter, Story};
pub use views::turns::LanesShown;
pub use views::why::{Beside, Why, WhyCommand, WhyWiring};
pub use which::{Text, Which};
pub use work::budgets::BudgetRow;
pub use work::by_hand::{Note, SettledFile};
pub use work::heartbeat::HeartbeatSet;
pub use work::hindrances::HindranceRow;
pub use work::housekeeping::{FilesOfRun, Needed};
pub use work::receipts::{Body, CommandFile, Proof, Receipt, Settled, digest};
pub use work::runs::{
    ActiveRun, EndOfRun, KeptResult, LeftInput, Recorded, RunEnded, batch_name, result_of, task_batch,
};
pub use work::sessions::Transcripts;
pub use work::slots::TaskClock;
pub use work::uids::GroupUid;

use place::StoreFile;
use readers::Readers;
use talk::events;
use work::sessions;
use writer::{Next, Writer};

/// To which size the store's log shrinks once its pages are in the store, bytes.
const LOG_BYTES: i64 = 16 << 20;

/// Why the store can't do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("opening the store at {path} failed")]
    Open { path: PathBuf, source: Fault },
    #[error(
        "the store at {path} has schema {found}, newer than the {known} this program knows; install the newer g2"
    )]
    Newer { path: PathBuf, found: Version, known: Version },
    #[error(
        "the store at {path} has schema {found}, older than the {known} this program knows, and nothing can be written there; start this g2 once where it can, or read it with the older one"
    )]
    Older { path: PathBuf, found: Version, known: Version },
    #[error(
        "the store at {path} has schema {found}, and this g2 goes on from {last} alone; start a g2 that has that schema there once, then this one"
    )]
    TooOld { path: PathBuf, found: Version, last: Version },
    /// It has the number of the last schema of before, and another schema.
    #[error(
        "the store at {path} has schema {found}, but its {odd} is not as that schema has it; it is left as it is"
    )]
    Odd { path: PathBuf, found: Version, odd: String },
    #[error(
        "reading the store at {path}, which nobody can write to, from a copy in the folder for temporary files failed"
    )]
    Copy {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    /// SQLite would read the other file with the log of this one.
    #[error("the store at {path} was moved away or replaced while it was in use; put the old file back")]
    Replaced { path: PathBuf },
    #[error("keeping a copy of the store as it is, at {path}, failed; nothing was changed")]
    KeptCopy {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error("writing the store's log at {path} to the disk failed")]
    Log {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error("migration {name} failed; the store is as it was before it")]
    Migration { name: &'static str, source: Fault },
    #[error("the store refused")]
    Sqlite(#[from] Fault),
    #[error("committing failed")]
    Commit(#[source] Fault),
    /// Other work in the same transaction ended it.
    #[error("the transaction was rolled back")]
    RolledBack,
    #[error("starting the store's writer failed")]
    Thread(std::io::Error),
    /// Nobody writes any more: the process ends.
    #[error("the store is closed")]
    Closed,
    /// Our own fault: the work of the method at `place`, of which nothing is left.
    #[error("our own fault: a piece of work on the store panicked ({place}: {why})")]
    Panicked { place: &'static std::panic::Location<'static>, why: String },
    /// Of the store itself, where it is read for the index of archived sessions.
    #[error("reading the store failed")]
    Read(#[source] Fault),
    #[error("making the index of archived sessions at {path} failed")]
    Index {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    /// The caller's fault, in words for them; `hint`: how to mend it, or empty.
    #[error("{}", with_hint(why, hint))]
    Refused { why: String, hint: String },
    #[error("{what} {id} does not exist")]
    NotFound { what: &'static str, id: String },
}

/// Returns the copies of a store as it was before a newer program changed its schema, the oldest first.
#[must_use]
pub fn kept_copies(path: &Path) -> Vec<PathBuf> {
    migrate::kept_copies(path)
}

/// Whether an error, or a cause of it, is a full disk: no space for the store or for a file beside it.
#[must_use]
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.downcast_ref().is_some_and(Fault::is_disk_full))
}

/// Whether an error, or a cause of it, is that another program holds the lock of the store.
#[must_use]
pub fn is_locked(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.downcast_ref().is_some_and(Fault::is_locked))
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error.into())
    }
}

impl StoreError {
    /// Returns the failure for what the caller may not do, with a hint how to mend it, or an empty one.
    #[must_use]
    pub fn refused(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { why: why.into(), hint: hint.into() }
    }

    /// Whether trying again later may help (busy, disk full, I/O error): the world's fault.
    #[must_use]
    pub fn is_worlds_fault(&self) -> bool {
        match self {
            Self::Sqlite(fault) | Self::Read(fault) => fault.may_pass(),
            Self::Commit(_)
            | Self::RolledBack
            | Self::Index { .. }
            | Self::Log { .. }
            | Self::Replaced { .. } => true,
            Self::Open { .. }
            | Self::Newer { .. }
            | Self::Older { .. }
            | Self::TooOld { .. }
            | Self::Odd { .. }
            | Self::Copy { .. }
            | Self::KeptCopy { .. }
            | Self::Migration { .. }
            | Self::Thread(_)
            | Self::Closed
            | Self::Panicked { .. }
            | Self::Refused { .. }
            | Self::NotFound { .. } => false,
        }
    }
}

/// A result of the store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Bounds of what groups have in the store, and of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub tasks: TaskLimits,
    /// A group is made while there are fewer.
    pub groups: usize,
    /// How many bytes of long replies are kept for callers that ask again.
    pub replies: u64,
    /// From how many bytes on a group can store nothing more.
    pub stored: u64,
    pub media: MediaLimits,
    /// For how long a session may be silent before it begins afresh, ms; `None`: for ever.
    pub fresh_after_ms: Option<i64>,
}

impl Bounds {
    /// No bounds.
    pub const NONE: Self = Self {
        tasks: TaskLimits::NONE,
        groups: usize::MAX,
        replies: u64::MAX,
        stored: u64::MAX,
        media: MediaLimits::NONE,
        fresh_after_ms: None,
    };
}

/// The store of one root. Clones share the writer and the readers.
#[derive(Clone)]
pub struct Store {
    world: World,
    writer: Writer,
    readers: Arc<Readers>,
    path: PathBuf,
    asking: Arc<RwLock<Arc<Asking>>>,
    bounds: Arc<RwLock<Bounds>>,
    search: Arc<search::Search>,
    feed: Arc<events::Feed>,
}

impl Store {
    /// Opens the store at `path` as [`Self::open_in`] does, in the real world.
    ///
    /// # Errors
    /// As [`Self::open_in`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_in(World::real(), path)
    }

    /// Opens (and where needed makes and migrates) the store at `path`.
    ///
    /// # Errors
    /// [`StoreError::Newer`] and [`StoreError::TooOld`] by its schema; [`StoreError::Open`] when SQLite can't.
    pub fn open_in(world: World, path: &Path) -> Result<Self> {
        let place = StoreFile::of(path, world.disk())?;
        if place.is_read_only() {
            return Self::of_what_can_be_read(world, place);
        }
        let open = || -> Result<Connection> {
            let mut connection = place.connect_to_write()?;
            prepare(&mut connection)?;
            log::keep_log(&connection)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            // A large transaction leaves no large log.
            connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
            Ok(connection)
        };
        let mut connection = open().map_err(|error| match error {
            StoreError::Sqlite(source) => StoreError::Open { path: path.to_owned(), source },
            other => other,
        })?;
        migrate::migrate(&mut connection, path)?;
        Self::of(world, connection, place)
    }

    /// Opens a store on a read-only file system: every change fails.
    fn of_what_can_be_read(world: World, place: StoreFile) -> Result<Self> {
        let mut connection = place.connect()?;
        let open =
            |error: rusqlite::Error| StoreError::Open { path: place.path().to_owned(), source: error.into() };
        prepare(&mut connection).map_err(open)?;
        let found = Version::read(&connection).map_err(open)?;
        found.check(place.path())?;
        match migrate::version() {
            known if known == found => Self::of(world, connection, place),
            known => Err(StoreError::Older { path: place.path().to_owned(), found, known }),
        }
    }

    fn of(world: World, connection: Connection, mut place: StoreFile) -> Result<Self> {
        place.keep_to_it();
        let path = place.path().to_owned();
        let feed = Arc::new(events::Feed::new());
        Ok(Self {
            writer: Writer::start(world.clone(), connection, Arc::clone(&feed))?,
            feed,
            search: Arc::new(search::Search::beside(&path, place.is_read_only() || world.disk().is_some())),
            readers: Arc::new(Readers::of(world.clone(), place)),
            world,
            path,
            asking: Arc::default(),
            bounds: Arc::new(RwLock::new(Bounds::NONE)),
        })
    }

    /// Has all of the log written into the store's one file. To be called at the end: somebody may copy that file alone then, or
    /// put another in its place.
    ///
    /// # Errors
    /// The store's. Readers that are in the way for longer than a second are no error.
    pub async fn empty_log(&self) -> Result<()> {
        let readers = Arc::clone(&self.readers);
        let emptied = self.world.blocking(move || readers.place().empty_log());
        emptied.await.map_err(|_| StoreError::Closed)?
    }

    /// Returns the world that it is in.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Whether it lies on a read-only file system.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.readers.is_read_only()
    }

    /// Returns the store with these settings for questions to people.
    #[must_use]
    pub fn asking(self, asking: Asking) -> Self {
        Self { asking: Arc::new(RwLock::new(Arc::new(asking))), ..self }
    }

    /// Returns the store with these bounds for groups.
    #[must_use]
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds: Arc::new(RwLock::new(bounds)), ..self }
    }

    /// Has other settings hold from now on, for all clones of this one.
    pub fn renew(&self, asking: Asking, bounds: Bounds) {
        *self.asking.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(asking);
        *self.bounds.write().unwrap_or_else(PoisonError::into_inner) = bounds;
    }

    fn asking_now(&self) -> Arc<Asking> {
        Arc::clone(&self.asking.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn bounds_now(&self) -> Bounds {
        *self.bounds.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the database file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how long durable commits took since the store was opened.
    #[must_use]
    pub fn commit_times(&self) -> Histogram {
        self.writer.commits()
    }

    /// Returns what keeps changes from being stored. `None`: nothing, or not for long.
    #[must_use]
    pub fn held_up(&self) -> Option<HeldUp> {
        self.writer.held_up()
    }

    /// Returns where and why a piece of work on the store panicked last, if that was within the 10 minutes before `now`: a fault of
    /// our own. Its caller may try again without an end.
    #[must_use]
    pub fn our_fault(&self, now: Time) -> Option<String> {
        self.writer.our_fault(now)
    }

    /// Queues `work` for the next commit; see [`Writer::write`].
    #[track_caller]
    fn write<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.writer.write(work)
    }

    /// Queues `work`, which answers before its commit; see [`Writer::write_early`].
    #[track_caller]
    fn write_early<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.writer.write_early(work)
    }

    /// Queues `work` for one piece after the other; see [`Writer::write_pieces`].
    #[track_caller]
    fn write_pieces<P, T, F>(
        &self,
        pieces: Vec<P>,
        work: F,
    ) -> impl Future<Output = Result<Vec<Result<T>>>> + Send + use<P, T, F>
    where
        P: Send + 'static,
        T: Send + 'static,
        F: FnMut(&Connection, P) -> Result<(T, Next)> + Send + 'static,
    {
        self.writer.write_pieces(pieces, work)
    }

    /// Reads on a connection of its own, beside the writer: sees everything committed so far. The caller's thread waits for the
    /// disk.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.readers.read(work)
    }

    /// Reads as [`Store::read`] does, on a thread of the store's own, so that no worker of the runtime waits for the disk. All
    /// reads of talk alone go this way.
    fn ask<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        #[cfg(test)]
        let work = plans::heard_here(work);
        self.readers.ask(work)
    }
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    use rusqlite::config::DbConfig;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -4096)?;
    // A double-quoted word is a column or an error, never silently text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    // Plans are made once, for any values: without this, statements are parsed anew when other values are bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(128);
    #[cfg(test)]
    plans::listen(connection);
    Ok(())
}

/// Returns a limit as SQL has it: negative is none.
fn at_most(limit: Option<usize>) -> i64 {
    limit.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// Returns rows that are read newest first, oldest first.
fn oldest_first<T>(newest: impl Iterator<Item = rusqlite::Result<T>>) -> Result<Vec<T>> {
    let mut rows = newest.collect::<rusqlite::Result<Vec<T>>>()?;
    rows.reverse();
    Ok(rows)
}

/// Returns the folder of a row. It was checked before it was stored.
fn folder(text: String) -> rusqlite::Result<ipc_handlers::Folder> {
    ipc_handlers::Folder::parse(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_values_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        store
            .read(|c| {
                for sql in [
                    "SELECT chat_jid FROM wirings WHERE group_folder = ?1 ORDER BY id",
                    "SELECT n FROM inbox WHERE verdict IS NULL ORDER BY n LIMIT ?1",
                ] {
                    for value in ["1", "2", "3"] {
                        let mut statement = c.prepare_cached(sql)?;
                        let found: Vec<String> =
                            statement.query_map([value], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
                        assert!(found.is_empty());
                        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
                    }
                }
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn a_fault_of_ours_is_not_waited_for() {
        let place = std::panic::Location::caller();
        for ours in [StoreError::Closed, StoreError::Panicked { place, why: String::new() }] {
            assert!(!ours.is_worlds_fault(), "{ours}");
        }
    }

    #[test]
    fn that_there_is_no_room_is_known_however_sqlite_says_it() {
        let of = Fault::of;
        // Full; no room for the index of its log; another fault of the disk.
        for (code, no_room) in [(13, true), (4874, true), (266, false)] {
            let open = StoreError::Open { path: PathBuf::from("/x"), source: of(code) };
            assert_eq!((is_disk_full(&of(code)), is_disk_full(&open)), (no_room, no_room), "{code}");
        }
        assert!(is_disk_full(&StoreError::Commit(of(13))) && !is_disk_full(&StoreError::Commit(of(266))));
        assert!(!is_disk_full(&StoreError::Closed));
        // Busy.
        assert!(is_locked(&StoreError::Sqlite(of(5))) && !is_locked(&StoreError::Sqlite(of(13))));
    }
}
