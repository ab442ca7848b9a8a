//! What adapters and hooks have started ends with them, and with the next start if the daemon was killed.

use std::{fs, path::Path};

use super::{files_in::put, folder};
use crate::support::{Root, wait_for};

/// Starts something that would stay, notes its number, and becomes the program that follows.
const STAYS: &str = "sleep 600 > /dev/null 2>&1 & echo $! >> \"$HOME/started\"; exec \"$@\"";

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Returns the numbers that were noted in a file.
fn started(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn notes(root: &Root) -> usize {
    fs::read_dir(root.data("children")).unwrap().count()
}

fn connected(root: &Root) {
    wait_for("the adapter", || {
        (root.json(&["channels", "show", "folder"])["connection"] == "connected").then_some(())
    });
}

#[test]
fn a_start_ends_what_the_adapter_of_a_killed_daemon_has_left_and_a_stop_leaves_nothing() {
    let root = folder::root();
    let settings = root.path().join("g2.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let by_shell = format!("command = [\"/bin/sh\", \"-c\", '''{STAYS}''', \"adapter\", ");
    fs::write(&settings, text.replacen("command = [", &by_shell, 1)).unwrap();
    let file = root.data("channels/folder/state/started");
    let daemon = root.serve();
    connected(&root);
    let first = started(&file)[0];
    assert!(lives(first) && notes(&root) == 1);
    daemon.kill();
    assert!(lives(first), "it ends by itself, so this test shows nothing");
    let daemon = root.serve();
    assert!(!lives(first));
    connected(&root);
    let second = *started(&file).last().unwrap();
    assert!(second != first && lives(second) && notes(&root) == 1);
    // An adapter that dies takes its own with it, too.
    root.g2(&["channels", "restart", "folder"]);
    let third = wait_for("it to be started anew", || started(&file).get(2).copied());
    assert!(!lives(second) && lives(third));
    connected(&root);
    assert_eq!(daemon.terminate(), Some(0));
    assert!(!lives(third));
    assert_eq!(notes(&root), 0);
}

#[test]
fn a_start_ends_what_the_hook_of_a_killed_daemon_has_left() {
    let script = "sleep 600 > /dev/null 2>&1 & echo $! > \"$HOME/started\"; wait";
    let hook = format!("[media.hooks]\nvoice = [\"/bin/sh\", \"-c\", '''{script}''', \"hook\"]\n");
    let root = folder::root_with(&hook);
    put(&root, "1.ogg", b"OggS");
    let of_the_hook = || {
        let folders = fs::read_dir(root.data("hooks")).ok()?;
        folders.flatten().find_map(|folder| started(&folder.path().join("started")).first().copied())
    };
    let daemon = root.serve();
    let first = wait_for("the hook", of_the_hook);
    daemon.kill();
    assert!(lives(first), "it ends by itself, so this test shows nothing");
    let daemon = root.serve();
    assert!(!lives(first));
    let second = wait_for("the hook", || of_the_hook().filter(|pid| *pid != first));
    assert_eq!(daemon.terminate(), Some(0));
    assert!(!lives(second));
}
