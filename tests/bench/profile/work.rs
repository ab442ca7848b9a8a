//! Instructions and allocations of the daemon, counted by valgrind, which runs it.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{LazyLock, Once},
    time::{Duration, Instant},
};

use crate::rig::{self, Daemon, Root};

use super::pages::Log;

/// The daemon rests when it uses less of a processor in this while, and writes nothing into the store.
const RESTS: (Duration, f64) = (Duration::from_millis(400), 0.1);
/// So long it is looked at what the daemon does by itself.
const IDLE: Duration = Duration::from_secs(5);

/// What valgrind is to count: each needs a daemon of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// Instructions, by the functions that they are of.
    Callgrind,
    /// Allocations, and their bytes.
    Massif,
}

/// What was counted in a while, by name.
pub(super) type Counts = BTreeMap<String, f64>;

/// The names under which [`Tool::Massif`] counts.
pub(super) const ALLOCATIONS: &str = "allocations";
pub(super) const BYTES: &str = "bytes";

/// Whether there is a valgrind that can run the daemon; if not, it is said once.
pub(super) fn is_there() -> bool {
    static THERE: LazyLock<bool> = LazyLock::new(|| {
        let version = Command::new("valgrind").arg("--version").stderr(Stdio::null()).output();
        let there = version.is_ok_and(|said| said.status.success());
        if !there {
            eprintln!("skipped: no valgrind");
        }
        there
    });
    *THERE
}

/// A daemon that valgrind runs.
pub(super) struct Valgrind {
    tool: Tool,
    store: Log,
    daemon: Daemon,
    dir: tempfile::TempDir,
    /// How many dumps it was asked for.
    dumps: usize,
    /// How far its log was read.
    read: usize,
}

impl Valgrind {
    /// Starts `g2 serve`, and waits until it rests. `None`: this valgrind can't run it, which is said once.
    pub(super) fn serve(root: &Root, tool: Tool) -> Option<Self> {
        let dir = rig::temporary();
        let in_dir = |option: &str, name: &str| format!("{option}={}", dir.path().join(name).display());
        let mut runner = vec![
            "valgrind".to_owned(),
            "--quiet".to_owned(),
            in_dir("--log-file", "log"),
            in_dir("--vgdb-prefix", "vgdb"),
            "--vgdb-poll=100".to_owned(),
        ];
        runner.extend(match tool {
            Tool::Callgrind => vec![
                "--tool=callgrind".to_owned(),
                in_dir("--callgrind-out-file", "dump"),
                "--compress-strings=no".to_owned(),
                "--compress-pos=no".to_owned(),
            ],
            Tool::Massif => vec![
                "--tool=massif".to_owned(),
                in_dir("--massif-out-file", "massif"),
                "--depth=1".to_owned(),
                "--trace-malloc=yes".to_owned(),
            ],
        });
        let Some(daemon) = root.serve_by(&runner, "info") else {
            static SAID: Once = Once::new();
            let log = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
            let why = log.lines().find(|line| line.contains("WARNING")).unwrap_or_default();
            SAID.call_once(|| eprintln!("skipped: this valgrind can't run the daemon: {why}"));
            return None;
        };
        let valgrind = Self { tool, store: Log::of(root), daemon, dir, dumps: 0, read: 0 };
        valgrind.rests();
        Some(valgrind)
    }

    /// Counts what the daemon does for `work`, and by itself afterwards until it rests. What it does by itself while nothing is
    /// asked of it is taken off, by the time that it took.
    pub(super) fn count(&mut self, work: impl FnOnce()) -> Counts {
        self.counted();
        let began = Instant::now();
        work();
        self.rests();
        let took = began.elapsed();
        let mut counts = self.counted();
        let began = Instant::now();
        std::thread::sleep(IDLE);
        let share = took.as_secs_f64() / began.elapsed().as_secs_f64();
        for (name, idle) in self.counted() {
            if let Some(count) = counts.get_mut(&name) {
                *count -= idle * share;
            }
        }
        counts
    }

    /// Waits until the daemon does nothing.
    pub(super) fn rests(&self) {
        let (window, most) = RESTS;
        rig::wait_until("rest", || {
            let before = self.store.end();
            self.daemon.share(window) < most && self.store.end() == before
        });
    }

    /// Returns what was counted since the last look.
    fn counted(&mut self) -> Counts {
        match self.tool {
            Tool::Callgrind => {
                self.ask("dump");
                self.dumps += 1;
                instructions(&fs::read_to_string(self.path(&format!("dump.{}", self.dumps))).unwrap())
            }
            Tool::Massif => {
                let log = fs::read(self.path("log")).unwrap();
                let text = String::from_utf8_lossy(&log[self.read..]).into_owned();
                self.read = log.len();
                allocations(&text)
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Gives valgrind an order, which it takes at the daemon's next step. It is not forced to: that would disturb a system call.
    fn ask(&self, order: &str) {
        let prefix = self.path("vgdb");
        let done = Command::new("vgdb")
            .args(["--max-invoke-ms=0", &format!("--pid={}", self.daemon.pid())])
            .arg(format!("--vgdb-prefix={}", prefix.display()))
            .arg(order)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(done.status.success(), "{order}: {done:?}");
    }
}

/// Reads callgrind's list: how many instructions each function has executed by itself.
fn instructions(list: &str) -> Counts {
    let mut counts = Counts::new();
    let (mut function, mut called) = ("", false);
    for line in list.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || first == '+' || first == '-') {
            // The line after a call says what the function that was called has executed.
            if !std::mem::take(&mut called) {
                let own: f64 = line.split(' ').nth(1).map_or(0.0, |count| count.parse().unwrap());
                *counts.entry(function.to_owned()).or_default() += own;
            }
        }
    }
    counts
}

/// Reads the list of calls to the allocator. Threads write between each other's lines.
fn allocations(list: &str) -> Counts {
    let (mut count, mut bytes) = (0.0, 0.0);
    let mut numbers = |call: &str, which: fn(&[f64]) -> f64| {
        for (at, _) in list.match_indices(call) {
            let arguments = &list[at + call.len()..];
            let arguments = &arguments[..arguments.find(')').unwrap_or(0)];
            let read = |word: &str| word.rsplit(' ').next().and_then(|number| number.parse().ok());
            let arguments: Vec<f64> = arguments.split(',').map(|word| read(word).unwrap_or(0.0)).collect();
            count += 1.0;
            bytes += which(&arguments);
        }
    };
    numbers("malloc(", |of| of[0]);
    numbers("calloc(", |of| of[0] * of[1]);
    numbers("realloc(", |of| of[1]);
    numbers("memalign(", |of| of[1]);
    Counts::from([(ALLOCATIONS.to_owned(), count), (BYTES.to_owned(), bytes)])
}
