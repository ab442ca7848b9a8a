//! Looking into the mailbox from outside the daemon: for the command line, with the daemon up or down. Opens no more of
//! what a container wrote than small regular files ([`head`]), makes nothing, moves nothing. (`doctor` tries out
//! watches and a link, which end with the try.)

mod queue;

use ipc_handlers::{Folder, Time};
use rustix::io::Errno;

pub use self::queue::{
    HEAD_LIMIT, LOOKED_AT, Lying, Waiting, claimed, each_waiting, files_of, head, origins, waiting,
    waiting_file,
};
use super::{
    files::At,
    host::{Owner, can_link},
    kernel::Attributes,
    names::{BoxName, CommandBox, FileKind},
    world_fault::WorldFault,
};

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
    pub kind: FileKind,
    pub owner: Owner,
    /// The permission bits.
    pub mode: u32,
    /// Its container gave it flags or a project that the folder above it has not.
    pub marked: bool,
}

/// Returns what stands where a group's five boxes belong.
///
/// # Errors
/// [`WorldFault`] when it can't be looked at.
pub fn boxes<'a>(data: impl Into<At<'a>>, group: &Folder) -> Result<Vec<Lies>, WorldFault> {
    let At { files, path } = data.into();
    let attributes = |at: At<'_>| Attributes::of(&at.open_itself().ok()?);
    let mailbox = path.join("ipc").join(group.as_str());
    let model = attributes(files.at(&mailbox));
    BoxName::ALL
        .into_iter()
        .map(|which| {
            let path = mailbox.join(which.as_str());
            let as_what = match files.at(&path).stat() {
                Ok(stat) => Some(LiesAs {
                    kind: FileKind::of(&stat),
                    owner: (stat.st_uid, stat.st_gid),
                    mode: stat.st_mode & 0o7777,
                    marked: attributes(files.at(&path))
                        .is_some_and(|is| model.is_some_and(|model| is != model)),
                }),
                Err(Errno::NOENT | Errno::NOTDIR) => None,
                Err(error) => return Err(WorldFault::new("looking at", path.display().to_string(), error)),
            };
            Ok(Lies { which, as_what })
        })
        .collect()
}

/// Returns when a group's heartbeat was last touched, by the kernel's own stamp, and at the latest now; `None`: there is none.
#[must_use]
pub fn heard_of<'a>(data: impl Into<At<'a>>, group: &Folder, now: Time) -> Option<Time> {
    let At { files, path } = data.into();
    let path = path.join("ipc").join(group.as_str()).join(BoxName::State.as_str()).join("heartbeat");
    let stat = files.at(&path).stat().ok()?;
    let ms = stat
        .st_ctime
        .saturating_mul(1000)
        .saturating_add(i64::try_from(stat.st_ctime_nsec).unwrap_or(0) / 1_000_000);
    Some(Time(ms).min(now))
}

/// Whether the file system of a folder has what commands are told apart and moved by: file handles, attributes of users,
/// links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Without them a command's origin is made durable by two more syncs.
    pub file_handles: bool,
    /// Without them a claim that a crash left does not say from which box it came.
    pub attributes: bool,
    /// Without links, and files without a name, a container that is hostile can keep all others waiting.
    pub links: bool,
}

/// Returns what the file system of `data` can do.
///
/// # Errors
/// [`WorldFault`] when the folder can't be opened.
pub fn abilities<'a>(data: impl Into<At<'a>>) -> Result<Abilities, WorldFault> {
    let data = data.into();
    let held = data.open().map_err(|e| WorldFault::new("opening", data.path.display().to_string(), e))?;
    let mut value = [0_u8; 1];
    // An attribute that nobody has set tells as well as one that is there.
    let attributes = !matches!(held.attribute(c"user.g2", &mut value), Err(Errno::NOTSUP));
    let links = can_link(&held, &data.files.hands().on_its_way());
    Ok(Abilities { file_handles: held.handle().is_some(), attributes, links })
}

/// Why not every box can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWatched {
    /// This user may have no other inotify instance.
    NoInstance,
    /// Only this many boxes.
    OnlySoMany(usize),
}

/// Tries whether the command boxes of `groups` can all be watched now; those that are not there count as watched.
///
/// # Errors
/// [`NotWatched`] when the kernel's limits are reached.
pub fn try_watching<'a>(
    data: &std::path::Path,
    groups: impl IntoIterator<Item = &'a Folder>,
) -> Result<(), NotWatched> {
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
