//! `g2 restore`: nothing is done twice, nothing of a bad archive is believed, dead at each step.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test plays the user and looks at what was left"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::Read as _,
    os::unix::{
        fs::{FileExt as _, MetadataExt as _},
        process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{Root, hourly, wait_for};

/// SIGKILL.
const KILLED: i32 = 9;

/// A folder with a backup of a root.
struct Backup {
    folder: tempfile::TempDir,
}

impl Backup {
    fn of(root: &Root) -> Self {
        let backup = Self { folder: tempfile::tempdir().unwrap() };
        root.g2(&["backup", backup.file().to_str().unwrap()]);
        backup
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("g2.tar")
    }

    /// A root in another folder, out of it.
    fn restored(&self) -> (Root, Value) {
        let root = Root::empty();
        let told = root.json(&["restore", self.file().to_str().unwrap()]);
        (root, told)
    }

    /// Why it can't be restored. Nothing is left.
    fn refused(&self) -> String {
        let root = Root::empty();
        let output = root.run(&["restore", self.file().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(names(root.path()), Vec::<String>::new(), "{output:?}");
        let check = root.run(&["restore", "--check", self.file().to_str().unwrap()]);
        let why = String::from_utf8(output.stderr).unwrap();
        // What only opening the store can tell is not told by a check.
        assert!(check.status.code() == Some(1) || why.contains("store"), "{why} {check:?}");
        why
    }

    /// Makes the archive anew of what `change` makes of its entries.
    fn rewrite(&self, change: impl Fn(&mut Vec<Entry>)) {
        let mut archive = tar::Archive::new(fs::File::open(self.file()).unwrap());
        let mut entries: Vec<Entry> =
            archive.entries().unwrap().map(|entry| Entry::read(entry.unwrap())).collect();
        change(&mut entries);
        let mut builder = tar::Builder::new(fs::File::create(self.file()).unwrap());
        for entry in &entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(entry.kind);
            header.set_mode(0o644);
            let is_link = entry.kind == tar::EntryType::Link;
            let bytes: &[u8] = if is_link { &[] } else { &entry.bytes };
            header.set_size(bytes.len() as u64);
            // As an attacker writes it: no check of the name.
            header.as_gnu_mut().unwrap().name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
            if entry.kind == tar::EntryType::Symlink {
                header.set_link_name("/etc/passwd").unwrap();
            }
            if is_link {
                header.as_gnu_mut().unwrap().linkname[..entry.bytes.len()].copy_from_slice(&entry.bytes);
            }
            header.set_cksum();
            builder.append(&header, bytes).unwrap();
        }
        builder.finish().unwrap();
    }
}

#[derive(Clone)]
struct Entry {
    path: String,
    kind: tar::EntryType,
    bytes: Vec<u8>,
}

impl Entry {
    fn read(mut entry: tar::Entry<'_, fs::File>) -> Self {
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        Self { path, kind: entry.header().entry_type(), bytes }
    }

    fn file(path: &str, bytes: &[u8]) -> Self {
        Self { path: path.into(), kind: tar::EntryType::Regular, bytes: bytes.into() }
    }
}

/// Has the manifest say what the entries are.
fn told_by_manifest(entries: &mut [Entry], with_secrets: bool) {
    let files: Vec<Value> = entries
        .iter()
        .filter(|entry| entry.kind == tar::EntryType::Regular && entry.path != "manifest.json")
        .map(|entry| {
            let sha256: String =
                Sha256::digest(&entry.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({"path": entry.path, "size": entry.bytes.len(), "sha256": sha256})
        })
        .collect();
    let manifest = entries.last_mut().unwrap();
    let mut said: Value = serde_json::from_slice(&manifest.bytes).unwrap();
    said["files"] = files.into();
    said["with_secrets"] = with_secrets.into();
    manifest.bytes = serde_json::to_vec(&said).unwrap();
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What is held back, as kind and text.
fn held(root: &Root) -> Vec<(String, String)> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    root.rows(&["restored", "list"]).iter().map(|row| (text(row, "kind"), text(row, "text"))).collect()
}

#[test]
fn wherever_the_old_daemon_was_nothing_is_said_or_answered_until_a_person_says_so() {
    for (point, kinds) in [
        ("message.stored", &["message"][..]),
        ("message.judged", &["message"]),
        ("run.handed", &["message"]),
        ("run.recorded", &["message"]),
        ("run.record", &["message"]),
        ("deliver.saying", &["text"]),
    ] {
        let old = Root::new("");
        let daemon = old.serve_with(&[("G2_FAILPOINT", point)]);
        let _ = old.run(&["send", "--chat", "local:main", "hello"]);
        wait_for("the daemon's death", || daemon.has_ended().then_some(()));
        let backup = Backup::of(&old);
        // The old daemon goes on after the backup.
        let _old = old.serve();
        wait_for("the old daemon's answer", || {
            old.said("local:main").contains(&"echo: hello".into()).then_some(())
        });

        let (root, told) = backup.restored();
        let found = held(&root);
        for kind in kinds {
            assert!(
                found.iter().any(|(is, text)| is == kind && text.contains("hello")),
                "{point}: {found:?}"
            );
        }
        assert_eq!(
            told["held"]["texts"].as_i64().unwrap() + told["held"]["messages"].as_i64().unwrap(),
            found.len() as i64
        );
        let daemon = root.serve();
        assert_eq!(root.ask("local:main", "after"), "echo: after\n", "{point}");
        assert_eq!(root.said("local:main"), ["echo: after"], "{point}");
        let status = root.json(&["status"]);
        assert!(
            status["problems"].to_string().contains("a restore or an import held back 1 "),
            "{point}: {status}"
        );
        assert_eq!(held(&root), found, "{point}: a start decides nothing");

        root.g2(&["restored", "resume", "--all"]);
        wait_for("the answer", || root.said("local:main").contains(&"echo: hello".into()).then_some(()));
        assert_eq!(root.ask("local:main", "last"), "echo: last\n", "{point}");
        let mut said = root.said("local:main");
        said.sort();
        assert_eq!(said, ["echo: after", "echo: hello", "echo: last"], "{point}");
        assert_eq!(held(&root), []);
        let status = root.json(&["status"]);
        assert!(!status["problems"].to_string().contains("held back"), "{point}: {status}");
        drop(daemon);
    }
}

#[test]
fn what_is_given_up_is_neither_said_nor_answered_and_stays_in_the_lists() {
    let old = Root::new("");
    let daemon = old.serve_with(&[("G2_FAILPOINT", "run.handed")]);
    let _ = old.run(&["send", "hello"]);
    wait_for("the daemon's death", || daemon.has_ended().then_some(()));
    let (root, _) = Backup::of(&old).restored();
    let row = root.rows(&["restored", "list"]).remove(0);
    let seq = row["id"].to_string();
    let none = root.run(&["restored", "drop", "--text", "77", "--message", &seq]);
    assert!(String::from_utf8(none.stderr).unwrap().contains("text 77 is not held back"));
    assert_eq!(held(&root).len(), 1, "all of them or none");
    root.g2(&["restored", "drop", "--message", &seq]);
    assert_eq!(held(&root), []);
    let why = root.why(row["id"].as_i64().unwrap());
    assert_eq!(why["wirings"][0]["rule"], "skipped", "{why}");
    assert!(why.to_string().contains("held back by a restore, then given up by uid"), "{why}");
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "after"), "echo: after\n");
    assert_eq!(root.said("local:main"), ["echo: after"]);
}

#[test]
fn tasks_go_on_with_their_next_time_whatever_they_make_up_for() {
    let old = Root::new("");
    let add = |id: &str, schedule: [&str; 2]| {
        old.g2(&[
            "tasks",
            "add",
            "--group",
            "main",
            "--id",
            id,
            schedule[0],
            schedule[1],
            "--catch-up",
            "all",
            "hi",
        ]);
    };
    add("hourly", ["--cron", &hourly()]);
    add("once", ["--at", "2099-01-01T00:00:00"]);
    add("later", ["--at", "2099-01-01T00:00:00"]);
    old.change_store("UPDATE tasks SET next_run = 1767225600000 WHERE id IN ('hourly', 'once')");
    old.change_store("UPDATE tasks SET schedule_value = '2026-01-01T00:00:00' WHERE id = 'once'");
    let (root, told) = Backup::of(&old).restored();
    let over = told["passed_over"].as_array().unwrap();
    assert_eq!(
        over.iter().map(|over| over["task"].as_str().unwrap()).collect::<Vec<_>>(),
        ["hourly", "once"]
    );
    assert!(over[0]["count"].as_u64().unwrap() > 100 && over[0]["next"].is_string(), "{over:?}");
    assert_eq!((&over[1]["count"], &over[1]["next"]), (&1.into(), &Value::Null));
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "after"), "echo: after\n");
    assert_eq!(root.rows(&["runs", "list"]).len(), 1, "the message's alone");
    let tasks = root.rows(&["tasks", "list"]);
    let of = |id: &str| tasks.iter().find(|task| task["id"] == id).unwrap();
    assert_eq!(of("once")["status"], "completed");
    assert_eq!(of("later")["next_run"], "2099-01-01T00:00:00.000Z");
    let history = root.json(&["tasks", "history", "hourly"]);
    assert!(history.to_string().contains("host down"), "{history}");
}

