//! What we add to a bare `docker run` of the same image with the same input.

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Effort,
    bare::Bare,
    client::Client,
    report::{Reached, Samples, Table, millis},
    rig::{self, Root},
};

/// The image that `container/build.sh --bare` makes.
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
            format!("no Docker, or no {IMAGE}: see container/build.sh --bare"),
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
    let bare = Bare::new(IMAGE);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let warm = 1;
    for n in 0..effort.pick(5, 15) + warm {
        client.send("local:main", "hello");
        let stored = Instant::now();
        client.hear("said");
        let answered = stored.elapsed();
        end_run(&root, n);
        let (alone, _) = bare.run(&document(&root), "echo: ", 0);
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
pub(crate) fn end_run(root: &Root, n: usize) {
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
pub(crate) fn document(root: &Root) -> String {
    let last: i64 = root.look().query_row("SELECT max(id) FROM runs", [], |row| row.get(0)).unwrap();
    let dir = root.data("runs").join(last.to_string());
    let mut launch: Value = serde_json::from_slice(&fs::read(dir.join("launch.json")).unwrap()).unwrap();
    launch["prompt"] = json!(fs::read_to_string(dir.join("prompt.txt")).unwrap());
    launch.to_string()
}
