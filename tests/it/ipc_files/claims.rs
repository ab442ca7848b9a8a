//! From a box to `claimed/` and on: links, devices, swaps, sizes, names, writers.

use super::*;

#[test]
fn a_command_goes_from_its_box_to_done_and_leaves_no_trace_elsewhere() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "x.json"), "{\"a\":1}").unwrap();
    let claimed = w.claim("x.json").unwrap();
    assert_eq!((claimed.id, claimed.folder.as_str()), (1, "main"));
    assert_eq!(*claimed.path, *w.root.path().join("claimed/1-main.json"));
    let read = w.claims.read(&claimed).unwrap();
    assert_eq!(read.bytes, b"{\"a\":1}");
    w.boxes.put_reply("req_1", b"{\"ok\":true}").unwrap();
    w.claims.settle_applied(&claimed, &read.bytes, Some(b"{\"ok\":true}")).unwrap();
    w.claims.acknowledge(&claimed).unwrap();
    w.claims.acknowledge(&claimed).unwrap();
    assert_eq!(w.names("claimed"), [""; 0]);
    assert_eq!(w.names("ipc/main/tasks"), [""; 0]);
    assert_eq!(w.names("ipc/main/responses"), ["req_1.json"]);
    assert_eq!(w.names("done/main"), ["1.json", "1.reply.json"]);
    assert_eq!(w.names("tmp"), ["trash"]);
    assert!(matches!(w.claim("x.json"), Err(ClaimError::Gone)));
}

#[test]
fn a_restart_finds_claimed_files_in_order_with_their_origins() {
    let w = world();
    for n in 0..12 {
        fs::write(w.at(BoxName::Tasks, format!("{n}\n.json")), "{}").unwrap();
        w.claim(format!("{n}\n.json")).unwrap();
    }
    let later = Claims::open(&w.host, 3).unwrap();
    let left = later.left_over().unwrap();
    assert_eq!(left.claims.iter().map(|c| c.id).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    if let Some(source) = &left.claims[11].source {
        assert_eq!((source.in_box, source.name.as_str()), (CommandBox::Tasks, "11\\n.json"));
    }
    fs::write(w.at(BoxName::Tasks, "next.json"), "{}").unwrap();
    assert_eq!(w.boxes.claim(CommandBox::Tasks, OsStr::new("next.json"), &later).unwrap().id, 13);
}

#[test]
fn no_link_is_followed_when_it_is_claimed() {
    let w = world();
    let other = GroupBoxes::open(&w.host, &folder("other"), None).unwrap();
    let theirs = other.path_of(BoxName::Tasks).join("secret.json");
    fs::write(&theirs, "{\"theirs\":1}").unwrap();
    let (treasure, before) = w.treasure();
    let targets = [
        treasure.clone(),
        theirs.clone(),
        other.path_of(BoxName::Tasks),
        "/etc/passwd".into(),
        "/proc/self/environ".into(),
        "/dev/zero".into(),
        "nowhere".into(),
        "x.json".into(),
    ];
    for target in targets {
        symlink(&target, w.at(BoxName::Tasks, "x.json")).unwrap();
        let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
        assert_eq!(listed.entries[0].kind, FileKind::Link);
        match w.claim("x.json") {
            Err(ClaimError::NotAFile { claimed, kind: FileKind::Link }) => {
                w.claims.settle_dead(&claimed, b"", &why()).unwrap();
            }
            other => panic!("{}: {other:?}", target.display()),
        }
        assert_eq!(w.names("claimed"), [""; 0]);
    }
    assert_eq!(fs::read_to_string(treasure).unwrap(), before);
    assert_eq!(fs::read_to_string(theirs).unwrap(), "{\"theirs\":1}");
}

#[test]
fn a_box_swapped_for_a_link_leads_nowhere_and_is_noticed() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "mine.json"), "{}").unwrap();
    assert_eq!(w.boxes.identity(Time(0)).unwrap(), Identity::Same);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("allowlist.json"), "{}").unwrap();
    for b in BoxName::ALL {
        fs::rename(w.boxes.path_of(b), w.root.path().join(b.as_str())).unwrap();
        symlink(outside.path(), w.boxes.path_of(b)).unwrap();
    }
    assert_eq!(w.boxes.identity(Time(0)).unwrap(), Identity::Replaced(BoxName::Messages));
    assert!(w.boxes.list(CommandBox::Tasks, 10).is_err());
    assert!(matches!(w.claim("allowlist.json"), Err(ClaimError::World(_))));
    assert!(w.boxes.put_reply("r", b"{}").is_err() && w.boxes.ask_close().is_err());
    assert!(w.boxes.empty_before_create(nobody).is_err() && !w.boxes.has_input("allowlist"));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    let Err(refused) = GroupBoxes::open(&w.host, &folder("main"), None) else { panic!("a link was opened") };
    assert!(refused.to_string().contains("move it away"), "{refused}");
}

