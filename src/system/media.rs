//! Files by their contents: each is kept once, as `data/media/<first two digits>/<SHA-256>`, and shown where it is asked for,
//! as `data/media-of/<group>/<path>`. Nobody but the host can write there.
//!
//! A file is copied, never taken as it is: who wrote it may have it open still. The copy is built in `data/media/new/`, is on the
//! disk before it has its name, and has it before any row names it. While it is in hand ([`InHand`]) it is not removed.
//!
//! | on disk | a restart |
//! |---|---|
//! | a file in `new/` | removes it |
//! | a file that no row names | removes it, within seconds |
//! | a row, and its file | has nothing to do |
//! | a file that is shown, of a message that has no such file | removes it |

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ipc_handlers::file::FileFault;
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::failpoint;

/// The SHA-256 of a file's bytes.
type Digest = [u8; 32];

/// How much of a file is in memory at a time, bytes; its type is told by the first of them.
const PIECE: usize = 64 << 10;
/// Nothing below a trusted folder leads anywhere else.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The kept files of a root.
pub struct Media {
    /// `data/media`.
    kept: OwnedFd,
    /// `data/media/new`.
    new: OwnedFd,
    /// `data/media-of`.
    shown: OwnedFd,
    shown_path: PathBuf,
    /// Files that somebody has in hand, and how many do.
    hands: Mutex<BTreeMap<Digest, usize>>,
    next: AtomicU64,
}

/// A file that is kept, and stays so until this is dropped, whether a row names it or not.
pub struct InHand {
    pub digest: Digest,
    /// How long it is, bytes.
    pub size: u64,
    /// Its media type, as its first bytes tell.
    pub mime: Option<&'static str>,
    media: Arc<Media>,
}

/// A copy of a kept file for somebody who reads it while this lives.
#[derive(Debug)]
pub struct LaidOut {
    folder: OwnedFd,
    relative: String,
}

impl Drop for LaidOut {
    fn drop(&mut self) {
        // It may be gone with its folder. Nothing is followed on the way: the folder above it is opened, or not.
        if let Some((above, name)) = self.relative.rsplit_once('/')
            && let Ok(above) = open_folder(&self.folder, above)
        {
            let _ = rustix::fs::unlinkat(above, name, AtFlags::empty());
        }
    }
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
        let built = Built::new(self)?;
        let (digest, mime) = match built.copy(file, size) {
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                return fault(FileFault::Unreadable);
            }
            copied => copied?,
        };
        let after = rustix::fs::fstat(file)?;
        let stamp = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        let Some(digest) = digest.filter(|_| stamp(&before) == stamp(&after)) else {
            return fault(FileFault::Changed);
        };
        failpoint::reach("media.copied");
        let hand = self.hold(digest, size, mime);
        built.place(&digest)?;
        failpoint::reach("media.kept");
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
        let _ = rustix::fs::unlinkat(&folder, relative, AtFlags::empty());
        Ok(hand)
    }

    /// Removes a file that is not kept, below a folder of a channel's own.
    pub fn discard(&self, folder: &Path, relative: &str) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(folder) = rustix::fs::open(folder, flags, Mode::empty())
            && let Some((above, name)) = relative.rsplit_once('/')
            && let Ok(above) = open_folder(&folder, above)
        {
            let _ = rustix::fs::unlinkat(above, name, AtFlags::empty());
        }
    }

    /// Has a kept file in hand: [`Self::forget`] leaves it until the hand is dropped.
    fn hold(self: &Arc<Self>, digest: Digest, size: u64, mime: Option<&'static str>) -> InHand {
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        *hands.entry(digest).or_default() += 1;
        InHand { digest, size, mime, media: Arc::clone(self) }
    }

    /// Opens a kept file for reading.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read(&self, digest: &Digest) -> io::Result<File> {
        Ok(open_beneath(&self.kept, &path_of(digest))?.into())
    }

    /// Lays a copy of a kept file at `relative` below `folder`, where nothing has that name; others may write there, so nothing
    /// below the folder is followed. It is gone again when what is returned is dropped.
    ///
    /// # Errors
    /// The operating system's.
    pub fn lay_out(&self, digest: &Digest, folder: &Path, relative: &str) -> io::Result<LaidOut> {
        let mut from = self.read(digest)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = rustix::fs::openat2(&folder, relative, flags, Mode::from_raw_mode(0o400), BENEATH)?;
        let laid = LaidOut { folder, relative: relative.to_owned() };
        io::copy(&mut from, &mut File::from(made))?;
        Ok(laid)
    }

    /// Returns where a group's files are shown.
    #[must_use]
    pub fn shown_to(&self, group: &str) -> PathBuf {
        self.shown_path.join(group)
    }

    /// Makes the folder in which a group's files are shown, and returns where it is.
    ///
    /// # Errors
    /// The operating system's.
    pub fn make_shown_to(&self, group: &str) -> io::Result<PathBuf> {
        make(&self.shown, group, 0o755)?;
        Ok(self.shown_to(group))
    }

    /// Shows a kept file to a group, at `DATE/NAME` in its folder: the same file by another name, or a copy where there are no
    /// links. Doing it again changes nothing.
    ///
    /// # Errors
    /// The operating system's.
    pub fn show(&self, group: &str, path: &str, digest: &Digest) -> io::Result<()> {
        let (date, name) = path.split_once('/').ok_or(Errno::INVAL)?;
        let day = make(&make(&self.shown, group, 0o755)?, date, 0o755)?;
        match rustix::fs::linkat(&self.kept, path_of(digest), &day, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP | Errno::XDEV) => {
                let mut from = self.read(digest)?;
                let built = Built::new(self)?;
                io::copy(&mut from, &mut &built.file)?;
                built.seal()?;
                let placed =
                    rustix::fs::renameat_with(&self.new, &built.name, &day, name, RenameFlags::NOREPLACE);
                placed.or_else(|error| if error == Errno::EXIST { Ok(()) } else { Err(error) })?;
            }
            Err(other) => return Err(other.into()),
        }
        failpoint::reach("media.shown");
        Ok(())
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
        // Who takes it in hand meanwhile waits, and keeps it anew.
        let hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        if hands.contains_key(digest) || is_named()? {
            return Ok(false);
        }
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

    /// Calls `stays` with the group and the name of each file that is shown; what does not stay is removed.
    ///
    /// # Errors
    /// The operating system's.
    pub fn sweep_shown(&self, mut stays: impl FnMut(&str, &str) -> bool) -> io::Result<()> {
        for_folders(&self.shown, |group_folder, group| {
            let mut left = 0_usize;
            for_folders(group_folder, |day, date| {
                let mut files = 0_usize;
                each(day, |name, _| {
                    let known = name.to_str().is_ok_and(|name| stays(group, name));
                    if known || rustix::fs::unlinkat(day, name, AtFlags::empty()).is_err() {
                        files += 1;
                    }
                    ControlFlow::Continue(())
                })?;
                if files > 0 || rustix::fs::unlinkat(group_folder, date, AtFlags::REMOVEDIR).is_err() {
                    left += 1;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if left == 0 && !stays(group, "") {
                let _ = rustix::fs::unlinkat(&self.shown, group, AtFlags::REMOVEDIR);
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut hands = self.media.hands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = hands.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                hands.remove(&self.digest);
            }
        }
    }
}

impl std::fmt::Debug for InHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InHand").field(&hex(&self.digest)).finish()
    }
}

/// A copy in `data/media/new/`, which is gone again where it is not placed.
struct Built<'m> {
    media: &'m Media,
    file: File,
    name: String,
}

