//! What the folders take that a group's container can write to.

use std::{ops::ControlFlow, path::Path};

use rustix::{
    fd::AsFd,
    fs::{Mode, OFlags},
};

use super::{dir, names::Kind};

/// How deep is looked; what lies deeper is not counted.
const DEEPEST: usize = 32;

/// Returns what the files below `folder` take on disk, bytes, with `a_name` for each name. No link is followed, no mount
/// crossed; at most `names` are looked at, and what can't be looked at counts nothing.
#[must_use]
pub fn weigh(folder: &Path, a_name: u64, names: usize) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(held) = rustix::fs::open(folder, flags, Mode::empty()) else { return 0 };
    let mut left = names;
    below(&held, a_name, &mut left, DEEPEST)
}

fn below(at: impl AsFd, a_name: u64, left: &mut usize, deeper: usize) -> u64 {
    let mut bytes = 0_u64;
    let at = at.as_fd();
    let _ = dir::each_name(at, |name, _| {
        if *left == 0 {
            return ControlFlow::Break(());
        }
        *left -= 1;
        if let Ok(stat) = dir::stat(at, name) {
            let takes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            bytes = bytes.saturating_add(takes).saturating_add(a_name);
            if Kind::of(&stat) == Kind::Directory
                && deeper > 0
                && let Ok(folder) = dir::open_dir(at, name)
            {
                bytes = bytes.saturating_add(below(&folder, a_name, left, deeper - 1));
            }
        }
        ControlFlow::Continue(())
    });
    bytes
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay folders out")]
mod tests {
    use super::*;

    #[test]
    fn files_are_weighed_with_their_names_in_bounds_and_through_no_link() {
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
}
