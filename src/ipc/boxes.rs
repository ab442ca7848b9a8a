//! The one door to the folders that a container can write to.
//!
//! Everything is done relative to a descriptor of the box that was opened first (`boxes/open.rs`), so what stands at its path later
//! does not matter. Nothing in a box is opened for writing, followed, waited for, or read without a bound.

mod claim;
mod input;
mod list;
mod open;
mod placed;
mod put;
mod renew;
mod state;

use std::{
    cell::LazyCell,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};

use ipc_handlers::{Folder, Time};
use rustix::{
    fs::{Mode, Stat},
    io::Errno,
};

pub(super) use self::open::Kept;
use self::open::{Open, Slot, Which};
pub use self::{
    claim::ClaimError,
    input::{Emptied, InputLeft, InputState},
    list::{Entry, Listing},
    open::{GROUP_FILES, GROUPS_KEPT, groups_kept},
    put::PutError,
    state::{Stamp, StateError},
};
use super::{
    dir,
    files::Fd,
    host::{HostDirs, Owner},
    kernel::Attributes,
    names::{BoxName, CommandBox},
    own::give_folder,
    world_fault::WorldFault,
};
use crate::system::locked::Locked as _;

/// The five boxes of one group, and the folder of its snapshots.
///
/// Holds no descriptor but for a while. Shared between workers; no method waits for another.
#[derive(Debug)]
pub struct GroupBoxes {
    host: Arc<HostDirs>,
    folder: Folder,
    path: PathBuf,
    owner: Mutex<Option<Owner>>,
    group: Which,
    boxes: [Which; 5],
    slot: Arc<Slot>,
    /// For each command box: what was last seen of it.
    seen: Mutex<[Option<Seen>; 2]>,
    /// The same for each box, when its flags and its project were looked at.
    attributes_seen: Mutex<[Option<Seen>; 5]>,
}

/// The modes of a group's folder and of a box.
const GROUP_MODE: u32 = 0o755;
const BOX_MODE: u32 = 0o700;

/// What changes when a directory's entries do: modification and change time.
type BoxStamp = [(i64, u64); 2];

/// How old a stamp is before no later change can leave it as it is, ms: some ticks of the kernel's clock, of which the
/// longest take 10 ms.
const TICKS_MS: i64 = 100;
/// The same of a file system that stamps in whole seconds, or in every second one.
const COARSE_MS: i64 = 2_500;

/// What a look has seen of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    stamp: BoxStamp,
    /// Whether the stamp was old enough then: what came later has another one.
    settled: bool,
}

impl Seen {
    fn at(stamp: BoxStamp, now: Time) -> Self {
        let newest =
            stamp.iter().map(|(seconds, nanos)| seconds * 1_000 + (*nanos / 1_000_000).cast_signed()).max();
        let is_coarse = stamp.iter().all(|(_, nanos)| *nanos == 0);
        let enough = if is_coarse { COARSE_MS } else { TICKS_MS };
        // One that is ahead is of a clock that was set back since: what changes now has an earlier one.
        let settled = newest.is_some_and(|newest| now.0.abs_diff(newest) >= enough.cast_unsigned());
        Self { stamp, settled }
    }
}

/// Whether the boxes on disk are those that were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    Same,
    /// This box was removed or replaced; open the group anew and watch it again.
    Replaced(BoxName),
}

impl GroupBoxes {
    /// Makes the missing parts of `data/ipc/<folder>/` and opens it.
    ///
    /// Boxes are 0700 and belong to `owner`, the user and group that containers run as (`None`: this process' own); the
    /// folder above them is ours and nobody else may write to it.
    ///
    /// # Errors
    /// [`WorldFault`] when something can't be made, opened or given away, or is a link or a mount of its own.
    pub fn open(host: &Arc<HostDirs>, folder: &Folder, owner: Option<Owner>) -> Result<Self, WorldFault> {
        let path = host.path().join("ipc").join(folder.as_str());
        let failed = |doing, what: &str| {
            let what = path.join(what).display().to_string();
            move |e: Errno| WorldFault::new(doing, what, e)
        };
        let us = host.files().us();
        let (group, opened) =
            Which::make(&host.ipc, folder.as_str(), GROUP_MODE, Some(us)).map_err(failed("opening", ""))?;
        let model = Attributes::of(&opened);
        let open = |b: BoxName| -> rustix::io::Result<Which> {
            let (which, made) = Which::make(&opened, b.as_str(), BOX_MODE, owner)?;
            if let Some(model) = &model {
                model.give_to(&made)?;
            }
            Ok(which)
        };
        let open = |b: BoxName| open(b).map_err(failed("opening", b.as_str()));
        let [messages, tasks, input, responses, state] = BoxName::ALL;
        let boxes = [open(messages)?, open(tasks)?, open(input)?, open(responses)?, open(state)?];
        Ok(Self {
            host: Arc::clone(host),
            folder: folder.clone(),
            path,
            owner: Mutex::new(owner),
            group,
            boxes,
            slot: Arc::default(),
            seen: Mutex::default(),
            attributes_seen: Mutex::default(),
        })
    }

