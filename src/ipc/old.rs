//! Files that an agent's program keeps for itself in `.claude`: transcripts, snapshots of files and shells, debug files. The
//! container writes there and may have laid any trap, so everything is reached by descriptors from the folder above, through no
//! link and no mount; what is removed is a name, never what it may lead to.
//!
//! Only places that are known are looked at. Skills, settings, memory and whatever else an agent keeps stay.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ipc_handlers::{Folder, Time, names::is_session_id};
use rustix::{fs::Stat, io::Errno};

use super::{
    dir::{self, Names},
    files::{At, Fd},
    names::FileKind,
    world_fault::WorldFault,
};
use crate::system::failpoint;

/// Folders in `.claude` whose contents are a program's own.
const PLACES: [&str; 11] = [
    "backups",
    "debug",
    "file-history",
    "image-cache",
    "logs",
    "paste-cache",
    "session-env",
    "shell-snapshots",
    "tasks",
    "telemetry",
    "todos",
];

/// The folder with one folder for each working folder, with the transcripts of sessions that were begun there.
const PROJECTS: &str = "projects";

/// How deep is looked; each folder on the way is held open meanwhile.
const DEEPEST: usize = 16;

/// How long the id is that sessions mostly have, characters.
const UUID: usize = 36;

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldFile {
    /// Below `.claude`.
    pub path: PathBuf,
    /// The session that it is named after, or that a folder around it is.
    pub session: Option<String>,
    /// When its contents were changed, as it says itself.
    pub changed: Time,
    /// What it takes on the disk, bytes; 0 of a folder.
    pub bytes: u64,
    pub is_folder: bool,
    /// Which file it is.
    ino: u64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// Folders after their contents.
    pub files: Vec<OldFile>,
    /// There may be more.
    pub partial: bool,
}

/// What became of files that were to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub files: usize,
    pub bytes: u64,
    /// Those that could not be removed.
    pub stuck: usize,
}

impl std::ops::AddAssign for Removed {
    fn add_assign(&mut self, more: Self) {
        self.files += more.files;
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.stuck += more.stuck;
    }
}

/// Returns what a group's agent keeps for itself, of at most `names` that are looked at.
///
/// # Errors
/// [`WorldFault`]: its folder can't be opened.
pub fn old_files<'a>(root: impl Into<At<'a>>, group: &Folder, names: usize) -> Result<Looked, WorldFault> {
    let Some(home) = open_home(root.into(), group)? else { return Ok(Looked::default()) };
    let mut looks = Looks { left: names, found: Looked::default() };
    for place in PLACES {
        looks.below(&home, Path::new(place), Within::Place);
    }
    looks.below(&home, Path::new(PROJECTS), Within::Projects);
    Ok(looks.found)
}

/// Removes files, those of them that are still the same, and folders that are empty.
///
/// # Errors
/// [`WorldFault`]: the group's folder can't be opened.
pub fn remove_old<'a, 'f>(
    root: impl Into<At<'a>>,
    group: &Folder,
    files: impl IntoIterator<Item = &'f OldFile>,
) -> Result<Removed, WorldFault> {
    let mut removed = Removed::default();
    let Some(home) = open_home(root.into(), group)? else { return Ok(removed) };
    for file in files {
        match remove_one(&home, file) {
            Ok(true) => {
                removed.files += 1;
                removed.bytes += file.bytes;
                failpoint::reach("old.removed");
            }
            Ok(false) => {}
            Err(_) => removed.stuck += 1,
        }
    }
    Ok(removed)
}

