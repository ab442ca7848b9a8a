//! The mailbox of a group as its container sees it.

use std::{
    io,
    path::{Path, PathBuf},
};

use g2::ipc::twin::{Hands, Twin};

/// What a container does with files in its mailbox. `place` is a folder of it, as `input`.
pub trait Mailbox: Send {
    /// Returns the names in a folder, in order.
    fn names(&self, place: &str) -> Vec<String>;

    /// Returns what a file holds, where it is there.
    fn read(&self, place: &str, name: &str) -> Option<Vec<u8>>;

    /// Renames a file within its folder. Returns whether it was there.
    fn rename(&self, place: &str, name: &str, to: &str) -> bool;

    /// Removes a file, where it is there.
    fn remove(&self, place: &str, name: &str);

    /// Writes a file beside its place, and renames it there.
    ///
    /// # Errors
    /// The disk is full, or the folder is gone.
    fn publish(&self, place: &str, name: &str, bytes: &[u8]) -> io::Result<()>;
}

/// A mailbox in the twin.
pub struct InTwin {
    twin: Twin,
    folder: PathBuf,
}

/// How much of a file a container reads, bytes.
const MOST: usize = 16 << 20;
/// User and group of agents.
const AGENT: (u32, u32) = (1000, 1000);

impl InTwin {
    /// Returns the mailbox that the host has in `folder`.
    #[must_use]
    pub const fn new(twin: Twin, folder: PathBuf) -> Self {
        Self { twin, folder }
    }

    fn act<T>(&self, act: impl FnOnce(&mut Hands<'_>, &Path) -> T) -> T {
        self.twin.hands(|hands| {
            hands.act_as(AGENT.0, AGENT.1);
            act(hands, &self.folder)
        })
    }
}

impl Mailbox for InTwin {
    fn names(&self, place: &str) -> Vec<String> {
        let names = self.act(|hands, folder| hands.names(folder.join(place)));
        let mut names: Vec<String> =
            names.unwrap_or_default().into_iter().filter_map(|name| String::from_utf8(name).ok()).collect();
        names.sort();
        names
    }

    fn read(&self, place: &str, name: &str) -> Option<Vec<u8>> {
        self.act(|hands, folder| hands.read_some(folder.join(place).join(name), MOST)).ok()
    }

    fn rename(&self, place: &str, name: &str, to: &str) -> bool {
        let folder = self.folder.join(place);
        self.act(|hands, _| hands.rename(folder.join(name), folder.join(to))).is_ok()
    }

    fn remove(&self, place: &str, name: &str) {
        // It may be gone.
        let _ = self.act(|hands, folder| hands.unlink(folder.join(place).join(name)));
    }

    fn publish(&self, place: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(place);
        let made = folder.join(format!(".{name}.tmp"));
        self.act(|hands, _| {
            hands.write(&made, bytes)?;
            hands.rename(&made, folder.join(name))
        })?;
        Ok(())
    }
}
