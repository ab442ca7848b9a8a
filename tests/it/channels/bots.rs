//! Other bots in a chat: they are heard where a group wants it, and two that answer each other come to an end.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use g2::domain::heard::bots::TURNS_OF_ALL;

use super::python;
use crate::support::{Root, wait_for};

const ADAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/room_adapter.py");

/// The settings of an account in a room.
pub(super) fn table(room: &Path, name: &str, reads: &[PathBuf]) -> String {
    let python = reads.last().unwrap();
    format!(
        "[channels.{name}]\ncommand = [{python:?}, {ADAPTER:?}]\nreads = {reads:?}\nwrites = [{room:?}]\nroom = {room:?}\nme = {name:?}\n"
    )
}

/// A root with two groups, each with an account of its own in one room.
fn root() -> Root {
    let root = Root::new("");
    let room = root.path().join("room");
    fs::write(&room, "").unwrap();
    let reads = python();
    root.settings(&(table(&room, "ann", &reads) + &table(&room, "bob", &reads)));
    for name in ["ann", "bob"] {
        let chat = format!("{name}:room");
        root.g2(&["groups", "add", name, "--chat", &chat]);
        root.g2(&["wirings", "set", "--group", name, "--chat", &chat, "engage=pattern", "pattern=."]);
        root.g2(&["chats", "set", &chat, "policy=public"]);
    }
    root
}

/// Somebody says something in the room.
fn says(root: &Root, from: &str, bot: bool, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(root.path().join("room")).unwrap();
    file.write_all(format!("{}\n", json!({"from": from, "bot": bot, "text": text})).as_bytes()).unwrap();
}

/// What somebody said in the room.
pub(super) fn said_by(root: &Root, who: &str) -> Vec<String> {
    let all = fs::read_to_string(root.path().join("room")).unwrap();
    let lines = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["from"] == who).map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

/// The rules by which a group's messages were judged; `None`: one was not judged yet.
fn rules(root: &Root, chat: &str) -> Option<Vec<String>> {
    let came = root.rows(&["messages", "list", "--chat", chat]);
    let rule = |row: &Value| {
        let why = root.why(row["seq"].as_i64().unwrap());
        why["wirings"][0]["rule"].as_str().map(str::to_owned)
    };
    came.iter().map(rule).collect()
}

#[test]
fn bots_are_heard_where_a_group_wants_it() {
    let root = root();
    let _daemon = root.serve();
    says(&root, "eve", true, "beep");
    wait_for("it to be judged", || rules(&root, "ann:room").filter(|rules| rules == &["bot"]));
    root.g2(&["groups", "set", "ann", "bots=heard"]);
    says(&root, "eve", true, "beep again");
    wait_for("the answer", || said_by(&root, "ann").contains(&"echo: beep again".to_owned()).then_some(()));
    assert_eq!(said_by(&root, "bob"), [""; 0]);
    root.g2(&["groups", "set", "ann", "bots="]);
    says(&root, "eve", true, "the last");
    wait_for("it to be judged", || {
        rules(&root, "ann:room").filter(|rules| rules == &["bot", "pattern", "bot"])
    });
}

#[test]
fn two_agents_that_answer_each_other_come_to_an_end_also_over_a_death_and_the_chat_is_told_once() {
    let root = root();
    for name in ["ann", "bob"] {
        root.g2(&["groups", "set", name, "bots=heard"]);
    }
    let daemon = root.serve();
    says(&root, "ada", false, "hello");
    wait_for("them to talk", || (said_by(&root, "ann").len() >= 3).then_some(()));
    daemon.kill();
    let _daemon = root.serve();
    let held = |name: &str| Some(rules(&root, &format!("{name}:room"))?.contains(&"bot_loop".to_owned()));
    wait_for("one not to answer", || (held("ann")? || held("bob")?).then_some(()));
    // A person is answered, and the agent reads what it left unanswered.
    says(&root, "ada", false, "enough");
    for name in ["ann", "bob"] {
        wait_for("the answer", || {
            said_by(&root, name).iter().any(|text| text.contains("enough")).then_some(())
        });
        let chat = format!("{name}:room");
        let came = root.rows(&["messages", "list", "--chat", &chat]);
        let (mut turns, mut left) = (0, 0);
        for row in came.iter().filter(|row| row["sender"] != format!("{name}:ada")) {
            let why = root.judged(row["seq"].as_i64().unwrap());
            match why["wirings"][0]["rule"].as_str().unwrap() {
                "pattern" => turns += 1,
                "bot_loop" => {
                    left += 1;
                    let reason = why["wirings"][0]["reason"].as_str().unwrap();
                    assert!(reason.contains("not answered until it is quieter"), "{why}");
                }
                rule => panic!("{rule}"),
            }
        }
        assert!(turns <= 8 && (turns == 8 || left == 0), "{name}: {came:?}");
        let told = || said_by(&root, name).iter().filter(|text| text.contains("Other bots and I")).count();
        if left > 0 {
            wait_for("the chat to be told", || (told() > 0).then_some(()));
        }
        assert!(told() <= 1, "{name}: {came:?}");
    }
}

#[test]
fn bots_with_a_new_name_for_each_message_are_not_answered_without_end() {
    let root = root();
    root.g2(&["groups", "set", "ann", "bots=heard"]);
    let _daemon = root.serve();
    for n in 0..TURNS_OF_ALL + 6 {
        says(&root, &format!("hook{n}"), true, "beep");
    }
    let judged = wait_for("all to be judged", || {
        rules(&root, "ann:room").filter(|rules| rules.len() >= TURNS_OF_ALL + 6)
    });
    let are = |rule: &str| judged.iter().filter(|is| *is == rule).count();
    assert!(are("pattern") == TURNS_OF_ALL && are("bot_loop") == judged.len() - TURNS_OF_ALL, "{judged:?}");
    let told = || said_by(&root, "ann").iter().filter(|text| text.contains("Other bots and I")).count();
    wait_for("the chat to be told", || (told() > 0).then_some(()));
    // A person is answered, and the chat is told once.
    says(&root, "ada", false, "enough");
    wait_for("the answer", || said_by(&root, "ann").iter().any(|text| text.contains("enough")).then_some(()));
    assert_eq!(told(), 1);
}
