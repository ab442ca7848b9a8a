//! The parts of a root that only its owner may read.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::{Path, PathBuf};

use super::entries;

/// Returns the mode of a file; `None` where there is none, or a link: what that leads to is its owner's business.
#[must_use]
pub fn open_mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(path).ok()?;
    (!meta.is_symlink()).then(|| meta.mode() & 0o777)
}

/// The parts with people's messages, agents' memories and keys, which other users must not read.
///
/// `groups/global` and `groups/_template` are shared by agents, which may have users of their own: they are closed by
/// the folder around them.
fn private_parts(root: &Path) -> Vec<(PathBuf, std::fs::Metadata)> {
    // Where these two are links, what they lead to is meant.
    let folders = ["data", "groups"].map(|part| root.join(part)).into_iter();
    let folders = folders.filter_map(|path| std::fs::metadata(&path).ok().map(|meta| (path, meta)));
    let shared = |path: &Path| ["global", "_template", "README.md"].iter().any(|name| path.ends_with(name));
    let is_store = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("g2.sqlite") || name.starts_with("search.sqlite")
    };
    let groups = entries(&root.join("groups")).into_iter().filter(|path| !shared(path));
    let stores = entries(&root.join("data")).into_iter().filter(|path| is_store(path));
    let files = ["g2.toml", ".env"].map(|name| root.join(name)).into_iter();
    // What another link leads to is its owner's business.
    let others = groups.chain(stores).chain(files).filter_map(|path| {
        let meta = std::fs::symlink_metadata(&path).ok()?;
        (!meta.is_symlink()).then_some((path, meta))
    });
    folders.chain(others).collect()
}

/// Returns the parts of a root that other users may read, each with its mode.
#[must_use]
pub fn open_to_others(root: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let modes = private_parts(root).into_iter().map(|(path, meta)| (path, meta.mode() & 0o7777));
    modes.filter(|(_, mode)| mode & 0o077 != 0).collect()
}

/// Closes the parts of a root that other users may read. Returns those that could not be closed, each with the reason.
#[must_use]
pub fn keep_private(root: &Path) -> Vec<(PathBuf, std::io::Error)> {
    use std::os::unix::fs::PermissionsExt as _;
    let close = |(path, mode): (PathBuf, u32)| {
        let closed = std::fs::Permissions::from_mode(mode & !0o077);
        let failed = std::fs::set_permissions(&path, closed).err();
        // One that has gone meanwhile, as a log of the store may, is open to nobody.
        failed.filter(|error| error.kind() != std::io::ErrorKind::NotFound).map(|error| (path, error))
    };
    open_to_others(root).into_iter().filter_map(close).collect()
}

/// Makes a file that only this user can read, with these contents, unless it is there.
///
/// # Errors
/// The operating system's.
pub fn make_private_file(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(contents),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Lets only this user use a file.
///
/// # Errors
/// The operating system's.
pub fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}
