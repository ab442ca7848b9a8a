//! The files in which an agent reads the state of things: `current_tasks.json`, `available_groups.json`,
//! `session_history.json`, as v1 wrote them. Written atomically, each from a state that was read after its turn came.
//!
//! The feed tells what changed; at the start every group's are wanted. A file stays if it would be written
//! with the same bytes. A list that somebody waits for is written at once. The others are written [`soon`](Snapshots::soon),
//! once for all changes until then: a list that many commands change is not written for each. None is larger than `LARGEST`, or main's list of tasks than
//! `LARGEST_OF_MAIN`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipc_handlers::{Folder, shown::AvailableGroups};
use serde::ser::{SerializeSeq as _, Serializer as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Ask, Boxes};
use crate::{
    config::Live,
    domain::host::{errors::chain, feed::EventKind},
    ipc::{GroupBoxes, PutError, World},
    store::{Follower, News, Store, StoreError},
    system::clock,
};

/// Why a snapshot is not written.
#[derive(Debug, thiserror::Error)]
enum Unwritten {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Boxes(#[from] World),
    #[error(transparent)]
    Put(#[from] PutError),
}

/// One of a group's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    Tasks,
    Groups,
    /// The groups, written anew even where they are as they were: the list says when that was.
    GroupsAnew,
    Sessions,
}

impl List {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Tasks, Self::Groups, Self::Sessions];
}

/// When a snapshot that is not as the store is gets written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    AtLeisure,
    /// The command that brought it waits for it.
    AtOnce,
}

/// Which snapshots are to be written.
#[derive(Default)]
struct Wanted {
    lists: BTreeMap<Folder, BTreeMap<List, When>>,
    /// The groups of which somebody waits for some: at a start every group's are wanted, and each answer looks for these.
    awaited: BTreeSet<Folder>,
}

/// Which snapshots are to be written, and whose turn it is.
pub struct Snapshots {
    config: Arc<Live>,
    store: Store,
    boxes: Arc<Boxes>,
    /// Requests to the loop `ipc`.
    mailboxes: mpsc::UnboundedSender<Ask>,
    /// One writer at a time per group, so that an older state never lands on a newer one.
    turns: Mutex<BTreeMap<Folder, Arc<Mutex<()>>>>,
    wanted: Mutex<Wanted>,
    nudge: Notify,
    /// The groups whose boxes the loop `ipc` was told of, or found at its start.
    known: Mutex<BTreeSet<Folder>>,
    feed: Mutex<Follower>,
}

impl Snapshots {
    /// Nothing is to be written but what the feed tells from here on.
    ///
    /// # Errors
    /// The store's.
    pub async fn new(
        config: Arc<Live>,
        store: Store,
        boxes: Arc<Boxes>,
        mailboxes: mpsc::UnboundedSender<Ask>,
    ) -> Result<Self, StoreError> {
        let feed = store.follow_kinds(&FOLLOWED).await;
        let known = store.groups().await?.into_iter().map(|group| group.folder).collect();
        Ok(Self {
            config,
            store,
            boxes,
            mailboxes,
            turns: Mutex::default(),
            wanted: Mutex::default(),
            nudge: Notify::new(),
            known: Mutex::new(known),
            feed: Mutex::new(feed),
        })
    }

    /// Has snapshots of a group written at the next [`Snapshots::write_rest`], unless somebody waits for them before.
    pub fn soon(&self, group: &Folder, lists: &[List]) {
        self.want(group, lists, When::AtLeisure);
    }

    fn want(&self, group: &Folder, lists: &[List], when: When) {
        let mut wanted = self.wanted();
        if when == When::AtOnce {
            wanted.awaited.insert(group.clone());
        }
        let of_group = wanted.lists.entry(group.clone()).or_default();
        for list in lists {
            let known = of_group.entry(*list).or_insert(when);
            *known = when.max(*known);
        }
    }

