#![expect(clippy::disallowed_methods, reason = "plays the container, in a temporary folder")]

use std::{collections::BTreeSet, os::fd::AsRawFd as _, path::Path, sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use super::*;
use crate::ipc::{Claims, HostDirs, names::BoxName};

struct WorldFault {
    root: tempfile::TempDir,
    host: Arc<HostDirs>,
    boxes: GroupBoxes,
    watch: Watch,
}

fn world() -> WorldFault {
    let root = tempfile::tempdir().unwrap();
    let host = HostDirs::open(root.path()).unwrap();
    let boxes = GroupBoxes::open(&host, &Folder::parse("main").unwrap(), None).unwrap();
    let mut watch = Watch::default();
    watch.watch_group(&boxes).unwrap();
    WorldFault { root, host, boxes, watch }
}

impl WorldFault {
    fn path(&self, b: CommandBox, name: &str) -> PathBuf {
        self.boxes.path_of(b.name()).join(name)
    }

    /// Renames a file into a box. A process that another test makes meanwhile has it open for a moment, too, and closes it later: not
    /// under a name in the box, as it is written outside.
    fn publish(&self, b: CommandBox, name: &str) {
        let (written, building) = (self.root.path().join("written"), self.path(b, "building.tmp"));
        std::fs::write(&written, "{}").unwrap();
        std::fs::hard_link(&written, &building).unwrap();
        std::fs::remove_file(written).unwrap();
        std::fs::rename(building, self.path(b, name)).unwrap();
    }

    fn open(&self, group: &str) -> GroupBoxes {
        GroupBoxes::open(&self.host, &Folder::parse(group).unwrap(), None).unwrap()
    }

    async fn next(&mut self) -> Hint {
        tokio::time::timeout(Duration::from_secs(60), self.watch.next()).await.expect("a hint")
    }

    fn inotify(&self) -> &Inotify {
        let source: &dyn Any = &*self.watch.source;
        source.downcast_ref().unwrap()
    }

    fn inotify_mut(&mut self) -> &mut Inotify {
        let source: &mut dyn Any = &mut *self.watch.source;
        source.downcast_mut().unwrap()
    }

    fn rests(&self) -> bool {
        matches!(self.inotify().instance, Some(Instance::Rests { .. }))
    }

    fn rest(&mut self) {
        let inotify = self.inotify_mut();
        inotify.instance = inotify.instance.take().map(Instance::rest);
        inotify.idle = IDLE_READS;
    }

    /// Has it read what tells nothing until this holds.
    async fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let reads = async {
            while !holds(self) {
                assert_eq!(self.watch.next().now_or_never(), None);
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reads).await.expect("it holds some time");
    }

    fn file(&self, in_box: CommandBox, name: &str) -> Hint {
        Hint::File { folder: self.boxes.folder().clone(), in_box, name: name.into() }
    }
}

#[tokio::test]
async fn a_thousand_renames_over_two_boxes_are_told_in_their_order() {
    let mut w = world();
    let order: Vec<_> = (0..1_000).map(|n| (CommandBox::ALL[(n * n) % 2], format!("{n}.json"))).collect();
    order.iter().for_each(|(b, name)| w.publish(*b, name));
    for (b, name) in &order {
        let expected = w.file(*b, name);
        assert_eq!(w.next().await, expected);
    }
}

#[tokio::test]
async fn a_file_written_in_place_is_told_when_its_writer_closes_it_and_our_reads_never() {
    let mut w = world();
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
async fn a_claim_is_one_event_and_no_hint() {
    let mut w = world();
    w.publish(CommandBox::Tasks, "x.json");
    let published = w.file(CommandBox::Tasks, "x.json");
    assert_eq!(w.next().await, published);
    let claims = Claims::open(&w.host, 1).unwrap();
    w.boxes.claim(CommandBox::Tasks, OsStr::new("x.json"), &claims).unwrap();
    let inotify = w.inotify_mut();
    let mut reader = Reader::new(inotify.instance.as_ref().unwrap(), &mut inotify.buffer);
    let event = reader.next().unwrap();
    assert_eq!(event.events(), ReadFlags::MOVED_TO);
    let name = OsStr::from_bytes(event.file_name().unwrap().to_bytes()).to_owned();
    assert_ne!(without_hand(&name), name);
    assert!(matches!(reader.next(), Err(Errno::AGAIN)));
}

#[tokio::test]
async fn what_tells_nothing_again_and_again_is_read_after_a_rest_and_delays_nothing_else() {
    let mut w = world();
    for n in 0..IDLE_READS {
        assert!(!w.rests());
        std::fs::write(w.path(CommandBox::Tasks, &format!("{n}.txt")), "no command").unwrap();
        w.until(|w| w.inotify().idle > n).await;
    }
    assert!(w.rests());
    for name in ["a.json", "b.json"] {
        w.publish(CommandBox::Tasks, name);
        let told = w.file(CommandBox::Tasks, name);
        assert_eq!(w.next().await, told);
        assert!(!w.rests(), "something was told");
    }
}

#[tokio::test]
async fn after_a_rest_in_which_nothing_came_the_next_event_wakes_at_once() {
    let mut w = world();
    w.rest();
    w.publish(CommandBox::Tasks, "x.txt");
    w.until(|w| w.inotify().idle > IDLE_READS).await;
    assert!(w.rests(), "its event told nothing");
    w.until(|w| !w.rests()).await;
    assert!(matches!(w.inotify().instance, Some(Instance::Awaited(_))));
    assert_eq!(w.inotify().idle, 0);
    w.publish(CommandBox::Tasks, "a.json");
    let told = w.file(CommandBox::Tasks, "a.json");
    assert_eq!(w.next().await, told);
}

#[tokio::test]
async fn a_read_that_finds_nothing_ends_no_row_of_those_that_told_nothing() {
    let mut w = world();
    w.inotify_mut().idle = 5;
    // One event, whatever other tests do meanwhile.
    std::fs::create_dir(w.root.path().join("x")).unwrap();
    std::fs::rename(w.root.path().join("x"), w.path(CommandBox::Tasks, "x.txt")).unwrap();
    // Read by somebody else, after the kernel woke us.
    let inotify = w.inotify_mut();
    let Some(Instance::Awaited(instance)) = &inotify.instance else { panic!() };
    drop(instance.readable().await.unwrap());
    while Reader::new(instance, &mut inotify.buffer).next().is_ok() {}
    assert_eq!(w.watch.next().now_or_never(), None);
    assert_eq!(w.inotify().idle, 5);
    let Some(Instance::Awaited(instance)) = &w.inotify().instance else { panic!() };
    assert!(instance.readable().now_or_never().is_none(), "it has read");
}

#[tokio::test]
async fn a_read_behind_a_full_one_that_finds_nothing_ends_no_rest() {
    let mut w = world();
    w.rest();
    // As many as could have filled the buffer, had their names been long.
    (0..READ / LONGEST).for_each(|n| {
        std::fs::write(w.path(CommandBox::Tasks, &format!("{}.txt", n % 2)), "").unwrap();
    });
    let Some(Instance::Rests { until: first, .. }) = w.inotify().instance else { panic!() };
    let is_first = |w: &WorldFault| matches!(w.inotify().instance, Some(Instance::Rests { until, .. }) if until == first);
    w.until(|w| !is_first(w)).await;
    assert!(w.rests(), "it rests once more");
}

#[tokio::test]
async fn when_the_kernel_lets_nobody_wait_any_more_each_group_is_told_of_and_can_be_watched_anew() {
    let mut w = world();
    let other = w.open("other");
    w.watch.watch_group(&other).unwrap();
    // Nobody can wait for a file. It has no events either.
    std::fs::write(w.root.path().join("file"), "").unwrap();
    let file = std::fs::File::open(w.root.path().join("file")).unwrap();
    w.inotify_mut().instance = Some(Instance::Rests { instance: file.into(), until: Instant::now() });
    assert_eq!(w.next().await, Hint::Rescan);
    let lost = BTreeSet::from([w.next().await, w.next().await].map(|hint| match hint {
        Hint::Lost { folder } => folder.to_string(),
        other => panic!("{other:?}"),
    }));
    assert_eq!(lost, BTreeSet::from(["main".to_owned(), "other".to_owned()]));
    w.watch.watch_group(&w.boxes).unwrap();
    w.publish(CommandBox::Tasks, "a.json");
    let told = w.file(CommandBox::Tasks, "a.json");
    assert_eq!(w.next().await, told);
}

#[tokio::test]
async fn a_group_is_watched_and_let_go_of_while_its_events_wake_nobody() {
    let mut w = world();
    let other = w.open("other");
    w.rest();
    w.watch.watch_group(&other).unwrap();
    w.watch.unwatch(w.boxes.folder());
    assert!(w.rests());
    w.publish(CommandBox::Tasks, "nobody.json");
    let here = other.path_of(BoxName::Tasks).join("a.json");
    std::fs::write(&here, "{}").unwrap();
    let told =
        Hint::File { folder: other.folder().clone(), in_box: CommandBox::Tasks, name: "a.json".into() };
    assert_eq!(w.next().await, told);
}

#[tokio::test]
async fn while_events_are_left_to_read_there_is_no_rest() {
    for rests in [false, true] {
        let mut w = world();
        let long = |n: usize| format!("{n:0>251}.txt");
        // None is like the one before it.
        (0..8_000).for_each(|n| std::fs::write(w.path(CommandBox::Tasks, &long(n % 2)), "").unwrap());
        w.publish(CommandBox::Tasks, "a.json");
        let told = w.file(CommandBox::Tasks, "a.json");
        if rests {
            w.rest();
        }
        let until = |w: &WorldFault| match &w.inotify().instance {
            Some(Instance::Rests { until, .. }) => Some(*until),
            Some(Instance::Awaited(_)) | None => None,
        };
        let first = until(&w);
        loop {
            if let Some(next) = w.watch.next().now_or_never() {
                break assert_eq!(next, told);
            }
            if w.watch.told.is_empty() {
                assert_eq!(until(&w), first);
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn more_than_the_kernel_keeps_is_one_rescan_after_what_it_kept_and_hints_go_on() {
    for rests in [false, true] {
        let mut w = world();
        let kept: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let (a, b) = (w.path(CommandBox::Tasks, "a.json"), w.path(CommandBox::Tasks, "b.json"));
        std::fs::write(&a, "{}").unwrap();
        // Each is an event, and none is like the one before it.
        (0..kept).for_each(|n| {
            if n % 2 == 0 { std::fs::rename(&a, &b) } else { std::fs::rename(&b, &a) }.unwrap()
        });
        if rests {
            w.rest();
        }
        let mut told = 0;
        while w.next().await != Hint::Rescan {
            told += 1;
        }
        assert_eq!(told, kept);
        w.publish(CommandBox::Tasks, "after.json");
        let after = w.file(CommandBox::Tasks, "after.json");
        assert_eq!(w.next().await, after);
    }
}

#[tokio::test]
async fn a_box_that_goes_away_is_told_and_watching_again_mends_it() {
    let mut w = world();
    let tasks = w.boxes.path_of(CommandBox::Tasks.name());
    std::fs::rename(&tasks, w.root.path().join("elsewhere")).unwrap();
    let lost = Hint::Lost { folder: w.boxes.folder().clone() };
    assert_eq!(w.next().await, lost);
    w.boxes = w.open("main");
    w.watch.watch_group(&w.boxes).unwrap();
    w.publish(CommandBox::Tasks, "again.json");
    let again = w.file(CommandBox::Tasks, "again.json");
    while w.next().await != again {}
}

#[tokio::test]
async fn what_was_told_before_a_group_is_watched_again_is_not_lost() {
    let mut w = world();
    w.publish(CommandBox::Tasks, "kept.json");
    let messages = w.boxes.path_of(CommandBox::Messages.name());
    std::fs::rename(&messages, w.root.path().join("elsewhere")).unwrap();
    w.boxes = w.open("main");
    w.watch.watch_group(&w.boxes).unwrap();
    w.publish(CommandBox::Messages, "new.json");
    let (kept, new) = (w.file(CommandBox::Tasks, "kept.json"), w.file(CommandBox::Messages, "new.json"));
    // The box that was replaced is watched no more: its end is of nobody.
    assert_eq!(w.next().await, kept);
    assert_eq!(w.next().await, new);
}

#[tokio::test]
async fn a_group_that_is_no_more_watched_tells_nothing_and_costs_the_kernel_nothing() {
    let mut w = world();
    let watches = |w: &WorldFault| {
        let fd = w.inotify().instance.as_ref().unwrap().as_fd().as_raw_fd();
        let text = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(fd.to_string())).unwrap();
        text.lines().filter(|line| line.starts_with("inotify ")).count()
    };
    let other = w.open("other");
    w.watch.watch_group(&other).unwrap();
    assert_eq!(watches(&w), 4);
    w.publish(CommandBox::Tasks, "x.json");
    w.watch.unwatch(w.boxes.folder());
    w.watch.unwatch(w.boxes.folder());
    assert_eq!(watches(&w), 2);
    assert!(w.watch.watched.boxes.len() == 2 && w.watch.watched.groups.len() == 1);
    std::fs::write(other.path_of(BoxName::Tasks).join("y.json"), "{}").unwrap();
    let theirs =
        Hint::File { folder: other.folder().clone(), in_box: CommandBox::Tasks, name: "y.json".into() };
    assert_eq!(w.next().await, theirs);
}

#[tokio::test]
async fn a_box_that_is_moved_to_another_group_is_watched_as_that_groups() {
    let mut w = world();
    let other = w.open("other");
    w.watch.watch_group(&other).unwrap();
    let (ours, theirs) = (w.boxes.path_of(BoxName::Messages), other.path_of(BoxName::Messages));
    std::fs::rename(&ours, w.root.path().join("elsewhere")).unwrap();
    std::fs::rename(&theirs, &ours).unwrap();
    let lost = |folder: &Folder| Hint::Lost { folder: folder.clone() };
    assert_eq!([w.next().await, w.next().await], [lost(w.boxes.folder()), lost(other.folder())]);
    for name in ["main", "other"] {
        let boxes = w.open(name);
        w.watch.watch_group(&boxes).unwrap();
    }
    w.publish(CommandBox::Messages, "x.json");
    let told = w.file(CommandBox::Messages, "x.json");
    assert_eq!(w.next().await, told);
}

#[tokio::test]
async fn a_box_that_can_not_be_watched_leaves_nothing_of_its_group_watched() {
    let mut w = world();
    let tasks = w.boxes.path_of(CommandBox::Tasks.name());
    for bad in ["a link", "a file", "nothing"] {
        let _ = std::fs::remove_dir(&tasks);
        let _ = std::fs::remove_file(&tasks);
        match bad {
            "a link" => std::os::unix::fs::symlink("/", &tasks).unwrap(),
            "a file" => std::fs::write(&tasks, "").unwrap(),
            _ => {}
        }
        let refused = w.watch.watch_group(&w.boxes);
        assert!(matches!(refused, Err(WatchError::Failed { .. })), "{bad}");
        assert!(w.watch.watched.boxes.is_empty() && w.watch.watched.groups.is_empty(), "{bad}");
    }
}

#[tokio::test]
async fn while_nothing_is_watched_no_hint_comes() {
    let next = async { Watch::default().next().await };
    assert!(tokio::time::timeout(Duration::ZERO, next).await.is_err());
}

#[test]
fn each_kind_of_event_means_what_it_does_to_a_box() {
    let folder = Folder::parse("main").unwrap();
    let told = |number, events: ReadFlags, name: Option<&str>| {
        let boxes = [(7, (folder.clone(), CommandBox::Tasks))].into();
        let mut watched = Watched { boxes, groups: HashMap::new() };
        let hint = watched.hint(number, events, name.map(OsStr::new));
        (hint, watched.boxes.len())
    };
    let lost = Some(Hint::Lost { folder: folder.clone() });
    let file = |name: &str| {
        Some(Hint::File { folder: folder.clone(), in_box: CommandBox::Tasks, name: name.into() })
    };
    for (number, events, name, hint, left) in [
        (-1, ReadFlags::QUEUE_OVERFLOW, None, Some(Hint::Rescan), 1),
        (7, ReadFlags::DELETE_SELF, None, lost.clone(), 0),
        (7, ReadFlags::MOVE_SELF, None, lost.clone(), 0),
        (7, ReadFlags::UNMOUNT, None, lost.clone(), 0),
        (7, ReadFlags::IGNORED, None, lost, 0),
        (7, ReadFlags::MOVED_TO, Some("x.json"), file("x.json"), 1),
        (7, ReadFlags::CLOSE_WRITE, Some("x.json"), file("x.json"), 1),
        (7, ReadFlags::MOVED_TO, Some("x.txt"), None, 1),
        (7, ReadFlags::MOVED_TO, None, None, 1),
        // Of a watch that ended.
        (8, ReadFlags::MOVED_TO, Some("x.json"), None, 1),
        (8, ReadFlags::IGNORED, None, None, 1),
    ] {
        assert_eq!(told(number, events, name), (hint, left), "{number} {events:?} {name:?}");
    }
}
