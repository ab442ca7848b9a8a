//! A host with its groups, tasks and agents on a folder of its own: ours, or a rival's checkout that was built.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    agent::AGENT,
    channel::CHANNEL,
    hub::{Heard, Hub, Message},
};
use crate::rig::{self, Daemon, Root};

/// A host that is started within it or never.
const STARTS: Duration = Duration::from_secs(60);

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Ours,
    V1,
    G2,
}

impl Host {
    pub(crate) const ALL: [Self; 3] = [Self::Ours, Self::V1, Self::G2];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::V1 => "v1",
            Self::G2 => "G2 in TypeScript",
        }
    }

    /// Where the rival is checked out; `None`: it is not.
    pub(crate) fn checkout(self) -> Option<PathBuf> {
        let variable = match self {
            Self::Ours => return None,
            Self::V1 => "G2_RIVAL_V1",
            Self::G2 => "G2_RIVAL_G2",
        };
        let path = PathBuf::from(std::env::var_os(variable)?);
        let program = path.join("dist/index.js");
        assert!(program.exists(), "{variable} names {}, where dist/index.js was not built", path.display());
        Some(path)
    }

    /// The mark that its agents' records begin with.
    fn mark(self) -> &'static str {
        if self == Self::V1 { "NANOCLAW" } else { "G2" }
    }
}

/// How it is laid out.
enum Place {
    Ours(Root),
    Rival { dir: tempfile::TempDir, checkout: PathBuf },
}

/// A folder, and what listens to it.
pub(crate) struct Scene {
    pub(crate) host: Host,
    place: Place,
    pub(crate) hub: Hub,
    /// Where the hub's socket and the list of containers lie.
    side: tempfile::TempDir,
    pub(crate) groups: Vec<String>,
    cap: usize,
    files: u64,
}

impl Scene {
    /// Lays out a host with `groups` groups beside main, each with the chat `bench:NAME`, and at most `cap` agents at a time.
    pub(crate) fn new(host: Host, groups: usize, cap: usize) -> Self {
        let side = rig::temporary();
        let hub = Hub::open(&side.path().join("hub"));
        let this = std::env::current_exe().unwrap();
        let place = match host.checkout() {
            None => {
                let (this, hub) = (this.display().to_string(), side.path().join("hub").display().to_string());
                let settings = format!(
                    "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [{this:?}, {AGENT:?}, {hub:?}]\n[limits]\nmin_free_mib = 1\nmax_concurrent_containers = {cap}\ncommands_per_minute = 4294967295\nmessages_per_minute = 4294967295\n[channels.bench]\ncommand = [{this:?}, {CHANNEL:?}]\nhub = {hub:?}\n"
                );
                let root = Root::in_chats_of("bench", &settings, groups + 1);
                // Rivals hear everybody.
                root.store().execute("UPDATE chats SET unknown_sender_policy = 'public'", []).unwrap();
                Place::Ours(root)
            }
            Some(checkout) => Place::Rival { dir: rig::temporary(), checkout },
        };
        symlink(&this, side.path().join("docker")).unwrap();
        fs::create_dir(side.path().join("containers")).unwrap();
        let groups = (1..=groups).map(|n| format!("g{n:04}")).collect();
        let mut scene = Self { host, place, hub, side, groups, cap, files: 0 };
        if let Place::Rival { dir, .. } = &scene.place {
            for folder in ["groups/main", "data/ipc"] {
                fs::create_dir_all(dir.path().join(folder)).unwrap();
            }
            // Its first start makes the store.
            scene.start().kill();
            scene.register();
        }
        scene
    }

    fn dir(&self) -> &Path {
        match &self.place {
            Place::Ours(root) => root.path(),
            Place::Rival { dir, .. } => dir.path(),
        }
    }

    fn store(&self) -> rusqlite::Connection {
        match &self.place {
            Place::Ours(root) => root.store(),
            Place::Rival { dir, .. } => {
                rusqlite::Connection::open(dir.path().join("store/messages.db")).unwrap()
            }
        }
    }

    /// Registers the groups in a rival's store.
    fn register(&self) {
        let mut store = self.store();
        let all = store.transaction().unwrap();
        for group in &self.groups {
            all.execute(
                "INSERT INTO registered_groups (jid, name, folder, trigger_pattern, added_at, requires_trigger)
                 VALUES (?1, ?2, ?2, '@x', '2026-01-01T00:00:00.000Z', 0)",
                (format!("bench:{group}"), group),
            )
            .unwrap();
            for name in ["messages", "tasks", "input"] {
                fs::create_dir_all(self.mailbox(group).join(name)).unwrap();
            }
        }
        all.commit().unwrap();
    }

