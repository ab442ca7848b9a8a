//! The feed of changes. Triggers write it (`migrations/0001_init.sql`), in the transaction of the change itself; a bell is rung
//! after each commit that wrote some (for commands once they are answered), and when another process committed. Readers go on from
//! the last event they have read: catching up after a crash is the same as going on.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::{Notify, watch};

use crate::domain::shown::{
    errors::chain,
    feed::{self, EventKind, FeedEvent},
};
use crate::store::{Result, Store, columns::Columns as _};
use crate::system::locked::Locked as _;

/// How often it is looked whether another process committed, ms.
const LOOK_MS: u64 = 1000;
/// How many events are read at a time.
const AT_ONCE: usize = 1024;
/// How many of the newest events stay in memory, so that many readers cost one read of the store.
const RECENT: usize = 4096;
/// How long a reader waits after the store could not be read.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The part of the feed that all readers of a process share.
pub(in crate::store) struct Feed {
    /// The newest event that is known to be committed. Rung after commits.
    bell: watch::Sender<i64>,
    /// The kinds of the events that came since the bell was rung, as [`Kinds`].
    fresh: AtomicU32,
    /// How far the feed goes could not be read.
    behind: AtomicBool,
    /// How often it is looked whether another process committed, ms.
    look_ms: AtomicU64,
    recent: Mutex<Recent>,
    readers: Mutex<Readers>,
}

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds(u32);

impl Kinds {
    const ALL: Self = Self(u32::MAX);

    fn of(kinds: impl IntoIterator<Item = EventKind>) -> Self {
        Self(kinds.into_iter().fold(0, |all, kind| all | 1 << kind as u32))
    }

    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The newest events, all of them after `after`.
#[derive(Default)]
struct Recent {
    after: Option<i64>,
    events: VecDeque<Arc<FeedEvent>>,
}

#[derive(Default)]
struct Readers {
    next: u64,
    /// The newest event that readers were woken for.
    told: i64,
    all: BTreeMap<u64, Reader>,
}

struct Reader {
    /// The last event that it has read, or that it has passed over as none of its kinds.
    read: i64,
    kinds: Kinds,
    wake: Arc<Notify>,
}

impl Feed {
    pub(in crate::store) fn new() -> Self {
        Self {
            bell: watch::Sender::new(0),
            fresh: AtomicU32::new(0),
            behind: AtomicBool::new(false),
            look_ms: AtomicU64::new(LOOK_MS),
            recent: Mutex::default(),
            readers: Mutex::default(),
        }
    }

    /// Returns how often it is looked whether another process committed.
    pub(in crate::store) fn look_every(&self) -> Duration {
        Duration::from_millis(self.look_ms.load(Ordering::Relaxed))
    }

    /// Takes in that events up to `newest` are committed, of whatever kinds. Nobody is woken before [`Feed::wake`].
    pub(in crate::store) fn know(&self, newest: i64) {
        self.note(newest, Kinds::ALL);
    }

    /// Takes in what was committed since the last time, on the connection that committed it, so that no reader has to
    /// read it. Nobody is woken before [`Feed::wake`].
    pub(in crate::store) fn learn(&self, c: &Connection) {
        let known = *self.bell.borrow();
        match events_after(c, known, AT_ONCE) {
            Ok(events) if events.len() < AT_ONCE => {
                let events: Vec<_> = events.into_iter().map(Arc::new).collect();
                // What was removed before it was known of, each reader has to find out; and where one is just reading, it
                // reads on by itself.
                let whole = events.first().is_none_or(|first| first.seq == known.saturating_add(1));
                if whole && let Some(mut recent) = self.try_recent() {
                    recent.learn(known, &events);
                }
                let kinds = Kinds::of(events.iter().map(|event| event.kind));
                self.note(events.last().map_or(known, |last| last.seq), kinds);
            }
            Ok(_) => self.learn_newest(c),
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the newest events failed");
                self.learn_newest(c);
            }
        }
    }

