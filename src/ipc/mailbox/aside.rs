//! `done/` and `dead/`: what became of commands, for people. Bounded per group, oldest out.
//!
//! Written from the bytes that were read, never from the file that its writer may still hold. Not synced: the receipt
//! in the store is what lasts. Writing the same claim twice is harmless.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use ipc_handlers::{Code, Folder, Time};
use serde::Serialize;

use super::{Claimed, Claims, HEAD};
use crate::ipc::{dir, files::Fd, host::HostDirs, world_fault::WorldFault};
use crate::system::locked::Locked as _;

/// How many commands of a group `done/` keeps.
pub const DONE_FILES: usize = 100;
/// How many bytes of a group `done/` keeps.
const DONE_BYTES: u64 = 64 * 1024 * 1024;
/// How many commands of a group `dead/` keeps.
const DEAD_FILES: usize = 1_000;
/// How many bytes of a group `dead/` keeps.
const DEAD_BYTES: u64 = 64 * 1024 * 1024;

/// What a command's files end in, after its id. One command, whatever it has of these, counts as one file.
const PARTS: [&str; 3] = ["json", "reply.json", "why.json"];

/// Why a command was refused or is dead, as `<id>.why.json` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The claim whose receipt says so: another one than this, where the command was claimed before and came back.
    pub receipt: i64,
    /// `None`: it was never said why.
    pub code: Option<Code>,
    pub message: String,
    pub hint: Option<String>,
    pub at: Time,
}

/// The document beside a refused or dead command.
#[derive(Serialize)]
struct WhyFile<'a> {
    receipt: i64,
    code: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(rename = "box")]
    in_box: Option<&'static str>,
    name: Option<&'a str>,
    at: String,
}

impl Claims {
    /// Sets an applied command aside in `done/`, with the reply it was given.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be written.
    pub fn settle_applied(
        &self,
        claimed: &Claimed,
        bytes: &[u8],
        reply: Option<&[u8]>,
    ) -> Result<(), WorldFault> {
        let reply = reply.map(|r| ("reply.json", r));
        self.aside.keep(&self.host, Pile::Done, claimed, bytes, reply)
    }

    /// Sets a refused command aside in `done/`, with the reason.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be written.
    pub fn settle_refused(&self, claimed: &Claimed, bytes: &[u8], why: &Why) -> Result<(), WorldFault> {
        let why = why_file(claimed, why);
        self.aside.keep(&self.host, Pile::Done, claimed, bytes, Some(("why.json", &why)))
    }

    /// Sets a malformed command aside in `dead/`, cut at 64 KiB, with the reason. `bytes` may be empty.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be written.
    pub fn settle_dead(&self, claimed: &Claimed, bytes: &[u8], why: &Why) -> Result<(), WorldFault> {
        let why = why_file(claimed, why);
        let head = &bytes[..bytes.len().min(HEAD)];
        self.aside.keep(&self.host, Pile::Dead, claimed, head, Some(("why.json", &why)))
    }
}

