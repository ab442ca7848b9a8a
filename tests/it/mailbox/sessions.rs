//! Sessions by command files: kept, found, taken up again, and never written back by a run that had another one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "tests play the agent")]

use std::fs;

use serde_json::{Value, json};

use super::commands::{ask, two_groups};
use crate::support::{Daemon, Root, wait_for};

/// The session that a group's lane has now.
fn live(root: &Root, group: &str) -> Option<String> {
    let rows = root.rows(&["sessions", "list", "--group", group]);
    rows.iter().find(|row| row["state"] == "live").map(|row| row["session_id"].as_str().unwrap().to_owned())
}

/// The archived sessions of a group, newest first.
fn archived(root: &Root, group: &str) -> Vec<Value> {
    let mut rows = root.rows(&["sessions", "list", "--group", group]);
    rows.retain(|row| row["state"] == "archived");
    rows.reverse();
    rows
}

/// What Claude Code keeps of a session.
fn transcript(root: &Root, group: &str, session: &str, lines: &str) {
    let folder = root.data(&format!("sessions/{group}/.claude/projects/-workspace-group"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{session}.jsonl")), lines).unwrap();
}

fn said(text: &str) -> String {
    format!("{}\n", json!({"type": "user", "message": {"content": text}}))
}

/// Told to go, the agent of `main` has its session cleared and then answers, in its old one.
fn clears_its_own(root: &Root) {
    let clear = json!({"type": "clear_session", "requestId": "r1", "name": "Trip"});
    root.script(
        None,
        &json!([
            {"when": {"contains": "go"}, "do": [{"command": {"box": "tasks", "json": clear}}, {"say": "cleared: {{reply}}"}]},
            {"do": [{"say": "well"}]}
        ]),
    );
}

#[test]
fn a_run_that_clears_its_session_does_not_write_it_back_and_leaves() {
    let root = Root::new("");
    clears_its_own(&root);
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let answer = root.ask("local:main", "go");
    assert!(answer.contains("\"ok\":true"), "{answer}");
    let first = archived(&root, "main");
    assert_eq!((first.len(), &first[0]["name"]), (1, &json!("Trip")));
    assert_eq!(live(&root, "main"), None);
    root.ask("local:main", "again");
    let next = live(&root, "main").unwrap();
    assert_ne!(json!(next), first[0]["session_id"]);
    assert_eq!(root.rows(&["runs", "list"]).len(), 2, "the first run has left");
}

#[test]
fn an_archive_is_taken_up_again_and_is_no_archive_any_more() {
    let root = two_groups();
    let _daemon = root.serve();
    root.ask("local:family", "one");
    let first = live(&root, "family").unwrap();
    transcript(&root, "family", &first, &format!("{}{{\"type\":\"us", said("the trip to Lisbon")));
    let reply = ask(&root, "family", json!({"type": "clear_session", "name": "Lisbon"}), "r1");
    let id = reply["result"]["archivedId"].as_i64().unwrap();
    assert_eq!(live(&root, "family"), None);
    let kept = root.json(&["sessions", "show", &id.to_string()]);
    assert_eq!(kept["content"], "**User**: the trip to Lisbon");
    assert_eq!(root.data_json("ipc/family/session_history.json")[0]["id"], id);

    root.ask("local:family", "two");
    let second = live(&root, "family").unwrap();
    assert_ne!(first, second);
    let resume = |id: i64| json!({"type": "resume_session", "sessionHistoryId": id, "saveName": "second"});
    // Another group's number and one that is nobody's read the same.
    assert_eq!(
        ask(&root, "main", json!({"type": "resume_session", "sessionHistoryId": id}), "r2")["error"]["code"],
        "not_found"
    );
    let reply = ask(&root, "family", resume(id), "r3");
    assert_eq!(reply["result"], json!({"sessionId": first}));
    let history = root.data_json("ipc/family/session_history.json");
    assert_eq!((history.as_array().unwrap().len(), &history[0]["session_id"]), (1, &json!(second)));
    // The live run had the second one: the next one goes on with the first.
    assert_eq!(root.ask("local:family", "three").trim(), "echo: three");
    assert_eq!(live(&root, "family").as_deref(), Some(first.as_str()));
    assert_eq!(ask(&root, "family", resume(id), "r4")["error"]["code"], "not_found");
}

#[test]
fn a_session_that_was_taken_up_just_before_it_is_cleared_is_archived_with_its_words() {
    let root = two_groups();
    let daemon = root.serve();
    transcript(&root, "family", "s-1", &said("the trip to Lisbon"));
    let kept = json!({"type": "archive_session", "sessionId": "s-1", "name": "old"});
    let id = ask(&root, "family", kept, "r1")["result"]["id"].clone();
    daemon.terminate();
    // Both wait at the start, and are taken in together.
    let resume = json!({"type": "resume_session", "requestId": "r2", "sessionHistoryId": id});
    root.put_command("family", "tasks", "1.json", &resume);
    let clear = json!({"type": "clear_session", "requestId": "r3", "name": "new"});
    root.put_command("family", "tasks", "2.json", &clear);
    let _daemon = root.serve();
    assert_eq!(root.reply("family", "r2")["ok"], true);
    let id = root.reply("family", "r3")["result"]["archivedId"].as_i64().unwrap();
    assert_eq!(root.json(&["sessions", "show", &id.to_string()])["content"], "**User**: the trip to Lisbon");
}

#[test]
fn a_session_that_is_taken_up_once_the_store_can_take_it_is_archived_with_its_words() {
    let root = two_groups();
    let daemon = root.serve();
    transcript(&root, "family", "s-1", &said("the trip to Lisbon"));
    let kept = json!({"type": "archive_session", "sessionId": "s-1", "name": "old"});
    let id = ask(&root, "family", kept, "r1")["result"]["id"].clone();
    let other = root.lock_store();
    // Both are there before the daemon looks, so they are taken in together.
    let stopped = daemon.hold();
    let resume = json!({"type": "resume_session", "requestId": "r2", "sessionHistoryId": id});
    root.put_command("family", "tasks", "1.json", &resume);
    let clear = json!({"type": "clear_session", "requestId": "r3", "name": "new"});
    root.put_command("family", "tasks", "2.json", &clear);
    drop(stopped);
    wait_for("the first try", || root.log().contains("the store can't take a command now").then_some(()));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(root.reply("family", "r2")["ok"], true);
    let id = root.reply("family", "r3")["result"]["archivedId"].as_i64().unwrap();
    assert_eq!(root.json(&["sessions", "show", &id.to_string()])["content"], "**User**: the trip to Lisbon");
}

#[test]
fn a_group_that_never_spoke_can_take_up_a_session() {
    let root = two_groups();
    let _daemon = root.serve();
    let kept = json!({"type": "archive_session", "sessionId": "s-1", "name": "old", "content": "x"});
    let id = ask(&root, "family", kept, "r1")["result"]["id"].clone();
    let resume = json!({"type": "resume_session", "sessionHistoryId": id, "targetFolder": "family"});
    assert_eq!(ask(&root, "main", resume, "r2")["ok"], true);
    assert_eq!(live(&root, "family").as_deref(), Some("s-1"));
    root.ask("local:family", "hello");
    assert_eq!(live(&root, "family").as_deref(), Some("s-1"));
}

#[test]
fn a_transcript_is_kept_once_however_often_it_is_archived() {
    let root = Root::new("");
    let _daemon = root.serve();
    transcript(&root, "main", "s-1", &said("first words"));
    let archive = |name: &str| json!({"type": "archive_session", "sessionId": "s-1", "name": name});
    let first = ask(&root, "main", archive("one"), "r1");
    let content = |id: &Value| root.json(&["sessions", "show", &id.to_string()])["content"].clone();
    let id = &first["result"]["id"];
    assert_eq!(content(id), "**User**: first words");
    // Its container replaced the transcript by a link to something of the host's: nothing is read through it.
    let place = root.data("sessions/main/.claude/projects/-workspace-group/s-1.jsonl");
    fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink(root.path().join("g2.toml"), &place).unwrap();
    assert_eq!(ask(&root, "main", archive("one"), "r2")["result"]["id"], *id);
    assert_eq!(archived(&root, "main").len(), 1);
    // Under another name it is kept beside the first.
    assert_ne!(ask(&root, "main", archive("two"), "r3")["result"]["id"], *id);
    let names: Vec<Value> = archived(&root, "main").iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["two", "one"]);
    assert_eq!(content(id), "**User**: first words", "what was kept is not lost");
}

#[test]
fn a_search_finds_words_and_parts_of_them_best_first_and_only_one_s_own() {
    let root = two_groups();
    let _daemon = root.serve();
    let kept = |session: &str, name: &str, content: &str| json!({"type": "archive_session", "sessionId": session, "name": name, "content": content});
    ask(&root, "family", kept("s-1", "Lisbon", "we go by train, café included"), "a1");
    ask(&root, "family", kept("s-2", "misc", "a long talk about Lisbon and other things"), "a2");
    ask(&root, "family", kept("s-3", "taxes", "100% of it_"), "a3");
    ask(&root, "main", kept("s-4", "Lisbon", "of main"), "a4");
    let count = std::cell::Cell::new(0);
    let search = |query: &str| {
        count.set(count.get() + 1);
        let reply = ask(
            &root,
            "family",
            json!({"type": "search_sessions", "schemaVersion": 1, "query": query}),
            &format!("s{}", count.get()),
        );
        assert_eq!(reply["ok"], true, "{query:?}: {reply}");
        let found = reply["result"]["sessions"].as_array().unwrap().clone();
        found.iter().map(|row| row["session_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(search("lisbon"), ["s-1", "s-2"], "the name counts more");
    assert_eq!(search("LISBON talk"), ["s-2"]);
    assert_eq!(search("isbo"), ["s-1", "s-2"]);
    assert_eq!(search("cafe"), ["s-1"]);
    assert_eq!(search("we by"), ["s-1"], "short words are found too");
    assert_eq!(search(""), ["s-3", "s-2", "s-1"]);
    assert_eq!(search("100% it_"), ["s-3"], "no sign is a wildcard");
    assert!(search("%%").is_empty() && search("nowhere").is_empty());
    for hostile in [
        "\"",
        "\"\"\"",
        "'",
        "lisbon\"",
        "AND",
        "OR NOT",
        "NEAR(a b)",
        "name:lisbon",
        "lisbon*",
        "^lisbon",
        "(((",
        "-lisbon",
        "{a b}: c",
        "a\0b",
        "\u{0301}\u{0301}\u{0301}",
        "日本",
        "💥💥💥",
        "; DROP TABLE archives",
        "\\",
        "%_%",
        &"x".repeat(256),
        &"word ".repeat(32),
        "  \n\t ",
    ] {
        search(hostile);
    }
    // G2's own runner names no version and reads a bare array.
    let bare = ask(&root, "family", json!({"type": "search_sessions", "query": "taxes"}), "b1");
    assert_eq!(bare[0]["group_folder"], "family");
    assert_eq!((&bare[0]["session_id"], &bare[0]["name"]), (&json!("s-3"), &json!("taxes")));
    let snippet = ask(
        &root,
        "main",
        json!({"type": "search_sessions", "schemaVersion": 1, "query": "talk", "targetFolder": "family"}),
        "b2",
    );
    assert_eq!(snippet["result"]["sessions"][0]["snippet"], "a long **talk** about Lisbon and other things");
}

#[test]
fn a_search_that_is_asked_for_again_has_its_first_answer() {
    let root = Root::new("");
    let _daemon = root.serve();
    let keep = |n: u32| {
        let kept = json!({"type": "archive_session", "sessionId": format!("s-{n}"), "name": n.to_string(),
            "content": "to Lisbon"});
        ask(&root, "main", kept, &format!("keep-{n}"));
    };
    let search =
        json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon", "requestId": "again"});
    let found = |name: &str| {
        root.put_command("main", "tasks", name, &search);
        root.settled_file("main", name);
        let reply = root.reply("main", "again");
        fs::remove_file(root.data("ipc/main/responses/again.json")).unwrap();
        reply["result"]["sessions"].as_array().unwrap().len()
    };
    keep(1);
    assert_eq!(found("first.json"), 1);
    keep(2);
    assert_eq!(found("second.json"), 1, "the first answer again");
    let other = json!({"type": "search_sessions", "schemaVersion": 1, "query": "porto"});
    assert_eq!(ask(&root, "main", other, "again")["error"]["code"], "conflict");
}

#[test]
fn a_search_sees_what_commands_before_it_changed() {
    let root = Root::new("");
    // Makes the boxes.
    root.serve().terminate();
    let put = |id: String, mut command: Value| {
        command["requestId"] = id.clone().into();
        root.put_command("main", "tasks", &format!("{id}.json"), &command);
    };
    let search = || json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon", "limit": 100});
    for n in 0..60 {
        let session = format!("s-{n}");
        let kept =
            json!({"type": "archive_session", "sessionId": session, "name": "x", "content": "to Lisbon"});
        put(format!("{n:03}-a"), kept);
        put(format!("{n:03}-b"), search());
        put(format!("{n:03}-c"), json!({"type": "list_tasks"}));
        put(format!("{n:03}-d"), search());
    }
    put("100-a".into(), json!({"type": "resume_session", "sessionHistoryId": 60}));
    put("100-b".into(), search());
    let _daemon = root.serve();
    let found = |id: String| {
        let sessions = root.reply("main", &id)["result"]["sessions"].as_array().unwrap().clone();
        sessions.iter().map(|row| row["session_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for n in 0..60 {
        for which in ["b", "d"] {
            let found = found(format!("{n:03}-{which}"));
            let missing = (0..=n).map(|n| format!("s-{n}")).find(|session| !found.contains(session));
            // Its answer may come after the last of them is taken up again.
            assert!(missing.is_none_or(|session| session == "s-59"), "{n}-{which}: {found:?}");
        }
    }
    let last = found("100-b".into());
    assert_eq!((last.len(), last[0].as_str()), (59, "s-58"));
}

#[test]
fn a_lost_index_is_made_anew_with_the_daemon_up_or_down() {
    let root = Root::new("");
    let daemon = root.serve();
    let kept = json!({"type": "archive_session", "sessionId": "s-1", "name": "x", "content": "to Lisbon"});
    ask(&root, "main", kept, "a1");
    assert_eq!(daemon.terminate(), Some(0));
    fs::remove_file(root.data("search.sqlite")).unwrap();
    assert_eq!(root.rows(&["sessions", "search", "lisbon"])[0]["session_id"], "s-1");
    fs::remove_file(root.data("search.sqlite")).unwrap();
    // What an earlier version had.
    fs::create_dir(root.data("search")).unwrap();
    fs::write(root.data("search/main.sqlite"), "x").unwrap();
    let _daemon = root.serve();
    assert!(!root.data("search").exists());
    let search = |id: &str| {
        let search = json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon"});
        ask(&root, "main", search, id)["result"]["sessions"].as_array().unwrap().clone()
    };
    let found = search("r1");
    assert_eq!(found[0]["session_id"], "s-1");
    // The daemon and a person may search at once.
    assert_eq!(root.rows(&["sessions", "search", "lisbon"]).len(), 1);
    root.g2(&["sessions", "delete", &found[0]["id"].to_string(), "--yes"]);
    assert!(search("r2").is_empty() && root.rows(&["sessions", "search", "lisbon"]).is_empty());
}

/// A root with an archived session that says `lisbon`, and its daemon.
fn with_lisbon() -> (Root, Daemon) {
    let root = Root::new("");
    let daemon = root.serve();
    let kept = json!({"type": "archive_session", "sessionId": "s-1", "name": "x", "content": "to Lisbon"});
    ask(&root, "main", kept, "a1");
    found(&root, "a2");
    (root, daemon)
}

/// Searches as a person and as an agent; both find the session, the agent once it is indexed.
fn found(root: &Root, id: &str) {
    let mut tries = 0;
    let reply = wait_for("the session to be indexed", || {
        let search = json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon"});
        tries += 1;
        let reply = ask(root, "main", search, &format!("{id}-{tries}"));
        (reply["error"]["code"] != "rate_limited").then_some(reply)
    });
    assert_eq!(reply["result"]["sessions"][0]["session_id"], "s-1", "{id}: {reply}");
    assert_eq!(root.rows(&["sessions", "search", "lisbon"]).len(), 1, "{id}");
}

#[test]
fn an_index_that_was_cut_to_nothing_is_made_anew_by_the_next_search_of_anybody() {
    let (root, _daemon) = with_lisbon();
    for id in ["r1", "r2"] {
        fs::File::options().write(true).truncate(true).open(root.data("search.sqlite")).unwrap();
        let found_by_a_person = root.rows(&["sessions", "search", "lisbon"]);
        assert_eq!(found_by_a_person.len(), 1);
        found(&root, id);
    }
}

#[test]
fn an_index_without_one_of_its_tables_is_made_anew_with_the_daemon_up_or_down() {
    for up in [true, false] {
        let (root, mut daemon) = with_lisbon();
        for (n, statement) in
            ["DROP TABLE seen", "DROP TABLE said_1", "PRAGMA user_version = 77"].into_iter().enumerate()
        {
            let spoil = || {
                let index = rusqlite::Connection::open(root.data("search.sqlite")).unwrap();
                index.execute_batch(statement).unwrap();
            };
            if up {
                spoil();
            } else {
                daemon.terminate();
                spoil();
                daemon = root.serve();
            }
            found(&root, &format!("r{n}"));
        }
        daemon.kill();
    }
}

#[test]
fn an_index_that_cannot_be_made_is_a_problem_for_people_and_a_true_reason_for_agents() {
    let (root, daemon) = with_lisbon();
    daemon.terminate();
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(root.data(&format!("search.sqlite{end}")));
    }
    fs::create_dir(root.data("search.sqlite")).unwrap();
    let told = |arguments: &[&str]| {
        let output = root.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let doctor = told(&["doctor"]);
    assert!(doctor.contains("search_index") && doctor.contains("search.sqlite away"), "{doctor}");
    let _daemon = root.serve();
    for command in ["status", "doctor"] {
        let said = told(&[command]);
        assert!(said.contains("their index can't be used"), "{command}: {said}");
    }
    let search = json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon"});
    let refused = ask(&root, "main", search, "r1");
    assert_eq!(refused["error"]["code"], "internal", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("index of archived sessions"), "{refused}");
    fs::remove_dir(root.data("search.sqlite")).unwrap();
    wait_for("the problem to be gone", || root.run(&["status"]).status.success().then_some(()));
    found(&root, "r2");
}

#[test]
fn a_thing_that_is_no_file_is_told_behind_a_search_too() {
    let root = Root::new("");
    // Makes the boxes.
    root.serve().terminate();
    let boxed = root.data("ipc/main/tasks");
    let search =
        json!({"type": "search_sessions", "schemaVersion": 1, "query": "lisbon", "requestId": "first"});
    // Enough that searches are left until the rest is taken in.
    root.put_command("main", "tasks", "000-search.json", &search);
    let names: Vec<String> = (0..20).map(|n| format!("1{n:02}-link.json")).collect();
    for name in &names {
        std::os::unix::fs::symlink("/etc/passwd", boxed.join(name)).unwrap();
    }
    root.put_command("main", "tasks", "900-list.json", &json!({"type": "list_tasks", "requestId": "last"}));
    let _daemon = root.serve();
    assert_eq!(root.reply("main", "last")["ok"], true);
    assert_eq!(root.reply("main", "first")["ok"], true);
    for name in &names {
        let row = root.settled_file("main", name);
        assert_eq!((&row["state"], &row["code"]), (&json!("dead"), &json!("malformed")), "{row}");
    }
}

#[test]
fn a_person_does_the_same_with_the_daemon_up_or_down() {
    let root = two_groups();
    let daemon = root.serve();
    root.ask("local:family", "one");
    let first = live(&root, "family").unwrap();
    transcript(&root, "family", &first, &said("what was said"));
    root.g2(&["sessions", "clear", "family", "--name", "kept"]);
    assert_eq!(live(&root, "family"), None);
    let history = root.data_json("ipc/family/session_history.json");
    assert_eq!(history[0]["name"], "kept");
    let found = root.rows(&["sessions", "search", "what said"]);
    assert_eq!(
        (found.len(), &found[0]["group"], &found[0]["session_id"]),
        (1, &json!("family"), &json!(first))
    );
    assert_eq!(daemon.terminate(), Some(0));

    root.g2(&["sessions", "resume", &found[0]["id"].to_string()]);
    assert_eq!(live(&root, "family"), Some(first.clone()));
    root.g2(&["sessions", "archive", "family", "again"]);
    assert_eq!(archived(&root, "family")[0]["name"], "again");
    assert!(!root.run(&["sessions", "resume", "99"]).status.success());
    let _daemon = root.serve();
    root.ask("local:family", "two");
    assert_eq!(live(&root, "family"), Some(first));
    wait_for("the snapshot to follow", || {
        (root.data_json("ipc/family/session_history.json")[0]["name"] == "again").then_some(())
    });
}

#[test]
fn a_conversation_is_archived_in_its_very_first_turn() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let _daemon = root.serve();
    root.send("local:main", "hello");
    // Nothing is answered yet.
    let session = wait_for("the session to be known", || live(&root, "main"));
    transcript(&root, "main", &session, &said("the trip to Lisbon"));
    let reply = ask(&root, "main", json!({"type": "clear_session", "name": "First"}), "r1");
    let id = reply["result"]["archivedId"].as_i64().unwrap();
    assert_eq!(root.json(&["sessions", "show", &id.to_string()])["content"], "**User**: the trip to Lisbon");
    assert_eq!(live(&root, "main"), None);
}

#[test]
fn of_too_many_archives_the_oldest_are_put_out_and_people_can_delete_one() {
    let root = Root::new(
        "[limits]\narchives = 3\narchives_mib = 1\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    );
    let daemon = root.serve();
    let keep = |n: usize, content: &str| {
        let command = json!({"type": "archive_session", "sessionId": format!("s-{n}"), "name": n.to_string(), "content": content});
        assert_eq!(ask(&root, "main", command, &format!("r{n}"))["ok"], true);
    };
    (1..=5).for_each(|n| keep(n, "words"));
    let names = || -> Vec<String> {
        archived(&root, "main").iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(), ["5", "4", "3"]);
    let shown = root.data_json("ipc/main/session_history.json");
    assert_eq!(shown.as_array().unwrap().len(), 3, "what the agent sees: {shown}");
    let near = root.rows(&["doctor"]).into_iter().find(|row| row["check"] == "archives").unwrap();
    assert_eq!(near["status"], "warn", "{near}");

    root.g2(&["sessions", "delete", &archived(&root, "main")[0]["id"].to_string(), "--yes"]);
    assert_eq!(names(), ["4", "3"]);
    assert_eq!(root.data_json("ipc/main/session_history.json").as_array().unwrap().len(), 2);
    assert_eq!(root.run(&["sessions", "delete", "1", "--yes"]).status.code(), Some(1));
    // By their bytes: the newest stays in any case.
    keep(6, &"x".repeat(700_000));
    keep(7, &"y".repeat(700_000));
    assert_eq!(names(), ["7"]);
    drop(daemon);
    // Without a daemon as well.
    for n in 1..=4 {
        root.g2(&["sessions", "archive", "main", &format!("by hand {n}"), "--session", &format!("h-{n}")]);
    }
    assert_eq!(names(), ["by hand 4", "by hand 3", "by hand 2"]);
}
