//! What a container writes on its stdout and stderr, however it is meant.
#![expect(clippy::disallowed_methods, reason = "has a deadline of its own")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    host::{two_groups, two_groups_with},
    neighbour::Neighbour,
    place::Place,
    scene::ask,
};
use crate::support::{DEADLINE, Daemon, Root, run_docker, wait_for};

#[test]
fn a_forged_record_is_one_line_of_the_log_in_which_nothing_acts() {
    let root = two_groups();
    let forged = "\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}X\r\n2026-11-22T00:00:00Z ERROR forged";
    let record = json!({"status": forged}).to_string();
    let garbage = format!("---G2_OUTPUT_START---\n{record}\n---G2_OUTPUT_END---\n");
    let rules = json!([{"when": {}, "do": [{"print": garbage}, {"say": "said"}]}]);
    root.script(Some("evil"), &rules);
    let _daemon = root.serve();
    root.ask("local:evil", "begin");
    ask(&root, "good", "beside-it");
    let log =
        wait_for("the garbage to be told of", || Some(root.log()).filter(|log| log.contains("garbage")));
    assert!(
        log.lines().all(
            |line| line.starts_with("20") && !line.contains("Z ERROR forged") || line.contains("garbage")
        )
    );
    assert!(!log.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{log:?}");
    assert!(log.lines().any(|line| line.contains("unknown variant") && line.contains("forged")), "{log}");
    let of_the_run = log.lines().find(|line| line.contains("garbage in the output")).unwrap();
    assert!(of_the_run.contains(" run{run=1 group=evil}: "), "a line of a run names it: {of_the_run}");
}

/// Has the hostile group's first message start `attack`, and the neighbour ask until `seen` of the run that it is.
fn attacked(
    place: &Place,
    daemon: &Daemon,
    neighbour: &Neighbour<'_>,
    attack: &str,
    mut seen: impl FnMut(&Value) -> bool,
) {
    let (root, named) = (place.root(), place.named(attack));
    let earlier = run_of_evil(root)["id"].clone();
    root.send("local:evil", &format!("attack:{attack}"));
    let began = Instant::now();
    neighbour.beside(&named, |_| {
        assert!(!daemon.has_ended(), "{attack}");
        assert!(began.elapsed() < DEADLINE, "{attack} is not over");
        let run = run_of_evil(root);
        run["id"] == earlier || !seen(&run)
    });
    neighbour.assert_no_more_memory(&named, daemon);
}

/// The run of the hostile group.
fn run_of_evil(root: &Root) -> Value {
    let runs = root.rows(&["runs", "list"]);
    runs.into_iter().rfind(|run| run["group"] == "evil").unwrap_or_default()
}

#[test]
fn no_record_takes_much_more_memory_than_it_is_long_nor_holds_a_neighbour_up() {
    for place in Place::all("commands_mib_per_minute = 4095") {
        let (root, daemon) = (place.root(), place.serve());
        let neighbour = Neighbour::of(root, &daemon);
        // The number of the last record, which comes after what is none.
        for (attack, last) in [("leaving-bytes:3", 3), ("leaving-word:3", 3), ("leaving-handled:3", 6)] {
            attacked(&place, &daemon, &neighbour, attack, |run| run["status"] == "succeeded");
            let run = run_of_evil(root);
            assert_eq!(run["records"], last, "{attack}: {run}\n{}", root.log());
        }
        // This one stays, and is read again by the next daemon.
        attacked(&place, &daemon, &neighbour, "tree:3", |run| run["records"] == 6);
        let said = root.rows(&["outbox", "list", "--chat", "local:evil"]);
        let texts = || said.iter().map(|row| row["text"].as_str().unwrap());
        let lists = texts().filter(|text| text.starts_with("[{\"a\":0},{\"a\":0},"));
        assert_eq!(lists.count(), 3, "what is no string is said as JSON writes it");
        assert!(texts().all(|text| text.len() <= 1 << 20), "each as long as a file's at most");
        let Place::Container(docked) = &place else { continue };
        daemon.kill();
        let daemon = docked.serve();
        run_docker(&["exec", &docked.containers()[0], "/hostile", "once-more", "7", "again"]);
        wait_for("what comes after it", || (run_of_evil(docked)["records"] == 7).then_some(()));
        ask(docked, "good", "after-adoption");
        neighbour.assert_no_more_memory("adoption", &daemon);
    }
}

/// What the group said, in the order in which it was taken on, with when that was, ms.
fn said_by_evil(root: &Root) -> Vec<(String, i64)> {
    let rows = root.rows(&["outbox", "list", "--chat", "local:evil"]);
    rows.iter()
        .map(|row| {
            let at: jiff::Timestamp = row["created_at"].as_str().unwrap().parse().unwrap();
            (row["text"].as_str().unwrap().to_owned(), at.as_millisecond())
        })
        .collect()
}

#[test]
fn texts_on_stdout_count_as_files_do_and_the_rest_waits_in_the_log() {
    for place in Place::all("messages_per_minute = 600") {
        let (root, daemon) = (place.root(), place.serve());
        let neighbour = Neighbour::of(root, &daemon);
        let mut all: Vec<String> = (0..700).map(|n| n.to_string()).chain(["done".to_owned()]).collect();
        attacked(&place, &daemon, &neighbour, "leaving-results:700", |_| {
            said_by_evil(root).len() == all.len()
        });
        // Files are taken out of the same allowance. Some go together before it is known that they are messages, and what
        // is said on stdout after them waits the longer.
        for n in 0..40 {
            all.push(format!("file {n}"));
            let say = json!({"type": "send_message", "chatJid": "local:evil", "text": all.last()});
            root.put_command("evil", "messages", &format!("{n:02}.json"), &say);
        }
        wait_for("the files to be taken in", || (said_by_evil(root).len() == all.len()).then_some(()));
        all.extend((0..20).map(|n| n.to_string()).chain(["done".to_owned()]));
        attacked(&place, &daemon, &neighbour, "leaving-results:20", |_| {
            said_by_evil(root).len() == all.len()
        });
        let said = said_by_evil(root);
        assert_eq!(said.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>(), all, "each once, in order");
        // The first 600 are free, then there are ten in a second. The first was counted a little before it was taken in.
        let said_there = |(_, (text, _)): &(usize, &(String, i64))| !text.starts_with("file");
        for (n, (_, at)) in said.iter().enumerate().skip(600).filter(said_there) {
            let least = i64::try_from(n + 1 - 600).unwrap() * 100 - 1_000;
            assert!(at - said[0].1 >= least, "number {n} came {} ms after the first", at - said[0].1);
        }
        wait_for("the run to end", || (run_of_evil(root)["status"] == "succeeded").then_some(()));
        // Where the first 700 took longer than the allowance to come back, none of them had to wait.
        let was_slow = said[700].1 - said[0].1 > 101 * 100;
        assert!(was_slow || root.log().contains("the rest waits in the container's log"));
    }
}

#[test]
fn bytes_said_on_stdout_count_as_those_of_files_do() {
    const TEXT: usize = 540 << 10;
    let root = two_groups_with("[limits]\ncommands_mib_per_minute = 1\n");
    let said: Vec<Value> = ["a", "b", "c"].iter().map(|letter| json!({"say": letter.repeat(TEXT)})).collect();
    root.script(Some("evil"), &json!([{"when": {}, "do": said}]));
    let _daemon = root.serve();
    root.send("local:evil", "begin");
    let said = wait_for("all of it", || Some(said_by_evil(&root)).filter(|said| said.len() == 3));
    assert!(said.iter().all(|(text, _)| text.len() == TEXT), "each whole");
    // Two of them are more than a MiB by 56 KiB, which take 3.3 s to come back.
    assert!(said[2].1 - said[0].1 >= 3_000, "the last came {} ms after the first", said[2].1 - said[0].1);
    assert!(root.log().contains("the rest waits in the container's log"));
}

#[test]
fn texts_that_wait_in_the_log_keep_no_daemon_from_stopping_and_the_next_one_says_them() {
    for place in Place::all("messages_per_minute = 60") {
        let (root, daemon) = (place.root(), place.serve());
        root.send("local:evil", "attack:leaving-results:120");
        wait_for("the first of it", || (said_by_evil(root).len() >= 60).then_some(()));
        assert_eq!(daemon.terminate(), Some(0));
        let before = said_by_evil(root).len();
        assert!(before < 121, "all of it was said: nothing had waited");
        let Place::Container(docked) = &place else { continue };
        let _daemon = docked.serve();
        wait_for("the rest", || (said_by_evil(docked).len() == 121).then_some(()));
        let texts = said_by_evil(docked).into_iter().map(|(text, _)| text);
        assert!(texts.eq((0..120).map(|n| n.to_string()).chain(["done".to_owned()])), "each once, in order");
    }
}

#[test]
fn unread_output_counts_for_the_limit_of_the_output() {
    for place in Place::all_with("output_mib = 1", "messages_per_minute = 60") {
        let (root, _daemon) = (place.root(), place.serve());
        // Three times as much as may be written; all of it would be said within eight hours.
        root.send("local:evil", "attack:results:30000");
        let run =
            wait_for("the run to end", || Some(run_of_evil(root)).filter(|run| run["ended_at"].is_string()));
        assert!(run["error"].as_str().unwrap().contains("wrote more than 1048576 bytes"), "{run}");
        ask(root, "good", "beside-it");
    }
}

#[test]
fn a_flood_of_markers_is_a_handful_of_lines_in_the_log_that_count_it() {
    for place in Place::all("") {
        let (root, daemon) = (place.root(), place.serve());
        let neighbour = Neighbour::of(root, &daemon);
        // 30 MB; through the engine each line takes its time.
        let markers: u64 = if matches!(place, Place::Child(_)) { 1_500_000 } else { 150_000 };
        attacked(&place, &daemon, &neighbour, &format!("leaving-ends:{markers}"), |run| {
            run["status"] == "succeeded"
        });
        let log = root.log();
        let told: Vec<&str> = log.lines().filter(|line| line.contains("noise=NoStart")).collect();
        assert!((2..10).contains(&told.len()), "{told:#?}");
        let times = |line: &&str| -> u64 {
            line.split("times=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        assert_eq!(told.iter().map(times).sum::<u64>(), markers);
        let of_evil = log.lines().filter(|line| !line.contains("group=good")).map(str::len).sum::<usize>();
        assert!(of_evil < 16 << 10, "{of_evil} bytes");
    }
}
