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
    domain::{host::problems::RootFault, rows::rfc3339},
    store,
    system::failpoint,
};

mod archive;
mod pack;
mod restore;
mod shelf;

pub use archive::{Contents, contents};
use archive::{FOLDERS, SECRET_FOLDERS};
use pack::Packing;
pub use restore::{Restored, restore};
pub use shelf::{Shelved, put_on_shelf};

/// The files of the folder in which an archive is made.
const PARTS: [&str; 3] = ["g2.sqlite", "g2.sqlite-journal", "archive"];

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
}

/// Writes the root into the new file `file`, beside a daemon or without one, and reads it back.
///
/// # Errors
/// What went wrong; then there is no such file.
pub fn save(root: &Path, file: &Path, with_secrets: bool, now: Time) -> Result<Saved> {
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
    let opened = pack::open(root, with_secrets).context("opening the root's own files failed")?;
    let copy = workshop.at("g2.sqlite");
    store::copy_to(&root.join("data/g2.sqlite"), &copy).context("copying the store failed")?;
    failpoint::reach("backup.copied");
    let archive = workshop.at("archive");
    let mut packing = Packing::new(&archive, &workshop.path, with_secrets, now)?;
    packing.pack(root, &copy, opened).context("writing the archive failed")?;
    let manifest = packing.finish().context("writing the archive failed")?;
    failpoint::reach("backup.archived");
    let read = archive::read(&archive, &mut |_| Ok(()));
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
    })
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
