//! What the folders take that a group's container can write to.

use std::{ops::ControlFlow, path::Path};

use rustix::{
    fd::AsFd,
    fs::{Mode, OFlags},
};

use ipc_handlers::Time;

use super::{dir, mailbox::changed_at, names::Kind};

/// How deep is looked; what lies deeper is not counted.
const DEEPEST: usize = 32;

/// What files take on disk, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub all: u64,
    /// Those of them that were made or changed since a given time. The kernel says when that was; a container can't.
    pub changed: u64,
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, more: Self) {
        self.all = self.all.saturating_add(more.all);
        self.changed = self.changed.saturating_add(more.changed);
    }
}

/// Returns what the files below `folder` take on disk, with `a_name` for each name, and how much of it was changed since
/// `since`. No link is followed, no mount crossed; at most `names` are looked at, and what can't be looked at counts
/// nothing.
#[must_use]
pub fn weigh(folder: &Path, a_name: u64, names: usize, since: Time) -> Weight {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(held) = rustix::fs::open(folder, flags, Mode::empty()) else { return Weight::default() };
    let mut scales = Scales { a_name, since, left: names, weight: Weight::default() };
    scales.add(&held, DEEPEST);
    scales.weight
}

struct Scales {
    a_name: u64,
    since: Time,
    left: usize,
    weight: Weight,
}

impl Scales {
    fn add(&mut self, at: impl AsFd, deeper: usize) {
        let at = at.as_fd();
        let _ = dir::each_name(at, |name, _| {
            if self.left == 0 {
                return ControlFlow::Break(());
            }
            self.left -= 1;
            if let Ok(stat) = dir::stat(at, name) {
                let takes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
                let all = takes.saturating_add(self.a_name);
                let changed = if changed_at(&stat) >= self.since { all } else { 0 };
                self.weight += Weight { all, changed };
                if Kind::of(&stat) == Kind::Directory
                    && deeper > 0
                    && let Ok(folder) = dir::open_dir(at, name)
                {
                    self.add(&folder, deeper - 1);
                }
            }
            ControlFlow::Continue(())
        });
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay folders out")]
mod tests {
    use super::*;

    #[test]
    fn files_are_weighed_with_their_names_in_bounds_and_through_no_link() {
        let weigh = |folder: &Path, a_name, names| weigh(folder, a_name, names, Time(i64::MAX)).all;
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("group");
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        assert_eq!(weigh(&inside, 0, 1), weigh(&inside, 0, 100) / 2, "an empty folder each");
        let empty = weigh(&inside, 1_000, 100);
        std::fs::write(inside.join("a/b/file"), vec![1; 100_000]).unwrap();
        let full = weigh(&inside, 1_000, 100);
        assert!((empty + 101_000..empty + 150_000).contains(&full), "{empty} {full}");
        // A sparse file takes what it holds.
        std::fs::File::create(inside.join("sparse")).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/usr", inside.join("link")).unwrap();
        std::os::unix::fs::symlink("/usr", root.path().join("linked")).unwrap();
        assert!(weigh(&inside, 1_000, 100) < full + 20_000);
        assert_eq!(weigh(&root.path().join("linked"), 1_000, 100), 0);
        assert_eq!(weigh(&root.path().join("nowhere"), 1_000, 100), 0);
    }

    #[test]
    fn what_was_changed_since_a_time_is_told_from_what_was_there_whatever_times_a_file_claims() {
        let root = tempfile::tempdir().unwrap();
        let of = |since| weigh(root.path(), 0, 100, since);
        std::fs::write(root.path().join("old"), vec![1; 100_000]).unwrap();
        let seen = |name: &str| changed_at(&rustix::fs::stat(root.path().join(name)).unwrap());
        let since = seen("old").plus_ms(1);
        // The clock of file systems goes in ticks.
        let mut n = 0;
        while seen("old") < since {
            n += 1;
            assert!(n < 100_000_000, "the clock stands");
            std::fs::write(root.path().join("new"), vec![1; 50_000]).unwrap();
            if seen("new") >= since {
                break;
            }
        }
        let weight = of(since);
        assert!((50_000..100_000).contains(&weight.changed) && weight.all > 150_000, "{weight:?}");
        let long_ago = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        std::fs::File::options()
            .write(true)
            .open(root.path().join("new"))
            .unwrap()
            .set_times(long_ago)
            .unwrap();
        assert_eq!(of(since).changed, weight.changed);
        // What is added to a file counts with what it had.
        let mut old = std::fs::File::options().append(true).open(root.path().join("old")).unwrap();
        std::io::Write::write_all(&mut old, b"more").unwrap();
        assert!(of(since).changed > 150_000);
        assert_eq!(of(Time(i64::MAX)).changed, 0);
    }
}
