//! A group that has lost its folder: its work waits, no empty folder takes its place, and a person decides.

use std::{fs, path::PathBuf};

use crate::support::{Root, wait_for};

const CHAT: &str = "local:family";

/// A root with a second group, whose folder has notes, once a daemon has looked at it.
fn root_with_notes(toml: &str) -> Root {
    let root = Root::new(toml);
    root.g2(&["groups", "add", "family", "--chat", CHAT]);
    fs::write(folder(&root).join("notes.md"), "remember").unwrap();
    root
}

fn folder(root: &Root) -> PathBuf {
    root.path().join("groups/family")
}

/// Moves the folder away, as an unmounted disk takes it along; returns where it is.
fn lose(root: &Root) -> PathBuf {
    let away = root.path().join("away");
    fs::rename(folder(root), &away).unwrap();
    away
}

/// The problem of the lost folder, with its fix, if there is one.
fn problem(root: &Root) -> Option<String> {
    let rows = root.rows(&["doctor"]);
    let row = rows.iter().find(|row| row["check"] == "group_folder" && row["status"] == "fail")?;
    Some(format!("{}: {}", row["detail"].as_str().unwrap(), row["fix"].as_str().unwrap()))
}

fn statuses(root: &Root) -> Vec<String> {
    let runs = root.rows(&["runs", "list", "--group", "family"]);
    runs.iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}

/// Ends the group's agent, and waits for that.
fn end_its_agent(root: &Root) {
    root.g2(&["groups", "restart", "family"]);
    wait_for("the agent to have left", || {
        statuses(root).iter().all(|status| status == "succeeded").then_some(())
    });
}

#[test]
fn what_is_lost_while_no_daemon_runs_is_told_and_all_waits_until_it_is_back() {
    let root = root_with_notes("");
    let heartbeat = "tasks:\n- name: water\n  interval: 30d\n  prompt: water the plants\n";
    fs::write(folder(&root).join("HEARTBEAT.md"), heartbeat).unwrap();
    let daemon = root.serve();
    let has_task = || (root.rows(&["tasks", "list", "--group", "family"]).len() == 1).then_some(());
    wait_for("the task of HEARTBEAT.md", has_task);
    assert_eq!(daemon.terminate(), Some(0));
    let away = lose(&root);
    // It is told without a daemon too, and laying the root out makes no folder.
    assert!(problem(&root).is_some());
    root.g2(&["init"]);
    let _daemon = root.serve();
    let told = problem(&root).expect("it is told");
    assert!(root.json(&["status"])["problems"].to_string().contains("groups/family is lost"));
    for part in ["groups/family is lost", "g2 groups restore family", "g2 groups renew family"] {
        assert!(told.contains(part), "{told}");
    }
    let seq = root.send(CHAT, "are you there?");
    root.judged(seq);
    // Others are served, and nothing was begun in its place.
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert!(root.why(seq)["answer"].as_str().unwrap().contains("groups/family"), "{}", root.why(seq));
    assert_eq!(statuses(&root), [""; 0]);
    assert!(!folder(&root).exists());
    has_task().expect("no task went with the file");
    // A folder without its files is none.
    fs::create_dir(folder(&root)).unwrap();
    assert!(problem(&root).is_some());
    fs::remove_dir(folder(&root)).unwrap();
    fs::rename(away, folder(&root)).unwrap();
    wait_for("the answer", || (root.said(CHAT) == ["echo: are you there?"]).then_some(()));
    assert_eq!(problem(&root), None);
    assert!(folder(&root).join("notes.md").is_file());
}

