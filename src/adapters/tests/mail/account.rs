//! Logging in, and what an account says of itself.

use channel_protocol::{Can, Format, SentTwice};

use super::*;

#[test]
fn an_account_says_what_it_can() {
    let fake = Fake::start();
    let mut adapter = start_with(&fake, &json!({"name": "G2"}), &BTreeMap::new());
    let hello = adapter.hello();
    assert_eq!((&hello.myself.id[..], &hello.myself.name[..]), (USER, "G2"));
    assert_eq!((hello.sent_twice, hello.text.format), (SentTwice::Readback, Format::Matrix));
    assert!(hello.can.contains(&Can::Threads) && hello.addresses.is_some_and(|told| told.direct == ".*"));
}

#[test]
fn a_wrong_password_is_refused_with_a_hint_and_one_that_held_is_doubted_first() {
    let fake = Fake::start();
    let state = start_with(&fake, &json!({"token": "wrong"}), &BTreeMap::new()).state();
    assert_eq!((state.transport, state.outbound), (Light::Refused, Light::Refused));
    assert!(state.why.contains("imap") && state.hint.contains("app password"), "{state:?}");
    assert!(!format!("{state:?}").contains("wrong"));
    let mut adapter =
        start_with(&fake, &json!({"token": "wrong"}), &BTreeMap::from([("uid".into(), "7:1".into())]));
    assert_eq!((adapter.state().transport, adapter.state().transport), (Light::Waiting, Light::Refused));
    assert_eq!(adapter.exit(), Some(1));
    // The same while it runs.
    let (fake, mut adapter, _) = connected();
    fake.world().password = "another".into();
    fake.hang_up();
    while adapter.state().transport != Light::Refused {}
    assert_eq!(adapter.exit(), Some(1));
}

#[test]
fn what_is_wrong_in_the_settings_is_named() {
    let fake = Fake::start();
    for (more, part) in [
        (json!({"imap": "imap://mail.example.org"}), "without TLS"),
        (json!({"smtp": ""}), "smtp is missing"),
        (json!({"token": ""}), "password"),
        (json!({"user": "agent"}), "address"),
    ] {
        let state = start_with(&fake, &more, &BTreeMap::new()).state();
        assert_eq!(state.transport, Light::Refused);
        assert!(state.why.contains(part) && state.hint.contains("docs/mail.md"), "{state:?}");
    }
}

#[test]
fn an_account_that_trusts_no_server_says_so_and_a_way_out_that_fails_is_a_light_of_its_own() {
    let fake = Fake::start();
    let mut adapter = start_with(&fake, &json!({"authserv": []}), &BTreeMap::new());
    let state = loop {
        match adapter.line() {
            Up::State(state) if state.inbound == Light::Ok => break state,
            Up::Event(event) => adapter.took(event.n),
            _ => {}
        }
    };
    assert!(state.why.contains("stranger") && !state.hint.is_empty(), "{state:?}");
    let mut adapter = start_with(&fake, &json!({"smtp": "smtp://127.0.0.1:1"}), &BTreeMap::new());
    let state = loop {
        match adapter.line() {
            Up::State(state) if state.inbound == Light::Ok => break state,
            Up::Event(event) => adapter.took(event.n),
            _ => {}
        }
    };
    // The host goes on sending, and so finds out when the way is there again.
    assert!(state.outbound == Light::Waiting && state.why.contains("smtp"), "{state:?}");
}
