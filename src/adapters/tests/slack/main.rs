//! The Slack adapter against a Slack of the tests' own, which Slack's own clients judge, and against one of others (`foreign.rs`).
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start programs and look at what was left"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod account;
mod foreign;
mod incoming;
mod kills;
mod missed;
mod outgoing;
#[path = "../suite/mod.rs"]
mod suite;
#[path = "../texts/mod.rs"]
mod texts;

use std::collections::BTreeMap;

use channel_protocol::Event;
use g2_fakes::{
    adapter::Adapter,
    slack::{
        Fake,
        world::{APP_TOKEN, BOT_TOKEN},
    },
};
use serde_json::{Value, json};

const GENERAL: &str = "C700";
const RANDOM: &str = "C701";
const ADA: &str = "U100";
const EVE: &str = "U101";

/// Both tokens, as a person gives them.
fn tokens() -> String {
    format!("{APP_TOKEN} {BOT_TOKEN}")
}

/// The adapter of an app, which goes on at a place in the history.
fn start(base: &str, token: &str, cursor: &BTreeMap<String, String>) -> Adapter {
    start_with(base, json!({"token": token}), cursor)
}

fn start_with(base: &str, config: Value, cursor: &BTreeMap<String, String>) -> Adapter {
    let account =
        json!({"instance": "slack", "prefix": "slack", "config": config, "cursor": cursor, "upstream": base});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

/// A Slack, and the adapter connected to it.
fn connected() -> (Fake, Adapter) {
    let fake = Fake::start();
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    adapter.ready();
    (fake, adapter)
}

fn texts(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| &event.text[..]).collect()
}

fn send(key: &str, chat: &str, text: &str) -> Value {
    json!({"op": "send", "r": 1, "key": key, "chat": chat, "text": text})
}

/// How often a method was asked.
fn asked(fake: &Fake, method: &str) -> usize {
    fake.world().asked.iter().filter(|asked| asked.ends_with(method)).count()
}
