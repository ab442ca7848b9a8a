//! What files take that have no name any more, and that processes of a group still hold.

use std::{collections::BTreeSet, fs::File, path::Path};

use ipc_handlers::Time;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::{
    dir,
    mailbox::changed_at,
    weigh::{Gap, Weight},
};

/// How much of what the kernel says of a descriptor is read, bytes.
const INFO: u64 = 4_096;

/// Returns what files without a name take on the file systems of `places` that `processes` hold, open or in memory, with
/// `a_name` for each inode, and how much of it was changed since `since`. Each counts once; at most `descriptors` are looked
/// at. A process that can't be looked into although it is our own user's, or while another one can, and descriptors that
/// are on their way in a socket, are reported as a [`Gap`]; if we may look into none, that says nothing about their owners.
/// A file that only an `io_uring` holds is not seen; a file that is only mapped into memory is seen by root alone.
#[must_use]
pub fn weigh_held(
    processes: &[i32],
    places: &[impl AsRef<Path>],
    a_name: u64,
    descriptors: usize,
    since: Time,
) -> Weight {
    let devices = places.iter().filter_map(|place| Some(rustix::fs::stat(place.as_ref()).ok()?.st_dev));
    let mut held = Held {
        devices: devices.collect(),
        a_name,
        since,
        descriptors,
        left: descriptors,
        known: BTreeSet::new(),
        weight: Weight::default(),
    };
    let looks: Vec<bool> = processes.iter().filter_map(|process| held.add(*process)).collect();
    if looks.contains(&true) && looks.contains(&false) {
        held.misses(Gap::Process);
    }
    held.weight
}

struct Held {
    devices: BTreeSet<u64>,
    a_name: u64,
    since: Time,
    descriptors: usize,
    left: usize,
    /// Device and inode of what was counted.
    known: BTreeSet<(u64, u64)>,
    weight: Weight,
}

impl Held {
    /// Returns whether it can be looked into; `None` of one that is gone meanwhile, which holds nothing.
    fn add(&mut self, process: i32) -> Option<bool> {
        let can = match open(&format!("/proc/{process}/fd")) {
            Ok(folder) => {
                self.add_all(&folder, Some(process));
                Some(true)
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                if is_ours(process).unwrap_or(false) {
                    self.misses(Gap::Process);
                }
                Some(false)
            }
            Err(_) => None,
        };
        if let Ok(folder) = open(&format!("/proc/{process}/map_files")) {
            self.add_all(&folder, None);
        }
        can
    }

    /// Looks through the kernel's own links: nothing is opened.
    fn add_all(&mut self, folder: &OwnedFd, descriptors_of: Option<i32>) {
        let Ok(mut entries) = Dir::read_from(folder) else { return };
        while let Some(Ok(entry)) = entries.read() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.left == 0 {
                return self.misses(Gap::Descriptors(self.descriptors));
            }
            self.left -= 1;
            let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::empty()) else { continue };
            match (FileType::from_raw_mode(stat.st_mode), descriptors_of) {
                (FileType::RegularFile, _) => self.count(&stat),
                (FileType::Socket, Some(process))
                    if carries(process, &name.to_string_lossy()).unwrap_or(false) =>
                {
                    self.misses(Gap::Sent);
                }
                _ => {}
            }
        }
    }

    fn count(&mut self, stat: &Stat) {
        if stat.st_nlink > 0
            || !self.devices.contains(&stat.st_dev)
            || !self.known.insert((stat.st_dev, stat.st_ino))
        {
            return;
        }
        let takes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let all = takes.saturating_add(self.a_name);
        let changed = if changed_at(stat) >= self.since { all } else { 0 };
        self.weight += Weight { all, changed, gap: None };
    }

    fn misses(&mut self, gap: Gap) {
        self.weight.gap = self.weight.gap.or(Some(gap));
    }
}

fn open(path: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Whether a process has our user: we could look into it, had it not seen to it that we can't.
fn is_ours(process: i32) -> Option<bool> {
    let info = said(&format!("/proc/{process}/status"))?;
    let user = info.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
    Some(user.parse() == Ok(rustix::process::geteuid().as_raw()))
}

/// Returns what the kernel says in one of its files.
fn said(path: &str) -> Option<String> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let info = dir::read_at_most(&File::from(file), INFO).ok()?;
    Some(String::from_utf8_lossy(&info).into_owned())
}

/// Whether a socket holds descriptors that nobody has received yet.
fn carries(process: i32, descriptor: &str) -> Option<bool> {
    let info = said(&format!("/proc/{process}/fdinfo/{descriptor}"))?;
    let count = info.lines().find_map(|line| line.strip_prefix("scm_fds:"))?;
    Some(count.trim() != "0")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay folders out")]
mod tests {
    use std::{io::IoSlice, mem::MaybeUninit};

    use rustix::{
        fd::AsFd as _,
        net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    };

    use super::*;

    /// What this process itself holds; nothing else here has files without a name in `root`.
    fn held(root: &Path, descriptors: usize, since: Time) -> Weight {
        let us = i32::try_from(std::process::id()).unwrap();
        weigh_held(&[us, i32::MAX], &[root], 1_000, descriptors, since)
    }

    #[test]
    fn files_without_a_name_are_weighed_once_and_what_was_sent_is_told_of() {
        // A file system of its own, so that no other test's files are counted.
        let Some(root) = ["/dev/shm", "/run"].into_iter().find_map(|at| tempfile::tempdir_in(at).ok()) else {
            eprintln!("skipped: no file system in memory");
            return;
        };
        let root = root.path();
        let before = held(root, 100_000, Time(i64::MAX));
        let path = root.join("filler");
        std::fs::write(&path, vec![1; 300_000]).unwrap();
        let file = File::open(&path).unwrap();
        let _again = File::open(&path).unwrap();
        let _same = file.try_clone().unwrap();
        assert_eq!(held(root, 100_000, Time(i64::MAX)).all, before.all, "it has a name");
        std::fs::remove_file(&path).unwrap();
        let weight = held(root, 100_000, Time(0));
        let more = weight.all - before.all;
        assert!((301_000..400_000).contains(&more), "{weight:?}");
        assert!(weight.changed >= more, "{weight:?}");
        assert_eq!(held(root, 100_000, Time(i64::MAX)).changed, 0);
        assert_eq!(held(root, 1, Time(0)).gap, Some(Gap::Descriptors(1)));

        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let sent = [file.as_fd()];
        assert!(rights.push(SendAncillaryMessage::ScmRights(&sent)));
        sendmsg(&ours, &[IoSlice::new(b"x")], &mut rights, SendFlags::empty()).unwrap();
        assert_eq!(held(root, 100_000, Time(0)).gap, Some(Gap::Sent));
    }
}
