//! A process and everything below it, by `/proc`.
#![expect(clippy::disallowed_methods, reason = "reads /proc, which no container can write")]

use std::{collections::VecDeque, fs};

use serde::Serialize;

/// One process of a family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Relative {
    pub pid: u32,
    pub parent: u32,
    /// The kernel's letter: `R` runs, `S` sleeps, `D` waits for a disk, `T` is stopped, `Z` is dead and not reaped.
    pub state: String,
    pub name: String,
    /// Time on a processor, with that of its children that have ended, ms.
    pub cpu_ms: u64,
    /// Memory that it has in use, KiB.
    pub memory_kib: u64,
    /// Read from disks and written to them, KiB, where that may be known.
    pub disk_kib: u64,
}

/// Returns a process and its descendants, at most `most` of them, parents first; none if it is gone.
#[must_use]
pub fn of(pid: u32, most: usize) -> Vec<Relative> {
    let mut found = Vec::new();
    let mut next = VecDeque::from([pid]);
    while found.len() < most
        && let Some(pid) = next.pop_front()
    {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        found.extend(parse(&stat, &status, &io));
        next.extend(children(pid, most));
    }
    found
}

/// Whether a process is in the control group of the container with this id.
#[must_use]
pub fn is_of_container(pid: u32, id: &str) -> bool {
    !id.is_empty()
        && fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(id))
}

/// The children of a process, at most `most` of each of its threads, and of at most `most` threads.
fn children(pid: u32, most: usize) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().take(most);
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().take(most).filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// The length of a tick in `/proc`, ms: the same on all machines.
const TICK_MS: u64 = 10;

/// Reads `/proc/<pid>/stat`, `/proc/<pid>/status` and `/proc/<pid>/io`. The program's name may hold anything, blanks and brackets too.
fn parse(stat: &str, status: &str, io: &str) -> Option<Relative> {
    let (before, after) = stat.rsplit_once(')')?;
    let (pid, name) = before.split_once(" (")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
    let bytes = io.lines().filter_map(|line| {
        line.strip_prefix("read_bytes:")
            .or_else(|| line.strip_prefix("write_bytes:"))?
            .trim()
            .parse::<u64>()
            .ok()
    });
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    Some(Relative {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        state: (*fields.first()?).to_owned(),
        name: name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        cpu_ms: (number(11)? + number(12)? + number(13)? + number(14)?) * TICK_MS,
        memory_kib: memory.and_then(|kib| kib.parse().ok()).unwrap_or(0),
        disk_kib: bytes.fold(0, u64::saturating_add) / 1_024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_and_its_family_begins_with_itself() {
        let stat = "42 (a) S (b) S 7 40 40 0 -1 4194304 1 0 0 0 3 2 4 3 20 0 1 0 777 1000 5 0\n";
        let one =
            parse(stat, "Name:\ta\nVmRSS:\t   12 kB\n", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 1024\n")
                .unwrap();
        assert_eq!((one.pid, one.parent, one.state.as_str(), one.name.as_str()), (42, 7, "S", "a) S (b"));
        assert_eq!((one.cpu_ms, one.memory_kib, one.disk_kib), (120, 12, 5));
        assert!(parse("", "", "").is_none());
        let us = of(std::process::id(), 4);
        assert_eq!(us.first().map(|one| one.pid), Some(std::process::id()));
        assert!(us.len() <= 4 && us[0].memory_kib > 0);
    }
}