#[test]
fn what_is_lost_under_the_daemon_costs_no_try_and_pauses_no_task_until_it_is_renewed() {
    let root = root_with_notes("");
    fs::write(root.path().join("groups/_template/CLAUDE.md"), "begin\n").unwrap();
    root.g2(&["tasks", "add", "--group", "family", "--every", "999h", "--id", "water", "water the plants"]);
    let _daemon = root.serve();
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
    end_its_agent(&root);
    lose(&root);
    root.send(CHAT, "are you there?");
    root.g2(&["tasks", "run", "water"]);
    wait_for("the problem", || problem(&root));
    wait_for("the launch that found it", || statuses(&root).contains(&"failed".to_owned()).then_some(()));
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert!(!folder(&root).exists());
    let runs = root.rows(&["runs", "list", "--group", "family"]);
    assert!(runs[1]["error"].as_str().unwrap().contains("folder is lost"), "{runs:?}");
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    let tries: i64 =
        store.query_row("SELECT coalesce(max(tries), 0) FROM batches", [], |r| r.get(0)).unwrap();
    assert_eq!(tries, 0, "nobody's try");
    assert_eq!(root.rows(&["tasks", "list", "--group", "family"])[0]["status"], "active");
    assert_eq!(root.run(&["groups", "renew", "main"]).status.code(), Some(1), "main has its folder");
    root.g2(&["groups", "renew", "family"]);
    wait_for("the answer", || root.said(CHAT).contains(&"echo: are you there?".to_owned()).then_some(()));
    wait_for("the task to run", || {
        let history = root.rows(&["tasks", "history", "water"]);
        history.iter().any(|row| row["status"] == "succeeded").then_some(())
    });
    assert_eq!(fs::read_to_string(folder(&root).join("CLAUDE.md")).unwrap(), "begin\n");
    assert_eq!(problem(&root), None);
    let audit = root.rows(&["audit", "list"]);
    assert!(audit.iter().any(|row| row.to_string().contains("groups.renew")), "{audit:?}");
}

#[test]
fn a_folder_that_its_own_agent_emptied_is_not_lost() {
    let root = root_with_notes("");
    let _daemon = root.serve();
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
    // As the agent does.
    for entry in fs::read_dir(folder(&root)).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    end_its_agent(&root);
    assert_eq!(root.ask(CHAT, "again"), "echo: again\n");
    assert_eq!(problem(&root), None);
}

#[test]
fn an_empty_folder_that_took_the_place_of_a_groups_during_a_run_is_not_the_groups() {
    let root = root_with_notes("");
    let _daemon = root.serve();
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
    // As a disk leaves it that is unmounted while the agent lives.
    let away = lose(&root);
    fs::create_dir(folder(&root)).unwrap();
    end_its_agent(&root);
    let seq = root.send(CHAT, "are you there?");
    root.judged(seq);
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert!(problem(&root).is_some());
    assert!(root.why(seq)["answer"].as_str().unwrap().contains("groups/family"), "{}", root.why(seq));
    assert_eq!(statuses(&root), ["succeeded"], "nothing was begun in its place");
    fs::remove_dir(folder(&root)).unwrap();
    fs::rename(away, folder(&root)).unwrap();
    wait_for("the answer", || root.said(CHAT).contains(&"echo: are you there?".to_owned()).then_some(()));
    assert_eq!(problem(&root), None);
    assert!(folder(&root).join("notes.md").is_file());
}

