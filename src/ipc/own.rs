//! Whose a group's folder is: what root puts there, the agent has to be able to change.

use std::{ffi::CString, ops::ControlFlow};

use rustix::{fs::Stat, io::Errno};

use super::{
    dir,
    files::{At, Fd},
    host::{Owner, give_to},
    names::FileKind,
    world_fault::WorldFault,
};

/// The most files and folders that are looked at in one go.
const MOST: usize = 100_000;
/// The same where a folder moves to another user, which happens once.
const MOST_MOVED: usize = 1_000_000;
/// The deepest folder that is looked into.
const DEEPEST: usize = 64;

/// Gives `folder` to `owner`, and what lies in it and is ours: a memory that root wrote, a tree that root copied in.
/// Folders that are the agent's already are not looked into, but for the top. Links are not followed, no mount is
/// crossed, and a file that has another name somewhere stays whose it is.
///
/// What belongs to `former`, the user that the agent had before, is given as well.
///
/// Returns how many were given away. Does nothing where `folder` itself is a link: what it leads to is its owner's
/// business.
///
/// # Errors
/// [`WorldFault`]; what could not be given away stays as it is.
pub fn give_folder<'a>(
    folder: impl Into<At<'a>>,
    owner: Owner,
    former: Option<u32>,
) -> Result<usize, WorldFault> {
    let folder = folder.into();
    let failed = |e: Errno| WorldFault::new("giving away", folder.path.display().to_string(), e);
    let top = match folder.open_itself() {
        Ok(top) => top,
        Err(Errno::LOOP | Errno::NOTDIR) => return Ok(0),
        Err(e) => return Err(failed(e)),
    };
    let (us, _) = folder.files.us();
    let former = former.filter(|former| *former != owner.0);
    let most = if former.is_some() { MOST_MOVED } else { MOST };
    let mut work = Work { owner, us, former, most, looked_at: 0, given: 0 };
    give_to(&top, Some(owner)).map_err(failed)?;
    work.inside(&top, 0).map_err(failed)?;
    Ok(work.given)
}

struct Work {
    owner: Owner,
    us: u32,
    former: Option<u32>,
    most: usize,
    looked_at: usize,
    given: usize,
}

impl Work {
    fn inside(&mut self, at: &Fd, depth: usize) -> rustix::io::Result<()> {
        let mut names: Vec<CString> = Vec::new();
        let room = self.most.saturating_sub(self.looked_at);
        dir::each_name(at, |name, _| {
            names.push(name.to_owned());
            if names.len() < room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.looked_at += names.len();
        for name in names {
            let Ok(stat) = dir::stat(at, name.as_c_str()) else { continue };
            if !self.is_to_be_given(&stat) {
                continue;
            }
            // Opened first and looked at again: the name may lead elsewhere by now.
            match FileKind::of(&stat) {
                FileKind::Directory if depth < DEEPEST => {
                    let Ok(inner) = dir::open_dir(at, name.as_c_str()) else { continue };
                    give_to(&inner, Some(self.owner))?;
                    self.given += 1;
                    self.inside(&inner, depth + 1)?;
                }
                FileKind::File => {
                    let Ok(file) = dir::open_to_read(at, name.as_c_str()) else { continue };
                    let is = file.stat()?;
                    if self.is_to_be_given(&is) && FileKind::of(&is) == FileKind::File {
                        give_to(&file, Some(self.owner))?;
                        self.given += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ours or the former user's, and not by another name too.
    fn is_to_be_given(&self, stat: &Stat) -> bool {
        (stat.st_uid == self.us || Some(stat.st_uid) == self.former)
            && stat.st_uid != self.owner.0
            && (FileKind::of(stat) == FileKind::Directory || stat.st_nlink == 1)
    }
}
