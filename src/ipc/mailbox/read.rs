//! Reading a claimed file: once, into memory, within bounds.

use std::io;

use rustix::io::Errno;

use super::{Claimed, Claims};
use crate::ipc::{
    dir,
    files::{Birth, Fd},
    kernel::Handle,
    names::FileKind,
    world_fault::WorldFault,
};

/// The largest command file, bytes.
pub const COMMAND_LIMIT: u64 = 1_048_576;
/// How much is read of a larger one, to be set aside, bytes.
pub const HEAD: usize = 65_536;

/// A command file's bytes. Everything after works on these; the file may still have a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub bytes: Vec<u8>,
    pub origin: Origin,
}

/// Which file on disk this was, whatever its name: the same after a rename and after a power cut.
///
/// With the group it is unique among receipts, so a file that an unsynced rename puts back in its box is known again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Opaque; begins with a byte of its own for each kind.
    pub key: Vec<u8>,
    pub kind: OriginKind,
}

/// How sure an [`Origin`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OriginKind {
    /// The kernel's file handle.
    Handle,
    /// Device, inode and birth time, as the file system has no handles. Call [`Claims::sync_source`] before the commit.
    Weak,
}

/// Why a claimed file has no bytes to decide on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It was acknowledged, or a person removed it.
    #[error("the claimed file is gone")]
    Gone,
    /// Malformed: it is larger than [`COMMAND_LIMIT`].
    #[error("the file has {size} bytes, more than {COMMAND_LIMIT}")]
    TooLarge {
        /// At least this many bytes.
        size: u64,
        /// Its first [`HEAD`] bytes.
        head: Vec<u8>,
        origin: Origin,
    },
    /// Malformed: a crash came between the claim and the look at what was claimed.
    #[error("a {0} was claimed, and only regular files are commands")]
    NotAFile(FileKind),
    /// Try again later.
    #[error(transparent)]
    World(#[from] WorldFault),
}

impl Claims {
    /// Reads a claimed file. Reading it again, while its writer is not done, may give more.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn read(&self, claimed: &Claimed) -> Result<Read, ReadError> {
        self.read_from(claimed, &self.open_file(claimed)?)
    }

    pub(in crate::ipc) fn read_from(&self, claimed: &Claimed, file: &Fd) -> Result<Read, ReadError> {
        let world = |e: io::Error| claimed.world("reading", e);
        let stat = file.stat().map_err(|e| world(e.into()))?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let origin = origin(file).map_err(|e| world(e.into()))?;
        let wanted = if size > COMMAND_LIMIT { HEAD as u64 } else { COMMAND_LIMIT + 1 };
        let mut bytes = dir::read_expecting(file, size, wanted).map_err(world)?;
        let size = size.max(bytes.len() as u64);
        if size > COMMAND_LIMIT {
            bytes.truncate(HEAD);
            return Err(ReadError::TooLarge { size, head: bytes, origin });
        }
        Ok(Read { bytes, origin })
    }

    /// Opens the claimed file for reading, having made sure that it is one.
    pub(super) fn open_file(&self, claimed: &Claimed) -> Result<Fd, ReadError> {
        match dir::stat(&self.host.claimed, claimed.file_name().as_str()) {
            Ok(stat) if FileKind::of(&stat) == FileKind::File => self.open_known(claimed),
            Ok(stat) => Err(ReadError::NotAFile(FileKind::of(&stat))),
            Err(Errno::NOENT) => Err(ReadError::Gone),
            Err(e) => Err(claimed.world("opening", e).into()),
        }
    }

    /// Opens the claimed file, which is known to be one: nobody else can put anything in its place.
    pub(in crate::ipc) fn open_known(&self, claimed: &Claimed) -> Result<Fd, ReadError> {
        let name = claimed.file_name();
        let name = name.as_str();
        let at = &self.host.claimed;
        let world = |e: Errno| claimed.world("opening", e);
        let fd = match dir::open_to_read(at, name) {
            // Where we are its owner and not root, a mode of 0 is no way to stay unread.
            Err(Errno::ACCESS) => {
                dir::chmod(at, name, 0o600).map_err(world)?;
                dir::open_to_read(at, name)
            }
            other => other,
        };
        match fd {
            Ok(file) => Ok(file),
            Err(Errno::NOENT) => Err(ReadError::Gone),
            Err(e) => Err(world(e).into()),
        }
    }
}

/// Returns which file this is.
pub(in crate::ipc) fn origin(file: &Fd) -> rustix::io::Result<Origin> {
    match file.handle() {
        Some(handle) => Ok(Origin { key: key_of(&handle), kind: OriginKind::Handle }),
        None => weak_origin(file),
    }
}

/// The key of a file handle. Where its layout is known it begins with the inode, highest byte first: files that were made one
/// after the other are neighbours among receipts, and many of them share a page there.
fn key_of(handle: &Handle) -> Vec<u8> {
    match (handle.kind(), handle.bytes()) {
        // An inode of 32 bits and its generation: ext4, XFS with small inodes.
        (1, &[a, b, c, d, w, x, y, z]) => {
            let [a, b, c, d] = u32::from_ne_bytes([a, b, c, d]).to_be_bytes();
            vec![b'i', a, b, c, d, w, x, y, z]
        }
        // An inode of 64 bits and its generation: XFS.
        (0x81, &[a, b, c, d, e, f, g, h, w, x, y, z]) => {
            let [a, b, c, d, e, f, g, h] = u64::from_ne_bytes([a, b, c, d, e, f, g, h]).to_be_bytes();
            vec![b'j', a, b, c, d, e, f, g, h, w, x, y, z]
        }
        (kind, bytes) => [b"h", &kind.to_le_bytes()[..], bytes].concat(),
    }
}