    /// Stores tasks, the first `due` of which are due since long ago.
    pub(crate) fn add_tasks(&self, count: usize, due: usize) {
        const LONG_AGO_MS: i64 = 1_790_000_000_000;
        const FAR_AWAY_MS: i64 = 4_000_000_000_000;
        let statement = match self.host {
            Host::Ours => {
                "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
                 VALUES (?1, ?2, ?3, ?1, 'once', '2030-01-01T00:00:00', 'isolated', 'active', ?4, 0)"
            }
            Host::V1 | Host::G2 => {
                "INSERT INTO scheduled_tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
                 VALUES (?1, ?2, ?3, ?1, 'once', '2030-01-01T00:00:00', 'isolated', 'active', strftime('%Y-%m-%dT%H:%M:%fZ', ?4 / 1000.0, 'unixepoch'), '2026-01-01T00:00:00.000Z')"
            }
        };
        let mut store = self.store();
        let all = store.transaction().unwrap();
        for (n, group) in (0..count).zip(self.groups.iter().cycle()) {
            let next = if n < due { LONG_AGO_MS } else { FAR_AWAY_MS };
            all.prepare_cached(statement)
                .unwrap()
                .execute((format!("t-{n}"), group, format!("bench:{group}"), next))
                .unwrap();
        }
        all.commit().unwrap();
    }

    fn mailbox(&self, group: &str) -> PathBuf {
        self.dir().join("data/ipc").join(group)
    }

    /// Starts the host, and waits until the platform's channel is connected.
    pub(crate) fn start(&mut self) -> Daemon {
        self.hub.clear();
        let daemon = match &self.place {
            Place::Ours(root) => return self.connected(root.serve()),
            Place::Rival { dir, checkout } => {
                let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/rivals/hook.mjs");
                let log = File::create(self.side.path().join("log")).unwrap();
                let path = std::env::var("PATH").unwrap_or_default();
                Daemon::spawn(
                    Command::new("node")
                        .arg("--import")
                        .arg(hooks)
                        .arg(checkout.join("dist/index.js"))
                        .current_dir(dir.path())
                        .env("PATH", format!("{}:{path}", self.side.path().display()))
                        .env("HOME", dir.path())
                        .env("TZ", "UTC")
                        .env("RIVAL", checkout)
                        .env("BENCH_HUB", self.side.path().join("hub"))
                        .env("BENCH_CONTAINERS", self.side.path().join("containers"))
                        .env("BENCH_MARK", self.host.mark())
                        .env("MAX_CONCURRENT_CONTAINERS", self.cap.to_string())
                        // It asks there for keys, and goes on without.
                        .env("ONECLI_URL", "http://127.0.0.1:9")
                        .stdin(Stdio::null())
                        .stdout(log.try_clone().unwrap())
                        .stderr(log),
                )
            }
        };
        self.connected(daemon)
    }

    fn connected(&self, mut daemon: Daemon) -> Daemon {
        match self.hub.wait(STARTS, |heard| matches!(heard, Heard::Channel)) {
            Some(at) => daemon.ready = at,
            None => panic!("{}: the channel was never connected; {}", self.host.name(), self.log()),
        }
        daemon
    }

    /// The end of what the host logged.
    pub(crate) fn log(&self) -> String {
        let path = match &self.place {
            Place::Ours(root) => root.path().join("serve.log"),
            Place::Rival { .. } => self.side.path().join("log"),
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        text[text.floor_char_boundary(text.len().saturating_sub(3_000))..].to_owned()
    }

    /// Writes a command file in which an agent says a text in its own chat; returns when it was renamed into its box.
    pub(crate) fn command(&mut self, group: &str, text: &str) -> Instant {
        self.files += 1;
        let dir = self.mailbox(group).join("messages");
        let bytes =
            json!({ "type": "message", "chatJid": format!("bench:{group}"), "text": text }).to_string();
        let new = dir.join(".new");
        fs::write(&new, bytes).unwrap();
        let before = Instant::now();
        fs::rename(new, dir.join(format!("{:08}.json", self.files))).unwrap();
        before
    }

    /// Sends a message of a person, which asks the agent to look after it in this way; returns when it was written to the channel.
    pub(crate) fn message(&self, group: &str, id: &str, how: &str) -> Instant {
        let (chat, text) = (format!("bench:{group}"), format!("look after {id} {how}"));
        let before = Instant::now();
        let written = self.hub.write(&Message { chat, id: id.into(), text });
        assert!(written, "{}: no channel is connected; {}", self.host.name(), self.log());
        before
    }
}