    /// Has the snapshots that are still wanted written in a moment, by the loop.
    pub fn write_rest(&self) {
        if !self.wanted().lists.is_empty() {
            self.nudge.notify_one();
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, group: &Folder) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(group.clone()).or_default())
    }
}

/// What snapshots, boxes and kept archives depend on.
const FOLLOWED: [EventKind; 6] = [
    EventKind::Group,
    EventKind::Hold,
    EventKind::Session,
    EventKind::Task,
    EventKind::Wiring,
    EventKind::Chat,
];
/// How large a snapshot is at most, bytes.
const LARGEST: u64 = 1 << 20;
/// How large main's list of tasks is at most, bytes: it shows every group's.
const LARGEST_OF_MAIN: u64 = 8 << 20;
/// After writing a snapshot that nobody waits for, the loop rests this many times as long as it wrote.
const LEISURE: u32 = 9;
/// However long a list is, the rest after it is no longer.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// How long after a change the feed is read: what comes at once is read at once.
const GATHER: Duration = Duration::from_millis(20);
/// How long after a failure the feed is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// How far the feed was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaughtUp {
    /// To its end.
    Whole,
    /// The rest can't be read now.
    Unread,
}

/// Waits for the store, on a thread that may block.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(answer)
}

/// Follows the feed, and writes what it makes wanted, until `stop`. Whatever is wanted then is written first.
pub async fn run(snapshots: Arc<Snapshots>, stop: CancellationToken) {
    tokio::join!(follow(&snapshots, &stop), write_soon(&snapshots, &stop));
}

/// Follows the feed for changes that no answer to a command has taken in.
async fn follow(snapshots: &Arc<Snapshots>, stop: &CancellationToken) {
    // Two readers: this one only waits, the other is shared with the answers to commands.
    let mut bell = snapshots.store.follow_kinds(&FOLLOWED).await;
    loop {
        let at_work = Arc::clone(snapshots);
        let caught_up = tokio::task::spawn_blocking(move || at_work.catch_up()).await;
        snapshots.write_rest();
        match caught_up {
            Ok(CaughtUp::Whole) => tokio::time::sleep(GATHER).await,
            Ok(CaughtUp::Unread) => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(READ_AGAIN) => continue,
                }
            }
            Err(fault) => {
                tracing::error!(fault = %chain(&fault), "our own fault: following the feed of changes failed");
                tokio::time::sleep(GATHER).await;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            _ = bell.next() => {}
        }
    }
}

async fn write_soon(snapshots: &Arc<Snapshots>, stop: &CancellationToken) {
    loop {
        tokio::select! {
            () = snapshots.nudge.notified() => {}
            () = stop.cancelled() => {}
        }
        let last = stop.is_cancelled();
        let wanted: Vec<Folder> = snapshots.wanted().lists.keys().cloned().collect();
        for group in wanted {
            let began = clock::monotonic();
            let at_work = Arc::clone(snapshots);
            let _ = tokio::task::spawn_blocking(move || at_work.write_wanted(&group, When::AtLeisure)).await;
            let rest = (began.elapsed() * LEISURE).min(LONGEST_REST);
            if !last && !stop.is_cancelled() {
                tokio::time::sleep(rest).await;
            }
        }
        if last {
            return;
        }
    }
}

