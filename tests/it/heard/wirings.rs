//! Every wiring on its own, its rules, and what they come to.

use serde_json::{Value, json};

use crate::{
    dispatch::engage::crowd,
    support::{Root, Socket, wait_for},
};

use super::people::{rules, say};

/// A pattern that can't be decided about [`LONG`] within the bound.
const HARD: &str = r"(.*)(.*)(.*)\1\2\3z";

fn long() -> String {
    "ab".repeat(2_000)
}

/// A root with three groups in `local:main`: the first has `pattern`, the others hear everything.
fn three(pattern: &str) -> Root {
    let root = Root::new("");
    root.store_pattern(pattern);
    for name in ["second", "third"] {
        root.g2(&["groups", "add", name, "--chat", &format!("local:{name}")]);
        root.g2(&["wirings", "add", "--group", name, "--chat", "local:main", "--engage", "pattern"]);
    }
    root
}

fn doctor(root: &Root, check: &str) -> Value {
    root.rows(&["doctor"]).into_iter().find(|row| row["check"] == check).unwrap()
}

#[test]
fn an_unknown_mode_or_scope_is_refused_with_the_list_of_known_ones() {
    let root = Root::new("");
    for setting in ["engage=always", "engage=", "sender_scope=friends", "sender_scope=", "ignored=keep"] {
        let output = root.run(&["wirings", "set", "--group", "main", "--chat", "local:main", setting]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && told.contains("use one of "), "{setting}: {told}");
    }
    // Nor can anybody else store one, or none.
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    for column in ["engage_mode", "sender_scope", "ignored_message_policy"] {
        for value in ["NULL", "'always'", "''"] {
            assert!(
                store.execute(&format!("UPDATE wirings SET {column} = {value}"), []).is_err(),
                "{column} {value}"
            );
        }
    }
    assert_eq!(root.rows(&["wirings", "list"])[0]["engage_pattern"], ".");
}

#[test]
fn a_pattern_is_refused_where_the_agent_does_not_engage_by_one() {
    let root = Root::new("");
    let set = |settings: &[&str]| {
        root.run(&[&["wirings", "set", "--group", "main", "--chat", "local:main"], settings].concat())
    };
    let now = || {
        let row = &root.rows(&["wirings", "list"])[0];
        (row["engage_mode"].clone(), row["engage_pattern"].clone())
    };
    for mode in ["mention", "mention-sticky"] {
        let engage = format!("engage={mode}");
        for settings in [&[engage.as_str(), "pattern=foo"][..], &["pattern=foo", &engage]] {
            assert_eq!(set(settings).status.code(), Some(1), "{settings:?}");
            assert_eq!(now(), (json!("pattern"), json!(".")), "nothing is changed: {settings:?}");
        }
        assert!(set(&[&engage]).status.success());
        let refused = set(&["pattern=foo"]);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(1) && told.contains("engage=pattern pattern=P"), "{told}");
        assert_eq!(now(), (json!(mode), Value::Null));
        for settings in [&["engage=pattern", "pattern=foo"][..], &["pattern=.", "engage=pattern"]] {
            assert!(set(settings).status.success());
        }
    }
}

#[test]
fn a_rule_that_fails_stops_no_other() {
    for (pattern, verdict) in [("(", "wake"), (HARD, "held")] {
        let root = three(pattern);
        let _daemon = root.serve();
        let why = say(&root, &[&long()]);
        let verdicts: Vec<&Value> =
            why["wirings"].as_array().unwrap().iter().map(|w| &w["verdict"]).collect();
        assert_eq!(verdicts, [verdict, "wake", "wake"], "{pattern}");
        Socket::connect(&root).rest("local:main");
        assert_eq!(root.said("local:main").len(), if verdict == "wake" { 3 } else { 2 });
    }
}

#[test]
fn a_group_that_can_not_be_read_stops_no_other() {
    let root = Root::new("");
    let _daemon = root.serve();
    // What no program of ours writes.
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store
        .execute_batch(
            "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('../odd', 'odd', '@odd', 0);
             INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, created_at)
             VALUES ('../odd', 'local:main', 'pattern', '.', 0);",
        )
        .unwrap();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    let why = root.why(1);
    assert_eq!(why["wirings"].as_array().unwrap().len(), 2, "{why}");
    assert_eq!(
        (&why["wirings"][0]["verdict"], &why["wirings"][1]["verdict"]),
        (&json!("wake"), &json!("ignore"))
    );
}

