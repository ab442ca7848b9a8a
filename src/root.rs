//! The root's own files: those that no container can write, read and made for the rest of the program.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the root's own files")]

use std::path::{Path, PathBuf};

use crate::config::Environment;

/// Where everything lies: the root, found as the design says.
///
/// `--root`, else `$G2_ROOT`, else the working directory if it holds `groups/` and `data/`, else `$XDG_DATA_HOME/g2`.
#[must_use]
pub fn find_root(flag: Option<PathBuf>, environment: &Environment) -> PathBuf {
    if let Some(root) = flag.or_else(|| environment.get("G2_ROOT").map(PathBuf::from)) {
        return std::path::absolute(&root).unwrap_or(root);
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    if here.join("groups").is_dir() && here.join("data").is_dir() {
        return here;
    }
    let home = environment.get("HOME").unwrap_or("/root");
    environment
        .get("XDG_DATA_HOME")
        .map_or_else(|| Path::new(home).join(".local/share"), PathBuf::from)
        .join("g2")
}

/// Reads the scripted agent's script.
///
/// # Errors
/// The operating system's.
pub fn read_script(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

/// Makes a folder that every user may look into, if it is not there.
///
/// # Errors
/// The operating system's.
pub fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}

/// Makes folders that are mounted into a container, and gives each to `owner` when it was made here.
///
/// # Errors
/// The operating system's.
pub fn make_agent_folders(folders: &[&Path], owner: Option<(u32, u32)>) -> std::io::Result<()> {
    for folder in folders {
        let new = !folder.exists();
        std::fs::create_dir_all(folder)?;
        if let Some((user, group)) = owner {
            // The root's own folder is followed by nothing a container can write: only the top is given away.
            let meta = std::fs::symlink_metadata(folder)?;
            use std::os::unix::fs::MetadataExt as _;
            if new || meta.uid() != user {
                std::os::unix::fs::lchown(folder, Some(user), Some(group))?;
            }
        }
    }
    Ok(())
}

/// Returns what the output of a run was, as far as it is kept.
///
/// # Errors
/// The operating system's.
pub fn read_run_log(root: &Path, run: i64) -> std::io::Result<String> {
    let bytes = std::fs::read(root.join("data/runs").join(run.to_string()).join("container.log"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the runs that have a folder of their own in `data/runs/`.
///
/// # Errors
/// The operating system's.
pub fn run_folders(data: &Path) -> std::io::Result<Vec<i64>> {
    let entries = match std::fs::read_dir(data.join("runs")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries.filter_map(|entry| entry.map(|e| e.file_name().to_str()?.parse().ok()).transpose()).collect()
}

/// Removes the folder of a run that has ended.
///
/// # Errors
/// The operating system's; that it is gone already is none.
pub fn remove_run_folder(data: &Path, run: i64) -> std::io::Result<()> {
    match std::fs::remove_dir_all(data.join("runs").join(run.to_string())) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns what is kept of a settled command, from `data/done/` or `data/dead/`.
#[must_use]
pub fn read_kept_command(root: &Path, group: &str, id: i64) -> Option<String> {
    let group = ipc_handlers::Folder::parse(group).ok()?;
    ["done", "dead"].iter().find_map(|place| {
        let path = root.join("data").join(place).join(group.as_str()).join(format!("{id}.json"));
        std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// Returns the bytes that are kept of a settled command: of a dead one from `data/dead/`, else from `data/done/`.
#[must_use]
pub fn read_kept_bytes(data: &Path, group: &ipc_handlers::Folder, id: i64, is_dead: bool) -> Option<Vec<u8>> {
    let place = if is_dead { "dead" } else { "done" };
    std::fs::read(data.join(place).join(group.as_str()).join(format!("{id}.json"))).ok()
}

/// Returns how much is free on the file system of `path`, bytes.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns how many inodes are free where `path` is, and how many there are; 0 of 0 where none are counted.
#[must_use]
pub fn inodes(path: &Path) -> (u64, u64) {
    rustix::fs::statvfs(path).map_or((0, 0), |stat| (stat.f_favail, stat.f_files))
}

/// Removes what an earlier daemon left of its socket.
///
/// # Errors
/// The operating system's.
pub fn remove_stale_socket(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the key that runs' tokens are signed with, `data/token.key`; makes it when there is none.
///
/// # Errors
/// The operating system's; or the file is no key: then it is left as it is, as live runs may have tokens of another.
pub fn token_key(data: &Path) -> std::io::Result<ipc_handlers::token::Key> {
    use std::{
        io::{Read as _, Write as _},
        os::unix::fs::OpenOptionsExt as _,
    };
    let path = data.join("token.key");
    if std::fs::symlink_metadata(&path).is_err() {
        let mut key = [0_u8; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        let made = data.join("token.key.new");
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
        file.write_all(&key)?;
        file.sync_all()?;
        // Whole or not there: half a key would be no key for good.
        std::fs::rename(&made, &path)?;
        std::fs::File::open(data)?.sync_all()?;
    }
    make_private(&path)?;
    let bytes = std::fs::read(&path)?;
    let key = bytes.as_slice().try_into().map_err(|_| {
        std::io::Error::other(
            "it does not hold 32 bytes; remove it, and a new one is made (runs that live lose their tokens)",
        )
    })?;
    Ok(ipc_handlers::token::Key(key))
}

/// Returns what is written down of starts that were taking in what they found, see `loops::intake`; `None`: nothing.
///
/// # Errors
/// The operating system's.
pub fn read_starts(data: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match std::fs::read(data.join("starts.json")) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes down, or forgets, what [`read_starts`] returns; in one step, and without waiting for the disk.
///
/// # Errors
/// The operating system's.
pub fn write_starts(data: &Path, text: Option<&[u8]>) -> std::io::Result<()> {
    let (place, draft) = (data.join("starts.json"), data.join("starts.json.draft"));
    match text {
        Some(text) => {
            std::fs::write(&draft, text)?;
            std::fs::rename(draft, place)
        }
        None => std::fs::remove_file(place),
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

/// Returns this process's user and group.
#[must_use]
pub fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}
