//! A new group's folder under `groups/`. Once it is mounted its container can write to it, so nothing in it is followed
//! or replaced.

use std::{
    fs::File,
    io::Write as _,
    ops::ControlFlow,
    path::Path,
    sync::{Mutex, PoisonError},
};

use ipc_handlers::Folder;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    dir,
    host::{Owner, give_to},
    inside::{InsideError, read_inside},
    world::World,
};

/// The largest `groups/_template/CLAUDE.md`, bytes.
const TEMPLATE_LIMIT: u64 = 1 << 20;
const MEMORY: &str = "CLAUDE.md";
/// The memory while it is written.
const BUILDING: &str = ".CLAUDE.md.new";
/// Held while a group is laid out: an operation and the loop that hears of its group may be at it at the same time.
/// Another process never is, as this one has the root's lock.
static LAYING_OUT: Mutex<()> = Mutex::new(());

/// Returns those of `groups` whose folders were not made, or only begun: there is nothing in them.
#[must_use]
pub fn not_laid_out(root: &Path, groups: Vec<Folder>) -> Vec<Folder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(held) = rustix::fs::open(root.join("groups"), flags, Mode::empty()) else { return groups };
    let is_laid_out = |group: &Folder| {
        let Ok(folder) = dir::open_dir(&held, group.as_str()) else { return false };
        let mut found = false;
        let looked = dir::each_name(&folder, |name, _| {
            found = dir::os(name) != BUILDING;
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        looked.is_ok() && found
    };
    groups.into_iter().filter(|group| !is_laid_out(group)).collect()
}

/// Makes a group's folder, with `groups/_template/CLAUDE.md` where there is one, both `owner`'s. What is there already
/// stays.
///
/// # Errors
/// [`World`] when something can't be made, or a link stands where the folder should be.
pub fn lay_out_group(root: &Path, group: &Folder, owner: Option<Owner>) -> Result<(), World> {
    let _turn = LAYING_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let groups = root.join("groups");
    let path = groups.join(group.as_str());
    let making = |e: Errno| World::new("making", path.display().to_string(), e);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::mkdir(&groups, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(making(e)),
    }
    let held = rustix::fs::open(&groups, flags, Mode::empty()).map_err(making)?;
    let folder = dir::make_dir(&held, group.as_str(), 0o700).map_err(making)?;
    give_to(&folder, owner).map_err(making)?;
    if dir::stat(&folder, MEMORY).is_ok() {
        return Ok(());
    }
    let template = match read_inside(&groups, Path::new("_template/CLAUDE.md"), TEMPLATE_LIMIT) {
        Ok(template) => template.bytes,
        Err(InsideError::Absent(_) | InsideError::NotAFile(_)) => return Ok(()),
        Err(InsideError::World(error)) => return Err(error),
    };
    dir::unlink(&folder, BUILDING).map_err(making)?;
    let mut file: File = dir::create_new(&folder, BUILDING, Mode::from_raw_mode(0o644)).map_err(making)?;
    file.write_all(&template).map_err(|e| World::new("writing", path.display().to_string(), e))?;
    give_to(&file, owner).map_err(making)?;
    match dir::rename_new(&folder, BUILDING, &folder, MEMORY) {
        // Its agent was faster.
        Ok(()) | Err(Errno::EXIST) => dir::unlink(&folder, BUILDING).map_err(making),
        Err(e) => Err(making(e)),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay folders out")]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_laid_out_once_there_is_something_in_its_folder_but_a_memory_in_the_making() {
        let root = tempfile::tempdir().unwrap();
        let groups = || ["none", "empty", "begun", "made"].map(|name| Folder::parse(name).unwrap()).to_vec();
        assert_eq!(not_laid_out(root.path(), groups()), groups());
        for name in ["empty", "begun", "made"] {
            std::fs::create_dir_all(root.path().join("groups").join(name)).unwrap();
        }
        std::fs::write(root.path().join("groups/begun").join(BUILDING), "").unwrap();
        std::fs::write(root.path().join("groups/made").join("x"), "").unwrap();
        assert_eq!(not_laid_out(root.path(), groups()), &groups()[..3]);
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