fn why_file(claimed: &Claimed, why: &Why) -> Vec<u8> {
    let source = claimed.source.as_ref();
    let file = WhyFile {
        receipt: why.receipt,
        code: why.code.map_or("", Code::as_str),
        message: &why.message,
        hint: why.hint.as_deref(),
        in_box: source.map(|s| s.in_box.as_str()),
        name: source.map(|s| s.name.as_str()),
        at: why.at.to_string(),
    };
    serde_json::to_vec_pretty(&file).unwrap_or_default() // Strings and options can't fail.
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pile {
    Done,
    Dead,
}

/// What lies in each group's folders; read from disk when a group is first settled, kept in memory from then on.
#[derive(Debug, Default)]
pub(super) struct Aside {
    shelves: Mutex<HashMap<(Pile, Folder), Slot>>,
}

/// A folder's shelf, `None` until it was read.
type Slot = Arc<Mutex<Option<Shelf>>>;

/// One folder's commands by id, with their sizes in bytes.
#[derive(Debug, Default)]
struct Shelf {
    kept: BTreeMap<i64, Kept>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Size of each of [`PARTS`] that is there.
    parts: [Option<u64>; 3],
}

impl Aside {
    fn keep(
        &self,
        host: &HostDirs,
        place: Pile,
        claimed: &Claimed,
        bytes: &[u8],
        beside: Option<(&'static str, &[u8])>,
    ) -> Result<(), WorldFault> {
        self.with_shelf(host, place, claimed, |shelf, at| {
            for (part, bytes) in [Some(("json", bytes)), beside].into_iter().flatten() {
                let path = part_path(claimed, part);
                match dir::write_host_file(at, path.as_str(), bytes) {
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                        make_folder(at, &claimed.folder)?; // A person removed it.
                        dir::write_host_file(at, path.as_str(), bytes)?;
                    }
                    other => other?,
                }
                shelf.note(claimed.id, part, bytes.len() as u64);
            }
            shelf.put_out_the_oldest(place, at, &claimed.folder)
        })
    }

    /// Removes the kept file of a dead command; returns whether there was one.
    pub(super) fn forget_dead(&self, host: &HostDirs, claimed: &Claimed) -> Result<bool, WorldFault> {
        let mut found = false;
        self.with_shelf(host, Pile::Dead, claimed, |shelf, at| {
            if let Some(kept) = shelf.kept.get(&claimed.id).copied() {
                found = true;
                shelf.put_out(at, &claimed.folder, claimed.id, kept)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn with_shelf(
        &self,
        host: &HostDirs,
        place: Pile,
        claimed: &Claimed,
        act: impl FnOnce(&mut Shelf, &Fd) -> std::io::Result<()>,
    ) -> Result<(), WorldFault> {
        let at = place.dir(host);
        let slot = {
            let mut shelves = self.shelves.locked();
            Arc::clone(shelves.entry((place, claimed.folder.clone())).or_default())
        };
        let mut slot = slot.locked();
        let shelf = match &mut *slot {
            Some(shelf) => shelf,
            None => {
                slot.insert(Shelf::load(at, &claimed.folder).map_err(|e| claimed.world("setting aside", e))?)
            }
        };
        act(shelf, at).map_err(|e| claimed.world("setting aside", e))
    }
}

impl Pile {
    fn dir(self, host: &HostDirs) -> &Fd {
        match self {
            Self::Done => &host.done,
            Self::Dead => &host.dead,
        }
    }

    fn is_over(self, shelf: &Shelf) -> bool {
        match self {
            Self::Done => shelf.kept.len() > DONE_FILES || shelf.bytes > DONE_BYTES,
            Self::Dead => shelf.kept.len() > DEAD_FILES || shelf.bytes > DEAD_BYTES,
        }
    }
}

impl Shelf {
    fn load(at: &Fd, folder: &Folder) -> rustix::io::Result<Self> {
        let folder = make_folder(at, folder)?;
        let mut shelf = Self::default();
        dir::each_name(&folder, |name, _| {
            let parsed = name.to_str().ok().and_then(|n| n.split_once('.'));
            if let Some((id, part)) = parsed
                && let Ok(id) = id.parse()
                && let Some(part) = PARTS.into_iter().find(|p| *p == part)
            {
                let size = dir::stat(&folder, name).map_or(0, |s| u64::try_from(s.st_size).unwrap_or(0));
                shelf.note(id, part, size);
            }
            ControlFlow::Continue(())
        })?;
        Ok(shelf)
    }

    fn note(&mut self, id: i64, part: &str, size: u64) {
        let kept = self.kept.entry(id).or_default();
        for (known, slot) in PARTS.into_iter().zip(&mut kept.parts) {
            if known == part {
                self.bytes = self.bytes - slot.unwrap_or(0) + size;
                *slot = Some(size);
            }
        }
    }

    fn put_out_the_oldest(&mut self, place: Pile, at: &Fd, folder: &Folder) -> std::io::Result<()> {
        while place.is_over(self) {
            let Some((&id, &kept)) = self.kept.first_key_value() else { return Ok(()) };
            self.put_out(at, folder, id, kept)?;
        }
        Ok(())
    }

    fn put_out(&mut self, at: &Fd, folder: &Folder, id: i64, kept: Kept) -> std::io::Result<()> {
        for (part, size) in PARTS.into_iter().zip(kept.parts) {
            if size.is_none() {
                continue;
            }
            let path = format!("{folder}/{id}.{part}");
            dir::unlink(at, path.as_str())?;
        }
        self.kept.remove(&id);
        self.bytes -= kept.parts.iter().flatten().sum::<u64>();
        Ok(())
    }
}

fn make_folder(at: &Fd, folder: &Folder) -> rustix::io::Result<Fd> {
    dir::make_dir(at, folder.as_str(), 0o700)
}

/// The path of a part beneath `done/` or `dead/`.
fn part_path(claimed: &Claimed, part: &str) -> String {
    format!("{}/{}.{part}", claimed.folder, claimed.id)
}

#[cfg(test)]
mod tests;
