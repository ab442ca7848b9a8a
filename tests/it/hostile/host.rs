//! What no container can do, but a machine can: devices and links in place of boxes, a full disk, a read-only one. The
//! tests that mount or make devices need root and pass without looking where they are not.
#![expect(clippy::disallowed_methods, reason = "plays the machine")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::symlink,
    path::PathBuf,
};

use rustix::{
    fs::{
        CWD, FileType, IFlags, Mode, RenameFlags, ioctl_getflags, ioctl_setflags, makedev, mknodat,
        renameat_with,
    },
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use serde_json::{Value, json};

use super::{
    scene::{ask, held, peak_kib},
    untouched::{changing, manifest, of_the_machine},
};
use crate::support::{Root, wait_for};

fn two_groups() -> Root {
    let root = Root::new("");
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    root
}

fn say(text: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:evil", "text": text})
}

#[test]
fn a_device_named_like_a_command_is_taken_out_unopened() {
    let root = two_groups();
    let _daemon = root.serve();
    let boxed = root.data("ipc/evil/messages");
    let mode = Mode::from_raw_mode(0o666);
    // What would give bytes for ever, what would block, and what does not exist.
    for (name, kind, device) in [
        ("zero.json", FileType::CharacterDevice, makedev(1, 5)),
        ("tty.json", FileType::CharacterDevice, makedev(5, 0)),
        ("none.json", FileType::BlockDevice, makedev(240, 7)),
    ] {
        if mknodat(CWD, boxed.join(name), kind, mode, device).is_err() {
            return;
        }
    }
    ask(&root, "good", "beside-devices");
    for name in ["zero.json", "tty.json", "none.json"] {
        let row = root.settled_file("evil", name);
        assert_eq!((&row["state"], &row["code"]), (&json!("dead"), &json!("malformed")), "{row}");
        assert!(row["reason"].as_str().unwrap().contains("device"), "{row}");
        assert!(fs::symlink_metadata(boxed.join(name)).is_err(), "{name}");
    }
}

#[test]
fn a_box_that_became_a_link_leads_nowhere_is_told_and_comes_back() {
    let root = two_groups();
    let daemon = root.serve();
    // Commands of nobody's, which parse; main's own input; a folder that is not there.
    let stranger = root.path().join("stranger");
    fs::create_dir(&stranger).unwrap();
    fs::write(stranger.join("x.json"), say("stolen from a stranger").to_string()).unwrap();
    let targets =
        [("messages", stranger), ("input", root.data("ipc/main/input")), ("tasks", "/nowhere".into())];
    let skipped = changing(root.path(), &["evil", "good"]);
    // Main's snapshots are written at the start; this one is the last.
    root.data_json("ipc/main/session_history.json");
    let tops: Vec<_> = [root.path()].into_iter().chain(of_the_machine()).collect();
    let before = manifest(&tops, &skipped);
    for (name, target) in &targets {
        let place = root.data("ipc/evil").join(name);
        // In one step: a box that is missing is made anew within the moment.
        let other = root.data("ipc/evil").join(format!("{name}.was"));
        symlink(target, &other).unwrap();
        renameat_with(CWD, &other, CWD, &place, RenameFlags::EXCHANGE).unwrap();
        ask(&root, "good", &format!("beside-{name}"));
        let told = |rows: Vec<Value>| {
            rows.into_iter().find(|row| {
                row["check"] == "boxes"
                    && row["status"] == "fail"
                    && row["detail"].as_str().is_some_and(|detail| detail.contains("symbolic link"))
            })
        };
        wait_for("doctor to say so", || told(root.rows(&["doctor"])));
        fs::remove_file(&place).unwrap();
        wait_for("the box to be made anew", || place.is_dir().then_some(()));
    }
    root.put_command("evil", "messages", "after.json", &say("after"));
    assert_eq!(root.settled_file("evil", "after.json")["state"], "applied");
    assert_eq!(manifest(&tops, &skipped), before);
    assert!(!daemon.has_ended());
    assert!(root.rows(&["outbox", "list"]).iter().all(|row| row["text"] == "after"));
}

#[test]
fn a_group_that_left_a_directory_in_its_box_can_be_removed() {
    for up in [true, false] {
        let root = two_groups();
        root.serve().terminate();
        fs::create_dir(root.data("ipc/evil/messages/x.json")).unwrap();
        fs::write(root.data("ipc/evil/messages/x.json/inside.json"), say("x").to_string()).unwrap();
        let _daemon = up.then(|| root.serve());
        root.g2(&["groups", "remove", "evil"]);
        wait_for("its boxes to be gone", || (!root.data("ipc/evil").exists()).then_some(()));
    }
}

/// A small file system of its own as a root's `data/`, unmounted at the end.
struct Disk {
    data: PathBuf,
}

impl Disk {
    /// `None` where we may not mount.
    fn under(root: &Root, options: &std::ffi::CStr) -> Option<Self> {
        let data = root.data("");
        let made: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in made {
            if fs::remove_file(&path).is_err() {
                fs::remove_dir_all(&path).unwrap();
            }
        }
        mount("tmpfs", &data, "tmpfs", MountFlags::empty(), options).ok()?;
        Some(Self { data })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.data, UnmountFlags::DETACH);
    }
}