    /// Takes in how far the feed goes, and no more; where even that can't be read, [`Feed::is_behind`].
    pub(in crate::store) fn learn_newest(&self, c: &Connection) {
        match newest(c) {
            Ok(newest) => self.know(newest),
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the newest event failed; it is read again in a moment");
                self.behind.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Whether there may be events that the last look could not read; asked once for each.
    pub(in crate::store) fn is_behind(&self) -> bool {
        self.behind.swap(false, Ordering::SeqCst)
    }

    /// The kinds first: where the number is seen, they are too.
    fn note(&self, newest: i64, kinds: Kinds) {
        self.bell.send_if_modified(|known| {
            if newest > *known {
                self.fresh.fetch_or(kinds.0, Ordering::SeqCst);
                *known = newest;
            }
            false
        });
    }

    /// Whether there is news that nobody was woken for yet.
    pub(in crate::store) fn has_news(&self) -> bool {
        self.fresh.load(Ordering::SeqCst) != 0
    }

    /// Returns a bell that rings when readers are woken, with the newest event's number.
    pub(in crate::store) fn bell(&self) -> watch::Receiver<i64> {
        self.bell.subscribe()
    }

    /// Wakes the readers that there is news for since the last time, and has the others pass it over.
    pub(in crate::store) fn wake(&self) {
        if !self.has_news() {
            return;
        }
        let mut readers = self.readers();
        // Both at once: a reader that was just woken, and has not read yet, would pass over news that comes between.
        let (mut newest, mut fresh) = (0, Kinds(0));
        self.bell.send_if_modified(|known| {
            (newest, fresh) = (*known, Kinds(self.fresh.swap(0, Ordering::SeqCst)));
            false
        });
        if fresh == Kinds(0) {
            return;
        }
        let told = std::mem::replace(&mut readers.told, newest);
        for reader in readers.all.values_mut() {
            if reader.kinds.meets(fresh) {
                reader.wake.notify_one();
            } else if reader.read >= told {
                reader.read = reader.read.max(newest);
            }
        }
        drop(readers);
        self.bell.send_modify(|_| {});
    }

    /// Whether none of the events after `cursor`, up to `newest`, is of these kinds, as far as is known without reading.
    pub(in crate::store) fn is_without(&self, kinds: &[EventKind], cursor: i64, newest: i64) -> bool {
        self.try_recent().is_some_and(|recent| {
            recent.has_all(cursor, newest) && recent.of(cursor).all(|event| !kinds.contains(&event.kind))
        })
    }

    /// Reads what comes after `cursor`, unless it is known by now; whether something before it was removed unread.
    pub(in crate::store) fn read(
        &self,
        c: &Connection,
        cursor: i64,
        newest: i64,
    ) -> Result<(Vec<Arc<FeedEvent>>, bool)> {
        let mut recent = self.recent.locked();
        if let Some(events) = recent.after(cursor, newest) {
            return Ok((events, false));
        }
        let (events, oldest) = (events_after(c, cursor, AT_ONCE)?, oldest(c)?);
        let events: Vec<_> = events.into_iter().map(Arc::new).collect();
        let missed = oldest.is_none_or(|(first, _)| first > cursor.saturating_add(1));
        // What was removed unread each reader has to find out.
        if !missed {
            recent.learn(cursor, &events);
        }
        Ok((events, missed))
    }

    /// Returns the newest events; `None`: somebody is at them. A reader that panicked over them has left nothing half done.
    fn try_recent(&self) -> Option<MutexGuard<'_, Recent>> {
        match self.recent.try_lock() {
            Ok(recent) => Some(recent),
            Err(TryLockError::Poisoned(recent)) => Some(recent.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.locked()
    }
}

impl Recent {
    /// Whether all events after `cursor`, up to `newest`, are in memory.
    fn has_all(&self, cursor: i64, newest: i64) -> bool {
        let last = self.events.back().map_or(self.after, |last| Some(last.seq));
        self.after.is_some_and(|from| from <= cursor) && last.is_some_and(|last| last >= newest)
    }

    /// Returns the events in memory after `cursor`.
    fn of(&self, cursor: i64) -> impl Iterator<Item = &Arc<FeedEvent>> {
        let first = self.events.partition_point(|event| event.seq <= cursor);
        self.events.range(first..)
    }

    /// Returns the events after `cursor`; `None`: not all of them up to `newest` are in memory.
    fn after(&self, cursor: i64, newest: i64) -> Option<Vec<Arc<FeedEvent>>> {
        self.has_all(cursor, newest).then(|| self.of(cursor).take(AT_ONCE).cloned().collect())
    }

    /// Takes events in that were read after `cursor`.
    fn learn(&mut self, cursor: i64, read: &[Arc<FeedEvent>]) {
        let last = self.events.back().map_or(self.after, |last| Some(last.seq));
        if last != Some(cursor) {
            if last.is_some_and(|last| last > cursor) {
                return;
            }
            *self = Self { after: Some(cursor), events: VecDeque::new() };
        }
        self.events.extend(read.iter().cloned());
        while self.events.len() > RECENT {
            self.after = self.events.pop_front().map(|event| event.seq);
        }
    }
}

/// The events that a reader is told.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// In order, each once.
    pub events: Vec<Arc<FeedEvent>>,
    /// Events before these were removed unread, so anything may have changed.
    pub missed: bool,
}

impl News {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && !self.missed
    }

    /// Whether something of these kinds changed, or may have.
    #[must_use]
    pub fn any(&self, kinds: &[EventKind]) -> bool {
        self.missed || self.events.iter().any(|event| kinds.contains(&event.kind))
    }

    /// Whether something changed in a chat, or may have.
    #[must_use]
    pub fn in_chat(&self, chat: &str) -> bool {
        self.missed || self.events.iter().any(|event| event.chat.as_deref() == Some(chat))
    }

    /// Whether something changed of these kinds that is about a group, or may have.
    #[must_use]
    pub fn of_group(&self, group: &ipc_handlers::Folder, kinds: &[EventKind]) -> bool {
        self.missed
            || self
                .events
                .iter()
                .any(|event| event.group.as_ref() == Some(group) && kinds.contains(&event.kind))
    }
}

/// A reader of the feed. It is told each event of its kinds once, in order, from where it began.
pub struct Follower {
    store: Store,
    id: u64,
    kinds: Kinds,
    wake: Arc<Notify>,
}

impl Follower {
    /// Returns the last event that was read, or passed over as none of its kinds.
    #[must_use]
    pub fn cursor(&self) -> i64 {
        self.store.feed.readers().all.get(&self.id).map_or(0, |reader| reader.read)
    }

