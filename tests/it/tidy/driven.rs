//! The engine spawns, joins, sleeps and tries again for all loops. What does so by itself has a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::files;

/// How something is driven by hand.
const BY_HAND: [&str; 9] = [
    "tokio::spawn",
    "JoinSet",
    "sleep(",
    "sleep_until(",
    "select!",
    "spawn_blocking",
    "thread::spawn",
    "thread::Builder",
    "interval(",
];

/// Files that drive something by hand: what they use for it, and why.
#[rustfmt::skip]
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("src/channels/mod.rs", &["select!"], "a run ends once a person wants it anew"),
    ("src/channels/remote/channel.rs", &["sleep("], "a text waits for the pace of its platform"),
    ("src/channels/remote/child.rs", &["tokio::spawn"], "the last words of an adapter are read after its life"),
    ("src/channels/remote/life.rs", &["sleep(", "select!"], "a process is read, written, watched and stopped at once; what is written down is written seldom"),
    ("src/channels/remote/pace.rs", &["sleep_until("], "an adapter that says too much waits"),
    ("src/channels/remote/storing.rs", &["sleep("], "events are stored in their order, so all wait for the first"),
    ("src/channels/remote/lines.rs", &["sleep_until(", "select!"], "a pipe is read while a question waits for its answer"),
    ("src/channels/trial.rs", &["sleep("], "no part of the daemon: it tries an adapter, which is given half a line"),
    ("src/loops/backups.rs", &["select!"], "changed settings and the wish of a person come by two ways"),
    ("src/loops/control.rs", &["JoinSet", "sleep(", "select!"], "clients are read and told at once, and are still answered at the stop"),
    ("src/loops/housekeeping.rs", &["sleep("], "a step is followed by a pause in which others have the disk"),
    ("src/loops/ipc/open.rs", &["thread::Builder"], "a thousand groups' boxes are opened by two threads"),
    ("src/loops/ipc/worker.rs", &["sleep(", "select!"], "a worker waits for hints, jobs and the age of what it has seen; most do nothing else, and take little memory by that"),
    ("src/loops/ipc/worker/scan.rs", &["sleep("], "a scan waits out one tick of the file system's clock"),
    ("src/loops/prune.rs", &["sleep("], "a step is followed by a pause in which others have the store"),
    ("src/loops/run/end.rs", &["sleep("], "an end is not given up: the container of a run is killed until it is dead"),
    ("src/loops/run/health.rs", &["tokio::spawn"], "the engine of containers waits for one that is to stop, while its output is read on"),
    ("src/loops/run/records.rs", &["sleep("], "a record is not passed over: it waits for the store"),
    ("src/loops/run/watch.rs", &["sleep(", "select!", "interval("], "one door for all news of a run's life"),
    ("src/loops/typing.rs", &["select!"], "what is newer ends a call, after it was looked at once"),
];

/// Returns what a source uses to drive something by hand, outside of its tests.
fn by_hand(text: &str) -> BTreeSet<&'static str> {
    let code = &text[..text.find("#[cfg(test)]").unwrap_or(text.len())];
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    BY_HAND.into_iter().filter(|word| lines.iter().any(|line| line.contains(word))).collect()
}

#[test]
fn loops_and_channels_are_driven_by_the_engine() {
    let mut listed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, words, why) in EXCEPTIONS {
        assert!(!why.is_empty(), "{path} has no reason");
        listed.entry(path).or_default().extend(*words);
    }
    for (path, text) in ["src/loops", "src/channels"].into_iter().flat_map(|dir| files(dir, "rs")) {
        let is_test = |part: &Path| part.file_stem().is_some_and(|name| name == "tests");
        if path.ancestors().any(is_test) {
            continue;
        }
        let used = by_hand(&text);
        let may = listed.remove(path.to_str().unwrap()).unwrap_or_default();
        let more: Vec<_> = used.difference(&may).collect();
        assert!(
            more.is_empty(),
            "{} has {more:?}: let the engine drive it, or list it with a reason",
            path.display()
        );
        let fewer: Vec<_> = may.difference(&used).collect();
        assert!(fewer.is_empty(), "{} needs {fewer:?} no more: take it from the list", path.display());
    }
    assert!(listed.is_empty(), "no such files any more: {listed:?}");
}

#[test]
fn what_is_driven_by_hand_is_found_in_code_and_not_in_comments_or_tests() {
    let text = "// select! it\nasync { sleep(a).await }\n#[cfg(test)]\nmod tests { tokio::spawn(a) }";
    assert_eq!(by_hand(text), BTreeSet::from(["sleep("]));
}
