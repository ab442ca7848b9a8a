//! A memory, `CLAUDE.md` in a group's folder or in that of all groups, read and written by a person while its container may do anything there.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
};

use ipc_handlers::Folder;
use rustix::{fs::Mode, io::Errno};
use sha2::{Digest as _, Sha256};

use super::{
    dir,
    files::{At, Fd},
    host::give_to,
    inside::{InsideError, read_inside},
    layout::MEMORY,
    world_fault::WorldFault,
};
use crate::domain::kept::memories::LONGEST_KEPT;

/// The longest memory that a person edits, bytes.
pub const MEMORY_LIMIT: u64 = LONGEST_KEPT as u64;
/// What the name of a memory in the making begins with; the rest is random.
const EDIT: &str = ".CLAUDE.md.edit-";
/// How many such names are tried.
const TRIES: u32 = 16;

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOf<'a> {
    Group(&'a Folder),
    /// The one that all groups share, which the main group's agent can write.
    All,
}

impl<'a> MemoryOf<'a> {
    /// Returns whose it is, by a group's folder; `None`: all groups'.
    #[must_use]
    pub fn named(group: Option<&'a Folder>) -> Self {
        group.map_or(Self::All, Self::Group)
    }

    fn folder(self) -> &'a str {
        match self {
            Self::Group(folder) => folder.as_str(),
            Self::All => "global",
        }
    }
}

/// A memory as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub text: String,
    /// The SHA-256 of its bytes, as hex digits; empty: there is none.
    pub digest: String,
}

/// Why a memory can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("{} is no plain file, or a link leads to it; its agent may have put it there", .0.display())]
    NotAFile(PathBuf),
    #[error("{} has more than {MEMORY_LIMIT} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("{} is no text in UTF-8", .0.display())]
    NoText(PathBuf),
    #[error("{} was changed meanwhile", .0.display())]
    Changed(PathBuf),
    #[error("{} is not there", .0.display())]
    NoFolder(PathBuf),
    #[error(transparent)]
    World(#[from] WorldFault),
}

/// Reads a memory; none is an empty one.
///
/// # Errors
/// [`MemoryError`]
pub fn read_memory<'a>(root: impl Into<At<'a>>, of: MemoryOf<'_>) -> Result<Memory, MemoryError> {
    let root = root.into();
    let folder = root.path.join("groups").join(of.folder());
    let path = || folder.join(MEMORY);
    let read = match read_inside(root.files.at(&folder), Path::new(MEMORY), MEMORY_LIMIT + 1) {
        Ok(read) => read.bytes,
        Err(InsideError::Absent(_)) => return Ok(Memory::default()),
        Err(InsideError::NotAFile(_)) => return Err(MemoryError::NotAFile(path())),
        Err(InsideError::World(error)) => return Err(error.into()),
    };
    if read.len() as u64 > MEMORY_LIMIT {
        return Err(MemoryError::TooLong(path()));
    }
    let digest = Sha256::digest(&read).iter().map(|byte| format!("{byte:02x}")).collect();
    let text = String::from_utf8(read).map_err(|_| MemoryError::NoText(path()))?;
    Ok(Memory { text, digest })
}

/// Puts `text` in the place of a memory, in one step, unless that is not the one of `digest` any more. It belongs to
/// whom the folder belongs to. A change in the very moment of the last step is lost.
///
/// # Errors
/// [`MemoryError`]
pub fn write_memory<'a>(
    root: impl Into<At<'a>>,
    of: MemoryOf<'_>,
    digest: &str,
    text: &str,
) -> Result<(), MemoryError> {
    let root = root.into();
    let path = root.path.join("groups").join(of.folder());
    let memory = path.join(MEMORY);
    if text.len() as u64 > MEMORY_LIMIT {
        return Err(MemoryError::TooLong(memory));
    }
    let writing = |e: Errno| WorldFault::new("writing", memory.display().to_string(), e);
    // A link at the folder's own place is its owner's, and is followed; none below it is.
    let folder = match root.files.at(&path).open() {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(MemoryError::NoFolder(path)),
        Err(error) => return Err(writing(error).into()),
    };
    let (name, file) = building(&folder).map_err(writing)?;
    let place = || -> Result<(), MemoryError> {
        dir::write_all(&file, text.as_bytes())
            .map_err(|e| WorldFault::new("writing", memory.display().to_string(), e))?;
        let is = folder.stat().map_err(writing)?;
        // Nobody but root has something to give away.
        let owner = (root.files.us().0 == 0).then_some((is.st_uid, is.st_gid));
        give_to(&file, owner).map_err(writing)?;
        file.sync().map_err(writing)?;
        if read_memory(root, of)?.digest != digest {
            return Err(MemoryError::Changed(memory.clone()));
        }
        match dir::rename(&folder, &*name, &folder, MEMORY) {
            Ok(()) => Ok(()),
            Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) => Err(MemoryError::NotAFile(memory.clone())),
            Err(error) => Err(writing(error).into()),
        }
    };
    let placed = place();
    if placed.is_err() {
        // What its container has put there instead is the container's.
        let _ = dir::unlink(&folder, &*name);
    }
    placed
}

