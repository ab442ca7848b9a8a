//! Which log belongs to the store. SQLite finds a log by its name alone: beside another store's file it would write the one's
//! pages into the other, or remove the log of a store that is in use. So each holder of the root's lock notes the two
//! files in `data/lock`, each by its inode and its time of birth. The inode alone is not enough: a new file may get that of
//! a removed one.
//!
//! | the files, beside the note | then |
//! |---|---|
//! | both are those noted | the store is opened |
//! | the noted log, not empty, beside another store | nothing is opened |
//! | another log, or none, or an empty one | the store is opened: the root was copied, or the store closed in order |
//! | no note | the store is opened |

use std::{
    fmt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// A file: its inode and its time of birth, ns since 1970; 0 where the file system does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    inode: u64,
    made: u128,
}

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let meta = std::fs::metadata(path).ok()?;
        let made = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Some(Self { inode: meta.ino(), made: made.map_or(0, |since| since.as_nanos()) })
    }

    fn parse(text: &str) -> Option<Self> {
        let (inode, made) = text.split_once('.')?;
        Some(Self { inode: inode.parse().ok()?, made: made.parse().ok()? })
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.inode, self.made)
    }
}

/// A store and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    store: FileId,
    log: FileId,
}

impl Pair {
    /// Returns the two files that lie there now; `None`: one is missing.
    #[must_use]
    pub fn of(root: &Path) -> Option<Self> {
        let store = root.join("data/g2.sqlite");
        Some(Self { store: FileId::of(&store)?, log: FileId::of(&log_of(&store)?)? })
    }

    /// Reads a line as [`Pair`] is shown.
    fn parse(line: &str) -> Option<Self> {
        let (store, log) = line.strip_prefix("store ")?.split_once(" log ")?;
        Some(Self { store: FileId::parse(store)?, log: FileId::parse(log.trim())? })
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {} log {}", self.store, self.log)
    }
}

/// The note in the text of a root's lock, which is its second line.
#[must_use]
pub fn noted_pair(lock: &str) -> Option<Pair> {
    lock.lines().nth(1).and_then(Pair::parse)
}

/// Whether the log that lies there belongs to another store than the one beside it.
pub(super) fn is_log_of_another(root: &Path) -> bool {
    let Some(there) = Pair::of(root) else { return false };
    let text = std::fs::read_to_string(root.join("data/lock")).unwrap_or_default();
    let Some(noted) = noted_pair(&text) else { return false };
    let bytes = log_of(&root.join("data/g2.sqlite")).and_then(|log| std::fs::metadata(log).ok());
    noted.log == there.log && noted.store != there.store && bytes.is_some_and(|meta| meta.len() > 0)
}

/// The log of a store, which lies beside the file that a link leads to.
fn log_of(store: &Path) -> Option<PathBuf> {
    let mut name = std::fs::canonicalize(store).ok()?.into_os_string();
    name.push("-wal");
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_is_written_and_nothing_else_is_one() {
        let file = |inode, made| FileId { inode, made };
        let pair = Pair { store: file(7, 0), log: file(u64::MAX, 1_800_000_000_123_456_789) };
        assert_eq!(noted_pair(&format!("12 0.1.0 change\n{pair}\n")), Some(pair));
        for other in [
            "",
            "12 0.1.0\n",
            "12 0.1.0\nstore 7.0\n",
            "12\nstore 7 log 8\n",
            "12\nstore x.1 log 8.1\n",
            "12\nstore 7.1 log\n",
            "store 7.1 log 8.1\n",
        ] {
            assert_eq!(noted_pair(other), None, "{other:?}");
        }
    }

    #[test]
    fn only_the_noted_log_with_something_in_it_beside_another_store_is_one_of_another() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join("data").join(name);
        let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
        let note = || write("lock", &format!("12 0.1.0\n{}\n", Pair::of(root.path()).unwrap()));
        let replace = |name: &str| {
            write("new", "another");
            std::fs::rename(at("new"), at(name)).unwrap();
        };
        std::fs::create_dir(at("")).unwrap();
        write("g2.sqlite", "store");
        assert!(!is_log_of_another(root.path()), "without a log");
        write("g2.sqlite-wal", "log");
        assert!(!is_log_of_another(root.path()), "without a note");
        note();
        assert!(!is_log_of_another(root.path()), "both as noted");
        write("g2.sqlite-wal", "a longer log");
        assert!(!is_log_of_another(root.path()), "both as noted, and written to");
        replace("g2.sqlite");
        assert!(is_log_of_another(root.path()), "another store");
        write("g2.sqlite-wal", "");
        assert!(!is_log_of_another(root.path()), "the log is empty");
        replace("g2.sqlite-wal");
        assert!(!is_log_of_another(root.path()), "both are others: the root was copied");
        note();
        replace("g2.sqlite");
        assert!(is_log_of_another(root.path()));
        std::fs::remove_file(at("lock")).unwrap();
        assert!(!is_log_of_another(root.path()), "somebody decided that they belong together");
    }
}
