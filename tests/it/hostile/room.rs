//! A disk that gets full: who filled it is stopped, and nobody else. These need root, for a disk of their own.
#![expect(clippy::disallowed_methods, reason = "plays the agents and the machine")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    ffi::CStr,
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use serde_json::json;

use super::{host::Disk, scene::ask};
use crate::support::{Daemon, Root, wait_for};

const SETTINGS: &str = "log_level = \"debug\"\n[sandbox]\nkind = \"process\"\n[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n";

/// A command that waits in its box.
struct Waits {
    group: String,
    request: String,
}

/// A root on a small disk of which 32 MiB are to be free, with groups whose agents stay at work.
struct Small {
    daemon: Daemon,
    root: Root,
    _disk: Disk,
}

impl Small {
    /// `None` where nothing can be mounted.
    fn with(groups: &[&str], size: &CStr) -> Option<Self> {
        let root = Root::new("");
        let disk = Disk::under(&root, size)?;
        root.g2(&["init"]);
        root.settings(SETTINGS);
        root.script(None, &json!([{"when": {"contains": "stay"}, "do": [{"hang": true}]}]));
        let daemon = root.serve();
        // Made while the daemon is up: nobody has weighed them before.
        for group in groups {
            root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
            root.send(&format!("local:{group}"), "stay");
        }
        let small = Self { daemon, root, _disk: disk };
        wait_for("all to run", || (small.running() == groups).then_some(()));
        Some(small)
    }

    /// The groups whose agents are at work, by name.
    fn running(&self) -> Vec<String> {
        let rows = self.root.rows(&["runs", "list"]);
        let running = rows.iter().filter(|row| row["ended_at"].is_null() && row["records"] == 1);
        let mut groups: Vec<String> = running.map(|row| row["group"].as_str().unwrap().to_owned()).collect();
        groups.sort();
        groups
    }

    /// Writes into a file until less than so much is free, MiB.
    fn fill(&self, file: &mut File, until: u64) {
        while free_mib(&self.root.data("")) >= until {
            file.write_all(&[0; 1 << 20]).unwrap();
        }
    }

    /// Waits until the daemon has looked at the disk as it is.
    fn looked(&self) {
        let looks = || self.root.log().matches("the disk was looked at").count();
        let before = looks();
        wait_for("the disk to be looked at", || (looks() > before).then_some(()));
    }

    /// Writes what a group may well write, MiB.
    fn write_openly(&self, group: &str, mib: usize) {
        fs::write(self.root.data("ipc").join(group).join("state/own"), vec![0; mib << 20]).unwrap();
    }

    /// A command that is not taken in, as there is no room.
    fn waits(&self, group: &str, request: &str) -> Waits {
        let name = format!("{request}.json");
        let command = json!({"type": "list_tasks", "requestId": request});
        self.root.put_command(group, "tasks", &name, &command);
        let named = format!("group={group}}}: ");
        wait_for("the gate to be shut", || {
            let log = self.root.log();
            log.lines()
                .any(|line| line.contains("there is no room for what commands") && line.contains(&named))
                .then_some(())
        });
        let file = self.root.data("ipc").join(group).join("tasks").join(name);
        assert!(file.exists(), "{request} was taken in");
        Waits { group: group.to_owned(), request: request.to_owned() }
    }

    /// What waited is answered.
    fn goes_on(&self, waiting: &[Waits]) {
        for Waits { group, request } in waiting {
            assert_eq!(self.root.reply(group, request)["ok"], true, "{request} of {group}");
        }
    }

    fn stopped_evil_alone(&self) -> String {
        wait_for("evil to be stopped", || (self.running() == ["good"]).then_some(()));
        let told = wait_for("main to be told", || self.root.said("local:main").pop());
        assert!(told.starts_with("I stopped the group evil"), "{told}");
        told
    }

    fn stopped_nobody(&self) {
        wait_for("main to be told", || {
            self.root.said("local:main").iter().any(|text| text.contains("I stopped nobody")).then_some(())
        });
        assert_eq!(self.running(), ["good"]);
    }
}