    /// Waits for news. Safe to cancel: what was not returned is returned next time.
    ///
    /// # Errors
    /// The store's.
    pub async fn told(&mut self) -> Result<News> {
        loop {
            match self.look().await? {
                news if news.is_empty() => self.wake.notified().await,
                news => return Ok(news),
            }
        }
    }

    /// Waits for news, however long the store can't be read. Safe to cancel: what was not returned is returned next time.
    pub async fn next(&mut self) -> News {
        loop {
            match self.told().await {
                Ok(news) => return news,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "reading the feed of changes failed; it is read again in a second");
                    tokio::time::sleep(READ_AGAIN).await;
                }
            }
        }
    }

    /// Returns the news without waiting for any. All earlier commits of this process are among them. Safe to cancel.
    ///
    /// # Errors
    /// The store's.
    pub async fn look(&mut self) -> Result<News> {
        loop {
            let Some((cursor, newest)) = self.unread() else { return Ok(News::default()) };
            // Where somebody is just reading it, it is waited for on a thread that may wait.
            let known = self.store.feed.try_recent().and_then(|recent| recent.after(cursor, newest));
            let (events, missed) = match known {
                Some(events) => (events, false),
                None => {
                    let feed = Arc::clone(&self.store.feed);
                    self.store.ask(move |c| feed.read(c, cursor, newest)).await?
                }
            };
            let news = self.take(newest, events, missed);
            if !news.is_empty() {
                return Ok(news);
            }
        }
    }

    /// As [`Follower::look`], where `read` reads the events between two numbers.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::store) fn look_by(
        &mut self,
        read: impl Fn(&Feed, i64, i64) -> Result<(Vec<Arc<FeedEvent>>, bool)>,
    ) -> Result<News> {
        loop {
            let Some((cursor, newest)) = self.unread() else { return Ok(News::default()) };
            let (events, missed) = read(&self.store.feed, cursor, newest)?;
            let news = self.take(newest, events, missed);
            if !news.is_empty() {
                return Ok(news);
            }
        }
    }

    /// Returns the last event that was read and the newest one, if there are any between.
    fn unread(&self) -> Option<(i64, i64)> {
        let newest = *self.store.feed.bell.borrow();
        let cursor = self.cursor();
        (newest > cursor).then_some((cursor, newest))
    }

    fn take(&mut self, newest: i64, mut events: Vec<Arc<FeedEvent>>, missed: bool) -> News {
        let cursor = events.last().map_or(newest, |last| last.seq);
        if let Some(reader) = self.store.feed.readers().all.get_mut(&self.id) {
            reader.read = cursor.max(reader.read);
        }
        events.retain(|event| self.kinds.meets(Kinds::of([event.kind])));
        News { events, missed }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.store.feed.readers().all.remove(&self.id);
    }
}

