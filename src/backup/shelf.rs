//! A folder in which a root's backups are kept by their dates, the newest of them.
#![expect(
    clippy::disallowed_methods,
    reason = "looks into a folder that the owner names, and no container can write to"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use jiff::civil::DateTime;
use serde::Serialize;

use super::{Lacking, Saved, Wanted, Workshop, write};
use crate::domain::kept::backups::{Among, First, Whole, surplus};

/// A backup in a folder of backups.
#[derive(Debug, Serialize)]
pub struct Shelved {
    #[serde(flatten)]
    pub saved: Saved,
    /// Older backups of this root that were removed for it.
    pub removed: Vec<PathBuf>,
}

/// How a file is called after its time, behind the name of its root.
const TIME: &str = "%Y-%m-%dT%H-%M-%SZ";
/// How the name of a backup ends that has all of a root, and of one that lacks folders of groups.
const WHOLE: &str = ".tar";
const IN_PART: &str = "-part.tar";

/// Writes a backup into the folder `to`, under a name with its time. Once it is there, other backups of this root in that folder are
/// removed, so that `keep` stay; `first` says which. Folders of groups that there is no room for are left out of it; the newest backup
/// that has all of them stays.
///
/// # Errors
/// What went wrong. Without a new backup no older one is removed.
pub fn put_on_shelf(wanted: Wanted<'_>, to: &Path, keep: usize, first: First) -> Result<Shelved> {
    ensure!(keep > 0, "at least 1 backup is kept");
    let name = name_of(wanted.root);
    fs::create_dir_all(to).with_context(|| format!("making {} failed", to.display()))?;
    sweep(to, &name)?;
    let file = to.join(format!("{name}-{}{WHOLE}", wanted.now.to_jiff().strftime(TIME)));
    let saved = write(wanted, &file, Lacking::LeftOut)?;
    let mut removed = Vec::new();
    let among = |(file, whole): (PathBuf, Whole)| {
        let day = time_of(file.file_name()?.to_str()?, &name)?.date();
        Some(Among { file, day, whole })
    };
    let shelf = shelf(to, &name)?.into_iter().filter_map(among).collect();
    for old in surplus(shelf, keep, first).into_iter().filter(|old| *old != saved.file) {
        fs::remove_file(&old).with_context(|| format!("removing the old backup {} failed", old.display()))?;
        removed.push(old);
    }
    Ok(Shelved { saved, removed })
}

/// Returns how a backup is called that lacks folders of groups.
pub(super) fn in_part(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{}{IN_PART}", name.strip_suffix(WHOLE).unwrap_or(&name)))
}

/// The name of a root in those of its backups.
pub(super) fn name_of(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    if name.is_empty() { "g2".to_owned() } else { name }
}

/// Returns the backups of a root of this name, the oldest first, and whether each has the folders of all groups.
pub(super) fn shelf(to: &Path, name: &str) -> Result<Vec<(PathBuf, Whole)>> {
    let mut found: Vec<(PathBuf, Whole)> = Vec::new();
    for (end, whole) in [(WHOLE, Whole::Yes), (IN_PART, Whole::No)] {
        found.extend(on_shelf(to, name, end)?.into_iter().map(|file| (file, whole)));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// A backup on a shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnShelf {
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    pub whole: Whole,
}

/// Returns the newest `most` backups of a root in a folder, the newest first, and how many there are. A folder that is not there has
/// none.
///
/// # Errors
/// The folder can't be read.
pub fn on_the_shelf(root: &Path, to: &Path, most: usize) -> Result<(Vec<OnShelf>, usize)> {
    if !to.exists() {
        return Ok((Vec::new(), 0));
    }
    let all = shelf(to, &name_of(root))?;
    let newest = all.iter().rev().take(most).filter_map(|(file, whole)| {
        // One that is removed meanwhile is none.
        let bytes = file.symlink_metadata().ok()?.len();
        Some(OnShelf { file: file.clone(), bytes, whole: *whole })
    });
    Ok((newest.collect(), all.len()))
}

/// Returns what bears the root's name, a time and this end, the oldest first.
fn on_shelf(to: &Path, name: &str, end: &str) -> Result<Vec<PathBuf>> {
    let to = to.canonicalize().with_context(|| format!("opening {} failed", to.display()))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&to).with_context(|| format!("looking into {} failed", to.display()))? {
        let path = entry?.path();
        let is_one =
            path.file_name().and_then(|file| file.to_str()).is_some_and(|file| is_called(file, name, end));
        if is_one {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a file is called as a backup of this root is.
fn is_called(file: &str, name: &str, end: &str) -> bool {
    time_after(file, name, end).is_some()
}

/// Returns the time in the name of a backup of this root.
fn time_of(file: &str, name: &str) -> Option<DateTime> {
    [IN_PART, WHOLE].into_iter().find_map(|end| time_after(file, name, end))
}

fn time_after(file: &str, name: &str, end: &str) -> Option<DateTime> {
    let time = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(end)?;
    DateTime::strptime(TIME, time).ok()
}

/// Removes what backups left that were killed; one that is being written is left alone.
fn sweep(to: &Path, name: &str) -> Result<()> {
    for left in on_shelf(to, name, &format!("{WHOLE}.partial"))? {
        let file = left.with_extension("");
        // It empties and removes the folder at its end.
        drop(Workshop::open(&file));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_backups_of_this_root_are_on_its_shelf() {
        for (file, is_one) in [
            ("g2-2026-01-02T03-04-05Z.tar", true),
            ("g2-2026-01-02T03-04-05Z.tar.gz", false),
            ("g2-2026-01-02T03-04-05Z-part.tar", false),
            ("g2-2026-13-02T03-04-05Z.tar", false),
            ("g2-old-2026-01-02T03-04-05Z.tar", false),
            ("g2-.tar", false),
            ("mine.tar", false),
        ] {
            assert_eq!(is_called(file, "g2", ".tar"), is_one, "{file}");
        }
        assert_eq!(
            in_part(Path::new("/x/g2-2026-01-02T03-04-05Z.tar")),
            Path::new("/x/g2-2026-01-02T03-04-05Z-part.tar")
        );
        assert_eq!(name_of(Path::new("/srv/my root")), "my_root");
        assert_eq!(name_of(Path::new("/")), "g2");
    }
}
