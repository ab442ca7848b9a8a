//! The Signal adapter against a signal-cli of the tests' own, against one of others, and against signal-cli itself (`foreign.rs`).
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
mod outgoing;
#[path = "../suite/mod.rs"]
mod suite;

use std::collections::BTreeMap;

use g2_fakes::{
    adapter::Adapter,
    signal::{ADA, EVE, Fake, GROUP, US},
};
use serde_json::{Value, json};

const ADA_CHAT: &str = "signal:a0000000-0000-4000-8000-000000000100";
const GROUP_CHAT: &str = "signal:group.-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s";

fn start_with(base: &str, config: Value) -> Adapter {
    let account =
        json!({"instance": "signal", "prefix": "signal", "config": config, "cursor": {}, "upstream": base});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

/// A signal-cli, and the adapter connected to it.
fn connected_with(more: Value) -> (Fake, Adapter) {
    let fake = Fake::start();
    let mut config = json!({"account": US});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut adapter = start_with(&fake.base, config);
    adapter.ready();
    (fake, adapter)
}

fn connected() -> (Fake, Adapter) {
    connected_with(json!({}))
}

fn send(key: &str, chat: &str, text: &str) -> Value {
    json!({"op": "send", "r": 1, "key": key, "chat": chat, "text": text})
}
