//! The user that a program which is shut in runs as, under a daemon that is root.
//!
//! | it writes | it runs as |
//! |---|---|
//! | its own folder alone | a user of its own, which nobody else is: the owner of its folder, chosen when the folder is new |
//! | a folder of the owner's, too | the owner of that folder |
#![expect(clippy::disallowed_methods, reason = "looks at the folders of programs that are shut in")]

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat},
    process::{Gid, Uid},
    thread::{CapabilitySet, CapabilitySets},
};

use crate::system::{process, world::World};

/// The users of programs: from this number on. No service manager and no engine gives these out.
const FIRST: u32 = 2_000_000_000;
const COUNT: u32 = 100_000_000;

/// Returns the user that a program is to run as.
pub(super) fn choose(world: &World, own: &[PathBuf], writes: &[PathBuf]) -> u32 {
    let owner = |path: &Path| fs::metadata(path).ok().map(|meta| meta.uid());
    let of_owner = writes.iter().find_map(|path| owner(path));
    let chosen = || own.first().and_then(|path| owner(path)).filter(|user| is_own(*user));
    let any = || FIRST + u32::try_from(world.number() % u64::from(COUNT)).unwrap_or_default();
    of_owner.or_else(chosen).unwrap_or_else(any)
}

/// Makes a user the owner of folders, and of everything in those that are not its own yet.
///
/// # Errors
/// A folder can't be given away.
pub(super) fn keep(own: &[PathBuf], user: u32) -> io::Result<()> {
    for folder in own {
        if fs::metadata(folder)?.uid() != user {
            give(folder, user)?;
        }
    }
    Ok(())
}

/// Whether nobody but a program is this user.
pub(super) fn is_own(user: u32) -> bool {
    (FIRST..FIRST + COUNT).contains(&user)
}

/// Makes a user the owner of a folder and of everything in it. Nothing is followed, and a file with a second name is left alone:
/// it may be somebody else's.
fn give(folder: &Path, user: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let top = rustix::fs::open(folder, flags, Mode::empty())?;
    let (uid, gid) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(user)));
    let mut inner = vec![PathBuf::from(".")];
    while let Some(path) = inner.pop() {
        let at = rustix::fs::openat2(&top, &path, flags, Mode::empty(), beneath)?;
        for entry in rustix::fs::Dir::read_from(&at)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat: Stat = rustix::fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    use std::os::unix::ffi::OsStrExt as _;
                    inner.push(path.join(std::ffi::OsStr::from_bytes(name.to_bytes())));
                }
                FileType::RegularFile if stat.st_nlink > 1 => {}
                _ => rustix::fs::chownat(&at, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?,
            }
        }
        if path.as_os_str() != "." {
            rustix::fs::fchown(&at, uid, gid)?;
        }
    }
    // Last, so that a folder which has its new owner is done.
    Ok(rustix::fs::fchown(&top, uid, gid)?)
}

/// From now on this process is this user, in no group but its own, and may do nothing that others may not; `None`: it stays who it
/// is, without any rights.
pub(super) fn turn_into(user: Option<u32>) -> io::Result<()> {
    for right in CapabilitySet::all().iter() {
        // The kernel knows fewer, and an ordinary user may not give up what it can't have.
        let _ = rustix::thread::remove_capability_from_bounding_set(right);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    if process::own_ids().0 == 0 {
        // A machine's root of a kind that may not do so keeps root's own groups.
        let groups = rustix::thread::set_thread_groups(&[]);
        if let Some(user) = user {
            groups?;
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        }
    }
    // Where the walls need none, it is known by this: `leftovers::is_shut_in`.
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}
