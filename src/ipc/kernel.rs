//! System calls that have no safe wrapper: file handles, leases, what a directory's owner can set beside its mode, and
//! waiting for a descriptor.
#![expect(
    unsafe_code,
    reason = "name_to_handle_at, F_SETLEASE and FS_IOC_FSSETXATTR are reached through libc only, and tokio trusts the caller with a descriptor; this file is their door"
)]

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::io::{Errno, Result};
use tokio::io::{
    Interest,
    unix::{AsyncFd, AsyncFdRegisterError},
};

use super::files::Fd;

/// The kernel's own limit on the size of a file handle, bytes.
const MAX_HANDLE: usize = libc::MAX_HANDLE_SZ as usize;

/// `fcntl`'s command that chooses the signal; the libc crate lacks it. The same number on every architecture we build for.
const F_SETSIG: libc::c_int = 10;

/// Whether a process has a file open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Somebody may still write to it.
    Holds,
    /// Nobody has it open for writing.
    None,
    /// The kernel would not tell us: no regular file, not ours, or a file system without leases.
    Unknown,
}

/// The handle of a file: `struct file_handle` with room for the bytes that follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    length: libc::c_uint,
    kind: libc::c_int,
    data: [u8; MAX_HANDLE],
}

impl Handle {
    /// The layout of its bytes, which the file system chose.
    pub(super) fn kind(&self) -> i32 {
        self.kind
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let length = usize::try_from(self.length).unwrap_or(MAX_HANDLE);
        &self.data[..length.min(MAX_HANDLE)]
    }

    pub(super) fn new(kind: i32, bytes: &[u8]) -> Self {
        let mut data = [0; MAX_HANDLE];
        data[..bytes.len()].copy_from_slice(bytes);
        Self { length: u32::try_from(bytes.len()).unwrap_or(0), kind, data }
    }
}

/// Returns a descriptor of which a task can wait until something can be read.
///
/// # Errors
/// When the kernel lets nobody wait for it: the descriptor, with why.
///
/// # Panics
/// Outside a runtime of tokio.
pub(super) fn awaited(
    descriptor: OwnedFd,
) -> std::result::Result<AsyncFd<OwnedFd>, AsyncFdRegisterError<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the `OwnedFd`, which is one open descriptor, always the same, until it is dropped or taken out.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }
}

/// Returns the file handle of an open file. Inode and generation, so it is the same after a rename and after a reboot, and
/// another once the inode is used again. `None` where the file system has none.
pub(super) fn file_handle(file: impl AsFd) -> Option<Handle> {
    let mut handle = Handle { length: libc::MAX_HANDLE_SZ as libc::c_uint, kind: 0, data: [0; MAX_HANDLE] };
    let mut mount: libc::c_int = 0;
    // SAFETY: the path is an empty C string (AT_EMPTY_PATH: the descriptor itself, which is borrowed and so open);
    // `handle` has the layout of `struct file_handle` followed by the MAX_HANDLE bytes that `length` promises, and the
    // kernel writes within them; `mount` is a valid place for one int. Nothing is kept after the call.
    let done = unsafe {
        libc::name_to_handle_at(
            file.as_fd().as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast::<libc::file_handle>(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    (done == 0).then_some(handle)
}

/// Asks whether anybody has the file open for writing, by taking a read lease for an instant.
///
/// `file` must be open for reading only.
pub(super) fn writer(file: impl AsFd) -> Writer {
    let fd = file.as_fd().as_raw_fd();
    // A lease that somebody breaks in that instant is announced by SIGIO, which would end the process. SIGURG is
    // announced instead: nobody here listens to it and its default is to do nothing.
    // SAFETY: fcntl on a borrowed, open descriptor with integer arguments touches no memory of ours.
    let quiet = unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) };
    if quiet != 0 {
        return Writer::Unknown;
    }
    // SAFETY: as above.
    let leased = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) };
    if leased == 0 {
        // SAFETY: as above. Closing the descriptor would give the lease back too, so a failure here is harmless.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        return Writer::None;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => Writer::Holds,
        _ => Writer::Unknown,
    }
}