/// Makes a file beside the memory, by a name that is free.
fn building(folder: &Fd) -> rustix::io::Result<(String, Fd)> {
    for _ in 0..TRIES {
        // By keys of the kernel's: its container can't take the name before.
        let name = format!("{EDIT}{:016x}", RandomState::new().build_hasher().finish());
        match dir::create_new(folder, &*name, Mode::from_raw_mode(0o644)) {
            Ok(file) => return Ok((name, file)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "plays the agent")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn group() -> (tempfile::TempDir, Folder, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("groups/main");
        fs::create_dir_all(&folder).unwrap();
        (root, Folder::parse("main").unwrap(), folder)
    }

    #[test]
    fn a_memory_is_replaced_in_one_step_and_nothing_is_left_beside_it() {
        let (root, main, folder) = group();
        let none = read_memory(root.path(), MemoryOf::Group(&main)).unwrap();
        assert_eq!(none, Memory::default());
        write_memory(root.path(), MemoryOf::Group(&main), &none.digest, "one\n").unwrap();
        let one = read_memory(root.path(), MemoryOf::Group(&main)).unwrap();
        assert_eq!((one.text.as_str(), one.digest.len()), ("one\n", 64));
        // A name that a killed program has left is passed over.
        fs::write(folder.join(".CLAUDE.md.edit-0"), "half").unwrap();
        write_memory(root.path(), MemoryOf::Group(&main), &one.digest, "two\n").unwrap();
        assert_eq!(fs::read_to_string(folder.join("CLAUDE.md")).unwrap(), "two\n");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn a_memory_that_changed_meanwhile_stays() {
        let (root, main, folder) = group();
        fs::write(folder.join("CLAUDE.md"), "mine").unwrap();
        let was = read_memory(root.path(), MemoryOf::Group(&main)).unwrap().digest;
        fs::write(folder.join("CLAUDE.md"), "theirs").unwrap();
        for digest in [was.as_str(), ""] {
            let error = write_memory(root.path(), MemoryOf::Group(&main), digest, "new").unwrap_err();
            assert!(matches!(error, MemoryError::Changed(_)), "{error}");
        }
        fs::remove_file(folder.join("CLAUDE.md")).unwrap();
        let error = write_memory(root.path(), MemoryOf::Group(&main), &was, "new").unwrap_err();
        assert!(matches!(error, MemoryError::Changed(_)), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn nothing_that_an_agent_puts_there_leads_out_of_its_folder() {
        let (root, main, folder) = group();
        let (memory, secret) = (folder.join("CLAUDE.md"), root.path().join("secret"));
        fs::write(&secret, "secret").unwrap();
        let refused = |what: &str| {
            let read = read_memory(root.path(), MemoryOf::Group(&main));
            assert!(matches!(read, Err(MemoryError::NotAFile(_))), "{what}: {read:?}");
            let written = write_memory(root.path(), MemoryOf::Group(&main), "", "new");
            assert!(matches!(written, Err(MemoryError::NotAFile(_))), "{what}: {written:?}");
            assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{what}");
        };
        symlink(&secret, &memory).unwrap();
        refused("a link");
        fs::remove_file(&memory).unwrap();
        symlink(root.path().join("new"), &memory).unwrap();
        refused("a link to nothing");
        assert!(!root.path().join("new").exists());
        fs::remove_file(&memory).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &memory, Mode::RUSR | Mode::WUSR).unwrap();
        refused("a pipe");
        fs::remove_file(&memory).unwrap();
        fs::create_dir(&memory).unwrap();
        refused("a folder");
        fs::remove_dir(&memory).unwrap();
        // Names that it guesses for what is in the making are no hindrance.
        for n in 0..TRIES {
            symlink(&secret, folder.join(format!("{EDIT}{n}"))).unwrap();
            symlink(&secret, folder.join(format!("{EDIT}{n:016x}"))).unwrap();
        }
        write_memory(root.path(), MemoryOf::Group(&main), "", "new").unwrap();
        assert_eq!(fs::read_to_string(&memory).unwrap(), "new");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let (root, main, folder) = group();
        let memory = folder.join("CLAUDE.md");
        fs::File::create(&memory).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(read_memory(root.path(), MemoryOf::Group(&main)), Err(MemoryError::TooLong(_))));
        fs::write(&memory, b"\xff").unwrap();
        assert!(matches!(read_memory(root.path(), MemoryOf::Group(&main)), Err(MemoryError::NoText(_))));
        let long = "x".repeat(usize::try_from(MEMORY_LIMIT).unwrap() + 1);
        assert!(matches!(
            write_memory(root.path(), MemoryOf::Group(&main), "", &long),
            Err(MemoryError::TooLong(_))
        ));
        let gone = Folder::parse("gone").unwrap();
        assert!(matches!(
            write_memory(root.path(), MemoryOf::Group(&gone), "", "x"),
            Err(MemoryError::NoFolder(_))
        ));
    }
}
