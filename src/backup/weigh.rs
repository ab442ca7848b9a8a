//! How much room a backup needs for each part of a root, looked at before anything is written.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    ops::ControlFlow,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::SystemTime,
};

use super::{
    archive::{FOLDERS, SECRET_FOLDERS, part_of},
    holes::{BLOCK, Shape},
};
use crate::ipc::{Met, each_below};

/// The most names of one file that are stored: not every file system can have more.
const LINKS: u32 = 32_000;

/// The folders of a root that are in a backup.
pub(super) fn folders(with_secrets: bool) -> impl Iterator<Item = &'static str> {
    let secret: &[&str] = if with_secrets { &SECRET_FOLDERS } else { &[] };
    FOLDERS.iter().chain(secret).copied()
}

/// Calls `visit` with each name in a root's folders, its path in the archive, and its part.
pub(super) fn each_name(
    root: &Path,
    with_secrets: bool,
    visit: &mut dyn FnMut(&str, Met) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    for folder in folders(with_secrets) {
        each_below(&root.join(folder), &mut |below, met| {
            visit(&format!("{folder}/{}", below.display()), met)
        })?;
    }
    Ok(())
}

/// Returns how much room each part of a root needs in an archive, bytes.
pub(super) fn weigh(root: &Path, with_secrets: bool) -> io::Result<BTreeMap<String, u64>> {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    let mut inodes = Inodes::default();
    each_name(root, with_secrets, &mut |path, met| {
        let bytes = match met {
            Met::LeftOut(_) => 0,
            Met::Folder => name_bytes(path),
            Met::File(file) => match inodes.known(path, &file)? {
                Some(Known::Stored(first)) => name_bytes(path) + name_bytes(&first.path),
                Some(Known::Full) => 0,
                None => {
                    let shape = Shape::of(&file)?;
                    inodes.stored(path, 0, &file)?;
                    name_bytes(path) + shape.stored()
                }
            },
        };
        match parts.get_mut(part_of(path)) {
            Some(part) => *part += bytes,
            None => drop(parts.insert(part_of(path).to_owned(), bytes)),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(parts)
}

/// Returns how much a name takes at most in the archive and its manifest, bytes.
pub(super) fn name_bytes(path: &str) -> u64 {
    let length = path.len() as u64;
    let long = if length < 100 { 0 } else { BLOCK + (length + 1).next_multiple_of(BLOCK) };
    // As JSON has it: some letters take six.
    let escaped = |byte: u8| if byte < b' ' || byte == 0x7f || matches!(byte, b'"' | b'\\') { 6 } else { 1 };
    BLOCK + long + 256 + path.bytes().map(escaped).sum::<u64>()
}

/// A file of the same part that has another name, too.
pub(super) enum Known {
    Stored(First),
    /// It has more names than are stored.
    Full,
}

/// Where a file is stored.
#[derive(Clone)]
pub(super) struct First {
    pub(super) path: String,
    /// Its place in the manifest.
    pub(super) at: usize,
}

/// Which file it is: its device and inode, and when it was made, as a later file may get the inode of one that is gone.
type Id = (u64, u64, Option<SystemTime>);

/// The files of one part that have several names. No container can give a file names in two parts.
#[derive(Default)]
pub(super) struct Inodes {
    part: String,
    /// Where each is stored, and how many names it has so far.
    first: HashMap<Id, (First, u32)>,
}

impl Inodes {
    /// Returns the name under which a file is stored already, and counts one more.
    pub(super) fn known(&mut self, path: &str, file: &File) -> io::Result<Option<Known>> {
        let part = part_of(path);
        if part != self.part {
            part.clone_into(&mut self.part);
            self.first.clear();
        }
        let Some(id) = several_names(file)? else { return Ok(None) };
        let Some((first, names)) = self.first.get_mut(&id) else { return Ok(None) };
        *names += 1;
        Ok(Some(if *names > LINKS { Known::Full } else { Known::Stored(first.clone()) }))
    }

    /// Notes that a file is stored under this name, at this place of the manifest.
    pub(super) fn stored(&mut self, path: &str, at: usize, file: &File) -> io::Result<()> {
        if let Some(id) = several_names(file)? {
            self.first.insert(id, (First { path: path.to_owned(), at }, 1));
        }
        Ok(())
    }
}

/// Returns which file it is, if it has several names.
fn several_names(file: &File) -> io::Result<Option<Id>> {
    let meta = file.metadata()?;
    let made = || meta.created().or_else(|_| meta.modified()).ok();
    Ok((meta.nlink() > 1).then(|| (meta.dev(), meta.ino(), made())))
}