#[test]
fn a_group_that_fills_the_disk_is_stopped_before_it_is_full_and_somebody_is_told() {
    let Some(small) = Small::with(&["evil", "good"], c"size=64m") else { return };
    let root = &small.root;
    // As a container does, in a file in its own folders, until there is less than is wanted, and more than half of it.
    let mut file = File::create(root.data("ipc/evil/state/filler")).unwrap();
    small.fill(&mut file, 24);
    small.stopped_evil_alone();
    let rows = root.rows(&["runs", "list"]);
    let stopped = rows.iter().find(|row| row["group"] == "evil").unwrap();
    let why = stopped["error"].as_str().unwrap();
    assert!(why.starts_with("stopped: the disk is nearly full"), "{stopped}");
    let status = root.json(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
    assert!(status["obstacle"].as_str().unwrap().contains("group evil was stopped"), "{status}");
    let waits = small.waits("good", "beside-it");

    fs::remove_file(root.data("ipc/evil/state/filler")).unwrap();
    drop(file);
    small.goes_on(&[waits]);
    wait_for("launching to go on", || (small.running() == ["evil", "good"]).then_some(()));
    assert_eq!(root.said("local:main").len(), 1, "once");
    assert!(!small.daemon.has_ended());
}

#[test]
fn a_group_that_fills_the_disk_in_small_steps_is_stopped() {
    let Some(small) = Small::with(&["evil", "good"], c"size=64m") else { return };
    let mut file = File::create(small.root.data("ipc/evil/state/filler")).unwrap();
    // Between two looks it never writes as much as a group is stopped for, and in the end little is missing.
    for until in [54, 42, 30] {
        small.looked();
        small.fill(&mut file, until);
    }
    small.stopped_evil_alone();
}

#[test]
fn no_group_is_stopped_for_foreign_files_if_little_space_is_missing() {
    let Some(small) = Small::with(&["good"], c"size=128m") else { return };
    small.write_openly("good", 20);
    let mut file = File::create(small.root.data("filler")).unwrap();
    small.fill(&mut file, 24);
    small.stopped_nobody();
}

#[test]
fn a_group_that_fills_the_disk_between_two_looks_is_stopped() {
    let Some(small) = Small::with(&["evil", "good"], c"size=64m") else { return };
    small.write_openly("good", 4);
    let mut file = File::create(small.root.data("ipc/evil/state/filler")).unwrap();
    small.fill(&mut file, 6);
    small.stopped_evil_alone();
}

#[test]
fn for_hidden_files_no_group_is_stopped_all_work_waits_and_main_is_told_which_folders_hide_some() {
    let Some(small) = Small::with(&["evil", "good"], c"size=96m") else { return };
    let deep = small.root.data("ipc/evil/state").join("d/".repeat(300));
    fs::create_dir_all(&deep).unwrap();
    let mut file = File::create(deep.join("filler")).unwrap();
    small.write_openly("good", 20);
    small.fill(&mut file, 6);
    let told = wait_for("main to be told", || small.root.said("local:main").pop());
    assert!(told.contains("I stopped nobody"), "{told}");
    assert!(told.contains("the folders of evil (folders deeper than 256)."), "{told}");
    assert_eq!(small.running(), ["evil", "good"]);
    let waiting = [small.waits("evil", "of-evil"), small.waits("good", "of-good")];
    file.set_len(0).unwrap();
    small.goes_on(&waiting);
    assert_eq!(small.root.said("local:main").len(), 1, "once");
}

#[test]
fn no_group_is_stopped_for_a_file_that_has_lost_its_name() {
    let Some(small) = Small::with(&["good"], c"size=96m") else { return };
    let filler = small.root.data("filler");
    let mut file = File::create(&filler).unwrap();
    fs::remove_file(&filler).unwrap();
    small.write_openly("good", 20);
    small.fill(&mut file, 6);
    small.stopped_nobody();
}

#[test]
fn no_group_is_stopped_for_foreign_files_and_main_is_told_once() {
    let Some(small) = Small::with(&["good"], c"size=64m") else { return };
    let root = &small.root;
    // Straight from enough to short: of its own it had a few MiB before.
    small.write_openly("good", 10);
    let filler = root.data("filler");
    let mut file = File::create(&filler).unwrap();
    small.fill(&mut file, 12);
    small.stopped_nobody();
    drop(file);
    let status = root.json(&["status"]);
    assert!(status["obstacle"].as_str().unwrap().contains("no group was seen filling it"), "{status}");
    fs::remove_file(filler).unwrap();
    wait_for("launching to go on", || (root.json(&["status"])["state"] != "degraded").then_some(()));
    assert_eq!(root.said("local:main").len(), 1, "once");
    assert_eq!(small.running(), ["good"]);
    assert!(!small.daemon.has_ended());
}

/// A message of a MiB that begins with its number.
fn large(n: usize) -> serde_json::Value {
    json!({"type": "send_message", "chatJid": "local:evil", "text": format!("{n:04} {}", "x".repeat(1_000_000))})
}

/// The files in a group's box of messages.
fn boxed(root: &Root, group: &str) -> usize {
    let names = fs::read_dir(root.data("ipc").join(group).join("messages")).unwrap();
    names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|end| end == "json")).count()
}

