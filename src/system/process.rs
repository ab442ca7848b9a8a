//! This process, and the users of this machine.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

/// From now on what this process makes can be read by others, unless it says otherwise or lies in a closed folder:
/// what agents are given has to be readable to their user, whatever we were started with.
pub fn set_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
}

/// Has this thread give way to all others.
pub fn give_way() {
    // Refused nowhere; and without it the work is done all the same.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Has this thread give way where others want all of a processor, and go on all the same: somebody may wait for its work.
pub fn give_way_somewhat() {
    // As above.
    let _ = rustix::process::setpriority_process(None, 5);
}

/// Ends this process with 1, at once, after `tell`: by our own fault it can't go on, and another one can.
pub fn end_as_broken(tell: impl FnOnce()) -> ! {
    // A log that can't be written does not keep it alive.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell));
    std::process::exit(1)
}

/// Returns a new random id: 32 hexadecimal digits.
///
/// # Errors
/// The kernel gives none.
pub(super) fn new_id() -> std::io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim().replace('-', ""))
}

/// Returns the service of systemd in which a process runs, by its control group; `None`: it runs in none.
#[must_use]
pub fn service_of(pid: u32) -> Option<String> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mut parts =
        groups.lines().filter_map(|line| line.rsplit(':').next()).flat_map(|path| path.split('/'));
    // That of the user's own manager is around all others.
    parts.rfind(|part| part.ends_with(".service") && !part.starts_with("user@")).map(str::to_owned)
}

/// Writes a file that only this user can read; it must not be there.
///
/// # Errors
/// The operating system's.
pub fn write_private(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// Returns what the kernel says of this process, a line each; empty where it says nothing.
#[must_use]
pub fn own_status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Returns a user's name, where `/etc/passwd` has it.
#[must_use]
pub fn user_name(user: u32) -> Option<String> {
    let all = std::fs::read_to_string("/etc/passwd").ok()?;
    all.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then(|| name.to_owned())
    })
}

/// Returns a user's number, where `/etc/passwd` has the name.
#[must_use]
pub fn user_id(name: &str) -> Option<u32> {
    let all = std::fs::read_to_string("/etc/passwd").ok()?;
    all.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let number = fields.nth(1)?;
        found.then(|| number.parse().ok())?
    })
}

/// Returns how many files this process may have open; `None`: any number.
#[must_use]
pub fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Returns this process's user and group.
#[must_use]
pub fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Returns the processor time of this process so far.
#[must_use]
pub fn own_cpu() -> std::time::Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or_default(),
        u32::try_from(spent.tv_nsec).unwrap_or_default(),
    )
}

/// Returns the memory of this process, bytes.
#[must_use]
pub fn own_memory() -> Option<u64> {
    let status = own_status();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns how many files this process has open.
#[must_use]
pub fn own_open_files() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}
