//! Which process serves a root.
#![expect(clippy::disallowed_methods, reason = "reads /proc, which no container can write")]

use std::fs;

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
