//! What the machine offers: disk, inodes, watches, open files, and what the file system can do.
#![expect(clippy::disallowed_methods, reason = "reads /proc")]

use std::{fs, path::Path};

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::{problems::checks::Check, shown::screen::counted},
    ipc::peek::{self, Abilities, NotWatched},
    loops::problems::wanted_files,
};

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let data = if subject.data.is_dir() { &subject.data } else { &subject.root };
    let groups = subject.groups.len() as u64;
    let mut rows = Vec::new();
    if let Ok(stat) = rustix::fs::statvfs(data) {
        let shown = data.display().to_string();
        let free = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
        let wanted = subject.config.limits.min_free_bytes >> 20;
        let detail = format!("{free} MiB are free under {shown}; {wanted} MiB are needed");
        rows.push(Row::ok(Check::Disk, detail));
        rows.push(Row::ok(Check::Inodes, inodes(&shown, stat.f_files, stat.f_favail)));
    }
    rows.push(inotify(subject));
    let process = subject.daemon.as_ref().map_or_else(|| "self".to_owned(), |daemon| daemon.pid.to_string());
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    if let Some(limit) = open_files_limit(&limits) {
        let runs = subject.config.limits.max_containers.get() as u64;
        let wanted = wanted_files(groups, runs);
        let detail = format!(
            "{} and {} need about {wanted} open files; {limit} are allowed",
            counted(groups, "group"),
            counted(runs, "run")
        );
        rows.push(Row::ok(Check::OpenFiles, detail));
    }
    if let Ok(stat) = rustix::fs::statfs(data) {
        rows.push(file_system(&data.display().to_string(), stat.f_type as u64 & 0xffff_ffff));
    }
    match peek::abilities(data) {
        Ok(abilities) => rows.push(file_handles(abilities)),
        Err(error) if data.exists() => {
            rows.push(Row::fail(Check::FileHandles, chain(&error), "run g2 as the user that owns the root"));
        }
        Err(_) => {}
    }
    rows
}

fn inodes(path: &str, all: u64, free: u64) -> String {
    match all {
        0 => format!("the file system of {path} has no fixed number of inodes"),
        _ => format!("{free} of {all} inodes are free under {path}"),
    }
}

fn inotify(subject: &Subject) -> Row {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(Path::new("/proc/sys/fs/inotify").join(name)).ok()?.trim().parse().ok()
    };
    let seen = Watches {
        groups: subject.groups.len() as u64,
        limit: number("max_user_watches"),
        tried: match &subject.daemon {
            Some(daemon) => match watched_by(daemon.pid) {
                // Nothing of it may be seen by this user.
                None => Ok(()),
                Some(0) if !subject.groups.is_empty() => Err(NotWatched::NoInstance),
                Some(n) if (n as u64) < 2 * subject.groups.len() as u64 => Err(NotWatched::OnlySoMany(n)),
                Some(_) => Ok(()),
            },
            None => peek::try_watching(&subject.data, subject.groups.iter().map(|group| &group.folder)),
        },
    };
    judge_watches(&seen)
}

/// What was seen of the kernel's limits on watching.
#[derive(Clone, Copy, Debug)]
struct Watches {
    groups: u64,
    limit: Option<u64>,
    /// By the daemon if it is up, otherwise by this command.
    tried: Result<(), NotWatched>,
}

fn judge_watches(seen: &Watches) -> Row {
    let wanted = 2 * seen.groups;
    let late = "a scan finds commands in unwatched boxes up to 200 ms later; G2 keeps trying to watch them";
    let raise =
        |to: u64| format!("`sysctl fs.inotify.max_user_watches={to}`, and the same in /etc/sysctl.d/");
    match (seen.tried, seen.limit) {
        (Err(NotWatched::NoInstance), _) => Row::warn(
            Check::Inotify,
            format!("no box is watched: this user has no inotify instance left; {late}"),
            "`sysctl fs.inotify.max_user_instances=512`, or end the programs that use them; with sandbox.uid_base agents can't use up each other's",
        ),
        (Err(NotWatched::OnlySoMany(n)), limit) => Row::warn(
            Check::Inotify,
            format!("only {n} of {wanted} boxes can be watched; {late}"),
            raise(limit.unwrap_or(0).max(wanted) * 2),
        ),
        (Ok(()), Some(limit)) if limit < wanted => Row::warn(
            Check::Inotify,
            format!("{wanted} boxes need a watch, and this user may watch {limit} folders; {late}"),
            raise(wanted * 2),
        ),
        (Ok(()), limit) => Row::ok(
            Check::Inotify,
            format!("{wanted} boxes to watch{}", limit.map(|n| format!(", {n} allowed")).unwrap_or_default()),
        ),
    }
}