#[test]
fn a_restored_root_is_another_instance_with_what_the_old_one_had() {
    let old = Root::new("");
    let daemon = old.serve();
    assert_eq!(old.ask("local:main", "before"), "echo: before\n");
    fs::write(old.path().join("groups/main/note.txt"), "kept").unwrap();
    let instance = old.json(&["status"])["instance"].clone();
    old.g2(&["web", "tokens", "add", "ci", "--purpose", "operate"]);
    let backup = Backup::of(&old);
    drop(daemon);
    let (root, told) = backup.restored();
    // A token that was ended since the backup would be let in again.
    assert_eq!(root.rows(&["web", "tokens", "list"]), Vec::<serde_json::Value>::new());
    assert_eq!((&told["held"]["texts"], &told["held"]["messages"]), (&0.into(), &0.into()));
    assert_eq!(fs::read_to_string(root.path().join("groups/main/note.txt")).unwrap(), "kept");
    assert_eq!(fs::metadata(root.data("g2.sqlite")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(root.data("")).unwrap().mode() & 0o777, 0o700);
    assert!(!names(root.path()).contains(&".restoring".to_owned()));
    let _daemon = root.serve();
    assert_ne!(root.json(&["status"])["instance"], instance);
    assert_eq!(root.said("local:main"), ["echo: before"]);
    assert_eq!(root.ask("local:main", "after"), "echo: after\n");
}

#[test]
fn an_archive_is_shown_and_checked_without_being_restored() {
    let old = Root::new("");
    let backup = Backup::of(&old);
    let nowhere = Root::empty();
    let text = nowhere.g2(&["restore", "--list", backup.file().to_str().unwrap()]);
    assert!(text.contains("  data/g2.sqlite\n") && text.contains("  g2.toml\n"), "{text}");
    assert!(text.contains("is right:") && text.contains("without secrets"), "{text}");
    let contents = nowhere.json(&["restore", "--check", backup.file().to_str().unwrap()]);
    assert_eq!(contents["files"][0]["path"], "data/g2.sqlite");
    assert_eq!(names(nowhere.path()), Vec::<String>::new());
}

#[test]
fn a_root_that_holds_something_is_left_as_it_is() {
    let old = Root::new("");
    let backup = Backup::of(&old);
    let before = names(old.path());
    let output = old.run(&["restore", backup.file().to_str().unwrap()]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("is not empty, it holds"));
    assert_eq!(names(old.path()), before);
    let other = Root::empty();
    fs::write(other.path().join("mine"), "mine").unwrap();
    assert_eq!(other.run(&["restore", backup.file().to_str().unwrap()]).status.code(), Some(1));
    assert_eq!(names(other.path()), ["mine"]);
}

#[test]
fn nothing_of_an_archive_is_believed() {
    let old = Root::new("");
    let link = Entry { path: "groups/main/link".into(), kind: tar::EntryType::Symlink, bytes: Vec::new() };
    let hard = |to: &str| Entry { kind: tar::EntryType::Link, bytes: to.into(), ..link.clone() };
    let header =
        Entry { path: "x".into(), kind: tar::EntryType::XHeader, bytes: "22 path=../../../evil\n".into() };
    type Change<'a> = Box<dyn Fn(&mut Vec<Entry>) + 'a>;
    type Say = fn(&mut Value);
    let saying = |say: Say| -> Change<'_> {
        Box::new(move |entries: &mut Vec<Entry>| {
            let manifest = entries.last_mut().unwrap();
            let mut said: Value = serde_json::from_slice(&manifest.bytes).unwrap();
            say(&mut said);
            manifest.bytes = serde_json::to_vec(&said).unwrap();
        })
    };
    let fifo = Entry { kind: tar::EntryType::Fifo, ..link.clone() };
    let with = |entry: Entry| -> Change<'_> {
        Box::new(move |entries: &mut Vec<Entry>| {
            entries.insert(1, entry.clone());
            told_by_manifest(entries, false);
        })
    };
    let cases: Vec<(Change<'_>, &str)> = vec![
        (with(hard("data/g2.sqlite")), "another name of no file of its part"),
        (with(hard("g2.toml")), "another name of no file of its part"),
        (with(hard("/etc/passwd")), "another name of no file of its part"),
        (with(hard("../../etc/passwd")), "another name of no file of its part"),
        (with(hard("groups/main/link")), "another name of no file of its part"),
        (with(header), "is none of a backup's"),
        (with(link), "which no backup has"),
        (with(fifo), "which no backup has"),
        (with(Entry::file("groups/../../evil", b"x")), "is no part of a root"),
        (with(Entry::file("/tmp/evil", b"x")), "is no part of a root"),
        (with(Entry::file("data/lock", b"x")), "is no part of a root"),
        (with(Entry::file("data/g2.sqlite", b"x")), "making \"data/g2.sqlite\" failed"),
        (with(Entry::file(".env", b"KEY=x\n")), "is a secret"),
        (Box::new(|entries| drop(entries.pop())), "its end is missing"),
        (Box::new(|entries| entries[0].bytes[5000] ^= 1), "is not as the manifest says"),
        (Box::new(|entries| drop(entries.remove(1))), "the manifest"),
        (
            Box::new(|entries| {
                let entry = entries.remove(0);
                entries.insert(1, entry);
                told_by_manifest(entries, false);
            }),
            "does not begin with the store",
        ),
        (saying(|said| said["version"] = 3.into()), "its format is version 3"),
        (
            saying(|said| said["made_at"] = "\u{1b}[2Jnow".into()),
            "does not say when it was made, but \"\\u{1b}[2Jnow",
        ),
        (saying(|said| said["made_by"] = "g2\nall is well".into()), "which program wrote it, but \"g2\\nall"),
    ];
    for (change, why) in cases {
        let backup = Backup::of(&old);
        backup.rewrite(change);
        let told = backup.refused();
        assert!(told.contains(why), "{why}: {told}");
    }
    let backup = Backup::of(&old);
    let size = fs::metadata(backup.file()).unwrap().len();
    fs::File::options().write(true).open(backup.file()).unwrap().set_len(size / 2).unwrap();
    backup.refused();
    fs::write(backup.file(), "no archive").unwrap();
    backup.refused();
}

