//! What others wrote judges ours: two clients log in to the Discord of the tests, and the adapter to a server.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

use g2_fakes::{
    discord::{
        Fake,
        world::{TOKEN, World},
    },
    peers::{Crabline, node, python},
};
use serde_json::json;

use super::{
    ADA, GENERAL, RANDOM, start,
    suite::{self, Platform},
};

#[test]
fn discord_py_logs_in_reads_writes_changes_resumes_and_answers_a_press() {
    judged_by(python("discord", "discord.py"), "discordpy_judge.py");
}

#[test]
fn discord_js_logs_in_reads_writes_changes_resumes_and_answers_a_press() {
    judged_by(node("discord.js"), "discordjs_judge.mjs");
}

/// A client logs in, and does what its script says when it is spoken to.
fn judged_by(judge: Option<Command>, script: &str) {
    let Some(mut judge) = judge else { return };
    let fake = Fake::start();
    let gateway = fake.world().gateway.clone();
    let script = format!("{}/tests/foreign/{script}", env!("CARGO_MANIFEST_DIR"));
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut client = judge
        .args([&script, &fake.base, &gateway, TOKEN])
        .stdin(Stdio::null())
        .stdout(log.reopen().unwrap())
        .stderr(log.reopen().unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(log.path()).unwrap();
    let mut wait = |what: &str, is: &dyn Fn(&World) -> bool| {
        fake.wait(what, |world| {
            assert!(client.try_wait().unwrap().is_none_or(|end| end.success()), "{what}: {}", said());
            is(world)
        });
    };
    let says = |world: &World, text: &str| {
        world.places[&GENERAL].messages.values().any(|message| message["content"] == text)
    };
    wait("ready", &|world| says(world, "ready"));
    fake.say(GENERAL, ADA, "hello <@900>");
    wait("answered", &|world| says(world, "answer to Ada, changed"));
    let card = fake.said(GENERAL).into_iter().find(|message| message["content"] == "card").unwrap();
    let card = card["id"].as_str().unwrap().parse().unwrap();
    fake.press(GENERAL, card, "yes", ADA);
    wait("pressed", &|world| !world.whispers.is_empty());
    fake.rows(RANDOM, ADA);
    fake.say(RANDOM, ADA, "that is all");
    wait("read", &|world| says(world, "read"));
    fake.cut();
    fake.say(GENERAL, ADA, "while you were away");
    wait("resumed", &|world| says(world, "heard: while you were away"));
    fake.say(GENERAL, ADA, "bye");
    assert!(client.wait().unwrap().success(), "{}", said());
    let world = fake.world();
    assert_eq!((world.identified, world.resumed), (1, 1));
    assert_eq!(world.callbacks[0].1["type"], json!(6));
}

#[test]
fn the_adapter_does_all_on_our_own_server() {
    let fake = Fake::start();
    let mut adapter = start(&fake.base, TOKEN, &BTreeMap::new());
    adapter.ready();
    let hears = |text: &str| {
        fake.say(GENERAL, ADA, text);
    };
    suite::does_all(Platform { adapter, chat: "dc:700", hears: &hears, forgets: false });
}

#[test]
fn the_adapter_does_all_on_a_server_that_others_wrote() {
    let lenient = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/crabline_gateway.mjs");
    let token = "MTM1MDAwMDAwMDAwMDAwMDAx.of.the.tests";
    let Some(crabline) = Crabline::start("discord", Some(lenient), token) else { return };
    let fixture = &crabline.manifest["fixture"];
    let channel = fixture["channelId"].as_str().unwrap();
    let hears = |text: &str| {
        let said = json!({"channelId": channel, "guildId": fixture["guildId"], "senderId": "135000000000000100",
            "senderName": "Ada", "content": text});
        let message = crabline.hears("discord", &said)["message"].clone();
        assert_eq!(message["content"], text);
    };
    let mut adapter = start(crabline.word("baseUrl"), token, &BTreeMap::new());
    adapter.ready();
    let chat = &format!("dc:{channel}");
    suite::does_all(Platform { adapter, chat, hears: &hears, forgets: true });
}