#[test]
fn a_link_that_leads_nowhere_is_not_renewed_and_its_group_stays_lost() {
    let root = root_with_notes("");
    assert_eq!(root.serve().terminate(), Some(0));
    lose(&root);
    std::os::unix::fs::symlink(root.path().join("nowhere"), folder(&root)).unwrap();
    let output = root.run(&["groups", "renew", "family"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("groups/family is a link"), "{told}");
    assert!(problem(&root).is_some());
    fs::remove_file(folder(&root)).unwrap();
    root.g2(&["groups", "renew", "family"]);
    assert_eq!(problem(&root), None);
}

#[test]
fn a_lost_folder_comes_out_of_the_newest_backup_that_has_it() {
    let root = root_with_notes("");
    let refused = |arguments: &[&str], why: &str| {
        let output = root.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(why), "{why}: {told}");
    };
    let backups = tempfile::tempdir().unwrap();
    let (shelf, before) = (backups.path().join("shelf"), backups.path().join("before.tar"));
    assert_eq!(root.serve().terminate(), Some(0));
    root.g2(&["backup", "--to", shelf.to_str().unwrap(), "--keep", "3"]);
    refused(&["groups", "restore", "family"], "has not lost its folder");
    fs::remove_dir_all(folder(&root)).unwrap();
    // A newer backup does not have it.
    root.g2(&["backup", before.to_str().unwrap()]);
    refused(&["groups", "restore", "family"], "backup.to is not set");
    refused(
        &["groups", "restore", "family", "--from", before.to_str().unwrap()],
        "no folder of group family",
    );
    fs::write(backups.path().join("bad.tar"), "bad").unwrap();
    let bad = backups.path().join("bad.tar");
    refused(&["groups", "restore", "family", "--from", bad.to_str().unwrap()], "can't be used");
    assert!(!folder(&root).exists());
    let newest = fs::read_dir(&shelf).unwrap().next().unwrap().unwrap().file_name();
    let newest = newest.to_str().unwrap().replace("-20", "-30");
    fs::copy(&before, shelf.join(newest)).unwrap();
    root.g2(&["config", "set", "backup.to", shelf.to_str().unwrap()]);
    fs::write(root.path().join("groups/main/kept.md"), "kept").unwrap();
    for up in [false, true] {
        let daemon = up.then(|| root.serve());
        let waiting = daemon.is_some().then(|| root.send(CHAT, "are you there?"));
        root.g2(&["groups", "restore", "family"]);
        assert_eq!(fs::read_to_string(folder(&root).join("notes.md")).unwrap(), "remember");
        assert!(root.path().join("groups/main/kept.md").is_file());
        let left = fs::read_dir(root.path().join("groups")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
        if waiting.is_some() {
            wait_for("the answer", || {
                root.said(CHAT).contains(&"echo: are you there?".to_owned()).then_some(())
            });
        }
        assert_eq!(problem(&root), None);
        drop(daemon);
        let _ = fs::remove_dir_all(folder(&root));
    }
}

#[test]
fn the_main_groups_folder_is_not_made_anew_either() {
    let root = Root::new("");
    assert_eq!(root.serve().terminate(), Some(0));
    let main = root.path().join("groups/main");
    fs::remove_dir_all(&main).unwrap();
    root.g2(&["init"]);
    let daemon = root.serve();
    assert!(problem(&root).expect("it is told").contains("groups/main is lost"));
    assert!(!main.exists());
    root.g2(&["groups", "renew", "main"]);
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    drop(daemon);
}

#[test]
fn a_renewal_that_died_is_finished_by_the_next_start() {
    let root = root_with_notes("");
    assert_eq!(root.serve().terminate(), Some(0));
    lose(&root);
    let died =
        root.command(&["groups", "renew", "family"]).env("G2_FAILPOINT", "op.folder_given_up").output();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&died.unwrap().status), Some(9));
    let _daemon = root.serve();
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
    assert_eq!(problem(&root), None);
}

#[test]
fn a_new_root_has_a_template_and_one_that_is_there_stays_as_it_is() {
    let root = Root::empty();
    root.g2(&["init"]);
    let template = root.path().join("groups/_template");
    let memory = fs::read_to_string(template.join("CLAUDE.md")).unwrap();
    assert!(memory.contains("memory"), "{memory}");
    fs::remove_file(template.join("CLAUDE.md")).unwrap();
    root.g2(&["init"]);
    assert!(!template.join("CLAUDE.md").exists());
    fs::remove_dir_all(&template).unwrap();
    root.g2(&["groups", "add", "family", "--chat", CHAT]);
    assert_eq!(fs::read_to_string(folder(&root).join("CLAUDE.md")).unwrap(), memory);
    fs::remove_dir_all(&template).unwrap();
    root.g2(&["init"]);
    assert_eq!(fs::read_to_string(template.join("CLAUDE.md")).unwrap(), memory);
}
