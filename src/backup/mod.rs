//! A root in one file: the store as it stands at one instant, and the files beside it, read back before the file gets its name.
//!
//! ```text
//! FILE.partial/g2.sqlite ──▶ FILE.partial/archive ──read back──▶ FILE
//! ```
//!
//! | a death leaves | the next backup into this file |
//! |---|---|
//! | `FILE.partial/`, no FILE | makes the folder's files anew |
//! | FILE, whole, and `FILE.partial/` | is refused, as FILE is there; the folder may be removed |
#![expect(
    clippy::disallowed_methods,
    reason = "writes the archive, into a folder that no container can write to"
)]

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use ipc_handlers::Time;
use rustix::{fs::FlockOperation, io::Errno};
use serde::Serialize;

use crate::{
    domain::{
        kept::backups::{Fit, allowance, fit},
        problems::RootFault,
        rows::rfc3339,
    },
    store,
    system::{disk::free_bytes, failpoint},
};

mod archive;
mod group;
mod holes;
mod pack;
mod restore;
mod shelf;
mod weigh;

pub use archive::{Contents, contents};
use archive::{FOLDERS, SECRET_FOLDERS, is_of_group};
pub use group::{RestoredFolder, restore_folder, restore_newest_folder};
use pack::Packing;
pub use restore::{Restored, restore};
pub use shelf::{OnShelf, Shelved, on_the_shelf, put_on_shelf};
use weigh::Weighed;

/// Room that is left free where a backup is written, bytes; on the root's own disk what G2 works with, too.
const SPARE: u64 = 16 << 20;

/// The files of the folder in which an archive is made.
const PARTS: [&str; 3] = ["g2.sqlite", "g2.sqlite-journal", "archive"];

/// The name in the store's `meta` of when a person asked for a backup that the daemon has not made yet, in ms; empty: nobody did.
pub const WANTED: &str = "backup_wanted";

/// What was written.
#[derive(Debug, Serialize)]
pub struct Saved {
    pub file: PathBuf,
    #[serde(serialize_with = "rfc3339")]
    pub made_at: Time,
    pub with_secrets: bool,
    pub files: usize,
    /// Size of the archive.
    pub bytes: u64,
    /// What no copy could be made of, with the reason: at most 100 of them.
    pub left_out: Vec<String>,
    pub left_out_count: u64,
    /// Folders of groups that there was no room for, largest first.
    pub without: Vec<String>,
}

/// What a backup is made of, and when.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub root: &'a Path,
    pub with_secrets: bool,
    /// Room that stays free on the root's own disk, bytes.
    pub min_free: u64,
    pub now: Time,
}

/// What is done if the folders of some groups are too large for the room that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacking {
    Refused,
    /// They are left out, and the file is called so that this shows.
    LeftOut,
}

/// Writes the root into the new file `file`, beside a daemon or without one, and reads it back.
///
/// # Errors
/// What went wrong; then there is no such file.
pub fn save(wanted: Wanted<'_>, file: &Path) -> Result<Saved> {
    write(wanted, file, Lacking::Refused)
}

fn write(wanted: Wanted<'_>, file: &Path, lacking: Lacking) -> Result<Saved> {
    let Wanted { root, with_secrets, min_free: _, now } = wanted;
    let file = std::path::absolute(file)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        bail!("{} names no file", file.display());
    };
    ensure!(file.symlink_metadata().is_err(), "{} is there already; name a new file", file.display());
    let folder = folder.canonicalize().with_context(|| format!("opening {} failed", folder.display()))?;
    for part in FOLDERS.iter().chain(&SECRET_FOLDERS).chain(&["data"]) {
        let part = root.join(part);
        let is_below = part.canonicalize().is_ok_and(|part| folder.starts_with(part));
        ensure!(
            !is_below,
            "{} lies in {}, which is in the backup; name a file elsewhere",
            file.display(),
            part.display()
        );
    }
    let file = folder.join(name);
    if let Some(fault @ RootFault::LogOfAnother { .. }) = crate::root::fault(root) {
        let (why, fix) = fault.words();
        bail!("{why}: {fix}");
    }
    let workshop = Workshop::open(&file)?;
    let Plan { weighed, needs, without } = plan(wanted, &folder)?;
    if let (Lacking::Refused, Some(largest)) = (lacking, without.first()) {
        bail!(
            "{} has room for {} MiB, and the backup needs {} MiB, {} MiB of them for {largest}: make room there, remove what is large in {largest}, or name a folder on another disk",
            folder.display(),
            room(wanted, &folder) >> 20,
            needs.div_ceil(1 << 20),
            weighed.parts.get(largest).copied().unwrap_or(0) >> 20
        );
    }
    let file = if without.is_empty() { file } else { shelf::in_part(&file) };
    let opened = pack::open(root, with_secrets).context("opening the root's own files failed")?;
    let copy = workshop.at("g2.sqlite");
    store::copy_to(&root.join("data/g2.sqlite"), &copy).context("copying the store failed")?;
    failpoint::reach("backup.copied");
    let archive = workshop.at("archive");
    let mut packing = Packing::new(&archive, weighed, without, with_secrets, now)?;
    packing.pack(root, &copy, opened).context("writing the archive failed")?;
    let manifest = packing.finish().context("writing the archive failed")?;
    failpoint::reach("backup.archived");
    let read = archive::scan(&archive, &|_| true).and_then(|_| archive::read(&archive, &mut |_| Ok(())));
    let is_right = read.context("the archive, read back, is not as it was written")? == manifest;
    ensure!(is_right, "the archive, read back, is not as it was written: the manifest differs");
    failpoint::reach("backup.verified");
    let bytes = fs::metadata(&archive)?.len();
    put(&archive, &file).with_context(|| format!("naming {} failed", file.display()))?;
    File::open(&folder)?.sync_all()?;
    failpoint::reach("backup.named");
    Ok(Saved {
        file,
        made_at: now,
        with_secrets,
        files: manifest.files.len(),
        bytes,
        left_out: manifest.left_out,
        left_out_count: manifest.left_out_count,
        without: manifest.without,
    })
}

