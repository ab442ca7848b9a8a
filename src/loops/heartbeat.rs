//! Looks at the `HEARTBEAT.md` of each group, and makes its tasks those that the file says.
//!
//! Nothing but the tasks themselves is kept: a start reads every file, and to take one in twice changes nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use ipc_handlers::Folder;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{Boxes, Machine};
use crate::{
    config::Live,
    domain::{
        host::errors::chain,
        runs::heartbeat::{self, FILE, Fault, Heartbeat, LARGEST},
    },
    ipc::{InsideError, InsideStamp, read_inside, stamp_inside},
    store::{Result, Store},
    system::{clock, failpoint},
};

/// The files are looked at once in this many looks at the boxes. With a thousand groups a look is some milliseconds of work.
const SELDOM: u32 = 5;
/// How long after a change another one may have the same stamp, ms.
const SAME_STAMP_MS: i64 = 2_500;

/// What takes the files in.
pub struct Heartbeats {
    pub root: PathBuf,
    pub store: Store,
    pub boxes: Arc<Boxes>,
    pub machine: Arc<Machine>,
    pub config: Arc<Live>,
}

/// What was seen of a group's file.
struct Seen {
    /// `None`: it is to be read in any case.
    stamp: Option<Option<InsideStamp>>,
    /// What was wrong with it, and is told.
    told: Vec<Fault>,
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

/// Looks at the files until the daemon stops.
pub async fn run(heartbeats: Heartbeats, stop: CancellationToken) {
    let mut seen = BTreeMap::new();
    let mut is_unread = true;
    loop {
        if is_unread {
            match heartbeats.store.groups_with_heartbeat() {
                Ok(groups) => {
                    is_unread = false;
                    // A file that went while the daemon was down takes its tasks along.
                    for group in groups {
                        seen.entry(group).or_insert(Seen { stamp: None, told: Vec::new() });
                    }
                }
                Err(error) => {
                    tracing::error!(error = %chain(&error), "reading which groups have a {FILE} failed; it is read again");
                }
            }
        }
        for (group, stamp) in heartbeats.look().await {
            let is_new = match seen.get(&group) {
                Some(Seen { stamp: known, .. }) => *known != Some(stamp),
                None => stamp.is_some(),
            };
            if !is_new || stop.is_cancelled() {
                continue;
            }
            // What it says is not known before the folder is back.
            if stamp.is_none() && heartbeats.is_lost(&group).await {
                continue;
            }
            // A change that follows at once may not be seen by the stamp.
            let fresh = stamp.is_some_and(|stamp| {
                clock::now().0.abs_diff(stamp.changed_ms()) < SAME_STAMP_MS.unsigned_abs()
            });
            let told = seen.remove(&group).map(|seen: Seen| seen.told).unwrap_or_default();
            let now = match heartbeats.take_in(&group, stamp.is_some()).await {
                Ok(faults) => {
                    for fault in faults.iter().filter(|fault| !told.contains(fault)) {
                        tell(&group, fault);
                    }
                    heartbeats.note(&group, &faults);
                    Seen { stamp: (!fresh).then_some(stamp), told: faults }
                }
                Err(error) => {
                    tracing::error!(%group, error = %chain(&error), "storing the tasks of {FILE} failed; it is tried again");
                    Seen { stamp: None, told }
                }
            };
            seen.insert(group, now);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(heartbeats.config.now().limits.scan_every * SELDOM) => {}
        }
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

    /// Returns the stamps of all groups' files.
    async fn look(&self) -> Vec<(Folder, Option<InsideStamp>)> {
        let groups: Vec<Folder> = self.boxes.open().keys().cloned().collect();
        let root = self.root.clone();
        let look = move || {
            let stamp = |group: &Folder| stamp_inside(&folder(&root, group), FILE);
            groups.into_iter().map(|group| (group.clone(), stamp(&group))).collect()
        };
        spawn_blocking(look).await.unwrap_or_default()
    }

    /// Whether a group has lost its folder, and the file with it.
    async fn is_lost(&self, group: &Folder) -> bool {
        let (root, store, group) = (self.root.clone(), self.store.clone(), group.clone());
        spawn_blocking(move || super::lost::is_lost(&root, &store, &group)).await.unwrap_or(true)
    }

    /// Reads a group's file, and stores what it says; returns its faults. What can't be read leaves the tasks as
    /// they are.
    async fn take_in(&self, group: &Folder, is_there: bool) -> Result<Vec<Fault>> {
        let clock = self.store.zone_of(group, &self.config.now().zones).await?;
        let (path, now) = (folder(&self.root, group), clock::now());
        let of_zone = clock.zone.clone();
        let read = match spawn_blocking(move || read(&path, &of_zone)).await {
            Ok(Ok(read)) => read,
            Ok(Err(fault)) => return Ok(vec![fault]),
            Err(fault) => {
                tracing::error!(%group, fault = %chain(&fault), "our own fault: reading {FILE} failed");
                return Ok(Vec::new());
            }
        };
        failpoint::reach("heartbeat.read");
        let set = self.store.set_heartbeat(group.clone(), read.tasks, clock, now).await?;
        failpoint::reach("heartbeat.stored");
        if is_there && matches!(self.store.folder_had_files(group), Ok(false)) {
            super::lost::note_files(&self.store, group, true).await;
        }
        if set.changed > 0 {
            tracing::info!(%group, changed = set.changed, "the tasks of {FILE} were taken in");
        }
        Ok(read.faults.into_iter().chain(set.faults).collect())
    }
}

fn folder(root: &Path, group: &Folder) -> PathBuf {
    root.join("groups").join(group.as_str())
}

/// Reads the file in a group's folder; one that is not there says nothing.
///
/// # Errors
/// Why it can't be read.
pub fn read(folder: &Path, zone: &jiff::tz::TimeZone) -> std::result::Result<Heartbeat, Fault> {
    let fault = |why: String| Fault { line: 0, why };
    match read_inside(folder, Path::new(FILE), LARGEST) {
        Ok(file) if file.size > LARGEST => {
            Err(fault(format!("it has {} bytes, more than {LARGEST}", file.size)))
        }
        Ok(file) => Ok(heartbeat::read(&String::from_utf8_lossy(&file.bytes), zone, clock::now())),
        Err(InsideError::Absent(_)) => Ok(Heartbeat::default()),
        Err(error @ (InsideError::NotAFile(_) | InsideError::World(_))) => Err(fault(chain(&error))),
    }
}
