//! What others wrote judges ours: Slack's own clients come to the Slack of the tests, and the adapter asks a server's Web API.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use g2_fakes::{
    peers::{node, python},
    slack::{Fake, world::World},
    telegram::post,
};
use serde_json::{Value, json};

use super::{
    ADA, APP_TOKEN, BOT_TOKEN, EVE, GENERAL, start,
    suite::{self, Platform},
    tokens,
};

#[test]
fn bolt_and_slack_sdk_read_write_change_answer_presses_and_commands_and_come_back() {
    judged_by(python("slack", "slack_bolt"), "slackbolt_judge.py", false);
}

#[test]
fn slacks_client_of_socket_mode_takes_envelopes_late_and_comes_back() {
    judged_by(node("@slack/socket-mode"), "slacksocket_judge.mjs", true);
}

/// A client comes, and does what its script says when it is spoken to.
fn judged_by(judge: Option<Command>, script: &str, takes_late: bool) {
    let Some(mut judge) = judge else { return };
    let fake = Fake::start();
    let script = format!("{}/tests/foreign/{script}", env!("CARGO_MANIFEST_DIR"));
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut client = judge
        .args([&script, &fake.base, APP_TOKEN, BOT_TOKEN])
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
        world.places[GENERAL]
            .messages
            .values()
            .any(|message| message["text"] == text && message["user"] == "U900")
    };
    wait("ready", &|world| says(world, "ready") && !world.sockets.is_empty());
    let _ = fake.say(GENERAL, ADA, "<@U900> hello");
    wait("answered", &|world| says(world, "answer to Ada, changed"));
    let card = fake.said(GENERAL).into_iter().find(|message| message["text"] == "card").unwrap();
    let envelope = fake.press(GENERAL, card["ts"].as_str().unwrap(), "yes", ADA);
    wait("pressed", &|world| world.whispers == [(ADA.to_owned(), "only you".to_owned())]);
    wait("confirmed", &|world| {
        let plain = |payload: &Value| payload.is_null() || *payload == json!({});
        world.taken.iter().any(|(of, payload)| *of == envelope && plain(payload))
    });
    let envelope = fake.command(GENERAL, "/g2", "stop", EVE);
    wait("commanded", &|world| {
        let words = world.taken.iter().find(|(of, _)| *of == envelope).map(|(_, payload)| payload);
        words.is_some_and(|words| words["text"] == "done: stop")
    });
    if takes_late {
        let _ = fake.say(GENERAL, ADA, "once more");
        wait("a first time", &|world| world.envelopes.len() == 1);
        fake.world().again(None);
        wait("a second time", &|world| says(world, "taken the second time"));
    }
    fake.warn();
    wait("another socket", &|world| world.opened >= 2);
    fake.close_oldest();
    let _ = fake.say(GENERAL, ADA, "while you were away");
    wait("heard", &|world| says(world, "heard: while you were away"));
    wait("all is taken", &|world| world.envelopes.is_empty());
    let _ = fake.say(GENERAL, ADA, "bye");
    assert!(client.wait().unwrap().success(), "{}", said());
}

#[test]
fn the_adapter_does_all_on_our_own_server() {
    let fake = Fake::start();
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    adapter.ready();
    let hears = |text: &str| drop(fake.say(GENERAL, ADA, text));
    suite::does_all(Platform { adapter, chat: "slack:C700", hears: &hears, forgets: false });
}

/// A server of others, until it is dropped.
struct Emulate(Child);

impl Drop for Emulate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_adapter_does_all_on_a_web_api_that_others_wrote() {
    let Some(mut emulate) = node("emulate") else { return };
    let fake = Fake::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/emulate_slack.mjs");
    let ada_token = "xoxp-of-ada";
    emulate.args([script, &fake.base, BOT_TOKEN, ada_token]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = Emulate(emulate.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find_map(|line| serde_json::from_str::<Value>(&line).ok()).unwrap();
    let base = said["base"].as_str().unwrap().to_owned();
    fake.world().beyond = Some(base.clone());
    let ask = |method: &str, token: &str, given: Value| {
        let answer =
            post(&base, &format!("/api/{method}"), &format!("authorization: Bearer {token}\r\n"), &given);
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer
    };
    let me = ask("auth.test", BOT_TOKEN, json!({}))["user_id"].clone();
    let channels = ask("conversations.list", BOT_TOKEN, json!({}))["channels"].clone();
    let channel = channels.as_array().unwrap().iter().find(|one| one["name"] == "plans").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let team = ask("auth.test", BOT_TOKEN, json!({}))["team_id"].clone();
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    let hello = adapter.hello();
    assert_eq!(json!(hello.myself.id), me);
    adapter.ready();
    // It says it there, and the bridge tells what came of it.
    let hears = |text: &str| {
        let said = ask("chat.postMessage", ada_token, json!({"channel": channel, "text": text}));
        let mut event = said["message"].clone();
        event["channel"] = channel.as_str().into();
        fake.world().envelope(
            "events_api",
            json!({"type": "event_callback", "team_id": team, "event_id": "Ev1", "event": event}),
        );
    };
    let chat = &format!("slack:{channel}");
    suite::does_all(Platform { adapter, chat, hears: &hears, forgets: false });
    let asked = fake.world().asked.clone();
    for method in [
        "chat.postMessage",
        "chat.update",
        "chat.delete",
        "reactions.add",
        "files.completeUploadExternal",
        "users.info",
        "conversations.info",
    ] {
        assert!(asked.iter().any(|path| path.ends_with(method)), "{method}");
    }
}
