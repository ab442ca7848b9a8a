//! What the host writes into a box, takes back from it, and reads beneath it.

use super::*;

#[test]
fn a_link_planted_where_the_host_writes_is_replaced_and_its_target_untouched() {
    let w = world();
    let (treasure, before) = w.treasure();
    let plant = |b, name: &str| symlink(&treasure, w.at(b, name)).unwrap();
    plant(BoxName::Responses, "r1.json");
    plant(BoxName::Input, "b1.json");
    plant(BoxName::Input, "_close");
    w.boxes.put_reply("r1", b"{\"ok\":true}").unwrap();
    w.boxes.put_input("b1", b"{\"text\":\"hi\"}").unwrap();
    w.boxes.ask_close().unwrap();
    w.boxes.ask_close().unwrap();
    for (b, name, bytes) in [
        (BoxName::Responses, "r1.json", &b"{\"ok\":true}"[..]),
        (BoxName::Input, "b1.json", b"{\"text\":\"hi\"}"),
        (BoxName::Input, "_close", b""),
    ] {
        let is = fs::symlink_metadata(w.at(b, name)).unwrap();
        assert!(is.is_file() && is.permissions().mode() & 0o777 == 0o644, "{name}");
        assert_eq!(fs::read(w.at(b, name)).unwrap(), bytes);
    }
    assert_eq!(fs::read_to_string(treasure).unwrap(), before);
    w.boxes.withdraw_close().unwrap();
    w.boxes.withdraw_close().unwrap();
    assert!(!w.at(BoxName::Input, "_close").exists());
}

#[test]
fn a_directory_where_a_reply_was_to_be_put_is_reported_and_closing_goes_on() {
    let w = world();
    fs::create_dir_all(w.at(BoxName::Responses, "r1.json/full")).unwrap();
    fs::create_dir_all(w.at(BoxName::Input, "_close/full")).unwrap();
    assert!(matches!(w.boxes.put_reply("r1", b"{}"), Err(PutError::InTheWay(name)) if name == "r1.json"));
    w.boxes.ask_close().unwrap();
    assert!(w.at(BoxName::Input, "_close").is_file());
    assert_eq!(w.names("tmp"), ["trash"]);
    for id in ["", "../x", "a/b", "a.b", "_close/", &"x".repeat(65)] {
        assert!(matches!(w.boxes.put_reply(id, b"{}"), Err(PutError::BadName(_))), "{id}");
        assert!(matches!(w.boxes.put_input(id, b"{}"), Err(PutError::BadName(_))), "{id}");
    }
}

#[test]
fn inputs_are_claimed_back_by_their_names_and_other_files_are_removed() {
    let w = world();
    let (treasure, before) = w.treasure();
    for id in ["b1", "b2", "b3"] {
        w.boxes.put_input(id, b"{}").unwrap();
    }
    let at = |name: &str| w.at(BoxName::Input, name);
    fs::rename(at("b2.json"), at("b2.claimed")).unwrap();
    w.boxes.put_input("b2", b"{}").unwrap(); // Published again to an adopted run.
    fs::write(at("forged.claimed"), "").unwrap();
    fs::write(at("not_an_id!.claimed"), "").unwrap();
    symlink(&treasure, at("link.claimed")).unwrap();
    fs::create_dir_all(at("dir.claimed/deep/er")).unwrap();
    w.boxes.ask_close().unwrap();
    let dest = w.root.path().join("claimed-back");
    let left = |id: &str, state| InputLeft { batch_id: id.into(), state };
    let expected = [
        left("b1", InputState::Unread),
        left("b2", InputState::Claimed),
        left("b3", InputState::Unread),
        left("forged", InputState::Claimed),
    ];
    assert_eq!(w.boxes.claim_back_inputs(&dest).unwrap(), expected);
    assert_eq!(w.names("ipc/main/input"), [""; 0]);
    assert_eq!(w.boxes.claim_back_inputs(&dest).unwrap(), expected);
    w.boxes.forget_inputs(&dest).unwrap();
    w.boxes.forget_inputs(&dest).unwrap();
    assert_eq!(w.boxes.claim_back_inputs(&dest).unwrap(), []);
    assert_eq!(fs::read_to_string(treasure).unwrap(), before);
}

