//! A root of its own in a temporary folder, the real `g2` in it, and waiting for a level with a deadline.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    cell::RefCell,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant, SystemTime},
};

use rusqlite::config::DbConfig;
use serde_json::Value;

mod docker;
mod forms;
mod program;
mod proxy;
mod socket;
mod terminal;
pub(crate) use docker::{Docked, agent_image, claude_image, docker, run_docker};
pub(crate) use forms::{telegram, telegram_has_told};
pub(crate) use program::{Linkage, archive, program, tag};
pub(crate) use proxy::EngineProxy;
pub(crate) use socket::Socket;
pub(crate) use terminal::Terminal;

/// However slow the machine is, this is long enough.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);

/// How soon a level is looked at again after something was committed or logged, and at the latest.
const SOON: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_millis(80);

thread_local! {
    /// What the daemons of this thread's roots write to whenever they commit or log something.
    static WRITTEN: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Returns how what daemons write to stands; whatever is committed changes it.
fn written() -> Vec<Option<(u64, SystemTime)>> {
    let stamp = |path: &PathBuf| fs::metadata(path).ok().map(|meta| (meta.len(), meta.modified().unwrap()));
    WRITTEN.with_borrow(|paths| paths.iter().map(stamp).collect())
}

/// Minutes since the epoch.
fn minutes() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 60
}

/// Returns a zone in which it is about noon: nothing in it goes on over midnight.
pub(crate) fn noon() -> String {
    let hour = minutes() / 60 % 24;
    let ahead = 12 - i64::try_from(hour).unwrap();
    // Its signs are the other way round.
    if ahead >= 0 { format!("Etc/GMT-{ahead}") } else { format!("Etc/GMT+{}", -ahead) }
}

/// Returns a cron expression of each hour, next due in 20 minutes: never while a test goes on.
pub(crate) fn hourly() -> String {
    format!("{} * * * *", (minutes() + 20) % 60)
}

/// Returns the instant now, as a `once` that is due.
pub(crate) fn due() -> String {
    jiff::Timestamp::now().to_string()
}

/// Waits until `level` gives a value; fails with `what` after [`DEADLINE`]. It follows what is committed and logged: where
/// nothing is, the level is seldom looked at, as a look may start a program.
pub(crate) fn wait_for<T>(what: &str, mut level: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    let mut rest = SOON;
    loop {
        let before = written();
        if let Some(value) = level() {
            return value;
        }
        assert!(since.elapsed() < DEADLINE, "waited {DEADLINE:?} for: {what}");
        let until = Instant::now() + rest;
        rest = (rest * 2).min(LATEST);
        while Instant::now() < until {
            std::thread::sleep(SOON);
            if written() != before {
                rest = SOON;
                break;
            }
        }
    }
}

/// Commands that change nothing, and that tests ask again and again.
const LOOKS: [&[&str]; 12] = [
    &["activity"],
    &["approvals", "list"],
    &["events"],
    &["ipc", "list"],
    &["lanes", "list"],
    &["loops", "list"],
    &["messages", "list"],
    &["outbox", "list"],
    &["runs", "list"],
    &["status"],
    &["tasks", "list"],
    &["why"],
];

/// A root, laid out, with agents in the `process` sandbox unless the settings say otherwise.
pub(crate) struct Root {
    dir: tempfile::TempDir,
}

impl Root {
    /// Lays out a root whose settings are `toml` over short rests (retries after 20 ms, scans every 100 ms).
    pub(crate) fn new(toml: &str) -> Self {
        let root = Self::empty();
        root.g2(&["init"]);
        root.settings(toml);
        root
    }

    /// An empty folder, in which a root can be made.
    pub(crate) fn empty() -> Self {
        let root = Self { dir: tempfile::tempdir().unwrap() };
        let files = [root.data("g2.sqlite-wal"), root.path().join("serve.log")];
        WRITTEN.with_borrow_mut(|written| written.extend(files));
        root
    }

    /// Writes the settings anew. Sections that `toml` names itself are not given defaults here.
    pub(crate) fn settings(&self, toml: &str) {
        let mut text = String::new();
        for (section, lines) in [
            ("[sandbox]", "kind = \"process\"\n"),
            ("[limits]", "retry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n"),
        ] {
            if !toml.contains(section) {
                text.push_str(&format!("{section}\n{lines}"));
            }
        }
        fs::write(self.path().join("g2.toml"), format!("{text}{toml}")).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self, relative: &str) -> PathBuf {
        self.path().join("data").join(relative)
    }

