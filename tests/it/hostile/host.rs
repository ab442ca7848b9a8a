//! What no container can do, but a machine can: devices and links in place of boxes, a full disk, a read-only one. The
//! tests that mount or make devices need root; where nothing can be mounted they say `skipped`.
#![expect(clippy::disallowed_methods, reason = "plays the machine")]
#![expect(clippy::disallowed_types, reason = "makes and mounts disks")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
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
    scene::{ask, peak_kib},
    untouched::{changing, manifest, of_the_machine},
};
use crate::support::{Root, skipped, wait_for};

pub(super) fn two_groups() -> Root {
    two_groups_with("")
}

pub(super) fn two_groups_with(toml: &str) -> Root {
    let root = Root::new(toml);
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    root
}

/// Commands are taken in to the last byte.
const UNWATCHED: &str = "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 0\n";

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
        if let Err(error) = mknodat(CWD, boxed.join(name), kind, mode, device) {
            skipped(&format!("no device can be made here ({error})"));
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
        root.g2(&["groups", "remove", "evil", "--yes"]);
        wait_for("its boxes to be gone", || (!root.data("ipc/evil").exists()).then_some(()));
    }
}

/// A small file system of its own as a root's `data/`, unmounted at the end.
pub(super) struct Disk {
    data: PathBuf,
}

impl Disk {
    /// In memory. `None` where we may not mount.
    pub(super) fn under(root: &Root, options: &std::ffi::CStr) -> Option<Self> {
        let data = emptied(root);
        let mounted = mount("tmpfs", &data, "tmpfs", MountFlags::empty(), options);
        Self::mounted(data, mounted.map_err(|error| error.to_string()))
    }

    /// One of ext4, in a file beside it. `None` where none can be made and mounted.
    pub(super) fn ext4_under(root: &Root) -> Option<Self> {
        let (image, data) = (root.path().join("disk"), emptied(root));
        File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let run = |words: &[&str], paths: &[&Path]| {
            let done = Command::new(words[0]).args(&words[1..]).args(paths).output();
            let done = done.map_err(|error| format!("{}: {error}", words[0]))?;
            if done.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&done.stderr).into_owned())
            }
        };
        let made = run(&["mkfs.ext4", "-q"], &[&image]);
        let mounted = made.and_then(|()| run(&["mount", "-o", "loop"], &[&image, &data]));
        Self::mounted(data, mounted)
    }

    fn mounted(data: PathBuf, mounted: Result<(), String>) -> Option<Self> {
        match mounted {
            Ok(()) => Some(Self { data }),
            Err(error) => {
                skipped(&format!("nothing can be mounted here ({error})"));
                None
            }
        }
    }
}

/// Removes what was laid out in `data/`, and returns that.
fn emptied(root: &Root) -> PathBuf {
    let data = root.data("");
    let made: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in made {
        if fs::remove_file(&path).is_err() {
            fs::remove_dir_all(&path).unwrap();
        }
    }
    data
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.data, UnmountFlags::DETACH);
    }
}

/// Publishes this many commands of evil's without a byte of new space.
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
    root.settings(UNWATCHED);
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

/// Writes until not a byte is left.
fn fill(disk: &Path) {
    let mut file = File::options().create(true).append(true).open(disk.join("filler")).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
}

#[test]
fn a_start_on_a_full_disk_answers_and_what_was_left_goes_on_once_there_is_room() {
    // It leaves a live run, and a claimed command of the same group, or a text on its way.
    for step in ["ipc.claimed", "deliver.saying"] {
        start_on_a_full_disk(step);
    }
}