/// Publishes so many commands of evil's without a byte of new space.
fn publish(root: &Root, names: &[String]) {
    for name in names {
        let boxed = root.data("ipc/evil/messages");
        fs::rename(boxed.join(format!("{name}.draft")), boxed.join(name)).unwrap();
    }
}

fn drafts(root: &Root, kind: &str) -> Vec<String> {
    let names: Vec<String> = (0..50).map(|n| format!("{kind}-{n:02}.json")).collect();
    for (n, name) in names.iter().enumerate() {
        let text = say(&format!("{kind} {n}")).to_string();
        fs::write(root.data("ipc/evil/messages").join(format!("{name}.draft")), text).unwrap();
    }
    names
}

#[test]
fn on_a_full_disk_nothing_is_lost_and_nothing_twice() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=24m") else { return };
    root.g2(&["init"]);
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    let daemon = root.serve();
    for n in 0..20 {
        ask(&root, "good", &format!("quiet-{n}"));
    }
    let quiet = peak_kib(daemon.pid());
    let full = drafts(&root, "full");

    // Filled by the container itself, to the last byte.
    let filler = root.data("ipc/evil/state/filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
    drop(file);
    publish(&root, &full);
    wait_for("the disk to be said to be full", || root.log().contains("tried again").then_some(()));
    assert!(!daemon.has_ended());
    fs::remove_file(&filler).unwrap();
    ask(&root, "good", "with-room-again");
    wait_for("all to be said", || (root.said("local:evil").len() == full.len()).then_some(()));

    let expected: Vec<String> = (0..50).map(|n| format!("full {n}")).collect();
    assert_eq!(root.said("local:evil"), expected);
    assert!(!daemon.has_ended());
    let peak = peak_kib(daemon.pid());
    assert!(peak <= 2 * quiet, "{peak} KiB after {quiet} KiB");
}

#[test]
fn a_box_that_cannot_be_written_keeps_its_files_until_it_can() {
    let root = two_groups();
    let daemon = root.serve();
    let boxed = root.data("ipc/evil/messages");
    let names = drafts(&root, "closed");
    let stopped = held(&daemon);
    publish(&root, &names);
    let folder = File::open(&boxed).unwrap();
    let Ok(flags) = ioctl_getflags(&folder) else { return };
    if ioctl_setflags(&folder, flags | IFlags::IMMUTABLE).is_err() {
        return;
    }
    drop(stopped);
    let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("the claim to be refused", || root.log().contains("claiming failed").then_some(()));
        ask(&root, "good", "beside-a-closed-box");
        assert_eq!(root.rows(&["ipc", "list", "--group", "evil", "--state", "waiting"]).len(), names.len());
    }));
    // Before anything else: nobody could remove the folder.
    ioctl_setflags(&folder, flags).unwrap();
    closed.unwrap();
    wait_for("all to be said", || (root.said("local:evil").len() == names.len()).then_some(()));
    let expected: Vec<String> = (0..50).map(|n| format!("closed {n}")).collect();
    assert_eq!(root.said("local:evil"), expected);
    assert!(!daemon.has_ended());
}