    /// The real program, on this root, with a clean environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
        command.arg("--root").arg(self.path()).args(arguments).env_clear();
        for name in ["PATH", "HOME", "DOCKER_HOST"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("TZ", "UTC").stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that has to succeed; returns what it printed.
    pub(crate) fn g2(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "g2 {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command with `--json`; returns the document. One that only looks is answered in this process.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        if LOOKS.iter().any(|looks| arguments.starts_with(looks)) {
            return self.look(arguments);
        }
        let all: Vec<&str> = ["--json"].iter().chain(arguments).copied().collect();
        let output = self.run(&all);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("g2 {all:?}: {e}: {output:?}"))
    }

    /// Asks as [`Self::json`] does, without a process.
    pub(crate) fn look(&self, arguments: &[&str]) -> Value {
        let root = self.path().to_str().unwrap();
        let all = [&["--root", root, "--json"], arguments].concat();
        let answer = || g2::cli::answer(g2::config::Environment::with(&[("TZ", "UTC")]), &all);
        // A runtime can't be begun within another.
        let (code, printed) = match tokio::runtime::Handle::try_current() {
            Ok(_) => std::thread::scope(|threads| threads.spawn(answer).join().unwrap()),
            Err(_) => answer(),
        };
        serde_json::from_str(&printed).unwrap_or_else(|e| panic!("g2 {all:?}: {e}: {code}: {printed}"))
    }

    /// Returns the rows of a list command.
    pub(crate) fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        self.json(arguments).as_array().unwrap().clone()
    }

    /// Returns the rows of a list command that is called in a zone.
    pub(crate) fn rows_in(&self, zone: &str, arguments: &[&str]) -> Vec<Value> {
        let output = self.command(&[&["--json"], arguments].concat()).env("TZ", zone).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("g2 {arguments:?}: {e}: {output:?}"))
    }

    /// Returns the texts that were said to a chat, in order.
    pub(crate) fn said(&self, chat: &str) -> Vec<String> {
        self.rows(&["outbox", "list", "--chat", chat])
            .iter()
            .filter(|row| row["status"] == "sent")
            .map(|row| row["text"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Holds the store's lock, as another program may, for longer than a writer waits for it: until `ROLLBACK`.
    pub(crate) fn lock_store(&self) -> rusqlite::Connection {
        let other = rusqlite::Connection::open(self.data("g2.sqlite")).unwrap();
        other.busy_timeout(DEADLINE).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        other
    }

    /// Gives main's wiring a pattern that the command line refuses, as an older program has stored it.
    pub(crate) fn store_pattern(&self, pattern: &str) {
        let store = rusqlite::Connection::open(self.data("g2.sqlite")).unwrap();
        let changed = store.execute(
            "UPDATE wirings SET engage_mode = 'pattern', engage_pattern = ?1 WHERE group_folder = 'main'",
            [pattern],
        );
        assert_eq!(changed.unwrap(), 1);
    }

    /// Changes rows in a way that no command does. The log of changes stays beside the store, as a death leaves it.
    pub(crate) fn change_store(&self, sql: &str) {
        let store = rusqlite::Connection::open(self.data("g2.sqlite")).unwrap();
        store.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        assert_ne!(store.execute(sql, []).unwrap(), 0, "{sql}");
    }

    /// Gives the scripted agent a script, for every group or one.
    pub(crate) fn script(&self, group: Option<&str>, rules: &Value) {
        let name = format!("script-{}.json", group.unwrap_or("all"));
        fs::write(self.path().join(&name), rules.to_string()).unwrap();
        match group {
            Some(group) => drop(self.g2(&["groups", "set", group, &format!("script={name}")])),
            None => {
                let path = self.path().join("g2.toml");
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, format!("{text}\n[agent]\nscript = \"{name}\"\n")).unwrap();
            }
        }
    }

    /// Starts `g2 serve` and waits until it is ready.
    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    /// Starts `g2 serve` with more in its environment and waits until it is ready.
    pub(crate) fn serve_with(&self, environment: &[(&str, &str)]) -> Daemon {
        let daemon = self.spawn(environment);
        wait_for("the daemon to be ready", || {
            let ready = self.run(&["status"]).status.code() != Some(3);
            (ready || daemon.has_ended()).then_some(())
        });
        daemon
    }

    /// Starts `g2 serve` without waiting for anything; its log is in `serve.log`.
    pub(crate) fn spawn(&self, environment: &[(&str, &str)]) -> Daemon {
        let mut command = self.command(&["serve"]);
        command.envs(environment.iter().copied());
        self.spawn_by(command)
    }

    /// Starts a command that becomes `g2 serve`; its log is in `serve.log`.
    pub(crate) fn spawn_by(&self, mut command: Command) -> Daemon {
        let log = fs::File::options().create(true).append(true).open(self.path().join("serve.log")).unwrap();
        let child = command.stderr(log).stdout(Stdio::null()).spawn().unwrap();
        Daemon { child: std::cell::RefCell::new(child) }
    }

    /// Everything that the daemons of this root logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("serve.log")).unwrap_or_default()
    }

    /// Settings under which every agent waits, before it begins, for [`Self::open_gate`]; `toml` comes after them.
    pub(crate) fn close_gate(&self, toml: &str) {
        let (gate, g2) = (self.path().join("gate"), env!("CARGO_BIN_EXE_g2"));
        // A shell does not watch its daemon: it is over when the root is gone.
        let wait = format!(
            "until [ -e '{}' ]; do [ -d '{}' ] || exit; sleep 0.02; done; exec '{g2}' agent",
            gate.display(),
            self.path().display()
        );
        self.settings(&format!(
            "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", \"{wait}\"]\n{toml}"
        ));
    }

    pub(crate) fn open_gate(&self) {
        fs::write(self.path().join("gate"), "").unwrap();
    }

    /// Sends a message without waiting; returns its number.
    pub(crate) fn send(&self, chat: &str, text: &str) -> i64 {
        self.g2(&["send", "--chat", chat, text]).trim().parse().unwrap()
    }

    /// What became of a message.
    pub(crate) fn why(&self, seq: i64) -> Value {
        self.json(&["why", &seq.to_string()])
    }

    /// Waits until a message was judged; returns what became of it so far.
    pub(crate) fn judged(&self, seq: i64) -> Value {
        wait_for("the message to be judged", || {
            let why = self.why(seq);
            why["wirings"].as_array().unwrap().iter().all(|w| w["rule"].is_string()).then_some(why)
        })
    }

    /// Sends a message and waits for the answers; returns what was printed.
    pub(crate) fn ask(&self, chat: &str, text: &str) -> String {
        self.g2(&["send", "--chat", chat, "--wait", "60", text])
    }

    /// Writes a command file into a group's box as an agent would: a temporary name, then a rename.
    pub(crate) fn put_command(&self, group: &str, in_box: &str, name: &str, json: &Value) {
        self.put_bytes(group, in_box, name, json.to_string().as_bytes());
    }

    pub(crate) fn put_bytes(&self, group: &str, in_box: &str, name: &str, bytes: &[u8]) {
        let dir = self.data("ipc").join(group).join(in_box);
        let temporary = dir.join(format!(".{name}.tmp"));
        fs::File::create(&temporary).unwrap().write_all(bytes).unwrap();
        fs::rename(temporary, dir.join(name)).unwrap();
    }

    /// Waits for the reply to a request and returns it.
    pub(crate) fn reply(&self, group: &str, request: &str) -> Value {
        let path = self.data("ipc").join(group).join("responses").join(format!("{request}.json"));
        wait_for(&format!("the reply to {request}"), || {
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
        })
    }

    /// Waits until the command file `name` of a group is settled; returns its row of `ipc list`.
    pub(crate) fn settled_file(&self, group: &str, name: &str) -> Value {
        wait_for(&format!("{name} of {group} to be settled"), || {
            self.rows(&["ipc", "list", "--group", group]).into_iter().find(|row| {
                row["name"] == name
                    && ["applied", "refused", "dead"].contains(&row["state"].as_str().unwrap())
            })
        })
    }

    /// Reads a JSON file below `data/`, once it is there and whole.
    pub(crate) fn data_json(&self, relative: &str) -> Value {
        wait_for(relative, || serde_json::from_slice(&fs::read(self.data(relative)).ok()?).ok())
    }

    /// Returns the prompt that a run was started with.
    pub(crate) fn prompt(&self, run: i64) -> String {
        fs::read_to_string(self.data(&format!("runs/{run}/prompt.txt"))).unwrap()
    }

    /// Waits until `count` commands are settled; returns the rows of `ipc list` that are.
    pub(crate) fn settled(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} settled commands"), || {
            let rows: Vec<Value> = self
                .rows(&["ipc", "list"])
                .into_iter()
                .filter(|row| ["applied", "refused", "dead"].contains(&row["state"].as_str().unwrap()))
                .collect();
            (rows.len() >= count).then_some(rows)
        })
    }
}

