//! The files in which an agent reads the state of things: `current_tasks.json`, `available_groups.json`,
//! `session_history.json`, as v1 wrote them. Written atomically, each from a state that was read after its turn came.
//!
//! The feed tells what changed; at the start every group's are wanted. News are kept until they are taken in, and a list is wanted
//! until it is written. A file stays if it would be written with the same bytes. A list that somebody waits for is written at once. The others are written [`soon`](Snapshots::soon),
//! once for all changes until then: a list that many commands change is not written for each. None is larger than `LARGEST`, or main's list of tasks than
//! `LARGEST_OF_MAIN`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use ipc_handlers::{Folder, shown::AvailableGroups};
use serde::ser::{SerializeSeq as _, Serializer as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Ask, Boxes};
use crate::{
    config::Live,
    domain::{
        machine::loops::LoopName,
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Error, Loop, Plan, Read, Then, Why},
    ipc::{GroupBoxes, PutError, WorldFault},
    store::{Follower, News, Store, StoreError},
    system::{locked::Locked as _, world::World},
};

/// Why a snapshot is not written.
#[derive(Debug, thiserror::Error)]
enum Unwritten {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Boxes(#[from] WorldFault),
    #[error(transparent)]
    Put(#[from] PutError),
    #[error("a list can't be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl From<Unwritten> for Error {
    fn from(error: Unwritten) -> Self {
        match error {
            Unwritten::Store(error) => error.into(),
            Unwritten::Boxes(_) | Unwritten::Put(_) => Self::world(&error),
            Unwritten::Json(_) => Self::ours(&error),
        }
    }
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
    world: World,
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
    feed: Mutex<Fed>,
}

/// The feed, and what it told that is not taken in.
struct Fed {
    follower: Follower,
    told: Told,
}

/// What the feed told, by what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    /// Every group's snapshots may be another.
    all: bool,
    /// The boxes that are open may have to be others.
    boxes: bool,
    /// Groups that were made, changed or removed.
    groups: BTreeSet<Folder>,
    /// Groups whose archive changed, and those whose archive is still to be kept within its bounds.
    sessions: BTreeSet<Folder>,
    archives: BTreeSet<Folder>,
    /// Groups whose tasks changed.
    tasks: BTreeSet<Folder>,
    /// Main's lists, which show every group's.
    main: BTreeMap<List, When>,
}

impl Told {
    /// Takes news in.
    fn add(&mut self, news: &News) {
        self.all |= news.missed;
        self.boxes |= news.any(&[EventKind::Hold]);
        for event in &news.events {
            let of = match event.kind {
                EventKind::Group => &mut self.groups,
                EventKind::Session => &mut self.sessions,
                EventKind::Task => &mut self.tasks,
                _ => continue,
            };
            of.extend(event.group.clone());
        }
        let shows = [
            (List::Tasks, When::AtLeisure, &[EventKind::Task, EventKind::Group][..]),
            (List::Groups, When::AtLeisure, &[EventKind::Chat]),
            (List::Groups, When::AtOnce, &[EventKind::Group, EventKind::Wiring]),
        ];
        for (list, when, _) in shows.into_iter().filter(|(_, _, kinds)| news.any(kinds)) {
            let known = self.main.entry(list).or_insert(when);
            *known = when.max(*known);
        }
    }
}

impl Snapshots {
    /// Nothing is to be written but what the feed tells from here on.
    ///
    /// # Errors
    /// The store's.
    pub async fn new(
        world: World,
        config: Arc<Live>,
        store: Store,
        boxes: Arc<Boxes>,
        mailboxes: mpsc::UnboundedSender<Ask>,
    ) -> Result<Self, StoreError> {
        let feed = store.follow_kinds(&FOLLOWED).await;
        let known = store.groups().await?.into_iter().map(|group| group.folder).collect();
        Ok(Self {
            world,
            config,
            store,
            boxes,
            mailboxes,
            turns: Mutex::default(),
            wanted: Mutex::default(),
            nudge: Notify::new(),
            known: Mutex::new(known),
            feed: Mutex::new(Fed { follower: feed, told: Told::default() }),
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
        self.wanted.locked()
    }

    fn turn(&self, group: &Folder) -> Arc<Mutex<()>> {
        let mut turns = self.turns.locked();
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

/// How long after a change the feed is read again: what comes at once is read at once.
const GATHER: Duration = Duration::from_millis(20);

/// Follows the feed, and writes what it makes wanted, one group after the other. Whatever is wanted at a stop is written first.
pub struct Writing {
    snapshots: Arc<Snapshots>,
    desk: Arc<Desk>,
    turns: Turns,
}

/// What the loop works with.
pub struct Desk {
    snapshots: Arc<Snapshots>,
    pace: Mutex<Pace>,
}

/// When the loop may write the next group's snapshots.
struct Pace {
    /// When the rest after the last write is over.
    rests_until: Instant,
    /// Groups whose snapshots could not be written: the engine tries them again.
    failing: BTreeSet<Folder>,
}

/// Whose snapshots are written next.
#[derive(Debug, Default)]
struct Turns {
    /// The group that is at work.
    at_work: Option<Folder>,
    last: Option<Folder>,
}

impl Turns {
    /// Work on a group has ended, or a try of it.
    fn ended(&mut self, group: &Folder) {
        if self.at_work.as_ref() == Some(group) {
            self.at_work = None;
        }
    }

    /// Returns the next group, the one after the last; `None`: there is none but those that fail, or one is at work.
    fn next<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a Folder> + Clone,
        failing: &BTreeSet<Folder>,
    ) -> Option<Folder> {
        if self.at_work.is_some() {
            return None;
        }
        let mut open = wanted.filter(|group| !failing.contains(*group));
        let after = open.clone().find(|group| self.last.as_ref().is_none_or(|last| *group > last));
        let next = after.or_else(|| open.next()).cloned()?;
        (self.at_work, self.last) = (Some(next.clone()), Some(next.clone()));
        Some(next)
    }
}

impl Writing {
    #[must_use]
    pub fn new(snapshots: Arc<Snapshots>) -> Self {
        let pace = Pace { rests_until: snapshots.world.monotonic(), failing: BTreeSet::new() };
        let desk = Desk { snapshots: Arc::clone(&snapshots), pace: Mutex::new(pace) };
        Self { snapshots, desk: Arc::new(desk), turns: Turns::default() }
    }
}

impl Loop for Writing {
    const NAME: LoopName = LoopName::Snapshots;
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(4);
    const FOLLOWS: &'static [EventKind] = &FOLLOWED;
    const AT_ONCE: usize = 1;
    const NOT_SOONER: Duration = GATHER;
    const LOOKS_AT_ENDS: bool = true;
    /// What it takes in is wanted before the last writes.
    const FINISHES_LOOKS: bool = true;
    type Key = Folder;
    type Job = ();
    type Hands = Desk;

    fn hands(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }

    async fn asked(&mut self) {
        self.snapshots.nudge.notified().await;
    }

    async fn look(&mut self, why: &Why<Folder>) -> Result<Plan<Folder, ()>, Error> {
        // This feed only wakes; the one that is read is shared with the answers to commands.
        let read = if why.all || why.again || !why.events.is_empty() {
            let at_work = Arc::clone(&self.snapshots);
            match self.snapshots.world.blocking(move || at_work.catch_up()).await? {
                Ok(()) => Read::All,
                Err(error) => Read::Failed(error.into()),
            }
        } else {
            Read::NotTried
        };
        why.ended.iter().chain(&why.failed).for_each(|group| self.turns.ended(group));
        let (wanted, pace) = (self.snapshots.wanted(), self.desk.pace());
        let rests = pace.rests_until.saturating_duration_since(self.snapshots.world.monotonic());
        if !rests.is_zero() {
            let again = (!wanted.lists.is_empty()).then_some(rests);
            return Ok(Plan { again, read, ..Plan::default() });
        }
        let next = self.turns.next(wanted.lists.keys(), &pace.failing);
        Ok(Plan { begin: next.into_iter().map(|group| (group, ())).collect(), read, ..Plan::default() })
    }

    async fn perform(desk: Arc<Desk>, group: Folder, (): (), _: CancellationToken) -> Result<Then, Error> {
        let world = &desk.snapshots.world;
        let began = world.monotonic();
        let (at_work, of) = (Arc::clone(&desk.snapshots), group.clone());
        let written = world.blocking(move || at_work.write_wanted(&of, When::AtLeisure)).await;
        let written = written.map_err(Error::from).and_then(|written| Ok(written?));
        let ended = world.monotonic();
        let rest = (ended.duration_since(began) * LEISURE).min(LONGEST_REST);
        let mut pace = desk.pace();
        pace.rests_until = ended + rest;
        match written {
            Ok(()) => drop(pace.failing.remove(&group)),
            Err(_) => drop(pace.failing.insert(group)),
        }
        written.map(|()| Then::Done)
    }

    async fn finish(&mut self) {
        let wanted: Vec<Folder> = self.snapshots.wanted().lists.keys().cloned().collect();
        for group in wanted {
            let (at_work, of) = (Arc::clone(&self.snapshots), group.clone());
            let world = &self.snapshots.world;
            let written = world.blocking(move || at_work.write_wanted(&of, When::AtLeisure)).await;
            if let Err(error) = written.map_err(Error::from).and_then(|written| Ok(written?)) {
                tracing::warn!(%group, error = %chain(&error), "a snapshot can't be written before the stop; the next start does it");
            }
        }
    }
}

impl Desk {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.locked()
    }
}

impl Snapshots {
    /// Takes in what was committed since the last time: which snapshots are to be written, whose boxes are to be opened, whose
    /// archive is to be kept within its bounds. Everything that was committed before this call is taken in when it returns,
    /// by whichever thread. On a thread that may block.
    ///
    /// # Errors
    /// The store's. Events that were not taken in are kept for the next call; the loop, which they wake, makes it.
    pub fn catch_up(&self) -> Result<(), StoreError> {
        let mut feed = self.feed.locked();
        let Fed { follower, told } = &mut *feed;
        let mut done = Ok(());
        loop {
            let news = self.world.wait(follower.look())?;
            let is_last = news.events.is_empty() && !news.missed;
            told.add(&news);
            // News that were kept are tried once in each call.
            if is_last && *told == Told::default() {
                return Ok(());
            }
            if is_last && done.is_err() {
                return done;
            }
            done = self.take_in(told);
        }
    }

    /// Takes in the news of the feed. News that can't be read now stay in it, and do not keep the others.
    fn take_in(&self, told: &mut Told) -> Result<(), StoreError> {
        let mut done = Ok(());
        if told.all {
            match self.want_every_groups() {
                Ok(()) => told.all = false,
                Err(error) => done = Err(error),
            }
        }
        let mut groups_left = BTreeSet::new();
        for group in std::mem::take(&mut told.groups) {
            match self.lay_out(&group) {
                Ok(true) => {
                    told.boxes = true;
                    self.want(&group, &List::ALL, When::AtOnce);
                }
                // Its zone may be another one.
                Ok(false) => self.soon(&group, &[List::Tasks]),
                Err(error) => {
                    done = Err(error);
                    groups_left.insert(group);
                }
            }
        }
        told.groups = groups_left;
        if std::mem::take(&mut told.boxes) {
            // The answer is not waited for: at the start the loop `ipc` does not run yet. At a stop nobody takes it, and the next start
            // opens all.
            let (opened, _) = oneshot::channel();
            let _ = self.mailboxes.send(Ask::Groups(opened));
        }
        for group in std::mem::take(&mut told.sessions) {
            self.want(&group, &[List::Sessions], When::AtOnce);
            told.archives.insert(group);
        }
        let mut archives_left = BTreeSet::new();
        for group in std::mem::take(&mut told.archives) {
            if let Err(error) = self.put_out_archives(&group) {
                done = Err(error);
                archives_left.insert(group);
            }
        }
        told.archives = archives_left;
        std::mem::take(&mut told.tasks).iter().for_each(|group| self.soon(group, &[List::Tasks]));
        if !told.main.is_empty() {
            match self.store.main_group() {
                Ok(main) => {
                    for (list, when) in std::mem::take(&mut told.main) {
                        main.iter().for_each(|main| self.want(main, &[list], when));
                    }
                }
                Err(error) => done = Err(error),
            }
        }
        done
    }

    /// Has all snapshots of every group written in a moment. Where the groups can't be read, the loop reads them.
    pub async fn want_all(self: &Arc<Self>) {
        let at_work = Arc::clone(self);
        let wanted = self.world.blocking(move || at_work.want_every_groups()).await;
        if let Err(error) = wanted.map_err(Error::from).and_then(|wanted| Ok(wanted?)) {
            tracing::warn!(error = %chain(&error), "reading the groups for their snapshots failed; it is tried again");
            self.feed.locked().told.all = true;
        }
        self.write_rest();
    }

    /// Has the same, on a thread that may block.
    fn want_every_groups(&self) -> Result<(), StoreError> {
        let groups = self.world.wait(self.store.groups())?;
        groups.iter().for_each(|group| self.soon(&group.folder, &List::ALL));
        Ok(())
    }

    /// Whether there is no group of this name. Its mailbox can be removed then: the next group of this name counts as new, and has its
    /// boxes opened.
    pub fn is_gone(&self, group: &Folder) -> bool {
        let mut known = self.known.locked();
        // While that can't be read, nothing is removed.
        let is_gone = matches!(self.store.has_group(group), Ok(false));
        if is_gone {
            known.remove(group);
        }
        is_gone
    }

    /// Lays out a group that was made: it has its folder and its boxes before anybody is told of it. Returns whether the group came
    /// or went; otherwise something else of it changed.
    fn lay_out(&self, group: &Folder) -> Result<bool, StoreError> {
        let mut known = self.known.locked();
        if !self.store.has_group(group)? {
            known.remove(group);
            return Ok(true);
        }
        if !known.insert(group.clone()) && self.boxes.open().contains_key(group) {
            return Ok(false);
        }
        drop(known);
        self.boxes.lay_out(group);
        if let Err(error) = self.boxes.of(group) {
            // The loop `ipc`, which is asked for them next, tries again and says so in `status`.
            tracing::error!(group = %group, error = %chain(&error), "opening the boxes failed");
        }
        Ok(true)
    }

    /// Keeps the archive of a group within its bounds. After a crash the rest is done with the next change.
    fn put_out_archives(&self, group: &Folder) -> Result<(), StoreError> {
        let (most, bytes) = (self.config.now().limits.archives, self.config.now().limits.archives_bytes);
        let count = self.world.wait(self.store.put_out_archives(group.clone(), most, bytes))?;
        if count > 0 {
            tracing::info!(group = %group, count, "the oldest archived sessions were put out");
        }
        Ok(())
    }

    /// Writes the snapshots that somebody waits for, and those of `asked` where they are not as the store is, before it returns.
    /// The loop is left alone meanwhile: it would write the same ones. On a thread that may block.
    pub fn write_awaited(&self, asked: &[&Folder]) {
        if let Err(error) = self.catch_up() {
            tracing::warn!(error = %chain(&error), "reading the feed of changes failed; snapshots are late");
        }
        let mut awaited: BTreeSet<Folder> = asked.iter().copied().cloned().collect();
        awaited.extend(self.wanted().awaited.iter().cloned());
        let least = |group| if asked.contains(&group) { When::AtLeisure } else { When::AtOnce };
        awaited.iter().for_each(|group| self.write_or_later(group, least(group)));
    }

    /// Writes those snapshots of a group that no reply goes before. Those that another thread writes are there, too, when it returns.
    pub fn write_at_once(&self, group: &Folder) {
        self.write_or_later(group, When::AtOnce);
    }

    /// Writes as [`Snapshots::write_wanted`]. What fails is left to the loop: a command that was applied stays applied.
    fn write_or_later(&self, group: &Folder, least: When) {
        if let Err(error) = self.write_wanted(group, least) {
            tracing::warn!(group = %group, error = %chain(&error), "writing a snapshot failed; it is tried again");
            self.write_rest();
        }
    }

    /// Writes the wanted snapshots of a group that are at least so urgent. If another thread writes them already, waits for it.
    ///
    /// # Errors
    /// The obstacle. The files stay wanted.
    fn write_wanted(&self, group: &Folder, least: When) -> Result<(), Unwritten> {
        let turn = self.turn(group);
        let _turn = turn.locked();
        let mut wanted = self.wanted();
        let Some(of_group) = wanted.lists.get_mut(group) else { return Ok(()) };
        let lists: Vec<List> =
            of_group.extract_if(.., |_, when| *when >= least).map(|(list, _)| list).collect();
        if of_group.is_empty() {
            wanted.lists.remove(group);
        }
        wanted.awaited.remove(group);
        drop(wanted);
        self.put(group, lists)
    }

    /// Writes all snapshots of a group. What fails is left to the loop: a command that was applied stays applied.
    pub async fn write(self: &Arc<Self>, group: &Folder) {
        let (at_work, of) = (Arc::clone(self), group.clone());
        let writing = move || {
            let turn = at_work.turn(&of);
            let _turn = turn.locked();
            at_work.put(&of, List::ALL.to_vec())
        };
        let written = self.world.blocking(writing).await;
        if let Err(error) = written.map_err(Error::from).and_then(|written| Ok(written?)) {
            tracing::warn!(group = %group, error = %chain(&error), "writing a snapshot failed; it is tried again");
            self.write_rest();
        }
    }

    /// Writes snapshots, which are wanted again unless all are written, also where it panics.
    fn put(&self, group: &Folder, lists: Vec<List>) -> Result<(), Unwritten> {
        let mut unwritten = Unless { snapshots: self, group, lists };
        self.put_all(group, &unwritten.lists)?;
        unwritten.lists.clear();
        Ok(())
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
                    boxes.write_snapshot("session_history.json", &serde_json::to_vec_pretty(&history)?)?;
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
        let groups = AvailableGroups {
            groups,
            more: Some(more).filter(|more| *more > 0),
            last_sync: self.world.now(),
        };
        let bytes = serde_json::to_vec_pretty(&groups)?;
        let will_do = |there: &[u8]| !anew && show_the_same(there, &bytes);
        Ok(boxes.write_snapshot_unless("available_groups.json", &bytes, will_do)?)
    }
}

/// Lists that are wanted again when this is dropped: they were not written.
struct Unless<'a> {
    snapshots: &'a Snapshots,
    group: &'a Folder,
    lists: Vec<List>,
}

impl Drop for Unless<'_> {
    fn drop(&mut self) {
        if !self.lists.is_empty() {
            self.snapshots.soon(self.group, &self.lists);
        }
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
#[expect(clippy::disallowed_methods, reason = "a test plays the user")]
mod tests {
    use ipc_handlers::Time;

    use super::*;
    use crate::{
        config::{Config, Environment},
        domain::shown::feed::FeedEvent,
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

    async fn of(path: &std::path::Path) -> (Store, Arc<Snapshots>, mpsc::UnboundedReceiver<Ask>) {
        let store = Store::open(&path.join("g2.sqlite")).unwrap();
        let config = Config::load(path, &Environment::default()).unwrap();
        let config = Arc::new(Live::new(path.to_owned(), Environment::default(), config));
        let dirs = HostDirs::open(path).unwrap();
        let boxes = Arc::new(Boxes::new(dirs, None, path.to_owned(), None, store.clone()));
        let (mailboxes, asked) = mpsc::unbounded_channel();
        let snapshots = Snapshots::new(World::real(), config, store.clone(), boxes, mailboxes).await.unwrap();
        (store, Arc::new(snapshots), asked)
    }

    fn folder(name: &str) -> Folder {
        Folder::parse(name).unwrap()
    }

    #[test]
    fn what_the_feed_tells_is_gathered_by_what_follows_from_it() {
        let event = |kind, group: &str| {
            let (chat, subject) = (None, String::new());
            Arc::new(FeedEvent { seq: 1, at: Time(0), kind, group: Some(folder(group)), chat, subject })
        };
        let told = |missed, events: &[(EventKind, &str)]| {
            let mut told = Told::default();
            told.add(&News {
                missed,
                events: events.iter().map(|(kind, group)| event(*kind, group)).collect(),
            });
            told
        };
        use EventKind::{Chat, Group, Hold, Session, Task, Wiring};
        let main = |lists: &[(List, When)]| lists.iter().copied().collect::<BTreeMap<_, _>>();
        assert_eq!(told(false, &[]), Told::default());
        let team = || BTreeSet::from([folder("team")]);
        let tasks = (List::Tasks, When::AtLeisure);
        assert_eq!(
            told(false, &[(Task, "team")]),
            Told { tasks: team(), main: main(&[tasks]), ..Told::default() }
        );
        let made =
            Told { groups: team(), main: main(&[tasks, (List::Groups, When::AtOnce)]), ..Told::default() };
        assert_eq!(told(false, &[(Group, "team"), (Chat, "team")]), made);
        assert_eq!(told(false, &[(Session, "team")]), Told { sessions: team(), ..Told::default() });
        assert_eq!(told(false, &[(Hold, "team")]), Told { boxes: true, ..Told::default() });
        assert_eq!(told(false, &[(Chat, "team")]).main, main(&[(List::Groups, When::AtLeisure)]));
        assert_eq!(told(false, &[(Wiring, "team")]).main, main(&[(List::Groups, When::AtOnce)]));
        let all = Told { all: true, boxes: true, main: made.main, ..Told::default() };
        assert_eq!(told(true, &[]), all);
    }

    #[test]
    fn groups_have_turns_and_one_that_fails_keeps_none() {
        let wanted: BTreeSet<Folder> = ["a", "b", "c"].map(folder).into();
        let (mut turns, mut failing) = (Turns::default(), BTreeSet::new());
        let mut next = |failing: &BTreeSet<Folder>| {
            let next = turns.next(wanted.iter(), failing);
            assert_eq!(turns.next(wanted.iter(), failing), None, "one at a time");
            next.iter().for_each(|group| turns.ended(group));
            next.map(|group| group.to_string()).unwrap_or_default()
        };
        assert_eq!([next(&failing), next(&failing), next(&failing), next(&failing)], ["a", "b", "c", "a"]);
        failing.extend([folder("b")]);
        assert_eq!([next(&failing), next(&failing)], ["c", "a"]);
        failing.extend(wanted.iter().cloned());
        assert_eq!(next(&failing), "");
    }

    #[tokio::test]
    async fn a_list_that_cant_be_written_stays_wanted_until_it_is() {
        let root = tempfile::tempdir().unwrap();
        let (store, snapshots, _asked) = of(root.path()).await;
        let group =
            NewGroup { folder: folder("team"), name: "Team".into(), is_main: false, trigger: "@G2".into() };
        store.add_group(group, Vec::new(), Time(0)).await.unwrap();
        let (at_work, team) = (Arc::clone(&snapshots), folder("team"));
        World::real().blocking(move || at_work.catch_up()).await.unwrap().unwrap();
        let place = root.path().join("ipc/team/current_tasks.json");
        std::fs::create_dir_all(place.join("in the way")).unwrap();
        assert!(snapshots.write_wanted(&team, When::AtLeisure).is_err());
        assert_eq!(snapshots.wanted().lists[&team].len(), List::ALL.len());
        std::fs::remove_dir_all(&place).unwrap();
        snapshots.write_wanted(&team, When::AtLeisure).unwrap();
        assert!(place.is_file() && snapshots.wanted().lists.is_empty());
    }

    #[tokio::test]
    async fn a_group_that_comes_back_is_not_taken_for_one_whose_boxes_stay() {
        let root = tempfile::tempdir().unwrap();
        let (store, snapshots, _asked) = of(root.path()).await;
        let folder = Folder::parse("team").unwrap();
        let add = async || {
            let (folder, name) = (folder.clone(), "Team".to_owned());
            store.has_left(folder.clone()).await.unwrap();
            let group = NewGroup { folder, name, is_main: false, trigger: "@G2".into() };
            store.add_group(group, Vec::new(), Time(0)).await.unwrap();
        };
        let lay_out = || snapshots.lay_out(&folder).unwrap();
        add().await;
        assert_eq!((lay_out(), lay_out()), (true, false));
        assert!(!snapshots.is_gone(&folder));
        // The group goes and comes back before anybody looks: a reader of an old list of groups keeps its boxes.
        store.remove_group(folder.clone()).await.unwrap();
        add().await;
        assert_eq!((lay_out(), snapshots.is_gone(&folder)), (false, false));
        // Its boxes are given up before it comes back: it has come, though boxes may still be open.
        store.remove_group(folder.clone()).await.unwrap();
        assert!(snapshots.is_gone(&folder));
        add().await;
        assert_eq!((lay_out(), lay_out()), (true, false));
        // It is gone when somebody looks.
        store.remove_group(folder.clone()).await.unwrap();
        assert!(lay_out());
        add().await;
        assert!(lay_out());
    }
}
