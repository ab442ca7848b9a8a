//! The same as `docker.rs` with Claude Code in the container, before a model that answers at once: the floor is the same
//! container, started by hand, that asks the model itself.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    Effort,
    bare::Bare,
    client::Client,
    docker::{document, end_run},
    report::{Reached, Samples, Table, millis},
    rig::{self, Root},
};

/// What the model says.
const WORD: &str = "fine-as-ever";

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let Some(image) = image() else {
        let what = "Claude Code: our share on top of a bare `docker run`";
        let why = "no Docker, or no image with this runner and Claude Code: see container/build.sh --offline";
        table.row(what, why, "", "", "≤ 15 ms", Reached::Open);
        return;
    };
    let model = Model::new();
    let settings = format!(
        "[sandbox]\nkind = \"docker\"\nimage = \"{image}\"\n[agent]\nprovider = \"claude\"\n\
         [gateway]\nupstream = \"http://127.0.0.1:{}\"\n[limits]\nmin_free_mib = 1\n",
        model.port
    );
    let root = Root::with(&settings, 1);
    fs::write(root.path().join(".env"), "ANTHROPIC_API_KEY=sk-ant-api03-bench\n").unwrap();
    let _daemon = root.serve_with("info");
    let mut client = Client::connect(root.path());
    client.listen("local:main");
    let mut answer = |text: &str| {
        client.send("local:main", text);
        let stored = Instant::now();
        client.hear("said");
        stored.elapsed()
    };
    let bare = Bare::new(&image).with_model(model.folder.path());
    let (mut first, mut later) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    let (rounds, follow_ups, warm) = (effort.pick(3, 8), effort.pick(5, 10), 1);
    for n in 0..rounds + warm {
        let ours = answer("hello");
        let ours_later: Vec<_> = (0..follow_ups).map(|_| answer("and this")).collect();
        end_run(&root, n);
        let (theirs, theirs_later) = bare.run(&document(&root), WORD, follow_ups);
        if n >= warm {
            first.0.push(ours);
            first.1.push(theirs);
            later.0.extend(ours_later);
            later.1.extend(theirs_later);
        }
    }
    row(
        table,
        "Claude Code, a container each: message stored → answer said",
        first,
        "`docker run` until the same answer",
    );
    row(
        table,
        "Claude Code, a live container: follow-up stored → answer said",
        later,
        "a file by hand until the same answer",
    );
}

type Times = Vec<std::time::Duration>;

fn row(table: &mut Table, what: &str, (ours, theirs): (Times, Times), of: &str) {
    let (ours, theirs) = (Samples::new(ours), Samples::new(theirs));
    let share_ms = (ours.median().as_secs_f64() - theirs.median().as_secs_f64()) * 1e3;
    table.row(
        format!("{what}; our share (median)"),
        format!("{share_ms:+.0} ms ({} ms in all)", millis(ours.median())),
        format!("{} ms ({of})", millis(theirs.median())),
        format!("{:.2}", ours.median().as_secs_f64() / theirs.median().as_secs_f64()),
        "≤ 15 ms",
        Reached::when(share_ms <= 15.0),
    );
}

/// An image with the runner of this source tree and Claude Code, if there is one.
fn image() -> Option<String> {
    let of_runner = format!("label=g2.runner={}", agent_runner::ID);
    let listed = Command::new("docker")
        .args(["image", "ls", "--quiet", "--no-trunc", "--filter", &of_runner, "--filter", "label=g2.claude"])
        .output()
        .ok()?;
    String::from_utf8(listed.stdout).ok()?.lines().next().map(str::to_owned)
}

/// A model that says [`WORD`] at once, on a port and on a socket of its own.
struct Model {
    child: Child,
    port: u64,
    folder: tempfile::TempDir,
}

impl Model {
    fn new() -> Self {
        let folder = rig::temporary();
        let _ = fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755));
        let script = folder.path().join("script.json");
        fs::write(&script, json!([{"text": WORD, "times": -1}]).to_string()).unwrap();
        let program = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("container/agent-runner/tests/fixtures/scripted_model.py");
        let mut child = Command::new("python3")
            .arg(program)
            .arg("--script")
            .arg(script)
            .arg("--unix")
            .arg(folder.path().join("model.sock"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = serde_json::from_str::<Value>(&line).unwrap()["port"].as_u64().unwrap();
        Self { child, port, folder }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
