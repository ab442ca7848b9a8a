//! A copy in the making.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    sync::atomic::Ordering,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::{
    Digest, Media,
    beneath::{make, open_folder},
    path_of,
};
use crate::system::failpoint;

/// How much of a file is in memory at a time, bytes; its type is told by the first of them.
const PIECE: usize = 64 << 10;

/// What a file has in it, once it was read.
pub(super) struct Contents<'m> {
    /// `None`: there were fewer bytes, or more.
    pub(super) digest: Option<Digest>,
    pub(super) mime: Option<&'static str>,
    pub(super) bytes: Bytes<'m>,
}

/// Where the contents of a file are.
pub(super) enum Bytes<'m> {
    /// In memory: of a small file nothing is built before it is known that it has to be.
    Small(Vec<u8>),
    Built(Built<'m>),
}

impl<'m> Contents<'m> {
    /// Reads `size` bytes of a file.
    pub(super) fn of(media: &'m Media, file: &File, size: u64) -> io::Result<Self> {
        if size <= PIECE as u64 {
            let mut bytes = Vec::new();
            let (digest, mime) = read(file, size, |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            return Ok(Self { digest, mime, bytes: Bytes::Small(bytes) });
        }
        let built = Built::new(media)?;
        let (digest, mime) = built.copy(file, size)?;
        Ok(Self { digest, mime, bytes: Bytes::Built(built) })
    }
}

impl<'m> Bytes<'m> {
    /// Returns a copy in the making that has all of it.
    pub(super) fn built(self, media: &'m Media) -> io::Result<Built<'m>> {
        match self {
            Self::Small(bytes) => {
                let built = Built::new(media)?;
                (&built.file).write_all(&bytes)?;
                Ok(built)
            }
            Self::Built(built) => Ok(built),
        }
    }
}

/// Gives `size` bytes of a file to `each`, in pieces. Returns their digest, if there were neither fewer nor more, and their type.
fn read(
    mut from: &File,
    size: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(Option<Digest>, Option<&'static str>)> {
    let (mut hash, mut left, mut mime) = (Sha256::new(), size, None);
    // With room for one more byte, which must not be there.
    let mut piece = vec![0; usize::try_from(size + 1).map_or(PIECE, |all| all.min(PIECE))];
    loop {
        let read = match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if left == size {
            mime = infer::get(&piece[..read]).map(|kind| kind.mime_type());
        }
        match left.checked_sub(read as u64) {
            Some(0) if read == 0 => break,
            Some(rest) if read > 0 => left = rest,
            Some(_) | None => return Ok((None, mime)),
        }
        hash.update(&piece[..read]);
        each(&piece[..read])?;
    }
    Ok((Some(hash.finalize().into()), mime))
}

/// A copy in `data/media/new/`, which is gone again where it is not placed.
pub(super) struct Built<'m> {
    media: &'m Media,
    pub(super) file: File,
    pub(super) name: String,
}

impl<'m> Built<'m> {
    pub(super) fn new(media: &'m Media) -> io::Result<Self> {
        loop {
            let name = media.next.fetch_add(1, Ordering::Relaxed).to_string();
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            match rustix::fs::openat(&media.new, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => return Ok(Self { media, file: file.into(), name }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Copies `size` bytes. Returns their digest, if there were neither fewer nor more, and their type.
    fn copy(&self, from: &File, size: u64) -> io::Result<(Option<Digest>, Option<&'static str>)> {
        read(from, size, |piece| (&self.file).write_all(piece))
    }

    /// Makes it what nobody writes to, and has it on the disk.
    pub(super) fn seal(&self) -> io::Result<()> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(0o444))?;
        self.file.sync_all()
    }

    /// Gives it the name of its contents, unless a file has that already; the file with this name is on the disk then.
    pub(super) fn place(&self, digest: &Digest) -> io::Result<()> {
        self.seal()?;
        let path = path_of(digest);
        let folder = match open_folder(&self.media.kept, &path[..2]) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => {
                self.media.begins_folder(digest);
                make(&self.media.kept, &path[..2], 0o700)?
            }
            Err(error) => return Err(error.into()),
        };
        let placed = rustix::fs::renameat_with(
            &self.media.new,
            &self.name,
            &folder,
            &path[3..],
            RenameFlags::NOREPLACE,
        );
        match placed {
            Ok(()) => {}
            // Somebody else built the same, and may not have synced it yet.
            Err(Errno::EXIST) => self.media.sync(digest)?,
            // A file system that can't do so in one step: the same contents are there before and after.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::renameat(&self.media.new, &self.name, &folder, &path[3..])?;
            }
            Err(error) => return Err(error.into()),
        }
        failpoint::reach("media.named");
        self.media.sync_name(digest, &folder)
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.media.new, &self.name, AtFlags::empty());
    }
}
