//! Looking into the mailbox from outside the daemon: for the command line, with the daemon up or down. Opens nothing
//! that a container wrote, makes nothing, moves nothing. (`doctor` tries out watches, which end with the try.)

use std::{ops::ControlFlow, path::Path};

use ipc_handlers::Folder;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    dir,
    host::Owner,
    names::{BoxName, CommandBox, Kind, display_name, is_command_name},
    world::World,
};

/// A command file that nobody has claimed, or that was claimed and is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lying {
    /// The claim's id; `None` while the file waits in its box.
    pub claim: Option<i64>,
    pub group: String,
    /// The box it waits in; `None` for a claimed one.
    pub in_box: Option<CommandBox>,
    /// Safe to print.
    pub name: String,
    /// When it came, ms since the epoch.
    pub since_ms: i64,
    /// A directory is never claimed.
    pub is_directory: bool,
}

/// How many files are told of in one folder.
const MOST: usize = 10_000;

/// Returns what waits in a group's two command boxes, oldest first.
///
/// # Errors
/// [`World`] when a box can't be read; one that is not there is empty.
pub fn waiting(data: &Path, group: &Folder) -> Result<Vec<Lying>, World> {
    let mut found = Vec::new();
    for in_box in CommandBox::ALL {
        let path = data.join("ipc").join(group.as_str()).join(in_box.as_str());
        look(
            &path,
            |name, kind, since_ms| {
                is_command_name(name).then(|| Lying {
                    claim: None,
                    group: group.to_string(),
                    in_box: Some(in_box),
                    name: display_name(name),
                    since_ms,
                    is_directory: kind == Kind::Directory,
                })
            },
            &mut found,
        )?;
    }
    found.sort_by(|a, b| (a.since_ms, &a.name).cmp(&(b.since_ms, &b.name)));
    Ok(found)
}

/// Returns what is claimed and not settled, in the order of the claims.
///
/// # Errors
/// [`World`] when the folder can't be read; one that is not there is empty.
pub fn claimed(data: &Path) -> Result<Vec<Lying>, World> {
    let mut found = Vec::new();
    look(
        &data.join("claimed"),
        |name, kind, since_ms| {
            let (id, folder) = super::mailbox::parse(name)?;
            Some(Lying {
                claim: Some(id),
                group: folder.to_string(),
                in_box: None,
                name: display_name(name),
                since_ms,
                is_directory: kind == Kind::Directory,
            })
        },
        &mut found,
    )?;
    found.sort_by_key(|lying| lying.claim);
    Ok(found)
}

/// A box as it lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lies {
    pub which: BoxName,
    /// `None`: nothing is there.
    pub as_what: Option<LiesAs>,
}

/// What stands at a box's name, by `lstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiesAs {
    pub kind: Kind,
    pub owner: Owner,
    /// The permission bits.
    pub mode: u32,
}

/// Returns what stands where a group's five boxes belong.
///
/// # Errors
/// [`World`] when it can't be looked at.
pub fn boxes(data: &Path, group: &Folder) -> Result<Vec<Lies>, World> {
    BoxName::ALL
        .into_iter()
        .map(|which| {
            let path = data.join("ipc").join(group.as_str()).join(which.as_str());
            let as_what = match rustix::fs::lstat(&path) {
                Ok(stat) => Some(LiesAs {
                    kind: Kind::of(&stat),
                    owner: (stat.st_uid, stat.st_gid),
                    mode: stat.st_mode & 0o7777,
                }),
                Err(Errno::NOENT | Errno::NOTDIR) => None,
                Err(error) => return Err(World::new("looking at", path.display().to_string(), error)),
            };
            Ok(Lies { which, as_what })
        })
        .collect()
}

/// Whether the file system of a folder has what commands are told apart by: file handles, and attributes of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Without them a command's origin is made durable by two more syncs.
    pub file_handles: bool,
    /// Without them a claim that a crash left does not say from which box it came.
    pub attributes: bool,
}

/// Returns what the file system of `data` can do.
///
/// # Errors
/// [`World`] when the folder can't be opened.
pub fn abilities(data: &Path) -> Result<Abilities, World> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(data, flags, Mode::empty())
        .map_err(|e| World::new("opening", data.display().to_string(), e))?;
    let mut value = [0_u8; 1];
    // An attribute that nobody has set tells as well as one that is there.
    let attributes = !matches!(rustix::fs::fgetxattr(&held, "user.g2", &mut value), Err(Errno::NOTSUP));
    Ok(Abilities { file_handles: super::kernel::file_handle(&held).is_some(), attributes })
}

/// Why not every box can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWatched {
    /// This user may have no other inotify instance.
    NoInstance,
    /// Only so many boxes.
    OnlySoMany(usize),
}

/// Tries whether the command boxes of `groups` can all be watched now; those that are not there count as watched.
///
/// # Errors
/// [`NotWatched`] when the kernel's limits are reached.
pub fn try_watching<'a>(data: &Path, groups: impl IntoIterator<Item = &'a Folder>) -> Result<(), NotWatched> {
    use rustix::fs::inotify;
    let Ok(instance) = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK) else {
        return Err(NotWatched::NoInstance);
    };
    let mut watched = 0;
    for group in groups {
        for in_box in CommandBox::ALL {
            let path = data.join("ipc").join(group.as_str()).join(in_box.as_str());
            let flags = inotify::WatchFlags::CLOSE_WRITE
                | inotify::WatchFlags::ONLYDIR
                | inotify::WatchFlags::DONT_FOLLOW;
            if let Err(Errno::NOSPC) = inotify::add_watch(&instance, &path, flags) {
                return Err(NotWatched::OnlySoMany(watched));
            }
            watched += 1;
        }
    }
    Ok(())
}

fn look(
    path: &Path,
    mut take: impl FnMut(&std::ffi::OsStr, Kind, i64) -> Option<Lying>,
    found: &mut Vec<Lying>,
) -> Result<(), World> {
    let reading = |e: Errno| World::new("reading", path.display().to_string(), e);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let held = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(reading(error)),
    };
    dir::each_name(&held, |name, _| {
        if let Ok(stat) = dir::stat(&held, name) {
            let since = stat
                .st_ctime
                .saturating_mul(1000)
                .saturating_add(i64::try_from(stat.st_ctime_nsec).unwrap_or(0) / 1_000_000);
            found.extend(take(dir::os(name), Kind::of(&stat), since));
        }
        if found.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(reading)
}