#[test]
fn a_group_that_fills_the_disk_is_stopped_before_it_is_full_and_somebody_is_told() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=64m") else { return };
    root.g2(&["init"]);
    root.settings("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n");
    root.script(None, &json!([{"when": {"contains": "stay"}, "do": [{"hang": true}]}]));
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    let daemon = root.serve();
    for chat in ["local:evil", "local:good"] {
        root.send(chat, "stay");
    }
    let running = || -> Vec<String> {
        let rows = root.rows(&["runs", "list"]);
        let running = rows.iter().filter(|row| row["ended_at"].is_null() && row["records"] == 1);
        let mut groups: Vec<String> = running.map(|row| row["group"].as_str().unwrap().to_owned()).collect();
        groups.sort();
        groups
    };
    wait_for("both to run", || (running() == ["evil", "good"]).then_some(()));
    // As a container does, in a file in its own folders: first until there is less than is wanted, and when that was
    // seen, until there is less than half of it.
    let mut file = File::create(root.data("ipc/evil/state/filler")).unwrap();
    let mut fill = |until: u64| {
        while free_mib(&root.data("")) >= until {
            file.write_all(&[0; 1 << 20]).unwrap();
        }
    };
    fill(30);
    wait_for("the room to be low", || (root.json(&["status"])["state"] == "degraded").then_some(()));
    assert_eq!(running(), ["evil", "good"]);
    fill(6);
    wait_for("evil to be stopped", || (running() == ["good"]).then_some(()));
    let rows = root.rows(&["runs", "list"]);
    let stopped = rows.iter().find(|row| row["group"] == "evil").unwrap();
    let why = stopped["error"].as_str().unwrap();
    assert!(why.starts_with("stopped: the disk is nearly full"), "{stopped}");
    wait_for("main to be told", || {
        root.said("local:main").iter().any(|text| text.contains("evil")).then_some(())
    });
    let status = root.json(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
    assert!(status["obstacle"].as_str().unwrap().contains("group evil was stopped"), "{status}");
    ask(&root, "good", "beside-it");

    fs::remove_file(root.data("ipc/evil/state/filler")).unwrap();
    drop(file);
    wait_for("launching to go on", || (running() == ["evil", "good"]).then_some(()));
    assert_eq!(root.said("local:main").len(), 1, "once");
    assert!(!daemon.has_ended());
}

#[test]
fn a_group_that_fills_the_disk_between_two_looks_is_stopped() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=64m") else { return };
    root.g2(&["init"]);
    root.settings("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n");
    root.script(None, &json!([{"when": {"contains": "stay"}, "do": [{"hang": true}]}]));
    let _daemon = root.serve();
    // Made while the daemon is up: nobody has weighed it before.
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
        root.send(&format!("local:{group}"), "stay");
    }
    let running = |group: &str| {
        let rows = root.rows(&["runs", "list"]);
        rows.iter().any(|row| row["group"] == group && row["ended_at"].is_null() && row["records"] == 1)
    };
    wait_for("both to run", || (running("evil") && running("good")).then_some(()));
    fs::write(root.data("ipc/good/state/own"), vec![0; 4 << 20]).unwrap();
    let filler = root.data("ipc/evil/state/filler");
    let mut file = File::create(&filler).unwrap();
    while free_mib(&root.data("")) >= 6 {
        file.write_all(&[0; 1 << 20]).unwrap();
    }
    wait_for("evil to be stopped", || (!running("evil")).then_some(()));
    let told = wait_for("main to be told", || root.said("local:main").pop());
    assert!(told.starts_with("I stopped the group evil") && running("good"), "{told}");
}

