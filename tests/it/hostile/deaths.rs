//! What kills the daemon does so twice at most: the third start sets it aside, says so, and serves everybody else.
#![expect(clippy::disallowed_methods, reason = "looks at what is claimed")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use super::{
    host::two_groups,
    scene::{ask, image, launched},
};
use crate::support::{Docked, Root, agent_image, docker, fail_points, run_docker, wait_for};

const KILLED: i32 = 9;

fn say(text: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:evil", "text": text})
}

/// Starts a daemon that dies at a place, and waits until it has.
fn dies(root: &Root, place: &str) {
    assert_eq!(root.spawn(&[("G2_FAILPOINT", place)]).signal(), Some(KILLED));
}

/// `status`, `doctor` and the log name the group and what a person can do.
fn assert_named(root: &Root) {
    let status = root.json(&["status"]);
    assert_eq!((&status["state"], &status["held"]), (&json!("degraded"), &json!(["evil"])), "{status}");
    assert_eq!(root.run(&["status"]).status.code(), Some(1));
    let named = |text: &str| text.contains("group evil is set aside") && text.contains("g2 ipc release evil");
    let finding = &status["findings"][0];
    assert!(named(&format!("{} {}", finding["text"], finding["fix"])), "{status}");
    let doctor = root.rows(&["doctor"]);
    let row = doctor.iter().find(|row| row["check"] == "set_aside").unwrap();
    assert_eq!(row["status"], "fail", "{row}");
    assert!(named(&format!("{} {}", row["detail"], row["fix"])), "{row}");
    assert_eq!(root.log().matches("a group is set aside").count(), 1, "{}", root.log());
}

