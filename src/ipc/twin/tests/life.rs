//! Calls that fail, lives that end, and what others do between two calls: boxes of the daemon's, in the twin.

use std::sync::Mutex;

use futures_util::FutureExt as _;
use ipc_handlers::Folder;

use super::*;
use crate::ipc::{
    ClaimError, Claims, CommandBox, GroupBoxes, Hint, HostDirs, LeftOver, OriginKind, WorldFault, Writer,
};

const TASKS: &str = "/root/data/ipc/main/tasks";

fn twin() -> Twin {
    let twin = Twin::new(Settings::of(counter()));
    twin.hands(|hands| hands.make_folders("/root/data")).unwrap();
    twin
}

fn begin(twin: &Twin) -> std::result::Result<(Claims, GroupBoxes), WorldFault> {
    let files = twin.files();
    let host = HostDirs::open(files.at(Path::new("/root/data")))?;
    let claims = Claims::open(&host, 0)?;
    let boxes = GroupBoxes::open(&host, &Folder::parse("main").unwrap(), Some((1000, 1000)))?;
    Ok((claims, boxes))
}

/// As a container does it.
fn publish(hands: &mut Hands<'_>, name: &str, bytes: &[u8]) {
    hands.act_as(1000, 1000);
    hands.write(format!("{TASKS}/building"), bytes).unwrap();
    hands.rename(format!("{TASKS}/building"), format!("{TASKS}/{name}")).unwrap();
}

#[test]
fn a_command_goes_its_way_in_memory_and_nothing_of_it_is_on_the_disk() {
    let twin = twin();
    let (claims, boxes) = begin(&twin).unwrap();
    twin.hands(|hands| publish(hands, "x.json", b"{}"));
    let listed = boxes.list(CommandBox::Tasks, 10).unwrap();
    assert_eq!(listed.entries.len(), 1);
    let (claimed, read) = boxes.claim_and_read(CommandBox::Tasks, OsStr::new("x.json"), &claims).unwrap();
    let read = read.unwrap();
    assert_eq!((read.bytes.as_slice(), read.origin.kind), (&b"{}"[..], OriginKind::Handle));
    assert_eq!(claims.writer(&claimed), Writer::None);
    boxes.put_reply("r1", b"[]").unwrap();
    claims.settle_applied(&claimed, b"{}", Some(b"[]")).unwrap();
    claims.acknowledge(&claimed).unwrap();
    twin.hands(|hands| {
        assert_eq!(hands.read("/root/data/ipc/main/responses/r1.json").unwrap(), b"[]");
        assert_eq!(hands.read("/root/data/done/main/1.json").unwrap(), b"{}");
        assert_eq!(hands.names(TASKS).unwrap(), [] as [Vec<u8>; 0]);
        assert_eq!(hands.stat("/root/data/ipc/main/responses/r1.json").unwrap().0.st_uid, 1000);
    });
    assert!(!Path::new("/root/data/done/main/1.json").exists());
}

#[test]
fn a_command_that_cant_be_looked_at_counts_as_there() {
    let twin = twin();
    let (_claims, boxes) = begin(&twin).unwrap();
    twin.hands(|hands| publish(hands, "x.json", b"{}"));
    for (why, is_listed) in [(Errno::NOENT, true), (Errno::IO, false), (Errno::NFILE, false)] {
        twin.before(move |call: &Call<'_>, _: &mut Hands<'_>| match (call.op, call.path.to_str()) {
            (Op::StatAt, Some("x.json")) => Fate::Fails(why),
            _ => Fate::Made,
        });
        assert_eq!(boxes.list(CommandBox::Tasks, 10).is_ok(), is_listed, "{why}");
        assert_eq!(boxes.list_newest(CommandBox::Tasks, 10).is_ok(), is_listed, "{why}");
    }
}

