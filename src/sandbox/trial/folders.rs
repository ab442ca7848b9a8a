//! The folders of one life. The runner can write to them, so nothing in them is opened: files are moved in and looked at.
#![expect(
    clippy::disallowed_methods,
    reason = "a file is made outside of what the runner sees, and renamed into its box"
)]

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, lchown},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::Subject;

pub(super) struct Folders {
    dir: TempDir,
}

/// Whether a file has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Now,
    Still,
}

/// The boxes of a mailbox.
pub(super) const BOXES: [&str; 5] = ["messages", "tasks", "input", "responses", "state"];

impl Folders {
    pub(super) fn new(subject: &Subject<'_>) -> io::Result<Self> {
        let folders = Self { dir: tempfile::Builder::new().prefix("g2-trial-").tempdir()? };
        let (user, group) = subject.user;
        let mut given = vec![folders.group(), folders.home()];
        given.extend(BOXES.map(|name| folders.ipc().join(name)));
        for folder in given {
            fs::create_dir_all(&folder)?;
            if (user, group) != crate::system::process::own_ids() {
                lchown(&folder, Some(user), Some(group))?;
            }
        }
        fs::create_dir_all(folders.runs())?;
        // The user inside gets to its folders through these.
        for folder in [folders.dir.path(), &folders.ipc()] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        }
        Ok(folders)
    }

    pub(super) fn group(&self) -> PathBuf {
        self.at("group")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.at("home")
    }

    pub(super) fn ipc(&self) -> PathBuf {
        self.at("ipc")
    }

    /// Where a sandbox of processes keeps its notes.
    pub(super) fn runs(&self) -> PathBuf {
        self.at("runs")
    }

    /// Makes a file appear whole in `input/`. A rename follows no link.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = self.at("draft");
        fs::write(&draft, bytes)?;
        fs::rename(draft, self.ipc().join("input").join(name))
    }

    /// Whether something of this name is in the mailbox, whatever it is.
    pub(super) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.ipc().join(name)).is_ok()
    }

    fn at(&self, name: &str) -> PathBuf {
        let path: &Path = self.dir.path();
        path.join(name)
    }
}
