//! What a container leaves where its transcripts are: files that are small beside what they would be in memory.
#![expect(clippy::disallowed_methods, reason = "plays the agent")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, time::Instant};

use serde_json::{Value, json};

use super::{host::two_groups, neighbour::Neighbour, scene::peak_kib};
use crate::support::{Root, fail_points, wait_for};

/// How many commands archive the same transcripts.
const AGAIN: usize = 4;

/// Lines of this many bytes that say something at their end.
fn line(bytes: usize) -> String {
    let blocks = r#"{"a":0},"#.repeat(bytes / 8);
    format!("{{\"type\":\"user\",\"message\":{{\"content\":[{blocks}{{\"text\":\"said\"}}]}}}}\n")
}

/// Writes each bomb and a command that archives it; returns the names of the sessions.
fn bombs(root: &Root) -> Vec<&'static str> {
    let folder = root.data("sessions/evil/.claude/projects/-workspace-group");
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| fs::write(folder.join(format!("{name}.jsonl")), text).unwrap();
    write("one-line", format!("{}{}", line(64 << 20), line(0)));
    write("lines", line(1_000_000).repeat(8));
    write("deep", format!("{}\n{}", "[".repeat(1_000_000), line(0)));
    let all = ["one-line", "lines", "deep"];
    for n in 0..AGAIN {
        for session in all {
            let archive = json!({"type": "archive_session", "sessionId": session, "name": session, "requestId": format!("{session}-{n}")});
            root.put_command("evil", "tasks", &format!("{n}-{session}.json"), &archive);
        }
    }
    all.to_vec()
}

fn archived(root: &Root) -> Vec<Value> {
    let rows = root.rows(&["sessions", "list", "--group", "evil"]);
    rows.into_iter().filter(|row| row["state"] == "archived").collect()
}

#[test]
fn a_transcript_of_any_content_takes_no_memory_at_first_or_at_a_start() {
    let root = two_groups();
    let daemon = root.serve();
    let neighbour = Neighbour::of(&root, &daemon);
    let quiet = peak_kib(daemon.pid());
    let sessions = bombs(&root);
    let replies = root.data("ipc/evil/responses");
    let last = || replies.join(format!("deep-{}.json", AGAIN - 1)).exists();
    neighbour.beside("transcripts", |_| !last());
    let peak = peak_kib(daemon.pid());
    eprintln!("memory: {quiet} KiB quiet, {peak} KiB at most");
    assert!(peak <= 2 * quiet, "{peak} KiB after {quiet} KiB");
    for row in archived(&root) {
        let kept = root.json(&["sessions", "show", &row["id"].to_string()]);
        let said = if row["name"] == "lines" { 8 } else { 1 };
        assert_eq!(kept["content"].as_str().unwrap().matches("said").count(), said, "{row}");
    }
    assert_eq!(archived(&root).len(), sessions.len());
    assert_eq!(daemon.terminate(), Some(0));

    if !fail_points() {
        return;
    }
    // The daemon dies with one in hand, and reads it at its start.
    let dying = root.spawn(&[("G2_FAILPOINT", "ipc.claimed")]);
    wait_for("the boxes", || (root.run(&["status"]).status.code() != Some(3)).then_some(()));
    let archive =
        json!({"type": "archive_session", "sessionId": "one-line", "name": "again", "requestId": "again"});
    root.put_command("evil", "tasks", "again.json", &archive);
    wait_for("the daemon to die", || dying.has_ended().then_some(()));
    assert_eq!(fs::read_dir(root.data("claimed")).unwrap().count(), 1);
    let daemon = root.serve();
    assert_eq!(root.reply("evil", "again")["ok"], true);
    let peak = peak_kib(daemon.pid());
    eprintln!("memory: {peak} KiB at a start");
    assert!(peak <= 2 * quiet, "{peak} KiB after {quiet} KiB");
}

#[test]
fn many_who_archive_a_large_transcript_hold_nobody_back_and_a_stop_does_not_wait_for_them() {
    let root = two_groups();
    let daemon = root.serve();
    let folder = root.data("sessions/evil/.claude/projects/-workspace-group");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("lines.jsonl"), line(1_000_000).repeat(64)).unwrap();
    let neighbour = Neighbour::of(&root, &daemon);
    for n in 0..200 {
        let archive = json!({"type": "archive_session", "sessionId": "lines", "name": "x", "requestId": format!("r-{n}")});
        root.put_command("evil", "tasks", &format!("{n:03}.json"), &archive);
    }
    let first = root.data("ipc/evil/responses/r-0.json");
    neighbour.beside("large transcripts", |_| !first.exists());
    let since = Instant::now();
    assert_eq!(daemon.terminate(), Some(0));
    eprintln!("stopped after {:?}", since.elapsed());
    let done = |count: usize| fs::read_dir(root.data("done/evil")).unwrap().count() < count;
    assert!(done(200), "it did not wait for all of them");
    // What was claimed waits for the next one.
    assert_ne!(fs::read_dir(root.data("claimed")).unwrap().count(), 0);
}
