//! Kept files as groups see them, each in a folder of its group.

use std::{io, ops::ControlFlow, path::PathBuf};

use rustix::{
    fs::{AtFlags, RenameFlags},
    io::Errno,
};

use super::{
    Digest, Media,
    beneath::{each, for_folders, make},
    built::Built,
    path_of,
};
use crate::system::failpoint;

impl Media {
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
