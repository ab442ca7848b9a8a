//! Bounds of a program with all that it starts: how many processes, how much memory, how much of the disk. What a kernel holds at
//! once is asked of it; the rest is looked at again and again.
#![expect(clippy::disallowed_methods, reason = "reads /proc, and weighs folders that no container can write")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use super::{
    confine::{identity, read_again},
    process,
    processes::{self, Process},
    world::World,
};

/// How often it is looked: at folders each time, at processes every second time.
const LOOK: Duration = Duration::from_secs(2);
/// However long a look takes, the next one comes after this.
const LONGEST_LOOK: Duration = Duration::from_secs(20);
/// A look takes at most one part in this many of the time, unless that would be too seldom.
const PART: u32 = 100;
/// How many processes and threads of others a user may begin after a program was started, where it has no user of its own.
const OTHERS: u64 = 4096;
/// The most files and folders that are weighed.
const FILES: usize = 100_000;

/// What a program and all that it starts may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Processes with their threads.
    pub tasks: u64,
    /// Memory that is no file's, bytes.
    pub memory: u64,
    /// In its own folders, and in files without a name, bytes.
    pub disk: u64,
}

/// The bounds of adapters and hooks.
pub const BOUNDS: Bounds = Bounds { tasks: 512, memory: 4 << 30, disk: 1 << 30 };

/// Files that a program reads again, and which file each is.
type ReadAgain = Vec<(PathBuf, Option<(u64, u64)>)>;

/// What went beyond its bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    #[error("it had {is} processes and threads, the limit is {most}")]
    Tasks { is: u64, most: u64 },
    #[error("it used {} MiB of memory, the limit is {} MiB", .is >> 20, .most >> 20)]
    Memory { is: u64, most: u64 },
    #[error("its files take {} MiB, the limit is {} MiB", .is >> 20, .most >> 20)]
    Disk { is: u64, most: u64 },
    #[error("its folders hold more than {FILES} files, or a folder that can't be read")]
    Files,
    /// A program that may read one file may not read the next one of that name.
    #[error("{} was replaced, and it may read the new one from its next start", .0.display())]
    Replaced(PathBuf),
}

/// Bounds the processes of the user that this process is about to be, by the kernel. Only a user that is the program's `own` has
/// none beside them; otherwise the bound is shared with whatever else that user, or this process' one, runs.
pub(super) fn limit_processes(own: Option<u32>, user: Option<u32>) {
    let most = match own {
        Some(_) => BOUNDS.tasks,
        None => tasks_of(user.unwrap_or_else(|| process::own_ids().0)) + OTHERS,
    };
    let most = getrlimit(Resource::Nproc).maximum.map_or(most, |ours| ours.min(most));
    let _ = setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum: Some(most) });
}

/// Counts a user's processes and threads.
fn tasks_of(user: u32) -> u64 {
    let all = processes::all().unwrap_or_default();
    let is_own = |process: &&Process| {
        fs::metadata(format!("/proc/{}", process.pid)).is_ok_and(|meta| meta.uid() == user)
    };
    all.iter().filter(is_own).map(|process| process.threads).sum()
}

/// Returns once a process group or its folders are beyond a bound.
pub async fn exceeded(world: &World, group: Pid, folders: Vec<PathBuf>, bounds: Bounds) -> Over {
    watch(world, (group, folders), bounds, Vec::new()).await
}

/// Returns once a process group or its folders are beyond a bound, or once a file that it reads again was replaced.
pub async fn exceeded_or_replaced(world: &World, group: Pid, folders: Vec<PathBuf>, bounds: Bounds) -> Over {
    watch(world, (group, folders), bounds, read_again()).await
}

async fn watch(
    world: &World,
    (group, folders): (Pid, Vec<PathBuf>),
    bounds: Bounds,
    known: ReadAgain,
) -> Over {
    let mut turn = 0_u32;
    loop {
        let began = tokio::time::Instant::now();
        let (known, folders) = (known.clone(), folders.clone());
        let looked = world.blocking(move || {
            let replaced =
                known.into_iter().find(|(path, was)| identity(path).is_some_and(|is| Some(is) != *was));
            let used = if turn % 2 == 1 { of_group(group) } else { Used::default() };
            replaced.map(|(path, _)| Over::Replaced(path)).or_else(|| beyond(used, &folders, bounds))
        });
        if let Ok(Some(over)) = looked.await {
            return over;
        }
        turn = turn.wrapping_add(1);
        tokio::time::sleep((began.elapsed() * PART).clamp(LOOK, LONGEST_LOOK)).await;
    }
}

