//! Texts that grow, from the agent's words to the platform: each message grows in place, in order, and stands whole at the end,
//! also over kills.

use super::{kills::adapters_of, *};
use crate::support::Docked;

const WORDS: [&str; 10] = ["One", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten."];

/// An agent that says ten words, one after the other.
fn script() -> Value {
    let mut steps = Vec::new();
    for n in 1..=WORDS.len() {
        steps.extend([json!({"so_far": WORDS[..n].join(" ")}), json!({"wait_ms": 600})]);
    }
    steps.push(json!({"say": WORDS.join(" ")}));
    json!([{"when": {"contains": "count"}, "do": steps}, {"do": [{"say": "echo: {{text}}"}]}])
}

/// A root whose agent counts in Ada's chat on Telegram.
fn lay_out(root: &Root, town: &Town) {
    adapters();
    std::fs::write(root.path().join("telegram.token"), town.token()).unwrap();
    root.g2(&["wirings", "add", "--group", "main", "--chat", &town.chat(), "--engage", "pattern"]);
    root.g2(&["chats", "set", &town.chat(), "policy=public"]);
    root.g2(&["groups", "set", "main", "say=stream"]);
    root.script(Some("main"), &script());
}

fn until_connected(root: &Root) {
    wait_for("the account to be connected", || {
        (root.json(&["channels", "show", "telegram"])["connection"] == "connected").then_some(())
    });
}

/// What the bot's first message was, from its beginning on.
fn looks(town: &Town) -> Vec<String> {
    let Town::Telegram(fake) = town else { panic!("it is Telegram") };
    let state = fake.ask("state", &json!({}));
    let calls = state["calls"].as_array().unwrap().iter();
    let shown = calls.filter(|call| call["method"] == "sendMessage" || call["method"] == "editMessageText");
    shown.map(|call| call["params"]["text"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the platform shows this number of words, and we know it.
fn until_known(root: &Root, words: usize) {
    let beginning = WORDS[..words].join(" ");
    wait_for("the words", || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let store = rusqlite::Connection::open_with_flags(root.data("g2.sqlite"), flags).unwrap();
        let sql = "SELECT count(*) FROM outbox_parts WHERE platform_id IS NOT NULL AND (text IS NULL OR text LIKE '%' || ?1 || '%')";
        let known: i64 = store.query_row(sql, [&beginning], |r| r.get(0)).ok()?;
        (known > 0).then_some(())
    });
}

fn kill_adapter(daemon: &Daemon) {
    for (pid, _) in adapters_of(daemon.pid()) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The message grew: each look at it is a beginning of the whole, and none is shorter than the one before.
fn assert_grew(town: &Town) {
    let (looks, whole) = (looks(town), WORDS.join(" "));
    assert!(looks.len() > 2 && looks.iter().all(|look| whole.starts_with(look.as_str())), "{looks:?}");
    assert!(looks.is_sorted_by_key(String::len), "{looks:?}");
    assert_eq!(town.texts(), [whole]);
}

#[test]
fn an_answer_grows_in_place_and_stands_whole_although_the_adapter_is_killed() {
    let town = Town::telegram(0);
    let root = Root::new(&town.table());
    lay_out(&root, &town);
    let daemon = root.serve();
    until_connected(&root);
    town.says("count");
    for words in [1, 4, 7] {
        until_known(&root, words);
        kill_adapter(&daemon);
    }
    wait_for("the whole", || (town.texts() == [WORDS.join(" ")]).then_some(()));
    wait_for("nothing to be left to say", || {
        (root.json(&["channels", "show", "telegram"])["unsent"] == 0).then_some(())
    });
    assert_grew(&town);
}

#[test]
fn an_answer_grows_on_although_daemon_and_adapter_are_killed() {
    let town = Town::telegram(0);
    let Some(root) = Docked::new(&town.table()) else { return };
    lay_out(&root, &town);
    let mut daemon = root.serve();
    until_connected(&root);
    town.says("count");
    for words in [1, 3, 5, 7] {
        until_known(&root, words);
        if words % 4 == 1 {
            daemon.kill();
            daemon = root.serve();
        } else {
            kill_adapter(&daemon);
        }
    }
    wait_for("the whole", || (town.texts() == [WORDS.join(" ")]).then_some(()));
    wait_for("nothing to be left to say", || {
        (root.json(&["channels", "show", "telegram"])["unsent"] == 0).then_some(())
    });
    assert_grew(&town);
}

#[test]
fn the_words_of_an_agent_that_dies_with_its_daemon_stay_and_the_chat_is_told() {
    let town = Town::telegram(0);
    let root = Root::new(&town.table());
    lay_out(&root, &town);
    let daemon = root.serve();
    until_connected(&root);
    town.says("count");
    until_known(&root, 2);
    daemon.kill();
    let _daemon = root.serve();
    let texts = wait_for("the chat to be told", || Some(town.texts()).filter(|texts| texts.len() > 1));
    assert!(WORDS.join(" ").starts_with(&texts[0]) && texts[1].contains("interrupted"), "{texts:?}");
    town.says("hello");
    wait_for("an answer", || town.texts().contains(&"echo: hello".to_owned()).then_some(()));
    assert_eq!(town.texts().len(), 3, "{:?}", town.texts());
}