/// Opens a group's `.claude`; `None`: there is none, or something else stands there.
fn open_home(root: At<'_>, group: &Folder) -> Result<Option<Fd>, WorldFault> {
    let path = root.path.join("data/sessions").join(group.as_str());
    let opening =
        |error: Errno| WorldFault::new("opening", path.join(".claude").display().to_string(), error);
    let held = match root.files.at(&path).pass() {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(opening(error)),
    };
    match dir::open_dir(&held, ".claude") {
        Ok(home) => Ok(Some(home)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(opening(error)),
    }
}

/// Removes a file if it is still the one that was found, or a folder if it is empty; whether it was.
fn remove_one(home: &Fd, file: &OldFile) -> rustix::io::Result<bool> {
    let gone = |error: Errno| match error {
        // Its container was faster, or has put something else there.
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NOTEMPTY | Errno::EXIST => {
            Ok(false)
        }
        other => Err(other),
    };
    let (Some(parent), Some(name)) = (file.path.parent(), file.path.file_name()) else { return Ok(false) };
    let held = match dir::open_dir(home, parent) {
        Ok(held) => held,
        Err(error) => return gone(error),
    };
    let removed = dir::stat(&held, name).and_then(|stat| {
        let is_it = stat.st_ino == file.ino && (file.is_folder || changed(&stat) == file.changed);
        if !is_it {
            return Ok(false);
        }
        if file.is_folder { dir::remove_dir(&held, name) } else { dir::unlink_once(&held, name) }
            .map(|()| true)
    });
    removed.or_else(gone)
}

/// Where we are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Within {
    /// A place, all of it a program's own.
    Place,
    /// The folder of projects: each folder in it is one.
    Projects,
    /// A project: only what is named after a session, or an agent of one, is a program's own.
    Project,
    /// Something of this session.
    Session(String),
}

struct Looks {
    left: usize,
    found: Looked,
}

impl Looks {
    /// Notes what stands below a folder in `home`. Goes down by descriptors alone, each opened from its parent's.
    fn below(&mut self, home: &Fd, place: &Path, within: Within) {
        let Ok(top) = dir::open_dir(home, place).map(Names::of) else { return };
        let mut way = vec![(top, place.to_owned(), within, None)];
        loop {
            let depth = way.len();
            let Some((here, at, within, _)) = way.last_mut() else { return };
            let Some(Ok(name)) = here.next() else {
                // Behind what is in it.
                self.found.files.extend(way.pop().and_then(|(_, _, _, folder)| folder));
                continue;
            };
            if self.left == 0 {
                self.found.partial = true;
                return;
            }
            self.left -= 1;
            let name = OsStr::from_bytes(name.to_bytes());
            let held = here.folder();
            let Ok(stat) = dir::stat(held, name) else { continue };
            let is_folder = FileKind::of(&stat) == FileKind::Directory;
            let Some((within, is_own)) = entered(within, name, is_folder) else { continue };
            let session = match &within {
                Within::Session(id) => Some(id.clone()),
                Within::Place | Within::Projects | Within::Project => None,
            };
            let path = at.join(name);
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            let bytes = if is_folder { 0 } else { blocks.saturating_mul(512) };
            let file = is_own.then(|| OldFile {
                path: path.clone(),
                session,
                changed: changed(&stat),
                bytes,
                is_folder,
                ino: stat.st_ino,
            });
            if !is_folder {
                self.found.files.extend(file);
            } else if depth >= DEEPEST {
                self.found.partial = true;
            } else if let Ok(folder) = dir::open_dir(held, name).map(Names::of) {
                way.push((folder, path, within, file));
            }
        }
    }
}

/// Returns where an entry leads, and whether it is a program's own; `None`: nothing there is.
fn entered(within: &Within, name: &OsStr, is_folder: bool) -> Option<(Within, bool)> {
    let is_agents = || !is_folder && name.as_bytes().starts_with(b"agent-");
    Some(match within {
        Within::Session(id) => (Within::Session(id.clone()), true),
        Within::Place => (session_of(name).map_or(Within::Place, Within::Session), true),
        Within::Projects => is_folder.then_some((Within::Project, false))?,
        Within::Project => match name.to_str().and_then(uuid_of) {
            Some(id) => (Within::Session(id.to_owned()), true),
            // What agents of a session said stood beside its transcript once.
            None if is_agents() => (Within::Project, true),
            None => return None,
        },
    })
}

/// Returns the id of the session that a file may be named after: `ID.jsonl`, `ID-agent-….json`, `ID`.
fn session_of(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    let id = uuid_of(name).unwrap_or_else(|| name.split('.').next().unwrap_or(name));
    is_session_id(id).then(|| id.to_owned())
}

/// Returns the UUID with which a name begins.
fn uuid_of(name: &str) -> Option<&str> {
    name.get(..UUID).filter(|id| is_uuid(id))
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Returns when a file's contents were changed. A container can set that: it makes its own files older or younger by it, and no
/// others.
fn changed(stat: &Stat) -> Time {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Time(stat.st_mtime.saturating_mul(1_000).saturating_add(nanoseconds / 1_000_000))
}
