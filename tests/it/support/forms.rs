//! Accounts whose adapters have told how their addresses read.

use channel_protocol::Addresses;
use g2::domain::platforms::addresses::{Forms, Platform};

use super::Root;

/// Has a root's account on Telegram have told its addresses, though no adapter of it ever ran.
pub(crate) fn telegram_has_told(root: &Root) {
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store
        .execute("INSERT INTO account_addresses (channel, prefix, told, direct) VALUES ('telegram', 'tg', 1, '[0-9]+')", [])
        .unwrap();
}

/// One on Telegram: chats with positive numbers are a person's.
pub(crate) fn telegram() -> Platform {
    let told = Addresses { direct: "[0-9]+".into(), main_thread: "1".into(), ..Addresses::default() };
    Platform::new("telegram", "tg", Forms::told("telegram", &told).unwrap())
}
