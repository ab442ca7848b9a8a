//! Disk, file system and limits of the machine.

use super::*;
use crate::support::skipped;

#[test]
fn a_disk_that_is_too_full_to_launch_is_told() {
    let root = Root::new("[limits]\nmin_free_mib = 4000000000\n");
    finds(doctor(&root), "disk", "fail", "no agent is launched", "min_free_mib");
}

/// The doctor in a world of its own, made by a shell script that ends with `exec "$@"`. `None` where the machine does
/// not let us make one.
fn in_a_world(root: &Root, unshare: &str, script: &str) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args([unshare, "sh", "-ec", &format!("{script}\necho made >&2; exec \"$@\""), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_g2")).arg("--root").arg(root.path()).args(["--json", "doctor"]);
    let output = command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).output().ok()?;
    if String::from_utf8_lossy(&output.stderr).contains("made") {
        return Some(output);
    }
    skipped(&format!("the machine does not let us: {}", String::from_utf8_lossy(&output.stderr)));
    None
}

fn finds_in(output: &Output, check: &str, status: &str, detail: &str, fix: &str) {
    let rows: Vec<Value> = report(output).into_iter().filter(|row| row["check"] == check).collect();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0]["status"], status, "{rows:#?}");
    assert!(rows[0]["detail"].as_str().unwrap().contains(detail), "{rows:#?}");
    assert!(rows[0]["fix"].as_str().unwrap().contains(fix), "{rows:#?}");
}

#[test]
fn a_file_system_that_is_out_of_inodes_is_told() {
    let root = Root::new("");
    settle_store(&root);
    let script = format!(
        "cd {}; cp data/g2.sqlite kept; mount -t tmpfs -o nr_inodes=100 none data; cp kept data/g2.sqlite
         i=0; while true 2>/dev/null >data/f$i; do i=$((i+1)); done; rm data/f0 data/f1 data/f2 data/f3",
        root.path().display()
    );
    let Some(output) = in_a_world(&root, "--mount", &script) else { return };
    finds_in(&output, "inodes", "warn", "of 100 inodes", "remove small files");
}

#[test]
fn a_file_system_without_file_handles_is_told() {
    let root = Root::new("");
    settle_store(&root);
    let script = format!(
        "cd {}; mkdir upper work; mount -t overlay -o lowerdir=data,upperdir=upper,workdir=work none data",
        root.path().display()
    );
    let Some(output) = in_a_world(&root, "--mount", &script) else { return };
    let rows = report(&output);
    let row = rows.iter().find(|row| row["check"] == "file_handles").unwrap();
    // Some kernels give an overlay handles.
    if row["status"] == "warn" {
        finds_in(&output, "file_handles", "warn", "two more syncs", "ext4");
    }
}

#[test]
fn limits_on_watches_that_do_not_suffice_are_told() {
    let root = Root::new("");
    root.g2(&["groups", "add", "second", "--chat", "local:second"]);
    assert_eq!(root.serve().terminate(), Some(0));
    // Another user's boxes are closed to the root of a world of its own.
    for group in ["main", "second"] {
        for name in ["messages", "tasks"] {
            let own = rustix::process::geteuid().as_raw();
            chown(root.data("ipc").join(group).join(name), Some(own), None).unwrap();
        }
    }
    let none = "echo 0 > /proc/sys/user/max_inotify_instances";
    let Some(output) = in_a_world(&root, "--map-root-user", none) else { return };
    finds_in(&output, "inotify", "warn", "no inotify instance left", "max_user_instances");
    let few = "echo 3 > /proc/sys/user/max_inotify_watches";
    let Some(output) = in_a_world(&root, "--map-root-user", few) else { return };
    finds_in(&output, "inotify", "warn", "only 3 of 4 boxes can be watched", "max_user_watches");
}

#[test]
fn a_limit_on_open_files_that_does_not_suffice_is_told() {
    let root = Root::new("");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh"]).arg(env!("CARGO_BIN_EXE_g2"));
    command.arg("--root").arg(root.path()).args(["--json", "doctor"]);
    finds(command, "open_files", "fail", "100 are allowed", "LimitNOFILE");
}