#[test]
fn a_group_that_fills_the_store_waits_while_others_go_on_and_each_message_is_said_once() {
    let Some(small) = Small::with(&["evil", "good"], c"size=192m") else { return };
    let root = &small.root;
    let ballast = root.data("ballast");
    fs::write(&ballast, vec![0; 64 << 20]).unwrap();
    for n in 0..40 {
        root.put_command("evil", "messages", &format!("{n:04}.json"), &large(n));
    }
    let told = wait_for("main to be told", || root.said("local:main").pop());
    assert!(told.starts_with("The group evil has"), "{told}");
    let waiting = boxed(root, "evil");
    assert!((5..38).contains(&waiting), "{waiting} wait");
    let free = free_mib(&root.data(""));
    eprintln!("{} messages were taken in, {free} MiB are free", 40 - waiting);
    assert!(free >= 32, "{free}");
    let named = || root.json(&["status"])["problems"].to_string().contains("commands of group evil wait");
    wait_for("status to name it", || named().then_some(()));
    // Nobody else is the worse for it.
    ask(root, "good", "beside-it");
    root.g2(&["groups", "add", "late", "--chat", "local:late"]);
    root.send("local:late", "stay");
    wait_for("a neighbour to be launched", || (small.running() == ["evil", "good", "late"]).then_some(()));

    fs::remove_file(ballast).unwrap();
    wait_for("the rest to be taken in", || (boxed(root, "evil") == 0).then_some(()));
    let said = wait_for("all to be said", || Some(root.said("local:evil")).filter(|said| said.len() >= 40));
    let numbers: Vec<&str> = said.iter().map(|text| &text[..4]).collect();
    let expected: Vec<String> = (0..40).map(|n| format!("{n:04}")).collect();
    assert_eq!(numbers, expected, "each once, in its order");
    assert_eq!(root.said("local:main").len(), 1, "told once");
    assert!(!small.daemon.has_ended());
}

#[test]
fn below_the_wanted_space_commands_wait_until_there_is_room_inside_of_the_store() {
    let Some(small) = Small::with(&["good"], c"size=128m") else { return };
    let root = &small.root;
    let content = "x".repeat(1_000_000);
    for n in 0..14 {
        let archive = json!({"type": "archive_session", "sessionId": format!("s{n}"), "name": "Talk", "content": content});
        root.put_command("good", "tasks", &format!("{n:03}.json"), &archive);
    }
    wait_for("all to be archived", || (root.rows(&["sessions", "list"]).len() >= 14).then_some(()));
    // The index for searches grows behind them: what it still writes would fill the disk for good.
    wait_for("the index to have them", || {
        let index = rusqlite::Connection::open(root.data("search.sqlite")).ok()?;
        let seen: i64 =
            index.query_row("SELECT count(*) FROM seen WHERE is_whole = 1", [], |r| r.get(0)).ok()?;
        (seen >= 14).then_some(())
    });
    let mut filler = File::create(root.data("filler")).unwrap();
    small.fill(&mut filler, 30);
    let waiting = [small.waits("good", "first"), small.waits("main", "of-main")];
    // A person is not kept from making room, and the disk is as full as before.
    for n in 1..=14 {
        root.g2(&["sessions", "delete", &n.to_string(), "--yes"]);
    }
    assert!(free_mib(&root.data("")) < 32);
    small.goes_on(&waiting);
    assert_eq!(small.running(), ["good"]);
    assert!(!small.daemon.has_ended());
}