impl<'m> Built<'m> {
    fn new(media: &'m Media) -> io::Result<Self> {
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
    fn copy(&self, mut from: &File, size: u64) -> io::Result<(Option<Digest>, Option<&'static str>)> {
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
    fn seal(&self) -> io::Result<()> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(0o444))?;
        self.file.sync_all()
    }

    /// Gives it the name of its contents, unless a file has that already.
    fn place(&self, digest: &Digest) -> io::Result<()> {
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

/// Opens a file beneath a folder for reading: through no link, onto no other file system, and without waiting.
fn open_beneath(folder: impl AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), BENEATH)
}

/// Opens a folder of ours, made where it is not there.
fn make(at: impl AsFd, name: &str, mode: u32) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(at.as_fd(), name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(open_folder(at, name)?),
        Err(error) => Err(error.into()),
    }
}

fn open_folder(at: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(at, name, flags, Mode::empty(), BENEATH)
}

/// Calls `visit` with each name in a folder.
fn each(
    folder: impl AsFd,
    mut visit: impl FnMut(&std::ffi::CStr, FileType) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut names = Dir::new(open_folder(folder, ".")?)?;
    while let Some(entry) = names.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." && visit(name, entry.file_type()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Calls `visit` with each folder in a folder, and its name.
fn for_folders(
    folder: impl AsFd,
    mut visit: impl FnMut(&OwnedFd, &str) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut names = Vec::new();
    each(folder.as_fd(), |name, _| {
        names.extend(name.to_str().map(str::to_owned));
        ControlFlow::Continue(())
    })?;
    for name in names {
        match open_folder(folder.as_fd(), &name) {
            Ok(inner) => {
                if visit(&inner, &name)?.is_break() {
                    break;
                }
            }
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "plays who writes files")]
mod tests {
    use std::fs;

    use super::*;

    const MOST: u64 = 1 << 20;

    struct World {
        root: tempfile::TempDir,
        media: Arc<Media>,
    }

    fn world() -> World {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        fs::create_dir(root.path().join("in")).unwrap();
        let media = Media::open(&root.path().join("data")).unwrap();
        World { root, media }
    }

    impl World {
        fn spool(&self) -> PathBuf {
            self.root.path().join("in")
        }

        fn take(&self, name: &str) -> Result<InHand, NotKept> {
            self.media.take(&self.spool(), name, MOST)
        }

        fn fault(&self, name: &str) -> FileFault {
            match self.take(name) {
                Err(NotKept::Fault(fault)) => fault,
                other => panic!("{name}: {other:?}"),
            }
        }

        fn kept(&self) -> usize {
            let mut count = 0;
            self.media
                .each_kept(|_| {
                    count += 1;
                    ControlFlow::Continue(())
                })
                .unwrap();
            count
        }
    }

    #[test]
    fn equal_files_are_kept_once_and_leave_where_they_were() {
        let w = world();
        fs::write(w.spool().join("a"), b"\x89PNG\r\n\x1a\nx").unwrap();
        fs::create_dir(w.spool().join("d")).unwrap();
        fs::write(w.spool().join("d/b"), b"\x89PNG\r\n\x1a\nx").unwrap();
        let (a, b) = (w.take("a").unwrap(), w.take("d/b").unwrap());
        assert_eq!((a.digest, a.size, a.mime), (b.digest, 9, Some("image/png")));
        assert_eq!(w.kept(), 1);
        assert!(!w.spool().join("a").exists() && !w.spool().join("d/b").exists());
        assert_eq!(fs::read_dir(w.root.path().join("data/media/new")).unwrap().count(), 0);
        let mut bytes = Vec::new();
        w.media.read(&a.digest).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"\x89PNG\r\n\x1a\nx");
    }

    #[test]
    fn what_is_no_plain_file_of_a_size_is_not_kept() {
        use std::os::unix::fs::symlink;
        let w = world();
        let at = |name: &str| w.spool().join(name);
        fs::write(at("secret"), "x").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        symlink(w.root.path().join("data"), at("out")).unwrap();
        fs::hard_link(at("secret"), at("second")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR).unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("empty"), "").unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, fault) in [
            ("absent", FileFault::Absent),
            ("link", FileFault::NotAFile),
            ("out/media", FileFault::NotAFile),
            ("../data", FileFault::NotAFile),
            ("second", FileFault::Linked),
            ("secret", FileFault::Linked),
            ("pipe", FileFault::NotAFile),
            ("socket", FileFault::NotAFile),
            ("folder", FileFault::NotAFile),
            ("empty", FileFault::Empty),
            ("huge", FileFault::TooLarge { size: 1 << 40, most: MOST }),
        ] {
            assert_eq!(w.fault(name), fault, "{name}");
        }
        assert_eq!(w.kept(), 0);
    }

    #[test]
    fn a_file_that_grows_or_shrinks_while_it_is_read_is_not_kept() {
        let w = world();
        let path = w.spool().join("a");
        for (before, after) in [(10_u64, 11_u64), (10, 9), (200_000, 100_000)] {
            fs::write(&path, vec![b'x'; usize::try_from(after).unwrap()]).unwrap();
            let built = Built::new(&w.media).unwrap();
            let (digest, _) = built.copy(&File::open(&path).unwrap(), before).unwrap();
            assert_eq!(digest, None, "{before} {after}");
        }
    }

    #[test]
    fn a_file_is_forgotten_when_no_row_names_it_and_nobody_has_it_in_hand() {
        let w = world();
        fs::write(w.spool().join("a"), "x").unwrap();
        let hand = w.take("a").unwrap();
        let digest = hand.digest;
        let forget = |named: bool| w.media.forget(&digest, || Ok::<_, io::Error>(named)).unwrap();
        assert!(!forget(false), "it is in hand");
        drop(hand);
        assert!(!forget(true), "a row names it");
        assert!(forget(false) && !forget(false));
        assert_eq!(w.kept(), 0);
    }

    #[test]
    fn a_file_that_is_shown_is_the_kept_one_and_goes_when_it_is_to() {
        use std::os::unix::fs::MetadataExt as _;
        let w = world();
        fs::write(w.spool().join("a"), "x").unwrap();
        let hand = w.take("a").unwrap();
        for _ in 0..2 {
            w.media.show("main", "2026-11-22/1-1-a", &hand.digest).unwrap();
        }
        let shown = w.media.shown_to("main").join("2026-11-22/1-1-a");
        let meta = fs::metadata(&shown).unwrap();
        assert_eq!((meta.nlink(), meta.mode() & 0o7777), (2, 0o444));
        w.media.sweep_shown(|group, _| group == "main").unwrap();
        assert!(shown.exists());
        w.media.sweep_shown(|_, name| name.is_empty()).unwrap();
        assert!(!shown.exists() && w.media.shown_to("main").exists());
        w.media.sweep_shown(|_, _| false).unwrap();
        assert!(!w.media.shown_to("main").exists());
        assert_eq!(w.kept(), 1);
    }

    #[test]
    fn what_was_being_built_is_gone_at_a_start() {
        let w = world();
        fs::write(w.root.path().join("data/media/new/7"), "half").unwrap();
        Media::open(&w.root.path().join("data")).unwrap();
        assert_eq!(fs::read_dir(w.root.path().join("data/media/new")).unwrap().count(), 0);
    }
}