    /// Returns the group that these boxes belong to.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns where a box is on the host, absolute; for mounts and watches, never for opening its files.
    #[must_use]
    pub fn path_of(&self, b: BoxName) -> PathBuf {
        self.path.join(b.as_str())
    }

    /// Returns `data/ipc/<folder>`, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the boxes, and the files in them that are `former`'s, to another user. Only where no container has them.
    ///
    /// # Errors
    /// [`WorldFault`] when a box can't be given away.
    pub fn give(&self, owner: Owner, former: u32) -> Result<(), WorldFault> {
        for b in BoxName::ALL {
            give_folder(self.host.files().at(&self.path_of(b)), owner, Some(former))?;
        }
        *self.owner.locked() = Some(owner);
        Ok(())
    }

    fn owner(&self) -> Option<Owner> {
        *self.owner.locked()
    }

    /// Compares device and inode of each box with those that were opened. A box whose mode its container has changed, be it to lock
    /// us out or to let others in, is its own alone again; one to which it gave flags or a project has those of the folder
    /// above it. Either gives the box a new change stamp: one whose stamp is known is not asked for its flags.
    ///
    /// # Errors
    /// [`WorldFault`] when a folder can't be looked at.
    pub fn identity(&self, now: Time) -> Result<Identity, WorldFault> {
        let group = dir::stat(&self.host.ipc, self.folder.as_str());
        let is_linked = match group {
            Ok(stat) => self.group.is(&stat),
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(e) => return Err(WorldFault::new("looking at", self.path.display().to_string(), e)),
        };
        let model = LazyCell::new(|| Attributes::of(&*self.lend_group().ok()?));
        let mut seen = self.attributes_seen.locked();
        for (b, last) in BoxName::ALL.into_iter().zip(seen.iter_mut()) {
            let looking = |e| WorldFault::new("looking at", self.path_of(b).display().to_string(), e);
            let here = match self.stat(b) {
                Ok(here) if is_linked && self.which(b).is(&here) => here,
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Identity::Replaced(b)),
                Err(e) => return Err(looking(e)),
            };
            if here.st_mode & 0o7777 != BOX_MODE {
                let held = self.lend(b).map_err(looking)?;
                held.chmod(Mode::from_raw_mode(BOX_MODE)).map_err(looking)?;
            }
            let here = Seen::at(box_stamp(&here), now);
            if last.is_some_and(|before| before.settled && before.stamp == here.stamp) {
                continue;
            }
            if let Some(model) = &*model {
                self.lend(b).and_then(|held| model.give_to(&held)).map_err(looking)?;
            }
            *last = Some(here);
        }
        Ok(Identity::Same)
    }

    /// Returns the command boxes whose entries may have changed since the last call; the first call says both.
    ///
    /// Costs one `stat` a box. A second file may come within the tick of the file system's clock that the first one came
    /// in, and leave the box's stamp as it is. So a box is reported until its stamp was some ticks old at a call.
    ///
    /// # Errors
    /// [`WorldFault`] when a box can't be looked at.
    pub fn changed(&self, now: Time) -> Result<Vec<CommandBox>, WorldFault> {
        let look = |b: CommandBox| {
            let stat = self.stat(b.name()).map_err(|e| {
                WorldFault::new("looking at", self.path_of(b.name()).display().to_string(), e)
            })?;
            Ok(Seen::at(box_stamp(&stat), now))
        };
        // Where one can't be looked at, the other does not count as seen.
        let [first, second] = CommandBox::ALL.map(look);
        let looked = [first?, second?];
        let mut seen = self.seen.locked();
        let mut changed = Vec::new();
        for ((b, here), last) in CommandBox::ALL.into_iter().zip(looked).zip(seen.iter_mut()) {
            match last.replace(here) {
                Some(before) if before.settled && before.stamp == here.stamp => *last = Some(before),
                Some(_) | None => changed.push(b),
            }
        }
        Ok(changed)
    }

    /// Moves `data/ipc/<folder>` to the trash. Only for a group that is being removed, when it has no container and
    /// its boxes and claims are drained.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be moved.
    pub fn remove(&self) -> Result<(), WorldFault> {
        self.host.discard_box(&self.folder)
    }

    /// Makes a claim's absence from its box survive a power cut.
    pub(super) fn sync(&self, b: CommandBox) -> Result<(), WorldFault> {
        self.at(b.name())
            .and_then(|held| held.sync())
            .map_err(|e| WorldFault::new("syncing", self.path_of(b.name()).display().to_string(), e))
    }

    /// Sets a box's flags and project back to those of the folder above it.
    fn set_back(&self, b: BoxName) -> rustix::io::Result<()> {
        Attributes::of(&*self.lend_group()?).map_or(Ok(()), |model| model.give_to(&*self.at(b)?))
    }

    /// Looks at what stands at a box's name. Only we write to the folders on the way.
    fn stat(&self, b: BoxName) -> rustix::io::Result<Stat> {
        dir::stat(&self.host.ipc, self.below(b))
    }

    /// A box's name in `data/ipc`.
    fn below(&self, b: BoxName) -> String {
        format!("{}/{}", self.folder, b.as_str())
    }

    fn which(&self, b: BoxName) -> Which {
        self.boxes[place(b)]
    }

    /// Returns the box, open, and keeps it so for a while. `STALE`: another one stands there.
    fn at(&self, b: BoxName) -> rustix::io::Result<Arc<Fd>> {
        let open = match self.slot.get() {
            Some(open) => open,
            None => {
                let group = Arc::new(self.open_group()?);
                let opened = Open { group, boxes: [const { OnceLock::new() }; 5] };
                self.host.kept.keep(&self.slot, opened)
            }
        };
        let held = &open.boxes[place(b)];
        if let Some(held) = held.get() {
            return Ok(Arc::clone(held));
        }
        let opened = Arc::new(self.which(b).open(&open.group, b.as_str(), BOX_MODE)?);
        Ok(Arc::clone(held.get_or_init(|| opened)))
    }

    /// Returns the box, open. One that is not kept open by now is open for the caller alone.
    fn lend(&self, b: BoxName) -> rustix::io::Result<Arc<Fd>> {
        match self.slot.get() {
            Some(_) => self.at(b),
            None => self.open_anew(b).map(Arc::new),
        }
    }

    /// Opens the box for the caller alone, at its beginning.
    fn open_anew(&self, b: BoxName) -> rustix::io::Result<Fd> {
        self.which(b).open(&self.host.ipc, &self.below(b), BOX_MODE)
    }

    /// The same as [`GroupBoxes::lend`], of the folder above the boxes.
    fn lend_group(&self) -> rustix::io::Result<Arc<Fd>> {
        match self.slot.get() {
            Some(open) => Ok(Arc::clone(&open.group)),
            None => self.open_group().map(Arc::new),
        }
    }

    fn open_group(&self) -> rustix::io::Result<Fd> {
        self.group.open(&self.host.ipc, self.folder.as_str(), GROUP_MODE)
    }
}

/// Where a box stands in what there is of each.
fn place(b: BoxName) -> usize {
    match b {
        BoxName::Messages => 0,
        BoxName::Tasks => 1,
        BoxName::Input => 2,
        BoxName::Responses => 3,
        BoxName::State => 4,
    }
}

fn box_stamp(stat: &Stat) -> BoxStamp {
    [(stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_settled_once_no_change_can_leave_it_as_it_is() {
        let of = |stamp: (i64, u64), now: i64| Seen::at([(7, 5), stamp], Time(now)).settled;
        // In nanoseconds, by ticks.
        assert!(!of((1_000, 400_000_000), 1_000_400));
        assert!(!of((1_000, 400_000_000), 1_000_499));
        assert!(of((1_000, 400_000_000), 1_000_500));
        // A clock that is read a little late, or was set back.
        assert!(!of((1_000, 400_000_000), 1_000_301));
        assert!(of((1_000, 400_000_000), 999_000));
        // In whole seconds.
        let coarse = |now| Seen::at([(1_000, 0); 2], Time(now)).settled;
        assert!(!coarse(1_002_400) && coarse(1_002_500));
    }
}