#[test]
fn who_hides_what_it_wrote_is_stopped_and_not_who_wrote_something_in_the_open() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=96m") else { return };
    root.g2(&["init"]);
    root.settings("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n");
    root.script(None, &json!([{"when": {"contains": "stay"}, "do": [{"hang": true}]}]));
    let _daemon = root.serve();
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
        root.send(&format!("local:{group}"), "stay");
    }
    let running = |group: &str| {
        let rows = root.rows(&["runs", "list"]);
        rows.iter().any(|row| row["group"] == group && row["ended_at"].is_null() && row["records"] == 1)
    };
    wait_for("both to run", || (running("evil") && running("good")).then_some(()));
    let deep = root.data("ipc/evil/state").join("d/".repeat(300));
    fs::create_dir_all(&deep).unwrap();
    let mut file = File::create(deep.join("filler")).unwrap();
    fs::write(root.data("ipc/good/state/own"), vec![0; 20 << 20]).unwrap();
    while free_mib(&root.data("")) >= 6 {
        file.write_all(&[0; 1 << 20]).unwrap();
    }
    wait_for("evil to be stopped", || (!running("evil")).then_some(()));
    let told = wait_for("main to be told", || root.said("local:main").pop());
    assert!(
        told.starts_with("I stopped the group evil") && told.contains("folders deeper than 256"),
        "{told}"
    );
    assert!(running("good"));
}

#[test]
fn nobody_is_stopped_for_a_file_that_has_no_name_any_more() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=96m") else { return };
    root.g2(&["init"]);
    root.settings("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n");
    root.script(None, &json!([{"when": {"contains": "stay"}, "do": [{"hang": true}]}]));
    root.g2(&["groups", "add", "good", "--chat", "local:good"]);
    let _daemon = root.serve();
    root.send("local:good", "stay");
    let is_running = || {
        let rows = root.rows(&["runs", "list"]);
        rows.iter().any(|row| row["ended_at"].is_null() && row["records"] == 1)
    };
    wait_for("it to run", || is_running().then_some(()));
    let filler = root.data("filler");
    let mut file = File::create(&filler).unwrap();
    fs::remove_file(&filler).unwrap();
    fs::write(root.data("ipc/good/state/own"), vec![0; 20 << 20]).unwrap();
    while free_mib(&root.data("")) >= 6 {
        file.write_all(&[0; 1 << 20]).unwrap();
    }
    wait_for("main to be told", || {
        root.said("local:main").iter().any(|text| text.contains("I stopped nobody")).then_some(())
    });
    assert!(is_running());
}

#[test]
fn nobody_is_stopped_for_what_something_else_wrote_and_somebody_is_told_once() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=64m") else { return };
    root.g2(&["init"]);
    root.settings("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 32\n");
    root.script(None, &json!([{"when": {"contains": "stay"}, "do": [{"hang": true}]}]));
    root.g2(&["groups", "add", "good", "--chat", "local:good"]);
    let daemon = root.serve();
    root.send("local:good", "stay");
    let is_running = || {
        let rows = root.rows(&["runs", "list"]);
        rows.iter().any(|row| row["ended_at"].is_null() && row["records"] == 1)
    };
    wait_for("it to run", || is_running().then_some(()));
    // Straight from enough to short: of its own it had a few MiB before.
    fs::write(root.data("ipc/good/state/own"), vec![0; 10 << 20]).unwrap();
    let filler = root.data("filler");
    let mut file = File::create(&filler).unwrap();
    while free_mib(&root.data("")) >= 12 {
        file.write_all(&[0; 1 << 20]).unwrap();
    }
    wait_for("main to be told", || {
        root.said("local:main").iter().any(|text| text.contains("I stopped nobody")).then_some(())
    });
    assert!(is_running());
    drop(file);
    let status = root.json(&["status"]);
    assert!(status["obstacle"].as_str().unwrap().contains("no group was seen filling it"), "{status}");
    fs::remove_file(filler).unwrap();
    wait_for("launching to go on", || (root.json(&["status"])["state"] != "degraded").then_some(()));
    assert_eq!(root.said("local:main").len(), 1, "once");
    assert!(is_running() && !daemon.has_ended());
}

fn free_mib(path: &std::path::Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    (stat.f_bavail * stat.f_frsize) >> 20
}
