//! What the folders take that a group's container can write to.

use rustix::io::Errno;

use ipc_handlers::Time;

use super::{
    dir::{self, Names},
    files::{At, Fd},
    mailbox::changed_at,
    names::FileKind,
};

/// How deep is looked; each folder on the way is held open meanwhile.
const DEEPEST: usize = 256;

/// What files take on disk, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub all: u64,
    /// Those of them that were made or changed since a given time. The kernel says when that was; a container can't.
    pub changed: u64,
    /// Why there may be more than that; `None`: there is not.
    pub gap: Option<Gap>,
}

/// Why files can't be weighed in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    #[error("a folder that can't be read")]
    Unreadable,
    #[error("folders deeper than {DEEPEST}")]
    Deep,
    #[error("more than {0} names")]
    Names(usize),
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, more: Self) {
        self.all = self.all.saturating_add(more.all);
        self.changed = self.changed.saturating_add(more.changed);
        self.gap = self.gap.or(more.gap);
    }
}

/// Returns what the files below `folder` take on disk, with `a_name` for each name, and how much of it was changed since
/// `since`. No link is followed, no mount crossed; at most `names` are looked at. What can't be looked at counts nothing,
/// and is told of as a [`Gap`].
#[must_use]
pub fn weigh<'a>(folder: impl Into<At<'a>>, a_name: u64, names: usize, since: Time) -> Weight {
    let mut scales = Scales { a_name, since, names, left: names, weight: Weight::default() };
    if let Some(top) = scales.entered(folder.into().open_itself()) {
        scales.add(top);
    }
    scales.weight
}

struct Scales {
    a_name: u64,
    since: Time,
    names: usize,
    left: usize,
    weight: Weight,
}

impl Scales {
    /// Goes down into folders by descriptors alone, each opened from its parent's. A walk that began anew from the top
    /// could be led astray, and one by recursion could be led too deep.
    fn add(&mut self, top: Names) {
        let mut way = vec![top];
        while let Some(here) = way.last_mut() {
            let name = match here.next() {
                Some(Ok(name)) => name,
                Some(Err(error)) => {
                    self.fails(error);
                    way.pop();
                    continue;
                }
                None => {
                    way.pop();
                    continue;
                }
            };
            if self.left == 0 {
                return self.misses(Gap::Names(self.names));
            }
            self.left -= 1;
            let at = here.folder();
            let stat = match dir::stat(at, &name) {
                Ok(stat) => stat,
                Err(error) => {
                    self.fails(error);
                    continue;
                }
            };
            let takes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            let all = takes.saturating_add(self.a_name);
            let changed = if changed_at(&stat) >= self.since { all } else { 0 };
            self.weight += Weight { all, changed, gap: None };
            if FileKind::of(&stat) != FileKind::Directory {
                continue;
            }
            let folder = dir::open_dir(at, &name);
            if way.len() > DEEPEST {
                self.misses(Gap::Deep);
            } else if let Some(folder) = self.entered(folder) {
                way.push(folder);
            }
        }
    }

    fn entered(&mut self, folder: Result<Fd, Errno>) -> Option<Names> {
        folder.map(Names::of).map_err(|error| self.fails(error)).ok()
    }

    /// A file that is gone, has changed its kind, or is on another file system counts nothing; a container can make the rest of
    /// errors only by its folders' modes.
    fn fails(&mut self, error: Errno) {
        if matches!(error, Errno::ACCESS | Errno::PERM) {
            self.misses(Gap::Unreadable);
        }
    }

    fn misses(&mut self, gap: Gap) {
        self.weight.gap = self.weight.gap.or(Some(gap));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay folders out")]
mod tests {
    use std::path::Path;

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
    fn what_is_not_weighed_is_told_of() {
        let of = |root: &Path, names| weigh(root, 0, names, Time(i64::MAX));
        let root = tempfile::tempdir().unwrap();
        let deep = |levels: usize| root.path().join("d/".repeat(levels));
        std::fs::create_dir_all(deep(DEEPEST)).unwrap();
        std::fs::write(deep(DEEPEST).join("file"), vec![1; 100_000]).unwrap();
        let weight = of(root.path(), 1_000);
        assert!(weight.all >= 100_000 && weight.gap.is_none(), "{weight:?}");
        assert_eq!(of(root.path(), DEEPEST + 1).gap, None);
        assert_eq!(of(root.path(), DEEPEST).gap, Some(Gap::Names(DEEPEST)));
        std::fs::create_dir(deep(DEEPEST + 1)).unwrap();
        assert_eq!(of(root.path(), 1_000).gap, Some(Gap::Deep));
        assert_eq!(of(&root.path().join("nowhere"), 1_000), Weight::default());
    }

    #[test]
    fn a_folder_that_may_not_be_read_is_told_of() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("hidden")).unwrap();
        for mode in [0o300, 0o400, 0] {
            let set =
                |mode| std::fs::set_permissions(root.path().join("hidden"), PermissionsExt::from_mode(mode));
            std::fs::write(root.path().join("hidden/file"), "x").unwrap();
            set(mode).unwrap();
            let gap = weigh(root.path(), 0, 100, Time(i64::MAX)).gap;
            set(0o700).unwrap();
            // For root there is no such folder.
            let expected = (!rustix::process::geteuid().is_root()).then_some(Gap::Unreadable);
            assert_eq!(gap, expected, "{mode:o}");
        }
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
        // New bytes of a file count with its old ones.
        let mut old = std::fs::File::options().append(true).open(root.path().join("old")).unwrap();
        std::io::Write::write_all(&mut old, b"more").unwrap();
        assert!(of(since).changed > 150_000);
        assert_eq!(of(Time(i64::MAX)).changed, 0);
    }
}