#[test]
fn a_fifo_a_socket_and_a_device_are_taken_out_unread_without_waiting() {
    let w = world();
    let at = |name: &str| w.at(BoxName::Tasks, name);
    rustix::fs::mknodat(CWD, at("fifo.json"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let _listens = UnixListener::bind(at("socket.json")).unwrap();
    let mut hostile = vec![("fifo.json", FileKind::Fifo), ("socket.json", FileKind::Socket)];
    let zero = rustix::fs::makedev(1, 5);
    let device = FileType::CharacterDevice;
    if is_root()
        && rustix::fs::mknodat(CWD, at("zero.json"), device, Mode::from_raw_mode(0o666), zero).is_ok()
    {
        hostile.push(("zero.json", FileKind::CharDevice));
    }
    for (name, is) in hostile {
        match w.claim(name) {
            Err(ClaimError::NotAFile { kind, .. }) => assert_eq!(kind, is),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(w.names("claimed"), [""; 0]);
}

#[test]
fn a_claimed_thing_that_is_no_file_is_malformed_after_a_crash_and_goes_away() {
    let w = world();
    let at = |name: &str| w.root.path().join("claimed").join(name);
    rustix::fs::mknodat(CWD, at("1-main.json"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    symlink("/etc/passwd", at("2-main.json")).unwrap();
    fs::create_dir_all(at("3-main.json/deep")).unwrap();
    let claims = Claims::open(&w.host, 0).unwrap();
    let left = claims.left_over().unwrap().claims;
    for (claimed, is) in left.iter().zip([FileKind::Fifo, FileKind::Link, FileKind::Directory]) {
        assert!(matches!(claims.read(claimed), Err(ReadError::NotAFile(kind)) if kind == is));
        claims.settle_dead(claimed, b"", &why()).unwrap();
        claims.acknowledge(claimed).unwrap();
    }
    assert_eq!(w.names("claimed"), [""; 0]);
    assert_eq!(
        w.names("dead/main").len(),
        6,
        "a command and a reason each, and nothing of what was in the directory"
    );
}

#[test]
fn a_directory_named_like_a_command_stays_where_it_is() {
    let w = world();
    fs::create_dir_all(w.at(BoxName::Tasks, "x.json/inner.json")).unwrap();
    fs::write(w.at(BoxName::Tasks, "y.json"), "{}").unwrap();
    let listed = w.boxes.list(CommandBox::Tasks, 1).unwrap();
    assert_eq!((listed.entries.len(), listed.directories.len(), listed.waiting), (1, 1, 1));
    assert!(!listed.has_more());
    assert!(matches!(w.claim("x.json"), Err(ClaimError::Directory)));
    assert!(w.at(BoxName::Tasks, "x.json/inner.json").is_dir());
}

#[test]
fn anything_swapped_into_place_during_the_claim_ends_somewhere_harmless() {
    let w = world();
    let (treasure, before) = w.treasure();
    let at = |name: &str| w.at(BoxName::Tasks, name);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::write(at("file"), "{}");
                let _ = fs::rename(at("file"), at("x.json"));
                let _ = fs::create_dir(at("swap"));
                let _ = fs::write(at("swap/inside"), "x");
                for _ in 0..20 {
                    let _ =
                        rustix::fs::renameat_with(CWD, at("x.json"), CWD, at("swap"), RenameFlags::EXCHANGE);
                }
                let _ = symlink(&treasure, at("link"));
                let _ = fs::rename(at("link"), at("x.json"));
            }
        });
        let mut settled = 0;
        while settled < 500 {
            match w.claim("x.json") {
                Ok(claimed) => {
                    settled += 1;
                    match w.claims.read(&claimed) {
                        Ok(read) => assert!([&b"{}"[..], b"x", b""].contains(&&*read.bytes)),
                        other => panic!("{other:?}"),
                    }
                    w.claims.acknowledge(&claimed).unwrap();
                }
                Err(ClaimError::NotAFile { kind, .. }) => {
                    settled += 1;
                    assert!(matches!(kind, FileKind::Link | FileKind::Directory), "{kind}");
                }
                Err(ClaimError::Gone | ClaimError::Directory) => {}
                Err(ClaimError::World(e)) => panic!("{e}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(w.names("claimed"), [""; 0]);
    assert_eq!(fs::read_to_string(treasure).unwrap(), before);
}

#[test]
fn hard_links_are_one_file_under_two_names_and_read_alike() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "a.json"), "{}").unwrap();
    fs::hard_link(w.at(BoxName::Tasks, "a.json"), w.at(BoxName::Tasks, "b.json")).unwrap();
    let (a, b) = (w.claim("a.json").unwrap(), w.claim("b.json").unwrap());
    assert_eq!(w.claims.read(&a).unwrap(), w.claims.read(&b).unwrap());
    w.claims.acknowledge(&a).unwrap();
    assert_eq!(w.claims.read(&b).unwrap().bytes, b"{}");
}

#[test]
fn bytes_that_a_held_descriptor_writes_after_the_read_reach_nobody() {
    let w = world();
    let mut held = File::create(w.at(BoxName::Tasks, "x.json")).unwrap();
    held.write_all(b"{\"good\":1}").unwrap();
    let claimed = w.claim("x.json").unwrap();
    assert_eq!(w.claims.writer(&claimed), Writer::Holds);
    let read = w.claims.read(&claimed).unwrap();
    held.rewind().unwrap();
    held.write_all(b"{\"evil\":1}").unwrap();
    w.claims.settle_applied(&claimed, &read.bytes, None).unwrap();
    held.write_all(b"more").unwrap();
    w.claims.acknowledge(&claimed).unwrap();
    assert_eq!(fs::read(w.root.path().join("done/main/1.json")).unwrap(), b"{\"good\":1}");
}

#[test]
fn a_file_that_grows_while_it_is_read_is_read_within_the_limit() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "x.json"), "{").unwrap();
    let mut held = File::options().append(true).open(w.at(BoxName::Tasks, "x.json")).unwrap();
    let claimed = w.claim("x.json").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) && held.metadata().unwrap().len() < 16 * COMMAND_LIMIT {
                held.write_all(&[b' '; 4096]).unwrap();
            }
        });
        loop {
            match w.claims.read(&claimed) {
                Ok(read) => assert!(read.bytes.len() as u64 <= COMMAND_LIMIT),
                Err(ReadError::TooLarge { size, head, .. }) => {
                    assert!(size > COMMAND_LIMIT && head.len() == HEAD);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_sparse_file_of_4_gib_is_too_large_without_being_read() {
    let w = world();
    File::create(w.at(BoxName::Tasks, "x.json")).unwrap().set_len(4 << 30).unwrap();
    let claimed = w.claim("x.json").unwrap();
    match w.claims.read(&claimed) {
        Err(ReadError::TooLarge { size, head, .. }) => {
            assert_eq!((size, head.len()), (4 << 30, HEAD));
            w.claims.settle_dead(&claimed, &head, &why()).unwrap();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::metadata(w.root.path().join("dead/main/1.json")).unwrap().len(), 65_536);
}

#[test]
fn a_hundred_thousand_files_are_listed_in_part_oldest_first_and_counted() {
    let w = world();
    let mut linked = PathBuf::new();
    for n in 0..100_000 {
        // A file system bounds the links to one file; then another is begun.
        if n % 50_000 == 0 {
            linked = w.at(BoxName::Tasks, format!("source-{n}"));
            fs::write(&linked, "{}").unwrap();
        }
        fs::hard_link(&linked, w.at(BoxName::Tasks, format!("{n:06}.json"))).unwrap();
    }
    let listed = w.boxes.list(CommandBox::Tasks, 64).unwrap();
    assert_eq!((listed.entries.len(), listed.waiting), (64, 100_000));
    assert_eq!(listed.bytes, 200_000);
    assert!(listed.has_more() && !listed.partial);
    let names: Vec<_> = listed.entries.iter().map(|e| e.name.to_str().unwrap().to_owned()).collect();
    assert_eq!(names, (0..64).map(|n| format!("{n:06}.json")).collect::<Vec<_>>());
}

#[test]
fn any_name_that_a_file_system_takes_can_be_claimed_and_shown() {
    let w = world();
    let mut longest = vec![b'x'; 250];
    longest.extend(b".json");
    let hostile: [&[u8]; 8] = [
        b"two\nlines.json",
        &longest,
        b"\xff\xfe\x80.json",
        b"..json",
        b".json",
        b"-rf.json",
        b"$(reboot).json",
        "\u{202e}nosj.json".as_bytes(),
    ];
    for name in hostile {
        let name = OsStr::from_bytes(name);
        fs::write(w.at(BoxName::Tasks, name), "{}").unwrap();
        let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
        assert_eq!(listed.entries[0].name, name);
        let claimed = w.claim(&listed.entries[0].name).unwrap();
        let shown = claimed.source.unwrap().name;
        assert!(shown.is_ascii() && !shown.contains(char::is_control), "{shown}");
    }
    assert_eq!(w.names("claimed").len(), hostile.len());
}

#[test]
fn a_name_that_leaves_the_box_is_nothing_to_claim() {
    let w = world();
    let (treasure, _) = w.treasure();
    fs::write(w.at(BoxName::Messages, "x.json"), "{}").unwrap();
    for name in ["../messages/x.json", "..", ".", "", "a/b.json", treasure.to_str().unwrap()] {
        assert!(matches!(w.claim(name), Err(ClaimError::Gone)), "{name}");
    }
    assert!(treasure.exists() && w.at(BoxName::Messages, "x.json").exists());
}

#[test]
fn the_time_that_a_command_was_written_is_the_kernels_and_not_what_its_container_says() {
    let w = world();
    let path = w.at(BoxName::Tasks, "a.json");
    fs::write(&path, "{}").unwrap();
    let before = fs::metadata(&path).unwrap();
    let past = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH).set_accessed(std::time::UNIX_EPOCH);
    fs::File::options().write(true).open(&path).unwrap().set_times(past).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mtime(), 0);
    let claimed = w.claim("a.json").unwrap();
    let written = Time(before.ctime() * 1_000 + before.ctime_nsec() / 1_000_000);
    assert!(claimed.written.is_some_and(|at| at >= written), "{:?}", claimed.written);
}

#[test]
fn a_change_in_a_command_box_is_told_until_no_other_can_hide_behind_it() {
    let w = world();
    let stamp = || {
        let meta = fs::metadata(w.boxes.path_of(BoxName::Tasks)).unwrap();
        Time(meta.ctime() * 1_000 + meta.ctime_nsec() / 1_000_000)
    };
    let (soon, later) = (stamp().plus_ms(10), stamp().plus_ms(10_000));
    assert_eq!(w.boxes.changed(soon).unwrap(), CommandBox::ALL);
    // A file may have come in the same tick of the clock.
    assert_eq!(w.boxes.changed(soon).unwrap(), CommandBox::ALL);
    assert_eq!(w.boxes.changed(later).unwrap(), CommandBox::ALL);
    assert_eq!(w.boxes.changed(later).unwrap(), []);
    // Until the kernel's clock has ticked a new name leaves the stamp as it is.
    let before = stamp();
    let mut n = 0;
    while stamp() == before {
        n += 1;
        fs::write(w.at(BoxName::Tasks, format!("{n}.json")), "{}").unwrap();
    }
    assert_eq!(w.boxes.changed(stamp()).unwrap(), [CommandBox::Tasks]);
    assert_eq!(w.boxes.changed(later).unwrap(), [CommandBox::Tasks]);
    assert_eq!(w.boxes.changed(later).unwrap(), []);
}

#[test]
fn a_file_that_an_undone_rename_puts_back_is_known_by_its_origin() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "x.json"), "{}").unwrap();
    let claimed = w.claim("x.json").unwrap();
    let before = w.claims.read(&claimed).unwrap().origin;
    w.claims.sync_source(&w.boxes, CommandBox::Tasks).unwrap();
    g2::ipc::sync_all(w.host.path()).unwrap();
    fs::rename(&claimed.path, w.at(BoxName::Tasks, "x.json")).unwrap();
    let again = w.claim("x.json").unwrap();
    assert_eq!(w.claims.read(&again).unwrap().origin, before);
    fs::write(w.at(BoxName::Tasks, "x.json"), "{}").unwrap();
    let other = w.claim("x.json").unwrap();
    assert_ne!(w.claims.read(&other).unwrap().origin, before);
}