/// What is placed a second time is no proof that the first one was never read.
#[test]
fn notes_beside_a_run_say_whether_a_follow_up_was_placed() {
    let w = world();
    let kept = w.root.path().join("kept");
    let placed = |id: &str| w.boxes.placed(&kept, id).unwrap();
    // A run of an older version has no notes.
    assert_eq!(placed("b1"), Placed::Maybe);
    w.boxes.begin_notes(&kept).unwrap();
    assert_eq!(placed("b1"), Placed::Never);
    w.boxes.place_input(&kept, "b1", b"{}").unwrap();
    assert_eq!(placed("b1"), Placed::Surely);
    // Taken, done and removed: it was there all the same.
    fs::remove_file(w.at(BoxName::Input, "b1.json")).unwrap();
    assert_eq!(placed("b1"), Placed::Surely);
    // The daemon died before the second note: the box tells, as long as it has something.
    w.boxes.place_input(&kept, "b2", b"{}").unwrap();
    fs::remove_file(kept.join("placed-b2")).unwrap();
    assert_eq!(placed("b2"), Placed::Surely);
    fs::rename(w.at(BoxName::Input, "b2.json"), w.at(BoxName::Input, "b2.claimed")).unwrap();
    assert_eq!(placed("b2"), Placed::Surely);
    fs::remove_file(w.at(BoxName::Input, "b2.claimed")).unwrap();
    assert_eq!(placed("b2"), Placed::Maybe);
    w.boxes.place_input_again(&kept, "b2", b"{}").unwrap();
    assert_eq!(placed("b2"), Placed::Surely);
    w.boxes.place_input(&kept, "b3", b"{}").unwrap();
    // A container's own litter says nothing about others.
    fs::write(w.at(BoxName::Input, "again-b3.json"), "").unwrap();
    let left = |id: &str, state| InputLeft { batch_id: id.into(), state };
    let found = w.boxes.claim_back_inputs(&kept).unwrap();
    assert_eq!(found, [left("again-b3", InputState::Unread), left("b3", InputState::Unread)]);
    assert_eq!(placed("b3"), Placed::Surely);
    // What could not be placed has no note.
    fs::create_dir(w.at(BoxName::Input, "b4.json")).unwrap();
    assert!(w.boxes.place_input(&kept, "b4", b"{}").is_err());
    fs::remove_dir(w.at(BoxName::Input, "b4.json")).unwrap();
    assert_eq!(placed("b4"), Placed::Never);
    w.boxes.forget_inputs(&kept).unwrap();
    assert!(!kept.exists());
}

#[test]
fn an_agent_that_removes_its_own_input_leaves_no_evidence_and_no_error() {
    let w = world();
    w.boxes.put_input("b1", b"{}").unwrap();
    fs::remove_file(w.at(BoxName::Input, "b1.json")).unwrap();
    assert_eq!(w.boxes.claim_back_inputs(&w.root.path().join("back")).unwrap(), []);
}

#[test]
fn the_hosts_rename_and_the_runners_give_each_input_to_exactly_one_of_them() {
    let w = world();
    for n in 0..500 {
        w.boxes.put_input(&format!("b{n}"), b"{}").unwrap();
    }
    let dest = w.root.path().join("back");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in 0..500 {
                let at = |suffix: &str| w.at(BoxName::Input, format!("b{n}.{suffix}"));
                let _ = fs::rename(at("json"), at("claimed"));
            }
        });
        w.boxes.claim_back_inputs(&dest).unwrap();
    });
    let left = w.boxes.claim_back_inputs(&dest).unwrap();
    assert_eq!(left.len(), 500);
    assert_eq!(fs::read_dir(&dest).unwrap().count(), 500);
}

