//! Which root this is, and which process serves it.
#![expect(clippy::disallowed_methods, reason = "reads data/ and /proc, which no container can write")]

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Context as _, Result};

use crate::{store::Store, system::world::World};

/// Returns the root's instance id: a new one when `data/` is not where it was made (a copy adopts nothing).
pub(super) async fn of(world: &World, root: &Path, store: &Store) -> Result<String> {
    let data = fs::metadata(root.join("data")).context("looking at data/")?;
    let place = format!("{}:{}", data.dev(), data.ino());
    if let (Some(id), Some(known)) = (store.meta("instance")?, store.meta("place")?) {
        if known == place {
            return Ok(id);
        }
        tracing::warn!(
            "this root is a copy, or was moved: it gets an instance of its own and adopts nothing"
        );
    }
    let id = world.id().context("reading a random id from the kernel")?;
    store.set_meta("instance", &id).await?;
    store.set_meta("place", &place).await?;
    Ok(id)
}

/// Who owns the runs of this process: instance, boot, process and when it was started.
pub(super) fn owner(instance: &str) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{instance} {} {} {}", boot.trim(), std::process::id(), start_of("self"))
}

/// Whether the process that owns a run still lives, as its row has it: instance, boot, process and when that was started.
#[must_use]
pub fn is_alive(owner: &str) -> bool {
    let words: Vec<&str> = owner.split(' ').collect();
    let [_, boot, pid, started] = words.as_slice() else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    fs::read_to_string("/proc/sys/kernel/random/boot_id").is_ok_and(|id| id.trim() == *boot)
        && start_of(&pid.to_string()) == *started
}

/// When a process was started, in ticks since the boot; `0` when it is gone.
fn start_of(process: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).unwrap_or("0").to_owned()
}