#[test]
fn a_wiring_that_is_removed_while_its_message_waits_stops_no_other() {
    let root = three(".");
    let seqs: Vec<i64> = {
        let store = g2::store::Store::open(&root.data("g2.sqlite")).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let inbound = g2::domain::rows::Inbound {
            chat_jid: "local:main".into(),
            replay_key: "1".into(),
            id: "1".into(),
            sender: "local:me".into(),
            text: "to all".into(),
            ..Default::default()
        };
        vec![runtime.block_on(store.accept(inbound, ipc_handlers::Time(1_800_000_000_000))).unwrap().seq]
    };
    root.g2(&["wirings", "remove", "--group", "second", "--chat", "local:main"]);
    let _daemon = root.serve();
    let why = root.judged(seqs[0]);
    assert_eq!(rules(&why), ["pattern", "none", "pattern"], "{why}");
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main").len(), 2);
}

#[test]
fn two_groups_that_take_everything_are_warned_about_when_they_are_made_so() {
    let root = Root::new("");
    root.g2(&["groups", "add", "second", "--chat", "local:second"]);
    let told = |arguments: &[&str]| {
        let output = root.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let second = ["--group", "second", "--chat", "local:main"];
    for pattern in [".", ".*", ""] {
        let add: Vec<&str> =
            ["wirings", "add"].iter().chain(&second).chain(&["--pattern", pattern]).copied().collect();
        assert!(told(&add).contains("answered 2 times"), "{pattern:?}");
        // A pattern that can't be used is the cause, and named once.
        let check = if pattern == "(" { ("engage_pattern", "fail") } else { ("answers_twice", "warn") };
        assert_eq!(doctor(&root, check.0)["status"], check.1, "{pattern:?}");
        let set = |setting: &str| {
            let all: Vec<&str> =
                ["wirings", "set"].iter().chain(&second).copied().chain(setting.split(' ')).collect();
            told(&all)
        };
        assert!(!set("engage=mention").contains("answered"));
        assert_eq!(doctor(&root, "answers_twice")["status"], "ok");
        assert!(!set("engage=pattern pattern=^only").contains("answered"));
        assert!(set(&format!("pattern={pattern}")).contains("answered 2 times"), "{pattern:?}");
        root.g2(&["wirings", "remove", "--group", "second", "--chat", "local:main"]);
    }
}

#[test]
fn a_pattern_that_can_not_be_used_engages_and_is_told_of_everywhere() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(root.json(&["status"])["state"], "healthy");
    root.store_pattern("(unclosed");
    let why = say(&root, &["anything"]);
    assert_eq!(why["wirings"][0]["engages"], true);
    let reason = why["wirings"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("can't be used"), "{reason}");
    assert_eq!(doctor(&root, "engage_pattern")["status"], "fail");
    let status = root.json(&["status"]);
    assert!(
        status["problems"][0].as_str().unwrap().contains("group main engages on every message"),
        "{status}"
    );
    assert!(root.log().contains("a wiring's rule has a problem"));
}

#[test]
fn a_message_that_a_pattern_can_not_judge_is_held_told_and_answered_once_the_wiring_is_fixed() {
    let root = Root::new("");
    root.g2(&["wirings", "set", "--group", "main", "--chat", "local:main", &format!("pattern={HARD}")]);
    let _daemon = root.serve();
    let held = say(&root, &[&long()]);
    assert_eq!(held["wirings"][0]["verdict"], "held");
    assert!(held["answer"].as_str().unwrap().contains("g2 wirings set --group main"), "{}", held["answer"]);
    // What comes after it is answered meanwhile, so that it lies behind the cursor.
    assert_eq!(root.ask("local:main", "z"), "echo: z\n");
    assert_eq!(doctor(&root, "held_messages")["status"], "warn");
    let status = root.json(&["status"]);
    assert!(status["problems"][0].as_str().unwrap().contains("held messages: 1"), "{status}");
    root.g2(&["wirings", "set", "--group", "main", "--chat", "local:main", "pattern=^ab"]);
    wait_for("the held message to be answered", || (root.said("local:main").len() == 2).then_some(()));
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main"), ["echo: z".to_owned(), format!("echo: {}", long())]);
    assert_eq!(doctor(&root, "held_messages")["status"], "ok");
    assert_eq!(root.json(&["status"])["state"], "healthy");
}