fn start_on_a_full_disk(step: &str) {
    let root = Root::new("");
    root.settings(
        "[sandbox]\nkind = \"process\"\n[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 8\n",
    );
    let Some(disk) = Disk::under(&root, c"size=40m") else { return };
    root.g2(&["init"]);
    let daemon = root.serve_with(&[("G2_FAILPOINT", step)]);
    let mut expected = vec!["echo: first"];
    if step == "ipc.claimed" {
        assert_eq!(root.ask("local:main", "first"), "echo: first\n");
        root.put_command(
            "main",
            "messages",
            "left.json",
            &json!({"type": "send_message", "chatJid": "local:main", "text": "claimed"}),
        );
        expected.push("claimed");
    } else {
        root.send("local:main", "first");
    }
    assert_eq!(daemon.signal(), Some(9));
    if step == "deliver.saying" {
        // As a daemon leaves it that dies while a platform takes a text.
        root.change_store("UPDATE outbox SET status = 'sending' WHERE status = 'pending'");
    }
    fill(&disk.data);
    let daemon = root.serve();
    let status = root.run(&["--json", "status"]);
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    let said = String::from_utf8(status.stdout).unwrap();
    assert!(said.contains("MiB are free") && said.contains("limits.min_free_mib"), "{said}");
    fs::remove_file(disk.data.join("filler")).unwrap();
    wait_for("the run to be ended", || {
        (!root.rows(&["runs", "list"])[0]["ended_at"].is_null()).then_some(())
    });
    // Main is told that the disk is full, if the store has room for that.
    let said = || {
        let mut said = root.said("local:main");
        said.retain(|text| !text.starts_with("The disk is nearly full"));
        said
    };
    wait_for("all to be said", || (said() == expected).then_some(()));
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_search_on_a_full_disk_is_answered_once_earlier_sessions_are_archived() {
    let root = Root::new("");
    let Some(_disk) = Disk::under(&root, c"size=24m") else { return };
    root.g2(&["init"]);
    root.settings(UNWATCHED);
    root.g2(&["groups", "add", "evil", "--chat", "local:evil"]);
    let daemon = root.serve();
    let mut names = Vec::new();
    for n in 0..8 {
        let archive = json!({"type": "archive_session", "sessionId": format!("session-{n}"), "name": format!("Talk {n}"), "content": "of apples"});
        let search = json!({"type": "search_sessions", "query": "apples", "schemaVersion": 1, "requestId": format!("search-{n}")});
        for (name, command) in [(format!("{n}-archive.json"), archive), (format!("{n}-search.json"), search)]
        {
            let draft = root.data("ipc/evil/messages").join(format!("{name}.draft"));
            fs::write(draft, command.to_string()).unwrap();
            names.push(name);
        }
    }
    let filler = root.data("ipc/evil/state/filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
    drop(file);
    publish(&root, &names);
    wait_for("the disk to be said to be full", || root.log().contains("tried again").then_some(()));
    fs::remove_file(&filler).unwrap();
    for n in 0..8 {
        let reply = root.reply("evil", &format!("search-{n}"));
        let found = reply["result"]["sessions"].as_array().unwrap_or_else(|| panic!("search {n}: {reply}"));
        assert!(
            found.len() > n && found.iter().any(|row| row["name"] == format!("Talk {n}")),
            "search {n}: {reply}"
        );
    }
    assert!(!daemon.has_ended());
}

#[test]
fn a_box_that_cannot_be_written_keeps_its_files_until_it_can() {
    let root = two_groups();
    let daemon = root.serve();
    let boxed = root.data("ipc/evil/messages");
    let names = drafts(&root, "closed");
    let stopped = daemon.hold();
    publish(&root, &names);
    // The folder above as well: a box whose flags differ from those of it is set back.
    let folders = [boxed.parent().unwrap(), &boxed].map(|path| File::open(path).unwrap());
    let Ok(flags) = ioctl_getflags(&folders[1]) else {
        skipped("this file system has no flags");
        return;
    };
    let close = |folder: &File| ioctl_setflags(folder, flags | IFlags::IMMUTABLE);
    if let Err(error) = folders.iter().try_for_each(close) {
        skipped(&format!("no folder can be made immutable here ({error})"));
        return;
    }
    drop(stopped);
    let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("the claim to be refused", || root.log().contains("claiming failed").then_some(()));
        ask(&root, "good", "beside-a-closed-box");
        assert_eq!(root.rows(&["ipc", "list", "--group", "evil", "--state", "waiting"]).len(), names.len());
    }));
    // Before anything else: nobody could remove the folders.
    folders.iter().for_each(|folder| ioctl_setflags(folder, flags).unwrap());
    closed.unwrap();
    wait_for("all to be said", || (root.said("local:evil").len() == names.len()).then_some(()));
    let expected: Vec<String> = (0..50).map(|n| format!("closed {n}")).collect();
    assert_eq!(root.said("local:evil"), expected);
    assert!(!daemon.has_ended());
}
