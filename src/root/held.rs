//! The parts of a root that a daemon holds open.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, statat};

/// What is held open, below the root. Whatever else there is, is found by its name each time.
const PARTS: [&str; 6] = ["data/ipc", "data/claimed", "data/done", "data/dead", "data/tmp", "data/g2.sqlite"];

/// Device and inode.
type Which = (u64, u64);

/// The parts that a daemon holds open, as they were at its start.
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
