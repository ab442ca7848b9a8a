//! A block device with nothing on it: the kernel tells of `syncfs` only a file system that is mounted as one on a device.
#![expect(clippy::disallowed_types, reason = "a program of the system makes the device")]

use std::{os::fd::AsRawFd as _, process::Command};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// The first kernel that does.
const SINCE: (u32, u32) = (6, 18);
const BYTES: u64 = 1 << 20;

/// A loop device over memory.
pub(crate) struct Device(String);

impl Device {
    /// Makes one, where it is of use and this user may.
    pub(crate) fn new() -> Option<Self> {
        if version(&rustix::system::uname().release().to_string_lossy()) < Some(SINCE) {
            return None;
        }
        let memory = memfd_create("forgetful", MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&memory, BYTES).ok()?;
        let file = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        let made = Command::new("losetup").args(["--find", "--show", &file]).output().ok()?;
        let path = String::from_utf8(made.stdout).ok()?.trim().to_owned();
        (made.status.success() && !path.is_empty()).then_some(Self(path))
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // One that is still in use goes when it is not.
        let _ = Command::new("losetup").args(["--detach", &self.0]).output();
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_numbers() {
        assert!(version("6.18.44-fc-v595") >= Some((6, 18)));
        assert!(version("6.9.1") < Some((6, 18)));
        assert_eq!(version("new"), None);
    }
}
