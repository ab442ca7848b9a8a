//! The disk, as the kernel asks for it.
#![expect(clippy::disallowed_methods, reason = "a slow file system waits")]

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};

use crate::disk::{Body, Node, Place, Special};

mod changes;
mod shared;

use changes::Set;
pub(crate) use shared::Shared;

/// All changes come through this kernel, which so knows them without asking.
const ALWAYS: Duration = Duration::from_secs(86_400);
/// No node's number is used twice.
const GENERATION: Generation = Generation(0);
/// No request is larger.
const WRITE: u32 = 128 << 10;
const BLOCK: u32 = 4096;
/// A sync of this file of a folder is one of all there is.
pub(crate) const ALL: u64 = u64::MAX;

/// The disk, for the kernel.
pub(crate) struct Served(pub(crate) Arc<Mutex<Shared>>);

impl Served {
    fn lock(&self) -> Result<MutexGuard<'_, Shared>, Errno> {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.off { Err(Errno::EIO) } else { Ok(shared) }
    }

    fn ask<T>(&self, work: impl FnOnce(&mut Shared) -> Result<T, Errno>) -> Result<T, Errno> {
        self.lock().and_then(|mut shared| work(&mut shared))
    }

    fn entry(&self, reply: ReplyEntry, work: impl FnOnce(&mut Shared) -> Result<FileAttr, Errno>) {
        match self.ask(work) {
            Ok(attr) => reply.entry(&ALWAYS, &attr, GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn attr(&self, reply: ReplyAttr, work: impl FnOnce(&mut Shared) -> Result<FileAttr, Errno>) {
        match self.ask(work) {
            Ok(attr) => reply.attr(&ALWAYS, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn done(&self, reply: ReplyEmpty, work: impl FnOnce(&mut Shared) -> Result<(), Errno>) {
        match self.ask(work) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// Answers once as much time is over as it takes.
    fn slow(&self, reply: ReplyEmpty, work: impl FnOnce(&mut Shared) -> Result<Duration, Errno>) {
        match self.ask(work) {
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
        self.attr(reply, |shared| shared.attributes(ino.0));
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
        let set = Set { mode, uid, gid, size, modified };
        self.attr(reply, |shared| shared.set(ino.0, &set));
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
        self.entry(reply, |shared| shared.make(request, place, mode, body));
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
        self.entry(reply, |shared| shared.make(request, place, mode, Body::Folder(Default::default())));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = Place::new(parent.0, name);
        self.done(reply, |shared| shared.unlink(place));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let place = Place::new(parent.0, name);
        let body = Body::Symlink(target.as_os_str().to_owned());
        self.entry(reply, |shared| shared.make(request, place, 0o777, body));
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
        self.done(reply, |shared| shared.rename(from, to, flags));
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let place = Place::new(newparent.0, newname);
        self.entry(reply, |shared| shared.link(ino.0, place));
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
        match self.ask(|shared| shared.write(ino.0, offset, data)) {
            // A request is not larger than `WRITE`.
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(WRITE)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.slow(reply, |shared| shared.sync(ino.0, data_only));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.ask(|shared| Ok(shared.begin_listing())) {
            Ok(number) => reply.opened(FileHandle(number), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut shared = match self.lock() {
            Ok(shared) => shared,
            Err(error) => return reply.error(error),
        };
        let listing = match shared.listing(handle.0, ino.0, offset == 0) {
            Ok(listing) => listing,
            Err(error) => return reply.error(error),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (n, (ino, kind, name)) in listing.iter().enumerate().skip(from) {
            if reply.add(INodeNo(*ino), n as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.done(reply, |shared| {
            shared.end_listing(handle.0);
            Ok(())
        });
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.slow(
            reply,
            |shared| if handle.0 == ALL { shared.sync_all() } else { shared.sync(ino.0, false) },
        );
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
        self.done(reply, |shared| shared.set_attribute(ino.0, name, value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        give(reply, self.ask(|shared| shared.attribute(ino.0, name)), size);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        give(reply, self.ask(|shared| shared.attribute_names(ino.0)), size);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |shared| shared.remove_attribute(ino.0, name));
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
        match self.ask(|shared| shared.create(request, place, mode, flags)) {
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
        self.done(reply, |shared| shared.make_room(ino.0, offset.saturating_add(length), mode));
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
