//! Looks at the `HEARTBEAT.md` of each group, and makes its tasks those that the file says.
//!
//! Nothing but the tasks themselves is kept: a start reads every file, and to take one in twice changes nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use ipc_handlers::{Folder, Time};
use tokio_util::sync::CancellationToken;

use super::{Boxes, Machine};
use crate::{
    config::Live,
    domain::{
        machine::loops::LoopName,
        runs::heartbeat::{self, FILE, Fault, Heartbeat, LARGEST},
        shown::errors::chain,
    },
    engine::{Error, Loop, Plan, Read, Then, Why},
    ipc::{InsideError, InsideStamp, read_inside, stamp_inside},
    store::Store,
    system::{failpoint, locked::Locked as _, panics::Panicked},
};

/// The files are looked at once in this many looks at the boxes. With a thousand groups a look is some milliseconds of work.
const SELDOM: u32 = 5;
/// How long after a change another one may have the same stamp, ms.
const SAME_STAMP_MS: i64 = 2_500;

/// What the files are taken in with.
pub struct Heartbeats {
    pub root: PathBuf,
    pub store: Store,
    pub boxes: Arc<Boxes>,
    pub machine: Arc<Machine>,
    pub config: Arc<Live>,
}

/// Takes the files in, each group by itself.
pub struct Takes {
    desk: Arc<Desk>,
    /// Groups that have tasks of a file are not known yet.
    is_unread: bool,
}

/// What the loop works with.
pub struct Desk {
    heartbeats: Heartbeats,
    seen: Mutex<BTreeMap<Folder, Seen>>,
}

/// What was seen of a group's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// `None`: it is to be read in any case.
    stamp: Option<Option<InsideStamp>>,
    /// Its faults, which are told.
    told: Vec<Fault>,
}

/// What came of taking a file in.
struct Taken {
    faults: Vec<Fault>,
    /// The disk was in the way: it is read again.
    is_unread: bool,
}

/// Whether a file has to be taken in that has this stamp now.
fn is_new(seen: Option<&Seen>, stamp: Option<InsideStamp>) -> bool {
    match seen {
        Some(Seen { stamp: known, .. }) => *known != Some(stamp),
        None => stamp.is_some(),
    }
}

/// Tells what can't be taken of a file; of line 0, nothing can.
fn tell(group: &Folder, fault: &Fault) {
    let Fault { line, why } = fault;
    if *line == 0 {
        tracing::warn!(%group, why, "{FILE} can't be read; its tasks stay as they are");
    } else {
        tracing::warn!(%group, line, why, "a task of {FILE} can't be taken; the others are");
    }
}

impl Takes {
    #[must_use]
    pub fn new(heartbeats: Heartbeats) -> Self {
        Self { desk: Arc::new(Desk { heartbeats, seen: Mutex::default() }), is_unread: true }
    }

    /// Reads which groups have tasks of a file: one that went while the daemon was down takes its tasks along.
    fn read_known(&mut self, why: &Why<Folder>) -> Read {
        if !self.is_unread {
            return Read::All;
        }
        if !(why.all || why.again) {
            return Read::NotTried;
        }
        match self.desk.heartbeats.store.groups_with_heartbeat() {
            Ok(groups) => {
                self.is_unread = false;
                let mut seen = self.desk.seen();
                for group in groups {
                    seen.entry(group).or_default();
                }
                Read::All
            }
            Err(error) => Read::Failed(error.into()),
        }
    }
}

impl Loop for Takes {
    const NAME: LoopName = LoopName::Heartbeat;
    const AT_ONCE: usize = 8;
    type Key = Folder;
    type Job = ();
    type Hands = Desk;

    fn hands(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }

    async fn look(&mut self, why: &Why<Folder>) -> Result<Plan<Folder, ()>, Error> {
        let read = self.read_known(why);
        let heartbeats = &self.desk.heartbeats;
        let groups: Vec<Folder> = heartbeats.boxes.open().keys().cloned().collect();
        let stamps = heartbeats.stamps(groups).await?;
        let seen = self.desk.seen();
        let news = stamps.into_iter().filter(|(group, stamp)| is_new(seen.get(group), *stamp));
        let begin = news.map(|(group, _)| (group, ())).collect();
        let again = Some(heartbeats.config.now().limits.scan_every * SELDOM);
        Ok(Plan { begin, again, read, ..Plan::default() })
    }

    async fn perform(desk: Arc<Desk>, group: Folder, (): (), _: CancellationToken) -> Result<Then, Error> {
        desk.take_in(&group).await?;
        Ok(Then::Done)
    }
}

impl Desk {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<Folder, Seen>> {
        self.seen.locked()
    }

