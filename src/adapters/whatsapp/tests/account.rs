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