#[test]
fn files_with_several_names_and_with_holes_come_back_as_they_were() {
    let old = Root::new("");
    let at = |root: &Root, name: &str| root.path().join("groups/main").join(name);
    let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(at(&old, "big"), &bytes).unwrap();
    let deep = format!("{}/{}", "d".repeat(120), "n".repeat(120));
    fs::create_dir(at(&old, &"d".repeat(120))).unwrap();
    for n in 0..400 {
        fs::hard_link(at(&old, "big"), at(&old, &format!("again {n}"))).unwrap();
    }
    fs::hard_link(at(&old, "big"), at(&old, &deep)).unwrap();
    // The same file in the folder of another group is there by the owner's hand, and becomes one of its own.
    fs::create_dir_all(old.path().join("groups/other")).unwrap();
    fs::hard_link(at(&old, "big"), old.path().join("groups/other/big")).unwrap();
    fs::write(at(&old, "line\nfeed \"quoted\" \u{1}"), "odd").unwrap();
    let holed = fs::File::options().read(true).write(true).create_new(true).open(at(&old, "holes")).unwrap();
    holed.set_len(3 << 30).unwrap();
    for place in [0_u64, 70_000, 1 << 30, (3 << 30) - 5] {
        holed.write_all_at(b"piece", place).unwrap();
    }
    fs::hard_link(at(&old, "holes"), at(&old, "holes too")).unwrap();
    fs::File::create(at(&old, "nothing")).unwrap().set_len(50 << 20).unwrap();
    let backup = Backup::of(&old);
    let size = fs::metadata(backup.file()).unwrap().len();
    assert!(size < 12 << 20, "{size}");

    let (root, _) = backup.restored();
    assert!(fs::read(at(&root, "big")).unwrap() == bytes);
    let inode = |root: &Root, name: &str| fs::metadata(at(root, name)).unwrap().ino();
    for name in [&deep, "again 0", "again 399"] {
        assert_eq!(inode(&root, name), inode(&root, "big"), "{name}");
    }
    assert_eq!(fs::metadata(at(&root, "big")).unwrap().nlink(), 402);
    assert!(fs::read(root.path().join("groups/other/big")).unwrap() == bytes);
    assert_eq!(fs::metadata(root.path().join("groups/other/big")).unwrap().nlink(), 1);
    let is = |file: &fs::File, place: u64| {
        let mut bytes = [1; 7];
        file.read_exact_at(&mut bytes, place).unwrap();
        bytes
    };
    let again = fs::File::open(at(&root, "holes")).unwrap();
    for place in [0, 69_999, 1 << 30, (2 << 30) + 3, (3 << 30) - 7] {
        assert_eq!(is(&again, place), is(&holed, place), "{place}");
    }
    let meta = again.metadata().unwrap();
    assert!(meta.len() == 3 << 30 && meta.blocks() < 1000, "{} {}", meta.len(), meta.blocks());
    assert_eq!(inode(&root, "holes too"), inode(&root, "holes"));
    assert_eq!(fs::metadata(at(&root, "nothing")).unwrap().len(), 50 << 20);
    assert_eq!(fs::read(at(&root, "line\nfeed \"quoted\" \u{1}")).unwrap(), b"odd");
    // Any other program that reads such archives reads it, too.
    let out = tempfile::tempdir().unwrap();
    let tar =
        std::process::Command::new("tar").arg("-xSf").arg(backup.file()).arg("-C").arg(out.path()).status();
    assert!(tar.unwrap().success());
    let by_tar = fs::File::open(out.path().join("groups/main/holes")).unwrap();
    assert_eq!(is(&by_tar, (3 << 30) - 7), is(&holed, (3 << 30) - 7));
    let odd = out.path().join("groups/main/line\nfeed \"quoted\" \u{1}");
    assert_eq!(fs::read(odd).unwrap(), b"odd");
    assert_eq!(fs::metadata(out.path().join("groups/main").join(&deep)).unwrap().nlink(), 402);
}

