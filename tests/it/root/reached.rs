//! Roots that are hard to reach: by a path that is longer than a socket's name may be, and where nothing can be written.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::{Root, skipped, wait_for};

fn g2(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
    command.arg("--root").arg(root).args(arguments).env_clear().stdin(Stdio::null());
    command.env("DOCKER_HOST", "unix:///nonexistent").env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
    command
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_root_by_a_long_path_is_served_and_talked_to() {
    let dir = tempfile::tempdir().unwrap();
    // One byte too many for a socket's name, and far more.
    for length in [108 - "/data/g2.sock".len(), 300] {
        let mut root = dir.path().to_owned();
        while root.as_os_str().len() < length {
            let left = length - root.as_os_str().len();
            root.push("x".repeat(left.saturating_sub(1).clamp(1, 100)));
        }
        said(&mut g2(&root, &["init"]));
        let mut daemon = g2(&root, &["serve"]).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the daemon", || {
            let up = g2(&root, &["status"]).output().unwrap().status.code() != Some(3);
            (up || daemon.try_wait().unwrap().is_some()).then_some(())
        });
        assert_eq!(said(&mut g2(&root, &["send", "--wait", "60", "hello"])), "echo: hello\n");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        // What a killed one left is no obstacle, and is told as such.
        let doctor = g2(&root, &["doctor"]).output().unwrap();
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("was killed or crashed"), "{doctor:?}");
        assert_eq!(g2(&root, &["status"]).output().unwrap().status.code(), Some(3));
        fs::remove_dir_all(&root).unwrap();
    }
}

/// Runs a command on a root that is mounted so that nobody can write to it; `None` where that can't be done.
fn read_only(root: &Root, arguments: &[&str]) -> Option<Output> {
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" || exit 77; g2=$2; root=$1; shift 2; \
                  exec \"$g2\" --root \"$root\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(root.path()).arg(env!("CARGO_BIN_EXE_g2"));
    command.args(arguments).env("DOCKER_HOST", "unix:///nonexistent").env("TZ", "UTC").stdin(Stdio::null());
    let output = command.output().ok()?;
    (output.status.code() != Some(77)).then_some(output)
}

/// How much of the store is in its log when the file system is closed.
#[derive(Clone, Copy, Debug)]
enum Log {
    Empty,
    WithIndex,
    WithoutIndex,
}

#[test]
fn a_root_on_a_read_only_file_system_can_be_read() {
    for log in [Log::Empty, Log::WithIndex, Log::WithoutIndex] {
        let root = Root::new("");
        let daemon = root.serve();
        root.ask("local:main", "first");
        root.ask("local:main", "newest");
        daemon.kill();
        match log {
            Log::Empty => {
                let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
                store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            }
            Log::WithIndex => {}
            Log::WithoutIndex => fs::remove_file(root.data("g2.sqlite-shm")).unwrap(),
        }
        let wal = fs::metadata(root.data("g2.sqlite-wal")).map_or(0, |meta| meta.len());
        assert_eq!(wal == 0, matches!(log, Log::Empty), "{log:?}");
        let Some(list) = read_only(&root, &["messages", "list"]) else {
            return skipped("nothing can be mounted here");
        };
        let text = String::from_utf8(list.stdout).unwrap();
        assert!(
            list.status.success() && text.contains("first") && text.contains("newest"),
            "{log:?}: {text}"
        );
        // One cause is named once, by both.
        let doctor = read_only(&root, &["doctor"]).unwrap();
        let doctor = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.matches("can't be written").count(), 1, "{doctor}");
        let status = read_only(&root, &["status"]).unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        assert!(status.contains("can't be written: Read-only file system"), "{status}");
        assert!(status.contains("mount the file system for writing"), "{status}");
        let why = read_only(&root, &["why", "2"]).unwrap();
        assert!(why.status.success(), "{log:?}: {why:?}");
        for list in ["groups", "wirings", "users", "outbox", "tasks", "sessions", "runs", "approvals", "ipc"]
        {
            let output = read_only(&root, &[list, "list"]).unwrap();
            assert!(output.status.success(), "{log:?}: {list}: {output:?}");
        }
        assert_eq!(read_only(&root, &["status"]).unwrap().status.code(), Some(3));
        let doctor = read_only(&root, &["--json", "doctor"]).unwrap();
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&doctor.stdout).unwrap();
        let has = |check: &str, status: &str, word: &str| {
            let fits = |row: &&serde_json::Value| row["check"] == check && row["status"] == status;
            rows.iter().filter(fits).any(|row| row["detail"].as_str().unwrap().contains(word))
        };
        assert!(has("store", "ok", "sound") && has("root", "fail", "Read-only"), "{log:?}: {rows:#?}");
        // What would change something is refused, and says why.
        for command in [&["groups", "set", "main", "name=x"][..], &["serve"]] {
            let output = read_only(&root, command).unwrap();
            let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
            assert_eq!(output.status.code(), Some(1), "{log:?}: {said}");
            assert!(said.contains("read-only") || said.contains("readonly"), "{log:?}: {said}");
        }
    }
}
