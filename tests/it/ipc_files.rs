//! What a hostile container can put into its boxes, and what the host makes of it.
//!
//! The container is played by this process: it writes to the boxes by their paths. Tests that need to be root (devices,
//! owners, mounts) pass without looking when they are not.
#![expect(clippy::disallowed_methods, reason = "plays the container, in temporary folders")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking too")]

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Seek as _, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use g2::ipc::{
    BoxName, COMMAND_LIMIT, ClaimError, Claimed, Claims, CommandBox, Emptied, GroupBoxes, HEAD, HostDirs,
    Identity, InputLeft, InputState, InsideError, Kind, PutError, ReadError, StateError, Swept, Why, Writer,
    read_inside,
};
use ipc_handlers::{Folder, Time};
use rustix::fs::{CWD, FileType, Mode, RenameFlags};

struct World {
    root: tempfile::TempDir,
    host: Arc<HostDirs>,
    claims: Claims,
    boxes: GroupBoxes,
}

fn world() -> World {
    let root = tempfile::tempdir().unwrap();
    let host = HostDirs::open(&root.path().join("")).unwrap();
    let claims = Claims::open(&host, 0).unwrap();
    let boxes = GroupBoxes::open(&host, &folder("main"), None).unwrap();
    World { root, host, claims, boxes }
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn why() -> Why {
    Why { code: "malformed".into(), message: "no command".into(), hint: None, at: Time(0) }
}

impl World {
    /// A path in a box, as the container has it.
    fn at(&self, b: BoxName, name: impl AsRef<Path>) -> PathBuf {
        self.boxes.path_of(b).join(name)
    }

    fn claim(&self, name: impl AsRef<OsStr>) -> Result<Claimed, ClaimError> {
        self.boxes.claim(CommandBox::Tasks, name.as_ref(), &self.claims)
    }

    fn names(&self, place: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.path().join(place)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A host file that nothing may change, and what it says.
    fn treasure(&self) -> (PathBuf, &'static str) {
        let path = self.root.path().join("g2.sqlite");
        fs::write(&path, "treasure").unwrap();
        (path, "treasure")
    }
}

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
fn a_restart_finds_what_was_claimed_in_order_with_where_it_came_from() {
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
        assert_eq!(listed.entries[0].kind, Kind::Link);
        assert_eq!(w.boxes.writer(CommandBox::Tasks, &listed.entries[0]), Writer::Unknown);
        match w.claim("x.json") {
            Err(ClaimError::NotAFile { claimed, kind: Kind::Link }) => {
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
    assert_eq!(w.boxes.identity().unwrap(), Identity::Same);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("allowlist.json"), "{}").unwrap();
    for b in BoxName::ALL {
        fs::rename(w.boxes.path_of(b), w.root.path().join(b.as_str())).unwrap();
        symlink(outside.path(), w.boxes.path_of(b)).unwrap();
    }
    assert_eq!(w.boxes.identity().unwrap(), Identity::Replaced(BoxName::Messages));
    let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
    assert_eq!(listed.entries.iter().map(|e| e.name.as_os_str()).collect::<Vec<_>>(), ["mine.json"]);
    assert!(matches!(w.claim("allowlist.json"), Err(ClaimError::Gone)));
    w.claim("mine.json").unwrap();
    w.boxes.put_reply("r", b"{}").unwrap();
    w.boxes.ask_close().unwrap();
    assert_eq!(w.boxes.empty_before_create().unwrap(), Emptied::All);
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
    let mut hostile = vec![("fifo.json", Kind::Fifo), ("socket.json", Kind::Socket)];
    let zero = rustix::fs::makedev(1, 5);
    let device = FileType::CharacterDevice;
    if is_root()
        && rustix::fs::mknodat(CWD, at("zero.json"), device, Mode::from_raw_mode(0o666), zero).is_ok()
    {
        hostile.push(("zero.json", Kind::CharDevice));
    }
    for (name, is) in hostile {
        let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
        let entry = listed.entries.iter().find(|e| e.name == name).unwrap();
        assert_eq!(w.boxes.writer(CommandBox::Tasks, entry), Writer::Unknown);
        match w.claim(name) {
            Err(ClaimError::NotAFile { kind, .. }) => assert_eq!(kind, is),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(w.names("claimed"), [""; 0]);
}

#[test]
fn what_a_crash_left_claimed_and_is_no_file_is_malformed_and_goes_away() {
    let w = world();
    let at = |name: &str| w.root.path().join("claimed").join(name);
    rustix::fs::mknodat(CWD, at("1-main.json"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    symlink("/etc/passwd", at("2-main.json")).unwrap();
    fs::create_dir_all(at("3-main.json/deep")).unwrap();
    let claims = Claims::open(&w.host, 0).unwrap();
    let left = claims.left_over().unwrap().claims;
    for (claimed, is) in left.iter().zip([Kind::Fifo, Kind::Link, Kind::Directory]) {
        assert!(matches!(claims.read(claimed), Err(ReadError::NotAFile(kind)) if kind == is));
        claims.settle_dead(claimed, b"", &why()).unwrap();
        claims.acknowledge(claimed).unwrap();
    }
    assert_eq!(w.names("claimed"), [""; 0]);
    assert!(w.root.path().join("dead/main/3.dir/deep").is_dir());
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
fn whatever_is_swapped_into_place_during_the_claim_ends_somewhere_harmless() {
    let w = world();
    let (treasure, before) = w.treasure();
    let at = |name: &str| w.at(BoxName::Tasks, name);
    let stop = AtomicBool::new(false);
    let mut directories = 0;
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
                    assert_eq!(kind, Kind::Link);
                }
                Err(ClaimError::DirectoryMoved { claimed }) => {
                    settled += 1;
                    directories += 1;
                    assert!(w.root.path().join(format!("dead/main/{}.dir", claimed.id)).is_dir());
                }
                Err(ClaimError::Gone | ClaimError::Directory) => {}
                Err(ClaimError::World(e)) => panic!("{e}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(w.names("claimed"), [""; 0]);
    assert_eq!(w.names("dead/main").len(), directories);
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
fn what_a_held_descriptor_writes_after_the_read_reaches_nobody() {
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
        // A file system allows so many links to one file; then another is begun.
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
fn inputs_are_claimed_back_by_their_names_and_everything_else_is_removed() {
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
    assert_eq!(w.boxes.empty_before_create().unwrap(), Emptied::More);
    assert_eq!(w.boxes.empty_before_create().unwrap(), Emptied::All);
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
    assert!(matches!(w.boxes.container_state(), Err(StateError::NotAFile(Kind::Link))));
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    assert!(matches!(w.boxes.container_state(), Err(StateError::NotAFile(Kind::Fifo))));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(w.boxes.container_state(), Err(StateError::NotAFile(Kind::Directory))));
}

#[test]
fn a_change_in_a_command_box_is_told_twice_and_then_no_more() {
    let w = world();
    assert_eq!(w.boxes.changed().unwrap(), CommandBox::ALL);
    assert_eq!(w.boxes.changed().unwrap(), CommandBox::ALL);
    assert_eq!(w.boxes.changed().unwrap(), []);
    // Until the kernel's clock has ticked a new name leaves the stamp as it is.
    let before = fs::metadata(w.boxes.path_of(BoxName::Tasks)).unwrap();
    let mut n = 0;
    while fs::metadata(w.boxes.path_of(BoxName::Tasks)).unwrap().modified().unwrap()
        == before.modified().unwrap()
    {
        n += 1;
        fs::write(w.at(BoxName::Tasks, format!("{n}.json")), "{}").unwrap();
    }
    assert_eq!(w.boxes.changed().unwrap(), [CommandBox::Tasks]);
    assert_eq!(w.boxes.changed().unwrap(), [CommandBox::Tasks]);
    assert_eq!(w.boxes.changed().unwrap(), []);
}

#[test]
fn a_listed_file_with_a_writer_is_told_from_one_without() {
    let w = world();
    let writes = File::create(w.at(BoxName::Tasks, "x.json")).unwrap();
    let entry = w.boxes.list(CommandBox::Tasks, 1).unwrap().entries.remove(0);
    assert_eq!(w.boxes.writer(CommandBox::Tasks, &entry), Writer::Holds);
    drop(writes);
    // A process that is just being started beside us may hold a copy of the descriptor for a moment.
    while w.boxes.writer(CommandBox::Tasks, &entry) == Writer::Holds {
        std::thread::yield_now();
    }
    assert_eq!(w.boxes.writer(CommandBox::Tasks, &entry), Writer::None);
    fs::rename(w.at(BoxName::Tasks, "x.json"), w.at(BoxName::Tasks, "y.json")).unwrap();
    assert_eq!(w.boxes.writer(CommandBox::Tasks, &entry), Writer::Unknown);
}

#[test]
fn a_file_that_an_undone_rename_puts_back_is_known_by_its_origin() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "x.json"), "{}").unwrap();
    let claimed = w.claim("x.json").unwrap();
    let before = w.claims.read(&claimed).unwrap().origin;
    w.claims.sync_source(&w.boxes, CommandBox::Tasks).unwrap();
    w.host.sync_all().unwrap();
    fs::rename(&claimed.path, w.at(BoxName::Tasks, "x.json")).unwrap();
    let again = w.claim("x.json").unwrap();
    assert_eq!(w.claims.read(&again).unwrap().origin, before);
    fs::write(w.at(BoxName::Tasks, "x.json"), "{}").unwrap();
    let other = w.claim("x.json").unwrap();
    assert_ne!(w.claims.read(&other).unwrap().origin, before);
}

#[test]
fn boxes_belong_to_the_container_and_what_is_above_them_does_not() {
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
    assert_eq!(boxes.identity().unwrap(), Identity::Same);
    assert_eq!(fs::metadata(boxes.path_of(BoxName::Tasks)).unwrap().permissions().mode() & 0o700, 0o700);
    boxes.remove().unwrap();
    assert!(!w.root.path().join("ipc/v1").exists());
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
    let full = |e: &g2::ipc::World| assert!(e.to_string().contains("free some space"), "{e}");
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
