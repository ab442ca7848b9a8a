//! What we add to a bare `docker run` of the same image with the same input.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::chown,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Effort,
    client::Client,
    report::{Reached, Samples, Table, millis},
    rig::{self, Root},
};

/// The image that `container/build.sh` makes.
const IMAGE: &str = "g2-agent:latest";

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let what =
        "message stored → answer said, a container each; our share on top of a bare `docker run` (median)";
    let has_image = Command::new("docker")
        .args(["image", "inspect", IMAGE])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_image {
        table.row(
            what,
            format!("no Docker, or no {IMAGE}: see container/build.sh"),
            "",
            "",
            "≤ 15 ms",
            Reached::Open,
        );
        return;
    }
    let root = Root::with("[sandbox]\nkind = \"docker\"\n[limits]\nmin_free_mib = 1\n", 1);
    let _daemon = root.serve_with("debug");
    let mut client = Client::connect(root.path());
    client.listen("local:main");
    let bare = Bare::new();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let warm = 1;
    for n in 0..effort.pick(5, 15) + warm {
        client.send("local:main", "hello");
        let stored = Instant::now();
        client.hear("said");
        let answered = stored.elapsed();
        end_run(&root, n);
        let alone = bare.run(&document(&root));
        if n >= warm {
            ours.push(answered);
            theirs.push(alone);
        }
    }
    let (ours, theirs) = (Samples::new(ours), Samples::new(theirs));
    let share_ms = (ours.median().as_secs_f64() - theirs.median().as_secs_f64()) * 1e3;
    table.row(
        what,
        format!("{share_ms:+.0} ms ({} ms in all)", millis(ours.median())),
        format!("{} ms (`docker run` until the same answer)", millis(theirs.median())),
        format!("{:.2}", ours.median().as_secs_f64() / theirs.median().as_secs_f64()),
        "≤ 15 ms",
        Reached::when(share_ms <= 15.0),
    );
}

/// Ends the idle run, and waits until its container is gone.
fn end_run(root: &Root, n: usize) {
    root.put("main", &format!("clear-{n}.json"), json!({ "type": "clear_session" }).to_string().as_bytes());
    let instance: String =
        root.look().query_row("SELECT value FROM meta WHERE key = 'instance'", [], |row| row.get(0)).unwrap();
    let ours = format!("label=g2.instance={instance}");
    rig::wait_until("the container's end", || {
        std::thread::sleep(Duration::from_millis(20));
        let listed = Command::new("docker").args(["ps", "-aq", "--filter", &ours]).output().unwrap();
        let active: i64 = root
            .look()
            .query_row("SELECT count(*) FROM runs WHERE status IN ('queued', 'running')", [], |row| {
                row.get(0)
            })
            .unwrap();
        listed.stdout.is_empty() && active == 0
    });
}

/// What the daemon wrote to the last run's stdin.
fn document(root: &Root) -> String {
    let last: i64 = root.look().query_row("SELECT max(id) FROM runs", [], |row| row.get(0)).unwrap();
    let dir = root.data("runs").join(last.to_string());
    let mut launch: Value = serde_json::from_slice(&fs::read(dir.join("launch.json")).unwrap()).unwrap();
    launch["prompt"] = json!(fs::read_to_string(dir.join("prompt.txt")).unwrap());
    launch.to_string()
}

/// The folders that a container is given, of nobody's.
struct Bare {
    dir: tempfile::TempDir,
}

impl Bare {
    fn new() -> Self {
        let dir = rig::temporary();
        for name in
            ["group", "home", "ipc", "ipc/messages", "ipc/tasks", "ipc/input", "ipc/responses", "ipc/state"]
        {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            let _ = chown(path, Some(1000), Some(1000)); // Where we are not root they are ours already.
        }
        Self { dir }
    }

    /// Runs a container until it has answered, then waits for its end.
    fn run(&self, document: &str) -> Duration {
        let mount = |name: &str, inside: &str| format!("{}:{inside}", self.dir.path().join(name).display());
        let mut command = Command::new("docker");
        command.args([
            "run",
            "--rm",
            "--interactive",
            "--init",
            "--network",
            "none",
            "--read-only",
            "--cap-drop",
            "ALL",
        ]);
        command.args(["--memory", "2g", "--memory-swap", "2g", "--cpus", "2", "--pids-limit", "512"]);
        command.args([
            "--security-opt",
            "no-new-privileges:true",
            "--log-driver",
            "local",
            "--tmpfs",
            "/tmp",
        ]);
        command.args([
            "--volume",
            &mount("group", "/workspace/group"),
            "--volume",
            &mount("home", "/home/node/.claude"),
        ]);
        command.args(["--volume", &format!("{}:ro", mount("ipc", "/workspace/ipc"))]);
        for name in ["messages", "tasks", "input", "responses", "state"] {
            command.args(["--volume", &mount(&format!("ipc/{name}"), &format!("/workspace/ipc/{name}"))]);
        }
        let before = Instant::now();
        let mut child = command
            .arg(IMAGE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut answered = None;
        for line in output.lines() {
            if line.unwrap().contains("echo: ") && answered.is_none() {
                answered = Some(before.elapsed());
                close(self.dir.path());
            }
        }
        child.wait().unwrap();
        answered.expect("the container did not answer")
    }
}

/// Asks the runner to leave.
fn close(dir: &Path) {
    fs::write(dir.join("ipc/input/_close"), "").unwrap();
}