#[test]
fn what_is_no_plain_archive_is_told_apart() {
    let old = Root::new("");
    let backup = Backup::of(&old);
    for (head, unpack) in [(&b"\x1f\x8b\x08\xff\xff"[..], "gunzip"), (b"\x28\xb5\x2f\xfd\xff", "unzstd")] {
        fs::write(backup.file(), [head, &[0xff; 2000]].concat()).unwrap();
        let told = backup.refused();
        assert!(told.contains(&format!("unpack it first, with `{unpack}`")), "{told}");
    }
    // What the reader says quotes bytes that are none of a text.
    fs::write(backup.file(), [0xff; 2000]).unwrap();
    let told = backup.refused();
    assert!(told.contains("this is no backup, or it is cut off") && !told.contains('\u{fffd}'), "{told}");
    // Nobody writes into a pipe.
    let pipe = old.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let mut child = old.command(&["restore", "--check", pipe.to_str().unwrap()]).spawn().unwrap();
    let ended = wait_for("the check to end", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1));
}

#[test]
fn a_store_with_more_than_ours_and_a_newer_or_an_old_one_are_refused() {
    let old = Root::new("");
    for (sql, why) in [
        (
            "CREATE TRIGGER evil AFTER INSERT ON messages BEGIN DELETE FROM users; END",
            "none of ours: trigger evil",
        ),
        ("CREATE VIEW evil AS SELECT 1", "none of ours: view evil"),
        ("DROP INDEX outbox_once", "none of ours: index outbox_once"),
        ("PRAGMA user_version = 9999", "install the newer g2"),
        ("PRAGMA user_version = 66", "goes on from 67 of the old count"),
        (
            "PRAGMA foreign_keys = OFF; UPDATE groups SET folder = '../../../X'",
            "groups.folder names no group; folder name \"../../../X\" is not allowed",
        ),
        (
            "PRAGMA foreign_keys = OFF; UPDATE wirings SET group_folder = 'a/b'",
            "group_folder names no group; folder name \"a/b\" is not allowed",
        ),
        ("PRAGMA ignore_check_constraints = ON; UPDATE chats SET kind = 'odd'", "which is no chat kind"),
    ] {
        let backup = Backup::of(&old);
        backup.rewrite(|entries| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("g2.sqlite");
            fs::write(&path, &entries[0].bytes).unwrap();
            let store = rusqlite::Connection::open(&path).unwrap();
            store.execute_batch(sql).unwrap();
            drop(store);
            entries[0].bytes = fs::read(&path).unwrap();
            told_by_manifest(entries, false);
        });
        let told = backup.refused();
        assert!(told.contains(why), "{why}: {told}");
    }
}