#[test]
fn a_box_has_not_been_seen_where_the_other_one_cant_be_looked_at() {
    let twin = twin();
    let (_claims, boxes) = begin(&twin).unwrap();
    let late = Time(10_000_000);
    while !boxes.changed(late).unwrap().is_empty() {}
    for name in ["messages", "tasks"] {
        let path = format!("/root/data/ipc/main/{name}/x.json");
        twin.hands(|hands| hands.write(path, b"{}")).unwrap();
    }
    for fails in ["main/tasks", "main/messages"] {
        twin.before(move |call: &Call<'_>, _: &mut Hands<'_>| match call.path.to_str() {
            Some(path) if path == fails => Fate::Fails(Errno::IO),
            _ => Fate::Made,
        });
        assert!(boxes.changed(late).is_err());
    }
    twin.before_nothing();
    assert_eq!(boxes.changed(late).unwrap(), CommandBox::ALL);
}

/// Claims once, whatever is against it, and then as another life does. Returns what became of the command's bytes.
fn claims_after(twin: &Twin) -> Vec<Vec<u8>> {
    twin.revive();
    twin.before_nothing();
    let (claims, boxes) = begin(twin).unwrap();
    let LeftOver { claims: left, .. } = claims.left_over().unwrap();
    let mut read: Vec<Vec<u8>> = left.iter().map(|claim| claims.read(claim).unwrap().bytes).collect();
    for entry in boxes.list(CommandBox::Tasks, 10).unwrap().entries {
        let claimed = boxes.claim(CommandBox::Tasks, &entry.name, &claims).unwrap();
        let again = claims.read(&claimed).unwrap();
        if !left.iter().any(|claim| claims.read(claim).is_ok_and(|first| first.origin == again.origin)) {
            read.push(again.bytes);
        }
    }
    read
}

#[test]
fn wherever_a_claim_dies_or_fails_the_command_is_there_once() {
    for fate in [Fate::Dies, Fate::Fails(Errno::IO), Fate::Fails(Errno::MFILE)] {
        let mut calls = 0;
        for at in 0.. {
            let twin = twin();
            let (claims, boxes) = begin(&twin).unwrap();
            twin.hands(|hands| publish(hands, "x.json", b"{}"));
            let first = twin.calls();
            let mut n = 0;
            twin.before(move |_: &Call<'_>, _: &mut Hands<'_>| {
                n += 1;
                if n == at + 1 { fate } else { Fate::Made }
            });
            let claimed = boxes.claim(CommandBox::Tasks, OsStr::new("x.json"), &claims);
            calls = twin.calls() - first;
            assert_eq!(twin.is_dead(), fate == Fate::Dies && at < calls, "{fate:?} {at}");
            drop((claims, boxes));
            assert_eq!(claims_after(&twin), [b"{}"], "{fate:?} at {at}: {claimed:?}");
            if at >= calls {
                break;
            }
        }
        assert!(calls > 5, "{calls}");
    }
}

#[test]
fn the_dead_change_nothing_and_what_they_had_open_is_closed() {
    let twin = twin();
    let (claims, boxes) = begin(&twin).unwrap();
    let before = twin.hands(|hands| hands.names("/root/data/tmp").unwrap());
    twin.die();
    assert!(boxes.put_reply("r1", b"{}").is_err());
    assert!(begin(&twin).is_err());
    twin.revive();
    assert!(boxes.put_reply("r1", b"{}").is_err(), "it is of another life");
    drop((claims, boxes));
    assert_eq!(twin.hands(|hands| hands.names("/root/data/tmp").unwrap()), before);
    assert_eq!(twin.hands(|hands| hands.names("/root/data/ipc/main/responses").unwrap()), [] as [Vec<u8>; 0]);
    begin(&twin).unwrap().1.put_reply("r1", b"{}").unwrap();
}

#[test]
fn what_a_container_does_between_two_calls_is_met() {
    let twin = twin();
    let (claims, boxes) = begin(&twin).unwrap();
    twin.hands(|hands| publish(hands, "x.json", b"{}"));
    twin.before(|call: &Call<'_>, hands: &mut Hands<'_>| {
        if call.op == Op::Rename && call.path == "x.json" {
            assert_eq!(call.folder, Path::new(TASKS));
            hands.act_as(1000, 1000);
            hands.unlink(format!("{TASKS}/x.json")).unwrap();
            hands.make_link("/etc/passwd", format!("{TASKS}/x.json")).unwrap();
        }
        Fate::Made
    });
    let claimed = boxes.claim(CommandBox::Tasks, OsStr::new("x.json"), &claims);
    assert!(matches!(claimed, Err(ClaimError::NotAFile { .. })), "{claimed:?}");
}