impl Store {
    /// Follows the feed from now on: every later commit is told. Read the present state after this call, not before it.
    ///
    /// # Errors
    /// When the newest event can't be read.
    pub async fn follow(&self) -> Result<Follower> {
        Ok(self.follow_from(self.newest_event().await?))
    }

    /// Follows the events of these kinds from now on, as [`Store::follow`] does all. Others wake nobody. Where the newest event
    /// can't be read, those after the last known one are told, too.
    pub async fn follow_kinds(&self, kinds: &[EventKind]) -> Follower {
        let newest = self.newest_event().await.unwrap_or_else(|error| {
            let known = *self.feed.bell.borrow();
            tracing::warn!(error = %chain(&error), known, "reading the newest event failed; the feed is followed from the last known one");
            known
        });
        self.follow_kinds_from(kinds, newest)
    }

    /// Follows the feed from the event after `cursor` on.
    #[must_use]
    pub fn follow_from(&self, cursor: i64) -> Follower {
        self.reader(Kinds::ALL, cursor)
    }

    /// Follows the events of these kinds from the event after `cursor` on.
    #[must_use]
    pub fn follow_kinds_from(&self, kinds: &[EventKind], cursor: i64) -> Follower {
        self.reader(Kinds::of(kinds.iter().copied()), cursor)
    }

    fn reader(&self, kinds: Kinds, cursor: i64) -> Follower {
        let mut readers = self.feed.readers();
        let id = readers.next;
        readers.next += 1;
        let wake = Arc::<Notify>::default();
        readers.all.insert(id, Reader { read: cursor, kinds, wake: Arc::clone(&wake) });
        drop(readers);
        Follower { store: self.clone(), id, kinds, wake }
    }

    /// Wakes those who follow the feed for what [`Store::settle_all`] settled; a few milliseconds later they are woken in any case.
    pub fn wake_readers(&self) {
        self.feed.wake();
    }

    /// Follows what happens from now on.
    #[must_use]
    pub fn follow_new(&self) -> Follower {
        // A copy: a borrowed number holds the bell, and who rings it has the readers, which are asked for next.
        let newest = *self.feed.bell.borrow();
        self.follow_from(newest)
    }

