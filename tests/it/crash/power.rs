//! The power goes off: the store lives on a file system of its own, whose image is copied as it is at one instant, and
//! a daemon starts on the copy. What was not yet written to the disk is lost, as in life; nothing is synced for it.
//!
//! Needs root and loop devices. Says so and is over where there are none, unless `G2_REQUIRE_ROOT=1`.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests make and mount a disk")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use serde_json::{Value, json};

use super::{
    ledger::Ledger,
    scene::{all_settled, arm, die_at, for_each, names},
};
use crate::support::{Root, skipped, wait_for};

const CHAT: &str = "local:main";

/// A root whose `data/` is a disk of its own.
struct Machine {
    root: Root,
    image: PathBuf,
    copies: usize,
}

fn run(program: &str, arguments: &[&Path]) -> Output {
    Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"))
}

fn must(program: &str, arguments: &[&Path]) {
    let output = run(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Mounts an image. The options are what a machine would use: nothing is written through.
fn mount(image: &Path, at: &Path) -> Result<(), String> {
    let output = run("mount", &[Path::new("-o"), Path::new("loop,noatime"), image, at]);
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Whether a disk can be made here.
fn disks() -> bool {
    static THERE: LazyLock<Result<(), String>> = LazyLock::new(|| {
        if !rustix::process::geteuid().is_root() {
            return Err("not root".into());
        }
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let (image, at) = (dir.path().join("image"), dir.path().join("at"));
        fs::create_dir(&at).map_err(|e| e.to_string())?;
        make(&image)?;
        mount(&image, &at)?;
        must("umount", &[&at]);
        Ok(())
    });
    match &*THERE {
        Ok(()) => true,
        Err(why) => {
            skipped(&format!("no loop devices ({why})"));
            false
        }
    }
}

fn make(image: &Path) -> Result<(), String> {
    fs::File::create(image).and_then(|file| file.set_len(64 << 20)).map_err(|e| e.to_string())?;
    let made = Command::new("mkfs.ext4").arg("-q").arg(image).output().map_err(|e| e.to_string())?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

impl Machine {
    /// Lays a root out and moves its `data/` to a disk.
    fn new() -> Option<Self> {
        disks().then(|| {
            let root = Root::new("");
            let image = root.path().join("disk-0");
            make(&image).unwrap();
            let (laid_out, data) = (root.path().join("laid-out"), root.data(""));
            fs::rename(&data, &laid_out).unwrap();
            fs::create_dir(&data).unwrap();
            mount(&image, &data).unwrap();
            must("cp", &[Path::new("-a"), &laid_out.join("."), &data]);
            // What was there before is on the disk.
            must("sync", &[Path::new("--file-system"), &data]);
            Self { root, image, copies: 0 }
        })
    }

    /// Takes the disk as it is now.
    fn cut(&mut self) -> PathBuf {
        self.copies += 1;
        let copy = self.root.path().join(format!("disk-{}", self.copies));
        // The image file is what the device has been given so far. Pages of the mounted file system are not in it.
        // Two copies in a row that are the same were made while nothing was written: both are the disk of one instant.
        let again = copy.with_extension("again");
        wait_for("the disk to stand still", || {
            must("cp", &[Path::new("--sparse=always"), &self.image, &copy]);
            must("cp", &[Path::new("--sparse=always"), &self.image, &again]);
            run("cmp", &[&copy, &again]).status.success().then_some(())
        });
        fs::remove_file(&again).unwrap();
        copy
    }

    /// Puts a disk that was taken into the place of the one that is there. No daemon may live.
    fn boot(&mut self, disk: PathBuf) {
        must("umount", &[&self.root.data("")]);
        mount(&disk, &self.root.data("")).unwrap();
        self.image = disk;
    }

    /// What the next daemon will find of `it.json`.
    fn found(&self) -> Found {
        let in_box = self.root.data("ipc/main/messages/it.json");
        let claimed = names(&self.root, "claimed").pop().map(|name| self.root.data("claimed").join(name));
        let file = claimed.or_else(|| in_box.exists().then_some(in_box));
        let receipts =
            Ledger::of_the_dead(&self.root).number("SELECT count(*) FROM receipts WHERE name = 'it.json'");
        Found { bytes: file.map(|file| fs::metadata(file).unwrap().len() > 0), receipt: receipts == 1 }
    }
}

/// What is on the disk of `it.json`.
#[derive(Debug)]
struct Found {
    /// Whether its file has its bytes; `None` without a file. A file system may keep the name and lose the bytes of a
    /// file that nobody synced.
    bytes: Option<bool>,
    receipt: bool,
}

impl Drop for Machine {
    fn drop(&mut self) {
        run("umount", &[Path::new("--lazy"), &self.root.data("")]);
    }
}

fn command() -> Value {
    json!({"type": "send_message", "requestId": "r1", "chatJid": CHAT, "text": "by file"})
}

/// Fills the write-ahead log until it was checkpointed and begun anew several times.
fn wear_the_log_in(root: &Root, rounds: usize) {
    let settings = root.path().join("g2.toml");
    let wide = fs::read_to_string(&settings)
        .unwrap()
        .replace("[limits]\n", "[limits]\ntask_prompt_kib = 256\ntasks_mib = 64\n");
    fs::write(settings, wide).unwrap();
    let daemon = root.serve();
    let filler = "x".repeat(200_000);
    for n in 0..rounds {
        let json = json!({"type": "schedule_task", "taskId": format!("t{n}"), "prompt": filler, "schedule_type": "cron", "schedule_value": "0 9 1 1 *"});
        root.put_command("main", "tasks", &format!("fill-{n}.json"), &json);
        root.settled(n + 1);
    }
    assert_eq!(daemon.terminate(), Some(0));
}

/// Cuts the power with the daemon standing still at `point`; returns whether the command had been committed.
fn cut_at(machine: &mut Machine, point: &str, worn: usize) {
    let daemon = arm(&machine.root, &format!("{point}:{}:pause", 1));
    machine.root.put_command("main", "messages", "it.json", &command());
    wait_for(point, || machine.root.path().join("reached").exists().then_some(()));
    let disk = machine.cut();
    daemon.kill();
    machine.boot(disk);
    let found = machine.found();
    eprintln!("{point}, log worn {worn}: {found:?}");
    let committed = ["ipc.committed", "ipc.replied", "ipc.set_aside"].contains(&point);
    assert_eq!(found.receipt, committed, "{point}: durable exactly from the commit on");
    assert!(!committed || found.bytes.is_some(), "{point}");

    let daemon = machine.root.serve();
    let emptied = !committed && found.bytes == Some(false);
    if emptied {
        let rows = all_settled(&machine.root);
        assert_eq!(rows.iter().map(|row| &row["state"]).collect::<Vec<_>>(), ["dead"], "{point}: {rows:?}");
    }
    if emptied || found.bytes.is_none() {
        // Before the commit a power cut may lose it, and nobody was told otherwise: its writer tries again.
        machine.root.put_command("main", "messages", "it.json", &command());
    }
    let reply = machine.root.reply("main", "r1");
    assert_eq!(reply["ok"], true, "{point}");
    let rows = all_settled(&machine.root);
    let applied = rows.iter().filter(|row| row["name"] == "it.json" && row["state"] == "applied");
    assert_eq!(applied.count(), 1, "{point}: {rows:?}");
    wait_for("it to be said", || (!machine.root.said(CHAT).is_empty()).then_some(()));
    assert_eq!(machine.root.rows(&["outbox", "list"]).len(), 1, "{point}: applied once");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_command_whose_power_was_cut_at_any_step_is_applied_once_and_answered() {
    let points = ["ipc.claimed", "ipc.decided", "ipc.committed", "ipc.replied", "ipc.set_aside"];
    for_each(&points, |point| {
        let Some(mut machine) = Machine::new() else { return };
        cut_at(&mut machine, point, 0);
    });
}

#[test]
fn a_log_that_was_begun_anew_keeps_the_last_commit() {
    // Over 1 000 pages the log is checkpointed, and the next commit overwrites its beginning.
    for_each(&[24_usize, 30], |rounds| {
        let Some(mut machine) = Machine::new() else { return };
        wear_the_log_in(&machine.root, *rounds);
        cut_at(&mut machine, "ipc.committed", *rounds);
        assert_eq!(machine.root.rows(&["tasks", "list"]).len(), *rounds);
    });
}

#[test]
fn a_settled_command_whose_power_was_cut_right_after_is_not_applied_again() {
    let Some(mut machine) = Machine::new() else { return };
    let daemon = machine.root.serve();
    machine.root.put_command("main", "messages", "it.json", &command());
    machine.root.reply("main", "r1");
    wait_for("it to be put away", || names(&machine.root, "claimed").is_empty().then_some(()));
    let disk = machine.cut();
    daemon.kill();
    machine.boot(disk);
    let found = machine.found();
    eprintln!("after the last step: {found:?}");
    assert!(found.receipt);
    let _daemon = machine.root.serve();
    all_settled(&machine.root);
    wait_for("it to be said", || (!machine.root.said(CHAT).is_empty()).then_some(()));
    assert_eq!(machine.root.rows(&["outbox", "list"]).len(), 1);
}

#[test]
fn an_accepted_message_survives_the_power() {
    let Some(mut machine) = Machine::new() else { return };
    let daemon = arm(&machine.root, "run.handed:1:pause");
    assert_eq!(super::client::send(&machine.root, CHAT, "hello"), 1);
    let disk = machine.cut();
    daemon.kill();
    machine.boot(disk);
    let _daemon = machine.root.serve();
    super::client::rest(&machine.root, CHAT);
    assert_eq!(machine.root.said(CHAT), ["echo: hello"]);
    assert_eq!(super::client::send(&machine.root, CHAT, "hello"), 1);
}

#[test]
fn a_file_that_an_earlier_daemon_named_and_did_not_sync_is_on_the_disk_when_its_text_is() {
    for_each(&["media.named", "media.kept"], |point| {
        let Some(mut machine) = Machine::new() else { return };
        fs::write(machine.root.path().join("groups/main/a.txt"), "what is sent").unwrap();
        let media = json!({"type": "media", "requestId": "r1", "chatJid": CHAT, "filePath": "a.txt", "mediaType": "document"});
        die_at(&machine.root, point, || machine.root.put_command("main", "messages", "it.json", &media));
        let daemon = arm(&machine.root, "ipc.committed:1:pause");
        wait_for("the commit", || machine.root.path().join("reached").exists().then_some(()));
        let disk = machine.cut();
        daemon.kill();
        machine.boot(disk);
        let _daemon = machine.root.serve();
        wait_for("it to be said", || (!machine.root.said(CHAT).is_empty()).then_some(()));
        let rows = machine.root.rows(&["outbox", "list"]);
        let hex = rows[0]["attachments"][0]["digest"].as_str().unwrap();
        let kept = machine.root.data("media").join(&hex[..2]).join(hex);
        assert_eq!(fs::read_to_string(kept).unwrap(), "what is sent", "{point}");
    });
}
