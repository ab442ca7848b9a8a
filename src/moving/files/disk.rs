//! Files and folders by handle: opened through no link, compared, and given their name once they are whole.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timespec, Timestamps},
    io::Errno,
};

use super::Modes;

/// A copy while it is written.
pub(super) const BUILDING: &str = ".g2-moving";

pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a folder below `root`, having made those that are missing. The root's own path may have links, what is below may not.
pub(super) fn make_below(root: &Path, below: &Path, modes: Modes) -> io::Result<OwnedFd> {
    let mut at = rustix::fs::open(root, FOLDER, Mode::empty())?;
    for name in below.components() {
        let name = CString::new(name.as_os_str().as_bytes())?;
        at = make_folder(&at, &name, modes)?;
    }
    Ok(at)
}

pub(super) fn make_folder(at: &OwnedFd, name: &CStr, modes: Modes) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(modes.bits())) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    rustix::fs::openat(at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens a folder whose path has no link in any part of it, and goes down alone.
pub(super) fn open_plain(folder: &Path) -> rustix::io::Result<OwnedFd> {
    if folder.components().any(|part| part == Component::ParentDir) {
        return Err(Errno::XDEV);
    }
    rustix::fs::openat2(CWD, folder, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Opens a file below a folder, through no link and nothing outside. The folder's own path has none either.
pub(in crate::moving) fn open_below(folder: &Path, relative: &str) -> io::Result<File> {
    let folder = open_plain(folder)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(&folder, relative, flags, Mode::empty(), inside)?.into())
}

/// What came of one file that was to be copied.
pub(in crate::moving) enum Put {
    New,
    Same,
    /// Another file is in its place, and stays.
    Other,
    /// It can't be read, or is no plain file, or too large.
    NoFile,
}

/// Copies one file into a folder below `root`, under a name.
///
/// # Errors
/// The operating system's, where writing here fails.
pub(in crate::moving) fn put_below(
    from: &Path,
    root: &Path,
    to: &Path,
    name: &str,
    most: u64,
    modes: Modes,
) -> io::Result<Put> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(from, flags, Mode::empty())
        .and_then(|file| Ok((rustix::fs::fstat(&file)?, File::from(file))));
    let Ok((stat, mut file)) = opened else { return Ok(Put::NoFile) };
    let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_plain || u64::try_from(stat.st_size).unwrap_or(u64::MAX) > most {
        return Ok(Put::NoFile);
    }
    let (to, name) = (make_below(root, to, modes)?, CString::new(name)?);
    match there(&to, &name, &mut file, &[])? {
        There::Same => Ok(Put::Same),
        There::Template | There::Beginning | There::Longer | There::Other => Ok(Put::Other),
        There::Nothing => {
            let placed = place(&to, &mut file, (&stat, modes), &name, RenameFlags::NOREPLACE)?;
            rustix::fs::fsync(&to)?;
            Ok(if placed.is_some() { Put::New } else { Put::NoFile })
        }
    }
}

/// Returns the names in a folder that are texts, in order, at most `most`; none where it can't be read, or is a link.
pub(in crate::moving) fn names_below(folder: &Path, most: usize) -> Vec<String> {
    let Ok(folder) = rustix::fs::open(folder, FOLDER | OFlags::NOFOLLOW, Mode::empty()) else {
        return Vec::new();
    };
    let Ok(entries) = Dir::read_from(&folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    let mut names: Vec<String> =
        names.filter(|name| !matches!(name.as_str(), "." | "..")).take(most).collect();
    names.sort();
    names
}

/// What stands in the place of a file.
pub(super) enum There {
    Nothing,
    Same,
    Template,
    /// The beginning of the file.
    Beginning,
    /// The file, and more behind it.
    Longer,
    Other,
}

pub(super) fn there(to: &OwnedFd, name: &CStr, file: &mut File, templates: &[String]) -> io::Result<There> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let here = match rustix::fs::openat(to, name, flags, Mode::empty()) {
        Ok(here) => here,
        Err(Errno::NOENT) => return Ok(There::Nothing),
        Err(Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG) => return Ok(There::Other),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&here)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(There::Other);
    }
    let mut here = File::from(here);
    let (size, size_here) = (file.metadata()?.len(), here.metadata()?.len());
    let (is_beginning, is_longer) = match size >= size_here {
        true => (begins(file, &mut here)?, false),
        false => (false, begins(&mut here, file)?),
    };
    io::Seek::rewind(file)?;
    if is_beginning && size == size_here {
        return Ok(There::Same);
    }
    if let Some(longest) = templates.iter().map(String::len).max() {
        io::Seek::rewind(&mut here)?;
        let mut bytes = Vec::new();
        here.take(longest as u64 + 1).read_to_end(&mut bytes)?;
        if templates.iter().any(|template| template.as_bytes() == bytes) {
            return Ok(There::Template);
        }
    }
    Ok(match (is_beginning, is_longer) {
        (true, _) => There::Beginning,
        (false, true) => There::Longer,
        (false, false) => There::Other,
    })
}

/// Whether a file begins with all of another one.
fn begins(file: &mut File, with: &mut File) -> io::Result<bool> {
    let (mut one, mut other) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let n = with.read(&mut one)?;
        if n == 0 {
            return Ok(true);
        }
        if file.read_exact(&mut other[..n]).is_err() || one[..n] != other[..n] {
            return Ok(false);
        }
    }
}

/// Writes a copy, and gives it its name once it is whole; `None`: it could not be read to its end.
pub(super) fn place(
    to: &OwnedFd,
    file: &mut File,
    (stat, modes): (&Stat, Modes),
    name: &CStr,
    how: RenameFlags,
) -> io::Result<Option<u64>> {
    let _ = rustix::fs::unlinkat(to, BUILDING, AtFlags::empty());
    let mode = modes.bits() & if stat.st_mode & 0o100 == 0 { 0o644 } else { 0o755 };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(rustix::fs::openat(to, BUILDING, flags, Mode::from_raw_mode(mode))?);
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    // One that grows meanwhile is as it was.
    let mut left = u64::try_from(stat.st_size).unwrap_or(0);
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Ok(n) = file.read(&mut buffer[..most]) else {
            rustix::fs::unlinkat(to, BUILDING, AtFlags::empty())?;
            return Ok(None);
        };
        if n == 0 {
            break;
        }
        copy.write_all(&buffer[..n])?;
        bytes += n as u64;
        left -= n as u64;
    }
    let changed = Timespec { tv_sec: stat.st_mtime, tv_nsec: 0 };
    // Only shown to people: a file system that can't keep it is no failure.
    let _ = rustix::fs::futimens(&copy, &Timestamps { last_access: changed, last_modification: changed });
    copy.sync_data()?;
    rustix::fs::renameat_with(to, BUILDING, to, name, how)?;
    Ok(Some(bytes))
}
