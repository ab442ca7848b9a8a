//! Files and folders below a folder that is trusted: nothing below it is followed, for others may write there.

use std::{io, ops::ControlFlow};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Nothing below a trusted folder leads anywhere else.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Opens a file beneath a folder for reading: through no link, onto no other file system, and without waiting.
pub(super) fn open_beneath(folder: impl AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), BENEATH)
}

/// Opens a folder of ours, made where it is not there.
pub(super) fn make(at: impl AsFd, name: &str, mode: u32) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(at.as_fd(), name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(open_folder(at, name)?),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn open_folder(at: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(at, name, flags, Mode::empty(), BENEATH)
}

/// Calls `visit` with each name in a folder.
pub(super) fn each(
    folder: impl AsFd,
    mut visit: impl FnMut(&std::ffi::CStr, FileType) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut names = Dir::new(open_folder(folder, ".")?)?;
    while let Some(entry) = names.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." && visit(name, entry.file_type()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Calls `visit` with each folder in a folder, and its name.
pub(super) fn for_folders(
    folder: impl AsFd,
    mut visit: impl FnMut(&OwnedFd, &str) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut names = Vec::new();
    each(folder.as_fd(), |name, _| {
        names.extend(name.to_str().map(str::to_owned));
        ControlFlow::Continue(())
    })?;
    for name in names {
        match open_folder(folder.as_fd(), &name) {
            Ok(inner) => {
                if visit(&inner, &name)?.is_break() {
                    break;
                }
            }
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes a file beneath a folder.
pub(super) fn unlink(folder: impl AsFd, path: &str) -> rustix::io::Result<()> {
    match path.rsplit_once('/') {
        Some((above, name)) => rustix::fs::unlinkat(open_folder(folder, above)?, name, AtFlags::empty()),
        None => rustix::fs::unlinkat(folder, path, AtFlags::empty()),
    }
}
