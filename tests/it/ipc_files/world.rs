//! Owners, mounts and disks that are full or closed.

use super::*;

#[test]
fn boxes_belong_to_the_container_and_the_folders_above_them_do_not() {
    if !is_root() {
        return;
    }
    let w = world();
    fs::create_dir_all(w.root.path().join("ipc/v1/messages")).unwrap();
    std::os::unix::fs::chown(w.root.path().join("ipc/v1"), Some(1000), Some(1000)).unwrap();
    let boxes = GroupBoxes::open(&w.host, &folder("v1"), Some((1000, 1000))).unwrap();
    let above = fs::metadata(boxes.path()).unwrap();
    assert_eq!((above.uid(), above.permissions().mode() & 0o7777), (0, 0o755));
    for b in BoxName::ALL {
        let is = fs::metadata(boxes.path_of(b)).unwrap();
        assert_eq!((is.uid(), is.gid(), is.permissions().mode() & 0o7777), (1000, 1000, 0o700), "{b:?}");
    }
    boxes.put_reply("r", b"{}").unwrap();
    assert_eq!(fs::metadata(boxes.path_of(BoxName::Responses).join("r.json")).unwrap().uid(), 1000);
    boxes.write_snapshot("current_tasks.json", b"[]").unwrap();
    let snapshot = fs::metadata(boxes.path().join("current_tasks.json")).unwrap();
    assert_eq!((snapshot.uid(), snapshot.permissions().mode() & 0o777), (0, 0o644));
    assert!(matches!(boxes.write_snapshot("../x.json", b""), Err(PutError::BadName(_))));
    fs::set_permissions(boxes.path_of(BoxName::Tasks), fs::Permissions::from_mode(0o0)).unwrap();
    assert_eq!(boxes.identity(Time(0)).unwrap(), Identity::Same);
    assert_eq!(fs::metadata(boxes.path_of(BoxName::Tasks)).unwrap().permissions().mode() & 0o700, 0o700);
    boxes.remove().unwrap();
    assert!(!w.root.path().join("ipc/v1").exists());
}

#[test]
fn a_snapshot_stays_where_it_is_as_it_would_be_written_and_is_replaced_where_it_is_not() {
    let w = world();
    let at = w.boxes.path().join("current_tasks.json");
    let file = || fs::metadata(&at).unwrap().ino();
    let write = |bytes: &[u8]| w.boxes.write_snapshot("current_tasks.json", bytes).unwrap();
    let fill = |bytes: &[u8]| {
        w.boxes
            .write_snapshot_with("current_tasks.json", |file| {
                bytes.chunks(7).try_for_each(|some| file.write_all(some))
            })
            .unwrap();
        assert!(fs::read(&at).unwrap() == bytes);
    };
    write(b"[1]");
    // It is kept open, so that its number is not used again.
    let first = (File::open(&at).unwrap(), file());
    write(b"[1]");
    fill(b"[1]");
    assert_eq!(file(), first.1);
    let mut seen = vec![first];
    let mut is_new = |why: &str| {
        assert!(seen.iter().all(|(_, ino)| *ino != file()), "{why}");
        let meta = fs::symlink_metadata(&at).unwrap();
        assert_eq!(
            (meta.is_file(), meta.permissions().mode() & 0o7777, meta.nlink()),
            (true, 0o644, 1),
            "{why}"
        );
        seen.push((File::open(&at).unwrap(), file()));
    };
    write(b"[2]");
    is_new("other bytes");
    fill(b"[22]");
    is_new("another length");
    fs::set_permissions(&at, fs::Permissions::from_mode(0o666)).unwrap();
    write(b"[22]");
    is_new("others could write to it");
    fs::hard_link(&at, w.root.path().join("second")).unwrap();
    write(b"[22]");
    is_new("it has a second name");
    fs::rename(&at, w.root.path().join("aside.json")).unwrap();
    symlink(w.root.path().join("aside.json"), &at).unwrap();
    fill(b"[22]");
    is_new("a link");
    for long in [64 << 10, (64 << 10) + 1, 300_000] {
        fill(&vec![b'x'; long]);
        is_new("long ones");
    }
}

/// A small file system of its own, unmounted at the end.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn tmpfs(options: &std::ffi::CStr) -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", at.path(), "tmpfs", flags, options).ok().map(|()| Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_and_a_read_only_disk_are_the_worlds_fault_and_nothing_is_lost() {
    let Some(disk) = Mounted::tmpfs(c"size=256k") else { return };
    let host = HostDirs::open(disk.0.path()).unwrap();
    let claims = Claims::open(&host, 0).unwrap();
    let boxes = GroupBoxes::open(&host, &folder("main"), None).unwrap();
    let at = |b: BoxName, name: &str| boxes.path_of(b).join(name);
    fs::write(at(BoxName::Tasks, "x.json"), "{}").unwrap();
    fs::write(at(BoxName::Tasks, "y.json"), "{}").unwrap();
    let claimed = boxes.claim(CommandBox::Tasks, OsStr::new("x.json"), &claims).unwrap();
    let filler = vec![0; 512 * 1024];
    let _ = File::create(at(BoxName::State, "filler")).unwrap().write_all(&filler);
    let full = |e: &g2::ipc::WorldFault| assert!(e.to_string().contains("free some space"), "{e}");
    match boxes.put_reply("r", &filler[..8192]) {
        Err(PutError::World(e)) => full(&e),
        other => panic!("{other:?}"),
    }
    full(&claims.settle_applied(&claimed, &filler[..8192], None).unwrap_err());
    assert_eq!(fs::read_dir(disk.0.path().join("tmp")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(boxes.path_of(BoxName::Responses)).unwrap().count(), 0);
    assert_eq!(claims.read(&claimed).unwrap().bytes, b"{}");

    let remount = rustix::mount::MountFlags::RDONLY;
    if rustix::mount::mount_remount(disk.0.path(), remount, c"").is_err() {
        return;
    }
    match boxes.claim(CommandBox::Tasks, OsStr::new("y.json"), &claims) {
        Err(ClaimError::World(e)) => assert!(e.to_string().contains("writable"), "{e}"),
        other => panic!("{other:?}"),
    }
    assert!(at(BoxName::Tasks, "y.json").exists());
    assert!(claims.acknowledge(&claimed).is_err());
    assert_eq!(claims.read(&claimed).unwrap().bytes, b"{}");
}

#[test]
fn a_box_that_is_a_mount_of_its_own_is_refused_with_the_reason() {
    let Some(disk) = Mounted::tmpfs(c"size=64k") else { return };
    let w = world();
    let path = w.boxes.path_of(BoxName::Tasks);
    let Ok(()) = rustix::mount::mount_bind(disk.0.path(), &path) else { return };
    let refused = GroupBoxes::open(&w.host, &folder("main"), None);
    rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(refused.unwrap_err().to_string().contains("one file system"));
}
