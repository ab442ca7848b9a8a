//! Files that were to become others: each is written beside its place, and gets its name when it is whole.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::{Path, PathBuf};

/// The drafts of the host's own files.
const DRAFTS: [&str; 3] = ["g2.toml.new", ".env.new", "data/token.key.new"];

/// Returns the drafts that lie in a root. Without a daemon and another command, nobody will finish them.
#[must_use]
pub fn drafts(root: &Path) -> Vec<PathBuf> {
    let paths = DRAFTS.into_iter().map(|name| root.join(name));
    paths.filter(|path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())).collect()
}

/// Removes a draft. One that is gone is no error.
///
/// # Errors
/// The operating system's.
pub fn remove_draft(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
