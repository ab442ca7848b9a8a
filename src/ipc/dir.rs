//! Files relative to a held directory: never through a link, never blocking, always bounded.
//!
//! Whatever is opened here may have been put there by an enemy a moment ago, so nothing is trusted that was looked up
//! by name before; kind and size are those of the opened descriptor.

use std::{
    collections::VecDeque,
    ffi::{CStr, CString, OsStr},
    io::{self, Read as _},
    ops::ControlFlow,
    os::unix::ffi::OsStrExt as _,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat},
    io::{Errno, Result},
    path::Arg,
};

use super::files::Fd;

/// How often an operation that a race interrupted is begun again.
const RETRIES: usize = 16;

fn open(at: &Fd, path: impl Arg + Copy, flags: OFlags, mode: Mode) -> Result<Fd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // What is opened for its name alone takes no other flags.
    let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK | OFlags::NOCTTY };
    path.into_with_c_str(|path| {
        for _ in 0..RETRIES {
            match at.open(path, flags, mode) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    })
}

/// Opens a directory beneath `at`.
pub(super) fn open_dir(at: &Fd, path: impl Arg + Copy) -> Result<Fd> {
    open(at, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// Opens a file or folder beneath `at` for reading; the caller looks at the descriptor to learn what it got.
pub(super) fn open_to_read(at: &Fd, path: impl Arg + Copy) -> Result<Fd> {
    open(at, path, OFlags::RDONLY, Mode::empty())
}

/// Opens a directory for its name alone: its mode may keep its own owner from reading it.
pub(super) fn pass_dir(at: &Fd, path: impl Arg + Copy) -> Result<Fd> {
    open(at, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
}

/// Makes a file that is not there yet.
pub(super) fn create_new(at: &Fd, path: impl Arg + Copy, mode: Mode) -> Result<Fd> {
    open(at, path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
}

/// Makes a file without a name, on the file system of the directory `at`; `OPNOTSUPP` where there are none.
pub(super) fn create_unnamed(at: &Fd, mode: Mode) -> Result<Fd> {
    open(at, c".", OFlags::RDWR | OFlags::TMPFILE, mode).map_err(|e| match e {
        Errno::ISDIR | Errno::NOENT | Errno::INVAL => Errno::OPNOTSUPP,
        other => other,
    })
}

/// Gives an open file a name, which must be free.
pub(super) fn link_file(file: &Fd, at: &Fd, name: impl Arg) -> Result<()> {
    name.into_with_c_str(|name| file.link_itself(at, name))
}

/// Gives what stands at a name another one, which must be free. A link is not followed; a directory is `PERM`.
pub(super) fn link(from_dir: &Fd, from: impl Arg, to_dir: &Fd, to: impl Arg) -> Result<()> {
    from.into_with_c_str(|from| to.into_with_c_str(|to| from_dir.link(from, to_dir, to)))
}

/// Opens a file to write it anew, and makes it if it is not there. Only for folders that no container can write to.
pub(super) fn open_anew(at: &Fd, path: impl Arg + Copy, mode: Mode) -> Result<Fd> {
    open(at, path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, mode)
}

/// Writes a whole file, in such a folder.
pub(super) fn write_host_file(at: &Fd, path: impl Arg + Copy, bytes: &[u8]) -> io::Result<()> {
    write_all(&open_anew(at, path, Mode::from_raw_mode(0o600))?, bytes)
}

/// Writes all of it behind what was written before.
pub(super) fn write_all(file: &Fd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// Makes a directory that is not there yet.
pub(super) fn make_new_dir(at: &Fd, name: impl Arg, mode: u32) -> Result<()> {
    name.into_with_c_str(|name| at.make_folder(name, Mode::from_raw_mode(mode)))
}

/// Makes the directory if it is not there, and opens it.
pub(super) fn make_dir(at: &Fd, name: impl Arg + Copy, mode: u32) -> Result<Fd> {
    match open_dir(at, name) {
        Err(Errno::NOENT) => {}
        // Nearly all are there: a start opens thousands.
        opened => return opened,
    }
    match make_new_dir(at, name, mode) {
        Ok(()) | Err(Errno::EXIST) => open_dir(at, name),
        Err(other) => Err(other),
    }
}

/// `lstat` relative to `at`.
pub(super) fn stat(at: &Fd, path: impl Arg) -> Result<Stat> {
    path.into_with_c_str(|path| at.stat_at(path))
}

/// Sets the mode of what stands at a name that only we write to.
pub(super) fn chmod(at: &Fd, name: impl Arg, mode: u32) -> Result<()> {
    name.into_with_c_str(|name| at.chmod_at(name, Mode::from_raw_mode(mode)))
}

/// Waits until each rename and removal in the folder that has begun is done: the kernel lists a folder behind them. At most a few
/// names are returned to it, from where the descriptor stands.
pub(super) fn wait_for_renames(folder: &Fd) -> Result<()> {
    match folder.names(512, &mut |_, _| ControlFlow::Break(())) {
        // A name that is too long for it was listed all the same.
        Ok(_) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Unlinks a file that is no directory.
pub(super) fn unlink_once(at: &Fd, path: impl Arg) -> Result<()> {
    path.into_with_c_str(|path| at.unlink(path, AtFlags::empty()))
}

/// Unlinks a file that is no directory; a file that is gone already is no error.
pub(super) fn unlink(at: &Fd, path: impl Arg) -> Result<()> {
    match unlink_once(at, path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Removes an empty directory.
pub(super) fn remove_dir(at: &Fd, path: impl Arg) -> Result<()> {
    path.into_with_c_str(|path| at.unlink(path, AtFlags::REMOVEDIR))
}

/// Renames, and replaces what stands at the new name.
pub(super) fn rename(from_dir: &Fd, from: impl Arg, to_dir: &Fd, to: impl Arg) -> Result<()> {
    rename_as(from_dir, from, to_dir, to, RenameFlags::empty())
}

/// Renames without ever replacing anything, where the file system can do that in one step.
pub(super) fn rename_once(from_dir: &Fd, from: impl Arg, to_dir: &Fd, to: impl Arg) -> Result<()> {
    rename_as(from_dir, from, to_dir, to, RenameFlags::NOREPLACE)
}

fn rename_as(from_dir: &Fd, from: impl Arg, to_dir: &Fd, to: impl Arg, flags: RenameFlags) -> Result<()> {
    from.into_with_c_str(|from| to.into_with_c_str(|to| from_dir.rename(from, to_dir, to, flags)))
}

/// Renames without ever replacing anything; `to` must be in a folder that only we write to.
pub(super) fn rename_new(
    from_dir: &Fd,
    from: impl Arg + Copy,
    to_dir: &Fd,
    to: impl Arg + Copy,
) -> Result<()> {
    match rename_once(from_dir, from, to_dir, to) {
        // The file system can't do it in one step. Nobody else writes to the target's folder, so two will do.
        Err(Errno::INVAL | Errno::NOSYS) => match stat(to_dir, to) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rename(from_dir, from, to_dir, to),
            Err(other) => Err(other),
        },
        other => other,
    }
}

/// How much of a directory is read at a time, bytes: most boxes at once.
pub(super) const NAMES: usize = 8 << 10;

/// Calls `visit` with each name but `.` and `..`, in the directory's own order, until it breaks off.
///
/// Opens the directory anew, so that two readers of one held descriptor never share a position.
pub(super) fn each_name(at: &Fd, visit: impl FnMut(&CStr, FileType) -> ControlFlow<()>) -> Result<()> {
    each_name_of(&open_dir(at, c".")?, visit)
}

/// The same, from where a descriptor stands that nobody else reads.
pub(super) fn each_name_of(
    opened: &Fd,
    mut visit: impl FnMut(&CStr, FileType) -> ControlFlow<()>,
) -> Result<()> {
    let mut goes_on = ControlFlow::Continue(());
    while goes_on.is_continue() {
        let mut each = |name: &CStr, is: FileType| {
            if name != c"." && name != c".." {
                goes_on = visit(name, is);
            }
            goes_on
        };
        match opened.names(NAMES, &mut each) {
            Ok(true) | Err(Errno::INTR) => {}
            // Those were all, or it was removed meanwhile.
            Ok(false) | Err(Errno::NOENT) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// The names in a directory, read as they are needed.
pub(super) struct Names {
    folder: Fd,
    read: VecDeque<CString>,
}

impl Names {
    /// Returns those of a directory that nobody else reads.
    pub(super) fn of(folder: Fd) -> Self {
        Self { folder, read: VecDeque::new() }
    }

    /// The directory.
    pub(super) fn folder(&self) -> &Fd {
        &self.folder
    }

    /// Returns the next one but `.` and `..`; `None`: there is none, or the directory was removed.
    pub(super) fn next(&mut self) -> Option<Result<CString>> {
        loop {
            if let Some(name) = self.read.pop_front() {
                return Some(Ok(name));
            }
            let read = &mut self.read;
            let mut each = |name: &CStr, _| {
                if name != c"." && name != c".." {
                    read.push_back(name.to_owned());
                }
                ControlFlow::Continue(())
            };
            match self.folder.names(NAMES, &mut each) {
                Ok(true) | Err(Errno::INTR) => {}
                Ok(false) | Err(Errno::NOENT) => return self.read.pop_front().map(Ok),
                Err(other) => return Some(Err(other)),
            }
        }
    }
}

/// Reads at most `limit` bytes from the file's start; never more memory than that, however the file grows.
pub(super) fn read_at_most(file: &Fd, limit: u64) -> io::Result<Vec<u8>> {
    read_expecting(file, 0, limit)
}

/// The same of a file that most likely has `expected` bytes.
pub(super) fn read_expecting(file: &Fd, expected: u64, limit: u64) -> io::Result<Vec<u8>> {
    let (expected, most) = (as_length(expected), as_length(limit));
    let mut bytes = Vec::new();
    let mut reader = Reader::of(file, 0);
    if (1..most).contains(&expected) {
        bytes.reserve_exact(expected + 1);
        rustix::io::retry_on_intr(|| file.read_behind(&mut bytes, 0))?;
        // It ended there: there was room for more.
        if bytes.len() == expected {
            return Ok(bytes);
        }
        bytes.truncate(most);
        reader.at = bytes.len() as u64;
    }
    reader.take(limit.saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file from one place on.
pub(super) struct Reader<'a> {
    file: &'a Fd,
    at: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn of(file: &'a Fd, at: u64) -> Self {
        Self { file, at }
    }
}

impl io::Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

fn as_length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The name as the standard library has it.
pub(super) fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}
