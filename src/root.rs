//! The root's own files: those that no container can write, read and made for the rest of the program.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the root's own files")]

use std::path::{Path, PathBuf};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use crate::{config::Environment, domain::host::problems::RootFault};

/// Where everything lies: the root, found as the design says.
///
/// `--root`, else `$G2_ROOT`, else the working directory if it holds `groups/` and `data/`, else the nearest folder around
/// it that does and is ours, else `$XDG_DATA_HOME/g2`.
#[must_use]
pub fn find_root(flag: Option<PathBuf>, environment: &Environment) -> PathBuf {
    if let Some(root) = flag.or_else(|| environment.get("G2_ROOT").map(PathBuf::from)) {
        return std::path::absolute(&root).unwrap_or(root);
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    if let Some(root) = here.ancestors().find(|at| looks_like_a_root(at) && (*at == here || is_ours(at))) {
        return root.to_owned();
    }
    let home = environment.get("HOME").unwrap_or("/root");
    environment
        .get("XDG_DATA_HOME")
        .map_or_else(|| Path::new(home).join(".local/share"), PathBuf::from)
        .join("g2")
}

fn looks_like_a_root(at: &Path) -> bool {
    at.join("groups").is_dir() && at.join("data").is_dir()
}

/// Whether this user owns it. Settings name programs that are run: what somebody else put around us is not followed.
fn is_ours(at: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(at).is_ok_and(|meta| meta.uid() == own_ids().0)
}

/// What stands where a root should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A root with its store.
    Root,
    /// Nothing was kept here yet.
    Nothing,
    /// What a store leaves behind, and no store: it was lost, or its disk is not mounted. Here is a piece of it.
    WithoutStore { trace: PathBuf },
}

/// Returns what stands at `root`. What may not be looked at counts as there: whoever opens it is told why it can't be.
#[must_use]
pub fn standing(root: &Path) -> Standing {
    let data = root.join("data");
    match std::fs::metadata(data.join("g2.sqlite")) {
        // One without a byte was never written to.
        Ok(meta) if meta.len() > 0 => return Standing::Root,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Standing::Root,
        Ok(_) | Err(_) => {}
    }
    let below = |folder: PathBuf| entries(&folder).into_iter();
    let of_the_store = below(data.clone()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_log = name == "g2.sqlite-wal" && std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
        is_log || name.starts_with("g2.sqlite.before-")
    });
    let of_runs = ["claimed", "sessions", "runs"].into_iter().flat_map(|part| below(data.join(part)));
    let of_commands = ["done", "dead"].into_iter().flat_map(|part| below(data.join(part)).flat_map(below));
    let of_groups = below(root.join("groups")).flat_map(|group| below(group.join("conversations")));
    let trace = of_runs.chain(of_commands).chain(of_groups).chain(of_the_store).next();
    trace.map_or(Standing::Nothing, |trace| Standing::WithoutStore { trace })
}

/// What a root has, below it.
const PARTS: [&str; 3] = ["groups", "data", "data/g2.sqlite"];

/// Returns why a root can't be served as it stands: it is not laid out, or not ours to read and write.
#[must_use]
pub fn fault(root: &Path) -> Option<RootFault> {
    let shown = root.display().to_string();
    let at = |part: &str| if part.is_empty() { root.to_owned() } else { root.join(part) };
    let name = |path: PathBuf| path.display().to_string();
    let look = |part: &str| access(at(part), Access::EXISTS);
    let closed = |part: &str| Some(RootFault::Closed { root: shown.clone(), path: name(at(part)) });
    if look("") == Err(Errno::ACCESS) || access(root, Access::EXEC_OK) == Err(Errno::ACCESS) {
        return closed("");
    }
    let mut parts = Vec::new();
    for part in PARTS {
        match look(part) {
            Ok(()) => {}
            Err(Errno::ACCESS) => return closed(part),
            Err(_) => parts.push(part),
        }
    }
    match standing(root) {
        Standing::WithoutStore { trace } => {
            return Some(RootFault::WithoutStore { root: shown, trace: name(trace) });
        }
        Standing::Nothing if parts.is_empty() => parts.push("the contents of data/g2.sqlite"),
        Standing::Nothing | Standing::Root => {}
    }
    if !parts.is_empty() {
        return Some(RootFault::Missing { root: shown, parts });
    }
    if let Some(part) = ["groups", "data"].into_iter().find(|part| !root.join(part).is_dir()) {
        return Some(RootFault::NoFolder { root: shown, path: name(at(part)) });
    }
    ["", "groups", "data", "data/g2.sqlite"].into_iter().find_map(|part| {
        let errno = access(at(part), Access::WRITE_OK).err()?;
        let (path, why) = (name(at(part)), std::io::Error::from(errno).to_string());
        Some(match errno {
            Errno::ROFS => RootFault::ReadOnly { path, why },
            _ => RootFault::Unwritable { root: shown.clone(), path, why },
        })
    })
}

