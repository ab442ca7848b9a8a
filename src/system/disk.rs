//! How full a disk is.

use std::path::Path;

/// Returns how much is free on the file system of `path`, bytes.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns how many inodes are free where `path` is, and how many there are; 0 of 0 where none are counted.
#[must_use]
pub fn inodes(path: &Path) -> (u64, u64) {
    rustix::fs::statvfs(path).map_or((0, 0), |stat| (stat.f_favail, stat.f_files))
}
