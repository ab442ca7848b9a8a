//! Roots to measure in, the real daemon on them, and its measures from outside.

use std::{
    fs::{self, File},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use g2::store::{NewGroup, NewWiring, Store};
use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::commands::PICTURE;

mod daemon;

pub(crate) use daemon::Daemon;

/// However slow the machine is, this is long enough.
const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until `level` holds, looking every millisecond.
pub(crate) fn wait_until(what: &str, mut level: impl FnMut() -> bool) {
    let since = Instant::now();
    while !level() {
        assert!(since.elapsed() < DEADLINE, "waited {DEADLINE:?} for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The folder that roots are made in: `G2_BENCH_DIR`, or one on the disk of the build, as `/tmp` may be memory.
pub(crate) fn place() -> &'static Path {
    static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("G2_BENCH_DIR").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
    });
    &PLACE
}

/// A folder that goes when it is dropped.
pub(crate) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in(place()).unwrap()
}

/// A root with `groups` groups, `main` among them; each has a chat of its own, `local:FOLDER`.
pub(crate) struct Root {
    dir: tempfile::TempDir,
    pub(crate) groups: Vec<String>,
}

impl Root {
    pub(crate) fn new(groups: usize) -> Self {
        Self::with(
            "[sandbox]\nkind = \"process\"\n[limits]\nmin_free_mib = 1\ncommands_per_minute = 4294967295\nmessages_per_minute = 4294967295\ncommands_mib_per_minute = 4095\narchives = 1000000\ngroups = 100000\ntasks = 1000000\ntasks_mib = 100000\n[media]\nchat_mib_per_hour = 100000\nstore_mib = 100000\n",
            groups,
        )
    }

    /// Lays out a root with these settings.
    pub(crate) fn with(settings: &str, groups: usize) -> Self {
        Self::in_chats_of("local", settings, groups)
    }

