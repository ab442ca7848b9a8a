//! Reading a file out of a folder that a container can write to, but that is no box: group folders, `.claude`.

use std::{
    fs::File,
    io::{self, BufRead, Read as _},
    ops::ControlFlow,
    path::Path,
    sync::OnceLock,
};

use rustix::{fs::Stat, io::Errno};

use super::{
    dir,
    files::{At, Fd},
    names::FileKind,
    world_fault::WorldFault,
};

/// The most that is held of a line, bytes; a longer one is passed over.
const LINE_LIMIT: u64 = 1 << 20;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    pub bytes: Vec<u8>,
    /// The file's size when it was opened, bytes; more than `bytes` has when the limit cut it.
    pub size: u64,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    #[error("{0} is not there")]
    Absent(String),
    /// A link on the way, a FIFO, a directory …: nothing that is read.
    #[error("{0} is no plain file, or a link leads to it")]
    NotAFile(String),
    #[error(transparent)]
    World(#[from] WorldFault),
}

/// Reads at most `limit` bytes from the start of `relative`, which may have several components, beneath `folder`.
///
/// `folder` is trusted; nothing below it is: no link is followed, no mount crossed, and nothing waits.
///
/// # Errors
/// [`InsideError`]
pub fn read_inside<'a>(
    folder: impl Into<At<'a>>,
    relative: &Path,
    limit: u64,
) -> Result<Inside, InsideError> {
    let folder = folder.into();
    let (file, size) = open_inside(folder, relative)?;
    let bytes = dir::read_at_most(&file, limit).map_err(|error| reading(folder, relative, error))?;
    Ok(Inside { bytes, size })
}

/// Opens `relative`, found as [`read_inside`] finds it, for somebody who copies it. It is a plain file, and its container may
/// change it at any moment.
///
/// # Errors
/// [`InsideError`]
pub fn file_inside<'a>(folder: impl Into<At<'a>>, relative: &Path) -> Result<InsideFile, InsideError> {
    let folder = folder.into();
    let (open, size) = open_inside(folder, relative)?;
    Ok(InsideFile { open, size, copy: OnceLock::new() })
}

/// An open plain file, to be copied.
#[derive(Debug)]
pub struct InsideFile {
    open: Fd,
    size: u64,
    /// Of one that is no file of this machine.
    copy: OnceLock<File>,
}

impl InsideFile {
    /// Returns the file's size when it was opened, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the file.
    ///
    /// # Errors
    /// It is in a file system in memory, and can't be copied out of it.
    pub fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.open.known::<File>() {
            return Ok(file);
        }
        let copy = self.open.to_file()?;
        Ok(self.copy.get_or_init(|| copy))
    }
}

/// A file that changes during each look gets at most this number of looks.
const LOOKS: usize = 4;

/// Whether `relative` is the one name of an open file: then the file is inside of the folder, whatever names it had when it was
/// opened. `false` also for a file that changes during each look.
///
/// To put another file in its place, or to remove it, the kernel drops the link before the name: for a moment the name leads to a
/// file that seems to have no other. Listing a folder waits until that is done. A change that begins later changes the file's
/// time. Before Linux 6.13 it does not where both fall into one tick of the clock, at most 10 ms.
#[must_use]
pub fn is_only_name<'a>(folder: impl Into<At<'a>>, relative: &Path, file: &InsideFile) -> bool {
    let (folder, file) = (folder.into(), &file.open);
    (0..LOOKS).find_map(|_| only_name(folder, relative, file).unwrap_or(Some(false))).unwrap_or(false)
}

/// `None`: the file changed meanwhile.
fn only_name(folder: At<'_>, relative: &Path, file: &Fd) -> Result<Option<bool>, Errno> {
    let Some(name) = relative.file_name() else { return Ok(Some(false)) };
    let held = folder.open()?;
    let parent = relative.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = dir::open_dir(&held, parent)?;
    let is = file.stat()?;
    dir::wait_for_renames(&parent)?;
    let named = dir::stat(&parent, name)?;
    if (named.st_dev, named.st_ino) != (is.st_dev, is.st_ino) || named.st_nlink != 1 {
        return Ok(Some(false));
    }
    let stamp = |stat: &Stat| (stat.st_nlink, stat.st_ctime, stat.st_ctime_nsec);
    Ok((stamp(&named) == stamp(&is)).then_some(true))
}

/// What changes when a file does. It is the kernel's: nobody can set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsideStamp {
    ino: u64,
    changed: (i64, u64),
}

impl InsideStamp {
    /// Returns when the file was changed, ms since the epoch.
    #[must_use]
    pub fn changed_ms(self) -> i64 {
        self.changed.0.saturating_mul(1_000) + (self.changed.1 / 1_000_000).cast_signed()
    }
}

/// Returns the stamp of what stands at `name` in `folder`, whatever it is; `None`: nothing does, or it can't be seen.
#[must_use]
pub fn stamp_inside<'a>(folder: impl Into<At<'a>>, name: &str) -> Option<InsideStamp> {
    let folder = folder.into();
    let stat = folder.files.at(&folder.path.join(name)).stat().ok()?;
    Some(InsideStamp { ino: stat.st_ino, changed: (stat.st_ctime, stat.st_ctime_nsec) })
}

