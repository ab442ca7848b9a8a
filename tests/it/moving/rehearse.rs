//! Which of the newest messages of an installation would wake whom, there and here.
#![expect(clippy::disallowed_methods, reason = "a test changes a copy of an installation")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::Value;

use super::samples::Sample;
use crate::support::Root;

/// What differs: the message, its group, what it does there and here, and the command that changes it.
fn differing(found: &Value) -> Vec<[&str; 5]> {
    let all = found["differences"].as_array().unwrap();
    all.iter()
        .map(|of| {
            [&of["message"], &of["group"], &of["there"]["effect"], &of["here"]["effect"], &of["fix"]]
                .map(|value| value.as_str().unwrap_or_default())
        })
        .collect()
}

fn rehearsed(root: &Root, kind: &str, sample: &Sample) -> Value {
    root.json(&["import", kind, sample.dir.path().to_str().unwrap(), "--rehearse"])
}

#[test]
fn of_nanoclaws_first_version_only_the_owners_own_account_differs() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    let found = rehearsed(&root, "nanoclaw", &sample);
    assert_eq!((&found["messages"], &found["differ"]), (&Value::from(17), &Value::from(2)), "{found:#}");
    assert_eq!(
        differing(&found),
        [["M1", "main", "wakes", "nothing", ""], ["M3", "main", "wakes", "nothing", ""]]
    );
    assert!(found["notes"][0].as_str().unwrap().contains("two seconds"), "{found:#}");
    // The same as people read it; nothing came in.
    let told = root.g2(&["import", "nanoclaw", sample.dir.path().to_str().unwrap(), "--rehearse"]);
    assert!(told.contains("it is our own message") && told.contains("pause the morning task"), "{told}");
    assert!(root.rows(&["chats", "list"]).iter().all(|chat| chat["jid"] == "local:main"));
}

#[test]
fn of_the_typescript_program_a_pattern_that_is_broken_differs() {
    let (root, sample) = (Root::new(""), Sample::of("g2"));
    let _daemon = root.serve();
    let found = rehearsed(&root, "g2", &sample);
    // The owner's own account; `Computer` in another case wakes the team on both sides.
    assert_eq!(differing(&found), [["A1", "main", "wakes", "nothing", ""]], "{found:#}");
    assert_eq!((&found["woke_there"], &found["wakes_here"]), (&Value::from(2), &Value::from(1)), "{found:#}");
}

#[test]
fn of_nanoclaws_second_version_strangers_differ_where_the_chat_is_for_people_it_knows() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw-v2"));
    let found = rehearsed(&root, "nanoclaw-v2", &sample);
    eprintln!("{found:#}");
    assert!(
        found["notes"][0].as_str().unwrap().contains("did not store which messages mention"),
        "{found:#}"
    );
    // What happened there happens here, or is told with the command that has it happen.
    for of in found["differences"].as_array().unwrap() {
        assert!(of["fix"].as_str().is_some_and(|fix| fix.starts_with("g2 ")), "{of:#}");
    }
}

#[test]
fn the_rules_of_here_decide_about_a_list_of_senders_that_is_broken_there() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    sample.sql(
        "store/messages.db",
        "UPDATE registered_groups SET requires_trigger = 1 WHERE folder = 'family'",
    );
    std::fs::create_dir_all(root.path().join(".config/g2")).unwrap();
    std::fs::write(root.path().join(".config/g2/sender-allowlist.json"), "{").unwrap();
    let output = root
        .command(&["import", "nanoclaw", sample.dir.path().to_str().unwrap(), "--rehearse", "--json"])
        .env("HOME", root.path())
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let unread = |of: &&Value| of["here"]["why"].as_str().unwrap().contains("can't be read");
    let told = found["differences"].as_array().unwrap();
    assert!(told.iter().filter(unread).count() >= 3, "{found:#}");
}
