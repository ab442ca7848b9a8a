//! A mounted disk: what programs need of it, and what it forgets.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests play programs")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    os::unix::{
        fs::{FileExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use g2_forgetful::{Call, Disk, Failed, Failure, Fault, Forgetful, Random, Rights, Slowness, folder};
use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, XattrFlags},
    io::Errno,
};

struct Mounted {
    at: tempfile::TempDir,
    disk: Forgetful,
}

fn empty() -> Disk {
    Disk::new(Rights { mode: 0o755, uid: 0, gid: 0 }, SystemTime::UNIX_EPOCH)
}

/// A mounted disk; says so where there can be none.
fn mounted(disk: Disk) -> Option<Mounted> {
    let at = tempfile::tempdir().unwrap();
    match Forgetful::mount(disk, at.path()) {
        Ok(disk) => Some(Mounted { at, disk }),
        Err(why @ (Failed::NoDevice(_) | Failed::NotMounted(..))) => {
            let required = std::env::var_os("G2_REQUIRE_FUSE").is_some_and(|value| value == "1");
            assert!(!required, "G2_REQUIRE_FUSE is set: {why}");
            eprintln!("skipped: no FUSE ({why})");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }

    /// A seed with which as much is forgotten as can be, or as little.
    fn seed(&self, most: bool) -> u64 {
        let lost = |seed: &u64| {
            let forgotten = self.disk.with(|disk| disk.clone().lose_power(&mut Random::new(*seed)));
            forgotten.changes + forgotten.writes
        };
        if most { (0..100).max_by_key(lost).unwrap() } else { (0..100).min_by_key(lost).unwrap() }
    }
}

fn names(at: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_program_finds_what_it_needs() {
    let Some(mounted) = mounted(empty()) else { return };
    let path = |name: &str| mounted.path(name);
    fs::create_dir_all(path("a/b")).unwrap();
    fs::write(path("a/b/file"), vec![7; 1 << 20]).unwrap();
    assert_eq!(fs::read(path("a/b/file")).unwrap(), vec![7; 1 << 20]);
    fs::hard_link(path("a/b/file"), path("link")).unwrap();
    assert_eq!(fs::metadata(path("link")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(path("link")).unwrap().ino(), fs::metadata(path("a/b/file")).unwrap().ino());
    std::os::unix::fs::symlink("a/b", path("way")).unwrap();
    assert_eq!(names(&path("way")), ["file"]);
    assert_eq!(names(mounted.at.path()), ["a", "link", "way"]);
    fs::set_permissions(path("a"), fs::Permissions::from_mode(0o711)).unwrap();
    assert_eq!(fs::metadata(path("a")).unwrap().mode() & 0o7777, 0o711);
    assert_eq!(fs::remove_dir(path("a")).unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));

    let flags = RenameFlags::NOREPLACE;
    fs::write(path("taken"), "").unwrap();
    assert_eq!(rustix::fs::renameat_with(CWD, path("link"), CWD, path("taken"), flags), Err(Errno::EXIST));
    rustix::fs::renameat_with(CWD, path("link"), CWD, path("taken"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::metadata(path("taken")).unwrap().len(), 1 << 20);

    let folder = File::open(mounted.at.path()).unwrap();
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let read = OFlags::RDONLY;
    rustix::fs::openat2(&folder, "a/b/file", read, Mode::empty(), resolve).unwrap();
    assert_eq!(
        rustix::fs::openat2(&folder, "way/file", read, Mode::empty(), resolve).err(),
        Some(Errno::LOOP)
    );

    // A file without a name, that gets one.
    let unnamed = OFlags::RDWR | OFlags::TMPFILE;
    let mut file = File::from(rustix::fs::openat(&folder, ".", unnamed, Mode::from_raw_mode(0o640)).unwrap());
    file.write_all(b"unnamed").unwrap();
    let proc = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::linkat(CWD, proc, &folder, "named", AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(fs::read(path("named")).unwrap(), b"unnamed");
    assert_eq!(fs::metadata(path("named")).unwrap().nlink(), 1);

    // A removed file is there while it is open.
    fs::remove_file(path("named")).unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "unnamed");

    rustix::fs::fsetxattr(&file, "user.g2", b"value", XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    assert_eq!(rustix::fs::fgetxattr(&file, "user.g2", &mut value), Ok(5));
    assert_eq!(rustix::fs::fgetxattr(&file, "user.no", &mut value), Err(Errno::NODATA));

    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).unwrap();
    let again = File::open(mounted.at.path()).unwrap();
    assert_eq!(rustix::fs::flock(&again, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    let _listener = UnixListener::bind(path("socket")).unwrap();
    std::os::unix::net::UnixStream::connect(path("socket")).unwrap();
    rustix::fs::syncfs(&folder).unwrap();
}

#[test]
fn unsynced_changes_are_forgotten_and_synced_ones_are_not() {
    let Some(mut mounted) = mounted(empty()) else { return };
    let path = |name: &str| mounted.path(name);
    let mut synced = File::create(path("synced")).unwrap();
    synced.write_all(b"old").unwrap();
    synced.sync_all().unwrap();
    fs::write(path("removed"), "durable").unwrap();
    File::open(path("removed")).unwrap().sync_all().unwrap();
    File::open(mounted.at.path()).unwrap().sync_all().unwrap();

    synced.write_all_at(b"new", 0).unwrap();
    fs::remove_file(path("removed")).unwrap();
    fs::rename(path("synced"), path("renamed")).unwrap();
    fs::write(path("made"), "made").unwrap();
    drop(synced);
    let inode = fs::metadata(path("renamed")).unwrap().ino();
    let seed = mounted.seed(true);
    let forgotten = mounted.disk.lose_power(seed).unwrap();
    assert!(forgotten.changes > 0 && forgotten.writes > 0, "{forgotten:?}");
    assert_eq!(names(mounted.at.path()), ["removed", "synced"]);
    assert_eq!(fs::read(mounted.path("synced")).unwrap(), b"old");
    assert_eq!(fs::read(mounted.path("removed")).unwrap(), b"durable");
    assert_eq!(fs::metadata(mounted.path("synced")).unwrap().ino(), inode);
    assert_eq!(mounted.disk.with(|disk| disk.seen().faults()), Vec::<String>::new());
}

#[test]
fn with_a_kind_seed_nothing_is_forgotten() {
    let Some(mut mounted) = mounted(empty()) else { return };
    fs::write(mounted.path("made"), "made").unwrap();
    fs::rename(mounted.path("made"), mounted.path("renamed")).unwrap();
    let seed = mounted.seed(false);
    let forgotten = mounted.disk.lose_power(seed).unwrap();
    assert_eq!((forgotten.changes, forgotten.writes), (0, 0));
    assert_eq!(fs::read(mounted.path("renamed")).unwrap(), b"made");
}

#[test]
fn an_open_file_is_no_obstacle_to_a_power_loss() {
    let Some(mut mounted) = mounted(empty()) else { return };
    let file = File::create(mounted.path("open")).unwrap();
    file.sync_all().unwrap();
    mounted.disk.lose_power(1).unwrap();
    assert_eq!(names(mounted.at.path()), ["open"]);
    assert!((&file).write_all(b"late").is_err(), "its disk is gone");
    assert_eq!(fs::read(mounted.path("open")).unwrap(), b"");
}

/// What another process does: it commits rows one by one, says how many there are, and is in the middle of one more when it is
/// killed. The process that serves a file system must not map its files.
#[test]
fn write_a_store_until_killed() {
    let Some(path) = std::env::var_os("FORGETFUL_STORE") else { return };
    let store = rusqlite::Connection::open(path).unwrap();
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 8";
    store.execute_batch(settings).unwrap();
    store.execute_batch("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, filler TEXT)").unwrap();
    let sound: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let count = || store.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    println!("\nhas {}", count());
    for _ in 0..10 {
        store.execute("INSERT INTO t (filler) VALUES (hex(zeroblob(1000)))", []).unwrap();
        println!("\nhas {}", count());
    }
    store.execute_batch("BEGIN; INSERT INTO t (filler) VALUES (hex(zeroblob(100000)))").unwrap();
    println!("\nis killed");
    std::io::stdin().read_to_string(&mut String::new()).unwrap();
}

#[test]
fn a_store_keeps_what_was_committed_through_power_losses() {
    let Some(mut mounted) = mounted(empty()) else { return };
    let mut committed: i64 = 0;
    for seed in 0..10 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "write_a_store_until_killed", "--nocapture"])
            .env("FORGETFUL_STORE", mounted.path("store"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut counts: Vec<i64> = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
            match line.strip_prefix("has ") {
                Some(count) => counts.push(count.parse().unwrap()),
                None if line == "is killed" => break,
                None => {}
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(counts.len(), 11, "seed {seed}: it ended by itself");
        assert_eq!(counts[0], committed, "seed {seed}");
        committed += 10;
        mounted.disk.lose_power(seed).unwrap();
    }
}

#[test]
fn the_nth_write_or_sync_fails_and_a_failed_sync_makes_nothing_durable() {
    let Some(mut mounted) = mounted(empty()) else { return };
    let file = File::create(mounted.path("file")).unwrap();
    file.sync_all().unwrap();
    let fault = Fault { call: Call::Write, how: Failure::Full, after: 1, times: 1 };
    mounted.disk.faults(|faults| faults.add(fault));
    file.write_all_at(b"one", 0).unwrap();
    assert_eq!(file.write_all_at(b"two", 0).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    let fault = Fault { call: Call::Sync, how: Failure::Broken, after: 0, times: 1 };
    mounted.disk.faults(|faults| faults.add(fault));
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EIO));
    file.sync_all().unwrap();
    let slow = Slowness { most: Duration::from_millis(1), random: Random::new(1) };
    mounted.disk.faults(|faults| faults.slow(Some(slow)));
    file.sync_all().unwrap();
    drop(file);
    mounted.disk.lose_power(0).unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"", "lost, and no later sync brings it back");
}

#[test]
fn syncfs_makes_everything_durable_where_the_kernel_tells_of_it() {
    let Some(mut mounted) = mounted(empty()) else { return };
    fs::create_dir(mounted.path("folder")).unwrap();
    fs::write(mounted.path("folder/file"), "text").unwrap();
    let folder = File::open(mounted.at.path()).unwrap();
    rustix::fs::syncfs(&folder).unwrap();
    let left = mounted.disk.with(|disk| disk.at_stake());
    fs::write(mounted.path("late"), "text").unwrap();
    drop(folder);
    let seed = mounted.seed(true);
    mounted.disk.lose_power(seed).unwrap();
    if !mounted.disk.hears_of_syncfs() {
        eprintln!("skipped: the kernel does not tell of syncfs");
        return;
    }
    assert_eq!(left, Default::default());
    assert_eq!(names(mounted.at.path()), ["folder"]);
    assert_eq!(fs::read(mounted.path("folder/file")).unwrap(), b"text");
}

#[test]
fn of_a_file_that_is_put_there_unseen_the_kernel_tells_nobody() {
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

    let Some(mut mounted) = mounted(empty()) else { return };
    fs::create_dir(mounted.path("box")).unwrap();
    // The kernel knows the names that are there.
    assert_eq!(names(&mounted.path("box")), [""; 0]);
    assert!(fs::metadata(mounted.path("box/unseen")).is_err());
    let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    add_watch(&watch, mounted.path("box"), WatchFlags::CREATE | WatchFlags::CLOSE_WRITE).unwrap();
    let rights = Rights { mode: 0o600, uid: 0, gid: 0 };
    mounted.disk.put_unseen(Path::new("box/unseen"), b"text", rights).unwrap();
    assert!(mounted.disk.put_unseen(Path::new("none/unseen"), b"text", rights).is_err());
    let mut room = [std::mem::MaybeUninit::uninit(); 512];
    let mut events = Reader::new(&watch, &mut room);
    assert_eq!(events.next().map(drop).unwrap_err(), Errno::AGAIN);
    assert_eq!(names(&mounted.path("box")), ["unseen"]);
    assert_eq!(fs::read(mounted.path("box/unseen")).unwrap(), b"text");
    fs::rename(mounted.path("box/unseen"), mounted.path("taken")).unwrap();
    fs::write(mounted.path("box/seen"), "text").unwrap();
    assert!(!events.next().unwrap().events().contains(ReadFlags::IGNORED));
    drop(watch);
    mounted.disk.lose_power(mounted.seed(false)).unwrap();
    assert_eq!(fs::read(mounted.path("taken")).unwrap(), b"text");
}

#[test]
fn a_folder_is_read_and_written_whole() {
    let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("folder")).unwrap();
    fs::write(from.path().join("folder/file"), "text").unwrap();
    fs::hard_link(from.path().join("folder/file"), from.path().join("link")).unwrap();
    std::os::unix::fs::symlink("folder", from.path().join("way")).unwrap();
    fs::set_permissions(from.path().join("link"), fs::Permissions::from_mode(0o640)).unwrap();
    let disk = folder::read(from.path()).unwrap();
    assert_eq!(disk.at_stake(), Default::default());
    folder::write(&disk, to.path()).unwrap();
    let again = folder::read(to.path()).unwrap();
    assert_eq!(again.seen(), disk.seen());
    let Some(mounted) = mounted(disk) else { return };
    assert_eq!(fs::read(mounted.path("way/file")).unwrap(), b"text");
    fs::write(mounted.path("new"), "new").unwrap();
    folder::write(&mounted.disk.unmount(), to.path()).unwrap();
    assert_eq!(names(to.path()), ["folder", "link", "new", "way"]);
}