#[test]
fn a_group_over_a_lowered_limit_of_the_store_is_stopped_until_the_limit_is_raised() {
    let Some(small) = Small::with(&["evil", "good"], c"size=192m") else { return };
    let root = &small.root;
    for n in 0..12 {
        root.put_command("evil", "messages", &format!("{n:04}.json"), &large(n));
    }
    wait_for("all to be said", || (root.said("local:evil").len() == 12).then_some(()));
    assert_eq!(small.daemon.terminate(), Some(0));
    root.settings(&format!("{SETTINGS}stored_mib = 10\n"));
    let daemon = root.serve();
    // It is refused what would add to it, and is heard where it ends something.
    let command = json!({"type": "list_tasks", "requestId": "full"});
    root.put_command("evil", "tasks", "full.json", &command);
    assert_eq!(root.reply("evil", "full")["error"]["code"], "no_room");
    let cancel = json!({"type": "cancel_task", "requestId": "cancel", "taskId": "none"});
    root.put_command("evil", "tasks", "cancel.json", &cancel);
    assert_eq!(root.reply("evil", "cancel")["error"]["code"], "not_found");
    let status = root.json(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
    assert!(status["problems"].to_string().contains("group evil can store nothing more"), "{status}");
    assert_eq!(daemon.terminate(), Some(0));

    root.settings(&format!("{SETTINGS}stored_mib = 4\n"));
    let daemon = root.serve();
    let told = wait_for("main to be told", || root.said("local:main").pop());
    assert!(told.starts_with("I stopped the group evil") && told.contains("11 MiB"), "{told}");
    root.put_command("evil", "tasks", "over.json", &json!({"type": "list_tasks", "requestId": "over"}));
    root.send("local:evil", "stay");
    root.send("local:good", "stay");
    wait_for("good to be launched", || {
        root.rows(&["runs", "list"])
            .iter()
            .any(|run| run["group"] == "good" && run["started_at"].is_string() && run["ended_at"].is_null())
            .then_some(())
    });
    // A launch empties the box of replies: what is asked now is answered after that.
    ask(root, "good", "beside-it");
    let of_evil = |run: &serde_json::Value| run["group"] == "evil" && run["ended_at"].is_null();
    assert!(!root.rows(&["runs", "list"]).iter().any(of_evil));
    assert!(root.data("ipc/evil/tasks/over.json").exists(), "it waits");
    assert_eq!(daemon.terminate(), Some(0));

    root.settings(SETTINGS);
    let _daemon = root.serve();
    assert_eq!(root.settled_file("evil", "over.json")["state"], "applied");
    wait_for("evil to be launched", || root.rows(&["runs", "list"]).iter().any(of_evil).then_some(()));
}

#[test]
fn no_group_is_stopped_for_folders_that_the_host_shows_it() {
    let Some(small) = Small::with(&["good"], c"size=96m") else { return };
    small.root.send("local:main", "stay");
    wait_for("main to run", || (small.running() == ["good", "main"]).then_some(()));
    // As its list of everybody's tasks, which another group made that large.
    let mut file = File::create(small.root.data("ipc/main/current_tasks.json")).unwrap();
    small.fill(&mut file, 6);
    wait_for("main to be told", || {
        small.root.said("local:main").iter().any(|text| text.contains("I stopped nobody")).then_some(())
    });
    assert_eq!(small.running(), ["good", "main"]);
}

fn free_mib(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    (stat.f_bavail * stat.f_frsize) >> 20
}
