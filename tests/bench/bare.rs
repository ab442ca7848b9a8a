//! A container that nobody but the engine has a hand in: the floor of what we add to one.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::rig;

/// The folders that a container is given, of nobody's.
pub(crate) struct Bare {
    dir: tempfile::TempDir,
    image: String,
    model: Option<PathBuf>,
}

impl Bare {
    pub(crate) fn new(image: &str) -> Self {
        let dir = rig::temporary();
        for name in
            ["group", "home", "ipc", "ipc/messages", "ipc/tasks", "ipc/input", "ipc/responses", "ipc/state"]
        {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            let _ = chown(path, Some(1000), Some(1000)); // Where we are not root they are ours already.
        }
        Self { dir, image: image.to_owned(), model: None }
    }

    /// Gives it the folder with its model's socket.
    pub(crate) fn with_model(self, folder: &Path) -> Self {
        Self { model: Some(folder.to_owned()), ..self }
    }

    /// Runs a container until it has said `word`, then says something to it `follow_ups` times, a word each, and waits
    /// for its end. Returns how long each took.
    pub(crate) fn run(&self, document: &str, word: &str, follow_ups: usize) -> (Duration, Vec<Duration>) {
        let mut command = self.command();
        let mut began = Instant::now();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut took = Vec::new();
        for line in output.lines() {
            if !line.unwrap().contains(word) {
                continue;
            }
            took.push(began.elapsed());
            if took.len() > follow_ups {
                fs::write(self.dir.path().join("ipc/input/_close"), "").unwrap();
            } else {
                began = self.say(took.len());
            }
        }
        child.wait().unwrap();
        let first = took.remove(0);
        assert_eq!(took.len(), follow_ups, "the container did not answer");
        (first, took)
    }

    /// Says something to the live container; returns when.
    fn say(&self, n: usize) -> Instant {
        let input = self.dir.path().join("ipc/input");
        let id = format!("9{n:05}");
        let text = "<messages>\n<message sender=\"bench\">and this</message>\n</messages>";
        fs::write(input.join(".new"), json!({"type": "message", "id": id, "text": text}).to_string())
            .unwrap();
        let _ = chown(input.join(".new"), Some(1000), Some(1000));
        fs::rename(input.join(".new"), input.join(format!("{id}.json"))).unwrap();
        Instant::now()
    }

    /// Asks for what the daemon asks for.
    fn command(&self) -> Command {
        let mut command = Command::new("docker");
        command.args(["run", "--rm", "--interactive", "--init", "--network", "none", "--read-only"]);
        command.args([
            "--cap-drop",
            "ALL",
            "--security-opt",
            "no-new-privileges:true",
            "--log-driver",
            "local",
        ]);
        command.args(["--memory", "2g", "--memory-swap", "2g", "--cpus", "2", "--pids-limit", "512"]);
        command.args(["--tmpfs", "/tmp"]);
        let mut mount = |host: &Path, inside: &str| {
            command.arg("--volume").arg(format!("{}:{inside}", host.display()));
        };
        let own = |name: &str| self.dir.path().join(name);
        mount(&own("group"), "/workspace/group");
        mount(&own("home"), "/home/node/.claude");
        mount(&own("ipc"), "/workspace/ipc:ro");
        for name in ["messages", "tasks", "input", "responses", "state"] {
            mount(&own(&format!("ipc/{name}")), &format!("/workspace/ipc/{name}"));
        }
        if let Some(model) = &self.model {
            mount(model, "/run/g2:ro");
        }
        command.arg(&self.image);
        command
    }
}
