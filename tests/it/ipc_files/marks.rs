//! What a box's owner can set beside its mode, on real file systems: flags, and a project for all that is in it.
#![expect(clippy::disallowed_types, reason = "makes and mounts disks")]

use crate::support::skipped;
use std::process::Command;

use g2::ipc::peek;

use super::*;

/// A file system of its own, in a file.
struct Disk {
    at: tempfile::TempDir,
}

fn run(words: &[&str], paths: &[&Path]) -> Result<(), String> {
    let done = Command::new(words[0]).args(&words[1..]).args(paths).output();
    let done = done.map_err(|e| format!("{}: {e}", words[0]))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

impl Disk {
    fn new(mkfs: &[&str]) -> Result<Self, String> {
        let at = tempfile::tempdir().unwrap();
        let image = at.path().join("image");
        File::create(&image).and_then(|file| file.set_len(320 << 20)).unwrap();
        fs::create_dir(at.path().join("root")).unwrap();
        run(mkfs, &[&image])?;
        run(&["mount", "-o", "loop"], &[&image, &at.path().join("root")])?;
        Ok(Self { at })
    }

    fn world(&self) -> (Arc<HostDirs>, Claims, GroupBoxes) {
        let host = HostDirs::open(&self.at.path().join("root")).unwrap();
        let claims = Claims::open(&host, 0).unwrap();
        let boxes = GroupBoxes::open(&host, &folder("main"), None).unwrap();
        (host, claims, boxes)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(&["umount"], &[&self.at.path().join("root")]);
    }
}

/// Disks that have projects, with the words that mark a directory on them.
fn disks() -> Vec<(&'static str, Disk, &'static [&'static str])> {
    let kinds: [(&[&str], &[&str]); 2] = [
        (&["mkfs.ext4", "-q", "-O", "project,quota"], &["chattr", "-p", "4242", "+PSD"]),
        (&["mkfs.xfs", "-q"], &["xfs_io", "-c", "chproj 4242", "-c", "chattr +Ps"]),
    ];
    let mut made = Vec::new();
    let mut none = String::new();
    for (mkfs, mark) in kinds {
        match Disk::new(mkfs) {
            Ok(disk) => made.push((mkfs[0], disk, mark)),
            Err(why) => none += &format!("no {} can be mounted here ({why})", mkfs[0]),
        }
    }
    // Not every kernel has projects on ext4.
    if made.is_empty() {
        skipped(&none);
    } else if !none.is_empty() {
        eprintln!("skipped: {none}");
    }
    made
}

fn marked(boxes: &GroupBoxes) -> usize {
    let data = boxes.path().parent().unwrap().parent().unwrap();
    let lies = peek::boxes(data, boxes.folder()).unwrap();
    lies.iter().filter(|lies| lies.as_what.is_some_and(|is| is.marked)).count()
}

/// When every stamp is old.
const LATER: Time = Time(4_000_000_000_000);

/// Waits for the next tick of the clock by which a file system stamps.
fn tick(file: &Path) {
    let stamp = || {
        fs::write(file, "x").unwrap();
        fs::metadata(file).unwrap().modified().unwrap()
    };
    let first = stamp();
    while stamp() == first {}
}

#[test]
fn a_box_with_a_project_or_flags_of_its_own_takes_and_gives_files_and_is_set_back() {
    for (kind, disk, mark) in disks() {
        let (host, claims, boxes) = disk.world();
        assert!(host.has_links(), "{kind}");
        assert_eq!(marked(&boxes), 0, "{kind}");
        let all: Vec<PathBuf> = BoxName::ALL.into_iter().map(|b| boxes.path_of(b)).collect();
        let mark_all = || run(mark, &all.iter().map(PathBuf::as_path).collect::<Vec<_>>()).unwrap();
        // What waits has no project, in a box that wants one for all that is in it; and the other way round.
        fs::write(boxes.path_of(BoxName::Tasks).join("before.json"), "{}").unwrap();
        mark_all();
        assert_eq!(marked(&boxes), 5, "{kind}");
        fs::write(boxes.path_of(BoxName::Messages).join("in.json"), "{}").unwrap();
        boxes.put_reply("r1", b"{}").unwrap();
        boxes.put_input("b1", b"{}").unwrap();
        assert_eq!(marked(&boxes), 3, "{kind}");
        boxes.ask_close().unwrap();
        boxes.claim(CommandBox::Tasks, OsStr::new("before.json"), &claims).unwrap();
        boxes.claim(CommandBox::Messages, OsStr::new("in.json"), &claims).unwrap();
        // A stamp that is known is not asked about, and marks change it.
        assert_eq!(boxes.identity(LATER).unwrap(), Identity::Same);
        tick(&disk.at.path().join("root/tick"));
        mark_all();
        assert_eq!(boxes.identity(LATER).unwrap(), Identity::Same);
        assert_eq!(marked(&boxes), 0, "{kind}");
        // As another daemon finds them.
        mark_all();
        let again = GroupBoxes::open(&host, &folder("main"), None).unwrap();
        assert_eq!(marked(&again), 0, "{kind}");
        mark_all();
        assert_eq!(boxes.empty_before_create(nobody).unwrap(), Emptied::All);
        assert_eq!(boxes.renew().unwrap(), [], "{kind}: setting back is enough");
        let left = boxes.claim_back_inputs(&disk.at.path().join("root/kept")).unwrap();
        assert_eq!(left, []);
    }
}

#[test]
fn flags_that_the_operator_set_for_all_of_data_stay() {
    for (kind, disk, mark) in disks() {
        run(mark, &[&disk.at.path().join("root")]).unwrap();
        let (_, claims, boxes) = disk.world();
        assert_eq!(marked(&boxes), 0, "{kind}");
        assert_eq!(boxes.identity(LATER).unwrap(), Identity::Same);
        fs::write(boxes.path_of(BoxName::Tasks).join("x.json"), "{}").unwrap();
        // A file that its agent gave another project.
        let other = if kind == "mkfs.xfs" { ["xfs_io", "-c", "chproj 7"] } else { ["chattr", "-p", "7"] };
        run(&other, &[&boxes.path_of(BoxName::Tasks).join("x.json")]).unwrap();
        boxes.claim(CommandBox::Tasks, OsStr::new("x.json"), &claims).unwrap();
        boxes.put_reply("r1", b"{}").unwrap();
        assert_eq!(marked(&boxes), 0, "{kind}");
    }
}

#[test]
fn a_box_that_takes_no_file_is_made_anew_unless_something_waits_in_it() {
    let Some((_, disk, _)) = disks().into_iter().next() else { return };
    let (host, _claims, boxes) = disk.world();
    let (input, tasks) = (boxes.path_of(BoxName::Input), boxes.path_of(BoxName::Tasks));
    fs::write(tasks.join("waits.json"), "{}").unwrap();
    // Gone from the disk while it is held: nothing can be put into such a directory, whatever its flags are.
    fs::remove_dir(&input).unwrap();
    fs::create_dir(&input).unwrap();
    assert_eq!(boxes.renew().unwrap(), [BoxName::Input]);
    assert!(!input.exists());
    let again = GroupBoxes::open(&host, &folder("main"), None).unwrap();
    again.put_input("b1", b"{}").unwrap();
    assert_eq!(again.renew().unwrap(), []);
    assert!(tasks.join("waits.json").exists() && input.join("b1.json").exists());
}