/// Gives the lines of the last `most` bytes of `relative`, found as [`read_inside`] finds it, to `each`, until that breaks
/// off. A line that begins before those bytes, or that has more than [`LINE_LIMIT`] bytes, is passed over, and never held.
///
/// # Errors
/// [`InsideError`]
pub(super) fn lines_inside(
    folder: At<'_>,
    relative: &Path,
    most: u64,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), InsideError> {
    let (file, size) = open_inside(folder, relative)?;
    let start = size.saturating_sub(most);
    // One byte earlier: a line that begins just there is whole.
    let from = start.saturating_sub(1);
    let bytes = dir::Reader::of(&file, from).take(most + start - from);
    let bytes = io::BufReader::with_capacity(64 << 10, bytes);
    lines(bytes, start > 0, each).map_err(|error| reading(folder, relative, error))
}

/// Gives lines without their ends to `each`; not the rest of one that begins before, where `within` one.
fn lines(
    mut bytes: impl BufRead,
    within: bool,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut pass_over = within;
    loop {
        line.clear();
        if bytes.by_ref().take(LINE_LIMIT + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_end = line.pop_if(|last| *last == b'\n').is_some();
        let too_long = !is_end && line.len() as u64 > LINE_LIMIT;
        if !pass_over && !too_long && each(&line).is_break() {
            return Ok(());
        }
        pass_over = !is_end && (pass_over || too_long);
    }
}

/// Opens a plain file beneath a folder; returns its size, too.
fn open_inside(folder: At<'_>, relative: &Path) -> Result<(Fd, u64), InsideError> {
    let what = || folder.path.join(relative).display().to_string();
    let held = match folder.open() {
        Ok(held) => held,
        Err(Errno::NOENT) => return Err(InsideError::Absent(what())),
        Err(e) => return Err(reading(folder, relative, e.into())),
    };
    let file = match dir::open_to_read(&held, relative) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(InsideError::Absent(what())),
        Err(Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::XDEV) => {
            return Err(InsideError::NotAFile(what()));
        }
        Err(e) => return Err(reading(folder, relative, e.into())),
    };
    let stat = file.stat().map_err(|e| reading(folder, relative, e.into()))?;
    if FileKind::of(&stat) != FileKind::File {
        return Err(InsideError::NotAFile(what()));
    }
    Ok((file, u64::try_from(stat.st_size).unwrap_or(0)))
}

fn reading(folder: At<'_>, relative: &Path, error: io::Error) -> InsideError {
    InsideError::World(WorldFault::new("reading", folder.path.join(relative).display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(bytes: &[u8], within: bool) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut each = |line: &[u8]| {
            lengths.push(line.len());
            if lengths.len() < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        lines(bytes, within, &mut each).unwrap();
        lengths
    }

    #[test]
    fn lines_that_are_too_long_or_not_whole_are_passed_over() {
        let most = usize::try_from(LINE_LIMIT).unwrap();
        let long = |more: usize| [vec![b'x'; most + more], b"\nab\n".to_vec()].concat();
        assert_eq!(given(&long(0), false), [most, 2]);
        for more in [1, 2, most, most + 1, most + 2, 3 * most] {
            assert_eq!(given(&long(more), false), [2], "{more}");
            assert_eq!(given(&long(more)[..most + more], false), [] as [usize; 0], "{more}, without an end");
        }
        assert_eq!(given(b"rest\na\n\nbc", true), [1, 0, 2]);
        assert_eq!(given(&long(5), true), [2]);
        assert_eq!(given(b"\n\n\n\n\n\n", false), [0; 4], "until it breaks off");
        assert_eq!(given(b"", true), [] as [usize; 0]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "plays the agent")]
    fn the_only_name_of_a_file_is_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let is = |name: &str, file: &InsideFile| is_only_name(dir.path(), Path::new(name), file);
        std::fs::create_dir(at("d")).unwrap();
        for name in ["a", "d/b", "other"] {
            std::fs::write(at(name), name).unwrap();
        }
        let open = |name: &str| file_inside(dir.path(), Path::new(name)).unwrap();
        let (a, b) = (open("a"), open("d/b"));
        assert!(is("a", &a) && is("d/b", &b));
        assert!(
            !is("other", &a) && !is("absent", &a) && !is("d/absent", &b) && !is("a/b", &a) && !is("..", &a)
        );
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        std::os::unix::fs::symlink("d", at("e")).unwrap();
        assert!(!is("link", &a) && !is("e/b", &b));
        std::fs::hard_link(at("a"), at("second")).unwrap();
        assert!(!is("a", &a) && !is("second", &a));
        std::fs::rename(at("other"), at("a")).unwrap();
        assert!(!is("a", &a), "another file has the name");
        assert!(is("second", &a));
        std::fs::remove_file(at("second")).unwrap();
        assert!(!is("second", &a));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "plays the agent")]
    fn of_a_long_file_the_last_lines_are_given() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "one\ntwo\nthree\n").unwrap();
        let last = |most: u64| {
            let mut all = Vec::new();
            let mut each = |line: &[u8]| {
                all.push(String::from_utf8(line.to_vec()).unwrap());
                ControlFlow::Continue(())
            };
            lines_inside(dir.path().into(), Path::new("f"), most, &mut each).unwrap();
            all.join(" ")
        };
        let expected = [(5, ""), (6, "three"), (9, "three"), (10, "two three"), (13, "two three")];
        for (most, lines) in expected.into_iter().chain([(14, "one two three"), (99, "one two three")]) {
            assert_eq!(last(most), lines, "{most}");
        }
    }
}
