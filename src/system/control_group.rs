//! The use of the machine by a control group: all that a container has started, what has ended as well.
#![expect(clippy::disallowed_methods, reason = "reads /proc and /sys, which no container can write")]

use std::{fs, path::PathBuf};

const MOUNTED: &str = "/sys/fs/cgroup";

/// Where the kernel tells what a control group uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    place: Place,
}

/// Its folders, by the version of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// One folder of each controller.
    One { cpu: PathBuf, disk: Option<PathBuf>, memory: Option<PathBuf> },
    /// One folder of all controllers.
    Two(PathBuf),
}

/// What it used since it was made, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub cpu_ms: u64,
    pub disk_bytes: u64,
    pub memory_kib: u64,
}

impl ControlGroup {
    /// Returns the control group of the container with this id, as an engine makes them up, by one of its processes; `None`: it
    /// is none of its.
    #[must_use]
    pub fn of(pid: u32, id: &str) -> Option<Self> {
        const SHORTEST: usize = 32;
        if id.len() < SHORTEST {
            return None;
        }
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        place(&groups, id).map(|place| Self { place })
    }

    /// Returns what it uses; `None`: it is gone, or its controllers are not there.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        Some(match &self.place {
            Place::One { cpu, disk, memory } => Figures {
                cpu_ms: number(&read(cpu.join("cpuacct.usage"))?)? / 1_000_000,
                disk_bytes: disk
                    .as_ref()
                    .and_then(|disk| read(disk.join("blkio.throttle.io_service_bytes_recursive")))
                    .map_or(0, |text| after_last(&text, "Total")),
                memory_kib: memory
                    .as_ref()
                    .and_then(|memory| number(&read(memory.join("memory.usage_in_bytes"))?))
                    .unwrap_or(0)
                    / 1_024,
            },
            Place::Two(folder) => Figures {
                cpu_ms: of_key(&read(folder.join("cpu.stat"))?, "usage_usec")? / 1_000,
                disk_bytes: read(folder.join("io.stat")).map_or(0, |text| of_devices(&text)),
                memory_kib: read(folder.join("memory.current")).and_then(|text| number(&text)).unwrap_or(0)
                    / 1_024,
            },
        })
    }
}

/// Reads `/proc/<pid>/cgroup`: `number:controllers:path`.
fn place(groups: &str, id: &str) -> Option<Place> {
    let lines: Vec<(&str, &str)> = groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        .filter(|(_, path)| path.contains(id) && !path.split('/').any(|part| part == ".."))
        .collect();
    let folder = |controller: &str, path: &str| {
        PathBuf::from(format!("{MOUNTED}/{controller}")).join(path.trim_start_matches('/'))
    };
    let of = |controller: &str| {
        let (names, path) =
            lines.iter().find(|(names, _)| names.split(',').any(|name| name == controller))?;
        Some((*names, *path))
    };
    if let Some((names, path)) = of("cpuacct") {
        let place_of = |controller| of(controller).map(|(names, path)| folder(names, path));
        return Some(Place::One {
            cpu: folder(names, path),
            disk: place_of("blkio"),
            memory: place_of("memory"),
        });
    }
    let (_, path) = lines.iter().find(|(names, _)| names.is_empty())?;
    Some(Place::Two(PathBuf::from(MOUNTED).join(path.trim_start_matches('/'))))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number after a key at the beginning of a line.
fn of_key(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}

/// The number in the last line that begins with a word; 0 without one.
fn after_last(text: &str, word: &str) -> u64 {
    text.lines().rev().find_map(|line| number(line.strip_prefix(word)?)).unwrap_or(0)
}

/// Bytes read and written, all devices together: `8:0 rbytes=1 wbytes=2 rios=…`.
fn of_devices(text: &str) -> u64 {
    let bytes = text.split_whitespace().filter_map(|word| {
        let value = word.strip_prefix("rbytes=").or_else(|| word.strip_prefix("wbytes="))?;
        value.parse::<u64>().ok()
    });
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_group_is_found_by_its_id_in_both_versions_and_nobody_elses_is() {
        let one = "7:blkio:/docker/abc\n4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:pids:/\n0::/docker/abc\n";
        let folder = |controller: &str| PathBuf::from(format!("/sys/fs/cgroup/{controller}/docker/abc"));
        assert_eq!(
            place(one, "abc"),
            Some(Place::One {
                cpu: folder("cpu,cpuacct"),
                disk: Some(folder("blkio")),
                memory: Some(folder("memory"))
            })
        );
        let two = "0::/system.slice/docker-abc.scope\n";
        let scope = PathBuf::from("/sys/fs/cgroup/system.slice/docker-abc.scope");
        assert_eq!(place(two, "abc"), Some(Place::Two(scope)));
        for other in ["", "0::/\n", "0::/docker/other\n", "0::/../docker/abc\n", "2:cpuacct:/\n", "junk"] {
            assert_eq!(place(other, "abc"), None, "{other:?}");
        }
        assert_eq!(ControlGroup::of(std::process::id(), ""), None);
    }

    #[test]
    fn figures_are_read_in_the_forms_of_both_versions() {
        let stat = "usage_usec 1234567\nuser_usec 1\n";
        assert_eq!((of_key(stat, "usage_usec"), of_key(stat, "usage")), (Some(1_234_567), None));
        let io = "8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=5 dios=0\n252:0 rbytes=1 wbytes=x\n";
        assert_eq!(of_devices(io), 31);
        let blkio = "252:0 Read 4096\n252:0 Write 1\n252:0 Total 4097\nTotal 4097\n";
        assert_eq!((after_last(blkio, "Total"), after_last("", "Total")), (4_097, 0));
    }
}
