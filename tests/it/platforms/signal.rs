//! A person on Signal, by a signal-cli of the tests' own. `src/adapters/tests/signal/kills.rs` has the kills.

use g2_fakes::signal::{ADA, Fake, GROUP, US};

use super::*;

const ADA_CHAT: &str = "signal:a0000000-0000-4000-8000-000000000100";
const GROUP_CHAT: &str = "signal:group.-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s";

/// A root whose daemon has an account on Signal; main's agent answers Ada, and in a group who names it.
fn home(fake: &Fake) -> Root {
    adapters();
    let root = Root::new(&format!("[channels.signal]\naccount = {US:?}\nupstream = {:?}\n", fake.base));
    for (chat, mode) in [(ADA_CHAT, "pattern"), (GROUP_CHAT, "mention")] {
        root.g2(&["wirings", "add", "--group", "main", "--chat", chat, "--engage", mode]);
        root.g2(&["chats", "set", chat, "policy=public"]);
    }
    root
}

/// Waits until the account has said these texts; returns what was asked for each.
fn until_said(fake: &Fake, texts: &[&str]) -> Vec<Value> {
    wait_for(&format!("{texts:?}"), || {
        let sent = fake.asked("send");
        (sent.iter().map(|one| one["message"].as_str().unwrap_or_default()).eq(texts.iter().copied()))
            .then_some(sent)
    })
}

#[test]
fn a_person_is_answered_in_their_chat_and_a_group_where_it_names_the_account() {
    let fake = Fake::start();
    let root = home(&fake);
    let _daemon = root.serve();
    fake.say(ADA, "one");
    let sent = until_said(&fake, &["echo: one"]);
    assert_eq!(sent[0]["recipient"], json!([ADA]));
    fake.world().say(ADA, Some(GROUP), "to nobody", &json!({}));
    let us = json!({"mentions": [{"number": US, "start": 0, "length": 1}]});
    fake.world().say(ADA, Some(GROUP), "\u{fffc} two", &us);
    let sent = wait_for("an answer in the group", || fake.asked("send").into_iter().nth(1));
    assert!(sent["groupId"] == GROUP && sent["message"].as_str().unwrap().ends_with("two"), "{sent}");
    let shown = root.json(&["channels", "show", "signal"]);
    assert_eq!((&shown["inbound"], &shown["unsent"]), (&json!("ok"), &json!(0)), "{shown}");
}
