//! Each group's agent as a user of its own, and what moves with it.
#![expect(clippy::disallowed_methods, reason = "tests play the user, and look at what is whose")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown, symlink},
    path::Path,
};

use serde_json::{Value, json};

use crate::support::{Docked, run_docker, skipped, wait_for};

const BASE: &str = "uid_base = 200000\n";

/// Whose a path is; of a link, whose the link is.
fn uid(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().uid()
}

/// As whom the container of a group's run that lives runs.
fn user(root: &Docked, group: &str) -> String {
    let all = root.rows(&["runs", "list"]);
    let lives = |run: &&Value| run["group"] == group && run["ended_at"].is_null();
    let container = all.iter().rev().find(lives).unwrap()["container"].as_str().unwrap().to_owned();
    run_docker(&["inspect", "--format", "{{.Config.User}}", &container]).trim().to_owned()
}

/// Has a group's agent use its boxes: a command, its reply, an answer.
fn works(root: &Docked, group: &str, text: &str) {
    let said = root.ask(&format!("local:{group}"), text);
    assert!(said.contains("\"ok\":true"), "{group}: {said}");
}

/// A root with two groups beside main; `None` where there is no Docker, or we are not root.
fn house() -> Option<Docked> {
    if uid("/proc/self") != 0 {
        skipped("not root");
        return None;
    }
    let root = Docked::new("")?;
    for group in ["one", "two"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    let list = json!({"box": "tasks", "json": {"type": "list_tasks", "requestId": "{{text}}"}});
    root.script(None, &json!([{"do": [{"command": list}, {"say": "{{reply}}"}]}]));
    Some(root)
}

fn set(root: &Docked, sandbox: &str) {
    let path = root.path().join("g2.toml");
    let text = fs::read_to_string(&path).unwrap().replace(BASE, "");
    fs::write(path, text.replacen("[sandbox]\n", &format!("[sandbox]\n{sandbox}"), 1)).unwrap();
}

#[test]
fn each_group_has_a_user_of_its_own_and_works() {
    let Some(root) = house() else { return };
    set(&root, BASE);
    let _daemon = root.serve();
    let users = ["main", "one", "two"].map(|group| {
        works(&root, group, "a");
        works(&root, group, "b");
        user(&root, group)
    });
    assert_eq!(users, ["200001:200001", "200002:200002", "200003:200003"]);
    for (group, number) in [("main", 1), ("one", 2), ("two", 3)] {
        for place in [
            format!("data/ipc/{group}/tasks"),
            format!("groups/{group}"),
            format!("data/sessions/{group}/.claude"),
        ] {
            assert_eq!(uid(root.path().join(&place)), 200_000 + number, "{place}");
        }
    }
    let rows = root.rows(&["doctor"]);
    let row = |check: &str| rows.iter().find(|row| row["check"] == check).unwrap();
    assert_eq!(
        (&row("uid_base")["status"], &row("boxes")["status"]),
        (&json!("ok"), &json!("ok")),
        "{rows:?}"
    );
}

#[test]
fn a_group_s_files_alone_move_with_its_user_at_the_next_launch() {
    let Some(root) = house() else { return };
    let daemon = root.serve();
    works(&root, "one", "before");
    assert_eq!(user(&root, "one"), "1000:1000");
    let (own, elsewhere) = (root.path().join("groups/one"), tempfile::tempdir().unwrap());
    let stranger = elsewhere.path().join("stranger");
    fs::create_dir_all(own.join("deep/er")).unwrap();
    for path in [own.join("deep/er/note"), own.join("foreign"), stranger.clone()] {
        fs::write(path, "x").unwrap();
    }
    for path in [own.join("deep"), own.join("deep/er"), own.join("deep/er/note"), stranger.clone()] {
        chown(path, Some(1000), Some(1000)).unwrap();
    }
    chown(own.join("foreign"), Some(4242), Some(4242)).unwrap();
    symlink(&stranger, own.join("link")).unwrap();
    let _ = fs::hard_link(&stranger, own.join("hard"));

    // The container outlives the daemon, and goes on as whom it is.
    assert_eq!(daemon.terminate(), Some(0));
    set(&root, BASE);
    let daemon = root.serve();
    works(&root, "one", "adopted");
    assert_eq!((user(&root, "one").as_str(), uid(root.data("ipc/one/tasks"))), ("1000:1000", 1000));
    assert_eq!(uid(own.join("deep/er/note")), 1000);

    let leave = |keys: &str| {
        let run = root.rows(&["runs", "list"]).last().unwrap()["id"].clone();
        root.g2(&["groups", "set", "one", keys]);
        wait_for("the run to leave", || {
            root.rows(&["runs", "list"])
                .iter()
                .all(|row| row["id"] != run || !row["ended_at"].is_null())
                .then_some(())
        });
    };
    leave("pids=100");
    works(&root, "one", "moved");
    assert_eq!(user(&root, "one"), "200002:200002");
    let whose = |name: &str| uid(own.join(name));
    assert_eq!(["", "deep", "deep/er", "deep/er/note"].map(whose), [200_002; 4]);
    assert_eq!((uid(&stranger), whose("foreign")), (1000, 4242), "what is somebody else's stays so");

    // And back.
    assert_eq!(daemon.terminate(), Some(0));
    set(&root, "");
    let _daemon = root.serve();
    works(&root, "one", "adopted-again");
    assert_eq!(user(&root, "one"), "200002:200002");
    leave("pids=101");
    works(&root, "one", "back");
    assert_eq!((user(&root, "one").as_str(), whose("deep/er/note")), ("1000:1000", 1000));
}
