//! The folders of a root that a daemon holds open.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, statat};

/// Those that are held open, below the root. Other folders are found by their names each time.
const PARTS: [&str; 7] =
    ["data/ipc", "data/claimed", "data/done", "data/dead", "data/tmp", "data/media", "data/media-of"];

/// Device and inode.
type Which = (u64, u64);

/// The folders that a daemon holds open, as they were at its start.
pub struct HeldParts(Vec<(PathBuf, Option<Which>)>);

impl HeldParts {
    /// To be called once they are open.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self(PARTS.iter().map(|part| root.join(part)).map(|path| (path.clone(), which(&path))).collect())
    }

    /// Returns the first of them that lies elsewhere by now, or is gone.
    #[must_use]
    pub fn replaced(&self) -> Option<&Path> {
        self.0.iter().find(|(path, held)| which(path) != *held).map(|(path, _)| path.as_path())
    }
}

/// What stands there; `None`: nothing, or it can't be seen.
fn which(path: &Path) -> Option<Which> {
    let is = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((is.st_dev, is.st_ino))
}
