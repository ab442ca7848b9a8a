//! The folders under `data/` that only the host writes to, held open, and files built there.
//!
//! Every file that a container will see is built without a name, linked beside its place and renamed there, so no
//! container-writable name is ever opened for writing and no reader sees half a file.
//!
//! Nothing is renamed from one directory to another where anybody waits for it: the kernel has one lock for that on each
//! file system, and a container that renames in a large directory of its own holds it for seconds.

use std::{
    ffi::OsStr,
    fmt, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::{fs::Mode, io::Errno};

use super::{
    boxes::Kept,
    dir,
    files::{At, Fd, Files},
    names::{of_another_life, without_hand},
    world_fault::WorldFault,
};
use crate::system::failpoint;

/// User and group id.
pub type Owner = (u32, u32);

/// The host-only folders of one root; opened once, after the lock was taken, and shared.
pub struct HostDirs {
    files: Files,
    path: PathBuf,
    pub(super) ipc: Fd,
    pub(super) claimed: Fd,
    pub(super) done: Fd,
    pub(super) dead: Fd,
    tmp: Fd,
    pub(super) trash: Fd,
    /// The groups whose boxes are open.
    pub(super) kept: Kept,
    next: AtomicU64,
    /// Whether files go from one folder to another by links. Otherwise they are renamed.
    links: bool,
    /// Something went to the trash since anybody asked.
    discarded: AtomicBool,
}

impl HostDirs {
    /// Opens `data` and makes its missing parts. Files that a dead daemon left in `tmp/` go to the trash.
    ///
    /// # Errors
    /// [`WorldFault`] when a folder can't be made or opened, or is a link.
    pub fn open<'a>(data: impl Into<At<'a>>) -> Result<Arc<Self>, WorldFault> {
        let At { files, path } = data.into();
        let path = std::path::absolute(path)
            .map_err(|e| WorldFault::new("finding", path.display().to_string(), e))?;
        let held =
            files.at(&path).open().map_err(|e| WorldFault::new("opening", path.display().to_string(), e))?;
        let make = |name: &str, mode| {
            dir::make_dir(&held, name, mode)
                .map_err(|e| WorldFault::new("making", path.join(name).display().to_string(), e))
        };
        let tmp = make("tmp", 0o700)?;
        let trash = dir::make_dir(&tmp, "trash", 0o700)
            .map_err(|e| WorldFault::new("making", path.join("tmp/trash").display().to_string(), e))?;
        let links = can_link(&tmp, "probe");
        let dirs = Self {
            ipc: make("ipc", 0o755)?,
            claimed: make("claimed", 0o700)?,
            done: make("done", 0o700)?,
            dead: make("dead", 0o700)?,
            tmp,
            trash,
            kept: Kept::new(),
            next: AtomicU64::new(1),
            links,
            discarded: AtomicBool::new(false),
            files: files.clone(),
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

    /// Returns the file system that it is in.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Builds a file of mode 0644 in `tmp/`; it is gone again unless [`Built::place`] puts it somewhere.
    pub(super) fn build(&self, bytes: &[u8], owner: Option<Owner>) -> Result<Built<'_>, WorldFault> {
        self.build_as(bytes, SHOWN_MODE, owner)
    }

    /// Like [`HostDirs::build`], of another mode.
    pub(super) fn build_as(
        &self,
        bytes: &[u8],
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<Built<'_>, WorldFault> {
        let failed = |doing| move |e: io::Error| WorldFault::new(doing, "a file in data/tmp", e);
        let built = self.begin(mode, owner).map_err(|e| failed("making")(e.into()))?;
        dir::write_all(&built.file, bytes).map_err(failed("writing"))?;
        Ok(built)
    }

    /// Takes what `fill` writes piece by piece: into a file like [`HostDirs::build`] does, unless it is short.
    pub(super) fn draft(
        &self,
        fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<Draft<'_>, WorldFault> {
        let failed = |e: io::Error| WorldFault::new("writing", "a file in data/tmp", e);
        let mut pieces = Pieces { host: self, held: Vec::new(), file: None };
        fill(&mut pieces).and_then(|()| pieces.finish()).map_err(failed)
    }

    fn begin(&self, mode: u32, owner: Option<Owner>) -> rustix::io::Result<Built<'_>> {
        let mode = Mode::from_raw_mode(mode);
        let built = self.create(mode, owner)?;
        // The mode is what it was made with, unless our mask took something away.
        if Mode::from_raw_mode(built.file.stat()?.st_mode) != mode {
            built.file.chmod(mode)?;
        }
        Ok(built)
    }

    fn create(&self, mode: Mode, owner: Option<Owner>) -> rustix::io::Result<Built<'_>> {
        if self.links {
            let file = dir::create_unnamed(&self.tmp, mode)?;
            return Ok(Built { host: self, file, owner, name: None });
        }
        loop {
            let name = self.unused_name();
            match dir::create_new(&self.tmp, &name, mode) {
                Ok(file) => return Ok(Built { host: self, file, owner, name: Some(name) }),
                Err(Errno::EXIST) => {}
                Err(other) => return Err(other),
            }
        }
    }

    /// Whether files go from one folder to another by links. Otherwise, as the file system has none, they are renamed, and
    /// a container can keep all others waiting.
    #[must_use]
    pub fn has_links(&self) -> bool {
        self.links
    }

    /// Takes what stands at `name` out of a box and puts it at `to`, in a folder that only we write to, where nothing may
    /// be. Whatever its container does meanwhile, one file is taken, and the one that was at `name` in that instant.
    ///
    /// After a crash it has its name, or one by [`Hands::in_hand`](super::names::Hands::in_hand) in the box, or that and the new one. After an error it waits by
    /// its name, or by one that shows it.
    pub(super) fn take_out(
        &self,
        from: &Fd,
        name: &OsStr,
        to_dir: &Fd,
        to: &OsStr,
    ) -> rustix::io::Result<()> {
        if !self.links {
            return dir::rename_new(from, name, to_dir, to);
        }
        // Removing a name takes whatever stands there. So it is first renamed in its own box, which takes just one file.
        let hand = self.files.hands().in_hand(without_hand(name));
        let hand = hand.as_os_str();
        dir::rename_new(from, name, from, hand)?;
        let mut held = Held { at: from, hand: Some(hand) };
        failpoint::reach("ipc.in_hand");
        match dir::link(from, hand, to_dir, to) {
            Ok(()) => {
                failpoint::reach("ipc.linked");
                held.hand = None;
                // It is ours already. What can't be removed is the same file, and known by that.
                let _ = dir::unlink(from, hand);
            }
            // A directory, a file with as many names as there can be, or one that is not ours to link.
            Err(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => {
                dir::rename_new(from, hand, to_dir, to)?;
                held.hand = None;
            }
            Err(other) => return Err(other),
        }
        Ok(())
    }

    /// Moves whatever stands at `name` to the trash, unread. That it is gone already is no error.
    pub(super) fn discard(&self, at: &Fd, name: impl rustix::path::Arg + Copy) -> rustix::io::Result<()> {
        loop {
            match dir::rename_new(at, name, &self.trash, &self.unused_name()) {
                Err(Errno::EXIST) => {}
                Ok(()) => {
                    self.discarded.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                // It is gone, or the trash is. A container may have removed it, and put another one there since.
                Err(Errno::NOENT) => {
                    return match self.trash.stat()?.st_nlink {
                        0 => Err(Errno::NOENT),
                        _ => Ok(()),
                    };
                }
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
    fn clear_tmp(&self) -> Result<(), WorldFault> {
        let mut left = Vec::new();
        let failed = |e| WorldFault::new("clearing", self.path.join("tmp").display().to_string(), e);
        dir::each_name(&self.tmp, |name, _| {
            if name != c"trash" {
                left.push(name.to_owned());
            }
            ControlFlow::Continue(())
        })
        .map_err(failed)?;
        left.iter().try_for_each(|name| self.remove_entry(&self.tmp, name)).map_err(failed)
    }
}

/// Whether a file without a name can be made in the folder, and be given one.
pub(super) fn can_link(at: &Fd, name: &str) -> bool {
    let tried = dir::create_unnamed(at, Mode::from_raw_mode(0o600))
        .and_then(|file| dir::link_file(&file, at, name))
        .and_then(|()| dir::unlink(at, name));
    // Any other error is the world's: a full disk says nothing about what the file system can do.
    !matches!(
        tried,
        Err(Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::NOSYS
            | Errno::INVAL
            | Errno::XDEV
            | Errno::NOENT
            | Errno::MLINK)
    )
}

/// A file that is in hand. What could not be taken out, also as we failed over it, waits as a file does that a process which ended
/// had in hand. By its own name it would go behind those that came after it, as a rename makes it the newest.
struct Held<'a> {
    at: &'a Fd,
    /// `None`: it is out.
    hand: Option<&'a OsStr>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(hand) = self.hand {
            let _ = dir::rename_new(self.at, hand, self.at, of_another_life(hand).as_os_str());
        }
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
/// [`WorldFault`] when the disk says so.
pub fn sync_all<'a>(data: impl Into<At<'a>>) -> Result<(), WorldFault> {
    let data = data.into();
    let failed = |e: Errno| WorldFault::new("syncing", data.path.display().to_string(), e);
    data.open().and_then(|held| held.sync_all()).map_err(failed)
}

/// The mode of a file that a container reads.
pub(super) const SHOWN_MODE: u32 = 0o644;
/// How much is held in memory before a file is made for it, and how much of it is written at a time, bytes.
const PIECE: usize = 64 << 10;

/// What was written piece by piece.
pub(super) enum Draft<'a> {
    Short(Vec<u8>),
    Long(Built<'a>),
}

/// Takes bytes; a file is made for them once they are more than [`PIECE`].
struct Pieces<'a> {
    host: &'a HostDirs,
    held: Vec<u8>,
    file: Option<Built<'a>>,
}

impl<'a> Pieces<'a> {
    fn write_out(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(self.host.begin(SHOWN_MODE, None)?);
        }
        if let Some(built) = &self.file {
            dir::write_all(&built.file, &self.held)?;
        }
        self.held.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<Draft<'a>> {
        if self.file.is_some() {
            self.write_out()?;
        }
        Ok(self.file.map_or(Draft::Short(self.held), Draft::Long))
    }
}

