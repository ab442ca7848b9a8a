//! Files by their contents: each is kept once, as `data/media/<first two digits>/<SHA-256>`, and shown where it is asked for,
//! as `data/media-of/<group>/<path>`. Nobody but the host can write there.
//!
//! A file is copied, never taken as it is: who wrote it may have it open still. The copy is built in `data/media/new/`, is on the
//! disk before it has its name, and has it before any row names it. While it is in hand ([`InHand`]) it is not removed.
//!
//! Of contents that are kept already no copy is built. What this process has not synced, an earlier one may not have synced
//! either: the file and its name are synced before a row names it again. `media/lasting.rs` knows what needs no more of that.
//!
//! | on disk | a restart |
//! |---|---|
//! | a file in `new/` | removes it |
//! | a file with its name, its folder not synced | has the name or not; either is as below |
//! | a file that no row names | removes it, within seconds |
//! | a row, and its file | has nothing to do |
//! | a file that is shown, of a message that has no such file | removes it |

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64},
};

use ipc_handlers::file::FileFault;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::failpoint;
use crate::system::locked::Locked as _;

mod beneath;
mod built;
mod laid_out;
mod lasting;
mod shown;
#[cfg(test)]
mod tests;

use beneath::{each, for_folders, make, open_beneath, unlink};
use built::Contents;
pub use laid_out::LaidOut;
use lasting::Lasting;

/// The SHA-256 of a file's bytes.
type Digest = [u8; 32];

/// The kept files of a root.
pub struct Media {
    /// `data/media`.
    kept: OwnedFd,
    /// `data/media/new`.
    new: OwnedFd,
    /// `data/media-of`.
    shown: OwnedFd,
    shown_path: PathBuf,
    hands: Mutex<Hands>,
    next: AtomicU64,
}

#[derive(Default)]
struct Hands {
    /// Files that somebody has in hand, and how many do.
    held: BTreeMap<Digest, usize>,
    lasting: Lasting,
}

/// A file that is kept, and stays so until this is dropped, whether a row names it or not.
pub struct InHand {
    pub digest: Digest,
    /// How long it is, bytes.
    pub size: u64,
    /// Its media type, as its first bytes tell.
    pub mime: Option<&'static str>,
    /// Whether a copy was built: nothing had these contents.
    pub is_new: bool,
    media: Arc<Media>,
}

/// Why a file is not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The file's fault.
    #[error("{0:?}")]
    Fault(FileFault),
    /// The machine's.
    #[error("keeping a file failed")]
    World(#[from] io::Error),
}

impl From<Errno> for NotKept {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Fault(FileFault::Absent),
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::XDEV => Self::Fault(FileFault::NotAFile),
            // Held by a lease, or closed to us.
            Errno::AGAIN | Errno::ACCESS | Errno::PERM => Self::Fault(FileFault::Unreadable),
            other => Self::World(other.into()),
        }
    }
}

