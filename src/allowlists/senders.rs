//! `sender-allowlist.json`, read again when it has changed; what it says is [`crate::domain::heard::sender_list`]'s.
#![expect(
    clippy::disallowed_methods,
    reason = "this file is the door to the sender allowlist, which no container can reach"
)]

use std::{
    fs::Metadata,
    io::ErrorKind,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use ipc_handlers::Time;

use crate::{config::Config, domain::heard::sender_list::SenderList};

/// A longer list can't be read, bytes.
const LONGEST_LIST: u64 = 1 << 20;
/// A file that changed so recently may change once more without showing it, ms.
const FRESH_MS: i64 = 2000;

/// Returns where the list is.
#[must_use]
pub fn list_path(config: &Config) -> Option<PathBuf> {
    Some(config.home.as_ref()?.join(".config/g2/sender-allowlist.json"))
}

/// Reads the list.
#[must_use]
pub fn read(config: &Config) -> SenderList {
    list_path(config).map_or(SenderList::Absent, |path| read_at(&path))
}

/// Returns the faults of the list, with its path and the fix.
#[must_use]
pub fn problems(config: &Config, list: &SenderList) -> Vec<String> {
    let path = list_path(config).map(|path| path.display().to_string()).unwrap_or_default();
    list.problems().into_iter().map(|problem| format!("{path}: {problem}")).collect()
}

/// The list of a daemon: looked at before messages are judged, read when it is another one than before.
#[derive(Debug)]
pub struct Senders {
    path: Option<PathBuf>,
    seen: Option<Stamp>,
    list: SenderList,
}

/// What tells a file from a changed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Senders {
    /// The list of these settings; it is not read yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { path: list_path(config), seen: None, list: SenderList::Absent }
    }

    /// Looks at the file, and reads it if it is not the one that was read; returns whether the list is another one.
    pub fn look(&mut self, now: Time) -> bool {
        let Some(path) = &self.path else { return false };
        let stamp = std::fs::metadata(path).ok().map(|meta| stamp(&meta));
        let fresh = stamp.is_some_and(|s| now.0 - s.changed.0.saturating_mul(1000) < FRESH_MS);
        if stamp.is_some() && stamp == self.seen && !fresh {
            return false;
        }
        self.seen = stamp;
        let list = read_at(path);
        let changed = list != self.list;
        self.list = list;
        changed
    }

    /// Returns the list as it was read last.
    #[must_use]
    pub fn list(&self) -> &SenderList {
        &self.list
    }
}

fn stamp(meta: &Metadata) -> Stamp {
    Stamp {
        file: (meta.dev(), meta.ino()),
        size: meta.size(),
        changed: (meta.ctime(), meta.ctime_nsec()),
        modified: (meta.mtime(), meta.mtime_nsec()),
    }
}

/// Reads the list. If there is no file, there is no list; a file that can't be read is a broken list.
fn read_at(path: &Path) -> SenderList {
    let bytes = std::fs::metadata(path).and_then(|meta| match (meta.is_file(), meta.len()) {
        (false, _) => Err(std::io::Error::other("it is no file")),
        (true, len) if len > LONGEST_LIST => {
            Err(std::io::Error::other(format!("it has more than {LONGEST_LIST} bytes")))
        }
        (true, _) => std::fs::read(path),
    });
    match bytes {
        Ok(bytes) => SenderList::parse(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound && std::fs::symlink_metadata(path).is_err() => {
            SenderList::Absent
        }
        Err(error) => SenderList::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::domain::heard::access::Listed;

    const LATER: Time = Time(i64::MAX / 2);

    fn senders(dir: &Path) -> Senders {
        Senders { path: Some(dir.join("list.json")), seen: None, list: SenderList::Absent }
    }

    fn write(dir: &Path, allow: &str) {
        fs::write(dir.join("list.json"), format!(r#"{{"default": {{"allow": {allow}, "mode": "drop"}}}}"#))
            .unwrap();
    }

    #[test]
    fn a_list_is_read_again_when_it_has_changed_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut senders = senders(dir.path());
        assert!(!senders.look(LATER));
        write(dir.path(), r#"["a"]"#);
        assert!(senders.look(LATER));
        assert_eq!(senders.list().listed("c", "x:a"), Listed::Allowed);
        assert!(!senders.look(LATER));
        fs::remove_file(dir.path().join("list.json")).unwrap();
        write(dir.path(), r#"["b"]"#);
        assert!(senders.look(LATER));
        assert_eq!(senders.list().listed("c", "x:a"), Listed::Drop);
        fs::remove_file(dir.path().join("list.json")).unwrap();
        assert!(senders.look(LATER));
        assert_eq!(senders.list().listed("c", "x:a"), Listed::Allowed);
    }

    #[test]
    fn a_list_that_was_just_changed_is_not_trusted_by_its_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let mut senders = senders(dir.path());
        write(dir.path(), r#"["a"]"#);
        let long_ago = Time(0);
        assert!(senders.look(long_ago));
        // Of the same length, in the same tick of the file system's clock, it would look the same.
        let stamp = senders.seen;
        write(dir.path(), r#"["b"]"#);
        senders.seen = stamp;
        assert!(senders.look(long_ago));
    }

    #[test]
    fn what_is_there_and_is_no_readable_file_is_a_broken_list() {
        let dir = tempfile::tempdir().unwrap();
        let mut senders = senders(dir.path());
        fs::create_dir(dir.path().join("list.json")).unwrap();
        assert!(senders.look(LATER));
        assert_eq!(senders.list(), &SenderList::Broken("it is no file".into()));
        fs::remove_dir(dir.path().join("list.json")).unwrap();
        std::os::unix::fs::symlink("nothing", dir.path().join("list.json")).unwrap();
        assert!(senders.look(LATER));
        assert_eq!(senders.list().listed("c", "x:a"), Listed::Unreadable);
        fs::remove_file(dir.path().join("list.json")).unwrap();
        fs::write(dir.path().join("list.json"), " ".repeat(1 + (1 << 20))).unwrap();
        assert!(senders.look(LATER));
        assert!(matches!(senders.list(), SenderList::Broken(why) if why.contains("bytes")));
    }
}
