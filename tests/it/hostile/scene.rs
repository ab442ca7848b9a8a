//! A daemon, a hostile group in a real container, a neighbour, and a stranger's files beside them.
#![expect(
    clippy::disallowed_methods,
    reason = "lays out the stranger's files and looks at the daemon's memory"
)]
#![expect(clippy::disallowed_types, reason = "starts Docker's client")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
};

use serde_json::json;

use super::{
    host::Disk,
    untouched::{changing, manifest, of_the_machine},
};
use crate::support::{Daemon, Docked, Linkage, Root, archive, docker, program, run_docker, tag, wait_for};

/// The image whose one program is hostile.
pub(super) fn image() -> &'static str {
    static IMAGE: LazyLock<String> = LazyLock::new(|| {
        let program = program("hostile/main.rs", Linkage::Static);
        let image = format!("g2-test-hostile:{}", tag(&program));
        if run_docker(&["image", "ls", "--quiet", &image]).trim().is_empty() {
            let mut import = Command::new("docker")
                .args(["import", "--change", "ENTRYPOINT [\"/hostile\", \"agent\"]"])
                .args(["--change", "LABEL g2.protocol=2", "-", &image])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            import.stdin.take().unwrap().write_all(&archive(&program)).unwrap();
            assert!(import.wait().unwrap().success(), "docker import");
        }
        image
    });
    &IMAGE
}

pub(super) struct Scene {
    pub(super) daemon: Daemon,
    _disk: Option<Disk>,
    pub(super) root: Docked,
    pub(super) container: String,
    stranger: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
    quiet_kib: u64,
}

impl Scene {
    /// The hostile group's container is up, and the daemon has seen some ordinary work. `None` where there is no Docker.
    pub(super) fn new(toml: &str) -> Option<Self> {
        docker().then(|| Self::of(Docked::with_image(image(), toml), None))
    }

    /// The same, with its `data/` on a file system of its own. `None` also where none can be mounted.
    pub(super) fn on_a_disk(toml: &str) -> Option<Self> {
        if !docker() {
            return None;
        }
        let root = Docked::with_image(image(), toml);
        let disk = Disk::ext4_under(&root)?;
        root.g2(&["init"]);
        Some(Self::of(root, Some(disk)))
    }

    fn of(root: Docked, disk: Option<Disk>) -> Self {
        for group in ["evil", "good"] {
            root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
        }
        let stranger = tempfile::tempdir().unwrap();
        let command =
            json!({"type": "send_message", "chatJid": "local:evil", "text": "stolen from a stranger"});
        for name in ["victim.json", "other.json"] {
            fs::write(stranger.path().join(name), command.to_string()).unwrap();
        }
        let daemon = root.serve();
        let mut scene = Self {
            container: String::new(),
            stranger,
            before: BTreeMap::new(),
            quiet_kib: 0,
            root,
            _disk: disk,
            daemon,
        };
        scene.container = scene.container_of_a_new_run();
        for n in 0..40 {
            ask(&scene.root, "good", &format!("quiet-{n}"));
        }
        scene.root.data_json("ipc/main/session_history.json");
        scene.quiet_kib = scene.peak_kib();
        scene.remember();
        scene
    }

    /// Notes what the host's own files are now.
    pub(super) fn remember(&mut self) {
        self.before = self.hosts_own();
    }

    /// Has the hostile group launched, and waits until it is at rest.
    pub(super) fn container_of_a_new_run(&self) -> String {
        launched(&self.root)
    }

    /// A command file of the host that no container has.
    pub(super) fn victim(&self) -> String {
        self.stranger.path().join("victim.json").display().to_string()
    }

    /// Runs an attack inside, to its end; returns what it says came of it.
    pub(super) fn attack(&self, word: &str, arguments: &[&str]) -> String {
        ended(self.begin(word, arguments))
    }

    /// Begins an attack inside, which ends with [`ended`].
    pub(super) fn begin(&self, word: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("docker");
        command.args(["exec", &self.container, "/hostile", word]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The daemon's peak of memory so far.
    pub(super) fn peak_kib(&self) -> u64 {
        peak_kib(self.daemon.pid())
    }

    fn hosts_own(&self) -> BTreeMap<PathBuf, String> {
        let root = self.root.path();
        let tops: Vec<&Path> = [root, self.stranger.path()].into_iter().chain(of_the_machine()).collect();
        manifest(&tops, &changing(root, &["evil", "good"]))
    }

    /// Files of others are as they were.
    pub(super) fn assert_untouched(&self, by: &str) {
        assert!(!self.daemon.has_ended(), "{by}");
        let after = self.hosts_own();
        for (path, state) in &after {
            assert_eq!(Some(state), self.before.get(path), "{} was touched by {by}", path.display());
        }
        assert_eq!(after.len(), self.before.len(), "something of the host is gone after {by}");
    }

    /// What holds after every attack, whatever it was.
    pub(super) fn assert_unharmed(&self) {
        self.assert_untouched("all of it");
        ask(&self.root, "good", "at-the-end");
        // Its own faults are told, with its commands that could not be read, and nobody else has any.
        let status = self.root.json(&["status"]);
        let of_others =
            |finding: &&serde_json::Value| finding["about"] != "evil" && finding["code"] != "commands";
        assert_eq!(status["findings"].as_array().unwrap().iter().find(of_others), None, "{status}");
        assert!(self.root.json(&["doctor"]).as_array().is_some_and(|rows| rows.len() > 5));
        wait_for("nothing to stay claimed", || {
            fs::read_dir(self.root.data("claimed")).unwrap().next().is_none().then_some(())
        });
    }

    /// Nothing that a container does takes more of the daemon's memory than ordinary work, twice.
    pub(super) fn assert_no_more_memory(&self) {
        let peak = self.peak_kib();
        eprintln!("memory: {} KiB quiet, {peak} KiB at most", self.quiet_kib);
        assert!(peak <= 2 * self.quiet_kib, "{peak} KiB after {} KiB", self.quiet_kib);
    }
}

/// Waits for the end of an attack; returns what it says came of it.
pub(super) fn ended(attack: Child) -> String {
    let output = attack.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Has the hostile group launched, and waits until it is at rest; returns its container.
pub(super) fn launched(root: &Root) -> String {
    let seq = root.send("local:evil", "begin");
    wait_for("the hostile container", || {
        (root.why(seq)["wirings"][0]["batch_state"] == "done").then_some(())
    });
    let running = root.rows(&["runs", "list"]);
    let of_evil = |run: &&serde_json::Value| run["group"] == "evil" && run["ended_at"].is_null();
    running.iter().find(of_evil).unwrap()["container"].as_str().unwrap().to_owned()
}

/// Has a group ask for its tasks, and waits for the reply.
pub(super) fn ask(root: &Root, group: &str, request: &str) {
    let command = json!({"type": "list_tasks", "requestId": request});
    root.put_command(group, "tasks", &format!("{request}.json"), &command);
    assert_eq!(root.reply(group, request)["ok"], true);
}

pub(super) fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