/// Returns the bound that folders are beyond by themselves.
#[must_use]
pub fn too_large(folders: &[PathBuf], bounds: Bounds) -> Option<Over> {
    beyond(Used::default(), folders, bounds)
}

/// What the processes of a group use.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    tasks: u64,
    memory: u64,
    nameless: u64,
}

fn beyond(used: Used, folders: &[PathBuf], bounds: Bounds) -> Option<Over> {
    if used.tasks > bounds.tasks {
        return Some(Over::Tasks { is: used.tasks, most: bounds.tasks });
    }
    if used.memory > bounds.memory {
        return Some(Over::Memory { is: used.memory, most: bounds.memory });
    }
    let (mut disk, mut files) = (used.nameless, 0);
    for folder in folders {
        disk = disk.saturating_add(weight(folder, &mut files));
    }
    if files > FILES {
        return Some(Over::Files);
    }
    (disk > bounds.disk).then_some(Over::Disk { is: disk, most: bounds.disk })
}

/// What a folder takes on the disk, bytes; `files` counts, and nothing is looked at beyond their bound. Nothing is followed.
fn weight(folder: &Path, files: &mut usize) -> u64 {
    let (mut bytes, mut inner) = (0_u64, vec![folder.to_owned()]);
    while let Some(folder) = inner.pop() {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            // It is closed, or deeper than a path can be: nobody knows what is in it.
            Err(_) => {
                *files = FILES + 1;
                return bytes;
            }
        };
        for entry in entries.flatten() {
            *files += 1;
            if *files > FILES {
                return bytes;
            }
            // Of the name itself, whatever it leads to.
            let Ok(meta) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
            if meta.is_dir() {
                inner.push(entry.path());
            }
        }
    }
    bytes
}

/// Adds up what the processes of a group use now.
fn of_group(group: Pid) -> Used {
    let mut used = Used::default();
    let mut seen = BTreeSet::new();
    let members = processes::all().unwrap_or_default();
    let members: Vec<_> =
        members.iter().filter(|process| process.group == group.as_raw_nonzero().get()).collect();
    for member in &members {
        used.tasks += member.threads;
        let status = fs::read_to_string(format!("/proc/{}/status", member.pid)).unwrap_or_default();
        used.memory += kib(&status, "RssAnon:") + kib(&status, "RssShmem:") + kib(&status, "VmSwap:");
        for file in fs::read_dir(format!("/proc/{}/fd", member.pid)).into_iter().flatten().flatten() {
            let Ok(meta) = fs::metadata(file.path()) else { continue };
            if meta.is_file() && meta.nlink() == 0 && seen.insert((meta.dev(), meta.ino())) {
                used.nameless += meta.blocks() * 512;
            }
        }
    }
    // Once all is known that is open: the others are held by memory alone.
    let mut unseen = BTreeMap::new();
    for member in &members {
        used.nameless += mapped(member.pid, &mut seen, &mut unseen);
    }
    used.nameless += unseen.values().sum::<u64>();
    used
}

/// Device and inode.
type Id = (u64, u64);

/// Adds up the files without a name that a process has in its memory, and that are not `seen` yet. Files that can't be looked at, as
/// by an ordinary user, are noted in `unseen`, with the most of them that one process has mapped.
fn mapped(pid: i32, seen: &mut BTreeSet<Id>, unseen: &mut BTreeMap<Id, u64>) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let (mut bytes, mut of_this) = (0, BTreeMap::<Id, u64>::new());
    for (range, device, inode) in maps.lines().filter_map(nameless) {
        let Ok(meta) = fs::metadata(format!("/proc/{pid}/map_files/{range}")) else {
            if !seen.contains(&(device, inode)) {
                *of_this.entry((device, inode)).or_default() += length(range);
            }
            continue;
        };
        if seen.insert((meta.dev(), meta.ino())) {
            bytes += meta.blocks() * 512;
        }
    }
    for (file, length) in of_this {
        let most = unseen.entry(file).or_default();
        *most = length.max(*most);
    }
    bytes
}

