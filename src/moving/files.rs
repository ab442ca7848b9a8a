//! Copying a folder of files in: bounded, by directory handle, and through no link on either side.

mod disk;

use std::{
    collections::BTreeSet,
    ffi::{CStr, CString, OsStr},
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use ipc_handlers::Folder;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};
use schemars::JsonSchema;
use serde::Serialize;

use disk::{BUILDING, FOLDER, There, make_below, make_folder, open_plain, place, there};
pub(super) use disk::{Put, names_below, open_below, put_below};

use crate::domain::moved::{
    findings::{Finding, Findings},
    rows::Kind,
};

/// A folder deeper than this is not copied.
const DEEPEST: usize = 64;
/// A larger file is not copied, bytes.
const LARGEST: u64 = 4 << 30;
/// The most files and folders that come with one installation.
const MOST: u64 = 1_000_000;
/// The most bytes of files that do.
const MOST_BYTES: u64 = 256 << 30;
/// The name of a memory.
const MEMORY: &str = "CLAUDE.md";
/// The name of a memory in NanoClaw v2: where the other one is left out, it takes its place.
const MEMORY_OF_V2: &str = "CLAUDE.local.md";
/// What is put behind the name of a file that differs from the one that is here.
const BESIDE: &str = ".imported";

/// How many files were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    /// Files that are here already, the same byte by byte.
    pub same: u64,
}

/// Whether files are written, or only looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acts {
    #[default]
    Really,
    /// Nothing is written.
    Looking,
}

/// Who may read the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modes {
    /// Agents, as other users of this machine.
    Shared,
    /// This user alone.
    Private,
}

impl Modes {
    /// Returns the bits that a folder has, and a file at most.
    const fn bits(self) -> u32 {
        match self {
            Self::Shared => 0o755,
            Self::Private => 0o700,
        }
    }
}

/// What becomes of a file that is here, and the beginning of the one that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grow {
    /// It stays, as any other.
    Never,
    /// A transcript (`.jsonl`) grows, as only ends are ever written to it. One that went on another way stays alone.
    AtItsEnd,
}

/// Copying under way: what of the bounds is left is shared by all folders of an installation.
pub(super) struct Copying {
    acts: Acts,
    modes: Modes,
    left: (u64, u64),
    grow: Grow,
    /// A memory at the top with one of these texts gives way: nobody has written to it since it was made.
    pub(super) templates: Vec<String>,
    pub(super) copied: Copied,
    /// How much could not be opened or read, or had no room: it may come another time.
    pub(super) unread: u64,
    pub(super) findings: Findings,
}

impl Copying {
    pub(super) fn new(acts: Acts, templates: Vec<String>) -> Self {
        Self {
            acts,
            modes: Modes::Shared,
            grow: Grow::Never,
            left: (MOST, MOST_BYTES),
            templates,
            copied: Copied::default(),
            unread: 0,
            findings: Findings::default(),
        }
    }

