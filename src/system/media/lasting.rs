//! Kept files that are on the disk with their names, as far as this process knows: it has synced them.

use std::{collections::BTreeSet, fs::File, io};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType},
    io::Errno,
};

use super::{
    Digest, Media,
    beneath::{open_beneath, open_folder},
    path_of,
};

/// How many files are known of. What is not known any more is synced once more when it is sent again.
const MOST: usize = 1024;

/// What this process has synced.
#[derive(Default)]
pub(super) struct Lasting {
    /// Files, each with its name.
    files: BTreeSet<Digest>,
    /// Names of folders in `data/media/`, by the first byte of the digests in them.
    folders: BTreeSet<u8>,
}

impl Lasting {
    /// A file is removed.
    pub(super) fn forget(&mut self, digest: &Digest) {
        self.files.remove(digest);
    }

    fn add(&mut self, digest: &Digest) {
        if self.files.len() >= MOST {
            self.files.clear();
        }
        self.files.insert(*digest);
    }
}

impl Media {
    /// Whether contents of `size` bytes are kept already, on the disk and with their name, synced here if need be. They are in
    /// hand: nobody removes them meanwhile.
    pub(super) fn lasts(&self, digest: &Digest, size: u64) -> io::Result<bool> {
        let path = path_of(digest);
        match rustix::fs::statat(&self.kept, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat)
                if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                    && u64::try_from(stat.st_size) == Ok(size) => {}
            // What is no such file is nothing of ours.
            Ok(_) | Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if self.hands().lasting.files.contains(digest) {
            return Ok(true);
        }
        self.sync(digest)?;
        self.sync_name(digest, &open_folder(&self.kept, &path[..2])?)?;
        Ok(true)
    }

    /// A folder is made, and its name is not on the disk.
    pub(super) fn begins_folder(&self, digest: &Digest) {
        self.hands().lasting.folders.remove(&digest[0]);
    }

    /// Has the bytes of a kept file on the disk.
    pub(super) fn sync(&self, digest: &Digest) -> io::Result<()> {
        File::from(open_beneath(&self.kept, &path_of(digest))?).sync_all()
    }

    /// Has the name of a kept file on the disk, which is in this folder. Its bytes are there.
    pub(super) fn sync_name(&self, digest: &Digest, folder: &OwnedFd) -> io::Result<()> {
        rustix::fs::fsync(folder)?;
        let is_known = self.hands().lasting.folders.contains(&digest[0]);
        if !is_known {
            rustix::fs::fsync(&self.kept)?;
        }
        let mut hands = self.hands();
        hands.lasting.folders.insert(digest[0]);
        hands.lasting.add(digest);
        Ok(())
    }
}
