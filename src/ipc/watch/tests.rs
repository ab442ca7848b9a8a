#![expect(clippy::disallowed_methods, reason = "plays the container, in a temporary folder")]

use std::time::Duration;

use notify::event::{Flag, RemoveKind};

use super::*;
use crate::ipc::HostDirs;

struct World {
    root: tempfile::TempDir,
    host: Arc<HostDirs>,
    boxes: GroupBoxes,
    watch: Watch,
    hints: Hints,
}

fn world(capacity: usize) -> World {
    let root = tempfile::tempdir().unwrap();
    let host = HostDirs::open(root.path()).unwrap();
    let boxes = GroupBoxes::open(&host, &Folder::parse("main").unwrap(), None).unwrap();
    let (sender, hints) = hints(capacity);
    let watch = Watch::new(sender);
    watch.watch_group(&boxes).unwrap();
    World { root, host, boxes, watch, hints }
}

impl World {
    fn path(&self, b: CommandBox, name: &str) -> PathBuf {
        self.boxes.path_of(b.name()).join(name)
    }

    fn publish(&self, b: CommandBox, name: &str) {
        let building = self.path(b, "building.tmp");
        std::fs::write(&building, "{}").unwrap();
        std::fs::rename(building, self.path(b, name)).unwrap();
    }

    async fn next(&mut self) -> Hint {
        tokio::time::timeout(Duration::from_secs(60), self.hints.recv()).await.expect("a hint").unwrap()
    }

    fn file(&self, in_box: CommandBox, name: &str) -> Hint {
        Hint::File { folder: self.boxes.folder().clone(), in_box, name: name.into() }
    }
}

#[tokio::test]
async fn a_thousand_renames_over_two_boxes_are_told_in_their_order() {
    let mut w = world(4_096);
    let order: Vec<_> = (0..1_000).map(|n| (CommandBox::ALL[(n * n) % 2], format!("{n}.json"))).collect();
    order.iter().for_each(|(b, name)| w.publish(*b, name));
    for (b, name) in &order {
        let expected = w.file(*b, name);
        assert_eq!(w.next().await, expected);
    }
}

#[tokio::test]
async fn a_file_written_in_place_is_told_when_its_writer_closes_it_and_our_reads_never() {
    let mut w = world(64);
    w.publish(CommandBox::Tasks, "first.json");
    for _ in 0..50 {
        w.boxes.list(CommandBox::Tasks, 10).unwrap();
        std::fs::read(w.path(CommandBox::Tasks, "first.json")).unwrap();
    }
    std::fs::write(w.path(CommandBox::Tasks, "notes.txt"), "not a command").unwrap();
    std::fs::write(w.path(CommandBox::Messages, "echo.json"), "{}").unwrap();
    let (first, echo) = (w.file(CommandBox::Tasks, "first.json"), w.file(CommandBox::Messages, "echo.json"));
    assert_eq!(w.next().await, first);
    assert_eq!(w.next().await, echo);
}

#[tokio::test]
async fn more_than_the_queue_holds_becomes_one_rescan_and_hints_go_on() {
    let mut w = world(8);
    (0..200).for_each(|n| w.publish(CommandBox::Tasks, &format!("{n}.json")));
    let lost = async {
        while !w.hints.has_lost() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), lost).await.expect("the queue overflows");
    for n in 0..8 {
        let expected = w.file(CommandBox::Tasks, &format!("{n}.json"));
        assert_eq!(w.next().await, expected);
    }
    assert_eq!(w.next().await, Hint::Rescan);
    // The watcher may not be through with the 200 yet: whatever it drops ends in a Rescan too.
    let after = w.file(CommandBox::Tasks, "after.json");
    w.publish(CommandBox::Tasks, "after.json");
    loop {
        let hint = w.next().await;
        if hint == after {
            break;
        }
        if hint == Hint::Rescan {
            w.publish(CommandBox::Tasks, "after.json");
        }
    }
}

#[tokio::test]
async fn a_box_that_goes_away_is_told_and_watching_again_mends_it() {
    let mut w = world(64);
    let tasks = w.boxes.path_of(CommandBox::Tasks.name());
    std::fs::rename(&tasks, w.root.path().join("elsewhere")).unwrap();
    let lost = Hint::Lost { folder: w.boxes.folder().clone() };
    assert_eq!(w.next().await, lost);
    w.boxes = GroupBoxes::open(&w.host, &Folder::parse("main").unwrap(), None).unwrap();
    w.watch.watch_group(&w.boxes).unwrap();
    w.publish(CommandBox::Tasks, "again.json");
    let again = w.file(CommandBox::Tasks, "again.json");
    while w.next().await != again {}
}

#[test]
fn a_removed_watch_an_overflow_and_an_error_are_told_and_an_open_is_not() {
    let boxed = PathBuf::from("/data/ipc/main/tasks");
    let folder = Folder::parse("main").unwrap();
    let watched = Watched::default();
    watched.write().unwrap().insert(boxed.clone(), (folder.clone(), CommandBox::Tasks));
    let told = |event| {
        let mut hints = Vec::new();
        translate(&watched, event, |hint| hints.push(hint));
        hints
    };
    assert_eq!(told(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))), [Hint::Rescan]);
    assert_eq!(told(Err(notify::Error::generic("read"))), [Hint::Rescan]);
    let removed = Event::new(EventKind::Remove(RemoveKind::Folder)).add_path(boxed.clone());
    assert_eq!(told(Ok(removed)), [Hint::Lost { folder }]);
    let opened =
        Event::new(EventKind::Access(AccessKind::Open(AccessMode::Any))).add_path(boxed.join("x.json"));
    assert_eq!(told(Ok(opened)), []);
    let elsewhere = EventKind::Modify(ModifyKind::Name(RenameMode::To));
    assert_eq!(told(Ok(Event::new(elsewhere).add_path("/elsewhere/x.json".into()))), []);
}