impl Media {
    /// Opens the kept files below `data`, and removes what an earlier process was building.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(data: &Path) -> io::Result<Arc<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let data_dir = rustix::fs::open(data, flags, Mode::empty())?;
        let kept = make(&data_dir, "media", 0o700)?;
        let new = make(&kept, "new", 0o700)?;
        let shown = make(&data_dir, "media-of", 0o700)?;
        each(&new, |name, _| {
            let _ = rustix::fs::unlinkat(&new, name, AtFlags::empty());
            ControlFlow::Continue(())
        })?;
        Ok(Arc::new(Self {
            kept,
            new,
            shown,
            shown_path: data.join("media-of"),
            hands: Mutex::default(),
            next: AtomicU64::new(1),
        }))
    }

    /// Keeps a copy of an open file, at most `most` bytes of it; blocks until it is on the disk. The file may be an enemy's: only
    /// what is read counts.
    ///
    /// # Errors
    /// [`NotKept`]
    pub fn keep(self: &Arc<Self>, file: &File, most: u64) -> Result<InHand, NotKept> {
        let fault = |fault| Err(NotKept::Fault(fault));
        let before = rustix::fs::fstat(file)?;
        let size = u64::try_from(before.st_size).unwrap_or(0);
        match FileType::from_raw_mode(before.st_mode) {
            FileType::RegularFile if before.st_nlink > 1 => return fault(FileFault::Linked),
            FileType::RegularFile if size > most => return fault(FileFault::TooLarge { size, most }),
            FileType::RegularFile if size == 0 => return fault(FileFault::Empty),
            FileType::RegularFile => {}
            _ => return fault(FileFault::NotAFile),
        }
        let Contents { digest, mime, bytes } = match Contents::of(self, file, size) {
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                return fault(FileFault::Unreadable);
            }
            read => read?,
        };
        let after = rustix::fs::fstat(file)?;
        let stamp = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        let Some(digest) = digest.filter(|_| stamp(&before) == stamp(&after)) else {
            return fault(FileFault::Changed);
        };
        // From now on it is not removed, if it is there.
        let mut hand = self.hold(digest, size, mime);
        if self.lasts(&digest, size)? {
            failpoint::reach("media.known");
            return Ok(hand);
        }
        let built = bytes.built(self)?;
        failpoint::reach("media.copied");
        built.place(&digest)?;
        failpoint::reach("media.kept");
        hand.is_new = true;
        Ok(hand)
    }

    /// Keeps the file at `relative` below a folder that is trusted, and removes it there. Nothing below the folder is followed.
    /// For what channels put into their own folders.
    ///
    /// # Errors
    /// [`NotKept`]; then the file is where it was.
    pub fn take(self: &Arc<Self>, folder: &Path, relative: &str, most: u64) -> Result<InHand, NotKept> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let file = File::from(open_beneath(&folder, relative)?);
        let hand = self.keep(&file, most)?;
        // What can't be removed goes with its folder.
        let _ = unlink(&folder, relative);
        Ok(hand)
    }

    /// Has a kept file in hand: [`Self::forget`] leaves it until the hand is dropped.
    fn hold(self: &Arc<Self>, digest: Digest, size: u64, mime: Option<&'static str>) -> InHand {
        *self.hands().held.entry(digest).or_default() += 1;
        InHand { digest, size, mime, is_new: false, media: Arc::clone(self) }
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.locked()
    }

    /// Opens a kept file for reading.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read(&self, digest: &Digest) -> io::Result<File> {
        Ok(open_beneath(&self.kept, &path_of(digest))?.into())
    }

    /// Removes a kept file that nobody has in hand and that no row names, as `is_named` says. Returns whether it did.
    ///
    /// # Errors
    /// The operating system's, or that of `is_named`.
    pub fn forget<E: From<io::Error>>(
        &self,
        digest: &Digest,
        is_named: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        // A caller that takes it in hand meanwhile waits, and keeps it anew.
        let mut hands = self.hands();
        if hands.held.contains_key(digest) || is_named()? {
            return Ok(false);
        }
        hands.lasting.forget(digest);
        match rustix::fs::unlinkat(&self.kept, path_of(digest), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Calls `visit` with the digest of each kept file.
    ///
    /// # Errors
    /// The operating system's.
    pub fn each_kept(&self, mut visit: impl FnMut(Digest) -> ControlFlow<()>) -> io::Result<()> {
        for_folders(&self.kept, |folder, _| {
            let mut flow = ControlFlow::Continue(());
            each(folder, |name, _| {
                if let Some(digest) = name.to_str().ok().and_then(digest_of) {
                    flow = visit(digest);
                }
                flow
            })?;
            Ok(flow)
        })
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut hands = self.media.hands();
        if let Some(count) = hands.held.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                hands.held.remove(&self.digest);
            }
        }
    }
}

impl std::fmt::Debug for InHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InHand").field(&hex(&self.digest)).finish()
    }
}

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns where a kept file is, below `data/media/`.
fn path_of(digest: &Digest) -> String {
    let hex = hex(digest);
    format!("{}/{hex}", &hex[..2])
}

fn digest_of(name: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if name.len() != 64 || !name.bytes().all(is_digit) {
        return None;
    }
    for (n, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&name[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(digest)
}
