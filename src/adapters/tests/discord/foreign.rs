//! What others wrote judges ours: two clients log in to the Discord of the tests, and the adapter to a server.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

use channel_protocol::{EventKind, Mention, Up};
use g2_fakes::{
    discord::{
        Fake,
        world::{TOKEN, World},
    },
    peers::{Crabline, node, python},
};
use serde_json::json;

use super::{ADA, Adapter, GENERAL, send};

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
fn a_server_that_others_wrote_takes_the_adapter_for_a_bot() {
    let slash = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/crabline_gateway.mjs");
    let token = "MTM1MDAwMDAwMDAwMDAwMDAx.of.the.tests";
    let Some(crabline) = Crabline::start("discord", Some(slash), token) else { return };
    let fixture = &crabline.manifest["fixture"];
    let (channel, server) = (fixture["channelId"].as_str().unwrap(), fixture["guildId"].clone());
    let me = crabline.word("botUserId").to_owned();
    let hears = |text: &str| {
        let said = json!({"channelId": channel, "guildId": server, "senderId": "135000000000000100", "senderName": "Ada",
            "content": text});
        crabline.hears("discord", &said)["message"]["id"].as_str().unwrap().to_owned()
    };
    let mut adapter = Adapter::start(crabline.word("baseUrl"), token, &BTreeMap::new());
    adapter.ready();
    let chat = format!("dc:{channel}");
    let id = hears(&format!("<@{me}> hello"));
    let hello = adapter.next_event();
    assert_eq!((&hello.id, &hello.chat, hello.mention), (&id, &chat, Mention::Me));
    assert_eq!((&hello.from.name[..], &hello.text[..]), ("Ada", "@crabline_bot hello"));
    let mut answer = send("k.1.1", &chat, "hi 🎈");
    answer["reply_to"] = id.clone().into();
    answer["buttons"] = json!([[{"label": "Yes", "press": "yes:1"}]]);
    let ours = adapter.done(&answer).ids.unwrap().remove(0);
    for change in [json!({"text": "changed", "buttons": []}), json!({"react": "👀"}), json!({"react": ""})]
    {
        let mut amend = json!({"op": "amend", "r": 2, "key": "k.1.2", "chat": chat, "id": ours});
        amend.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let done = adapter.done(&amend);
        assert!(done.ids.is_some(), "{change}: {done:?}");
    }
    let since = "2026-01-01T00:00:00Z";
    let look = |text: &str| json!({"op": "look_for", "r": 5, "key": "k.9.1", "chat": chat, "since": since, "text": text});
    let Up::Found(found) = adapter.ask(&look("never said")) else { panic!() };
    assert!(found.not_sent, "{found:?}");
    std::fs::write(adapter.spool().join("out/z"), b"a picture").unwrap();
    let mut file = send("k.2.1", &chat, "here");
    file["attachments"] = json!([{"file": "out/z", "kind": "image", "mime": "image/png", "name": "z.png"}]);
    let with_file = adapter.done(&file).ids.unwrap().remove(0);
    assert!(
        adapter
            .done(
                &json!({"op": "amend", "r": 3, "key": "k.2.2", "chat": chat, "id": with_file, "delete": true})
            )
            .ids
            .is_some()
    );
    let gone = adapter.next_event();
    assert_eq!((gone.kind, gone.of), (EventKind::Delete, with_file));
    adapter.say(&json!({"op": "show", "chat": chat, "typing": true}));
    // What was not stored before a kill comes again, and what was does not. A new session is begun: this server's resumes
    // tell nothing again.
    hears("two");
    let mut cursor = adapter.next_event().cursor;
    cursor.remove("session");
    hears("three");
    assert_eq!(adapter.event().text, "three");
    let mut adapter = adapter.again(&cursor);
    // What is a few seconds older may be told again, by its key.
    let again = std::iter::repeat_with(|| adapter.next_event()).find(|event| event.key != hello.key).unwrap();
    assert_eq!((&again.text[..], again.kind, again.late), ("three", EventKind::Message, true));
}