    /// Takes a group's file in, if it is another one than was taken in last.
    async fn take_in(&self, group: &Folder) -> Result<(), Error> {
        let heartbeats = &self.heartbeats;
        if !heartbeats.store.has_group(group)? {
            self.seen().remove(group);
            heartbeats.note(group, &[]);
            return Ok(());
        }
        let stamps = heartbeats.stamps(vec![group.clone()]).await?;
        let stamp = stamps.into_iter().find_map(|(_, stamp)| stamp);
        let known = self.seen().get(group).cloned();
        // The file's tasks are not known before the folder is back.
        if !is_new(known.as_ref(), stamp) || (stamp.is_none() && heartbeats.is_lost(group).await?) {
            return Ok(());
        }
        // A change that follows at once may not be seen by the stamp.
        let fresh = stamp.is_some_and(|stamp| {
            heartbeats.machine.world.now().0.abs_diff(stamp.changed_ms()) < SAME_STAMP_MS.unsigned_abs()
        });
        let Taken { faults, is_unread } = heartbeats.take_in(group, stamp.is_some()).await?;
        let told = known.unwrap_or_default().told;
        for fault in faults.iter().filter(|fault| !told.contains(fault)) {
            tell(group, fault);
        }
        heartbeats.note(group, &faults);
        let stamp = (!fresh && !is_unread).then_some(stamp);
        self.seen().insert(group.clone(), Seen { stamp, told: faults });
        Ok(())
    }
}

impl Heartbeats {
    /// Has `status` tell what of a group's file can't be taken.
    fn note(&self, group: &Folder, faults: &[Fault]) {
        let mut known = self.machine.heartbeats();
        match faults {
            [] => drop(known.remove(group)),
            _ => drop(known.insert(group.clone(), faults.to_vec())),
        }
    }

    /// Returns the stamps of groups' files.
    async fn stamps(&self, groups: Vec<Folder>) -> Result<Vec<(Folder, Option<InsideStamp>)>, Panicked> {
        let root = self.root.clone();
        let stamps = move || {
            let stamp = |group: &Folder| stamp_inside(&folder(&root, group), FILE);
            groups.into_iter().map(|group| (group.clone(), stamp(&group))).collect()
        };
        self.machine.world.blocking(stamps).await
    }

    /// Whether a group has lost its folder, and the file with it.
    async fn is_lost(&self, group: &Folder) -> Result<bool, Error> {
        let (root, store, group) = (self.root.clone(), self.store.clone(), group.clone());
        self.machine.world.blocking(move || super::lost::find_out(&root, &store, &group)).await?
    }

    /// Reads a group's file, and stores what it says. A file that can't be read leaves the tasks as they are.
    async fn take_in(&self, group: &Folder, is_there: bool) -> Result<Taken, Error> {
        let clock = self.store.zone_of(group, &self.config.now().zones).await?;
        let (path, now) = (folder(&self.root, group), self.machine.world.now());
        let of_zone = clock.zone.clone();
        let read = match self.machine.world.blocking(move || read(&path, &of_zone, now)).await? {
            Ok(read) => read,
            Err(unread) => {
                let is_unread = matches!(unread, Unread::World(_));
                return Ok(Taken { faults: vec![unread.into()], is_unread });
            }
        };
        failpoint::reach("heartbeat.read");
        let set = self.store.set_heartbeat(group.clone(), read.tasks, clock, now).await?;
        failpoint::reach("heartbeat.stored");
        if is_there && !self.store.folder_had_files(group)? {
            self.store.note_folders(vec![(group.clone(), true)]).await?;
        }
        if set.changed > 0 {
            tracing::info!(%group, changed = set.changed, "the tasks of {FILE} were taken in");
        }
        Ok(Taken { faults: read.faults.into_iter().chain(set.faults).collect(), is_unread: false })
    }
}

fn folder(root: &Path, group: &Folder) -> PathBuf {
    root.join("groups").join(group.as_str())
}

/// Why a file can't be read.
#[derive(Debug)]
pub enum Unread {
    /// What lies there is nothing that is read.
    Fault(String),
    /// The disk is in the way, or the file's mode: it may be read later.
    World(String),
}

impl From<Unread> for Fault {
    fn from(unread: Unread) -> Self {
        let (Unread::Fault(why) | Unread::World(why)) = unread;
        Self { line: 0, why }
    }
}

/// Reads the file in a group's folder; one that is not there says nothing.
///
/// # Errors
/// [`Unread`]
pub fn read(folder: &Path, zone: &jiff::tz::TimeZone, now: Time) -> Result<Heartbeat, Unread> {
    match read_inside(folder, Path::new(FILE), LARGEST) {
        Ok(file) if file.size > LARGEST => {
            Err(Unread::Fault(format!("it has {} bytes, more than {LARGEST}", file.size)))
        }
        Ok(file) => Ok(heartbeat::read(&String::from_utf8_lossy(&file.bytes), zone, now)),
        Err(InsideError::Absent(_)) => Ok(Heartbeat::default()),
        Err(error @ InsideError::NotAFile(_)) => Err(Unread::Fault(chain(&error))),
        Err(error @ InsideError::World(_)) => Err(Unread::World(chain(&error))),
    }
}
