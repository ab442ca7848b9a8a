//! `data/tmp/trash/`: trees that containers made, on their way out.
//!
//! A hostile tree is deeper than any stack and wider than any patience, so it is never walked: each directory found in
//! a directory is first renamed up into the trash itself. Nothing is ever more than two levels from the held
//! descriptor, no link is followed, and the work is cut into pieces by a budget.

use std::{ffi::CString, ops::ControlFlow};

use rustix::{fs::Mode, io::Errno, path::Arg};

use super::{dir, files::Fd, host::HostDirs, world_fault::WorldFault};

/// How far a sweep got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// Nothing is left.
    All,
    /// The budget was used up; call again when there is time.
    More,
    /// This many entries could not be removed.
    Stuck(usize),
}

impl HostDirs {
    /// Removes files and directories from the trash, at most about `budget` of them.
    ///
    /// # Errors
    /// [`WorldFault`] when the trash itself can't be read. What can't be removed is counted, and the rest goes on.
    pub fn sweep(&self, budget: usize) -> Result<Swept, WorldFault> {
        let mut left = budget;
        let mut stuck = Vec::new();
        loop {
            let mut names = Vec::new();
            dir::each_name(&self.trash, |name, _| {
                if !stuck.iter().any(|s: &CString| s.as_c_str() == name) {
                    names.push(name.to_owned());
                }
                if names.len() < 256 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .map_err(|e| WorldFault::new("reading", "data/tmp/trash", e))?;
            if names.is_empty() {
                return Ok(if stuck.is_empty() { Swept::All } else { Swept::Stuck(stuck.len()) });
            }
            for name in names {
                if left == 0 {
                    return Ok(Swept::More);
                }
                left -= 1;
                match self.remove_one(&name, &mut left) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Ok(Swept::More),
                    Err(_) if stuck.len() < 64 => stuck.push(name),
                    Err(e) => return Err(WorldFault::new("emptying", "data/tmp/trash", e)),
                }
            }
        }
    }

    /// Removes one entry of the trash; breaks off when the budget is used up.
    fn remove_one(&self, name: &CString, left: &mut usize) -> rustix::io::Result<ControlFlow<()>> {
        match dir::unlink(&self.trash, name.as_c_str()) {
            Err(Errno::ISDIR | Errno::PERM) => {}
            other => return other.map(ControlFlow::Continue),
        }
        let tree = open_whatever_its_mode(&self.trash, name.as_c_str())?;
        loop {
            if self.empty_once(&tree, left)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match dir::remove_dir(&self.trash, name.as_c_str()) {
                Ok(()) | Err(Errno::NOENT) => return Ok(ControlFlow::Continue(())),
                // Reading while removing skips names, and a container may still hold the directory and add some.
                Err(Errno::NOTEMPTY) if *left > 0 => *left -= 1,
                Err(Errno::NOTEMPTY) => return Ok(ControlFlow::Break(())),
                Err(other) => return Err(other),
            }
        }
    }

    /// Goes once through a directory that containers can, or could, write to: files are unlinked, directories moved to
    /// the trash. Breaks off when the budget is used up.
    pub(super) fn empty_once(&self, tree: &Fd, left: &mut usize) -> rustix::io::Result<ControlFlow<()>> {
        let mut failed = None;
        let mut out = ControlFlow::Continue(());
        dir::each_name(tree, |name, _| {
            if *left == 0 {
                out = ControlFlow::Break(());
                return out;
            }
            *left -= 1;
            if let Err(e) = self.remove_entry(tree, name) {
                failed = Some(e);
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(out), Err)
    }

    /// Removes whatever stands at `name`: unlinked, or moved to the trash when it is a directory that is not empty.
    pub(super) fn remove_entry(&self, at: &Fd, name: &std::ffi::CStr) -> rustix::io::Result<()> {
        match dir::unlink(at, name) {
            Err(Errno::ISDIR | Errno::PERM) => {}
            other => return other,
        }
        if dir::remove_dir(at, name).is_ok() {
            return Ok(());
        }
        match self.discard(at, name) {
            // Moving a directory changes its `..`, for which a daemon that is not root needs its write bit.
            Err(Errno::ACCESS) => {
                make_movable(at, name)?;
                self.discard(at, name)
            }
            other => other,
        }
    }
}

/// Sees to it that a directory's mode does not keep its owner from moving it.
pub(super) fn make_movable(at: &Fd, name: impl Arg + Copy) -> rustix::io::Result<()> {
    open_whatever_its_mode(at, name).map(drop)
}

/// Opens a directory whose mode may keep its own owner out.
fn open_whatever_its_mode(at: &Fd, name: impl Arg + Copy) -> rustix::io::Result<Fd> {
    let is = dir::pass_dir(at, name)?;
    if is.stat()?.st_mode & 0o700 != 0o700 {
        // Through the descriptor: the name may lead elsewhere by now.
        is.chmod(Mode::from_raw_mode(0o700))?;
    }
    dir::open_dir(&is, c".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_deeper_than_any_path_is_removed_in_pieces() {
        let root = tempfile::tempdir().unwrap();
        let host = HostDirs::open(root.path()).unwrap();
        dir::make_new_dir(&host.trash, "deep", 0o755).unwrap();
        let mut at = dir::open_dir(&host.trash, "deep").unwrap();
        for level in 0..3_000 {
            let mode = if level % 7 == 0 { 0 } else { 0o755 };
            dir::make_new_dir(&at, "down", 0o755).unwrap();
            drop(dir::create_new(&at, "file", Mode::from_raw_mode(0)).unwrap());
            let next = dir::open_dir(&at, "down").unwrap();
            at.chmod(Mode::from_raw_mode(mode)).unwrap();
            at = next;
        }
        let mut pieces = 0;
        while host.sweep(500).unwrap() != Swept::All {
            pieces += 1;
            assert!(pieces < 1_000, "the sweep makes no progress");
        }
        assert!(pieces > 10);
    }
}