fn claimed(root: &Root) -> Vec<String> {
    let files = std::fs::read_dir(root.data("claimed")).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_command_that_kills_the_daemon_is_set_aside_at_the_third_start_and_others_go_on() {
    if !fail_points() {
        return;
    }
    for place in ["ipc.reading/evil", "ipc.decided/evil"] {
        is_set_aside_at_the_third_start(place);
    }
}

/// A command of evil kills each daemon that comes to `place` with it.
fn is_set_aside_at_the_third_start(place: &str) {
    let root = two_groups();
    root.serve().terminate();
    // It dies with commands of both in hand; of those only one is the death of it.
    root.put_command("good", "tasks", "good.json", &json!({"type": "list_tasks", "requestId": "before"}));
    root.put_command("evil", "messages", "bomb.json", &say("once"));
    dies(&root, place);
    assert!(claimed(&root).iter().any(|name| name.ends_with("-evil.json")));
    for _ in 0..2 {
        dies(&root, place);
    }
    let daemon = root.serve_with(&[("G2_FAILPOINT", place)]);
    assert_eq!(root.reply("good", "before")["ok"], true);
    ask(&root, "good", "after");
    assert_named(&root);
    assert!(!root.data("starts.json").exists(), "all the rest is taken in");
    // What comes later waits in its box, and another death changes nothing.
    root.put_command("evil", "messages", "later.json", &say("later"));
    ask(&root, "good", "beside");
    daemon.kill();
    let daemon = root.serve_with(&[("G2_FAILPOINT", place)]);
    ask(&root, "good", "again");
    assert_named(&root);
    assert_eq!(claimed(&root).len(), 1);
    assert_eq!(root.said("local:evil"), [] as [&str; 0]);
    assert_eq!(daemon.terminate(), Some(0));

    // Nothing is lost and nothing twice, in its order.
    let _daemon = root.serve();
    root.g2(&["ipc", "release", "evil"]);
    wait_for("both to be said", || (root.said("local:evil") == ["once", "later"]).then_some(()));
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert_eq!(claimed(&root), [] as [&str; 0]);
}

#[test]
fn a_command_over_which_we_fail_while_it_is_in_hand_is_carried_out_by_the_same_daemon() {
    if !fail_points() {
        return;
    }
    for place in ["ipc.in_hand:1:panic", "ipc.linked:1:panic"] {
        let root = two_groups();
        let _daemon = root.serve_with(&[("G2_FAILPOINT", place)]);
        root.put_command("good", "tasks", "good.json", &json!({"type": "list_tasks", "requestId": "r"}));
        assert_eq!(root.reply("good", "r")["ok"], true, "{place}");
        ask(&root, "good", "after");
        wait_for("nothing to be left", || {
            let left = std::fs::read_dir(root.data("ipc/good/tasks")).unwrap().count();
            (left == 0 && claimed(&root).is_empty()).then_some(())
        });
    }
}

#[test]
fn a_command_that_is_set_aside_can_be_dropped_unread() {
    if !fail_points() {
        return;
    }
    let root = two_groups();
    root.serve().terminate();
    root.put_command("evil", "messages", "bomb.json", &say("never"));
    for _ in 0..3 {
        dies(&root, "ipc.reading/evil");
    }
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.reading/evil")]);
    assert_named(&root);
    let row = &root.rows(&["ipc", "list", "--group", "evil"])[0];
    assert_eq!(row["state"], "claimed", "{row}");
    root.g2(&["ipc", "drop", &row["id"].to_string()]);
    assert_eq!(claimed(&root), [] as [&str; 0]);
    assert_eq!(root.rows(&["ipc", "list", "--group", "evil"])[0]["state"], "refused");
    root.g2(&["ipc", "release", "evil"]);
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert_eq!(root.said("local:evil"), [] as [&str; 0]);
}

#[test]
fn a_daemon_that_is_killed_while_it_works_sets_nobody_aside() {
    if !fail_points() {
        return;
    }
    let root = two_groups();
    root.serve().terminate();
    for n in 0..3 {
        root.put_command("evil", "messages", &format!("{n}.json"), &say(&n.to_string()));
        // It has claimed it, and is killed before it reads it; the next one gets through.
        dies(&root, "ipc.claimed");
        assert_eq!(claimed(&root).len(), 1);
        let daemon = root.serve();
        wait_for("it to be said", || (root.said("local:evil").len() == n + 1).then_some(()));
        daemon.kill();
    }
    assert_eq!(root.json(&["status"])["held"], json!([]));
}

#[test]
fn a_run_whose_output_kills_the_daemon_is_not_adopted_at_the_third_start_and_others_go_on() {
    if !fail_points() {
        return;
    }
    if !docker() {
        return;
    }
    let root = Docked::with_image(image(), "");
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    root.g2(&["groups", "set", "good", &format!("image={}", agent_image())]);
    let daemon = root.serve();
    let container = launched(&root);
    let before = run_of_evil(&root)["records"].as_i64().unwrap();
    daemon.kill();
    run_docker(&["exec", &container, "/hostile", "once-more", &(before + 1).to_string(), "again"]);
    // As it reads what is new.
    let place = format!("run.reading/evil:{}", before + 1);
    for _ in 0..2 {
        dies(&root, &place);
    }
    let daemon = root.serve_with(&[("G2_FAILPOINT", &place)]);
    assert_named(&root);
    assert_eq!(root.ask("local:good", "hello").trim(), "echo: hello");
    // Its container lives on, and what is said to it waits.
    assert!(root.containers().contains(&container));
    let seq = root.send("local:evil", "two");
    root.judged(seq);
    assert_eq!(root.said("local:evil"), [] as [&str; 0]);
    // `why` names the release, not the run that nobody reads; what another group is told is its own.
    let why = root.why(seq);
    let answer = why["answer"].as_str().unwrap();
    assert!(answer.contains("set aside") && answer.contains("`g2 ipc release evil`"), "{why}");
    assert!(!answer.contains("other work"), "{why}");
    assert_eq!(daemon.terminate(), Some(0));

    let _daemon = root.serve();
    assert_named(&root);
    root.g2(&["ipc", "release", "evil"]);
    wait_for("what it said", || (root.said("local:evil") == ["again"]).then_some(()));
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs.iter().filter(|run| run["group"] == "evil").count(), 1, "it was adopted: {runs:?}");
}

fn run_of_evil(root: &Root) -> Value {
    root.rows(&["runs", "list"]).into_iter().rfind(|run| run["group"] == "evil").unwrap()
}

#[test]
fn runs_that_say_nothing_new_are_nobodys_death_however_often_the_daemon_is_killed_at_its_start() {
    if !fail_points() {
        return;
    }
    let Some(root) = Docked::new("") else { return };
    root.g2(&["groups", "add", "good", "--chat", "local:good"]);
    let daemon = root.serve();
    for group in ["main", "good"] {
        assert_eq!(root.ask(&format!("local:{group}"), "one").trim(), "echo: one");
    }
    daemon.kill();
    for _ in 0..3 {
        // As it reads again what it knows.
        dies(&root, "run.reading/good");
    }
    let _daemon = root.serve();
    assert_eq!(root.json(&["status"])["held"], json!([]));
    assert_eq!(root.ask("local:good", "two").trim(), "echo: two");
}

