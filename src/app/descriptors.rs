//! Room for the descriptors of all mailboxes.

use std::path::Path;

use rustix::{
    fs::{Dir, Mode, OFlags},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::ipc::boxes::{GROUP_FILES, groups_kept};

/// How many the daemon has beside them: its store, its sockets.
const OTHERS: usize = 64;

/// Raises the limit on open files to as many as this process may have, and the kernel's table of them to as many as the
/// mailboxes of `root` need at most.
///
/// To be called while the process has one thread. Of one with more, the kernel waits some 10 ms for all processors each time
/// when it doubles the table, in the call that opened a file: five times for 300 groups. A second call changes nothing.
pub fn make_room_for_files(root: &Path) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(boxes) = rustix::fs::open(root.join("data/ipc"), flags, Mode::empty()) else { return };
    let Ok(groups) = Dir::read_from(&boxes) else { return };
    let kept = groups_kept(maximum);
    let kept = groups.take(usize::try_from(kept).unwrap_or(usize::MAX)).count();
    let needed = OTHERS + usize::try_from(GROUP_FILES).unwrap_or_default() * kept;
    // The table keeps its size when this one is closed. Where the limit is lower, opening a mailbox says so.
    let _ = i32::try_from(needed).map(|needed| rustix::io::fcntl_dupfd_cloexec(&boxes, needed));
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "lays out mailboxes, and reads /proc")]
mod tests {
    use super::*;

    /// Returns how many descriptors this process's table has places for.
    fn places() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn there_is_room_for_all_mailboxes_and_nothing_stays_open() {
        let root = tempfile::tempdir().unwrap();
        make_room_for_files(root.path());
        for n in 0..500 {
            std::fs::create_dir_all(root.path().join(format!("data/ipc/g{n}"))).unwrap();
        }
        make_room_for_files(root.path());
        assert!(places() >= 1_600, "{}", places());
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let open = open.filter_map(|name| name.unwrap().file_name().to_str()?.parse().ok());
        assert!(open.max().is_none_or(|highest: usize| highest < 1_600), "it is closed");
    }
}
