//! The folders under `data/` that only the host writes to, held open, and files built there.
//!
//! Every file that a container will see is built in `data/tmp/` and renamed to its place, so no container-writable
//! name is ever opened for writing and no reader sees half a file.

use std::{
    fmt,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::{
    fd::OwnedFd,
    fs::{Gid, Mode, OFlags, Uid},
    io::Errno,
};

use super::{dir, world::World};

/// User and group id.
pub type Owner = (u32, u32);

/// The host-only folders of one root; opened once, after the lock was taken, and shared.
pub struct HostDirs {
    path: PathBuf,
    pub(super) ipc: OwnedFd,
    pub(super) claimed: OwnedFd,
    pub(super) done: OwnedFd,
    pub(super) dead: OwnedFd,
    tmp: OwnedFd,
    pub(super) trash: OwnedFd,
    next: AtomicU64,
    /// Something went to the trash since anybody asked.
    discarded: AtomicBool,
}

impl HostDirs {
    /// Opens `data` and makes what is missing in it. What a daemon that died left in `tmp/` goes to the trash.
    ///
    /// # Errors
    /// [`World`] when a folder can't be made or opened, or is a link.
    pub fn open(data: &Path) -> Result<Arc<Self>, World> {
        let path =
            std::path::absolute(data).map_err(|e| World::new("finding", data.display().to_string(), e))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|e| World::new("opening", path.display().to_string(), e))?;
        let make = |name: &str, mode| {
            dir::make_dir(&held, name, mode)
                .map_err(|e| World::new("making", path.join(name).display().to_string(), e))
        };
        let tmp = make("tmp", 0o700)?;
        let trash = dir::make_dir(&tmp, "trash", 0o700)
            .map_err(|e| World::new("making", path.join("tmp/trash").display().to_string(), e))?;
        let dirs = Self {
            ipc: make("ipc", 0o755)?,
            claimed: make("claimed", 0o700)?,
            done: make("done", 0o700)?,
            dead: make("dead", 0o700)?,
            tmp,
            trash,
            next: AtomicU64::new(1),
            discarded: AtomicBool::new(false),
            path,
        };
        dirs.clear_tmp()?;
        Ok(Arc::new(dirs))
    }

    /// Returns `data/`, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Builds a file of mode 0644 in `tmp/`; it is gone again unless [`Built::place`] puts it somewhere.
    pub(super) fn build(&self, bytes: &[u8], owner: Option<Owner>) -> Result<Built<'_>, World> {
        self.build_as(bytes, 0o644, owner)
    }

    /// Like [`HostDirs::build`], of another mode.
    pub(super) fn build_as(&self, bytes: &[u8], mode: u32, owner: Option<Owner>) -> Result<Built<'_>, World> {
        self.build_file(mode, owner, |file| file.write_all(bytes))
    }

    /// Like [`HostDirs::build`], of what `fill` writes piece by piece.
    pub(super) fn build_with(
        &self,
        owner: Option<Owner>,
        fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<Built<'_>, World> {
        self.build_file(0o644, owner, |file| {
            let mut pieces = io::BufWriter::with_capacity(64 << 10, file);
            fill(&mut pieces)?;
            pieces.flush()
        })
    }

    fn build_file(
        &self,
        mode: u32,
        owner: Option<Owner>,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Built<'_>, World> {
        let (name, mut file) = loop {
            let name = self.unused_name();
            match dir::create_new(&self.tmp, &name, Mode::from_raw_mode(mode)) {
                Ok(file) => break (name, file),
                Err(Errno::EXIST) => {}
                Err(other) => return Err(World::new("making", format!("data/tmp/{name}"), other)),
            }
        };
        let failed = |e| World::new("writing", format!("data/tmp/{name}"), e);
        let built = Built { host: self, name: Some(name.clone()) };
        fill(&mut file).map_err(failed)?;
        // The mode is what it was made with, unless our mask took something away.
        let stat = rustix::fs::fstat(&file).map_err(|e| failed(e.into()))?;
        if stat.st_mode & 0o7777 != mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|e| failed(e.into()))?;
        }
        give_to_known(&file, &stat, owner).map_err(|e| failed(e.into()))?;
        Ok(built)
    }

    /// Moves whatever stands at `name` to the trash, unread. That it is gone already is no error.
    pub(super) fn discard(
        &self,
        at: &OwnedFd,
        name: impl rustix::path::Arg + Copy,
    ) -> rustix::io::Result<()> {
        loop {
            match dir::rename_new(at, name, &self.trash, &self.unused_name()) {
                Err(Errno::EXIST) => {}
                Ok(()) => {
                    self.discarded.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Err(Errno::NOENT) => return Ok(()),
                Err(other) => return Err(other),
            }
        }
    }

    /// Whether anything went to the trash since this was asked last.
    #[must_use]
    pub fn has_discarded(&self) -> bool {
        self.discarded.swap(false, Ordering::Relaxed)
    }

    pub(super) fn unused_name(&self) -> String {
        self.next.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// What stands in `tmp/` when nobody builds anything yet is of a life that ended.
    fn clear_tmp(&self) -> Result<(), World> {
        let mut left = Vec::new();
        let failed = |e| World::new("clearing", self.path.join("tmp").display().to_string(), e);
        dir::each_name(&self.tmp, |name, _| {
            if name != c"trash" {
                left.push(name.to_owned());
            }
            std::ops::ControlFlow::Continue(())
        })
        .map_err(failed)?;
        left.iter().try_for_each(|name| self.discard(&self.tmp, name.as_c_str())).map_err(failed)
    }
}

impl fmt::Debug for HostDirs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostDirs").field(&self.path).finish()
    }
}

