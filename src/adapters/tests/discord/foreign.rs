//! A client that nobody here wrote judges the Discord of the tests.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use g2_fakes::discord::{
    Fake,
    world::{TOKEN, World},
};
use serde_json::json;

use super::{ADA, GENERAL};

/// Where `tests/peers.sh` puts it.
fn peer(name: &str, path: &str) -> Option<PathBuf> {
    let peer = g2_fakes::peers().join(path);
    let there = peer.exists();
    if !there {
        assert!(std::env::var_os("G2_REQUIRE_FOREIGN").is_none(), "there is no {name}: run tests/peers.sh");
        eprintln!("skipped: no {name}");
    }
    there.then_some(peer)
}

#[test]
fn discord_py_logs_in_reads_writes_changes_resumes_and_answers_a_press() {
    let Some(python) = peer("discord.py", "discord/bin/python") else { return };
    let fake = Fake::start();
    let gateway = fake.world().gateway.clone();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/discord/client.py");
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut client = Command::new(python)
        .args([script, &fake.base, &gateway, TOKEN])
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
    wait("answered", &|world| says(world, "answer to Ada: True, changed"));
    let card = fake.said(GENERAL).into_iter().find(|message| message["content"] == "card").unwrap();
    let card = card["id"].as_str().unwrap().parse().unwrap();
    fake.press(GENERAL, card, "yes", ADA);
    wait("pressed", &|world| !world.whispers.is_empty());
    fake.cut();
    fake.say(GENERAL, ADA, "while you were away");
    wait("resumed", &|world| says(world, "heard: while you were away"));
    fake.say(GENERAL, ADA, "bye");
    assert!(client.wait().unwrap().success(), "{}", said());
    let world = fake.world();
    assert_eq!((world.identified, world.resumed), (1, 1));
    assert_eq!(world.callbacks[0].1["type"], json!(6));
}