impl Snapshots {
    /// Takes in what was committed since the last time: which snapshots are to be written, whose boxes are to be opened, whose
    /// archive is to be kept within its bounds. Everything that was committed before this call is taken in when it returns,
    /// by whichever thread. On a thread that may block.
    pub fn catch_up(&self) -> CaughtUp {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match wait(feed.look()) {
                Ok(news) if news.events.is_empty() && !news.missed => return CaughtUp::Whole,
                Ok(news) => self.take_in(&news),
                Err(error) => {
                    tracing::error!(error = %chain(&error), "reading the feed of changes failed; snapshots are late");
                    return CaughtUp::Unread;
                }
            }
        }
    }

    fn take_in(&self, news: &News) {
        if news.missed {
            wait(self.want_all());
        }
        let of = |kind: EventKind| {
            let some = news.events.iter().filter(move |event| event.kind == kind);
            some.filter_map(|event| event.group.as_ref()).collect::<BTreeSet<&Folder>>()
        };
        let changed = of(EventKind::Group);
        let (came_or_went, stayed): (Vec<&Folder>, Vec<&Folder>) =
            changed.iter().copied().partition(|group| self.lay_out(group));
        if !came_or_went.is_empty() || news.any(&[EventKind::Hold]) {
            // The answer is not waited for: at the start the loop `ipc` does not run yet.
            let (done, _) = oneshot::channel();
            let _ = self.mailboxes.send(Ask::Groups(done));
        }
        came_or_went.iter().for_each(|group| self.want(group, &List::ALL, When::AtOnce));
        // Its zone may be another one.
        stayed.iter().for_each(|group| self.soon(group, &[List::Tasks]));
        let sessions = of(EventKind::Session);
        sessions.iter().for_each(|group| self.put_out_archives(group));
        sessions.iter().for_each(|group| self.want(group, &[List::Sessions], When::AtOnce));
        let tasks = of(EventKind::Task);
        tasks.iter().for_each(|group| self.soon(group, &[List::Tasks]));
        if !news.any(&[EventKind::Task, EventKind::Group, EventKind::Wiring, EventKind::Chat]) {
            return;
        }
        // Main sees every group's.
        let main = self.store.main_group().unwrap_or_else(|error| {
            tracing::error!(error = %chain(&error), "finding main for a snapshot failed");
            None
        });
        let Some(main) = main else { return };
        if !tasks.is_empty() || !changed.is_empty() {
            self.soon(&main, &[List::Tasks]);
        }
        if news.any(&[EventKind::Group, EventKind::Wiring]) {
            self.want(&main, &[List::Groups], When::AtOnce);
        } else if news.any(&[EventKind::Chat]) {
            self.soon(&main, &[List::Groups]);
        }
    }

    /// Has all snapshots of every group written in a moment.
    pub async fn want_all(&self) {
        match self.store.groups().await {
            Ok(groups) => groups.iter().for_each(|group| self.soon(&group.folder, &List::ALL)),
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the groups for their snapshots failed")
            }
        }
        self.write_rest();
    }

    /// Whether there is no group of this name. Its mailbox can be removed then: the next group of this name counts as new, and has its
    /// boxes opened.
    pub fn is_gone(&self, group: &Folder) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = matches!(self.store.has_group(group), Ok(false));
        if is_gone {
            known.remove(group);
        }
        is_gone
    }

    /// Lays out a group that was made: it has its folder and its boxes before anybody is told of it. Returns whether the group came
    /// or went; otherwise something else of it changed.
    fn lay_out(&self, group: &Folder) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match self.store.has_group(group) {
            Ok(true) if !known.insert(group.clone()) && self.boxes.open().contains_key(group) => {
                return false;
            }
            Ok(true) => {}
            Ok(false) => {
                known.remove(group);
                return true;
            }
            Err(error) => {
                tracing::error!(group = %group, error = %chain(&error), "reading a group failed");
                return true;
            }
        }
        drop(known);
        self.boxes.lay_out(group);
        if let Err(error) = self.boxes.of(group) {
            tracing::error!(group = %group, error = %chain(&error), "opening the boxes failed");
        }
        true
    }

    /// Keeps the archive of a group within its bounds. What a crash leaves undone is done after the next change.
    fn put_out_archives(&self, group: &Folder) {
        let (most, bytes) = (self.config.now().limits.archives, self.config.now().limits.archives_bytes);
        match wait(self.store.put_out_archives(group.clone(), most, bytes)) {
            Ok(0) => {}
            Ok(count) => tracing::info!(group = %group, count, "the oldest archived sessions were put out"),
            Err(error) => {
                tracing::warn!(group = %group, error = %chain(&error), "putting archived sessions out failed; it is tried again after the next change")
            }
        }
    }

    /// Writes the snapshots that somebody waits for, and those of `asked` where they are not as the store is, before it returns.
    /// The loop is left alone meanwhile: it would write the same ones. On a thread that may block.
    pub fn write_awaited(&self, asked: &[&Folder]) {
        self.catch_up();
        let mut awaited: BTreeSet<Folder> = asked.iter().copied().cloned().collect();
        awaited.extend(self.wanted().awaited.iter().cloned());
        let least = |group| if asked.contains(&group) { When::AtLeisure } else { When::AtOnce };
        awaited.iter().for_each(|group| self.write_wanted(group, least(group)));
    }

    /// Writes those snapshots of a group that no reply goes before. Those that another thread writes are there, too, when it returns.
    pub fn write_at_once(&self, group: &Folder) {
        self.write_wanted(group, When::AtOnce);
    }

    /// Writes the wanted snapshots of a group that are at least so urgent. If another thread writes them already, waits for it.
    fn write_wanted(&self, group: &Folder, least: When) {
        let turn = self.turn(group);
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = self.wanted();
        let Some(of_group) = wanted.lists.get_mut(group) else { return };
        let lists: Vec<List> =
            of_group.extract_if(.., |_, when| *when >= least).map(|(list, _)| list).collect();
        if of_group.is_empty() {
            wanted.lists.remove(group);
        }
        wanted.awaited.remove(group);
        drop(wanted);
        self.put_or_tell(group, &lists);
    }

    /// Writes all snapshots of a group. What fails is logged: a command that was applied stays applied.
    pub async fn write(self: &Arc<Self>, group: &Folder) {
        let (at_work, group) = (Arc::clone(self), group.clone());
        let writing = move || {
            let turn = at_work.turn(&group);
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            at_work.put_or_tell(&group, &List::ALL);
        };
        let _ = tokio::task::spawn_blocking(writing).await;
    }

    fn put_or_tell(&self, group: &Folder, lists: &[List]) {
        if let Err(error) = self.put_all(group, lists) {
            tracing::error!(group = %group, error = %chain(&error), "writing a snapshot failed");
        }
    }

    fn put_all(&self, group: &Folder, lists: &[List]) -> Result<(), Unwritten> {
        let Some(is_main) = self.store.is_main(group)? else { return Ok(()) };
        let boxes = self.boxes.of(group)?;
        for list in lists {
            match list {
                List::Groups if lists.contains(&List::GroupsAnew) => {}
                List::Tasks => self.put_tasks(&boxes, group, is_main)?,
                List::Groups | List::GroupsAnew => {
                    self.put_groups(&boxes, is_main, *list == List::GroupsAnew)?
                }
                List::Sessions => {
                    let history = self.store.session_history(group, LARGEST)?;
                    let bytes = serde_json::to_vec_pretty(&history).unwrap_or_default();
                    boxes.write_snapshot("session_history.json", &bytes)?;
                }
            }
        }
        Ok(())
    }

    fn put_tasks(&self, boxes: &GroupBoxes, of: &Folder, is_main: bool) -> Result<(), Unwritten> {
        let scope = (!is_main).then_some(of);
        boxes.write_snapshot_with("current_tasks.json", |file| {
            // Row by row, as many as fit. Main's list has every group's tasks, as many bytes of each.
            let mut json = serde_json::Serializer::pretty(file);
            let mut list = json.serialize_seq(None)?;
            let mut failed = Ok(());
            let room = if is_main { LARGEST_OF_MAIN } else { LARGEST };
            let read = self.store.each_shown_task(scope, room, &self.config.now().zones, |task| {
                failed = list.serialize_element(&task);
                failed.is_ok()
            });
            failed?;
            read.map_err(io::Error::other)?;
            Ok(list.end()?)
        })?;
        Ok(())
    }

    fn put_groups(&self, boxes: &GroupBoxes, is_main: bool, anew: bool) -> Result<(), Unwritten> {
        let (groups, more) = if is_main { self.store.available_groups(LARGEST)? } else { (Vec::new(), 0) };
        let groups =
            AvailableGroups { groups, more: Some(more).filter(|more| *more > 0), last_sync: clock::now() };
        let bytes = serde_json::to_vec_pretty(&groups).unwrap_or_default();
        let will_do = |there: &[u8]| !anew && show_the_same(there, &bytes);
        Ok(boxes.write_snapshot_unless("available_groups.json", &bytes, will_do)?)
    }
}