/// Returns how many folders a process watches; `None` when it can't be looked into.
fn watched_by(pid: u32) -> Option<usize> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    let texts = infos.filter_map(|info| fs::read_to_string(info.ok()?.path()).ok());
    Some(texts.map(|text| text.lines().filter(|line| line.starts_with("inotify ")).count()).sum())
}

/// Returns the hard limit on open files from `/proc/<pid>/limits`: the daemon raises its own to that.
fn open_files_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// File systems that other machines can write to, by their number.
const NETWORK: [(u64, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x7461_636f, "OCFS2"),
    (0x6573_5546, "FUSE"),
];

fn file_system(path: &str, kind: u64) -> Row {
    match NETWORK.iter().find(|(number, _)| *number == kind) {
        Some((_, name)) => Row::warn(
            Check::FileSystem,
            format!(
                "{path} is on {name}: file events of commands do not arrive there, and the store's locks may not hold"
            ),
            "keep the root on a disk of this machine; choose it with --root or $G2_ROOT",
        ),
        None => Row::ok(Check::FileSystem, format!("{path} is on a disk of this machine")),
    }
}

fn file_handles(abilities: Abilities) -> Row {
    match abilities {
        Abilities { file_handles: false, .. } => Row::warn(
            Check::FileHandles,
            "the file system has no file handles: each command costs two more syncs to be applied exactly once",
            "keep the root on ext4, XFS or btrfs rather than on an overlay",
        ),
        Abilities { links: false, .. } => Row::warn(
            Check::FileHandles,
            "the file system has no hard links or no unnamed files: a hostile container can keep all others waiting",
            "keep the root on ext4, XFS or btrfs",
        ),
        Abilities { attributes: false, .. } => Row::ok(
            Check::FileHandles,
            "supported; without user attributes a claim that a crash left does not name its box",
        ),
        Abilities { .. } => Row::ok(Check::FileHandles, "supported, and so are user attributes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_told_and_what_suffices_is_not() {
        let handles = |file_handles, attributes, links| {
            super::file_handles(Abilities { file_handles, attributes, links })
        };
        let watches = |groups, limit, tried| judge_watches(&Watches { groups, limit, tried });
        for (row, status, mend) in [
            (watches(10, Some(20), Ok(())), "ok", ""),
            (watches(10, None, Ok(())), "ok", ""),
            (watches(10, Some(19), Ok(())), "warn", "max_user_watches=40"),
            (watches(10, Some(100), Err(NotWatched::OnlySoMany(4))), "warn", "max_user_watches=200"),
            (watches(10, Some(100), Err(NotWatched::NoInstance)), "warn", "max_user_instances"),
            (file_system("/d", 0xef53), "ok", ""),
            (file_system("/d", 0x6969), "warn", "disk of this machine"),
            (handles(false, true, true), "warn", "overlay"),
            (handles(true, true, false), "warn", "btrfs"),
            (handles(true, false, true), "ok", ""),
        ] {
            assert_eq!(row.told().status, status, "{row:?}");
            assert!(row.told().fix.unwrap_or("").contains(mend), "{row:?}");
        }
    }

    #[test]
    fn the_hard_limit_on_open_files_is_read() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files     \n";
        assert_eq!(open_files_limit(text), Some(524_288));
        assert_eq!(open_files_limit("Max open files  unlimited  unlimited  files"), Some(u64::MAX));
        assert_eq!(open_files_limit(""), None);
    }
}
