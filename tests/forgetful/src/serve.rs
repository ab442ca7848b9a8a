//! The disk, as the kernel asks for it.
#![expect(clippy::disallowed_methods, reason = "a file system has the clock, and a slow one waits")]

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::{
    disk::{Body, Disk, Ino, Node, Place, ROOT, Refused, Rights, Special},
    faults::{Call, Failure, Faults, Lie},
};

/// All changes come through this kernel, which so knows them without asking.
const ALWAYS: Duration = Duration::from_secs(86_400);
/// No node's number is used twice.
const GENERATION: Generation = Generation(0);
/// No request is larger.
const WRITE: u32 = 128 << 10;
const BLOCK: u32 = 4096;

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

    fn check(&mut self, call: Call) -> Result<(), Errno> {
        match self.faults.next(call) {
            None => Ok(()),
            Some(Failure::Broken) => Err(Errno::EIO),
            Some(Failure::Full) => Err(Errno::ENOSPC),
        }
    }

    fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.disk.seen().node(ino).ok_or(Errno::ENOENT)
    }

    fn look_up(&mut self, ino: Ino) -> Result<FileAttr, Errno> {
        let attr = attributes(ino, self.node(ino)?);
        *self.held.entry(ino).or_default() += 1;
        Ok(attr)
    }

    /// The rights of what is made in a folder.
    fn rights(&self, request: &Request, folder: Ino, mode: u32, is_folder: bool) -> Result<Rights, Errno> {
        let above = self.node(folder)?.rights;
        let inherits = above.mode & 0o2000 != 0;
        let mode = (mode & 0o7777) as u16 | if inherits && is_folder { 0o2000 } else { 0 };
        Ok(Rights { mode, uid: request.uid(), gid: if inherits { above.gid } else { request.gid() } })
    }

    fn make(
        &mut self,
        request: &Request,
        place: Place,
        mode: u32,
        body: Body,
    ) -> Result<(Ino, FileAttr), Errno> {
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
        Ok((ino, self.look_up(ino)?))
    }

    fn forget(&mut self, ino: Ino, times: u64) {
        let held = self.held.entry(ino).or_default();
        *held = held.saturating_sub(times);
        if *held == 0 {
            self.held.remove(&ino);
            self.disk.reap(ino);
        }
    }

    fn sync(&mut self, ino: Ino, data_only: bool) -> Result<Duration, Errno> {
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
}

