//! Extra mounts: what the allowlist lets a container see.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use super::inside::{inside, put_probe};
use crate::support::{Daemon, Docked, wait_for};

fn allow(home: &Path, list: &str) {
    let folder = home.join(".config/g2");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mount-allowlist.json"), list).unwrap();
}

fn serve(root: &Docked, home: &Path) -> Daemon {
    let daemon = root.serve_at_home(home);
    root.ask("local:main", "hello");
    daemon
}

/// What `g2 doctor` says of mounts.
fn doctor(root: &Docked, home: &Path) -> Vec<Value> {
    let output = root.command(&["--json", "doctor"]).env("HOME", home).output().unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    rows.into_iter().filter(|row| row["check"].as_str().unwrap().starts_with("mount")).collect()
}

#[test]
fn a_container_sees_only_allowed_folders_as_they_are_allowed() {
    let Some(root) = Docked::new("") else { return };
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    for folder in ["open/notes", "read/books", "open/.ssh", "closed"] {
        fs::create_dir_all(at(folder)).unwrap();
        fs::write(at(folder).join("file"), folder).unwrap();
    }
    // The user inside is another than the owner.
    fs::set_permissions(at("open/notes"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    symlink(at("closed"), at("open/link")).unwrap();
    allow(
        home.path(),
        r#"{"allowedRoots": [{"path": "~/open", "allowReadWrite": true}, {"path": "~/read", "allowReadWrite": false}],
            "blockedPatterns": [], "nonMainReadOnly": true}"#,
    );
    put_probe(&root, "main");
    let mounts = json!([
        {"hostPath": "~/open/notes", "readonly": false},
        {"hostPath": "~/read/books", "containerPath": "shelf/books", "readonly": false},
        {"hostPath": "~/open/.ssh"},
        {"hostPath": "~/open/link"},
        {"hostPath": "~/closed"},
        {"hostPath": root.data("sessions")},
        {"hostPath": "~/open/gone"},
    ]);
    root.g2(&["groups", "set", "main", &format!("mounts={mounts}"), "--yes"]);
    let _daemon = serve(&root, home.path());
    let seen = inside(&root, &["look", "/workspace/extra"]);
    assert_eq!(
        seen.lines().collect::<Vec<_>>(),
        [
            "/workspace/extra/",
            "/workspace/extra/notes/",
            "/workspace/extra/notes/file: open/notes",
            "/workspace/extra/shelf/",
            "/workspace/extra/shelf/books/",
            "/workspace/extra/shelf/books/file: read/books",
        ]
    );
    let written = inside(
        &root,
        &["write", "/workspace/extra/notes/x", "/workspace/extra/shelf/books/x", "/workspace/extra/x"],
    );
    let lines: Vec<bool> = written.lines().map(|line| line.ends_with("written")).collect();
    assert_eq!(lines, [true, false, false], "{written}");
    // Each refusal is in the log, and doctor says it.
    let (log, rows) = (root.log(), doctor(&root, home.path()));
    for words in ["\".ssh\"", "none of allowedRoots", "the state of G2", "No such file"] {
        assert!(log.contains(&words.replace('"', "\\\"")) || log.contains(words), "{words} in {log}");
        let told =
            rows.iter().any(|row| row["status"] == "warn" && row["detail"].as_str().unwrap().contains(words));
        assert!(told, "{words} in {rows:?}");
    }
}

#[test]
fn a_change_of_the_list_holds_from_the_next_launch_and_a_broken_list_allows_nothing() {
    let Some(root) = Docked::new("") else { return };
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("notes")).unwrap();
    put_probe(&root, "main");
    root.g2(&["groups", "set", "main", r#"mounts=[{"hostPath": "~/notes"}]"#]);
    let _daemon = serve(&root, home.path());
    let look = |words: &str, list: Option<&str>| {
        if let Some(list) = list {
            allow(home.path(), list);
        }
        root.put_command("main", "tasks", "x.json", &json!({"type": "clear_session"}));
        wait_for("the container to leave", || root.containers().is_empty().then_some(()));
        assert_eq!(root.ask("local:main", "again"), "echo: again\n", "the run goes on without");
        let seen = inside(&root, &["look", "/workspace/extra/notes"]);
        assert!(root.log().contains(words), "{words}");
        seen
    };
    assert!(look("so no extra mount is allowed", None).contains("NotFound"));
    let list = r#"{"allowedRoots": [{"path": "~/"}], "blockedPatterns": [], "nonMainReadOnly": false}"#;
    assert_eq!(look("", Some(list)), "/workspace/extra/notes/\n");
    assert!(
        look("can't be read, so no extra mount is allowed", Some("{\"allowedRoots\": 1"))
            .contains("NotFound")
    );
    let rows = doctor(&root, home.path());
    assert_eq!((&rows[0]["check"], &rows[0]["status"]), (&json!("mount_allowlist"), &json!("fail")));
}
