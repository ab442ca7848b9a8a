//! Searches that take as much work as can be had for a small file.
#![expect(clippy::disallowed_methods, reason = "looks at what is claimed")]

use std::time::Instant;

use serde_json::json;

use super::{neighbour::Neighbour, place::Place};
use crate::support::wait_for;

const ARCHIVES: usize = 60;
const SEARCHES: usize = 100;

#[test]
fn many_searches_for_short_words_hold_back_neither_a_neighbour_nor_a_stop() {
    for place in Place::all("") {
        let (root, daemon) = (place.root(), place.serve());
        let content = "no such thing is said in here. ".repeat(30_000);
        for n in 0..ARCHIVES {
            let archive = json!({"type": "archive_session", "sessionId": format!("s-{n}"), "name": "x", "content": content, "requestId": format!("a-{n}")});
            root.put_command("evil", "tasks", &format!("a-{n:03}.json"), &archive);
        }
        for n in 0..ARCHIVES {
            assert_eq!(root.reply("evil", &format!("a-{n}"))["ok"], true);
        }
        let attacker = place.attacker();
        let neighbour = Neighbour::of(root, &daemon);
        let attack = place.named("searches");
        let searches =
            [("qz", 1), ("zq qz", 2), ("a", 1), ("", 2), ("here thing such", 2)].map(|(query, limit)| {
                json!({"type": "search_sessions", "query": query, "limit": limit, "requestId": "s-#"})
                    .to_string()
            });
        attacker.commands("s", SEARCHES, &searches.each_ref().map(String::as_str));
        let claimed =
            || std::fs::read_dir(root.data("claimed")).is_ok_and(|mut files| files.next().is_some());
        wait_for("the searches to be in hand", || claimed().then_some(()));
        neighbour.beside(&attack, |asked| asked < 100);
        neighbour.assert_no_more_memory(&attack, &daemon);
        // What others have to be indexed and searched keeps nobody's own from being found.
        let kept = json!({"type": "archive_session", "sessionId": "s", "name": "x", "content": "the trip to Lisbon", "requestId": "kept"});
        root.put_command("good", "tasks", "kept.json", &kept);
        let search =
            json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon", "requestId": "found"});
        root.put_command("good", "tasks", "search.json", &search);
        assert_eq!(root.reply("good", "found")["result"]["sessions"][0]["name"], "x");
        // As many were waiting as take minutes, and those that are left now are told to ask again.
        let since = Instant::now();
        assert_eq!(daemon.terminate(), Some(0));
        eprintln!("stopped after {:?}", since.elapsed());
        let _daemon = place.serve();
        for n in 0..SEARCHES {
            let reply = root.reply("evil", &format!("s-{n}"));
            assert!(
                reply.is_array() || reply["ok"] == false && reply["error"]["hint"].is_string(),
                "{reply}"
            );
        }
    }
}
