//! The real kernel.

use std::{
    ffi::CStr,
    fs::File,
    io,
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd as _, AsRawFd as _},
};

use rustix::{
    buffer::spare_capacity,
    fs::{
        AtFlags, CWD, FileType, Gid, IFlags, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, Stat,
        StatxFlags, Uid, XattrFlags, ioctl_getflags, ioctl_setflags,
    },
    io::{Errno, Result},
};

use super::{Birth, Descriptor, Fd, Kernel};
use crate::ipc::{
    dir::NAMES,
    host::Owner,
    kernel::{self, Extended, Handle, Writer},
    names::Hands,
    watch::{Inotify, Source},
};

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The real kernel.
#[derive(Debug)]
pub(super) struct Real;

impl Kernel for Real {
    fn open(&self, path: &CStr, flags: OFlags) -> Result<Fd> {
        rustix::fs::open(path, flags, Mode::empty()).map(|fd| Fd::of(File::from(fd)))
    }

    fn stat(&self, path: &CStr) -> Result<Stat> {
        rustix::fs::lstat(path)
    }

    fn make_folder(&self, path: &CStr, mode: Mode) -> Result<()> {
        rustix::fs::mkdir(path, mode)
    }

    fn remove_folder(&self, path: &CStr) -> Result<()> {
        rustix::fs::rmdir(path)
    }

    fn watch(&self) -> Box<dyn Source> {
        Box::new(Inotify::default())
    }

    fn hands(&self) -> &Hands {
        Hands::ours()
    }

    fn us(&self) -> Owner {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }
}

/// A descriptor of the real kernel; of no other one can anything be linked or renamed there.
fn real(fd: &Fd) -> Result<&File> {
    fd.known::<File>().ok_or(Errno::XDEV)
}

/// What the kernel calls an open file, by a path.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Descriptor for File {
    fn open(&self, path: &CStr, flags: OFlags, mode: Mode) -> Result<Fd> {
        rustix::fs::openat2(self, path, flags, mode, RESOLVE).map(|fd| Fd::of(Self::from(fd)))
    }

    fn make_folder(&self, name: &CStr, mode: Mode) -> Result<()> {
        rustix::fs::mkdirat(self, name, mode)
    }

    fn stat_at(&self, path: &CStr) -> Result<Stat> {
        rustix::fs::statat(self, path, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn chmod_at(&self, name: &CStr, mode: Mode) -> Result<()> {
        rustix::fs::chmodat(self, name, mode, AtFlags::empty())
    }

    fn link(&self, from: &CStr, to_dir: &Fd, to: &CStr) -> Result<()> {
        rustix::fs::linkat(self, from, real(to_dir)?, to, AtFlags::empty())
    }

    fn link_itself(&self, to_dir: &Fd, to: &CStr) -> Result<()> {
        rustix::fs::linkat(CWD, path_of(self), real(to_dir)?, to, AtFlags::SYMLINK_FOLLOW)
    }

    fn rename(&self, from: &CStr, to_dir: &Fd, to: &CStr, flags: RenameFlags) -> Result<()> {
        rustix::fs::renameat_with(self, from, real(to_dir)?, to, flags)
    }

    fn unlink(&self, name: &CStr, flags: AtFlags) -> Result<()> {
        rustix::fs::unlinkat(self, name, flags)
    }

    fn names(&self, room: usize, each: &mut dyn FnMut(&CStr, FileType) -> ControlFlow<()>) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); NAMES];
        let mut names = RawDir::new(self, &mut space[..room.min(NAMES)]);
        while let Some(entry) = names.next() {
            let entry = entry?;
            if each(entry.file_name(), entry.file_type()).is_break() || names.is_buffer_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn stat(&self) -> Result<Stat> {
        rustix::fs::fstat(self)
    }

    fn birth(&self) -> Result<Birth> {
        let flags = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(self, c"", AtFlags::EMPTY_PATH, flags)?;
        let has_it = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Ok(Birth {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            at: has_it.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        })
    }

    fn handle(&self) -> Option<Handle> {
        kernel::file_handle(self)
    }

    fn writer(&self) -> Writer {
        kernel::writer(self)
    }

    fn chmod(&self, mode: Mode) -> Result<()> {
        match rustix::fs::fchmod(self, mode) {
            // It was opened for nothing but its name.
            Err(Errno::BADF) => rustix::fs::chmod(path_of(self), mode),
            other => other,
        }
    }

    fn chown(&self, user: u32, group: u32) -> Result<()> {
        rustix::fs::fchown(self, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize> {
        rustix::io::pread(self, into, at)
    }

    fn read_behind(&self, into: &mut Vec<u8>, at: u64) -> Result<usize> {
        rustix::io::pread(self, spare_capacity(into), at)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize> {
        rustix::io::write(self, bytes)
    }

    fn sync(&self) -> Result<()> {
        rustix::fs::fsync(self)
    }

    fn sync_all(&self) -> Result<()> {
        rustix::fs::syncfs(self)
    }

    fn attribute(&self, name: &CStr, into: &mut [u8]) -> Result<usize> {
        rustix::fs::fgetxattr(self, name, into)
    }

    fn attribute_at(&self, path: &CStr, name: &CStr, into: &mut [u8]) -> Result<usize> {
        // There is no such call relative to a folder.
        let mut whole = path_of(self).into_bytes();
        whole.push(b'/');
        whole.extend_from_slice(path.to_bytes());
        rustix::fs::lgetxattr(&*whole, name, into)
    }

    fn set_attribute(&self, name: &CStr, value: &[u8]) -> Result<()> {
        rustix::fs::fsetxattr(self, name, value, XattrFlags::empty())
    }

    fn flags(&self) -> Result<u32> {
        ioctl_getflags(self).map(|flags| flags.bits())
    }

    fn set_flags(&self, flags: u32) -> Result<()> {
        ioctl_setflags(self, IFlags::from_bits_retain(flags))
    }

    fn extended(&self) -> Result<Extended> {
        kernel::extended(self)
    }

    fn set_extended(&self, extended: Extended) -> Result<()> {
        kernel::set_extended(self, extended)
    }

    fn to_file(&self) -> io::Result<File> {
        Ok(Self::from(self.as_fd().try_clone_to_owned()?))
    }
}