#[test]
fn a_deep_and_a_wide_tree_are_emptied_and_no_link_in_them_is_followed() {
    let w = world();
    let (treasure, before) = w.treasure();
    let outside = w.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    let mut at =
        rustix::fs::open(w.boxes.path_of(BoxName::State), rustix::fs::OFlags::DIRECTORY, Mode::empty())
            .unwrap();
    for _ in 0..5_000 {
        rustix::fs::mkdirat(&at, "down", Mode::from_raw_mode(0o755)).unwrap();
        rustix::fs::symlinkat(&outside, &at, "dir-link").unwrap();
        at = rustix::fs::openat(&at, "down", rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    symlink(&treasure, w.at(BoxName::Responses, "link.json")).unwrap();
    for n in 0..60_000 {
        File::create(w.at(BoxName::Input, n.to_string())).unwrap();
    }
    assert_eq!(w.boxes.empty_before_create(nobody).unwrap(), Emptied::More);
    assert_eq!(w.boxes.empty_before_create(nobody).unwrap(), Emptied::All);
    for b in ["input", "responses", "state"] {
        assert_eq!(w.names(&format!("ipc/main/{b}")), [""; 0]);
    }
    let mut sweeps = 0;
    while w.host.sweep(1_000).unwrap() != Swept::All {
        sweeps += 1;
        assert!(sweeps < 100, "the sweep makes no progress");
    }
    assert_eq!(w.names("tmp/trash"), [""; 0]);
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(treasure).unwrap(), before);
}

#[test]
fn a_reply_that_is_put_while_the_boxes_are_emptied_stays_whatever_is_known_of_it() {
    let w = world();
    for name in ["old.json", "kept.json"] {
        fs::write(w.at(BoxName::Responses, name), "{}").unwrap();
    }
    let kept = || {
        w.boxes.put_reply("new", b"{}").unwrap();
        Ok::<_, WorldFault>(vec!["kept".to_owned()])
    };
    assert_eq!(w.boxes.empty_before_create(kept).unwrap(), Emptied::All);
    assert_eq!(w.names("ipc/main/responses"), ["kept.json", "new.json"]);
}

#[test]
fn the_heartbeat_is_a_stamp_of_a_plain_file_and_changes_when_it_is_touched() {
    let w = world();
    let path = w.at(BoxName::State, "heartbeat");
    assert_eq!(w.boxes.heartbeat(), None);
    symlink("/proc/uptime", &path).unwrap();
    assert_eq!(w.boxes.heartbeat(), None);
    fs::remove_file(&path).unwrap();
    let beat = File::create(&path).unwrap();
    let first = w.boxes.heartbeat();
    assert!(first.is_some());
    assert_eq!(w.boxes.heartbeat(), first);
    beat.set_modified(std::time::UNIX_EPOCH).unwrap(); // Any change counts, backwards too.
    assert_ne!(w.boxes.heartbeat(), first);
}

#[test]
fn the_containers_state_is_read_within_bounds_or_not_at_all() {
    let w = world();
    let path = w.at(BoxName::State, "container_state.json");
    assert!(w.boxes.container_state().unwrap().is_none());
    fs::write(&path, "{\"current_tool\":\"Bash\",\"tool_declared_timeout_ms\":5,\"else\":[]}").unwrap();
    let state = w.boxes.container_state().unwrap().unwrap();
    assert_eq!((state.current_tool.as_deref(), state.tool_declared_timeout_ms), (Some("Bash"), Some(5)));
    for bad in ["", "{", "3", "{\"tool_declared_timeout_ms\":-1}", &"[".repeat(60_000)] {
        fs::write(&path, bad).unwrap();
        assert!(matches!(w.boxes.container_state(), Err(StateError::Malformed(_))), "{bad:.10}");
    }
    File::options().write(true).open(&path).unwrap().set_len(4 << 30).unwrap();
    assert!(matches!(w.boxes.container_state(), Err(StateError::TooLarge(size)) if size == 4 << 30));
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert!(matches!(w.boxes.container_state(), Err(StateError::NotAFile(FileKind::Link))));
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    assert!(matches!(w.boxes.container_state(), Err(StateError::NotAFile(FileKind::Fifo))));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(w.boxes.container_state(), Err(StateError::NotAFile(FileKind::Directory))));
}

#[test]
fn a_folder_that_is_no_box_is_read_beneath_and_never_through_a_link() {
    let w = world();
    let group = w.root.path().join("group");
    fs::create_dir_all(group.join("conversations")).unwrap();
    fs::write(group.join("conversations/one.md"), "hello").unwrap();
    symlink("/etc", group.join("etc")).unwrap();
    symlink("conversations/one.md", group.join("link.md")).unwrap();
    rustix::fs::mknodat(CWD, group.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let read = |name: &str, limit| read_inside(&group, Path::new(name), limit);
    let cut = read("conversations/one.md", 3).unwrap();
    assert_eq!((cut.bytes.as_slice(), cut.size), (&b"hel"[..], 5));
    assert!(matches!(read("absent.md", 10), Err(InsideError::Absent(_))));
    for hostile in ["etc/passwd", "link.md", "fifo", "conversations", "../g2.sqlite", "/etc/passwd"] {
        assert!(matches!(read(hostile, 10), Err(InsideError::NotAFile(_))), "{hostile}");
    }
}