/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`; the libc crate lacks them. The same on every architecture we build for.
const GET_EXTENDED: libc::Ioctl = 0x801c_581f_u32 as libc::Ioctl;
const SET_EXTENDED: libc::Ioctl = 0x401c_5820_u32 as libc::Ioctl;
/// The flags that make a directory refuse, delay or change new files: compression, sync, immutable, append only,
/// no dump, no access times, sync of names, no copy on write, a project for all that is in it.
pub(super) const FLAGS: u32 = 0x2081_04fc;
/// The same among the extended ones, with XFS's hints on where and how large files are laid out.
const EXTENDED_FLAGS: u32 = 0x0001_fff8;

/// What a file has beside its flags: `struct fsxattr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    pub(super) flags: u32,
    pub(super) extent: u32,
    pub(super) extents: u32,
    pub(super) project: u32,
    pub(super) copied_extent: u32,
    pub(super) pad: [u8; 8],
}

/// What a directory's owner can set beside its mode, and files in it can have to obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    flags: u32,
    extended: u32,
    extents: [u32; 2],
    project: u32,
}

impl Attributes {
    /// Returns those of an open file or directory; `None` where the file system has none.
    pub(super) fn of(file: &Fd) -> Option<Self> {
        let flags = file.flags().ok()?;
        let extended = file.extended().unwrap_or_default();
        Some(Self {
            flags: flags & FLAGS,
            extended: extended.flags & EXTENDED_FLAGS,
            extents: [extended.extent, extended.copied_extent],
            project: extended.project,
        })
    }

    /// Sets a directory's back to these, where they are not.
    pub(super) fn give_to(&self, directory: &Fd) -> Result<()> {
        let Some(is) = Self::of(directory) else { return Ok(()) };
        if is == *self {
            return Ok(());
        }
        if (is.extended, is.extents, is.project) != (self.extended, self.extents, self.project)
            && let Ok(now) = directory.extended()
        {
            let flags = (now.flags & !EXTENDED_FLAGS) | self.extended;
            let [extent, copied_extent] = self.extents;
            directory.set_extended(Extended {
                flags,
                extent,
                copied_extent,
                project: self.project,
                ..now
            })?;
        }
        // Some are in both sets.
        let now = directory.flags()?;
        if now & FLAGS != self.flags {
            directory.set_flags((now & !FLAGS) | self.flags)?;
        }
        Ok(())
    }

    /// Gives a file these's project, and leaves the rest of what it has.
    pub(super) fn give_project_to(&self, file: &Fd) -> Result<()> {
        let now = file.extended()?;
        file.set_extended(Extended { project: self.project, ..now })
    }
}

pub(super) fn extended(file: impl AsFd) -> Result<Extended> {
    let mut extended = Extended::default();
    // SAFETY: the descriptor is borrowed and so open; `extended` has the layout of `struct fsxattr`, which this command
    // fills and does not keep.
    let done = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), GET_EXTENDED, &raw mut extended) };
    if done == 0 { Ok(extended) } else { Err(last_error()) }
}

pub(super) fn set_extended(file: impl AsFd, extended: Extended) -> Result<()> {
    // SAFETY: as above; this command only reads it.
    let done = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), SET_EXTENDED, &raw const extended) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

    #[test]
    fn a_file_keeps_its_handle_when_renamed_and_a_new_one_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let made =
            |name: &str| File::options().write(true).create_new(true).open(folder.path().join(name)).unwrap();
        let first = made("a");
        let Some(before) = file_handle(&first) else {
            return eprintln!("skipped: this file system has no file handles");
        };
        rustix::fs::rename(folder.path().join("a"), folder.path().join("b")).unwrap();
        let again = File::options().read(true).open(folder.path().join("b")).unwrap();
        assert_eq!(file_handle(&again), Some(before));
        drop((first, again));
        rustix::fs::unlink(folder.path().join("b")).unwrap();
        // The inode number is likely to be used again at once; the generation tells the two apart.
        assert_ne!(file_handle(made("a")), Some(before));
    }

    #[test]
    fn a_file_that_is_open_for_writing_is_told_from_one_that_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut writes = File::options().write(true).create_new(true).open(&path).unwrap();
        let reads = File::options().read(true).open(&path).unwrap();
        assert_eq!(writer(&reads), Writer::Holds);
        writes.write_all(b"x").unwrap();
        drop(writes);
        // A process that is just being started beside us may hold a copy of the descriptor for a moment.
        while writer(&reads) == Writer::Holds {
            std::thread::yield_now();
        }
        assert_eq!(writer(&reads), Writer::None);
    }

    #[test]
    fn writers_that_break_the_lease_do_not_end_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        drop(File::options().write(true).create_new(true).open(&path).unwrap());
        let reads = File::options().read(true).open(&path).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..5_000 {
                    drop(File::options().write(true).open(&path));
                }
            });
            for _ in 0..5_000 {
                let _ = writer(&reads);
            }
        });
    }
}
