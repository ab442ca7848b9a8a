//! `g2 backup`: beside a daemon at work, refused, dead at each step.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test mounts a disk, and looks at what was left"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, symlink},
        process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Root, skipped, wait_for};

/// SIGKILL.
const KILLED: i32 = 9;

/// A folder for backups, and the path of one in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g2.tar");
    (folder, file)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The paths in an archive.
fn packed(file: &Path) -> Vec<String> {
    let mut archive = tar::Archive::new(fs::File::open(file).unwrap());
    let entries = archive.entries().unwrap();
    entries.map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A root in which only the archive's contents are.
fn unpacked(file: &Path) -> Root {
    let root = Root::new("");
    for part in ["data", "groups", "container"] {
        let _ = fs::remove_dir_all(root.path().join(part));
    }
    tar::Archive::new(fs::File::open(file).unwrap()).unpack(root.path()).unwrap();
    root
}

/// Why a backup is refused.
fn refused(root: &Root, file: &Path) -> String {
    let output = root.run(&["backup", text(file)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_backup_beside_a_daemon_at_work_can_be_served_elsewhere() {
    let root = Root::new("");
    let (_folder, file) = place();
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "before"), "echo: before\n");
    fs::write(root.path().join("groups/main/note.txt"), "kept").unwrap();
    fs::write(root.path().join("groups/main/CLAUDE.md"), "as it was").unwrap();
    root.g2(&["groups", "edit", "main", "--file", text(&root.path().join("groups/main/note.txt"))]);
    // A daemon that commits while the copy is made: whatever is in it is whole.
    let at_work = root.command(&["send", "--wait", "60", "beside"]).stdout(Stdio::null()).spawn();
    let saved = root.json(&["backup", text(&file)]);
    assert!(at_work.unwrap().wait().unwrap().success());
    assert_eq!(root.ask("local:main", "after"), "echo: after\n");
    assert_eq!(saved["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(names(file.parent().unwrap()), ["g2.tar"]);

    let other = unpacked(&file);
    assert_eq!(fs::read_to_string(other.path().join("groups/main/note.txt")).unwrap(), "kept");
    assert_eq!(other.g2(&["groups", "history", "main", "--show", "1"]), "as it was");
    let _other = other.serve();
    // What was unanswered in the copy is answered there, maybe in the same breath.
    let answered = other.ask("local:main", "elsewhere");
    assert!(["echo: elsewhere\n", "echo: beside\necho: elsewhere\n"].contains(&&*answered), "{answered}");
    let said = other.said("local:main");
    assert_eq!(said.iter().filter(|text| *text == "echo: before").count(), 1, "{said:?}");
    assert!(!said.contains(&"echo: after".to_owned()), "{said:?}");
}

#[test]
fn secrets_are_in_a_backup_only_if_they_are_asked_for() {
    let toml = "[limits]\nkeep_days = 3 # mine\n[channels.tg]\ncommand = [\"/bin/true\"]\ntoken = \"12345:hush-hush\"\n# token = \"12345:hush-hush\"\n";
    let root = Root::new(toml);
    let (folder, file) = place();
    fs::write(root.path().join(".env"), "KEY=secret\n").unwrap();
    fs::create_dir_all(root.data("secrets")).unwrap();
    fs::write(root.data("secrets/tg"), "token").unwrap();
    let secrets = |file: &Path| -> Vec<String> {
        packed(file).into_iter().filter(|path| path == ".env" || path.contains("secrets/")).collect()
    };
    let told = root.g2(&["backup", text(&file)]);
    assert!(told.contains("without secrets"), "{told}");
    assert_eq!(secrets(&file), Vec::<String>::new());
    let settings = |file: &Path| fs::read_to_string(unpacked(file).path().join("g2.toml")).unwrap();
    let kept = settings(&file);
    assert!(!kept.contains("hush") && kept.contains("keep_days = 3 # mine\n[channels.tg]\n"), "{kept}");
    assert!(kept.contains("\ntoken = \"\"\n"), "{kept}");
    root.g2(&["restore", "--check", text(&file)]);
    let with = folder.path().join("with.tar");
    root.g2(&["backup", "--with-secrets", text(&with)]);
    assert_eq!(secrets(&with), [".env", "data/secrets/tg"]);
    assert_eq!(settings(&with), fs::read_to_string(root.path().join("g2.toml")).unwrap());
    // What nobody can read has secrets that nobody can tell.
    fs::write(root.path().join("g2.toml"), "[channels.tg\ntoken = \"12345:hush-hush\"\n").unwrap();
    let broken = folder.path().join("broken.tar");
    let told = root.run(&["backup", text(&broken)]);
    if told.status.success() {
        assert!(!packed(&broken).contains(&"g2.toml".to_owned()), "{told:?}");
    }
}

#[test]
fn links_pipes_and_holes_of_an_agent_are_left_out_and_named() {
    let root = Root::new("");
    let (_folder, file) = place();
    let at = |name: &str| root.path().join("groups/main").join(name);
    symlink("/etc/passwd", at("link")).unwrap();
    symlink("/etc", at("folder")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
    fs::File::create(at("hole")).unwrap().set_len(1 << 40).unwrap();
    let long = "n".repeat(200);
    fs::write(at(&long), "long").unwrap();
    let saved = root.json(&["backup", text(&file)]);
    let mut left_out: Vec<&str> =
        saved["left_out"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    left_out.sort_unstable();
    assert_eq!(
        left_out,
        [
            "groups/main/folder: no plain file",
            "groups/main/hole: mostly a hole",
            "groups/main/link: no plain file",
            "groups/main/pipe: no plain file",
        ]
    );
    let paths = packed(&file);
    assert!(paths.contains(&format!("groups/main/{long}")), "{paths:?}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(unpacked(&file).path().join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["left_out_count"], 4);
}

/// A small disk for backups; it is unmounted with it.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None`: this machine mounts none.
    fn of(mib: u64) -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let (image, to) = (at.path().join("image"), at.path().join("to"));
        fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        fs::create_dir(&to).unwrap();
        let run = |words: &[&str]| {
            let done = Command::new(words[0]).args(&words[1..]).output();
            done.map_err(|error| error.to_string()).and_then(|done| {
                let why = String::from_utf8_lossy(&done.stderr).into_owned();
                done.status.success().then_some(()).ok_or(why)
            })
        };
        let made = run(&["mkfs.ext4", "-q", "-m", "0", text(&image)])
            .and_then(|()| run(&["mount", "-o", "loop", text(&image), text(&to)]));
        match made {
            Ok(()) => Some(Self(at)),
            Err(why) => {
                skipped(&why);
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("to")
    }

    fn backups(&self) -> Vec<String> {
        names(&self.path()).into_iter().filter(|name| name.ends_with(".tar")).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_group_that_does_not_fit_is_named_and_costs_no_other_its_backup() {
    let Some(disk) = Disk::of(96) else { return };
    let to = disk.path();
    let root = Root::new("");
    root.g2(&["groups", "add", "evil", "--chat", "local:evil"]);
    let filler = root.path().join("groups/evil/filler");
    let shelf = ["backup", "--to", text(&to), "--keep", "1"];
    // As if it was made on an earlier day: two of one second have one name.
    let name = root.path().file_name().unwrap().to_str().unwrap().to_owned();
    let aged = |day: u32| {
        let [made] = <[String; 1]>::try_from(disk.backups()).unwrap();
        fs::rename(to.join(made), to.join(format!("{name}-2020-01-0{day}T00-00-00Z.tar"))).unwrap();
        disk.backups()
    };
    root.g2(&shelf);
    let first = aged(1);
    // What is one file under many names, or mostly holes, does not count.
    fs::write(&filler, vec![7; 8 << 20]).unwrap();
    for n in 0..200 {
        fs::hard_link(&filler, root.path().join(format!("groups/evil/{n}"))).unwrap();
    }
    let saved = root.json(&shelf);
    assert_eq!((&saved["without"], saved["removed"].as_array().unwrap().len()), (&serde_json::json!([]), 1));
    assert_ne!(disk.backups(), first);
    let whole = aged(2);

    fs::write(root.path().join("groups/evil/more"), vec![7; 100 << 20]).unwrap();
    fs::write(root.path().join("groups/main/note.txt"), "kept").unwrap();
    let why = refused(&root, &to.join("mine.tar"));
    assert!(why.contains("MiB of them for groups/evil"), "{why}");
    assert_eq!(disk.backups(), whole, "nothing is left of it");
    let saved = root.json(&shelf);
    assert_eq!(saved["without"], serde_json::json!(["groups/evil"]));
    let part = saved["file"].as_str().unwrap();
    assert!(part.ends_with("-part.tar"), "{part}");
    assert_eq!(disk.backups().len(), 2, "the newest whole one stays: {:?}", disk.backups());
    let restored = Root::empty();
    let told = restored.g2(&["restore", part]);
    assert!(told.contains("without groups/evil: there was no room for it"), "{told}");
    assert!(!restored.path().join("groups/evil").exists());
    assert_eq!(fs::read_to_string(restored.path().join("groups/main/note.txt")).unwrap(), "kept");
    let part_kept = restored.path().join("g2-part.tar");
    fs::copy(part, &part_kept).unwrap();
    // The daemon's, which comes soon, has another name.
    fs::rename(part, to.join(format!("{name}-2020-01-03T00-00-00Z-part.tar"))).unwrap();

    root.settings(&format!("[backup]\nto = \"{}\"\nkeep = 1\n", text(&to)));
    root.change_store("INSERT INTO meta (key, value) VALUES ('backup_done', '0')");
    let _daemon = root.serve();
    let problem = || {
        let findings = root.json(&["status"])["findings"].clone();
        findings.as_array().unwrap().iter().find(|found| found["code"] == "backup_lacks").cloned()
    };
    let found = wait_for("the problem", problem);
    assert_eq!(found["about"], "evil", "{found}");
    // Once there is room, a whole one is made within an hour.
    fs::remove_file(root.path().join("groups/evil/more")).unwrap();
    root.change_store("UPDATE meta SET value = '0' || char(10) || 'groups/evil' WHERE key = 'backup_lacks'");
    root.g2(&["config", "set", "backup.keep", "2"]);
    wait_for("the problem to be gone", || problem().is_none().then_some(()));
    assert!(disk.backups().iter().any(|name| !name.contains("-part") && !whole.contains(name)));
    // A folder that it has comes out of a part, too.
    fs::remove_dir_all(root.path().join("groups/main")).unwrap();
    root.g2(&["groups", "restore", "main", "--from", text(&part_kept)]);
    assert_eq!(fs::read_to_string(root.path().join("groups/main/note.txt")).unwrap(), "kept");
}

#[test]
fn nothing_is_replaced_and_no_backup_lies_in_itself() {
    let root = Root::new("");
    let (folder, file) = place();
    fs::write(&file, "mine").unwrap();
    assert!(refused(&root, &file).contains("is there already"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(refused(&root, &root.path().join("groups/main/g2.tar")).contains("which is in the backup"));
    assert!(refused(&root, &folder.path().join("none/g2.tar")).contains("opening"));
    // A folder of somebody's own at the name that is worked under keeps what it has.
    let other = folder.path().join("other.tar");
    fs::create_dir(folder.path().join("other.tar.partial")).unwrap();
    fs::write(folder.path().join("other.tar.partial/mine"), "mine").unwrap();
    root.g2(&["backup", text(&other)]);
    assert_eq!(names(&folder.path().join("other.tar.partial")), ["mine"]);
}

#[test]
fn two_backups_never_write_into_one_file() {
    let root = Root::new("");
    let (folder, file) = place();
    let mark = folder.path().join("reached");
    let mut command = root.command(&["backup", text(&file)]);
    command.env("G2_FAILPOINT", "backup.copied:1:pause").env("G2_FAILPOINT_FILE", &mark);
    let mut first = command.spawn().unwrap();
    wait_for("the first to be at work", || mark.exists().then_some(()));
    let why = refused(&root, &file);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(why.contains("another backup is being written"), "{why}");
    root.g2(&["backup", text(&file)]);
    assert_eq!(names(folder.path()), ["g2.tar", "reached"]);
}

#[test]
fn wherever_a_backup_dies_there_is_a_whole_file_or_none() {
    let root = Root::new("");
    for (point, is_there) in [
        ("backup.copied", false),
        ("backup.archived", false),
        ("backup.verified", false),
        ("backup.named", true),
    ] {
        let (folder, file) = place();
        let output = root.command(&["backup", text(&file)]).env("G2_FAILPOINT", point).output().unwrap();
        assert_eq!(output.status.signal(), Some(KILLED), "{point}: {output:?}");
        assert_eq!(file.exists(), is_there, "{point}");
        if !is_there {
            root.g2(&["backup", text(&file)]);
            assert_eq!(names(folder.path()), ["g2.tar"], "{point}");
        }
        assert_eq!(packed(&file).last().map(String::as_str), Some("manifest.json"), "{point}");
    }
}

#[test]
fn a_folder_of_backups_keeps_the_newest_and_what_is_not_its_own() {
    let root = Root::new("");
    let folder = tempfile::tempdir().unwrap();
    let name = root.path().file_name().unwrap().to_str().unwrap().to_owned();
    let old = |day: u32| format!("{name}-2020-01-0{day}T00-00-00Z.tar");
    for name in [old(1), old(2), "mine.tar".into(), "other-2020-01-01T00-00-00Z.tar".into()] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    // One that a backup left that was killed.
    fs::create_dir(folder.path().join(format!("{}.partial", old(3)))).unwrap();
    fs::write(folder.path().join(format!("{}.partial/archive", old(3))), "x").unwrap();
    let saved = root.json(&["backup", "--to", text(folder.path()), "--keep", "2"]);
    let new = Path::new(saved["file"].as_str().unwrap()).file_name().unwrap().to_str().unwrap().to_owned();
    assert!(saved["removed"][0].as_str().unwrap().ends_with(&old(1)), "{saved}");
    let mut left = vec![old(2), new, "mine.tar".into(), "other-2020-01-01T00-00-00Z.tar".into()];
    left.sort();
    assert_eq!(names(folder.path()), left);
}

#[test]
fn no_old_backup_goes_before_the_new_one_is_there() {
    let root = Root::new("");
    for point in ["backup.copied", "backup.archived", "backup.verified"] {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("{}-2020-01-01T00-00-00Z.tar", root.path().file_name().unwrap().to_str().unwrap());
        fs::write(folder.path().join(&name), "x").unwrap();
        let arguments = ["backup", "--to", text(folder.path()), "--keep", "1"];
        let output = root.command(&arguments).env("G2_FAILPOINT", point).output().unwrap();
        assert_eq!(output.status.signal(), Some(KILLED), "{point}: {output:?}");
        assert!(folder.path().join(&name).exists(), "{point}");
        root.g2(&arguments);
        let left = names(folder.path());
        assert!(left.len() == 1 && left[0] != name, "{point}: {left:?}");
    }
}

#[test]
fn the_daemon_makes_a_missed_backup_once_and_tells_of_one_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(&format!("[backup]\nto = \"{}\"\n", text(folder.path())));
    root.change_store("INSERT INTO meta (key, value) VALUES ('backup_done', '0')");
    let backups =
        || names(folder.path()).into_iter().filter(|name| name.ends_with(".tar")).collect::<Vec<_>>();
    let daemon = root.serve();
    wait_for("the missed backup", || (!backups().is_empty()).then_some(()));
    wait_for("it to be noted", || root.log().contains("a backup is made").then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(packed(&folder.path().join(&backups()[0])).last().map(String::as_str), Some("manifest.json"));
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert_eq!(backups().len(), 1, "made up for once");
    assert_eq!(daemon.terminate(), Some(0));

    root.settings("[backup]\nto = \"data/media\"\n");
    root.change_store("UPDATE meta SET value = '0' WHERE key = 'backup_done'");
    let _daemon = root.serve();
    wait_for("the problem", || {
        root.json(&["status"])["problems"].to_string().contains("the daily backup failed").then_some(())
    });
}

#[test]
fn without_a_daemon_a_backup_is_asked_of_its_next_start() {
    let root = Root::new("[backup]\nto = \"shelf\"\n");
    let said = root.g2(&["backup", "--now"]);
    assert!(said.contains("its next start does"), "{said}");
    let _daemon = root.serve();
    wait_for("the backup", || {
        let shelf = fs::read_dir(root.path().join("shelf")).ok()?;
        shelf
            .filter_map(Result::ok)
            .any(|file| file.file_name().to_str().is_some_and(|name| name.ends_with(".tar")))
            .then_some(())
    });
}