#[test]
fn wherever_a_restore_dies_there_is_a_whole_root_or_none() {
    let old = Root::new("");
    let daemon = old.serve_with(&[("G2_FAILPOINT", "run.handed")]);
    let _ = old.run(&["send", "hello"]);
    wait_for("the daemon's death", || daemon.has_ended().then_some(()));
    fs::write(old.path().join("groups/main/note.txt"), "kept").unwrap();
    let backup = Backup::of(&old);
    let file = backup.file();
    for (point, is_there) in [
        ("restore.begun", false),
        ("restore.unpacked", false),
        ("restore.held", false),
        ("restore.synced", false),
        ("restore.moved", false),
        ("restore.placed", true),
    ] {
        let root = Root::empty();
        let restore = ["restore", file.to_str().unwrap()];
        let output = root.command(&restore).env("G2_FAILPOINT", point).output().unwrap();
        assert_eq!(output.status.signal(), Some(KILLED), "{point}: {output:?}");
        if !is_there {
            for command in [&["serve"][..], &["init"], &["init", "--fresh"], &["messages", "list"], &["up"]] {
                let refused = root.run(command);
                let why = String::from_utf8(refused.stderr).unwrap();
                assert_eq!(refused.status.code(), Some(1), "{point} {command:?}: {why}");
                assert!(why.contains("has not ended"), "{point} {command:?}: {why}");
            }
            root.g2(&restore);
        }
        assert_eq!(held(&root), [("message".to_owned(), "hello".to_owned())], "{point}");
        assert_eq!(fs::read_to_string(root.path().join("groups/main/note.txt")).unwrap(), "kept", "{point}");
        let _daemon = root.serve();
        assert_eq!(root.ask("local:main", "after"), "echo: after\n", "{point}");
        assert!(!names(root.path()).contains(&".restoring".to_owned()), "{point}");
    }
}

#[test]
fn two_restores_never_work_in_one_root() {
    let old = Root::new("");
    let backup = Backup::of(&old);
    let root = Root::empty();
    let mark = backup.folder.path().join("reached");
    let file = backup.file();
    let restore = ["restore", file.to_str().unwrap()];
    let mut command = root.command(&restore);
    command.env("G2_FAILPOINT", "restore.unpacked:1:pause").env("G2_FAILPOINT_FILE", &mark);
    let mut first = command.spawn().unwrap();
    wait_for("the first to be at work", || mark.exists().then_some(()));
    let second = root.run(&restore);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(String::from_utf8(second.stderr).unwrap().contains("another restore"));
    root.g2(&restore);
    root.g2(&["groups", "list"]);
}
