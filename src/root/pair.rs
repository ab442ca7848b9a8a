//! Which log belongs to the store. SQLite finds a log by its name alone: beside another store's file it would write the one's
//! pages into the other, or remove the log of a store that is in use. So each holder of the root's lock notes the two
//! files in `data/lock`.
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
};

/// The inodes of a store and of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    store: u64,
    log: u64,
}

impl Pair {
    /// Returns the two files that lie there now; `None`: one is missing.
    #[must_use]
    pub fn of(root: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let store = root.join("data/g2.sqlite");
        let inode = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.ino());
        Some(Self { store: inode(&store)?, log: inode(&log_of(&store)?)? })
    }

    /// Reads a line as [`Pair`] is shown.
    fn parse(line: &str) -> Option<Self> {
        let (store, log) = line.strip_prefix("store ")?.split_once(" log ")?;
        Some(Self { store: store.parse().ok()?, log: log.trim().parse().ok()? })
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {} log {}", self.store, self.log)
    }
}

/// The note in the text of a root's lock, as a line.
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
        let pair = Pair { store: 7, log: u64::MAX };
        assert_eq!(noted_pair(&format!("12 0.1.0 change\n{pair}\n")), Some(pair));
        for other in [
            "",
            "12 0.1.0\n",
            "12 0.1.0\nstore 7\n",
            "12\nstore x log 8\n",
            "12\nstore 7 log\n",
            "store 7 log 8\n",
        ] {
            assert_eq!(noted_pair(other), None, "{other:?}");
        }
    }
}