/// Makes everything that was written to the file system of `data` so far survive a power cut. Slow.
///
/// # Errors
/// [`World`] when the disk says so.
pub fn sync_all(data: &Path) -> Result<(), World> {
    let failed = |e: Errno| World::new("syncing", data.display().to_string(), e);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(data, flags, Mode::empty()).map_err(failed)?;
    rustix::fs::syncfs(&held).map_err(failed)
}

/// A file in `tmp/` that waits to be renamed to its place, and is removed when it never is.
pub(super) struct Built<'a> {
    host: &'a HostDirs,
    name: Option<String>,
}

impl Built<'_> {
    /// Opens the file for reading.
    pub(super) fn open(&self) -> rustix::io::Result<OwnedFd> {
        dir::open_to_read(&self.host.tmp, self.name.as_deref().unwrap_or_default())
    }

    /// Renames the file to a place that must be free, in a folder that only we write to.
    pub(super) fn place_new(mut self, at: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        if let Some(built) = &self.name {
            dir::rename_new(&self.host.tmp, built.as_str(), at, name)?;
            self.name = None;
        }
        Ok(())
    }

    /// Renames the file to its place. A link there is replaced, not followed; a directory there is `EISDIR`.
    pub(super) fn place(mut self, at: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        if let Some(built) = &self.name {
            rustix::fs::renameat(&self.host.tmp, built, at, name)?;
            self.name = None;
        }
        Ok(())
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // What can't be removed now goes at the next start.
            let _ = dir::unlink(&self.host.tmp, name);
        }
    }
}

/// Gives an open file to its owner, where it is not theirs already.
pub(super) fn give_to(file: impl rustix::fd::AsFd, owner: Option<Owner>) -> rustix::io::Result<()> {
    if owner.is_none() {
        return Ok(());
    }
    let is = rustix::fs::fstat(&file)?;
    give_to_known(file, &is, owner)
}

fn give_to_known(
    file: impl rustix::fd::AsFd,
    is: &rustix::fs::Stat,
    owner: Option<Owner>,
) -> rustix::io::Result<()> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    if (is.st_uid, is.st_gid) == (uid, gid) {
        return Ok(());
    }
    rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
}
