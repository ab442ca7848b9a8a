//! The folder of one group out of a backup, where the group has lost its own.
//!
//! ```text
//! FILE ──unpacked, compared──▶ ROOT/groups/.restoring-GROUP/groups/GROUP ──▶ ROOT/groups/GROUP
//! ```
//!
//! A death leaves `.restoring-GROUP`, which the next restore of that group removes, or the folder at its place.
#![expect(
    clippy::disallowed_methods,
    reason = "writes a folder that no container has: nothing is launched for its group"
)]

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use ipc_handlers::Folder;

use super::{
    archive,
    restore::{self, check_room},
    shelf::{name_of, shelf},
};

/// A group's folder that was restored.
#[derive(Debug)]
pub struct RestoredFolder {
    pub from: PathBuf,
    /// When the backup was made, as it says.
    pub made_at: String,
}

/// Restores a group's folder from this backup. There must be none, or an empty one.
///
/// # Errors
/// What is wrong with the backup, that it has no such folder, or what is in the way; then nothing is changed.
pub fn restore_folder(root: &Path, group: &Folder, from: &Path) -> Result<RestoredFolder> {
    match take(root, group, from).with_context(|| format!("{} can't be used", from.display()))? {
        Some(restored) => Ok(restored),
        None => bail!("{} has no folder of group {group}", from.display()),
    }
}

/// Restores a group's folder from the newest backup of this root in the folder `to` that has it.
///
/// # Errors
/// As [`restore_folder`]; no backup has it.
pub fn restore_newest_folder(root: &Path, group: &Folder, to: &Path) -> Result<RestoredFolder> {
    for (from, _) in shelf(to, &name_of(root))?.into_iter().rev() {
        let taken = take(root, group, &from).with_context(|| format!("{} can't be used", from.display()))?;
        if let Some(restored) = taken {
            return Ok(restored);
        }
    }
    bail!("no backup of this root in {} has a folder of group {group}", to.display())
}

/// `None`: the backup has no such folder.
fn take(root: &Path, group: &Folder, from: &Path) -> Result<Option<RestoredFolder>> {
    let wanted = format!("groups/{group}");
    let is_wanted =
        |path: &str| path.strip_prefix(&wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let held = archive::scan(from, &is_wanted)?;
    let groups = root.join("groups");
    let stage = Stage { path: groups.join(format!(".restoring-{group}")) };
    stage.clear()?;
    check_room(root, held.bytes)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&stage.path)?;
    let manifest = restore::Stage::unpack(&stage.path, from, &is_wanted)?;
    let unpacked = stage.path.join(&wanted);
    if manifest.without.contains(&wanted) || unpacked.symlink_metadata().is_err() {
        return Ok(None);
    }
    let held = File::open(&groups)?;
    rustix::fs::syncfs(&held).context("writing to the disk failed")?;
    let at = groups.join(group.as_str());
    // One that is not empty is replaced by nothing.
    fs::rename(&unpacked, &at).with_context(|| format!("moving it to {} failed", at.display()))?;
    held.sync_all()?;
    Ok(Some(RestoredFolder { from: from.to_owned(), made_at: manifest.made_at }))
}

/// Where a folder is unpacked. It is gone when it is not needed any more.
struct Stage {
    path: PathBuf,
}

impl Stage {
    fn clear(&self) -> Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {} failed", self.path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The next restore of this group tries it again.
        let _ = self.clear();
    }
}