#[test]
fn a_watch_tells_once_twice_late_never_or_that_it_lost_some() {
    let twin = twin();
    let (_claims, boxes) = begin(&twin).unwrap();
    let mut watch = twin.files().watch();
    watch.watch_group(&boxes).unwrap();
    let told = Arc::new(Mutex::new(Told::Once));
    let now = Arc::clone(&told);
    twin.telling(move |notice: &Notice| {
        if notice.name.as_deref() == Some(OsStr::new("building")) {
            Told::Never
        } else {
            *now.lock().unwrap()
        }
    });
    let file = |name: &str| {
        Some(Hint::File { folder: boxes.folder().clone(), in_box: CommandBox::Tasks, name: name.into() })
    };
    let mut next = || watch.next().now_or_never();
    let publish = |name: &str, how: Told| {
        *told.lock().unwrap() = how;
        twin.hands(|hands| publish(hands, name, b"{}"));
    };
    publish("a.json", Told::Once);
    assert_eq!((next(), next()), (file("a.json"), None));
    publish("b.json", Told::Twice);
    assert_eq!((next(), next(), next()), (file("b.json"), file("b.json"), None));
    publish("c.json", Told::Never);
    assert_eq!(next(), None);
    publish("d.json", Told::Later);
    publish("e.json", Told::Once);
    assert_eq!((next(), twin.tell_later_ones(1)), (None, 1));
    assert_eq!((next(), next()), (file("d.json"), None));
    assert_eq!((twin.tell_later_ones(9), next(), next()), (0, file("e.json"), None));
    publish("f.json", Told::Overflow);
    assert_eq!((next(), next()), (Some(Hint::Rescan), None));
    twin.telling_all();
    twin.hands(|hands| hands.rename(TASKS, "/root/elsewhere")).unwrap();
    assert_eq!(next(), Some(Hint::Lost { folder: boxes.folder().clone() }));
}

#[test]
fn one_seed_is_one_order_of_names_and_another_seed_another() {
    let listed = |seed| {
        let twin = Twin::new(Settings { scatters: seed, ..Settings::of(counter()) });
        twin.hands(|hands| {
            (0..50).for_each(|n| hands.write(format!("/{n}"), b"").unwrap());
        });
        let files = twin.files();
        let held = files.at(Path::new("/")).open().unwrap();
        let mut names = Vec::new();
        crate::ipc::dir::each_name(&held, |name, _| {
            names.push(name.to_owned());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        names
    };
    assert_eq!(listed(Some(1)), listed(Some(1)));
    assert_ne!(listed(Some(1)), listed(Some(2)));
    assert_eq!(listed(None)[..2], [c"0".to_owned(), c"1".to_owned()]);
    assert_eq!(listed(Some(3)).len(), 50);
}

#[test]
fn a_container_that_removes_a_reply_on_its_way_does_without_it_and_nobody_fails() {
    let twin = twin();
    let (_claims, boxes) = begin(&twin).unwrap();
    twin.before(|call: &Call<'_>, hands: &mut Hands<'_>| {
        if call.op == Op::Rename {
            for name in hands.names("/root/data/ipc/main/responses").unwrap() {
                hands
                    .unlink(Path::new("/root/data/ipc/main/responses").join(OsStr::from_bytes(&name)))
                    .unwrap();
            }
        }
        Fate::Made
    });
    boxes.put_reply("r1", b"[]").unwrap();
    twin.before_nothing();
    twin.hands(|hands| assert!(hands.names("/root/data/ipc/main/responses").unwrap().is_empty()));
    boxes.put_reply("r1", b"[]").unwrap();
    twin.hands(|hands| assert_eq!(hands.read("/root/data/ipc/main/responses/r1.json").unwrap(), b"[]"));
}
