//! Kept files, laid out for programs that read them.

use std::{fs::File, io, path::Path};

use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
};

use super::{
    Digest, Media,
    beneath::{BENEATH, unlink},
};

/// A copy of a kept file for somebody who reads it while this lives.
#[derive(Debug)]
pub struct LaidOut {
    folder: OwnedFd,
    relative: String,
}

impl Drop for LaidOut {
    fn drop(&mut self) {
        // It may be gone with its folder.
        let _ = unlink(&self.folder, &self.relative);
    }
}

impl Media {
    /// Lays a copy of a kept file at `relative` below `folder`, where nothing has that name; others may write there, so nothing
    /// below the folder is followed. It belongs to the folder's owner, who may be another user than we are. It is gone again when what is returned is dropped.
    ///
    /// # Errors
    /// The operating system's.
    pub fn lay_out(&self, digest: &Digest, folder: &Path, relative: &str) -> io::Result<LaidOut> {
        let mut from = self.read(digest)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = rustix::fs::openat2(&folder, relative, flags, Mode::from_raw_mode(0o400), BENEATH)?;
        let (to, us) = (rustix::fs::fstat(&folder)?, rustix::fs::fstat(&made)?);
        if (to.st_uid, to.st_gid) != (us.st_uid, us.st_gid) {
            let (user, group) = (rustix::fs::Uid::from_raw(to.st_uid), rustix::fs::Gid::from_raw(to.st_gid));
            rustix::fs::fchown(&made, Some(user), Some(group))?;
        }
        let laid = LaidOut { folder, relative: relative.to_owned() };
        io::copy(&mut from, &mut File::from(made))?;
        Ok(laid)
    }

    /// Removes a file that is not kept, below a folder of a channel's own.
    pub fn discard(&self, folder: &Path, relative: &str) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(folder) = rustix::fs::open(folder, flags, Mode::empty()) {
            let _ = unlink(folder, relative);
        }
    }
}