/// Returns the range, the device and the inode of a line of `/proc/<pid>/maps` that tells of a file without a name.
fn nameless(line: &str) -> Option<(&str, u64, u64)> {
    let line = line.strip_suffix(" (deleted)")?;
    let mut words = line.split_whitespace();
    let range = words.next()?;
    let (major, minor) = words.nth(2)?.split_once(':')?;
    let number = |hex| u32::from_str_radix(hex, 16).ok();
    let device = rustix::fs::makedev(number(major)?, number(minor)?);
    Some((range, device, words.next()?.parse().ok()?))
}

/// How long a range of addresses is, bytes.
fn length(range: &str) -> u64 {
    let address = |hex| u64::from_str_radix(hex, 16).unwrap_or(0);
    range.split_once('-').map_or(0, |(from, to)| address(to).saturating_sub(address(from)))
}

/// A number of KiB in `/proc/<pid>/status`, in bytes.
fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_types, reason = "starts what is looked at")]

    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
    };

    use rustix::process::{Signal, kill_process_group};

    use super::*;

    #[test]
    fn a_file_without_a_name_that_is_in_memory_alone_is_seen_in_the_list_of_maps() {
        let line = "7f0000000000-7f0000300000 rw-s 00000000 fd:01 42   /a b (deleted)";
        assert_eq!(nameless(line), Some(("7f0000000000-7f0000300000", rustix::fs::makedev(0xfd, 1), 42)));
        assert_eq!(length("7f0000000000-7f0000300000"), 3 << 20);
        for line in
            ["7f00-7f01 rw-s 00000000 fd:01 42   /a", "7f00-7f01 rw-p 00000000 00:00 0", "x (deleted)"]
        {
            assert_eq!(nameless(line), None, "{line}");
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "maps a file")]
    fn a_file_without_a_name_that_nobody_has_open_counts_while_it_is_in_memory() {
        use std::os::fd::AsRawFd as _;
        const SIZE: usize = 3_000_000;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[1; SIZE]).unwrap();
        let meta = file.metadata().unwrap();
        let (shared, readable) = (libc::MAP_SHARED, libc::PROT_READ);
        // SAFETY: a new mapping of a file that is as long; it is never looked into.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, readable, shared, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        drop(file);
        let own = std::process::id().cast_signed();
        let nameless = |mut seen: BTreeSet<Id>| {
            let mut unseen = BTreeMap::new();
            mapped(own, &mut seen, &mut unseen) + unseen.values().sum::<u64>()
        };
        let with = nameless(BTreeSet::new());
        let without = nameless(BTreeSet::from([(meta.dev(), meta.ino())]));
        // SAFETY: unmaps what was mapped.
        assert_eq!(unsafe { libc::munmap(at, SIZE) }, 0);
        assert!((SIZE as u64..4_000_000).contains(&(with - without)), "{with} {without}");
    }

    #[test]
    fn what_a_group_and_its_folders_use_is_added_up_with_files_that_have_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 600 > /dev/null & exec 3> gone; head -c 3000000 /dev/zero >&3; rm gone; \
                      head -c 2000000 /dev/zero > kept; echo up; wait";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(folder.path()).process_group(0).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let group = Pid::from_child(&leader);
        let (used, folders) = (of_group(group), [folder.path().to_owned()]);
        assert_eq!(used.tasks, 2);
        assert!(used.memory > 0 && (3_000_000..4_000_000).contains(&used.nameless), "{used:?}");
        let bounds = Bounds { tasks: 2, memory: 1 << 30, disk: 6 << 20 };
        assert_eq!(beyond(used, &folders, bounds), None);
        let over = |bounds| beyond(used, &folders, bounds).unwrap();
        assert_eq!(over(Bounds { tasks: 1, ..bounds }), Over::Tasks { is: 2, most: 1 });
        assert!(matches!(over(Bounds { memory: 1, ..bounds }), Over::Memory { .. }));
        assert!(matches!(over(Bounds { disk: 4 << 20, ..bounds }), Over::Disk { is: 5_000_000.., .. }));
        assert_eq!(too_large(&folders, Bounds { disk: 4 << 20, ..bounds }), None, "what has a name alone");
        kill_process_group(group, Signal::KILL).unwrap();
        leader.wait().unwrap();
    }
}
