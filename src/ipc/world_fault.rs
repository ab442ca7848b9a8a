//! Faults of the world: no command file is to blame, and the work is tried again.

use std::io;

use rustix::io::Errno;

/// Something that the machine refused: a full or read-only disk, an I/O error, missing rights.
///
/// Whatever was asked for can be asked for again; nothing is lost by it.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {what} failed{}", hint(source))]
pub struct WorldFault {
    /// What we were doing (`making`, `renaming` …).
    pub doing: &'static str,
    /// What we were doing it to; a path or a name, already safe to print.
    pub what: String,
    #[source]
    pub source: io::Error,
}

impl WorldFault {
    /// A group's mailbox is asked for, and there is no such group.
    #[must_use]
    pub fn of_gone(group: &ipc_handlers::Folder) -> Self {
        Self::new(
            "opening",
            format!("the mailbox of {group}, a group that is gone"),
            rustix::io::Errno::NOENT,
        )
    }

    /// Whether as many files are open as may be.
    #[must_use]
    pub fn is_of_open_files(&self) -> bool {
        matches!(Errno::from_io_error(&self.source), Some(Errno::MFILE | Errno::NFILE))
    }

    pub(super) fn new(doing: &'static str, what: impl Into<String>, errno: impl Into<io::Error>) -> Self {
        Self { doing, what: what.into(), source: errno.into() }
    }
}

/// The fix, if we know one.
fn hint(source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::NOSPC | Errno::DQUOT) => "; free some space or inodes, it is tried again",
        Some(Errno::ROFS) => "; mount the file system writable, it is tried again",
        Some(Errno::ACCESS | Errno::PERM) => {
            "; the daemon needs to own data/, or to be root when containers have a uid of their own"
        }
        Some(Errno::XDEV) => {
            "; everything under data/ has to be on one file system, without mounts of its own"
        }
        Some(Errno::MFILE | Errno::NFILE) => "; raise the limit on open files (ulimit -n)",
        Some(Errno::NOSYS) => "; Linux 5.6 or newer is needed",
        Some(Errno::LOOP | Errno::NOTDIR) => "; something that is no directory stands there, move it away",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_done_to_what_and_how_to_mend_it() {
        let full = WorldFault::new("writing", "data/tmp/1", Errno::NOSPC);
        assert_eq!(
            full.to_string(),
            "writing data/tmp/1 failed; free some space or inodes, it is tried again"
        );
        assert_eq!(WorldFault::new("reading", "x", Errno::IO).to_string(), "reading x failed");
    }
}