    /// Returns a bell that rings when those who follow the feed are woken, with the newest event's number.
    #[must_use]
    pub fn bell(&self) -> watch::Receiver<i64> {
        self.feed.bell()
    }

    /// Returns at most `limit` events after the event `cursor`, in order.
    pub async fn events_after(&self, cursor: i64, limit: usize) -> Result<Vec<FeedEvent>> {
        self.ask(move |c| events_after(c, cursor, limit)).await
    }

    /// Returns the newest event's number; 0 where there never was one.
    pub async fn newest_event(&self) -> Result<i64> {
        self.ask(newest).await
    }

    /// Returns the number of the last event before an instant; 0 where there is none.
    pub async fn event_before(&self, at: Time) -> Result<i64> {
        self.ask(move |c| {
            Ok(c.prepare_cached("SELECT coalesce(max(seq), 0) FROM events WHERE at < ?1")?
                .query_row([at.0], |r| r.get(0))?)
        })
        .await
    }

    /// Wakes every reader of this process for all that is committed now, by any process.
    ///
    /// # Errors
    /// When the newest event can't be read.
    pub async fn look_at_feed(&self) -> Result<()> {
        self.feed.know(self.newest_event().await?);
        self.feed.wake();
        Ok(())
    }

    /// Sets how soon changes by other processes are noticed; without this within a second.
    pub fn watch_others_every(&self, look: Duration) {
        let ms = u64::try_from(look.as_millis()).unwrap_or(u64::MAX).max(1);
        self.feed.look_ms.store(ms, Ordering::Relaxed);
        // The writer goes on with it.
        drop(self.write(|_| Ok(())));
    }

    /// Removes some of the oldest events that no reader needs any more, in one bounded transaction. The newest one stays,
    /// for numbers go on from it. Returns whether there may be more.
    pub async fn trim_events(&self, now: Time) -> Result<bool> {
        let (oldest, newest) = self.ask(|c| Ok((oldest(c)?, newest(c)?))).await?;
        let slowest = self.feed.readers().all.values().map(|reader| reader.read).min().unwrap_or(newest);
        let Some(trim) = oldest.and_then(|oldest| feed::trim(oldest, newest, slowest, now)) else {
            return Ok(false);
        };
        let gone = self
            .write(move |c| {
                Ok(c.prepare_cached(
                    "DELETE FROM events WHERE seq <= ?1 AND (seq <= ?2 OR (seq <= ?3 AND at < ?4))",
                )?
                .execute(params![trim.last, trim.surplus, trim.read, trim.before.0])?)
            })
            .await?;
        Ok(gone > 0)
    }
}

/// Returns the newest event's number.
pub(in crate::store) fn newest(c: &Connection) -> Result<i64> {
    Ok(c.prepare_cached("SELECT coalesce((SELECT seq FROM events ORDER BY seq DESC LIMIT 1), 0)")?
        .query_row([], |r| r.get(0))?)
}

/// Returns the oldest event's number, and when it was.
fn oldest(c: &Connection) -> Result<Option<(i64, Time)>> {
    Ok(c.prepare_cached("SELECT seq, at FROM events ORDER BY seq LIMIT 1")?
        .query_row([], |r| Ok((r.get("seq")?, r.time("at")?)))
        .optional()?)
}

fn events_after(c: &Connection, cursor: i64, limit: usize) -> Result<Vec<FeedEvent>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(c.prepare_cached(
        "SELECT seq, at, kind, group_folder, chat_jid, subject FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    )?
    .query_map([cursor, limit], event_row)?
    .collect::<rusqlite::Result<_>>()?)
}

