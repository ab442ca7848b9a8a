//! A store that is replaced by hand, under a daemon or behind one that was killed.

use std::{fs, path::Path, process::Command};

use crate::support::{Root, wait_for};

const REPLACED: &str = "data/g2.sqlite was replaced: the log beside it";

fn refusal(root: &Root, arguments: &[&str]) -> String {
    // One that is not refused serves for ever.
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_g2"), "--root"]).arg(root.path()).args(arguments);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
    let output = command.output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A copy of the store comes into its place; the store itself is kept.
fn replace(root: &Root) {
    copy(root);
    put_copy(root);
}

fn copy(root: &Root) {
    fs::copy(root.data("g2.sqlite"), root.data("copy.sqlite")).unwrap();
}

fn put_copy(root: &Root) {
    fs::rename(root.data("g2.sqlite"), root.data("kept.sqlite")).unwrap();
    fs::rename(root.data("copy.sqlite"), root.data("g2.sqlite")).unwrap();
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

fn has_log(root: &Root) -> bool {
    fs::metadata(root.data("g2.sqlite-wal")).is_ok_and(|meta| meta.len() > 0)
}

#[test]
fn a_store_that_is_replaced_under_the_daemon_is_opened_by_nobody_and_nothing_is_lost_once_it_is_back() {
    let root = Root::new("");
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "before"), "echo: before\n");
    replace(&root);
    let log = bytes(&root.data("g2.sqlite-wal"));
    let copy = bytes(&root.data("g2.sqlite"));
    for arguments in [
        &["messages", "list"][..],
        &["why"],
        &["tasks", "list"],
        &["groups", "add", "family", "--chat", "local:family"],
        &["prune"],
        &["backup", "../elsewhere.tar"],
        &["init"],
        &["init", "--fresh"],
        &["doctor"],
        &["status"],
    ] {
        let said = refusal(&root, arguments);
        assert!(said.contains(REPLACED), "{arguments:?}: {said}");
        assert!(said.contains("put the earlier file back"), "{arguments:?}: {said}");
    }
    assert_eq!(bytes(&root.data("g2.sqlite")), copy, "the copy is as it was");
    assert!(bytes(&root.data("g2.sqlite-wal")).starts_with(&log), "the log is there");
    fs::rename(root.data("kept.sqlite"), root.data("g2.sqlite")).unwrap();
    assert_eq!(root.ask("local:main", "after"), "echo: after\n");
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = root.serve();
    let said = root.said("local:main");
    assert_eq!(said, ["echo: before", "echo: after"]);
    assert_eq!(daemon.terminate(), Some(0));
}

/// Waits until what read the store in this process has let go of it.
fn until_closed(root: &Root) {
    let store = root.data("g2.sqlite").display().to_string();
    wait_for("the store to be closed", || {
        let open =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        (!open.into_iter().any(|file| file.display().to_string().starts_with(&store))).then_some(())
    });
}

#[test]
fn no_store_is_opened_beside_the_log_that_a_killed_daemon_left_of_another() {
    let root = Root::new("");
    // A store is whole without its log only once all of that is written into it.
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(store);
    copy(&root);
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "before"), "echo: before\n");
    daemon.kill();
    // Another program that only looks leaves the note.
    assert_eq!(root.said("local:main"), ["echo: before"]);
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
    daemon.kill();
    put_copy(&root);
    for arguments in [&["serve"][..], &["up"], &["messages", "list"], &["doctor"], &["status"], &["init"]] {
        let said = refusal(&root, arguments);
        assert!(said.contains(REPLACED), "{arguments:?}: {said}");
    }
    let (copy, log) = (root.data("g2.sqlite"), root.data("g2.sqlite-wal"));
    assert!(!bytes(&log).is_empty());
    fs::rename(&copy, root.data("copy.sqlite")).unwrap();
    // A copy of the earlier file counts as another one, until its owner says that it is the one.
    fs::copy(root.data("kept.sqlite"), &copy).unwrap();
    assert!(refusal(&root, &["serve"]).contains(REPLACED));
    fs::remove_file(root.data("lock")).unwrap();
    let kept_log = bytes(&log);
    assert_eq!(root.said("local:main"), ["echo: before", "echo: again"]);
    // Who reads may write the log into the store as it ends, and removes it then. Put back with its log, the store is as it was.
    until_closed(&root);
    fs::rename(root.data("kept.sqlite"), &copy).unwrap();
    fs::write(&log, kept_log).unwrap();
    let _ = fs::remove_file(root.data("g2.sqlite-shm"));
    assert_eq!(root.said("local:main"), ["echo: before", "echo: again"]);
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "once more"), "echo: once more\n");
    daemon.kill();
    // As the words say for a lost one.
    fs::rename(root.data("copy.sqlite"), &copy).unwrap();
    assert!(refusal(&root, &["serve"]).contains(REPLACED));
    for end in ["wal", "shm"] {
        fs::rename(root.data(&format!("g2.sqlite-{end}")), root.data(&format!("away-{end}"))).unwrap();
    }
    let daemon = root.serve();
    // It is served, as old as it is.
    assert_eq!(root.rows(&["groups", "list"])[0]["folder"], "main");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_root_that_is_copied_or_whose_store_is_replaced_in_order_is_served() {
    let root = Root::new("");
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "before"), "echo: before\n");
    daemon.kill();
    // The copy of a whole root has a log of its own.
    let elsewhere = tempfile::tempdir().unwrap();
    let done = Command::new("cp").arg("-a").arg(root.path()).arg(elsewhere.path().join("root")).status();
    assert!(done.unwrap().success());
    let copied = Command::new(env!("CARGO_BIN_EXE_g2"))
        .arg("--root")
        .arg(elsewhere.path().join("root"))
        .args(["messages", "list"])
        .output()
        .unwrap();
    assert!(copied.status.success(), "{copied:?}");
    assert!(String::from_utf8_lossy(&copied.stdout).contains("before"), "{copied:?}");
    // After an orderly stop, and after a change without a daemon, the store's one file has everything.
    let daemon = root.serve();
    assert_eq!(daemon.terminate(), Some(0));
    assert!(!has_log(&root), "an orderly stop empties the log");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    assert!(!has_log(&root), "and so does a change");
    replace(&root);
    let daemon = root.serve();
    assert_eq!(root.ask("local:family", "after"), "echo: after\n");
    assert_eq!(root.said("local:main"), ["echo: before"]);
    assert_eq!(daemon.terminate(), Some(0));
}
