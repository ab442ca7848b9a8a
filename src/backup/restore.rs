//! A root out of a backup: unpacked and looked at in a folder of the new root, then moved to its places, `data/` last.
//!
//! ```text
//! FILE ──unpacked, compared──▶ ROOT/.restoring/{g2.toml,groups,…,data} ──held back──▶ ROOT/{g2.toml,groups,…} ──▶ ROOT/data
//! ```
//!
//! | a death leaves | every command | the next restore into it |
//! |---|---|---|
//! | `.restoring/` with a part of the archive, or all of it | refuses | begins anew |
//! | the same, and what lies beside `data/` at its place | refuses | removes that, and begins anew |
//! | `data/` at its place, `.restoring/` empty | finds the whole root | refuses, as the root is there |
#![expect(
    clippy::disallowed_methods,
    reason = "writes into a root that nobody serves, and no container can write to"
)]

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Seek as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use ipc_handlers::Time;
use rustix::{fs::FlockOperation, io::Errno};
use serde::Serialize;

use super::{
    archive::{self, Manifest, Part, STORE},
    holes::Pieces,
};
use crate::{
    config::{Config, Environment},
    domain::{
        kept::held_back::{HeldCount, PassedOver},
        shown::errors::chain,
    },
    root::{RESTORING, keep_private},
    store::{self, Store},
    system::{disk::free_bytes, failpoint, process::own_ids},
};

/// What has its place before `data/` does.
const BESIDE_DATA: [&str; 4] = ["g2.toml", ".env", "groups", "container"];
/// Where the files keep the owner that the archive says, if we may give files away: agents work there.
const OF_AGENTS: [&str; 2] = ["groups/", "data/sessions/"];
/// Room that is left free, bytes.
const SPARE: u64 = 64 << 20;

/// A root that was restored.
#[derive(Debug, Serialize)]
pub struct Restored {
    pub root: PathBuf,
    pub made_by: String,
    pub made_at: String,
    pub with_secrets: bool,
    pub files: usize,
    /// What is held back until a person decides; `g2 restored list` shows it.
    pub held: HeldCount,
    /// Tasks whose times until now are passed over.
    pub passed_over: Vec<PassedOver>,
    /// Folders of groups that the backup lacks.
    pub without: Vec<String>,
}

/// Makes a root of a backup, in an empty or missing folder.
///
/// # Errors
/// What is wrong with the archive, or what is in the way; then there is no root.
pub async fn restore(file: &Path, root: &Path, environment: &Environment, now: Time) -> Result<Restored> {
    let stage = Stage::open(root)?;
    failpoint::reach("restore.begun");
    let held =
        archive::scan(file, &|_| true).with_context(|| format!("{} can't be restored", file.display()))?;
    check_room(root, held.bytes)?;
    let manifest = Stage::unpack(&stage.path, file, &|_| true)
        .with_context(|| format!("{} can't be restored", file.display()))?;
    fs::set_permissions(stage.at("data"), Permissions::from_mode(0o700))?;
    failpoint::reach("restore.unpacked");
    let path = stage.at(STORE);
    store::check_foreign(&path)?;
    // Brought to this program's schema; nobody needs it as it was.
    drop(Store::open(&path)?);
    for copy in store::kept_copies(&path) {
        fs::remove_file(&copy).with_context(|| format!("removing {} failed", copy.display()))?;
    }
    let config = Config::load(&stage.path, environment).or_else(|error| {
        tracing::warn!(error = %chain(&error), "the settings in the archive can't be used; times of tasks are found by the defaults");
        Config::defaults(environment)
    })?;
    let settled = store::settle_restored(&path, &config.zones, now)?;
    Store::open(&path)?.rehearse_start().await.context("the store in the archive can't be served")?;
    failpoint::reach("restore.held");
    if let Some((path, error)) = keep_private(&stage.path).into_iter().next() {
        return Err(error).with_context(|| format!("closing {} to other users failed", path.display()));
    }
    stage.place()?;
    Ok(Restored {
        root: root.to_owned(),
        made_by: manifest.made_by,
        made_at: manifest.made_at,
        with_secrets: manifest.with_secrets,
        files: manifest.files.len(),
        held: settled.held,
        passed_over: settled.passed_over,
        without: manifest.without,
    })
}

pub(super) fn check_room(root: &Path, bytes: u64) -> Result<()> {
    let Some(free) = free_bytes(root) else { return Ok(()) };
    let wanted = bytes.saturating_add(SPARE);
    ensure!(
        free >= wanted,
        "{} MiB are free at {}, and the backup needs {} MiB; make room first",
        free >> 20,
        root.display(),
        wanted >> 20
    );
    Ok(())
}

/// Writes the pieces of a file, and leaves holes between them.
fn put_pieces(file: &mut File, bytes: &mut dyn Read, pieces: &Pieces) -> io::Result<()> {
    for (at, length) in &pieces.list {
        file.seek(io::SeekFrom::Start(*at))?;
        io::copy(&mut (&mut *bytes).take(*length), file)?;
    }
    file.set_len(pieces.size)
}

/// A folder that was made: its path, and the mode and the owner that it gets at the end.
type Folder = (PathBuf, u32, Option<(u32, u32)>);