    /// Copies what is in the folder `from` into `to`, which is below `root` and made if it is not there. Names in `without` at its top
    /// are left out. A file that is here stays; another one of its name is put beside it.
    ///
    /// # Errors
    /// The operating system's, where writing here fails. What can't be read there is told, and the rest is copied.
    pub(super) fn folder(
        &mut self,
        from: &Path,
        (root, to): (&Path, &Path),
        modes: Modes,
        without: &[String],
    ) -> io::Result<()> {
        self.modes = modes;
        let opened = rustix::fs::open(from, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        self.opened(opened, from, (root, to), without)
    }

    /// Does the same with a folder of an installation: no part of its path may be a link, as its agents can make some.
    ///
    /// # Errors
    /// As above.
    pub(super) fn tree(
        &mut self,
        from: &Path,
        (root, to): (&Path, &Path),
        (modes, grow): (Modes, Grow),
        without: &[String],
    ) -> io::Result<()> {
        (self.modes, self.grow) = (modes, grow);
        self.opened(open_plain(from), from, (root, to), without)
    }

    fn opened(
        &mut self,
        opened: rustix::io::Result<OwnedFd>,
        path: &Path,
        (root, to): (&Path, &Path),
        without: &[String],
    ) -> io::Result<()> {
        let from = match opened {
            Ok(from) => from,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => {
                let why = match error {
                    Errno::LOOP => "it is a link, or lies behind one",
                    Errno::XDEV => "its path leads out",
                    Errno::NOTDIR => "it is no folder",
                    _ => "it can't be read",
                };
                self.unread(path, why);
                return Ok(());
            }
        };
        let to = match self.acts {
            Acts::Looking => None,
            Acts::Really => Some(make_below(root, to, self.modes)?),
        };
        let without: BTreeSet<&str> = without.iter().map(String::as_str).collect();
        self.inside(&from, to.as_ref(), path, 0, &without)?;
        if let Some(to) = &to {
            rustix::fs::syncfs(to)?;
        }
        Ok(())
    }

    fn inside(
        &mut self,
        from: &OwnedFd,
        to: Option<&OwnedFd>,
        at: &Path,
        depth: usize,
        without: &BTreeSet<&str>,
    ) -> io::Result<()> {
        for name in self.names(from, at) {
            let path = at.join(OsStr::from_bytes(name.to_bytes()));
            let text = name.to_string_lossy();
            if depth == 0 && without.contains(text.as_ref()) {
                continue;
            }
            if self.left.0 == 0 {
                self.unread(&path, format!("there are more than {MOST} files"));
                return Ok(());
            }
            self.left.0 -= 1;
            if name.to_bytes() == BUILDING.as_bytes() {
                self.leave(&path, "its name is that of a copy in the making");
                continue;
            }
            let Ok(stat) = rustix::fs::statat(from, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                self.unread(&path, "it can't be read");
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth >= DEEPEST => self.leave(&path, "it lies too deep"),
                FileType::Directory => {
                    let Ok(inner) = rustix::fs::openat(from, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
                    else {
                        self.unread(&path, "it can't be read");
                        continue;
                    };
                    let there = match to.map(|to| make_folder(to, &name, self.modes)).transpose() {
                        Ok(there) => there,
                        Err(Errno::LOOP | Errno::NOTDIR) => {
                            self.leave(&path, "something that is no folder stands in its place here");
                            continue;
                        }
                        Err(error) => return Err(error.into()),
                    };
                    self.inside(&inner, there.as_ref(), &path, depth + 1, &BTreeSet::new())?;
                }
                FileType::RegularFile => {
                    let is_memory = depth == 0 && without.contains(MEMORY) && text == MEMORY_OF_V2;
                    let called = if is_memory { CString::new(MEMORY)? } else { name.clone() };
                    self.file((from, &name), (to, &called), &path, depth)?;
                }
                FileType::Symlink => self.leave(&path, "it is a link"),
                _ => self.leave(&path, "it is no plain file"),
            }
        }
        if let Some(to) = to {
            // What an import has left that died.
            let _ = rustix::fs::unlinkat(to, BUILDING, AtFlags::empty());
        }
        Ok(())
    }

    /// Returns the names in a folder, in order.
    fn names(&mut self, folder: &OwnedFd, at: &Path) -> Vec<CString> {
        let mut names = Vec::new();
        let Ok(entries) = Dir::read_from(folder) else {
            self.unread(at, "it can't be read");
            return names;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                self.unread(at, "it can't be read to its end");
                break;
            };
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
            if names.len() as u64 > MOST {
                break;
            }
        }
        names.sort();
        names
    }

    fn unread(&mut self, path: &Path, why: impl Into<String>) {
        self.unread += 1;
        self.leave(path, why);
    }

    fn leave(&mut self, path: &Path, why: impl Into<String>) {
        self.findings.add(Finding::left(Kind::File, path.display().to_string(), why));
    }

    fn file(
        &mut self,
        (from, there_called): (&OwnedFd, &CStr),
        (to, name): (Option<&OwnedFd>, &CStr),
        path: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(from, there_called, flags, Mode::empty())
            .and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        let Ok((stat, file)) = opened else {
            self.unread(path, "it can't be read");
            return Ok(());
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            self.leave(path, "it is no plain file");
            return Ok(());
        }
        if size > LARGEST {
            self.leave(path, "it is too large");
            return Ok(());
        }
        if size > self.left.1 {
            self.unread(path, format!("there are more than {MOST_BYTES} bytes of files"));
            return Ok(());
        }
        self.left.1 -= size;
        let Some(to) = to else {
            self.copied.files += 1;
            self.copied.bytes += size;
            return Ok(());
        };
        let is_memory = depth == 0 && name.to_bytes() == MEMORY.as_bytes();
        let templates: &[String] = if is_memory { &self.templates } else { &[] };
        let mut file = File::from(file);
        let grows = self.grow == Grow::AtItsEnd && name.to_bytes().ends_with(b".jsonl");
        let placed = match there(to, name, &mut file, templates)? {
            There::Same => {
                self.copied.same += 1;
                return Ok(());
            }
            There::Nothing => place(to, &mut file, (&stat, self.modes), name, RenameFlags::NOREPLACE)?,
            There::Template => place(to, &mut file, (&stat, self.modes), name, RenameFlags::empty())?,
            There::Beginning if grows => {
                place(to, &mut file, (&stat, self.modes), name, RenameFlags::empty())?
            }
            There::Longer if grows => {
                self.copied.same += 1;
                return Ok(());
            }
            There::Other if grows => {
                self.leave(path, "another one is here, which went on, and stays alone");
                return Ok(());
            }
            There::Beginning | There::Longer | There::Other => {
                let beside = CString::new([name.to_bytes(), BESIDE.as_bytes()].concat())?;
                match there(to, &beside, &mut file, &[])? {
                    There::Nothing => {
                        let why = format!(
                            "another file is here, which stays; this one is {}",
                            beside.to_string_lossy()
                        );
                        self.findings.add(Finding::changed(Kind::File, path.display().to_string(), why));
                        place(to, &mut file, (&stat, self.modes), &beside, RenameFlags::NOREPLACE)?
                    }
                    There::Same => {
                        self.copied.same += 1;
                        return Ok(());
                    }
                    There::Template | There::Beginning | There::Longer | There::Other => {
                        self.leave(path, "other files are here in its place");
                        return Ok(());
                    }
                }
            }
        };
        match placed {
            Some(bytes) => {
                self.copied.files += 1;
                self.copied.bytes += bytes;
            }
            None => self.unread(path, "it can't be read to its end"),
        }
        Ok(())
    }
}

/// Returns the place of a folder below a root.
pub(super) fn place_below(to: &super::Place) -> Option<PathBuf> {
    use super::Place;
    Some(match to {
        Place::Group(group) => Path::new("groups").join(group.as_str()),
        Place::Global => PathBuf::from("groups/global"),
        Place::Agent(group) => Path::new("data/sessions").join(group.as_str()).join(".claude"),
        Place::Transcripts(group) => transcripts_of(group),
        Place::Skills(group) => Path::new("data/sessions").join(group.as_str()).join(".claude/skills"),
        Place::Template => PathBuf::from("groups/_template"),
        Place::AllSkills => PathBuf::from("container/skills"),
        Place::Memories(group) => {
            Path::new("data/memories").join(group.as_ref().map_or("global", Folder::as_str))
        }
        Place::Media => return None,
    })
}

/// Returns the folder of the transcripts of a group, below a root: the agent's program names it by the working folder in the container.
pub(super) fn transcripts_of(group: &Folder) -> PathBuf {
    Path::new("data/sessions").join(group.as_str()).join(".claude/projects/-workspace-group")
}