fn errno(refused: Refused) -> Errno {
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

/// The disk, for the kernel.
pub(crate) struct Served(pub(crate) Arc<Mutex<Shared>>);

impl Served {
    fn lock(&self) -> Result<MutexGuard<'_, Shared>, Errno> {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.off { Err(Errno::EIO) } else { Ok(shared) }
    }

    fn entry(&self, reply: ReplyEntry, work: impl FnOnce(&mut Shared) -> Result<FileAttr, Errno>) {
        match self.lock().and_then(|mut shared| work(&mut shared)) {
            Ok(attr) => reply.entry(&ALWAYS, &attr, GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn done(&self, reply: ReplyEmpty, work: impl FnOnce(&mut Shared) -> Result<(), Errno>) {
        match self.lock().and_then(|mut shared| work(&mut shared)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn sync(&self, reply: ReplyEmpty, ino: INodeNo, data_only: bool) {
        match self.lock().and_then(|mut shared| shared.sync(ino.0, data_only)) {
            Ok(rest) => {
                if !rest.is_zero() {
                    std::thread::sleep(rest);
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // File handles, by which the daemon knows a file again; and no question before each write.
        let wanted = InitFlags::FUSE_EXPORT_SUPPORT | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(WRITE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, |shared| {
            let entries = shared.node(parent.0)?.entries().ok_or(Errno::ENOTDIR)?;
            let ino = *entries.get(name).ok_or(Errno::ENOENT)?;
            shared.look_up(ino)
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        if let Ok(mut shared) = self.lock() {
            shared.forget(ino.0, times);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.lock().and_then(|shared| Ok(attributes(ino.0, shared.node(ino.0)?))) {
            Ok(attr) => reply.attr(&ALWAYS, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = |shared: &mut Shared| {
            let now = SystemTime::now();
            let is = shared.node(ino.0)?.rights;
            let rights = Rights {
                mode: mode.map_or(is.mode, |mode| (mode & 0o7777) as u16),
                uid: uid.unwrap_or(is.uid),
                gid: gid.unwrap_or(is.gid),
            };
            if rights != is {
                shared.disk.set_rights(ino.0, rights, now).map_err(errno)?;
            }
            if let Some(size) = size {
                shared.check(Call::Write)?;
                let size = usize::try_from(size).map_err(|_| Errno::EFBIG)?;
                shared.disk.set_size(ino.0, size, now).map_err(errno)?;
            }
            match modified {
                Some(TimeOrNow::SpecificTime(at)) => shared.disk.set_modified(ino.0, at),
                Some(TimeOrNow::Now) => shared.disk.set_modified(ino.0, now),
                None => {}
            }
            Ok(attributes(ino.0, shared.node(ino.0)?))
        };
        match self.lock().and_then(|mut shared| set(&mut shared)) {
            Ok(attr) => reply.attr(&ALWAYS, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.lock().and_then(|shared| Ok(shared.node(ino.0)?.body.clone())) {
            Ok(Body::Symlink(path)) => reply.data(path.as_bytes()),
            Ok(Body::File(_) | Body::Folder(_) | Body::Special(_)) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let body = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => Body::File(Vec::new()),
            libc::S_IFSOCK => Body::Special(Special::Socket),
            libc::S_IFIFO => Body::Special(Special::Pipe),
            _ => return reply.error(Errno::EPERM),
        };
        let place = Place::new(parent.0, name);
        self.entry(reply, |shared| shared.make(request, place, mode, body).map(|made| made.1));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let place = Place::new(parent.0, name);
        self.entry(reply, |shared| {
            shared.make(request, place, mode, Body::Folder(Default::default())).map(|made| made.1)
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = Place::new(parent.0, name);
        self.done(reply, |shared| shared.disk.unlink(place, SystemTime::now()).map(|_| ()).map_err(errno));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let place = Place::new(parent.0, name);
        let body = Body::Symlink(target.as_os_str().to_owned());
        self.entry(reply, |shared| shared.make(request, place, 0o777, body).map(|made| made.1));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (Place::new(parent.0, name), Place::new(newparent.0, newname));
        self.done(reply, |shared| {
            let swap = flags.contains(RenameFlags::RENAME_EXCHANGE);
            if !(flags - RenameFlags::RENAME_EXCHANGE - RenameFlags::RENAME_NOREPLACE).is_empty() {
                return Err(Errno::EINVAL);
            }
            let entries = shared.node(to.folder)?.entries().ok_or(Errno::ENOTDIR)?;
            if flags.contains(RenameFlags::RENAME_NOREPLACE) && entries.contains_key(&to.name) {
                return Err(Errno::EEXIST);
            }
            shared.disk.rename(from, to, swap, SystemTime::now()).map_err(errno)
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let place = Place::new(newparent.0, newname);
        self.entry(reply, |shared| {
            shared.check(Call::Make)?;
            shared.disk.link(ino.0, place, SystemTime::now()).map_err(errno)?;
            shared.look_up(ino.0)
        });
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The kernel asks once and opens by itself from then on, with a cache that lasts.
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let shared = match self.lock() {
            Ok(shared) => shared,
            Err(error) => return reply.error(error),
        };
        match shared.node(ino.0).map(Node::bytes) {
            Ok(Some(bytes)) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let to = from.saturating_add(size as usize).min(bytes.len());
                reply.data(&bytes[from..to]);
            }
            Ok(None) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = |shared: &mut Shared| {
            shared.check(Call::Write)?;
            let at = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
            shared.disk.write(ino.0, at, data, SystemTime::now()).map_err(errno)
        };
        match self.lock().and_then(|mut shared| write(&mut shared)) {
            // A request is not larger than `WRITE`.
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(WRITE)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.sync(reply, ino, data_only);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.lock() {
            Ok(mut shared) => {
                shared.next_listing += 1;
                reply.opened(FileHandle(shared.next_listing), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut shared = match self.lock() {
            Ok(shared) => shared,
            Err(error) => return reply.error(error),
        };
        if offset == 0 || !shared.listings.contains_key(&handle.0) {
            let mut listing = vec![
                (ino.0, FileType::Directory, OsString::from(".")),
                (ROOT, FileType::Directory, OsString::from("..")),
            ];
            match shared.node(ino.0).map(Node::entries) {
                Ok(Some(entries)) => listing.extend(
                    entries
                        .iter()
                        .filter_map(|(name, ino)| Some((*ino, kind(shared.node(*ino).ok()?), name.clone()))),
                ),
                Ok(None) => return reply.error(Errno::ENOTDIR),
                Err(error) => return reply.error(error),
            }
            shared.listings.insert(handle.0, listing);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let all = shared.listings.get(&handle.0).map_or(&[][..], Vec::as_slice);
        for (n, (ino, kind, name)) in all.iter().enumerate().skip(from) {
            if reply.add(INodeNo(*ino), n as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.done(reply, |shared| {
            shared.listings.remove(&handle.0);
            Ok(())
        });
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.sync(reply, ino, false);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (blocks, nodes) = (1 << 22, 1 << 22);
        reply.statfs(blocks, blocks / 2, blocks / 2, nodes, nodes / 2, BLOCK, 255, BLOCK);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.done(reply, |shared| {
            if name.as_bytes().starts_with(b"system.") {
                return Err(Errno::ENOTSUP);
            }
            let is_there = shared.disk.attribute(ino.0, name).is_some();
            match (flags & libc::XATTR_CREATE != 0, flags & libc::XATTR_REPLACE != 0) {
                (true, _) if is_there => return Err(Errno::EEXIST),
                (_, true) if !is_there => return Err(Errno::NO_XATTR),
                _ => {}
            }
            shared.disk.set_attribute(ino.0, name.to_owned(), Some(value.to_vec())).map_err(errno)
        });
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let found = self.lock().and_then(|shared| {
            if name.as_bytes().starts_with(b"system.") {
                return Err(Errno::ENOTSUP);
            }
            shared.disk.attribute(ino.0, name).map(<[u8]>::to_vec).ok_or(Errno::NO_XATTR)
        });
        give(reply, found, size);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let found = self.lock().and_then(|shared| {
            let names = shared.node(ino.0)?.attributes.keys();
            Ok(names.flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect())
        });
        give(reply, found, size);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |shared| {
            shared.disk.set_attribute(ino.0, name.to_owned(), None).map_err(|refused| match refused {
                Refused::Missing => Errno::NO_XATTR,
                Refused::Taken | Refused::NotAFolder | Refused::NotAFile | Refused::NotEmpty => {
                    errno(refused)
                }
            })
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let place = Place::new(parent.0, name);
        let create = |shared: &mut Shared| {
            let there = shared.node(parent.0)?.entries().and_then(|entries| entries.get(name)).copied();
            match there {
                Some(_) if flags & libc::O_EXCL != 0 => Err(Errno::EEXIST),
                Some(ino) => shared.look_up(ino),
                None => shared.make(request, place, mode, Body::File(Vec::new())).map(|made| made.1),
            }
        };
        match self.lock().and_then(|mut shared| create(&mut shared)) {
            Ok(attr) => {
                reply.created(&ALWAYS, &attr, GENERATION, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(error),
        }
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.done(reply, |shared| {
            shared.check(Call::Write)?;
            let is = shared.node(ino.0)?.bytes().ok_or(Errno::EINVAL)?.len();
            let end = usize::try_from(offset.saturating_add(length)).map_err(|_| Errno::EFBIG)?;
            match mode {
                0 if end > is => shared.disk.set_size(ino.0, end, SystemTime::now()).map_err(errno),
                0 | libc::FALLOC_FL_KEEP_SIZE => Ok(()),
                _ => Err(Errno::EOPNOTSUPP),
            }
        });
    }
}

/// Answers with a value, or with its length where none was asked for.
fn give(reply: ReplyXattr, found: Result<Vec<u8>, Errno>, room: u32) {
    match found {
        Ok(value) if room == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}
