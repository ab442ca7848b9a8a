//! A new group's folder under `groups/`. Once it is mounted its container can write to it, so nothing in it is followed
//! or replaced.

use std::{ops::ControlFlow, path::Path, sync::Mutex};

use ipc_handlers::Folder;
use rustix::{fs::Mode, io::Errno};

use super::{
    dir,
    files::{At, Fd},
    host::{Owner, give_to},
    inside::{InsideError, read_inside},
    world_fault::WorldFault,
};
use crate::domain::kept::folders::There;
use crate::system::locked::Locked as _;

/// The largest `groups/_template/CLAUDE.md`, bytes.
const TEMPLATE_LIMIT: u64 = 1 << 20;
/// The name of a memory.
pub(super) const MEMORY: &str = "CLAUDE.md";
/// The memory while it is written.
const BUILDING: &str = ".CLAUDE.md.new";
/// The template while it is made.
const TEMPLATE_BUILDING: &str = "._template.new";
/// Held while a group is laid out: an operation and the loop that hears of its group may be at it at the same time.
/// Another process never is, as this one has the root's lock.
static LAYING_OUT: Mutex<()> = Mutex::new(());

/// Returns what stands at the place of a group's folder. A link there is its owner's, and is followed.
///
/// # Errors
/// [`WorldFault`] when it can't be looked at.
pub fn look_at_folder<'a>(root: impl Into<At<'a>>, group: &Folder) -> Result<There, WorldFault> {
    let root = root.into();
    let path = root.path.join("groups").join(group.as_str());
    let looking = |e: Errno| WorldFault::new("looking at", path.display().to_string(), e);
    let folder = match root.files.at(&path).open() {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(There::Missing),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(There::NoFolder),
        Err(error) => return Err(looking(error)),
    };
    let mut there = There::Empty;
    dir::each_name_of(&folder, |name, _| {
        if dir::os(name) == BUILDING {
            return ControlFlow::Continue(());
        }
        there = There::HasFiles;
        ControlFlow::Break(())
    })
    .map_err(looking)?;
    Ok(there)
}

/// What a new root's groups begin with, by name in `groups/_template`.
const TEMPLATE: [(&str, &str); 2] = [
    ("README.md", include_str!("../../groups/_template/README.md")),
    (MEMORY, include_str!("../../groups/_template/CLAUDE.md")),
];

/// Makes `groups/_template` with its files. One that is there stays as it is, with files or without.
///
/// # Errors
/// [`WorldFault`] when something can't be made.
pub fn lay_out_template<'a>(root: impl Into<At<'a>>) -> Result<(), WorldFault> {
    let root = root.into();
    let groups = root.path.join("groups");
    let making = |e: Errno| WorldFault::new("making", groups.join("_template").display().to_string(), e);
    let held = open_groups(root.files.at(&groups)).map_err(making)?;
    if dir::stat(&held, "_template").is_ok() {
        return Ok(());
    }
    // It gets its name once it is whole.
    let building = dir::make_dir(&held, TEMPLATE_BUILDING, 0o700).map_err(making)?;
    for (name, text) in TEMPLATE {
        dir::unlink(&building, name).map_err(making)?;
        let file = dir::create_new(&building, name, Mode::from_raw_mode(0o644)).map_err(making)?;
        dir::write_all(&file, text.as_bytes()).map_err(|e| WorldFault::new("writing", name, e))?;
    }
    match dir::rename_new(&held, TEMPLATE_BUILDING, &held, "_template") {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(making(error)),
    }
}

/// Opens the folder of all groups, having made it if need be.
fn open_groups(groups: At<'_>) -> rustix::io::Result<Fd> {
    groups.make(0o700)?;
    groups.open()
}

/// What a folder's memory begins with.
#[derive(Clone, Copy)]
enum Begins<'a> {
    /// With `groups/_template/CLAUDE.md`, where there is one.
    AsTheTemplate,
    With(&'a str),
}

/// What came of a memory that was to be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaidOut {
    /// It is new.
    New,
    /// Something stood there, which stays.
    Kept,
}

/// Makes a group's folder, with `groups/_template/CLAUDE.md` where there is one, both `owner`'s. What is there already
/// stays.
///
/// # Errors
/// [`WorldFault`] when something can't be made, or a link stands where the folder should be.
pub fn lay_out_group<'a>(
    root: impl Into<At<'a>>,
    group: &Folder,
    owner: Option<Owner>,
) -> Result<(), WorldFault> {
    let root = root.into();
    lay_out_template(root)?;
    lay_out(root, group.as_str(), owner, Begins::AsTheTemplate).map(drop)
}

/// Makes a group's folder with a memory that begins with `text`, both `owner`'s. What is there already stays.
///
/// # Errors
/// As those of [`lay_out_group`].
pub fn lay_out_group_with<'a>(
    root: impl Into<At<'a>>,
    group: &Folder,
    owner: Option<Owner>,
    text: &str,
) -> Result<LaidOut, WorldFault> {
    lay_out(root.into(), group.as_str(), owner, Begins::With(text))
}

