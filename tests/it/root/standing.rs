//! What stands where a root should be: only `init` and `up` make one, and neither does over history without its store.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::support::{Root, skipped};

/// The real program on any place, with a clean environment.
fn g2(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
    command.arg("--root").arg(place).args(arguments).env_clear().stdin(Stdio::null());
    command.env("DOCKER_HOST", "unix:///nonexistent").env("PATH", "/usr/bin:/bin");
    command
}

fn run(place: &Path, arguments: &[&str]) -> Output {
    g2(place, arguments).output().unwrap()
}

fn refused(place: &Path, arguments: &[&str]) -> String {
    let output = run(place, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Everything below a folder, by its path in it.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path.clone());
            }
            found.push(path.strip_prefix(folder).unwrap().to_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn a_mistyped_root_is_refused_by_name_and_not_made() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    for place in [dir.path().join("empty"), dir.path().join("no/where")] {
        for command in [&["serve"][..], &["groups", "list"], &["why", "1"], &["prune", "--dry-run"]] {
            let said = refused(&place, command);
            assert!(said.contains("no root here") && said.contains("init`"), "{said}");
            assert!(said.contains(place.to_str().unwrap()), "{said}");
        }
    }
    assert_eq!(all_below(dir.path()), [PathBuf::from("empty")]);
    // What is told to make one does.
    assert!(run(&dir.path().join("no/where"), &["up"]).status.success());
    assert!(run(&dir.path().join("empty"), &["init"]).status.success());
    for place in ["empty", "no/where"] {
        assert!(run(&dir.path().join(place), &["groups", "list"]).status.success());
    }
}

#[test]
fn no_store_is_begun_beside_history_whose_store_is_missing() {
    let root = Root::new("");
    let daemon = root.serve();
    root.ask("local:main", "hello");
    assert_eq!(daemon.terminate(), Some(0));
    let away = root.path().join("away.sqlite");
    fs::rename(root.data("g2.sqlite"), &away).unwrap();
    // One that was opened and never written to is as good as gone.
    for empty in [false, true] {
        if empty {
            fs::write(root.data("g2.sqlite"), "").unwrap();
        }
        let before = all_below(root.path());
        for command in ["serve", "up", "init"] {
            let said = refused(root.path(), &[command]);
            assert!(said.contains("g2.sqlite is missing") && said.contains("init --fresh"), "{said}");
            assert!(said.contains("data/sessions/main") || said.contains("data/runs/1"), "{said}");
        }
        let doctor = run(root.path(), &["doctor"]);
        let said = String::from_utf8(doctor.stdout).unwrap();
        assert!(said.contains("restore it from a backup"), "{said}");
        assert_eq!(all_below(root.path()), before);
    }
    fs::rename(away, root.data("g2.sqlite")).unwrap();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
}

#[test]
fn files_of_an_agent_are_history_too() {
    // As where `data/` is a disk of its own that is not mounted.
    let root = Root::new("");
    fs::create_dir_all(root.path().join("groups/main/conversations")).unwrap();
    fs::write(root.path().join("groups/main/conversations/2024.md"), "years").unwrap();
    assert!(run(root.path(), &["groups", "list"]).status.success());
    fs::remove_dir_all(root.data("")).unwrap();
    fs::create_dir(root.data("")).unwrap();
    assert!(refused(root.path(), &["serve"]).contains("conversations/2024.md"));
    assert!(all_below(&root.data("")).is_empty());
}

#[test]
fn a_fresh_start_needs_a_flag_and_moves_old_files_aside() {
    let root = Root::new("");
    let daemon = root.serve();
    for text in ["one", "two"] {
        root.ask("local:main", text);
    }
    assert_eq!(daemon.terminate(), Some(0));
    // A claim of the lost store must not be applied by the new one, nor a run's folder be taken for another's.
    let claim = root.data("claimed/7-main.json");
    fs::write(claim, r#"{"type":"send_message","chatJid":"local:main","text":"again"}"#).unwrap();
    fs::write(root.data("README.md"), "the page that git knows").unwrap();
    fs::remove_file(root.data("g2.sqlite")).unwrap();
    root.g2(&["init", "--fresh"]);
    let below: Vec<String> = all_below(&root.data("")).iter().map(|p| p.display().to_string()).collect();
    let aside = |end: &str| below.iter().any(|path| path.starts_with("before-") && path.ends_with(end));
    assert!(aside("/claimed/7-main.json") && aside("/sessions/main") && aside("/runs/1"), "{below:#?}");
    assert!(below.contains(&"README.md".to_owned()), "{below:#?}");
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert_eq!(root.said("local:main"), ["echo: hello"]);
    assert_eq!(daemon.terminate(), Some(0));
    // Where there is a store, nothing is begun anew.
    root.g2(&["init", "--fresh"]);
    assert_eq!(root.said("local:main"), ["echo: hello"]);
}

/// The root that a look from `here` finds.
fn found_from(here: &Path) -> Option<PathBuf> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
    command.current_dir(here).args(["groups", "list"]).env_clear().env("HOME", "/nonexistent");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let path = said.split("no root here: ").nth(1)?.split(" holds no store").next()?;
    Some(path.into())
}

#[test]
fn a_root_is_found_from_inside_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    for folder in
        ["outer/groups/main/notes", "outer/data", "outer/inner/groups", "outer/inner/data", "half/groups"]
    {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    for (here, root) in [
        ("outer", "outer"),
        ("outer/groups/main/notes", "outer"),
        ("outer/inner/data", "outer/inner"),
        ("half/groups", "/nonexistent/.local/share/g2"),
    ] {
        assert_eq!(found_from(&dir.join(here)), Some(dir.join(root)), "{here}");
    }
    if !rustix::process::geteuid().is_root() {
        return skipped("not root");
    }
    // Settings name programs: those that somebody else put around us are not ours.
    chown(dir.join("outer"), Some(4242), None).unwrap();
    assert_eq!(found_from(&dir.join("outer/groups/main")), Some("/nonexistent/.local/share/g2".into()));
    assert_eq!(found_from(&dir.join("outer")), Some(dir.join("outer")));
}