    /// Lays out a root whose groups but `main` have their chats on this account.
    pub(crate) fn in_chats_of(account: &str, settings: &str, groups: usize) -> Self {
        let mut root = Self { dir: temporary(), groups: vec!["main".to_owned()] };
        assert!(root.command(&["init"]).stdout(Stdio::null()).status().unwrap().success());
        fs::write(root.path().join("g2.toml"), settings).unwrap();
        root.groups.extend((1..groups).map(|n| format!("g{n:04}")));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = Store::open(&root.data("g2.sqlite")).unwrap();
            let adding = root.groups[1..].iter().map(|name| {
                let folder = Folder::parse(name).unwrap();
                let wiring = NewWiring {
                    group: folder.clone(),
                    chat_jid: format!("{account}:{name}"),
                    engage_mode: EngageMode::Pattern,
                    engage_pattern: Some(".".into()),
                    sender_scope: SenderScope::All,
                    ignored_message_policy: IgnoredMessages::Drop,
                };
                let group = NewGroup { folder, name: name.clone(), is_main: false, trigger: "@G2".into() };
                store.add_group(group, vec![wiring], Time(0))
            });
            for added in futures_util::future::join_all(adding).await {
                added.unwrap();
            }
        });
        for group in &root.groups {
            let folder = root.path().join("groups").join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(PICTURE), b"\x89PNG\r\n\x1a\n, and a little more").unwrap();
        }
        root
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self, relative: &str) -> PathBuf {
        self.path().join("data").join(relative)
    }

    pub(crate) fn in_box(&self, group: &str, name: &str) -> PathBuf {
        self.data("ipc").join(group).join(name)
    }

    /// Returns `g2` on this root.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_by(&[], arguments)
    }

    /// Returns `g2` on this root, run by another program, given with its arguments; none: by itself.
    fn command_by(&self, runner: &[String], arguments: &[&str]) -> Command {
        let mut words = runner.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_g2")]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("--root").arg(self.path()).args(arguments).env_clear().env("TZ", "UTC");
        for name in ["PATH", "HOME", "DOCKER_HOST"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs `g2` with these arguments; what it prints is of no interest.
    pub(crate) fn run(&self, arguments: &[&str]) {
        assert!(self.command(arguments).stdout(Stdio::null()).status().unwrap().success(), "{arguments:?}");
    }

    /// The store, beside a daemon that may be up. What is changed while it is up needs a `changed` on its socket.
    pub(crate) fn store(&self) -> Connection {
        let store = Connection::open(self.data("g2.sqlite")).unwrap();
        store.busy_timeout(DEADLINE).unwrap();
        store
    }

    /// The store, to look only.
    pub(crate) fn look(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = Connection::open_with_flags(self.data("g2.sqlite"), flags).unwrap();
        store.busy_timeout(DEADLINE).unwrap();
        store
    }

    /// Stores messages that were dealt with long ago, in the chats of all groups.
    pub(crate) fn fill_with_messages(&self, count: usize) {
        let mut store = self.store();
        let all = store.transaction().unwrap();
        for (n, group) in (0..count).zip(self.groups.iter().cycle()) {
            let chat = format!("local:{group}");
            all.prepare_cached(
                "INSERT INTO messages (chat_jid, replay_key, id, sender, sender_name, text, at, received_at, from_me, bot, mentioned)
                 VALUES (?1, ?2, ?2, 'local:you', 'you', ?3, 0, 0, 0, 0, 0)",
            )
            .unwrap()
            .execute((&chat, format!("old-{n}"), format!("message {n}, {}", "of usual length ".repeat(6))))
            .unwrap();
            let seq = all.last_insert_rowid();
            all.prepare_cached(
                "INSERT INTO lanes (group_folder, chat_jid) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )
            .unwrap()
            .execute((group, &chat))
            .unwrap();
            all.prepare_cached(
                "INSERT INTO inbox (lane_id, seq, verdict, rule, reason) SELECT id, ?2, 'wake', 'pattern', '' FROM lanes WHERE chat_jid = ?1",
            )
            .unwrap()
            .execute((&chat, seq))
            .unwrap();
        }
        all.execute("UPDATE lanes SET cursor = (SELECT max(n) FROM inbox)", []).unwrap();
        all.commit().unwrap();
    }

    /// Starts `g2 serve` and waits until it says that it is ready.
    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with("info")
    }

    /// Starts `g2 serve` at a level of logging.
    pub(crate) fn serve_with(&self, level: &str) -> Daemon {
        self.serve_by(&[], level).expect("the daemon ended before it was ready")
    }

    /// Starts `g2 serve` by another program, which becomes the daemon's process; given with its arguments. `None`: it ended before
    /// it was ready.
    pub(crate) fn serve_by(&self, runner: &[String], level: &str) -> Option<Daemon> {
        let notify = self.path().join("notify.sock");
        let _ = fs::remove_file(&notify);
        let heard = UnixDatagram::bind(&notify).unwrap();
        heard.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let log = File::create(self.path().join("serve.log")).unwrap();
        let spawned = Instant::now();
        let child = self
            .command_by(runner, &["--log-format", "json", "serve"])
            .env("NOTIFY_SOCKET", &notify)
            .env("LOG_LEVEL", level)
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut daemon = Daemon { child, spawned, ready: spawned };
        let mut buffer = [0; 256];
        loop {
            match heard.recv(&mut buffer) {
                Ok(length) if buffer[..length].starts_with(b"READY=1") => {
                    daemon.ready = Instant::now();
                    return Some(daemon);
                }
                Ok(_) => {}
                Err(_) if daemon.child.try_wait().unwrap().is_some() => return None,
                Err(error) => assert!(spawned.elapsed() < DEADLINE, "the daemon never got ready: {error}"),
            }
        }
    }

    /// Returns the daemon's log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("serve.log")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Writes a command file as an agent would; returns when it was renamed into its box.
    pub(crate) fn put(&self, group: &str, name: &str, bytes: &[u8]) -> Instant {
        let dir = self.in_box(group, "messages");
        let temporary = dir.join(".new");
        fs::write(&temporary, bytes).unwrap();
        let before = Instant::now();
        fs::rename(temporary, dir.join(name)).unwrap();
        before
    }
}

/// When the log says that something happened, ms since the epoch.
pub(crate) fn logged_at_ms(line: &Value) -> f64 {
    let at: jiff::Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
    at.as_microsecond() as f64 / 1e3
}

/// Wall-clock time, ms since the epoch: what logs and schedules are compared with.
pub(crate) fn wall_ms() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1e3
}
