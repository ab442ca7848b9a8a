//! What is served: a disk, what is to go wrong with it, and what the kernel knows of it.

use std::{collections::HashMap, ffi::OsString, time::Duration};

use fuser::{Errno, FileAttr, FileType, INodeNo};

use super::BLOCK;
use crate::{
    disk::{Body, Disk, Ino, Node, ROOT, Refused, Special},
    faults::{Call, Failure, Faults, Lie},
};

/// A disk, what is to go wrong with it, and what the kernel holds of it.
pub(crate) struct Shared {
    pub(crate) disk: Disk,
    pub(crate) faults: Faults,
    /// The power is off.
    pub(crate) off: bool,
    /// How often the kernel was told of each node.
    held: HashMap<Ino, u64>,
    listings: HashMap<u64, Vec<(Ino, FileType, OsString)>>,
    next_listing: u64,
}

impl Shared {
    pub(crate) fn new(disk: Disk) -> Self {
        Self {
            disk,
            faults: Faults::default(),
            off: false,
            held: HashMap::new(),
            listings: HashMap::new(),
            next_listing: 1,
        }
    }

    /// What a kernel knew that is gone.
    pub(crate) fn boot(&mut self) {
        self.held.clear();
        self.listings.clear();
        self.off = false;
    }

    pub(super) fn check(&mut self, call: Call) -> Result<(), Errno> {
        match self.faults.next(call) {
            None => Ok(()),
            Some(Failure::Broken) => Err(Errno::EIO),
            Some(Failure::Full) => Err(Errno::ENOSPC),
        }
    }

    pub(super) fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.disk.seen().node(ino).ok_or(Errno::ENOENT)
    }

    pub(super) fn attributes(&self, ino: Ino) -> Result<FileAttr, Errno> {
        Ok(attributes(ino, self.node(ino)?))
    }

    pub(super) fn look_up(&mut self, ino: Ino) -> Result<FileAttr, Errno> {
        let attr = self.attributes(ino)?;
        *self.held.entry(ino).or_default() += 1;
        Ok(attr)
    }

    pub(super) fn forget(&mut self, ino: Ino, times: u64) {
        let held = self.held.entry(ino).or_default();
        *held = held.saturating_sub(times);
        if *held == 0 {
            self.held.remove(&ino);
            self.disk.reap(ino);
        }
    }

    /// Syncs a node; returns how long that takes.
    pub(super) fn sync(&mut self, ino: Ino, data_only: bool) -> Result<Duration, Errno> {
        let rest = self.faults.rest();
        if let Err(error) = self.check(Call::Sync) {
            self.disk.fail_to_sync(ino);
            return Err(error);
        }
        let of = if self.node(ino)?.entries().is_some() { Lie::Folders } else { Lie::Files };
        if !self.faults.lies(of) {
            self.disk.sync(ino, data_only).map_err(errno)?;
        }
        Ok(rest)
    }

    /// Syncs all there is; returns how long that takes.
    pub(super) fn sync_all(&mut self) -> Result<Duration, Errno> {
        let rest = self.faults.rest();
        self.check(Call::Sync)?;
        self.disk.sync_all();
        Ok(rest)
    }

    /// Begins a listing of a folder; returns its number.
    pub(super) fn begin_listing(&mut self) -> u64 {
        self.next_listing += 1;
        self.next_listing
    }

    pub(super) fn end_listing(&mut self, number: u64) {
        self.listings.remove(&number);
    }

    /// Returns the names of a folder as they were when its listing was first read, or is read from its beginning.
    pub(super) fn listing(
        &mut self,
        number: u64,
        ino: Ino,
        is_beginning: bool,
    ) -> Result<&[(Ino, FileType, OsString)], Errno> {
        if is_beginning || !self.listings.contains_key(&number) {
            let mut listing = vec![
                (ino, FileType::Directory, OsString::from(".")),
                (ROOT, FileType::Directory, OsString::from("..")),
            ];
            let entries = self.node(ino)?.entries().ok_or(Errno::ENOTDIR)?;
            listing.extend(
                entries
                    .iter()
                    .filter_map(|(name, ino)| Some((*ino, kind(self.node(*ino).ok()?), name.clone()))),
            );
            self.listings.insert(number, listing);
        }
        Ok(self.listings.get(&number).map_or(&[], Vec::as_slice))
    }
}

pub(super) fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Missing => Errno::ENOENT,
        Refused::Taken => Errno::EEXIST,
        Refused::NotAFolder => Errno::ENOTDIR,
        Refused::NotAFile => Errno::EINVAL,
        Refused::NotEmpty => Errno::ENOTEMPTY,
    }
}

fn kind(node: &Node) -> FileType {
    match &node.body {
        Body::File(_) => FileType::RegularFile,
        Body::Folder(_) => FileType::Directory,
        Body::Symlink(_) => FileType::Symlink,
        Body::Special(Special::Socket) => FileType::Socket,
        Body::Special(Special::Pipe) => FileType::NamedPipe,
    }
}

fn attributes(ino: Ino, node: &Node) -> FileAttr {
    let size = match &node.body {
        Body::File(bytes) => bytes.len() as u64,
        Body::Symlink(path) => path.len() as u64,
        Body::Folder(_) | Body::Special(_) => 0,
    };
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: node.modified,
        mtime: node.modified,
        ctime: node.changed,
        crtime: node.changed,
        kind: kind(node),
        perm: node.rights.mode,
        // A folder has its name, its own dot, and one from each folder in it; nobody here counts these.
        nlink: node.names + u32::from(node.entries().is_some()),
        uid: node.rights.uid,
        gid: node.rights.gid,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}