#[test]
fn an_explanation_equals_the_daemons_decision() {
    let root = crowd("accumulate");
    root.g2(&["wirings", "set", "--group", "family", "--chat", "local:crowd", "engage=mention-sticky"]);
    root.g2(&[
        "wirings",
        "add",
        "--group",
        "main",
        "--chat",
        "local:crowd",
        "--pattern",
        "(?=deploy)",
        "--sender-scope",
        "known",
    ]);
    root.g2(&["chats", "set", "local:crowd", "policy=strict"]);
    root.g2(&["members", "add", "--group", "family", "local:bob"]);
    let _daemon = root.serve();
    let decided = |row: &Value| ["group", "engages", "rule", "reason"].map(|name| row[name].clone());
    for message in [
        &["--as", "me", "deploy"][..],
        &["--as", "bob", "deploy"],
        &["--as", "eve", "deploy"],
        &["--as", "eve", "--mention", "hey"],
        &["--as", "bob", "--thread", "t", "hm"],
        &["--as", "bob", "--thread", "t", "--mention", "hm"],
        &["--as", "bob", "--thread", "t", "hm"],
        &["--as", "eve", "--thread", "t", "hm"],
        &["--as", "bob", "hm"],
        &["--as", "bob", " @ann: hm"],
    ] {
        let with = |first: &[&'static str]| [first, &["--chat", "local:crowd"], message].concat();
        let explained = root.rows(&with(&["engage", "explain"]));
        let why = say(&root, &with(&[]));
        let judged = why["wirings"].as_array().unwrap();
        assert_eq!(
            explained.iter().map(decided).collect::<Vec<_>>(),
            judged.iter().map(decided).collect::<Vec<_>>(),
            "{message:?}"
        );
    }
    let row = &root.rows(&[
        "engage",
        "explain",
        "--chat",
        "local:crowd",
        "--as",
        "local:bob",
        "--thread",
        "t",
        "hm",
    ])[0];
    assert_eq!(
        ["sender", "standing", "listed", "policy", "sender_scope", "sticky", "outcome"]
            .map(|name| row[name].clone()),
        [
            json!("local:bob"),
            json!("member"),
            json!("allowed"),
            json!("strict"),
            json!("all"),
            json!(true),
            json!("wake")
        ]
    );
    let rule = |flag: &str| {
        root.rows(&["engage", "explain", "--chat", "local:crowd", flag, "@Ann hi"])[0]["rule"].clone()
    };
    assert_eq!(
        [rule("--bot"), rule("--own"), rule("--mention")],
        [json!("bot"), json!("own"), json!("mention")]
    );
}

#[test]
fn a_registration_in_v1_s_terms_engages_as_v1_did() {
    let root = Root::new("");
    let _daemon = root.serve();
    for (folder, jid, requires) in
        [("a", "tg:-1", json!(null)), ("b", "tg:-2", json!(true)), ("c", "tg:-3", json!(false))]
    {
        let mut command = json!({
            "type": "register_group", "requestId": folder, "jid": jid, "name": folder, "folder": folder, "trigger": "@Old",
        });
        if !requires.is_null() {
            command["requiresTrigger"] = requires;
        }
        root.put_command("main", "tasks", &format!("{folder}.json"), &command);
        assert_eq!(root.reply("main", folder)["ok"], true);
    }
    let engages: Vec<[Value; 4]> = root
        .rows(&["wirings", "list"])
        .iter()
        .skip(1)
        .map(|w| {
            ["engage_mode", "engage_pattern", "sender_scope", "ignored_message_policy"]
                .map(|name| w[name].clone())
        })
        .collect();
    let mention = [json!("mention"), Value::Null, json!("all"), json!("accumulate")];
    assert_eq!(engages[..2], [mention.clone(), mention]);
    assert_eq!(engages[2][..3], [json!("pattern"), json!("."), json!("all")]);
    assert!(root.rows(&["chats", "list"]).iter().all(|chat| chat["unknown_sender_policy"] == "public"));
    let rule = |jid: &str, text: &str| {
        root.rows(&["engage", "explain", "--chat", jid, "--as", "7", text])[0]["rule"].clone()
    };
    assert_eq!(
        [rule("tg:-1", "@old, hi"), rule("tg:-1", "hi @Old"), rule("tg:-3", "hi")],
        [json!("trigger"), json!("none"), json!("pattern")]
    );
}