impl io::Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.len() + bytes.len() > PIECE {
            self.write_out()?;
        }
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that waits to be put into its place, and is gone when it never is.
pub(super) struct Built<'a> {
    host: &'a HostDirs,
    file: Fd,
    /// Whose it becomes in its place.
    owner: Option<Owner>,
    /// Its name in `tmp/`, where there are no files without one.
    name: Option<String>,
}

impl Built<'_> {
    /// The file itself, open.
    pub(super) fn file(&self) -> &Fd {
        &self.file
    }

    /// Puts the file into a place that must be free, in a folder that only we write to.
    pub(super) fn place_new(mut self, at: &Fd, name: &str) -> rustix::io::Result<()> {
        give_to(&self.file, self.owner)?;
        match self.name.take() {
            None => dir::link_file(&self.file, at, name),
            Some(built) => dir::rename_new(&self.host.tmp, built.as_str(), at, name)
                .inspect_err(|_| self.name = Some(built)),
        }
    }

    /// Puts the file into its place. A link there is replaced, not followed; a directory there is `EISDIR`. May be tried
    /// again after an error.
    pub(super) fn place(&mut self, at: &Fd, name: &str) -> rustix::io::Result<()> {
        if let Some(built) = &self.name {
            give_to(&self.file, self.owner)?;
            dir::rename(&self.host.tmp, built, at, name)?;
            self.name = None;
            return Ok(());
        }
        let beside = self.host.files.hands().on_its_way();
        dir::link_file(&self.file, at, beside.as_str())?;
        // Only now, as a file of somebody else's may be no file that we may link.
        let placed =
            give_to(&self.file, self.owner).and_then(|()| dir::rename(at, beside.as_str(), at, name));
        match placed {
            // Its container removed it on its way, and does without it: a file that has lost its only name gets no other.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(other) => {
                let _ = dir::unlink(at, beside.as_str());
                Err(other)
            }
        }
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
pub(super) fn give_to(file: &Fd, owner: Option<Owner>) -> rustix::io::Result<()> {
    if owner.is_none() {
        return Ok(());
    }
    give_to_known(file, &file.stat()?, owner)
}

/// As [`give_to`], of a file whose `fstat` is known.
pub(super) fn give_to_known(
    file: &Fd,
    is: &rustix::fs::Stat,
    owner: Option<Owner>,
) -> rustix::io::Result<()> {
    let Some((user, group)) = owner else { return Ok(()) };
    if (is.st_uid, is.st_gid) == (user, group) {
        return Ok(());
    }
    file.chown(user, group)
}
