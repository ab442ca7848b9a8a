//! The measures of a daemon from outside.

use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command},
    time::{Duration, Instant},
};

/// A `g2 serve`, killed when it is dropped.
pub(crate) struct Daemon {
    pub(super) child: Child,
    pub(crate) spawned: Instant,
    /// When it said that it was ready.
    pub(crate) ready: Instant,
}

impl Daemon {
    /// Starts any program that serves; when it is ready is for the caller to find out.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let spawned = Instant::now();
        Self { child: command.spawn().unwrap(), spawned, ready: spawned }
    }

    /// Kills it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the resident memory, KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how many bytes it has given the kernel to write so far: files, sockets, all.
    pub(crate) fn written_bytes(&self) -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
    }

    /// Returns how often its threads have waited for something so far.
    pub(crate) fn sleeps(&self) -> u64 {
        let waits = |status: &String| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        self.statuses().iter().map(waits).sum()
    }

    /// Whether another process traces each of its threads.
    pub(crate) fn is_traced(&self) -> bool {
        self.statuses().iter().all(|status| !status.contains("TracerPid:\t0\n"))
    }

    /// The status of each of its threads.
    fn statuses(&self) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // One may have ended by now.
        threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok()).collect()
    }

    /// Returns the processor time that each of its threads has used so far, user and system.
    pub(crate) fn processor_time(&self) -> BTreeMap<String, Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads
            .filter_map(|thread| {
                let thread = thread.unwrap();
                // It may have ended by now.
                let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
                let used = stat.split_whitespace().next()?.parse().ok()?;
                Some((thread.file_name().into_string().unwrap(), Duration::from_nanos(used)))
            })
            .collect()
    }

    /// Returns the processor time that it has used so far, user and system, that of ended threads too: in steps of 10 ms.
    pub(crate) fn processor_time_in_all(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Returns the share of a processor that it uses in `window`.
    pub(crate) fn share(&self, window: Duration) -> f64 {
        let before = self.processor_time();
        std::thread::sleep(window);
        let used: Duration = self
            .processor_time()
            .into_iter()
            .map(|(thread, after)| after.saturating_sub(before.get(&thread).copied().unwrap_or_default()))
            .sum();
        used.as_secs_f64() / window.as_secs_f64()
    }

    /// Asks it to stop, and waits for the end.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
