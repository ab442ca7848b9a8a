//! Dying at a step, and looking at the remains.
#![expect(clippy::disallowed_methods, reason = "tests look at what the daemon left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde_json::Value;

use crate::support::{Daemon, Root, wait_for};

/// SIGKILL.
pub(crate) const KILLED: i32 = 9;

/// Starts a daemon that ends itself at `point` (`NAME` or `NAME:NTH`), does `work` once it is ready, and waits until
/// it is dead. Fails unless the point was reached and SIGKILL was the end.
pub(crate) fn die_at(root: &Root, point: &str, work: impl FnOnce()) {
    let mark = root.path().join("reached");
    let daemon = arm(root, point);
    work();
    let signal = daemon.signal();
    let name = point.split(':').next().unwrap();
    let reached = fs::read_to_string(&mark).unwrap_or_default();
    assert_eq!((reached.as_str(), signal), (name, Some(KILLED)), "at {point}; log:\n{}", root.log());
    nobody_left(root);
}

/// Starts a daemon that ends or stops at `point` and waits until it is ready or dead.
pub(crate) fn arm(root: &Root, point: &str) -> Daemon {
    let mark = root.path().join("reached");
    let _ = fs::remove_file(&mark);
    root.serve_with(&[("G2_FAILPOINT", point), ("G2_FAILPOINT_FILE", mark.to_str().unwrap())])
}

/// Waits until no process works for this root any more.
pub(crate) fn nobody_left(root: &Root) {
    wait_for("every process of the root to be gone", || workers(root).is_empty().then_some(()));
}

/// Returns the processes whose environment names this root's mailboxes.
pub(crate) fn workers(root: &Root) -> Vec<u32> {
    let needle = format!("G2_IPC_DIR={}", root.path().display()).into_bytes();
    let all = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(&needle))
    })
    .collect()
}

/// Returns the names in a folder under `data/`, sorted; hidden ones are left out.
pub(crate) fn names(root: &Root, folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.data(folder)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    // What the host has in hand is there, what a writer has not published is not.
    names.retain(|name| !name.starts_with('.') || name.starts_with(".g2-"));
    names.sort();
    names
}

/// Reads a file under `data/`.
pub(crate) fn read(root: &Root, path: impl AsRef<Path>) -> Vec<u8> {
    let path: PathBuf = root.path().join("data").join(path);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Waits until nothing is in the boxes or claimed any more, and returns the rows of `ipc list`.
pub(crate) fn all_settled(root: &Root) -> Vec<Value> {
    wait_for("every command to be settled and put away", || {
        let rows = root.rows(&["ipc", "list"]);
        let open = rows.iter().any(|row| row["state"] == "waiting" || row["state"] == "claimed");
        (!open && names(root, "claimed").is_empty()).then_some(rows)
    })
}

/// Does `work` for each of `items` at once, a thread each, at most four at a time; what fails names its item.
pub(crate) fn for_each<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = Mutex::new(items.iter());
    std::thread::scope(|scope| {
        for _ in 0..items.len().min(4) {
            scope.spawn(|| {
                loop {
                    let Some(item) = next.lock().unwrap().next() else { return };
                    work(item);
                }
            });
        }
    });
}
