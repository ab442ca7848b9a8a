//! The mail adapter against servers of the tests' own (here), and against Dovecot and Postfix (`foreign.rs`).
#![expect(clippy::disallowed_methods, reason = "tests look at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod account;
mod foreign;
mod incoming;
mod kills;
mod outgoing;
mod suite;

use std::collections::BTreeMap;

use channel_protocol::{EventKind, Light, State, Up};
use g2_fakes::{
    adapter::Adapter,
    mail::{Fake, PASSWORD, SERVER, USER},
};
use serde_json::{Value, json};

const ADA: &str = "ada@example.org";

fn start_with(fake: &Fake, more: &Value, cursor: &BTreeMap<String, String>) -> Adapter {
    let (imap, smtp) = fake.places();
    let mut config = json!({"token": PASSWORD, "user": USER, "imap": imap, "smtp": smtp, "authserv": SERVER,
        "sure_after_s": 0});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let account = json!({"instance": "mail", "prefix": "mail", "config": config, "cursor": cursor});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

/// Waits until all that came before is told; returns the place in the mailbox.
fn ready(adapter: &mut Adapter, mut cursor: BTreeMap<String, String>) -> BTreeMap<String, String> {
    loop {
        match adapter.line() {
            Up::State(State { inbound: Light::Ok, .. }) => return cursor,
            Up::State(state) => assert_ne!(state.transport, Light::Refused, "{state:?}"),
            Up::Event(event) => {
                assert_eq!(event.kind, EventKind::Nothing, "{event:?}");
                cursor.extend(event.cursor);
                adapter.took(event.n);
            }
            _ => {}
        }
    }
}

/// Servers, and the adapter of a new account on them, with its place in the mailbox.
fn connected() -> (Fake, Adapter, BTreeMap<String, String>) {
    connected_with(&json!({}))
}

fn connected_with(more: &Value) -> (Fake, Adapter, BTreeMap<String, String>) {
    let fake = Fake::start();
    let mut adapter = start_with(&fake, more, &BTreeMap::new());
    let cursor = ready(&mut adapter, BTreeMap::new());
    (fake, adapter, cursor)
}

fn send(key: &str, chat: &str, thread: &str, text: &str) -> Value {
    json!({"op": "send", "r": 1, "key": key, "chat": chat, "thread": thread, "text": text})
}
