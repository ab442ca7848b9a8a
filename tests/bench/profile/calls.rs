//! System calls of the daemon, counted by strace.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::rig::{self, Daemon};

/// An strace at work.
pub(super) struct Calls {
    strace: Child,
    dir: tempfile::TempDir,
}

impl Calls {
    /// Counts from now on, in all threads; `None`: there is no strace, which is said.
    pub(super) fn begin(daemon: &Daemon) -> Option<Self> {
        let dir = rig::temporary();
        let strace = Command::new("strace")
            .args(["-f", "-q", "-c", "-o"])
            .arg(dir.path().join("calls"))
            .args(["-p", &daemon.pid().to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(strace) = strace else {
            eprintln!("skipped: no strace");
            return None;
        };
        rig::wait_until("strace", || daemon.is_traced());
        Some(Self { strace, dir })
    }

    /// Returns how often each was called, most first.
    pub(super) fn end(mut self) -> Vec<(String, u64)> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.strace.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.strace.wait().unwrap();
        let path: PathBuf = self.dir.path().join("calls");
        let text = fs::read_to_string(path).unwrap();
        let mut counts: Vec<(String, u64)> = text.lines().filter_map(row).collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        counts
    }
}

/// Reads a row of strace's table: share, seconds, µs a call, calls, perhaps errors, name.
fn row(line: &str) -> Option<(String, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = words.last().filter(|name| **name != "total")?;
    words.first()?.parse::<f64>().ok()?;
    Some(((*name).to_owned(), words.get(3)?.parse().ok()?))
}
