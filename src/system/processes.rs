//! Which processes there are, by `/proc`.
#![expect(clippy::disallowed_methods, reason = "reads /proc")]

use std::{fs, io};

/// One process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pub pid: i32,
    /// The group's leader.
    pub group: i32,
    /// Clock ticks since the boot.
    pub started: u64,
    /// It and its other threads.
    pub threads: u64,
    /// Dead, and not reaped.
    pub zombie: bool,
}

/// Returns all that are there.
///
/// # Errors
/// The operating system's.
pub fn all() -> io::Result<Vec<Process>> {
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(one).collect())
}

/// Returns one, if it is there and can be looked at.
#[must_use]
pub fn one(pid: i32) -> Option<Process> {
    look(pid).ok().flatten()
}

/// Returns one, if it is there.
///
/// # Errors
/// It can't be looked at.
pub fn look(pid: i32) -> io::Result<Option<Process>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(parse(&stat)),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a file of a process can't be read as the process has ended.
#[must_use]
pub fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Reads a line of `/proc/<pid>/stat`. The program's name in it may hold anything, blanks and brackets too.
fn parse(stat: &str) -> Option<Process> {
    let (pid, _) = stat.split_once(' ')?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        pid: pid.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let stat = "42 (a) S (b) S 1 40 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 1000 1\n";
        let process = parse(stat).unwrap();
        assert_eq!((process.pid, process.group, process.started, process.zombie), (42, 40, 777, false));
        assert_eq!(process.threads, 1);
        assert!(parse(&stat.replace(") S 1", ") Z 1")).unwrap().zombie);
        assert!(parse("").is_none());
    }
}