/// Says these in order, while the daemon is stopped or reads them one after the other.
fn put_says(root: &Root, texts: &[String]) {
    for text in texts {
        root.put_command("evil", "messages", &format!("{text}.json"), &say(text));
    }
}

#[test]
fn work_that_panics_once_loses_no_command_and_says_each_once_in_order() {
    if !fail_points() {
        return;
    }
    let texts: Vec<String> = (10..40).map(|n| n.to_string()).collect();
    // Before files are claimed, between claim and commit, after it, and on the way to the reply; some over files that an earlier
    // daemon has claimed.
    for (armed, at_start) in [
        ("ipc.seen:1", false),
        ("ipc.claimed:7", true),
        ("ipc.reading/evil:7", true),
        ("ipc.read:1", false),
        ("ipc.committed:1", false),
        ("ipc.replied:1", false),
        ("ipc.set_aside:7", true),
    ] {
        let root = two_groups();
        root.serve().terminate();
        put_says(&root, &texts);
        if at_start {
            dies(&root, "ipc.claimed");
        }
        let daemon = root.serve_with(&[("G2_FAILPOINT", &format!("{armed}:panic"))]);
        wait_for("all of it to be said", || (root.said("local:evil") == texts).then_some(()));
        ask(&root, "good", "beside");
        wait_for("nothing to stay claimed", || claimed(&root).is_empty().then_some(()));
        assert_eq!(daemon.terminate(), Some(0), "{armed}");
    }
}

#[test]
fn work_on_many_that_panics_while_others_of_them_are_answered_loses_none_and_says_each_once_in_order() {
    if !fail_points() {
        return;
    }
    // Enough that some are answered on a thread of their own, while the next ones are claimed and others settled.
    let texts: Vec<String> = (1_000..1_400).map(|n| n.to_string()).collect();
    for armed in ["ipc.reading/evil:390", "ipc.committed:2", "ipc.set_aside:140"] {
        let root = two_groups();
        root.serve().terminate();
        put_says(&root, &texts);
        let daemon = root.serve_with(&[("G2_FAILPOINT", &format!("{armed}:panic"))]);
        wait_for("nothing to be claimed or in its box", || {
            let left = root.rows(&["ipc", "list", "--group", "evil", "--state", "waiting"]);
            (left.is_empty() && claimed(&root).is_empty()).then_some(())
        });
        wait_for("all of it to be said", || {
            let rows = root.rows(&["outbox", "list", "--chat", "local:evil", "--limit", "1000"]);
            rows.iter().all(|row| row["status"] == "sent").then_some(())
        });
        let rows = root.rows(&["outbox", "list", "--chat", "local:evil", "--limit", "1000"]);
        assert_eq!(
            rows.iter().map(|row| row["text"].as_str().unwrap()).collect::<Vec<_>>(),
            texts,
            "{armed}"
        );
        assert!(
            root.log().contains("our own fault: work on a group's commands panicked"),
            "{armed}: {}",
            root.log()
        );
        assert_eq!(daemon.terminate(), Some(0), "{armed}");
    }
}

#[test]
fn a_command_over_which_work_panics_each_time_is_refused_as_our_own_fault_and_others_go_on() {
    if !fail_points() {
        return;
    }
    for (point, says) in [
        ("ipc.reading/evil", "our own fault: work on a group's commands panicked"),
        ("ipc.decided/evil", "our own fault: a piece of work on the store panicked"),
    ] {
        is_refused_as_our_own_fault(&format!("{point}:0:panic"), says);
    }
}

fn is_refused_as_our_own_fault(armed: &str, says: &str) {
    let root = two_groups();
    root.serve().terminate();
    put_says(&root, &["one".into(), "two".into()]);
    let daemon = root.serve_with(&[("G2_FAILPOINT", armed)]);
    ask(&root, "good", "beside");
    let rows = wait_for("both to be refused", || {
        let rows = root.rows(&["ipc", "list", "--group", "evil"]);
        rows.iter().all(|row| row["state"] == "refused").then_some(rows)
    });
    assert_eq!(rows.iter().map(|row| row["code"].as_str().unwrap()).collect::<Vec<_>>(), ["internal"; 2]);
    assert!(root.log().contains(says), "{}", root.log());
    assert_eq!(claimed(&root), [] as [&str; 0]);
    // Its bytes are kept: a daemon without the fault can be told to do it.
    assert_eq!(daemon.terminate(), Some(0));
    let _daemon = root.serve();
    root.g2(&["ipc", "retry", &rows[0]["id"].to_string()]);
    wait_for("it to be said", || (root.said("local:evil") == ["one"]).then_some(()));
}

