//! `data/memories/`: earlier texts of each `CLAUDE.md`, a folder for each group and one for all. No container sees them.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::{
    fs, io,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ipc_handlers::{Folder, Time};

use super::make_private_folder;
use crate::domain::kept::memories::{KeptAs, KeptMemory, LONGEST_KEPT, outdated};

/// What the file of a text is called until it is whole.
const MAKING: &str = "new";

fn folder(root: &Path, group: Option<&Folder>) -> PathBuf {
    // No group has the name `global`.
    root.join("data/memories").join(group.map_or("global", Folder::as_str))
}

/// Returns the texts that are kept of a memory, newest first; `None`: the one that all groups share.
///
/// # Errors
/// The operating system's.
pub fn kept_memories(root: &Path, group: Option<&Folder>) -> io::Result<Vec<KeptMemory>> {
    let Some(entries) = there(fs::read_dir(folder(root, group)))? else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    for entry in entries {
        let entry = entry?;
        // One that goes meanwhile is kept no more.
        let Some(meta) = there(entry.metadata())? else { continue };
        kept.extend(KeptMemory::of_file(&entry.file_name().to_string_lossy(), meta.len()));
    }
    kept.sort_by_key(|one| std::cmp::Reverse(one.version));
    Ok(kept)
}

/// Returns one of these texts; `None`: it is not kept, or not any more.
///
/// # Errors
/// The operating system's.
pub fn kept_memory(
    root: &Path,
    group: Option<&Folder>,
    version: u64,
) -> io::Result<Option<(KeptMemory, String)>> {
    let kept = kept_memories(root, group)?.into_iter().find(|one| one.version == version);
    let Some(kept) = kept else { return Ok(None) };
    let Some(file) = there(fs::File::open(folder(root, group).join(kept.file())))? else { return Ok(None) };
    let mut text = String::new();
    file.take(LONGEST_KEPT as u64).read_to_string(&mut text)?;
    Ok(Some((kept, text)))
}

/// Returns what is there; `None`: it is not.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps a text of a memory, and lets the oldest go. Returns its number; one that is the newest already is not kept twice. `None`: it
/// is too long.
///
/// # Errors
/// The operating system's. Those that were kept stay.
pub fn keep_memory(
    root: &Path,
    group: Option<&Folder>,
    kept_as: KeptAs,
    text: &str,
    now: Time,
) -> io::Result<Option<u64>> {
    if text.len() > LONGEST_KEPT {
        return Ok(None);
    }
    let kept = kept_memories(root, group)?;
    let newest = kept.first().map_or(0, |newest| newest.version);
    if kept.first().is_some_and(|newest| newest.kept_as == kept_as)
        && kept_memory(root, group, newest)?.is_some_and(|(_, before)| before == text)
    {
        return Ok(Some(newest));
    }
    let folder = folder(root, group);
    make_private_folder(&folder)?;
    let made = KeptMemory { version: newest + 1, at: now, kept_as, bytes: text.len() as u64 };
    let making = folder.join(MAKING);
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&making)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&making, folder.join(made.file()))?;
    for old in outdated(kept) {
        fs::remove_file(folder.join(old.file()))?;
    }
    Ok(Some(made.version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::kept::memories::KEPT;

    #[test]
    fn the_newest_texts_of_each_memory_are_kept_and_no_long_one() {
        let root = tempfile::tempdir().unwrap();
        let group = Folder::parse("main").unwrap();
        let keep =
            |text: &str| keep_memory(root.path(), Some(&group), KeptAs::Replaced, text, Time(7)).unwrap();
        assert_eq!(kept_memories(root.path(), Some(&group)).unwrap(), []);
        assert_eq!((keep("one"), keep("one"), keep("two")), (Some(1), Some(1), Some(2)));
        // The same text that was not saved is another thing.
        let unsaved = keep_memory(root.path(), Some(&group), KeptAs::Unsaved, "two", Time(8)).unwrap();
        assert_eq!(unsaved, Some(3));
        assert_eq!(keep(&"x".repeat(LONGEST_KEPT + 1)), None);
        for n in 0..30 {
            keep(&format!("text {n}"));
        }
        let kept = kept_memories(root.path(), Some(&group)).unwrap();
        assert_eq!((kept.len(), kept[0].version, kept[KEPT - 1].version), (KEPT, 33, 14));
        let (newest, text) = kept_memory(root.path(), Some(&group), 33).unwrap().unwrap();
        assert_eq!((newest.at, text.as_str()), (Time(7), "text 29"));
        assert_eq!(kept_memory(root.path(), Some(&group), 1).unwrap(), None);
        assert_eq!(kept_memories(root.path(), None).unwrap(), [], "that of all groups is another");
        // What a killed program has left is no text, and in nobody's way.
        fs::write(folder(root.path(), Some(&group)).join(MAKING), "half").unwrap();
        assert_eq!(keep("after"), Some(34));
        let names = fs::read_dir(folder(root.path(), Some(&group))).unwrap();
        assert_eq!(names.count(), KEPT);
    }
}
