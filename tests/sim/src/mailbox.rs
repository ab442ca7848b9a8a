//! The mailbox of a group as its container sees it.

use std::{fs, io, path::PathBuf};

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

/// A mailbox in a real folder.
pub struct InFolder(pub PathBuf);

#[expect(clippy::disallowed_methods, reason = "plays a container, in its own mailbox")]
impl Mailbox for InFolder {
    fn names(&self, place: &str) -> Vec<String> {
        let Ok(all) = fs::read_dir(self.0.join(place)) else { return Vec::new() };
        let mut names: Vec<String> =
            all.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn read(&self, place: &str, name: &str) -> Option<Vec<u8>> {
        fs::read(self.0.join(place).join(name)).ok()
    }

    fn rename(&self, place: &str, name: &str, to: &str) -> bool {
        let folder = self.0.join(place);
        fs::rename(folder.join(name), folder.join(to)).is_ok()
    }

    fn remove(&self, place: &str, name: &str) {
        // It may be gone.
        let _ = fs::remove_file(self.0.join(place).join(name));
    }

    fn publish(&self, place: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.0.join(place);
        let made = folder.join(format!(".{name}.tmp"));
        fs::write(&made, bytes)?;
        fs::rename(made, folder.join(name))
    }
}
