//! How an account is linked, comes back, and ends.

use channel_protocol::{Light, SentTwice};
use serde_json::json;

use crate::{daemon::Adapter, fake::Fake};

const EVE: &str = "492000000001";
const EVES: &str = "492000000001@s.whatsapp.net";

#[test]
fn an_account_is_linked_by_a_picture_and_both_sides_write() {
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    let mut adapter = Adapter::linked(&fake, json!({}));
    let id = fake.writes(EVE, "hello");
    let event = adapter.event();
    assert_eq!((&event.chat[..], &event.text[..], &event.id), (EVES, "hello", &id));
    assert_eq!((&event.from.id[..], &event.from.name[..], event.late), (EVES, "Eve", false));
    assert!(!fake.has_receipt(&id), "WhatsApp is told before the daemon has it");
    adapter.took(event.n);
    fake.until_received(&id);
    let done = adapter.sends(EVES, "a.1", json!({"text": "hi *Eve*"}));
    let read = fake.read(EVE);
    assert_eq!(read.message.conversation.as_deref(), Some("hi *Eve*"));
    assert_eq!(done.ids, Some(vec![read.id]));
}

#[test]
fn a_code_for_the_phone_is_asked_for_and_shown_beside_the_picture() {
    let fake = Fake::start();
    let mut adapter = Adapter::start(&fake, json!({"phone": "+49 170 1234567"}));
    let shown = [adapter.pair(), adapter.pair()];
    let code = shown.iter().find(|pair| pair.kind == "code").unwrap();
    assert!(code.data.len() == 9 && code.data.as_bytes()[4] == b'-' && !code.until.is_empty(), "{code:?}");
    assert_eq!(fake.codes(), 1);
    let state = adapter.state(Light::Waiting);
    assert!(state.why.contains("connected") || state.hint.contains("g2 channels pair whatsapp"), "{state:?}");
}

#[test]
fn what_the_account_can_do_is_told_with_how_its_addresses_read() {
    let fake = Fake::start();
    let mut adapter = Adapter::start(&fake, json!({"shared_as": "Andy"}));
    fake.scan(&adapter.pair().data);
    let hello = adapter.hello();
    assert_eq!((hello.sent_twice, &hello.myself.name[..]), (SentTwice::Never, "Andy"));
    assert!(hello.pace.chat_ms >= 4000, "the first week is slow");
    let addresses = hello.addresses.unwrap();
    assert!(addresses.endings.contains(&"@g.us".to_owned()) && addresses.direct.contains("lid"));
}

#[test]
fn a_wrong_table_is_refused_before_anything_is_asked() {
    let fake = Fake::start();
    let mut adapter = Adapter::start(&fake, json!({"phone": "0170"}));
    assert!(adapter.state(Light::Refused).why.contains("number with its country"));
    assert!(!adapter.ends());
    assert_eq!(fake.logins(), 0);
}

#[test]
fn a_later_life_logs_in_without_a_picture_and_what_came_meanwhile_is_late() {
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    let mut adapter = Adapter::linked(&fake, json!({}));
    let first = fake.writes(EVE, "one");
    adapter.stored();
    fake.until_received(&first);
    adapter.kill();
    let missed = fake.writes(EVE, "two");
    let mut adapter = adapter.again(&[EVES]);
    adapter.hello();
    let event = adapter.stored();
    assert_eq!((&event.text[..], &event.id, event.late), ("two", &missed, true));
    fake.until_received(&missed);
    adapter.sends(EVES, "a.1", json!({"text": "here again"}));
    assert_eq!(fake.read(EVE).message.conversation.as_deref(), Some("here again"));
}

#[test]
fn a_broken_connection_is_told_and_made_again() {
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    let mut adapter = Adapter::linked(&fake, json!({}));
    adapter.state(Light::Ok);
    fake.hangs_up();
    adapter.state(Light::Waiting);
    adapter.state(Light::Ok);
    fake.writes(EVE, "still here?");
    assert_eq!(adapter.stored().text, "still here?");
}

#[test]
fn an_account_that_the_phone_unlinks_is_refused_and_linked_anew_at_the_next_start() {
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    let mut adapter = Adapter::linked(&fake, json!({}));
    fake.unlinks();
    let state = adapter.state(Light::Refused);
    assert!(
        state.why.contains("unlinked") && state.hint.contains("g2 channels restart whatsapp"),
        "{state:?}"
    );
    assert!(!adapter.ends());
    assert!(adapter.dir().join("state/whatsapp.db.unlinked").exists());
    let mut adapter = adapter.again(&[EVES]);
    fake.scan(&adapter.pair().data);
    adapter.hello();
}

#[test]
fn a_login_that_another_program_uses_is_refused_and_kept() {
    let fake = Fake::start();
    let mut adapter = Adapter::linked(&fake, json!({}));
    fake.replaces();
    assert!(adapter.state(Light::Refused).why.contains("another program"));
    assert!(!adapter.ends());
    let mut adapter = adapter.again(&[]);
    adapter.hello();
}

#[test]
fn the_host_ends_it_in_order() {
    let fake = Fake::start();
    let mut adapter = Adapter::linked(&fake, json!({}));
    adapter.say(&json!({"op": "stop"}));
    assert!(adapter.ends());
}
