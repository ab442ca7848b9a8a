//! Removes folders that programs could write to, however deep they made them and however they closed them.

use std::{ffi::CStr, io, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmodat, openat, renameat, unlinkat},
    io::Errno,
    path::Arg,
};

/// Removes a folder with everything in it; that it is gone already is no error. Nothing is followed. The program that wrote
/// there has to have ended.
///
/// Each inner folder is emptied into the outermost one before it goes, so that depth takes neither stack nor descriptors nor long
/// paths.
///
/// # Errors
/// The operating system's.
pub fn remove(folder: &Path) -> io::Result<()> {
    let top = match open(CWD, folder) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        // A file, or a link to somewhere.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(CWD, folder, AtFlags::empty())?),
        Err(error) => return Err(error.into()),
    };
    let mut made = 0_u64;
    loop {
        let mut is_empty = true;
        each(&top, &mut |name| {
            is_empty = false;
            if is_unlinked(&top, name)? {
                return Ok(());
            }
            let inner = open(&top, name)?;
            each(&inner, &mut |below| match is_unlinked(&inner, below)? {
                true => Ok(()),
                false => move_up(&inner, below, &top, &mut made),
            })?;
            unlinkat(&top, name, AtFlags::REMOVEDIR)
        })?;
        if is_empty {
            return Ok(unlinkat(CWD, folder, AtFlags::REMOVEDIR)?);
        }
    }
}

/// Opens a folder so that it can be read and written, whatever mode it has.
fn open(at: impl std::os::fd::AsFd, name: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(&at, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(&at, name, Mode::RWXU, AtFlags::empty())?;
            openat(&at, name, flags, Mode::empty())
        }
        other => other,
    }?;
    rustix::fs::fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}

/// Calls `act` with each name in a folder.
fn each(folder: &OwnedFd, act: &mut dyn FnMut(&CStr) -> Result<(), Errno>) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            act(name)?;
        }
    }
    Ok(())
}

/// Removes a name; returns false if it is a folder's.
fn is_unlinked(at: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Moves a folder into the outermost one, under a name that nothing has there.
fn move_up(from: &OwnedFd, name: &CStr, top: &OwnedFd, made: &mut u64) -> Result<(), Errno> {
    loop {
        *made += 1;
        match renameat(from, name, top, format!(".{made}")) {
            // A folder that is closed can't be given another parent.
            Err(Errno::ACCESS) => {
                chmodat(from, name, Mode::RWXU, AtFlags::empty())?;
                return renameat(from, name, top, format!(".{made}"));
            }
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes what is removed")]
mod tests {
    use std::fs;

    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn a_folder_goes_however_deep_it_is_and_nothing_outside_does() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("spool");
        fs::create_dir(&folder).unwrap();
        fs::write(dir.path().join("mine"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path(), folder.join("out")).unwrap();
        // Names that would be used on the way.
        fs::write(folder.join(".1"), "x").unwrap();
        fs::create_dir_all(folder.join(".2/full")).unwrap();
        let mut at = open(CWD, &folder).unwrap();
        for _ in 0..20_000 {
            mkdirat(&at, c"d", Mode::RWXU).unwrap();
            mkdirat(&at, c"beside", Mode::RUSR).unwrap();
            at = open(&at, c"d").unwrap();
        }
        drop(at);
        remove(&folder).unwrap();
        assert!(!folder.exists());
        assert_eq!(fs::read(dir.path().join("mine")).unwrap(), b"x");
        remove(&folder).unwrap();
        std::os::unix::fs::symlink(dir.path(), &folder).unwrap();
        remove(&folder).unwrap();
        assert!(folder.symlink_metadata().is_err() && dir.path().join("mine").exists());
    }
}
