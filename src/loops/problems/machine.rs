//! The machine: disk space and open files.

use super::{View, known};
use crate::{
    domain::{
        kept::disk::{self, Admission, Disk, Space},
        problems::{HeldUp, Problem},
        shown::errors::chain,
    },
    ipc::boxes::GROUP_FILES,
    store::Store,
};

/// Open files for each run while it lives, beside those of its group, and for the rest.
const PER_RUN: u64 = 16;
const BESIDES: u64 = 96;

/// The free room now, however long ago the daemon has looked.
pub(super) fn disk(view: &View<'_>, found: &mut Vec<Problem>) {
    let data = view.root.join("data");
    let data = if data.is_dir() { data } else { view.root.to_owned() };
    let path = data.display().to_string();
    let Some(free) = crate::system::disk::free_bytes(&data) else {
        let why = format!("the file system of {path} does not say");
        return found.push(Problem::Unreadable { what: "how much of the disk is free", why });
    };
    // Where they can't be counted they don't run out.
    let (free_inodes, inodes) = crate::system::disk::inodes(&data);
    let wanted = view.config.limits.min_free_bytes;
    // A size that can't be read is a problem of its own; then nothing is free inside.
    let size = view.store.map(|store| known(found, "the size of the store", store.size()));
    let inside = size.flatten().map_or(0, |size| size.free);
    let disk = Disk { free, inside, wanted, free_inodes, all_inodes: inodes };
    if disk::space(&Disk { free_inodes: 0, all_inodes: 0, ..disk }) != Space::Enough {
        let stopped = view
            .daemon
            .map(|daemon| daemon.machine.without_space().keys().cloned().collect())
            .unwrap_or_default();
        found.push(Problem::Disk { path, free, wanted, stopped });
    } else if disk::space(&disk) != Space::Enough {
        found.push(Problem::Inodes { path, free: free_inodes, all: inodes });
    }
    if let Some(store) = view.store {
        stored(view, store, &disk, found);
    }
}

/// Groups that have as much in the store as they may, and more.
fn stored(view: &View<'_>, store: &Store, disk: &Disk, found: &mut Vec<Problem>) {
    let all = match store.stored() {
        Ok(all) => all,
        Err(error) => {
            return found
                .push(Problem::Unreadable { what: "the size of groups in the store", why: chain(&error) });
        }
    };
    let (most, left) = (view.config.limits.stored_bytes, disk.left());
    for (group, bytes) in all {
        let held_up = if disk::is_over(bytes, most) {
            HeldUp::Stopped
        } else if bytes >= most {
            HeldUp::Full
        } else if disk::admission(bytes, most, disk) == Admission::Ahead {
            HeldUp::Waits
        } else {
            continue;
        };
        found.push(Problem::Stored { group, bytes, most, left, held_up });
    }
}

/// The hard limit: the daemon raises its own to that. `unserved`: as many groups' boxes can't be opened for it.
pub(super) fn open_files(view: &View<'_>, groups: usize, unserved: usize, found: &mut Vec<Problem>) {
    use rustix::process::{Resource, getrlimit};
    let runs = view.config.limits.max_containers.get() as u64;
    let wanted = wanted_files(groups as u64, runs);
    if let Some(limit) = getrlimit(Resource::Nofile).maximum
        && (limit < wanted || unserved > 0)
    {
        found.push(Problem::OpenFiles { groups, runs, wanted, limit, unserved });
    }
}

/// Returns about how many files are open at most with this many groups and runs.
#[must_use]
pub fn wanted_files(groups: u64, runs: u64) -> u64 {
    GROUP_FILES * groups.min(runs) + PER_RUN * runs + BESIDES
}