/// What a backup will have.
struct Plan {
    weighed: Weighed,
    /// How much all of it needs, bytes.
    needs: u64,
    /// Folders of groups that there is no room for, largest first.
    without: Vec<String>,
}

/// Weighs the root, and decides what of it a backup in `folder` has room for.
fn plan(wanted: Wanted<'_>, folder: &Path) -> Result<Plan> {
    let Wanted { root, with_secrets, .. } = wanted;
    let weighed = weigh::weigh(root, with_secrets).context("weighing the root failed")?;
    let room = room(wanted, folder);
    let size = |file: &str| fs::metadata(root.join(file)).map_or(0, |meta| meta.len());
    // The store is copied, and the copy packed; what its log holds is in the copy.
    let store = 2 * (size(archive::STORE) + size(&format!("{}-wal", archive::STORE)));
    let files: u64 = archive::FILES.iter().chain(&archive::SECRET_FILES).map(|file| size(file)).sum();
    let (groups, own): (Vec<_>, Vec<_>) = weighed.parts.iter().partition(|(part, _)| is_of_group(part));
    let own = own.iter().map(|(_, bytes)| allowance(**bytes)).fold(store + files, u64::saturating_add);
    let needs = groups.iter().map(|(_, bytes)| allowance(**bytes)).fold(own, u64::saturating_add);
    let without = match fit(room, own, groups.iter().map(|(part, bytes)| (part.as_str(), **bytes))) {
        Fit::All => Vec::new(),
        Fit::Without(parts) => parts,
        Fit::TooMuch { wanted } => bail!(
            "{} has room for {} MiB, and the backup needs {} MiB, even without any group's folder: make room there, or name a folder on another disk",
            folder.display(),
            room >> 20,
            wanted.div_ceil(1 << 20)
        ),
    };
    Ok(Plan { weighed, needs, without })
}

/// Whether a backup in `to` would have the folders of all groups.
///
/// # Errors
/// What can't be looked at; or there is no room at all.
pub fn has_room(wanted: Wanted<'_>, to: &Path) -> Result<bool> {
    Ok(plan(wanted, to)?.without.is_empty())
}

/// Returns how much a backup in `folder` may take, bytes.
fn room(wanted: Wanted<'_>, folder: &Path) -> u64 {
    let device = |path: &Path| fs::metadata(path).ok().map(|meta| meta.dev());
    let is_ours = device(folder) == device(&wanted.root.join("data"));
    let spare = if is_ours { SPARE.saturating_add(wanted.min_free) } else { SPARE };
    free_bytes(folder).unwrap_or(u64::MAX).saturating_sub(spare)
}

/// The folder in which an archive is made. One process works in it.
struct Workshop {
    path: PathBuf,
    _lock: File,
}

impl Workshop {
    fn open(file: &Path) -> Result<Self> {
        let mut path = file.to_owned().into_os_string();
        path.push(".partial");
        let path = PathBuf::from(path);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("making {} failed", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let is_ours = path
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == crate::system::process::own_ids().0);
        ensure!(is_ours, "{} is in the way; remove it", path.display());
        let lock = File::open(&path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!("another backup is being written into {}", file.display()),
            other => other?,
        }
        let workshop = Self { path, _lock: lock };
        workshop.empty();
        Ok(workshop)
    }

    fn at(&self, part: &str) -> PathBuf {
        self.path.join(part)
    }

    fn empty(&self) {
        for part in PARTS {
            let _ = fs::remove_file(self.at(part));
        }
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.empty();
        let _ = fs::remove_dir(&self.path);
    }
}

/// Gives the archive its name, which must be free.
fn put(archive: &Path, file: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, archive, CWD, file, RenameFlags::NOREPLACE) {
        // This file system can't do it in one step; a moment ago the name was free.
        Err(Errno::INVAL | Errno::NOSYS) if file.symlink_metadata().is_err() => fs::rename(archive, file),
        other => Ok(other?),
    }
}
