//! Each file below a folder that a container can write to, for somebody who copies it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Dir, Mode, OFlags},
    io::Errno,
};

use super::{dir, names::FileKind};

/// How deep is looked; each folder on the way is held open meanwhile.
const DEEPEST: usize = 256;

/// How many names are looked at.
const NAMES: usize = 1_000_000;

/// A file of more bytes than this that takes less than an eighth of them on the disk is mostly a hole.
const HOLE: u64 = 64 << 20;

/// What stands at a name.
pub enum Met {
    Folder,
    /// A plain file, opened. Its container may change it at any moment.
    File(File),
    /// What no copy can be made of, and why.
    LeftOut(&'static str),
}

/// Calls `visit` with each name below `folder`, folders before their contents, until it fails. No link is followed, no mount is
/// crossed, nothing waits. What is gone when it is looked at was never there.
///
/// # Errors
/// What `visit` returns; or `folder` itself can't be opened.
pub fn each_below(folder: &Path, visit: &mut dyn FnMut(&Path, Met) -> io::Result<()>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let top = match rustix::fs::open(folder, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        other => Dir::new(other?)?,
    };
    let mut left = NAMES;
    // Down by descriptors alone, each opened from its parent's.
    let mut way = vec![(top, PathBuf::new())];
    while let Some((here, at)) = way.last_mut() {
        let entry = match here.read() {
            Some(Ok(entry)) => entry,
            Some(Err(_)) => {
                visit(at, Met::LeftOut("a folder that can't be read to its end"))?;
                way.pop();
                continue;
            }
            None => {
                way.pop();
                continue;
            }
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(shown) = name.to_str() else {
            visit(&at.join(&*name.to_string_lossy()), Met::LeftOut("its name is not UTF-8"))?;
            continue;
        };
        let path = at.join(shown);
        if left == 0 {
            return visit(&path, Met::LeftOut("more than 1000000 names"));
        }
        left -= 1;
        let held = here.fd()?;
        match look(held, name) {
            Ok(None) => {
                let opened = dir::open_dir(held, name).and_then(Dir::new);
                match opened {
                    Ok(_) if way.len() > DEEPEST => visit(&path, Met::LeftOut("folders deeper than 256"))?,
                    Ok(folder) => {
                        visit(&path, Met::Folder)?;
                        way.push((folder, path));
                    }
                    Err(Errno::NOENT) => {}
                    Err(_) => visit(&path, Met::LeftOut("a folder that can't be read"))?,
                }
            }
            Ok(Some(met)) => visit(&path, met)?,
            Err(Errno::NOENT) => {}
            Err(_) => visit(&path, Met::LeftOut("it can't be read"))?,
        }
    }
    Ok(())
}

/// Returns what stands at a name; `None`: a folder.
fn look(held: rustix::fd::BorrowedFd<'_>, name: &std::ffi::CStr) -> rustix::io::Result<Option<Met>> {
    // A pipe or a device is not even opened: that could act on it.
    match FileKind::of(&dir::stat(held, name)?) {
        FileKind::Directory => return Ok(None),
        FileKind::File => {}
        _ => return Ok(Some(Met::LeftOut("no plain file"))),
    }
    let file = dir::open_to_read(held, name)?;
    let stat = rustix::fs::fstat(&file)?;
    if FileKind::of(&stat) != FileKind::File {
        return Ok(Some(Met::LeftOut("no plain file")));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let takes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let is_hole = size > HOLE && takes < size / 8;
    Ok(Some(if is_hole { Met::LeftOut("mostly a hole") } else { Met::File(File::from(file)) }))
}