#[test]
fn a_command_whose_decision_panics_is_refused_alone_and_all_others_of_its_commit_are_done() {
    if !fail_points() {
        return;
    }
    let texts: Vec<String> = (100..300).map(|n| n.to_string()).collect();
    for nth in [1, 100] {
        let root = two_groups();
        root.serve().terminate();
        put_says(&root, &texts);
        let daemon = root.serve_with(&[("G2_FAILPOINT", &format!("ipc.decided/evil:{nth}:panic"))]);
        let mut others = texts.clone();
        let refused = others.remove(nth - 1);
        wait_for("all others to be said, in order", || {
            let rows = root.rows(&["outbox", "list", "--chat", "local:evil", "--limit", "1000"]);
            let sent = rows.iter().filter(|row| row["status"] == "sent");
            sent.map(|row| row["text"].as_str().unwrap()).eq(&others).then_some(())
        });
        ask(&root, "good", "beside");
        let rows = root.rows(&["ipc", "list", "--group", "evil", "--state", "refused"]);
        let told: Vec<_> = rows.iter().map(|row| (&row["name"], &row["code"])).collect();
        assert_eq!(told, [(&json!(format!("{refused}.json")), &json!("internal"))]);
        assert!(root.log().contains("src/store/work/receipts.rs:"), "where: {}", root.log());
        wait_for("nothing to stay claimed", || claimed(&root).is_empty().then_some(()));
        assert_eq!(daemon.terminate(), Some(0));
    }
}

#[test]
fn a_writer_of_the_store_that_panics_ends_the_daemon_and_the_next_one_goes_on() {
    if !fail_points() {
        return;
    }
    // As it starts, and once it is up.
    for armed in ["feed.written:1", "feed.committed:10"] {
        let root = two_groups();
        root.serve().terminate();
        put_says(&root, &["one".into(), "two".into()]);
        let daemon = root.spawn(&[("G2_FAILPOINT", &format!("{armed}:panic"))]);
        let mut more = 0;
        wait_for("the daemon to end", || {
            more += 1;
            put_says(&root, &[format!("more-{more}")]);
            daemon.has_ended().then_some(())
        });
        assert_eq!(daemon.wait(), Some(1), "{armed}");
        assert!(root.log().contains("our own fault: the store's writer panicked"), "{armed}: {}", root.log());
        let _daemon = root.serve();
        let all: Vec<String> =
            ["one".into(), "two".into()].into_iter().chain((1..=more).map(|n| format!("more-{n}"))).collect();
        wait_for("each to be said once", || {
            let rows = root.rows(&["outbox", "list", "--chat", "local:evil", "--limit", "1000"]);
            let mut said: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
            let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
            said.sort_unstable();
            all.sort_unstable();
            (said == all && rows.iter().all(|row| row["status"] == "sent")).then_some(())
        });
    }
}

#[test]
fn a_start_after_a_death_waits_for_no_slow_work() {
    if !fail_points() {
        return;
    }
    let root = two_groups();
    root.serve().terminate();
    let archive = json!({"type": "archive_session", "sessionId": "s", "name": "x", "requestId": "archive"});
    root.put_command("evil", "tasks", "archive.json", &archive);
    root.put_command("good", "tasks", "good.json", &json!({"type": "list_tasks", "requestId": "before"}));
    dies(&root, "ipc.transcript/evil");
    for n in 0..2 {
        // It never comes to an end here.
        let daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.transcript/evil:1:pause")]);
        assert_eq!(root.reply("good", "before")["ok"], true);
        ask(&root, "good", &format!("after-{n}"));
        // A claim goes a moment after its reply.
        wait_for("nothing else to stay claimed", || (claimed(&root).len() == 1).then_some(()));
        wait_for("it to be at work", || {
            let starts: Value =
                serde_json::from_slice(&std::fs::read(root.data("starts.json")).ok()?).ok()?;
            (starts.as_array().map(Vec::len) == Some(n + 1)).then_some(())
        });
        daemon.kill();
    }
    // Two deaths over the same are enough.
    let _daemon = root.serve();
    assert_named(&root);
}
