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
    archive::{FOLDERS, LONGEST_PACKED, SECRET_FOLDERS, is_of_others, part_of},
    holes::{BLOCK, Shape},
};
use crate::ipc::{Met, each_below};

/// The most names of one file that are stored: not every file system can have more.
const LINKS: u32 = 32_000;
/// How much of the manifest the files of one part may take, bytes.
const LISTED: u64 = 128 << 20;
/// How much of it the files of all parts may take that others than G2 write to. Where they take more, the longest lists are cut.
const LISTED_IN_ALL: u64 = 512 << 20;
/// How much a file takes of it beside its path at most, bytes.
const LISTED_FILE: u64 = 256;

/// The folders of a root that are in a backup.
pub(super) fn folders(with_secrets: bool) -> impl Iterator<Item = &'static str> {
    let secret: &[&str] = if with_secrets { &SECRET_FOLDERS } else { &[] };
    FOLDERS.iter().chain(secret).copied()
}

/// Calls `visit` with each name in a root's folders, and its path in the archive. For a name that an archive can't hold, or that is
/// beyond the share of its part in the manifest (bytes), it is told why.
pub(super) fn each_name(
    root: &Path,
    with_secrets: bool,
    share: u64,
    visit: &mut dyn FnMut(&str, Met) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut listed = Listed::default();
    for folder in folders(with_secrets) {
        each_below(&root.join(folder), &mut |below, met| {
            let path = format!("{folder}/{}", below.display());
            let why = match &met {
                Met::LeftOut(_) => None,
                Met::Folder | Met::File(_) if path.len() > LONGEST_PACKED => {
                    Some("its path has more than 3072 bytes")
                }
                Met::Folder => None,
                Met::File(_) if listed.has_room(&path, share) => None,
                Met::File(_) => Some("more names than a backup lists"),
            };
            match why {
                None => visit(&path, met),
                // Nor is anything below it looked at.
                Some(why) => visit(&path, Met::LeftOut(why)).map(|_| ControlFlow::Break(())),
            }
        })?;
    }
    Ok(())
}

/// How much of the manifest the files of one part take.
#[derive(Default)]
struct Listed {
    part: String,
    bytes: u64,
}

impl Listed {
    /// Counts one more file; says where `most` bytes are too few for it. What only G2 writes to has no bound of its own.
    fn has_room(&mut self, path: &str, most: u64) -> bool {
        let part = part_of(path);
        if part != self.part {
            *self = Self { part: part.to_owned(), bytes: 0 };
        }
        let bytes = self.bytes + LISTED_FILE + json_bytes(path);
        let has_room = bytes <= most || !is_of_others(part);
        if has_room {
            self.bytes = bytes;
        }
        has_room
    }
}

/// What an archive of a root needs.
pub(super) struct Weighed {
    /// How much room each part needs, bytes.
    pub(super) parts: BTreeMap<String, u64>,
    /// How much of the manifest the files of one part may take, bytes.
    pub(super) share: u64,
}

pub(super) fn weigh(root: &Path, with_secrets: bool) -> io::Result<Weighed> {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    let mut listed: BTreeMap<String, u64> = BTreeMap::new();
    let mut inodes = Inodes::default();
    each_name(root, with_secrets, LISTED, &mut |path, met| {
        let part = part_of(path);
        if matches!(met, Met::File(_)) && is_of_others(part) {
            *listed.entry(part.to_owned()).or_default() += LISTED_FILE + json_bytes(path);
        }
        let bytes = match met {
            Met::LeftOut(_) => 0,
            Met::Folder => name_bytes(path),
            Met::File(file) => match inodes.known(path, &file)? {
                Some(Known::Stored(first)) => name_bytes(path) + name_bytes(&first.path),
                Some(Known::Full) => 0,
                None => {
                    let shape = Shape::of(path, &file)?;
                    if !matches!(shape, Shape::LeftOut(_)) {
                        inodes.stored(path, 0, &file)?;
                    }
                    name_bytes(path) + shape.stored()
                }
            },
        };
        match parts.get_mut(part) {
            Some(part) => *part += bytes,
            None => drop(parts.insert(part.to_owned(), bytes)),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Weighed { parts, share: share(listed.into_values().collect(), LISTED_IN_ALL) })
}

/// Returns the share of each by which all together take at most `most`: those that take less than it leave the rest to the others.
fn share(mut takes: Vec<u64>, most: u64) -> u64 {
    takes.sort_unstable();
    let (mut left, mut others) = (most, takes.len() as u64);
    for takes in takes {
        if takes > left / others {
            return left / others;
        }
        left -= takes;
        others -= 1;
    }
    LISTED
}

/// Returns how much a name takes at most in the archive and its manifest, bytes.
pub(super) fn name_bytes(path: &str) -> u64 {
    let length = path.len() as u64;
    let long = if length < 100 { 0 } else { BLOCK + (length + 1).next_multiple_of(BLOCK) };
    BLOCK + long + LISTED_FILE + json_bytes(path)
}

/// Returns how long a path is at most as JSON has it, bytes: some letters take six.
fn json_bytes(path: &str) -> u64 {
    let escaped = |byte: u8| if byte < b' ' || byte == 0x7f || matches!(byte, b'"' | b'\\') { 6 } else { 1 };
    path.bytes().map(escaped).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_one_group_take_no_room_in_the_manifest_from_another() {
        let mut listed = Listed::default();
        let most = 2 * (LISTED_FILE + 20);
        let are_listed =
            ["groups/a/1", "groups/a/2", "groups/a/3", "groups/b/1"].map(|path| listed.has_room(path, most));
        assert_eq!(are_listed, [true, true, false, true]);
        for n in 0..10 {
            assert!(listed.has_room(&format!("data/media/ab/{n}"), most), "{n}");
        }
    }

    #[test]
    fn where_all_lists_are_too_long_the_longest_are_cut_alone() {
        assert_eq!(share(vec![], 10), LISTED);
        assert_eq!(share(vec![5, 1, 4], 10), LISTED, "there is room for all");
        assert_eq!(share(vec![20, 1, 4], 10), 5);
        assert_eq!(share(vec![20, 1, 9], 10), 4);
        assert_eq!(share(vec![u64::MAX / 4; 4], 10), 2);
    }

    #[test]
    fn a_file_takes_no_more_of_the_manifest_than_it_is_counted_for() {
        let path = "groups/a/\u{1}\n\"\\\u{7f}é";
        let packed = super::super::archive::Packed {
            path: path.to_owned(),
            size: 1 << 50,
            sha256: "0".repeat(64),
            same_as: Some(100_000_000),
            with_holes: Some(1 << 62),
        };
        let list =
            |n| serde_json::to_vec_pretty(&serde_json::json!({"files": vec![&packed; n]})).unwrap().len();
        let (takes, counted) = ((list(2) - list(1)) as u64, LISTED_FILE + json_bytes(path));
        assert!(takes <= counted, "{takes} {counted}");
    }
}
