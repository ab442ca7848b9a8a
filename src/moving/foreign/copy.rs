//! A private copy of a store that another program may be writing to. Its files are only read, and no lock of theirs is taken: the
//! program never waits, and nothing appears beside them.
//!
//! A copy counts only if the store stood still meanwhile. With a log (`-wal`) the store itself changes at a checkpoint alone,
//! and the log grows at its end, where half a frame is no frame. So the store and its journal have to be the same before and
//! after, and the log has to have the same head.
#![expect(
    clippy::disallowed_methods,
    reason = "writes a private copy into a folder of its own, and reads the files of another program by handle"
)]

use std::{
    fs::{File, Metadata},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use tempfile::TempDir;

use super::super::{
    installation::{Installation, Unread},
    order::private_folder,
};

/// A larger store is not read, bytes.
pub(super) const LARGEST: u64 = 256 << 30;
/// How often a copy is tried of a store that changes meanwhile.
const TRIES: usize = 200;
/// The end of a journal that names another file, which SQLite would remove.
const NAMES_ANOTHER: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The head of a log, bytes: its salts are others once it begins anew.
const HEAD: usize = 32;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum NoCopy {
    #[error("{0}")]
    Unread(#[from] Unread),
    #[error("it has {0} bytes, and at most {LARGEST} are read")]
    TooLarge(u64),
    #[error("a copy of its {0} bytes has no room in {1}")]
    NoRoom(u64, String),
    #[error("it changes faster than it can be read; stop its program, and try again")]
    Changes,
    #[error("its journal names another file, which would be removed")]
    Journal,
    #[error("it can't be copied: {0}")]
    Io(#[from] std::io::Error),
}

/// The name of the store in its folder.
pub(super) const NAME: &str = "store.sqlite";

/// A copy, and what lay beside the store.
pub(super) struct Copied {
    pub folder: TempDir,
    pub has_log: bool,
    pub bytes: u64,
    /// As many bytes it should have more, by its own head.
    pub missing: Option<u64>,
}

/// What tells a file from a changed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            file: (meta.dev(), meta.ino()),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// How the three files of a store stand; `None`: not there, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    store: Stamp,
    journal: Option<Stamp>,
    log: Option<((u64, u64), [u8; HEAD])>,
}

/// Copies the store `inner` of an installation, with its log or its journal.
pub(super) fn copy(installation: &Installation, inner: &str) -> Result<Copied, NoCopy> {
    let store = installation.file(inner)?;
    let folder = private_folder(installation.scratch())?;
    let there = store.metadata()?.len();
    let beside = beside(installation, inner, "-wal")?.map_or(Ok(0), |log| log.metadata().map(|m| m.len()))?;
    let bytes = there.saturating_add(beside);
    if bytes > LARGEST {
        return Err(NoCopy::TooLarge(bytes));
    }
    let room = rustix::fs::statvfs(folder.path()).map_err(std::io::Error::from)?;
    if room.f_bavail.saturating_mul(room.f_frsize) < bytes.saturating_add(bytes / 8) {
        return Err(NoCopy::NoRoom(
            bytes,
            folder.path().parent().unwrap_or(folder.path()).display().to_string(),
        ));
    }
    for _ in 0..TRIES {
        if let Some(has_log) = once(installation, inner, folder.path())? {
            let missing = missing(&folder.path().join(NAME))?.filter(|_| !has_log);
            return Ok(Copied { folder, has_log, bytes, missing });
        }
    }
    Err(NoCopy::Changes)
}

/// Copies once; `None`: the store changed meanwhile. Says whether there is a log.
fn once(installation: &Installation, inner: &str, folder: &Path) -> Result<Option<bool>, NoCopy> {
    // A file's times are those of the kernel's last tick: what changed after this mark has no earlier time than it. Where the
    // store changed in this tick already, times tell nothing, and its bytes are compared.
    let mark = tempfile::Builder::new().prefix("mark").tempfile_in(folder)?;
    let mark = Stamp::of(&mark.as_file().metadata()?).changed;
    let before = look(installation, inner)?;
    let is_fresh = |stamp: Stamp| stamp.changed >= mark;
    let is_fresh = is_fresh(before.store) || before.journal.is_some_and(is_fresh);
    for (end, wanted) in [("", true), ("-journal", before.journal.is_some()), ("-wal", before.log.is_some())]
    {
        let to = folder.join(format!("{NAME}{end}"));
        match std::fs::remove_file(&to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        if !wanted {
            continue;
        }
        let Some(from) = beside(installation, inner, end)? else { return Ok(None) };
        let mut to = std::fs::OpenOptions::new().write(true).create_new(true).open(to)?;
        std::io::copy(&mut from.take(LARGEST), &mut to)?;
    }
    if is_fresh && !(same(installation, inner, "", folder)? && same(installation, inner, "-journal", folder)?)
    {
        return Ok(None);
    }
    if look(installation, inner)? != before {
        return Ok(None);
    }
    if before.journal.is_some() && names_another(&folder.join(format!("{NAME}-journal")))? {
        return Err(NoCopy::Journal);
    }
    Ok(Some(before.log.is_some()))
}

/// Whether a file and its copy have the same bytes.
fn same(installation: &Installation, inner: &str, end: &str, folder: &Path) -> Result<bool, NoCopy> {
    let copy = folder.join(format!("{NAME}{end}"));
    let (source, copy) = match (beside(installation, inner, end)?, File::open(copy)) {
        (Some(source), Ok(copy)) => (source, copy),
        (None, Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        (_, Err(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        (_, _) => return Ok(false),
    };
    let (mut source, mut copy) = (BufReader::new(source), BufReader::new(copy));
    loop {
        let (a, b) = (source.fill_buf()?, copy.fill_buf()?);
        let both = a.len().min(b.len());
        if a[..both] != b[..both] || (both == 0 && a.len() != b.len()) {
            return Ok(false);
        }
        if both == 0 {
            return Ok(true);
        }
        source.consume(both);
        copy.consume(both);
    }
}

/// A file beside the store, or the store itself; `None`: there is none.
fn beside(installation: &Installation, inner: &str, end: &str) -> Result<Option<File>, NoCopy> {
    match installation.file(&format!("{inner}{end}")) {
        Ok(file) => Ok(Some(file)),
        Err(Unread::Missing) if !end.is_empty() => Ok(None),
        Err(why) => Err(why.into()),
    }
}

fn look(installation: &Installation, inner: &str) -> Result<Seen, NoCopy> {
    let store = Stamp::of(&installation.file(inner)?.metadata()?);
    let journal = match beside(installation, inner, "-journal")? {
        Some(file) => Some(Stamp::of(&file.metadata()?)).filter(|stamp| stamp.size > 0),
        None => None,
    };
    let log = match beside(installation, inner, "-wal")? {
        Some(mut file) => {
            let meta = file.metadata()?;
            let mut head = [0; HEAD];
            match file.read_exact(&mut head) {
                Ok(()) => Some(((meta.dev(), meta.ino()), head)),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
                Err(error) => return Err(error.into()),
            }
        }
        None => None,
    };
    Ok(Seen { store, journal, log })
}

/// Returns how many bytes a store has less than its head says; `None`: it is whole, or has no head that says it.
fn missing(store: &Path) -> std::io::Result<Option<u64>> {
    let mut file = File::open(store)?;
    let len = file.metadata()?.len();
    let mut head = [0; 100];
    if len < 100 {
        return Ok(None);
    }
    file.read_exact(&mut head)?;
    let number = |at: usize| head[at..at + 4].iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    // A size of 1 stands for 65 536. The number of pages counts if it was written with the last change.
    let size = match (u64::from(head[16]) << 8) | u64::from(head[17]) {
        1 => 65_536,
        size => size,
    };
    let whole = (number(24) == number(92)).then(|| size * number(28));
    Ok(whole.and_then(|whole| whole.checked_sub(len)).filter(|missing| *missing > 0))
}

/// Whether a journal says at its end that it belongs to another one.
fn names_another(journal: &Path) -> std::io::Result<bool> {
    let mut file = File::open(journal)?;
    let len = file.metadata()?.len();
    if len < 16 {
        return Ok(false);
    }
    let mut end = [0; 8];
    file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut end)?;
    Ok(end == NAMES_ANOTHER)
}
