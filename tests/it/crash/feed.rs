//! The feed of changes, and the daemon dead before and after each of its commits: who follows it sees each change once.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;

use super::{
    client::{rest, send, tell},
    scene::{die_at, for_each},
};
use crate::support::Root;

const CHAT: &str = "local:main";

/// `g2 events --follow`, which never ends by itself.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_follower_of_the_feed_sees_each_change_once_wherever_the_daemon_died() {
    let steps = ["feed.written", "feed.committed"];
    let points: Vec<String> = steps.iter().flat_map(|step| [2, 5].map(|n| format!("{step}:{n}"))).collect();
    for_each(&points, |point| {
        let root = Root::new("");
        assert_eq!(root.serve().terminate(), Some(0));
        let mut following = root.command(&["--json", "events", "--follow", "--since", "0"]);
        let mut following = Following(following.stdout(Stdio::piped()).spawn().unwrap());
        die_at(&root, point, || tell(&root, CHAT, "hello"));
        let daemon = root.serve();
        send(&root, CHAT, "hello");
        rest(&root, CHAT);
        assert_eq!(root.said(CHAT), ["echo: hello"], "{point}");
        daemon.kill();
        let all = root.rows(&["events"]);
        let lines = BufReader::new(following.0.stdout.take().unwrap()).lines();
        let seen: Vec<Value> =
            lines.take(all.len()).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert_eq!(seen, all, "{point}");
        let numbers: Vec<i64> = all.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{point}: {numbers:?}");
        for (kind, count) in [("message", 1), ("judged", 1), ("say", 1), ("said", 1)] {
            let found = all.iter().filter(|event| event["kind"] == kind).count();
            assert_eq!(found, count, "{point}: {kind}: {all:?}");
        }
    });
}