/// Takes away what [`lay_out_group_with`] has newly made for a group that is none after all: its memory, and the folder if that is
/// empty then.
///
/// # Errors
/// [`WorldFault`] when the memory can't be removed.
pub fn take_back_group<'a>(root: impl Into<At<'a>>, group: &Folder) -> Result<(), WorldFault> {
    let _turn = LAYING_OUT.locked();
    let root: At<'_> = root.into();
    let groups = root.path.join("groups");
    let removing =
        |e: Errno| WorldFault::new("removing", groups.join(group.as_str()).display().to_string(), e);
    let held = open_groups(root.files.at(&groups)).map_err(removing)?;
    let folder = dir::open_dir(&held, group.as_str()).map_err(removing)?;
    dir::unlink(&folder, MEMORY).map_err(removing)?;
    match dir::remove_dir(&held, group.as_str()) {
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(error) => Err(removing(error)),
    }
}

/// Makes the folder of the memory that all groups share, with a memory that begins with `text`. What is there already stays.
///
/// # Errors
/// As those of [`lay_out_group`].
pub fn lay_out_global<'a>(root: impl Into<At<'a>>, text: &str) -> Result<LaidOut, WorldFault> {
    lay_out(root.into(), "global", None, Begins::With(text))
}

fn lay_out(
    root: At<'_>,
    name: &str,
    owner: Option<Owner>,
    begins: Begins<'_>,
) -> Result<LaidOut, WorldFault> {
    let _turn = LAYING_OUT.locked();
    let groups = root.path.join("groups");
    let path = groups.join(name);
    let making = |e: Errno| WorldFault::new("making", path.display().to_string(), e);
    let held = open_groups(root.files.at(&groups)).map_err(making)?;
    let folder = dir::make_dir(&held, name, 0o700).map_err(making)?;
    give_to(&folder, owner).map_err(making)?;
    if dir::stat(&folder, MEMORY).is_ok() {
        return Ok(LaidOut::Kept);
    }
    let template;
    let text = match begins {
        Begins::With(text) => text.as_bytes(),
        Begins::AsTheTemplate => {
            match read_inside(root.files.at(&groups), Path::new("_template/CLAUDE.md"), TEMPLATE_LIMIT) {
                Ok(read) => template = read.bytes,
                Err(InsideError::Absent(_) | InsideError::NotAFile(_)) => return Ok(LaidOut::Kept),
                Err(InsideError::World(error)) => return Err(error),
            }
            &template[..]
        }
    };
    dir::unlink(&folder, BUILDING).map_err(making)?;
    let file = dir::create_new(&folder, BUILDING, Mode::from_raw_mode(0o644)).map_err(making)?;
    dir::write_all(&file, text).map_err(|e| WorldFault::new("writing", path.display().to_string(), e))?;
    give_to(&file, owner).map_err(making)?;
    match dir::rename_new(&folder, BUILDING, &folder, MEMORY) {
        Ok(()) => Ok(LaidOut::New),
        // Its agent was faster.
        Err(Errno::EXIST) => dir::unlink(&folder, BUILDING).map(|()| LaidOut::Kept).map_err(making),
        Err(e) => Err(making(e)),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay folders out")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_files_once_there_is_something_in_it_but_a_memory_in_the_making() {
        let root = tempfile::tempdir().unwrap();
        let look = |name: &str| look_at_folder(root.path(), &Folder::parse(name).unwrap()).unwrap();
        let groups = root.path().join("groups");
        assert_eq!(look("none"), There::Missing);
        for name in ["empty", "begun", "made"] {
            std::fs::create_dir_all(groups.join(name)).unwrap();
        }
        std::fs::write(groups.join("begun").join(BUILDING), "").unwrap();
        std::fs::write(groups.join("made").join("x"), "").unwrap();
        std::fs::write(groups.join("file"), "").unwrap();
        std::os::unix::fs::symlink("made", groups.join("linked")).unwrap();
        std::os::unix::fs::symlink("nowhere", groups.join("dangling")).unwrap();
        let looked = ["none", "empty", "begun", "made", "file", "linked", "dangling"].map(look);
        use There::{Empty, HasFiles, Missing, NoFolder};
        assert_eq!(looked, [Missing, Empty, Empty, HasFiles, NoFolder, HasFiles, Missing]);
    }

    #[test]
    fn a_group_that_several_lay_out_at_once_has_its_whole_memory() {
        let root = tempfile::tempdir().unwrap();
        let template = "remember\n".repeat(50_000);
        std::fs::create_dir_all(root.path().join("groups/_template")).unwrap();
        std::fs::write(root.path().join("groups/_template/CLAUDE.md"), &template).unwrap();
        for n in 0..20 {
            let group = Folder::parse(&format!("g{n}")).unwrap();
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| lay_out_group(root.path(), &group, None).unwrap());
                }
            });
            let folder = root.path().join("groups").join(group.as_str());
            assert_eq!(std::fs::read_to_string(folder.join(MEMORY)).unwrap(), template);
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "nothing is left beside it");
        }
    }
}
