//! Reading a file out of a folder that a container can write to, but that is no box: group folders, `.claude`.

use std::{fs::File, io, path::Path};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{dir, names::Kind, world::World};

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
    World(#[from] World),
}

/// Reads at most `limit` bytes from the start of `relative`, which may have several components, beneath `folder`.
///
/// `folder` is trusted; nothing below it is: no link is followed, no mount crossed, and nothing waits.
///
/// # Errors
/// [`InsideError`]
pub fn read_inside(folder: &Path, relative: &Path, limit: u64) -> Result<Inside, InsideError> {
    let what = || folder.join(relative).display().to_string();
    let world = |e: io::Error| InsideError::World(World::new("reading", what(), e));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT) => return Err(InsideError::Absent(what())),
        Err(e) => return Err(world(e.into())),
    };
    let file = match dir::open_to_read(&held, relative) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Err(InsideError::Absent(what())),
        Err(Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::XDEV) => {
            return Err(InsideError::NotAFile(what()));
        }
        Err(e) => return Err(world(e.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|e| world(e.into()))?;
    if Kind::of(&stat) != Kind::File {
        return Err(InsideError::NotAFile(what()));
    }
    let bytes = dir::read_at_most(&file, limit).map_err(world)?;
    Ok(Inside { bytes, size: u64::try_from(stat.st_size).unwrap_or(0) })
}