/// The folder in the new root in which it is made. One process works in it.
pub(super) struct Stage {
    root: PathBuf,
    path: PathBuf,
    _lock: File,
}

impl Stage {
    /// Begins in an empty or missing folder, or where a restore died.
    fn open(root: &Path) -> Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .with_context(|| format!("making {} failed", root.display()))?;
        let path = root.join(RESTORING);
        let was_begun = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        for entry in fs::read_dir(root).with_context(|| format!("looking into {} failed", root.display()))? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            let is_ours = name == RESTORING || (was_begun && BESIDE_DATA.contains(&name.as_ref()));
            ensure!(
                name == "lost+found" || is_ours,
                "{} is not empty, it holds {name:?}; name an empty folder, or a new one, with --root",
                root.display()
            );
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("making {} failed", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let lock = File::open(&path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!("another restore into {} is under way", root.display()),
            other => other?,
        }
        let stage = Self { root: root.to_owned(), path, _lock: lock };
        stage.clear()?;
        Ok(stage)
    }

    fn at(&self, part: &str) -> PathBuf {
        self.path.join(part)
    }

    /// Removes what a restore left that died.
    fn clear(&self) -> Result<()> {
        let below = fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.path()));
        let beside = BESIDE_DATA.map(|part| self.root.join(part)).into_iter().map(Ok);
        for path in below.chain(beside) {
            let path = path?;
            let removed = match path.symlink_metadata() {
                Err(_) => Ok(()),
                Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
            };
            removed.with_context(|| format!("removing {} failed", path.display()))?;
        }
        Ok(())
    }

    /// Unpacks the parts of an archive whose paths are wanted into `to`, and compares all of it with its manifest.
    pub(super) fn unpack(to: &Path, file: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<Manifest> {
        let gives_away = own_ids().0 == 0;
        let mut folders: Vec<Folder> = Vec::new();
        let manifest = archive::read(file, &mut |part| {
            let (Part::Folder { path, .. } | Part::File { path, .. } | Part::Link { path, .. }) = &part;
            let path = *path;
            if !is_wanted(path) {
                return Ok(());
            }
            let at = to.join(path);
            let is_given_away = gives_away && OF_AGENTS.iter().any(|of| path.starts_with(of));
            let owner_of = |owner: Option<(u32, u32)>| owner.filter(|_| is_given_away);
            if let Some(parent) = at.parent() {
                fs::create_dir_all(parent)
                    .with_context(|| format!("making the folder of {path:?} failed"))?;
            }
            match part {
                Part::Folder { mode, owner, .. } => {
                    fs::create_dir_all(&at).with_context(|| format!("making {path:?} failed"))?;
                    folders.push((at, mode, owner_of(owner)));
                }
                // Its first name was made of this archive a moment ago, in the same part of the root.
                Part::Link { first, .. } => fs::hard_link(to.join(first), &at)
                    .with_context(|| format!("making {path:?}, another name of {first:?}, failed"))?,
                Part::File { mode, owner, bytes, pieces, .. } => {
                    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&at);
                    let mut made = made.with_context(|| format!("making {path:?} failed"))?;
                    match pieces {
                        None => io::copy(bytes, &mut made).map(drop),
                        Some(pieces) => put_pieces(&mut made, bytes, &pieces),
                    }
                    .with_context(|| format!("writing {path:?} failed"))?;
                    if let Some((user, group)) = owner_of(owner) {
                        rustix::fs::fchown(
                            &made,
                            Some(rustix::fs::Uid::from_raw(user)),
                            Some(rustix::fs::Gid::from_raw(group)),
                        )?;
                    }
                    made.set_permissions(Permissions::from_mode(mode))?;
                }
            }
            Ok(())
        })?;
        // A folder may be closed to everybody, so this comes last, from below.
        for (path, mode, owner) in folders.into_iter().rev() {
            if let Some((user, group)) = owner {
                chown(&path, Some(user), Some(group))?;
            }
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
        Ok(manifest)
    }

    /// Moves everything to its place, `data/` last: with it the root is there.
    fn place(&self) -> Result<()> {
        let folder = File::open(&self.root)?;
        rustix::fs::syncfs(&folder).context("writing to the disk failed")?;
        failpoint::reach("restore.synced");
        for part in BESIDE_DATA {
            match fs::rename(self.at(part), self.root.join(part)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.with_context(|| format!("moving {part} to its place failed"))?,
            }
        }
        folder.sync_all()?;
        failpoint::reach("restore.moved");
        fs::rename(self.at("data"), self.root.join("data")).context("moving data/ to its place failed")?;
        folder.sync_all()?;
        failpoint::reach("restore.placed");
        fs::remove_dir(&self.path).with_context(|| format!("removing {} failed", self.path.display()))
    }
}

impl Drop for Stage {
    /// What could not be restored leaves nothing; after a death the next restore removes it.
    fn drop(&mut self) {
        if !self.path.exists() || self.root.join(STORE).exists() {
            return;
        }
        if let Err(error) = self.clear() {
            tracing::warn!(error = %chain(error.as_ref()), "what was unpacked can't be removed");
        }
        let _ = fs::remove_dir(&self.path);
    }
}
