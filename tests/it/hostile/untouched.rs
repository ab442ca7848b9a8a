//! What lies on the host, to be compared before and after.
#![expect(clippy::disallowed_methods, reason = "looks at the whole root")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Each path below `tops` but for `skipped` ones: its mode, owner, and what it holds or leads to.
pub(super) fn manifest(tops: &[&Path], skipped: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = tops.iter().map(|top| top.to_path_buf()).collect();
    while let Some(path) = left.pop() {
        if skipped.iter().any(|skip| path.starts_with(skip)) {
            continue;
        }
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let mut hasher = DefaultHasher::new();
        if meta.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().hash(&mut hasher);
        } else if meta.is_file() {
            fs::read(&path).unwrap().hash(&mut hasher);
        }
        let state = format!("{:o} {} {} {:016x}", meta.mode(), meta.uid(), meta.nlink(), hasher.finish());
        found.insert(path, state);
    }
    found
}

/// What of a root is the host's own, or another group's: all but what the attacker and a group that is at work may change.
pub(super) fn changing(root: &Path, at_work: &[&str]) -> Vec<PathBuf> {
    let mut skipped: Vec<PathBuf> =
        ["serve.log", "data/claimed", "data/done", "data/dead", "data/tmp", "data/runs"]
            .iter()
            .chain(&["data/g2.sqlite", "data/g2.sqlite-wal", "data/g2.sqlite-shm"])
            // What was said is indexed there.
            .chain(&["data/search.sqlite", "data/search.sqlite-wal", "data/search.sqlite-shm"])
            .map(|path| root.join(path))
            .collect();
    for group in at_work {
        for place in ["groups", "data/ipc", "data/sessions"] {
            skipped.push(root.join(place).join(group));
        }
    }
    skipped
}

/// The files of the machine that the attacks aim at.
pub(super) fn of_the_machine() -> [&'static Path; 5] {
    ["/etc/passwd", "/etc/shadow", "/etc/group", "/etc/hosts", "/proc/sys/kernel/core_pattern"].map(Path::new)
}
