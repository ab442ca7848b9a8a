//! The time, chance and threads are given by a `system::world::World`. What reaches for one of them by itself has a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{files, top, without_tests};

/// Folders and files that are given a world.
const GIVEN: &[&str] = &[
    "src/app",
    "src/app.rs",
    "src/backup",
    "src/channels",
    "src/config",
    "src/engine",
    "src/gateway",
    "src/ipc",
    "src/loops",
    "src/ops",
    "src/root",
    "src/sandbox",
    "src/store",
    "src/web",
];

/// How something reaches for the time, chance or a thread by itself.
const BY_ITSELF: &[&str] = &[
    "clock::now",
    "clock::monotonic",
    "Instant::now",
    ".elapsed()",
    "SystemTime",
    "process::chance",
    "new_id(",
    "new_secret(",
    "threads::",
    "spawn_blocking",
    "block_in_place",
    "thread::Builder",
    "thread::spawn",
    "thread::scope",
];

/// Files that reach for something by themselves: what it is, and why.
#[rustfmt::skip]
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("src/backup/weigh.rs", &["SystemTime"], "the type of a file's stamp"),
    ("src/channels/remote/child.rs", &["Instant::now", ".elapsed()"], "the runtime's own, by which its timers go"),
    ("src/channels/remote/mod.rs", &["Instant::now", ".elapsed()"], "the runtime's own"),
    ("src/channels/remote/pace.rs", &["Instant::now"], "the runtime's own"),
    ("src/channels/remote/storing.rs", &["Instant::now", ".elapsed()"], "the runtime's own"),
    ("src/channels/remote/supervise.rs", &["Instant::now", ".elapsed()"], "the runtime's own"),
    ("src/channels/remote/lines.rs", &["Instant::now"], "the runtime's own"),
    ("src/channels/trial.rs", &["Instant::now"], "the runtime's own"),
    ("src/engine/drive.rs", &["Instant::now"], "the runtime's own: it says when its timers end"),
    ("src/engine/registry.rs", &["Instant::now"], "the runtime's own, as in drive.rs: its tests stop that clock"),
    ("src/gateway/body.rs", &["Instant::now", "block_in_place"], "the runtime's own; a large body is read where it is"),
    ("src/ipc/watch.rs", &["Instant::now"], "the runtime's own"),
    ("src/loops/chats.rs", &["Instant::now", ".elapsed()"], "the runtime's own: its tests stop that clock"),
    ("src/loops/ipc/open.rs", &["thread::Builder", "thread::scope"], "a thread borrows what it opens; it asks the world whether there are threads"),
    ("src/loops/run/watch.rs", &["block_in_place"], "a record of a run is read where it is; it asks the world whether there are threads"),
    ("src/ops/groups/remove.rs", &["Instant::now"], "the runtime's own"),
    ("src/store/check.rs", &["thread::spawn"], "ends a check that takes too long, for a command that looks"),
    ("src/store/search/file.rs", &["SystemTime"], "the type of a file's stamp"),
    ("src/web/live.rs", &["Instant::now"], "the runtime's own"),
];

/// Returns every source that is given a world, with its text.
fn given() -> Vec<(PathBuf, String)> {
    let of = |place: &&str| match place.ends_with(".rs") {
        true => vec![(PathBuf::from(place), std::fs::read_to_string(top().join(place)).unwrap())],
        false => files(place, "rs"),
    };
    GIVEN.iter().flat_map(of).collect()
}

/// Returns what code reaches for by itself.
fn by_itself(code: &str) -> BTreeSet<&'static str> {
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    BY_ITSELF.iter().copied().filter(|word| lines.iter().any(|line| line.contains(word))).collect()
}

#[test]
fn time_chance_and_threads_are_given() {
    let mut listed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, words, why) in EXCEPTIONS {
        assert!(!why.is_empty(), "{path} has no reason");
        listed.entry(path).or_default().extend(*words);
    }
    for (path, text) in given() {
        let used = by_itself(without_tests(&path, &text));
        let may = listed.remove(path.to_str().unwrap()).unwrap_or_default();
        let more: Vec<_> = used.difference(&may).collect();
        assert!(
            more.is_empty(),
            "{} has {more:?}: have a world given to it, or list it with a reason",
            path.display()
        );
        let fewer: Vec<_> = may.difference(&used).collect();
        assert!(fewer.is_empty(), "{} needs {fewer:?} no more: take it from the list", path.display());
    }
    assert!(listed.is_empty(), "no such files any more: {listed:?}");
}

#[test]
fn what_is_reached_for_is_found_in_code_and_not_in_comments() {
    let text = "// clock::now\nlet at = clock::monotonic();\nlet world = world.now();";
    assert_eq!(by_itself(text), BTreeSet::from(["clock::monotonic"]));
}