fn event_row(r: &Row<'_>) -> rusqlite::Result<FeedEvent> {
    let group: Option<String> = r.get("group_folder")?;
    Ok(FeedEvent {
        seq: r.get("seq")?,
        at: r.time("at")?,
        kind: r.word("events", "kind")?,
        // A row with a broken name must not stop the feed. The read of the group itself tells of it.
        group: group.and_then(|group| ipc_handlers::Folder::parse(&group).ok()),
        chat: r.get("chat_jid")?,
        subject: r.get("subject")?,
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn each_reader_is_told_that_events_were_removed_before_it_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let store = Store::open(&path).unwrap();
        let (mut one, mut other) = (store.follow_from(0), store.follow_from(0));
        let elsewhere = Connection::open(&path).unwrap();
        for n in 0..6 {
            let add = "INSERT INTO events (at, kind, subject) VALUES (0, 'session', ?1)";
            elsewhere.execute(add, [n]).unwrap();
        }
        elsewhere.execute("DELETE FROM events WHERE seq <= 2", []).unwrap();
        store.feed.know(6);
        for reader in [&mut one, &mut other] {
            let news = reader.look().await.unwrap();
            assert!(news.missed, "{news:?}");
            assert_eq!(news.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4, 5, 6]);
        }
        assert!(!store.feed.is_without(&[EventKind::Group], 0, 6), "nobody knows what was removed");
    }

    #[test]
    fn a_reader_that_panicked_over_the_newest_events_keeps_them_from_nobody() {
        let feed = Arc::new(Feed::new());
        let broken = Arc::clone(&feed);
        let reads = std::thread::spawn(move || {
            let _recent = broken.recent.lock().unwrap();
            panic!("as wanted");
        });
        assert!(reads.join().is_err());
        let event = FeedEvent {
            seq: 1,
            at: Time(0),
            kind: EventKind::Task,
            group: None,
            chat: None,
            subject: String::new(),
        };
        feed.try_recent().unwrap().learn(0, &[Arc::new(event)]);
        assert!(feed.is_without(&[EventKind::Group], 0, 1) && !feed.is_without(&[EventKind::Task], 0, 1));
    }

    #[test]
    fn who_is_woken_by_several_at_once_is_told_each_event_of_its_kinds_once() {
        const EVENTS: i64 = 50_000;
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let feed = Arc::clone(&store.feed);
        let kind_of = |seq| if seq % 2 == 0 { EventKind::Session } else { EventKind::Task };
        let mut reader = store.follow_kinds_from(&[EventKind::Session], 0);
        let (is_over, is_told) = (AtomicBool::new(false), AtomicBool::new(false));
        let read = |_: &Feed, cursor: i64, newest: i64| {
            let event = |seq| FeedEvent {
                seq,
                at: Time(0),
                kind: kind_of(seq),
                group: None,
                chat: None,
                subject: String::new(),
            };
            Ok(((cursor + 1..=newest).map(|seq| Arc::new(event(seq))).collect(), false))
        };
        let told = std::thread::scope(|threads| {
            let waking = [0; 2].map(|_| {
                threads.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        feed.wake();
                    }
                })
            });
            let reading = threads.spawn(|| {
                let mut told = Vec::new();
                loop {
                    let is_last = is_told.load(Ordering::SeqCst);
                    match reader.wake.notified().now_or_never() {
                        Some(()) => {
                            told.extend(reader.look_by(read).unwrap().events.iter().map(|event| event.seq));
                        }
                        None if is_last => break told,
                        None => std::thread::yield_now(),
                    }
                }
            });
            (1..=EVENTS).for_each(|seq| feed.note(seq, Kinds::of([kind_of(seq)])));
            is_over.store(true, Ordering::SeqCst);
            waking.into_iter().for_each(|waking| waking.join().unwrap());
            feed.wake();
            is_told.store(true, Ordering::SeqCst);
            reading.join().unwrap()
        });
        assert_eq!(told, (2..=EVENTS).step_by(2).collect::<Vec<_>>());
    }
}
