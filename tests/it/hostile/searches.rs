//! Searches that take as much work as can be had for a small file.
#![expect(clippy::disallowed_methods, reason = "plays the agent")]

use std::time::Instant;

use serde_json::json;

use super::{
    host::two_groups,
    neighbour::{asked, assert_not_held_back},
};
use crate::support::wait_for;

const ARCHIVES: usize = 60;
const SEARCHES: usize = 300;

#[test]
fn many_searches_for_short_words_hold_back_neither_a_neighbour_nor_a_stop() {
    let root = two_groups();
    let daemon = root.serve();
    let content = "no such thing is said in here. ".repeat(30_000);
    for n in 0..ARCHIVES {
        let archive = json!({"type": "archive_session", "sessionId": format!("s-{n}"), "name": "x", "content": content, "requestId": format!("a-{n}")});
        root.put_command("evil", "tasks", &format!("a-{n:03}.json"), &archive);
    }
    for n in 0..ARCHIVES {
        assert_eq!(root.reply("evil", &format!("a-{n}"))["ok"], true);
    }
    let alone = asked(&root, "alone", &|count| count < 40);
    for n in 0..SEARCHES {
        let query = ["qz", "zq qz", "a", ""][n % 4];
        let search = json!({"type": "search_sessions", "query": query, "limit": 1 + n % 2, "requestId": format!("s-{n}")});
        root.put_command("evil", "tasks", &format!("s-{n:03}.json"), &search);
    }
    let claimed = || std::fs::read_dir(root.data("claimed")).is_ok_and(|mut files| files.next().is_some());
    wait_for("the searches to be in hand", || claimed().then_some(()));
    let beside = asked(&root, "beside", &|count| count < 40);
    assert_not_held_back(alone, beside);
    // As many were waiting as take minutes, and those that are left now are told to ask again.
    let since = Instant::now();
    assert_eq!(daemon.terminate(), Some(0));
    eprintln!("stopped after {:?}", since.elapsed());
    let _daemon = root.serve();
    for n in 0..SEARCHES {
        let reply = root.reply("evil", &format!("s-{n}"));
        assert!(reply.is_array() || reply["ok"] == false && reply["error"]["hint"].is_string(), "{reply}");
    }
}
