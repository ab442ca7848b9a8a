//! What people ask does not take longer in a larger store either, where the answer is no longer.

use std::collections::BTreeMap;

use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use rusqlite::Connection;

use super::{
    growth::{FEW, MANY, history, takes_no_longer},
    heard_with_steps,
};
use crate::{
    domain::rows::Inbound,
    store::{IpcFilter, LanesShown, NewGroup, NewWiring, Store, Which},
};

/// After all that is old.
const NOW: Time = Time(1_800_000_000_000);

/// Asks for a page of each list, and for the story of one row; returns the steps of each statement.
async fn asked(rows: i64) -> BTreeMap<String, i64> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let main = Folder::parse("main").unwrap();
    let group = NewGroup { folder: main.clone(), name: "Main".into(), is_main: true, trigger: "@G2".into() };
    let wiring = NewWiring {
        group: main.clone(),
        chat_jid: "local:main".into(),
        engage_mode: EngageMode::Pattern,
        engage_pattern: Some(".".into()),
        sender_scope: SenderScope::All,
        ignored_message_policy: IgnoredMessages::Drop,
    };
    store.add_group(group, vec![wiring], NOW).await.unwrap();
    history(&Connection::open(store.path()).unwrap(), rows);
    let new = Inbound {
        chat_jid: "local:main".into(),
        replay_key: "new".into(),
        id: "new".into(),
        sender: "local:me".into(),
        sender_name: "me".into(),
        text: "hello".into(),
        ..Inbound::default()
    };
    store.accept(new, NOW).await.unwrap();
    heard_with_steps(async {
        for seq in [1, -1, -5] {
            assert!(store.why(seq, NOW).unwrap().is_some(), "{seq}");
        }
        let page = Which { limit: Some(20), ..Which::default() };
        let of_chat = Which { chat: Some("local:main".into()), ..page.clone() };
        let of_group = Which { group: Some(main.clone()), ..page.clone() };
        assert_eq!(store.messages_of(page.clone()).await.unwrap().len(), 20);
        assert_eq!(store.messages_of(of_chat.clone()).await.unwrap().len(), 20);
        assert_eq!(store.runs_of(&page).unwrap().len(), 20);
        assert_eq!(store.runs_of(&of_group).unwrap().len(), 20);
        assert!(store.runs_of(&Which { state: Some("failed"), ..page.clone() }).unwrap().is_empty());
        assert!(store.runs_of(&Which { state: Some("running"), ..page.clone() }).unwrap().is_empty());
        let since = Which { since: Some(NOW.plus_ms(-900_000)), limit: None, ..page.clone() };
        assert_eq!(store.messages_of(since.clone()).await.unwrap().len(), 1);
        assert!(store.runs_of(&since).unwrap().is_empty());
        assert!(store.outbox_of(since).await.unwrap().is_empty());
        for state in ["pending", "failed"] {
            let unsent = Which { state: Some(state), ..page.clone() };
            assert!(store.outbox_of(unsent).await.unwrap().is_empty());
        }
        assert_eq!(store.outbox_of(page).await.unwrap().len(), 20);
        assert_eq!(store.outbox_of(of_chat).await.unwrap().len(), 20);
        let newest = IpcFilter { limit: Some(20), from: i64::MIN, ..IpcFilter::default() };
        assert_eq!(store.ipc_rows(&newest, NOW).unwrap().len(), 20);
        let lately = IpcFilter { since: Some(NOW.plus_ms(-900_000)), ..newest };
        assert!(store.ipc_rows(&lately, NOW).unwrap().is_empty());
        assert_eq!(store.commands_called("old 7", NOW).unwrap().len(), 1);
        assert!(store.story(-7, NOW).unwrap().is_some());
        store.activity(None, (NOW.plus_ms(-900_000), Time(i64::MAX)), Some(20)).unwrap();
        store.health(NOW).unwrap();
        store.ledger(NOW).unwrap();
        store.figures(NOW, |_| false).unwrap();
        store.waiters(20, NOW).unwrap();
        store.messages_waiting().unwrap();
        store.shown_lanes(None, LanesShown::Busy, None, NOW).unwrap();
        store.conversation("local:main", "me", 20, 20).await.unwrap();
        store.largest_groups(5).unwrap();
        store.newest().unwrap();
    })
    .await
}

#[tokio::test]
async fn a_page_of_a_list_and_the_story_of_a_row_take_no_longer_in_a_larger_store() {
    let (few, many) = (asked(FEW).await, asked(MANY).await);
    takes_no_longer(&few, &many);
}
