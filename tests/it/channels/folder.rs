//! The example adapter of the docs: it keeps to the rules, and a daemon with it loses nothing and says nothing twice.

use std::{fs, path::Path};

use super::python;
use crate::support::{Root, fail_points, wait_for};

const ADAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/folder_adapter.py");

fn interpreter() -> String {
    python().last().unwrap().display().to_string()
}

/// A root with an account on a folder in which somebody has written, and a group that answers there.
pub(super) fn root() -> Root {
    root_with("")
}

/// The same, with more settings.
pub(super) fn root_with(more: &str) -> Root {
    let reads: Vec<String> = python().iter().map(|path| format!("{path:?}")).collect();
    let root = Root::new("");
    let toy = root.path().join("toy");
    fs::create_dir_all(toy.join("in/chess")).unwrap();
    root.settings(&format!(
        "[channels.folder]\ncommand = [{:?}, {ADAPTER:?}]\nreads = [{}]\nwrites = [{toy:?}]\nfolder = {toy:?}\n{more}",
        interpreter(),
        reads.join(", ")
    ));
    root.g2(&["wirings", "add", "--group", "main", "--chat", "folder:chess", "--pattern", "."]);
    root.g2(&["chats", "set", "folder:chess", "policy=public"]);
    root
}

/// A root whose adapter is the example of the docs with some of its text replaced.
pub(crate) fn root_changed(changes: &[(&str, &str)], more: &str) -> Root {
    let root = root_with(more);
    let mut adapter = fs::read_to_string(ADAPTER).unwrap();
    for (was, is) in changes {
        assert_eq!(adapter.matches(was).count(), 1, "{was}");
        adapter = adapter.replace(was, is);
    }
    let (path, settings) = (root.path().join("adapter.py"), root.path().join("g2.toml"));
    fs::write(&path, adapter).unwrap();
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace(ADAPTER, path.to_str().unwrap())).unwrap();
    root
}

fn write(root: &Root, name: &str) {
    let folder = root.path().join("toy/in/chess");
    fs::write(folder.join("new.part"), name).unwrap();
    fs::rename(folder.join("new.part"), folder.join(format!("{name}.txt"))).unwrap();
}

pub(super) fn said(root: &Root) -> Vec<String> {
    let Ok(files) = fs::read_dir(root.path().join("toy/out/chess")) else { return Vec::new() };
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_example_of_the_docs_keeps_to_every_rule_and_one_that_does_not_is_told() {
    let root = Root::new("");
    let toy = root.path().join("toy");
    fs::create_dir_all(toy.join("in/a")).unwrap();
    for n in 0..100 {
        fs::write(toy.join(format!("in/a/{n:03}.txt")), "x").unwrap();
    }
    let config = serde_json::json!({"folder": toy}).to_string();
    let test = |adapter: &[&str]| {
        let arguments = [&["--json", "channels", "test", "--config", &config, "--"], adapter].concat();
        let output = root.run(&arguments);
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), rows)
    };
    let python = interpreter();
    let (code, rows) = test(&[&python, ADAPTER]);
    assert!(code == Some(0) && rows.len() >= 20, "{rows:#?}");
    let (code, rows) = test(&["/bin/sh", "-c", "echo nonsense; exec sleep 600"]);
    assert_eq!((code, rows.len(), &rows[0]["ok"]), (Some(1), 1, &serde_json::Value::Bool(false)));
    // What it has started ends with it, the first time that it ends by itself and the second time that it is killed.
    for end in ["exit 1", "exec sleep 600"] {
        let child = root.path().join("child");
        let script = format!("sleep 600 & echo $! > {}; echo nonsense; {end}", child.display());
        assert_eq!(test(&["/bin/sh", "-c", &script]).0, Some(1), "{end}");
        let child = Path::new("/proc").join(fs::read_to_string(&child).unwrap().trim()).join("cmdline");
        // One that nobody has reaped yet has no arguments any more.
        wait_for(end, || fs::read(&child).unwrap_or_default().is_empty().then_some(()));
    }
}

#[test]
fn a_daemon_that_dies_anywhere_takes_each_message_in_once_and_answers_it_once() {
    if !fail_points() {
        return;
    }
    for place in ["channel.stored", "deliver.sent"] {
        // One message a prompt, so that each has an answer of its own.
        let root = root_with(
            "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n",
        );
        let reached = root.path().join("reached");
        let file = reached.display().to_string();
        write(&root, "1");
        let daemon = root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &file)]);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        daemon.wait();
        write(&root, "2");
        let _daemon = root.serve();
        wait_for("both to be answered", || {
            let row = root.json(&["channels", "show", "folder"]);
            (said(&root).len() == 2 && row["unsent"] == 0 && row["connection"] == "connected").then_some(())
        });
        let came = root.rows(&["messages", "list", "--chat", "folder:chess"]);
        let texts: Vec<&str> = came.iter().map(|row| row["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["1", "2"], "{place}");
        let mut answers = said(&root);
        answers.sort();
        assert_eq!(answers, ["echo: 1", "echo: 2"], "{place}");
    }
}

#[test]
fn a_fault_of_ours_over_an_event_has_it_told_again_and_ends_no_daemon() {
    if !fail_points() {
        return;
    }
    for place in ["channel.told:1:panic", "channel.stored:1:panic"] {
        let root = root_with(
            "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n",
        );
        let reached = root.path().join("reached");
        let file = reached.display().to_string();
        write(&root, "1");
        let daemon = root.serve_with(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &file)]);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        write(&root, "2");
        wait_for("both to be answered", || (said(&root).len() == 2 || daemon.has_ended()).then_some(()));
        assert!(!daemon.has_ended(), "{place}");
        let came = root.rows(&["messages", "list", "--chat", "folder:chess"]);
        let texts: Vec<&str> = came.iter().map(|row| row["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["1", "2"], "{place}");
    }
}

#[test]
fn an_event_over_which_we_fail_three_times_is_passed_over_and_the_next_one_arrives() {
    if !fail_points() {
        return;
    }
    let root = root_with(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n",
    );
    write(&root, "1");
    let daemon = root.serve_with(&[("G2_FAILPOINT", "channel.taken:1+2+3:panic")]);
    wait_for("a fault", || root.log().contains("our own fault").then_some(()));
    write(&root, "2");
    wait_for("the next one to be answered", || {
        assert!(!daemon.has_ended(), "{}", root.log());
        (said(&root) == ["echo: 2"]).then_some(())
    });
    let came = root.rows(&["messages", "list", "--chat", "folder:chess"]);
    let texts: Vec<&str> = came.iter().map(|row| row["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["2"]);
    let log = root.log();
    assert_eq!(
        log.matches("our own fault: work on an event failed; the adapter tells it again").count(),
        3,
        "{log}"
    );
    assert_eq!(log.matches("work on an event fails again and again; it is passed over").count(), 1, "{log}");
    assert_eq!(daemon.terminate(), Some(0));
}