/// What a test that fails shows besides its own words.
impl Drop for Root {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.path().display(), self.log());
        }
    }
}

/// A `g2 serve` that is killed when the test is over.
pub(crate) struct Daemon {
    child: std::cell::RefCell<Child>,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.child.borrow_mut().try_wait().unwrap().is_some()
    }

    /// Holds the daemon for as long as the value lives, so that files that are written meanwhile are all there at once.
    pub(crate) fn hold(&self) -> Held {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let held = Held(pid);
        // A thread that is in the kernel goes on until it comes out of it.
        wait_for("each thread to stand still", || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let stopped = |thread: fs::DirEntry| {
                fs::read_to_string(thread.path().join("stat"))
                    .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T')))
            };
            threads.map(Result::unwrap).all(stopped).then_some(())
        });
        held
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// SIGTERM, and waits for the end; returns the exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        wait_for("the daemon to stop", || self.child.borrow_mut().try_wait().unwrap()).code()
    }

    /// Waits until it has ended by itself; returns the signal that ended it, if one did.
    pub(crate) fn signal(self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        wait_for("the daemon to end", || self.child.borrow_mut().try_wait().unwrap()).signal()
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(self) -> Option<i32> {
        wait_for("the daemon to end", || self.child.borrow_mut().try_wait().unwrap()).code()
    }
}