/// Returns the mode of a file; `None` where there is none, or a link: what that leads to is its owner's business.
#[must_use]
pub fn open_mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(path).ok()?;
    (!meta.is_symlink()).then(|| meta.mode() & 0o777)
}

/// What lies in a folder; nothing where there is none.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Moves what lies in `data/` into `data/<aside>/`: a new store numbers its runs and commands from 1 again.
///
/// # Errors
/// The operating system's.
pub fn move_aside(data: &Path, aside: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let place = data.join(aside);
    std::fs::DirBuilder::new().mode(0o700).create(&place)?;
    for path in entries(data) {
        let name = path.file_name().unwrap_or_default();
        // What is held by this process, the page that git knows, and what was moved earlier.
        let stays = name == "lock" || name == "README.md" || name.to_string_lossy().starts_with("before-");
        if !stays {
            std::fs::rename(&path, place.join(name))?;
        }
    }
    Ok(())
}

/// What is read by whoever looks into the root and is not its owner, or root: people's messages, agents' memories, keys.
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

/// Returns what of a root other users may look into, with its mode.
#[must_use]
pub fn open_to_others(root: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let modes = private_parts(root).into_iter().map(|(path, meta)| (path, meta.mode() & 0o7777));
    modes.filter(|(_, mode)| mode & 0o077 != 0).collect()
}

/// Closes what of a root other users may look into. Returns what could not be closed, and why.
#[must_use]
pub fn keep_private(root: &Path) -> Vec<(PathBuf, std::io::Error)> {
    use std::os::unix::fs::PermissionsExt as _;
    let close = |(path, mode): (PathBuf, u32)| {
        let closed = std::fs::Permissions::from_mode(mode & !0o077);
        std::fs::set_permissions(&path, closed).err().map(|error| (path, error))
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

/// From now on what this process makes can be read by others, unless it says otherwise or lies in a closed folder:
/// what agents are given has to be readable to their user, whatever we were started with.
pub fn set_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
}

/// How large `changes.log` gets before it becomes `changes.log.1`, bytes.
const CHANGES: u64 = 1 << 20;

/// Adds a line to `data/changes.log`. Of what is older, at most a file of the same size is kept.
///
/// # Errors
/// The operating system's.
pub fn append_change(data: &Path, line: &str) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let path = data.join("changes.log");
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() >= CHANGES) {
        std::fs::rename(&path, data.join("changes.log.1"))?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Returns a new random id: 32 hexadecimal digits.
///
/// # Errors
/// The kernel gives none.
pub fn new_id() -> std::io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim().replace('-', ""))
}

/// Returns what the kernel says of this process, a line each; empty where it says nothing.
#[must_use]
pub fn own_status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Returns a user's name, where `/etc/passwd` has it.
#[must_use]
pub fn user_name(user: u32) -> Option<String> {
    let all = std::fs::read_to_string("/etc/passwd").ok()?;
    all.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then(|| name.to_owned())
    })
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

/// A socket's path as the kernel takes it.
pub struct SocketName {
    path: PathBuf,
    /// What a short name leads through.
    _folder: Option<std::fs::File>,
}

impl SocketName {
    /// The most bytes that the kernel takes.
    const LONGEST: usize = 107;

    /// Returns the name of a socket: its path, and of one that is too long a name by its open folder.
    ///
    /// # Errors
    /// The operating system's, when the folder can't be opened.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _};
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        if path.as_os_str().len() <= Self::LONGEST {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        let flags = i32::try_from(flags.bits()).map_err(std::io::Error::other)?;
        let folder = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// Returns the name, which leads there for as long as `self` lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
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
