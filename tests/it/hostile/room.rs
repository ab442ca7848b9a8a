//! A disk that gets full: who filled it is stopped, and nobody else. These need root, for a disk of their own.
#![expect(clippy::disallowed_methods, reason = "plays the agents and the machine")]
#![expect(clippy::disallowed_types, reason = "a process of a group's, beside its agent")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    ffi::CStr,
    fs::{self, File},
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command},
};

use serde_json::json;

use super::{host::Disk, scene::ask};
use crate::support::{Daemon, Root, wait_for};

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
        root.settings("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n");
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

    /// Writes what a group may well write, MiB.
    fn write_openly(&self, group: &str, mib: usize) {
        fs::write(self.root.data("ipc").join(group).join("state/own"), vec![0; mib << 20]).unwrap();
    }

    /// A process of a group's that holds a file, until the group's run is killed.
    fn hold(&self, group: &str, file: &File) -> Child {
        let runs = self.root.rows(&["runs", "list"]);
        let run = runs.iter().find(|run| run["group"] == group && run["ended_at"].is_null()).unwrap();
        let note = fs::read(self.root.data("runs").join(run["id"].to_string()).join("process.json")).unwrap();
        let note: serde_json::Value = serde_json::from_slice(&note).unwrap();
        let leader = i32::try_from(note["pid"].as_i64().unwrap()).unwrap();
        let mut sleeper = Command::new("sleep");
        sleeper.arg("600").process_group(leader).stdin(file.try_clone().unwrap());
        sleeper.spawn().unwrap()
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
    // As a container does, in a file in its own folders: first until there is less than is wanted, and when that was
    // seen, until there is less than half of it.
    let mut file = File::create(root.data("ipc/evil/state/filler")).unwrap();
    small.fill(&mut file, 30);
    wait_for("the room to be low", || (root.json(&["status"])["state"] == "degraded").then_some(()));
    assert_eq!(small.running(), ["evil", "good"]);
    small.fill(&mut file, 6);
    small.stopped_evil_alone();
    let rows = root.rows(&["runs", "list"]);
    let stopped = rows.iter().find(|row| row["group"] == "evil").unwrap();
    let why = stopped["error"].as_str().unwrap();
    assert!(why.starts_with("stopped: the disk is nearly full"), "{stopped}");
    let status = root.json(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
    assert!(status["obstacle"].as_str().unwrap().contains("group evil was stopped"), "{status}");
    ask(root, "good", "beside-it");

    fs::remove_file(root.data("ipc/evil/state/filler")).unwrap();
    drop(file);
    wait_for("launching to go on", || (small.running() == ["evil", "good"]).then_some(()));
    assert_eq!(root.said("local:main").len(), 1, "once");
    assert!(!small.daemon.has_ended());
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
fn who_hides_what_it_wrote_is_stopped_and_not_who_wrote_something_in_the_open() {
    let Some(small) = Small::with(&["evil", "good"], c"size=96m") else { return };
    let deep = small.root.data("ipc/evil/state").join("d/".repeat(300));
    fs::create_dir_all(&deep).unwrap();
    let mut file = File::create(deep.join("filler")).unwrap();
    small.write_openly("good", 20);
    small.fill(&mut file, 6);
    let told = small.stopped_evil_alone();
    assert!(told.contains("folders deeper than 256"), "{told}");
}

#[test]
fn who_holds_what_it_wrote_without_a_name_is_stopped_and_not_who_has_deep_folders() {
    let Some(small) = Small::with(&["evil", "good"], c"size=96m") else { return };
    let root = &small.root;
    fs::create_dir_all(root.data("ipc/good/state").join("d/".repeat(300))).unwrap();
    let filler = root.data("ipc/evil/state/filler");
    let mut file = File::create(&filler).unwrap();
    let mut holder = small.hold("evil", &file);
    fs::remove_file(&filler).unwrap();
    small.fill(&mut file, 6);
    let told = small.stopped_evil_alone();
    assert!(told.contains("the group wrote"), "{told}");
    holder.wait().unwrap();
}

#[test]
fn nobody_is_stopped_for_a_file_that_has_no_name_any_more_and_that_no_group_holds() {
    let Some(small) = Small::with(&["good"], c"size=96m") else { return };
    let filler = small.root.data("filler");
    let mut file = File::create(&filler).unwrap();
    fs::remove_file(&filler).unwrap();
    small.write_openly("good", 20);
    small.fill(&mut file, 6);
    small.stopped_nobody();
}

#[test]
fn nobody_is_stopped_for_what_something_else_wrote_and_somebody_is_told_once() {
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

fn free_mib(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    (stat.f_bavail * stat.f_frsize) >> 20
}