fn weak_origin(file: &Fd) -> rustix::io::Result<Origin> {
    let Birth { device: (major, minor), ino, at } = file.birth()?;
    let mut key = vec![b'w'];
    key.extend(major.to_le_bytes());
    key.extend(minor.to_le_bytes());
    key.extend(ino.to_le_bytes());
    if let Some((seconds, nanoseconds)) = at {
        key.extend(seconds.to_le_bytes());
        key.extend(nanoseconds.to_le_bytes());
    }
    Ok(Origin { key, kind: OriginKind::Weak })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ipc_handlers::Folder;

    use super::*;
    use crate::ipc::HostDirs;

    struct WorldFault {
        _root: tempfile::TempDir,
        host: Arc<HostDirs>,
        claims: Claims,
    }

    fn world() -> WorldFault {
        let root = tempfile::tempdir().unwrap();
        let host = HostDirs::open(root.path()).unwrap();
        let claims = Claims::open(&host, 0).unwrap();
        WorldFault { _root: root, host, claims }
    }

    impl WorldFault {
        fn claimed(&self, id: i64, bytes: &[u8]) -> Claimed {
            let claimed = Claimed::new(&self.host, id, &Folder::parse("main").unwrap(), None);
            dir::write_host_file(&self.host.claimed, claimed.file_name().as_str(), bytes).unwrap();
            claimed
        }
    }

    #[test]
    fn a_file_put_back_has_the_origin_it_had_and_its_copy_has_not() {
        let w = world();
        let first = w.claimed(1, b"{}");
        let before = w.claims.read(&first).unwrap().origin;
        let again = Claimed::new(&w.host, 2, &first.folder, None);
        dir::rename(&w.host.claimed, first.file_name().as_str(), &w.host.claimed, again.file_name().as_str())
            .unwrap();
        assert_eq!(w.claims.read(&again).unwrap().origin, before);
        assert_ne!(w.claims.read(&w.claimed(3, b"{}")).unwrap().origin, before);
        assert!(matches!(w.claims.read(&first), Err(ReadError::Gone)));
    }

    #[test]
    fn keys_of_inodes_that_follow_each_other_do_so_too_and_no_two_files_share_one() {
        let small = |inode: u32, generation: u32| {
            key_of(&Handle::new(1, &[inode.to_ne_bytes(), generation.to_ne_bytes()].concat()))
        };
        let large = |inode: u64, generation: u32| {
            key_of(&Handle::new(0x81, &[&inode.to_ne_bytes()[..], &generation.to_ne_bytes()].concat()))
        };
        let inodes = [0, 1, 255, 256, 257, 65_535, 65_536, u32::MAX];
        assert!(inodes.map(|inode| small(inode, 9)).is_sorted());
        assert!(inodes.map(|inode| large(u64::from(inode) << 20, 9)).is_sorted());
        assert_eq!(small(0x0102_0304, 0), [b'i', 1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(large(0x0102_0304_0506_0708, 0), [b'j', 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
        // Of another kind, or length: as it is.
        assert_eq!(key_of(&Handle::new(0x4d, &[1, 2])), [b'h', 0x4d, 0, 0, 0, 1, 2]);
        assert_eq!(key_of(&Handle::new(1, &[1, 2])), [b'h', 1, 0, 0, 0, 1, 2]);
        assert_eq!(key_of(&Handle::new(1, &[7; 12])), [&[b'h', 1, 0, 0, 0][..], &[7; 12]].concat());
        assert_ne!(small(7, 1), small(7, 2));
        assert_ne!(small(7, 1), large(7, 1));
    }

    #[test]
    fn without_handles_the_inode_and_its_birth_tell_files_apart() {
        let w = world();
        let (one, two) = (w.claimed(1, b""), w.claimed(2, b""));
        let weak = |c: &Claimed| weak_origin(&w.claims.open_file(c).unwrap()).unwrap();
        assert_eq!(weak(&one), weak(&one));
        assert_ne!(weak(&one), weak(&two));
        assert_eq!(weak(&one).kind, OriginKind::Weak);
    }

    #[test]
    fn the_limit_is_inclusive_and_a_larger_file_gives_its_head_only() {
        let w = world();
        let limit = usize::try_from(COMMAND_LIMIT).unwrap();
        assert_eq!(w.claims.read(&w.claimed(1, &vec![b'x'; limit])).unwrap().bytes.len(), limit);
        match w.claims.read(&w.claimed(2, &vec![b'x'; limit + 1])) {
            Err(ReadError::TooLarge { size, head, .. }) => {
                assert_eq!((size, head.len()), (COMMAND_LIMIT + 1, HEAD));
            }
            other => panic!("{other:?}"),
        }
    }
}
