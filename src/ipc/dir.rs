//! Files relative to a held directory: never through a link, never blocking, always bounded.
//!
//! Whatever is opened here may have been put there by an enemy a moment ago, so nothing is trusted that was looked up
//! by name before; kind and size are those of the opened descriptor.

use std::{
    ffi::{CStr, OsStr},
    fs::File,
    io::{Read as _, Write as _},
    mem::MaybeUninit,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt as _,
};

use rustix::{
    fd::{AsFd, AsRawFd as _, OwnedFd},
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, Stat},
    io::{Errno, Result},
    path::Arg,
};

/// How often an operation that a race interrupted is begun again.
const RETRIES: usize = 16;

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

fn open(at: impl AsFd, path: impl Arg + Copy, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    for _ in 0..RETRIES {
        match rustix::fs::openat2(at.as_fd(), path, flags, mode, RESOLVE) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens a directory beneath `at`.
pub(super) fn open_dir(at: impl AsFd, path: impl Arg + Copy) -> Result<OwnedFd> {
    open(at, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// Opens a file or folder beneath `at` for reading; the caller looks at the descriptor to learn what it got.
pub(super) fn open_to_read(at: impl AsFd, path: impl Arg + Copy) -> Result<OwnedFd> {
    open(at, path, OFlags::RDONLY, Mode::empty())
}

/// Makes a file that is not there yet.
pub(super) fn create_new(at: impl AsFd, path: impl Arg + Copy, mode: Mode) -> Result<File> {
    open(at, path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode).map(File::from)
}

/// Makes a file without a name, on the file system of the directory `at`; `OPNOTSUPP` where there are none.
pub(super) fn create_unnamed(at: impl AsFd, mode: Mode) -> Result<File> {
    open(at, c".", OFlags::RDWR | OFlags::TMPFILE, mode).map(File::from).map_err(|e| match e {
        Errno::ISDIR | Errno::NOENT | Errno::INVAL => Errno::OPNOTSUPP,
        other => other,
    })
}

/// Gives an open file a name, which must be free.
pub(super) fn link_file(file: impl AsFd, at: impl AsFd, name: impl Arg) -> Result<()> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    rustix::fs::linkat(CWD, path, at, name, AtFlags::SYMLINK_FOLLOW)
}

/// Gives what stands at a name another one, which must be free. A link is not followed; a directory is `PERM`.
pub(super) fn link(from_dir: impl AsFd, from: impl Arg, to_dir: impl AsFd, to: impl Arg) -> Result<()> {
    rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())
}

/// Writes a whole file. Only for folders that no container can write to.
pub(super) fn write_host_file(at: impl AsFd, path: impl Arg + Copy, bytes: &[u8]) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    File::from(open(at, path, flags, Mode::from_raw_mode(0o600))?).write_all(bytes)
}

/// Makes the directory if it is not there, and opens it.
pub(super) fn make_dir(at: impl AsFd, name: impl Arg + Copy, mode: u32) -> Result<OwnedFd> {
    match open_dir(at.as_fd(), name) {
        Err(Errno::NOENT) => {}
        // Nearly all are there: a start opens thousands.
        opened => return opened,
    }
    match rustix::fs::mkdirat(at.as_fd(), name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => open_dir(at, name),
        Err(other) => Err(other),
    }
}

/// `lstat` relative to `at`.
pub(super) fn stat(at: impl AsFd, path: impl Arg) -> Result<Stat> {
    rustix::fs::statat(at, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Waits until each rename and removal in the folder that has begun is done: the kernel lists a folder behind them. At most a few
/// names are returned to it, from where the descriptor stands.
pub(super) fn wait_for_renames(folder: impl AsFd) -> Result<()> {
    let mut names = [MaybeUninit::uninit(); 512];
    match RawDir::new(folder, &mut names).next() {
        // A name that is too long for it was listed all the same.
        None | Some(Ok(_) | Err(Errno::INVAL)) => Ok(()),
        Some(Err(error)) => Err(error),
    }
}

/// Unlinks a file that is no directory; a file that is gone already is no error.
pub(super) fn unlink(at: impl AsFd, path: impl Arg) -> Result<()> {
    match rustix::fs::unlinkat(at, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Renames without ever replacing anything; `to` must be in a folder that only we write to.
pub(super) fn rename_new(
    from_dir: impl AsFd,
    from: impl Arg + Copy,
    to_dir: impl AsFd,
    to: impl Arg + Copy,
) -> Result<()> {
    match rustix::fs::renameat_with(from_dir.as_fd(), from, to_dir.as_fd(), to, RenameFlags::NOREPLACE) {
        // The file system can't do it in one step. Nobody else writes to the target's folder, so two will do.
        Err(Errno::INVAL | Errno::NOSYS) => match stat(to_dir.as_fd(), to) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rustix::fs::renameat(from_dir, from, to_dir, to),
            Err(other) => Err(other),
        },
        other => other,
    }
}

/// How much of a directory is read at a time, bytes: most boxes at once.
const NAMES: usize = 8 << 10;

/// Calls `visit` with each name but `.` and `..`, in the directory's own order, until it breaks off.
///
/// Opens the directory anew, so that two readers of one held descriptor never share a position.
pub(super) fn each_name(at: impl AsFd, visit: impl FnMut(&CStr, FileType) -> ControlFlow<()>) -> Result<()> {
    each_name_of(open_dir(at, c".")?, visit)
}

/// The same, from where a descriptor stands that nobody else reads.
pub(super) fn each_name_of(
    opened: impl AsFd,
    mut visit: impl FnMut(&CStr, FileType) -> ControlFlow<()>,
) -> Result<()> {
    let mut names = [MaybeUninit::uninit(); NAMES];
    let mut names = RawDir::new(opened, &mut names);
    while let Some(entry) = names.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            // It was removed meanwhile.
            Err(Errno::NOENT) => break,
            entry => entry?,
        };
        let name = entry.file_name();
        if name != c"." && name != c".." && visit(name, entry.file_type()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads at most `limit` bytes from the file's start; never more memory than that, however the file grows.
pub(super) fn read_at_most(file: &File, limit: u64) -> std::io::Result<Vec<u8>> {
    read_expecting(file, 0, limit)
}

/// The same of a file that most likely has `expected` bytes.
pub(super) fn read_expecting(file: &File, expected: u64, limit: u64) -> std::io::Result<Vec<u8>> {
    let (expected, most) = (as_length(expected), as_length(limit));
    let mut bytes = Vec::new();
    if (1..most).contains(&expected) {
        bytes.reserve_exact(expected + 1);
        rustix::io::retry_on_intr(|| rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)))?;
        // It ended there: there was room for more.
        if bytes.len() == expected {
            return Ok(bytes);
        }
        bytes.truncate(most);
    }
    file.take(limit.saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn as_length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The name as the standard library has it.
pub(super) fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}
