//! Putting the project's skills into an agent's own folder, `.claude`, in which it may have laid any trap.
//!
//! Each name is looked up in a directory that is held open, a link in the way is removed and never followed, and each
//! file is built elsewhere and put into its place whole. What the agent has added stays.

use std::{ffi::CString, ops::ControlFlow, path::Path};

use rustix::io::Errno;

use super::{
    dir,
    files::Fd,
    host::{HostDirs, Owner, give_to},
    names::FileKind,
    world_fault::WorldFault,
};

/// The longest file of a skill, bytes.
const LONGEST: u64 = 4 << 20;
/// The most files of all skills.
const MOST: usize = 5_000;
/// The deepest folder in a skill.
const DEEPEST: usize = 8;
/// How often a name is cleared before it is given up.
const TRIES: usize = 3;

impl HostDirs {
    /// Copies each folder in `skills` into `state/skills/`, over what has the same name. `state` itself must not be in a
    /// container's hands; below it nothing is trusted. No `skills`, nothing to do.
    ///
    /// Returns how many files were new or had changed.
    ///
    /// # Errors
    /// [`WorldFault`] when something can't be read or put there.
    pub fn put_skills(&self, skills: &Path, state: &Path, owner: Option<Owner>) -> Result<usize, WorldFault> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |e: Errno| WorldFault::new("putting skills", path, e)
        };
        let source = match self.files().at(skills).open() {
            Ok(source) => source,
            Err(Errno::NOENT) => return Ok(0),
            Err(e) => return Err(failed(skills)(e)),
        };
        let state_fd = self.files().at(state).open_itself().map_err(failed(state))?;
        let target = self.folder_for(&state_fd, "skills", owner).map_err(failed(state))?;
        let mut work = Work { host: self, owner, seen: 0, put: 0 };
        for (name, is) in names(&source).map_err(failed(skills))? {
            if is == FileKind::Directory {
                work.folder(&source, &target, &name, 0)?;
            }
        }
        Ok(work.put)
    }

    /// Opens the folder `name`, making it where there is none; whatever else stands there is removed.
    fn folder_for(&self, at: &Fd, name: &str, owner: Option<Owner>) -> rustix::io::Result<Fd> {
        for _ in 0..TRIES {
            match dir::make_dir(at, name, 0o755) {
                Ok(folder) => {
                    give_to(&folder, owner)?;
                    return Ok(folder);
                }
                Err(Errno::LOOP | Errno::NOTDIR) => self.clear(at, name)?,
                Err(other) => return Err(other),
            }
        }
        Err(Errno::NOTDIR)
    }

    fn clear(&self, at: &Fd, name: &str) -> rustix::io::Result<()> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        self.remove_entry(at, &name)
    }
}

struct Work<'a> {
    host: &'a HostDirs,
    owner: Option<Owner>,
    seen: usize,
    put: usize,
}

impl Work<'_> {
    fn folder(&mut self, from: &Fd, to: &Fd, name: &str, depth: usize) -> Result<(), WorldFault> {
        let failed = |e: Errno| WorldFault::new("putting the skill", name.to_owned(), e);
        let source = dir::open_dir(from, name).map_err(failed)?;
        let target = self.host.folder_for(to, name, self.owner).map_err(failed)?;
        for (inner, is) in names(&source).map_err(failed)? {
            self.seen += 1;
            if self.seen > MOST {
                return Err(WorldFault::new("putting skills", "more than 5000 files", Errno::FBIG));
            }
            match is {
                FileKind::Directory if depth < DEEPEST => self.folder(&source, &target, &inner, depth + 1)?,
                FileKind::File => self.file(&source, &target, &inner)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Fd, to: &Fd, name: &str) -> Result<(), WorldFault> {
        let failed = |e: std::io::Error| WorldFault::new("putting the skill's file", name.to_owned(), e);
        let source = dir::open_to_read(from, name).map_err(|e| failed(e.into()))?;
        let is = source.stat().map_err(|e| failed(e.into()))?;
        if FileKind::of(&is) != FileKind::File {
            return Ok(());
        }
        let bytes = dir::read_at_most(&source, LONGEST + 1).map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Err(failed(Errno::FBIG.into()));
        }
        let mode = if is.st_mode & 0o100 == 0 { 0o644 } else { 0o755 };
        if is_there(to, name, mode, &bytes) {
            return Ok(());
        }
        for _ in 0..TRIES {
            match self.host.build_as(&bytes, mode, self.owner)?.place(to, name) {
                Ok(()) => {
                    self.put += 1;
                    return Ok(());
                }
                Err(Errno::ISDIR) => self.host.clear(to, name).map_err(|e| failed(e.into()))?,
                Err(other) => return Err(failed(other.into())),
            }
        }
        Err(failed(Errno::ISDIR.into()))
    }
}

/// Whether a plain file of just this content and mode is there already.
fn is_there(at: &Fd, name: &str, mode: u32, bytes: &[u8]) -> bool {
    let Ok(file) = dir::open_to_read(at, name) else { return false };
    let Ok(is) = file.stat() else { return false };
    FileKind::of(&is) == FileKind::File
        && is.st_mode & 0o777 == mode
        && dir::read_at_most(&file, bytes.len() as u64 + 1).is_ok_and(|found| found == bytes)
}

/// The names in a folder of ours, with what they are; names that are no UTF-8 are left out.
fn names(at: &Fd) -> rustix::io::Result<Vec<(String, FileKind)>> {
    let mut names = Vec::new();
    dir::each_name(at, |name, _| {
        if let Ok(name) = name.to_str() {
            names.push(name.to_owned());
        }
        if names.len() <= MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    names.sort();
    Ok(names
        .into_iter()
        .filter_map(|name| {
            let is = FileKind::of(&dir::stat(at, name.as_str()).ok()?);
            Some((name, is))
        })
        .collect())
}