/// A daemon that stands still.
pub(crate) struct Held(rustix::process::Pid);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        if child.try_wait().ok().flatten().is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a program of `tests/fixtures/`, built when it is not: cargo builds examples only when all tests are run.
pub(crate) fn example(name: &str) -> PathBuf {
    static BUILDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let this = std::env::current_exe().unwrap();
    let path = this.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    if !path.is_file() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success() && path.is_file(), "{} can't be built", path.display());
    }
    path
}

/// Builds the adapters beside `g2`, where they are not there or older than what they are made from: cargo builds them itself
/// only when all tests are run.
pub(crate) fn adapters() {
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let is_newer = |than: SystemTime| {
            let mut folders = vec![
                top.join("src/adapters/src"),
                top.join("src/adapters/kit/src"),
                top.join("src/protocol/src"),
            ];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                    } else if fs::metadata(&path).unwrap().modified().unwrap() > than {
                        return true;
                    }
                }
            }
            false
        };
        let program = Path::new(env!("CARGO_BIN_EXE_g2")).with_file_name("g2-channels");
        let built = fs::metadata(&program).and_then(|meta| meta.modified());
        if built.is_ok_and(|at| !is_newer(at)) {
            return;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--bin", "g2-channels"]).current_dir(top);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the adapters can't be built");
    });
}

/// Who has the program of WhatsApp's workspace at its place: its tests build one with a feature that no package may have.
pub(crate) static WHATSAPPS_PROGRAM: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Says that a test is skipped, as this machine does not let it do what it needs: be root, mount, make devices or namespaces.
/// Fails where `G2_REQUIRE_ROOT=1`.
pub(crate) fn skipped(why: &str) {
    let required = std::env::var_os("G2_REQUIRE_ROOT").is_some_and(|value| value == "1");
    assert!(!required, "G2_REQUIRE_ROOT is set, and the test can't do what it needs: {why}");
    eprintln!("skipped: {why}");
}

/// Whether places at which a daemon ends can be named: in a debug build. Otherwise the test says that it is skipped.
pub(crate) fn fail_points() -> bool {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: no fail points in a release build");
    }
    cfg!(debug_assertions)
}