/// How a list of groups ends: with when it was written.
const WRITTEN: &str = "\"0000-00-00T00:00:00.000Z\"\n}";

/// Whether two lists of groups of one length differ in when they were written at most.
fn show_the_same(list: &[u8], other: &[u8]) -> bool {
    let Some((list, at)) = list.split_last_chunk::<{ WRITTEN.len() }>() else { return false };
    // A power cut may leave anything there.
    let is_time = at.map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }) == WRITTEN.as_bytes();
    is_time && other.get(..list.len()) == Some(list)
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Time;

    use super::*;
    use crate::{
        config::{Config, Environment},
        ipc::HostDirs,
        store::NewGroup,
    };

    #[test]
    fn lists_show_the_same_whenever_they_were_written() {
        let list = |more, at| {
            let list = AvailableGroups { groups: Vec::new(), more, last_sync: Time(at) };
            serde_json::to_vec_pretty(&list).unwrap()
        };
        assert!(show_the_same(&list(None, 0), &list(None, 1_795_323_677_189)));
        assert!(!show_the_same(&list(Some(1), 0), &list(Some(2), 0)));
        assert!(!show_the_same(&list(Some(1), 0), &list(None, 0)));
        assert!(!show_the_same(b"", &list(None, 0)) && !show_the_same(b"", b""));
        let mut torn = list(None, 0);
        torn.iter_mut().rev().take(9).for_each(|byte| *byte = 0);
        assert!(!show_the_same(&torn, &list(None, 0)));
    }

    #[tokio::test]
    async fn a_group_that_comes_back_is_not_taken_for_one_whose_boxes_stay() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let store = Store::open(&path.join("g2.sqlite")).unwrap();
        let config = Config::load(path, &Environment::default()).unwrap();
        let config = Arc::new(Live::new(path.to_owned(), Environment::default(), config));
        let dirs = HostDirs::open(path).unwrap();
        let boxes = Arc::new(Boxes::new(dirs, None, path.to_owned(), None, store.clone()));
        let (mailboxes, _asked) = mpsc::unbounded_channel();
        let snapshots = Snapshots::new(config, store.clone(), boxes, mailboxes).await.unwrap();
        let folder = Folder::parse("team").unwrap();
        let add = async || {
            let (folder, name) = (folder.clone(), "Team".to_owned());
            store.has_left(folder.clone()).await.unwrap();
            let group = NewGroup { folder, name, is_main: false, trigger: "@G2".into() };
            store.add_group(group, Vec::new(), Time(0)).await.unwrap();
        };
        add().await;
        assert_eq!((snapshots.lay_out(&folder), snapshots.lay_out(&folder)), (true, false));
        assert!(!snapshots.is_gone(&folder));
        // It goes and comes back before anybody looks: who has an old list of groups keeps its boxes.
        store.remove_group(folder.clone()).await.unwrap();
        add().await;
        assert_eq!((snapshots.lay_out(&folder), snapshots.is_gone(&folder)), (false, false));
        // Its boxes are given up before it comes back: it has come, though boxes may still be open.
        store.remove_group(folder.clone()).await.unwrap();
        assert!(snapshots.is_gone(&folder));
        add().await;
        assert_eq!((snapshots.lay_out(&folder), snapshots.lay_out(&folder)), (true, false));
        // It is gone when somebody looks.
        store.remove_group(folder.clone()).await.unwrap();
        assert!(snapshots.lay_out(&folder));
        add().await;
        assert!(snapshots.lay_out(&folder));
    }
}
