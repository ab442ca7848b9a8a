//! The power goes off: the store lives on a file system of its own, whose image is copied as it is at one instant, and
//! a daemon starts on the copy. What was not yet written to the disk is lost, as in life; nothing is synced for it.
//! `forgetful` has many more losses; here the kernel's own file system forgets, and a daemon acts on a file that an earlier one
//! did not sync.
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
    scene::{all_settled, arm, die_at},
};
use crate::support::{Root, skipped, wait_for};

const CHAT: &str = "local:main";
/// How many large commits wear the log in.
const ROUNDS: usize = 24;

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

#[test]
fn a_log_that_was_begun_anew_keeps_the_last_commit() {
    let Some(mut machine) = Machine::new() else { return };
    // Over 1 000 pages the log is checkpointed, and the next commit overwrites its beginning.
    wear_the_log_in(&machine.root, ROUNDS);
    let daemon = arm(&machine.root, "ipc.committed:1:pause");
    machine.root.put_command("main", "messages", "it.json", &command());
    wait_for("the commit", || machine.root.path().join("reached").exists().then_some(()));
    let disk = machine.cut();
    daemon.kill();
    machine.boot(disk);
    let receipts = "SELECT count(*) FROM receipts WHERE name = 'it.json'";
    assert_eq!(Ledger::of_the_dead(&machine.root).number(receipts), 1);
    let daemon = machine.root.serve();
    assert_eq!(machine.root.reply("main", "r1")["ok"], true);
    let rows = all_settled(&machine.root);
    let applied = rows.iter().filter(|row| row["name"] == "it.json" && row["state"] == "applied");
    assert_eq!(applied.count(), 1, "{rows:?}");
    wait_for("it to be said", || (!machine.root.said(CHAT).is_empty()).then_some(()));
    assert_eq!(machine.root.rows(&["outbox", "list"]).len(), 1, "applied once");
    assert_eq!(machine.root.rows(&["tasks", "list"]).len(), ROUNDS);
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_file_that_an_earlier_daemon_named_and_did_not_sync_is_on_the_disk_when_its_text_is() {
    let Some(mut machine) = Machine::new() else { return };
    fs::write(machine.root.path().join("groups/main/a.txt"), "what is sent").unwrap();
    let media = json!({"type": "media", "requestId": "r1", "chatJid": CHAT, "filePath": "a.txt", "mediaType": "document"});
    die_at(&machine.root, "media.named", || {
        machine.root.put_command("main", "messages", "it.json", &media);
    });
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
    assert_eq!(fs::read_to_string(kept).unwrap(), "what is sent");
}
