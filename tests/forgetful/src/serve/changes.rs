//! What the kernel has changed: names, contents, rights and attributes.
#![expect(clippy::disallowed_methods, reason = "a file system has the clock")]

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, time::SystemTime};

use fuser::{Errno, FileAttr, RenameFlags, Request, TimeOrNow};

use super::shared::{Shared, errno};
use crate::{
    disk::{Body, Ino, Node, Place, Refused, Rights},
    faults::Call,
};

/// What of a node is set.
#[derive(Default)]
pub(super) struct Set {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<TimeOrNow>,
}

impl Shared {
    /// The rights of what is made in a folder.
    fn rights(&self, request: &Request, folder: Ino, mode: u32, is_folder: bool) -> Result<Rights, Errno> {
        let above = self.node(folder)?.rights;
        let inherits = above.mode & 0o2000 != 0;
        let mode = (mode & 0o7777) as u16 | if inherits && is_folder { 0o2000 } else { 0 };
        Ok(Rights { mode, uid: request.uid(), gid: if inherits { above.gid } else { request.gid() } })
    }

    pub(super) fn make(
        &mut self,
        request: &Request,
        place: Place,
        mode: u32,
        body: Body,
    ) -> Result<FileAttr, Errno> {
        self.check(Call::Make)?;
        let is_folder = matches!(body, Body::Folder(_));
        let rights = self.rights(request, place.folder, mode, is_folder)?;
        let now = SystemTime::now();
        // No name has a slash in it: so a file without a name is asked for.
        let ino = if place.name == OsStr::new("/") {
            self.disk.make(body, rights, now)
        } else {
            self.disk.create(place, body, rights, now).map_err(errno)?
        };
        self.look_up(ino)
    }

    /// Opens the file at a place, or makes it.
    pub(super) fn create(
        &mut self,
        request: &Request,
        place: Place,
        mode: u32,
        flags: i32,
    ) -> Result<FileAttr, Errno> {
        let entries = self.node(place.folder)?.entries();
        match entries.and_then(|entries| entries.get(&place.name)).copied() {
            Some(_) if flags & libc::O_EXCL != 0 => Err(Errno::EEXIST),
            Some(ino) => self.look_up(ino),
            None => self.make(request, place, mode, Body::File(Vec::new())),
        }
    }

    pub(super) fn link(&mut self, ino: Ino, place: Place) -> Result<FileAttr, Errno> {
        self.check(Call::Make)?;
        self.disk.link(ino, place, SystemTime::now()).map_err(errno)?;
        self.look_up(ino)
    }

    pub(super) fn unlink(&mut self, place: Place) -> Result<(), Errno> {
        self.disk.unlink(place, SystemTime::now()).map(drop).map_err(errno)
    }

    pub(super) fn rename(&mut self, from: Place, to: Place, flags: RenameFlags) -> Result<(), Errno> {
        let swap = flags.contains(RenameFlags::RENAME_EXCHANGE);
        if !(flags - RenameFlags::RENAME_EXCHANGE - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return Err(Errno::EINVAL);
        }
        let entries = self.node(to.folder)?.entries().ok_or(Errno::ENOTDIR)?;
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && entries.contains_key(&to.name) {
            return Err(Errno::EEXIST);
        }
        self.disk.rename(from, to, swap, SystemTime::now()).map_err(errno)
    }

    pub(super) fn set(&mut self, ino: Ino, set: &Set) -> Result<FileAttr, Errno> {
        let now = SystemTime::now();
        let is = self.node(ino)?.rights;
        let rights = Rights {
            mode: set.mode.map_or(is.mode, |mode| (mode & 0o7777) as u16),
            uid: set.uid.unwrap_or(is.uid),
            gid: set.gid.unwrap_or(is.gid),
        };
        if rights != is {
            self.disk.set_rights(ino, rights, now).map_err(errno)?;
        }
        if let Some(size) = set.size {
            self.check(Call::Write)?;
            let size = usize::try_from(size).map_err(|_| Errno::EFBIG)?;
            self.disk.set_size(ino, size, now).map_err(errno)?;
        }
        match set.modified {
            Some(TimeOrNow::SpecificTime(at)) => self.disk.set_modified(ino, at),
            Some(TimeOrNow::Now) => self.disk.set_modified(ino, now),
            None => {}
        }
        self.attributes(ino)
    }

    pub(super) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.check(Call::Write)?;
        let at = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
        self.disk.write(ino, at, data, SystemTime::now()).map_err(errno)
    }

    pub(super) fn make_room(&mut self, ino: Ino, end: u64, mode: i32) -> Result<(), Errno> {
        self.check(Call::Write)?;
        let is = self.node(ino)?.bytes().ok_or(Errno::EINVAL)?.len();
        let end = usize::try_from(end).map_err(|_| Errno::EFBIG)?;
        match mode {
            0 if end > is => self.disk.set_size(ino, end, SystemTime::now()).map_err(errno),
            0 | libc::FALLOC_FL_KEEP_SIZE => Ok(()),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    pub(super) fn attribute(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>, Errno> {
        refuse_of_system(name)?;
        self.disk.attribute(ino, name).map(<[u8]>::to_vec).ok_or(Errno::NO_XATTR)
    }

    /// The names of all attributes, each with a zero byte after it.
    pub(super) fn attribute_names(&self, ino: Ino) -> Result<Vec<u8>, Errno> {
        let names = self.node(ino).map(|node: &Node| node.attributes.keys())?;
        Ok(names.flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect())
    }

    pub(super) fn set_attribute(
        &mut self,
        ino: Ino,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        refuse_of_system(name)?;
        let is_there = self.disk.attribute(ino, name).is_some();
        match (flags & libc::XATTR_CREATE != 0, flags & libc::XATTR_REPLACE != 0) {
            (true, _) if is_there => return Err(Errno::EEXIST),
            (_, true) if !is_there => return Err(Errno::NO_XATTR),
            _ => {}
        }
        self.disk.set_attribute(ino, name.to_owned(), Some(value.to_vec())).map_err(errno)
    }

    pub(super) fn remove_attribute(&mut self, ino: Ino, name: &OsStr) -> Result<(), Errno> {
        self.disk.set_attribute(ino, name.to_owned(), None).map_err(|refused| match refused {
            Refused::Missing => Errno::NO_XATTR,
            Refused::Taken | Refused::NotAFolder | Refused::NotAFile | Refused::NotEmpty => errno(refused),
        })
    }
}

fn refuse_of_system(name: &OsStr) -> Result<(), Errno> {
    if name.as_bytes().starts_with(b"system.") { Err(Errno::ENOTSUP) } else { Ok(()) }
}
