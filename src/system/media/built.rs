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

use super::{Digest, Media, beneath::make, path_of};

/// How much of a file is in memory at a time, bytes; its type is told by the first of them.
const PIECE: usize = 64 << 10;
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
    pub(super) fn copy(
        &self,
        mut from: &File,
        size: u64,
    ) -> io::Result<(Option<Digest>, Option<&'static str>)> {
        let (mut hash, mut left, mut mime) = (Sha256::new(), size, None);
        let mut piece = vec![0; PIECE];
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
            (&self.file).write_all(&piece[..read])?;
        }
        Ok((Some(hash.finalize().into()), mime))
    }

    /// Makes it what nobody writes to, and has it on the disk.
    pub(super) fn seal(&self) -> io::Result<()> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(0o444))?;
        self.file.sync_all()
    }

    /// Gives it the name of its contents, unless a file has that already.
    pub(super) fn place(&self, digest: &Digest) -> io::Result<()> {
        self.seal()?;
        let path = path_of(digest);
        let folder = make(&self.media.kept, &path[..2], 0o700)?;
        match rustix::fs::renameat_with(
            &self.media.new,
            &self.name,
            &folder,
            &path[3..],
            RenameFlags::NOREPLACE,
        ) {
            Ok(()) | Err(Errno::EXIST) => {}
            // A file system that can't do so in one step: the same contents are there before and after.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::renameat(&self.media.new, &self.name, &folder, &path[3..])?;
            }
            Err(error) => return Err(error.into()),
        }
        rustix::fs::fsync(&folder)?;
        Ok(rustix::fs::fsync(&self.media.kept)?)
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.media.new, &self.name, AtFlags::empty());
    }
}
