//! Each file below a folder that a container can write to, for somebody who copies it.

use std::{
    fs::File,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    dir::{self, Names},
    files::{Fd, Files},
    names::FileKind,
};

/// How deep is looked; each folder on the way is held open meanwhile.
const DEEPEST: usize = 256;

/// How many names are looked at below each name of the folder itself, and how many bytes their paths have together.
const BOUNDS: (usize, usize) = (1_000_000, 128 << 20);

/// A file of at least this many bytes that takes less than an eighth of them on the disk is mostly a hole. Not every file system
/// can have one so large.
const HOLE: u64 = 1 << 40;

/// What stands at a name.
pub enum Met {
    Folder,
    /// A plain file, opened. Its container may change it at any moment.
    File(File),
    /// What no copy can be made of, and why.
    LeftOut(&'static str),
}

/// Calls `visit` with each name below `folder`, folders before their contents, until it fails. A folder over which it breaks off is
/// not looked into. No link is followed, no mount is crossed, nothing waits. What is gone when it is looked at was never there.
/// Each name of `folder` itself has bounds of its own, so that what is below one takes nothing from another.
///
/// # Errors
/// What `visit` returns; or `folder` itself can't be opened.
pub fn each_below(
    folder: &Path,
    visit: &mut dyn FnMut(&Path, Met) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    each_of(folder, BOUNDS, visit)
}

fn each_of(
    folder: &Path,
    most: (usize, usize),
    visit: &mut dyn FnMut(&Path, Met) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    // A backup is a file of this machine, and so is all that comes into it.
    let top = match Files::real().at(folder).open_itself() {
        Err(Errno::NOENT) => return Ok(()),
        other => Names::of(other?),
    };
    let (mut left, mut bytes_left) = most;
    // Down by descriptors alone, each opened from its parent's.
    let mut way = vec![(top, PathBuf::new())];
    loop {
        let is_top = way.len() == 1;
        let Some((here, at)) = way.last_mut() else { return Ok(()) };
        let name = match here.next() {
            Some(Ok(name)) => name,
            Some(Err(_)) => {
                let _ = visit(at, Met::LeftOut("a folder that can't be read to its end"))?;
                way.pop();
                continue;
            }
            None => {
                way.pop();
                continue;
            }
        };
        let Ok(shown) = name.to_str() else {
            let _ = visit(&at.join(&*name.to_string_lossy()), Met::LeftOut("its name is not UTF-8"))?;
            continue;
        };
        let path = at.join(shown);
        let held = here.folder();
        if is_top {
            (left, bytes_left) = most;
        }
        let length = path.as_os_str().len();
        if left == 0 || length > bytes_left {
            let why = if left == 0 { "more than 1000000 names" } else { "more than 128 MiB of names" };
            let _ = visit(&path, Met::LeftOut(why))?;
            way.truncate(1);
            continue;
        }
        (left, bytes_left) = (left - 1, bytes_left - length);
        let met = match look(held, &name) {
            Ok(None) => match dir::open_dir(held, &name).map(Names::of) {
                Ok(_) if way.len() > DEEPEST => Met::LeftOut("folders deeper than 256"),
                Ok(folder) => {
                    if visit(&path, Met::Folder)?.is_continue() {
                        way.push((folder, path));
                    }
                    continue;
                }
                Err(Errno::NOENT) => continue,
                Err(_) => Met::LeftOut("a folder that can't be read"),
            },
            Ok(Some(met)) => met,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => Met::LeftOut("it can't be read"),
        };
        let _ = visit(&path, met)?;
    }
}

/// Returns what stands at a name; `None`: a folder.
fn look(held: &Fd, name: &std::ffi::CStr) -> io::Result<Option<Met>> {
    // A pipe or a device is not even opened: that could act on it.
    match FileKind::of(&dir::stat(held, name)?) {
        FileKind::Directory => return Ok(None),
        FileKind::File => {}
        _ => return Ok(Some(Met::LeftOut("no plain file"))),
    }
    let file = dir::open_to_read(held, name)?;
    let stat = file.stat()?;
    if FileKind::of(&stat) != FileKind::File {
        return Ok(Some(Met::LeftOut("no plain file")));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let takes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let is_hole = size >= HOLE && takes < size / 8;
    Ok(Some(if is_hole { Met::LeftOut("mostly a hole") } else { Met::File(file.into_file()?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out what a container would")]
    fn a_folder_with_too_many_names_takes_none_from_its_neighbour() {
        let top = tempfile::tempdir().unwrap();
        for (folder, names) in [("evil", 10), ("main", 3)] {
            std::fs::create_dir(top.path().join(folder)).unwrap();
            for n in 0..names {
                std::fs::write(top.path().join(folder).join(n.to_string()), "x").unwrap();
            }
        }
        // By the number of names, and by the bytes of their paths, six of each file, four of the folder.
        for (most, why) in
            [((5, 1000), "more than 1000000 names"), ((1000, 28), "more than 128 MiB of names")]
        {
            let mut met: Vec<(String, Option<&'static str>)> = Vec::new();
            let mut note = |path: &Path, is: Met| {
                let left_out = match is {
                    Met::LeftOut(why) => Some(why),
                    Met::Folder | Met::File(_) => None,
                };
                met.push((path.to_str().unwrap().to_owned(), left_out));
                Ok(ControlFlow::Continue(()))
            };
            each_of(top.path(), most, &mut note).unwrap();
            let of =
                |folder: &str| met.iter().filter(|(path, _)| path.starts_with(folder)).collect::<Vec<_>>();
            assert_eq!((of("evil").len(), of("evil").last().unwrap().1), (6, Some(why)));
            assert!(of("main").len() == 4 && of("main").iter().all(|(_, why)| why.is_none()), "{met:?}");
        }
    }
}
