//! Files beside messages, and beside what is said.

use ipc_handlers::file::MediaKind;

use g2::{
    domain::{
        host::prune::{DAY_MS, History, Horizon, Keep},
        platforms::attachments::{Attachment, MOST},
    },
    store::{Accepted, Which},
};

use super::*;

const CHAT: &str = "local:family";

fn file(n: usize) -> Attachment {
    Attachment {
        name: format!("{n}.png"),
        kind: MediaKind::Image,
        mime: "image/png".into(),
        size: 7,
        digest: Some([0x0a; 32]),
        ..Attachment::default()
    }
}

/// Takes a message in with this number of files.
async fn with_files(store: &Store, key: &str, count: usize) -> Accepted {
    let inbound = Inbound {
        chat_jid: CHAT.into(),
        replay_key: key.into(),
        sender: "local:me".into(),
        text: key.into(),
        attachments: (1..=count).map(file).collect(),
        ..Inbound::default()
    };
    store.accept(inbound, NOW).await.unwrap()
}

#[tokio::test]
async fn the_files_of_a_message_come_with_it_once_and_in_order() {
    let world = world().await;
    let store = &world.store;
    let first = with_files(store, "two", 2).await;
    assert_eq!(with_files(store, "two", 3).await.seq, first.seq, "the same event again");
    with_files(store, "none", 0).await;
    assert_eq!(store.attachments(first.seq).await.unwrap(), [file(1), file(2)]);
    let listed = store.messages(Some(CHAT), None).await.unwrap();
    let files: Vec<usize> = listed.iter().map(|message| message.attachments.len()).collect();
    assert_eq!(files, [2, 0]);
    assert_eq!(store.unanswered(&Which::default()).unwrap()[0].attachments, [file(1), file(2)]);
    let shown = serde_json::to_value(&listed).unwrap();
    let png = serde_json::json!(
        {"name": "1.png", "kind": "image", "type": "image/png", "size": 7, "digest": "0a".repeat(32)}
    );
    assert_eq!(shown[0]["attachments"][0], png);
    assert_eq!(shown[1].get("attachments"), None, "no empty list is shown");
}

#[tokio::test]
async fn of_more_files_than_there_is_room_for_the_first_are_kept_and_that_is_told() {
    let world = world().await;
    let accepted = with_files(&world.store, "many", MOST + 2).await;
    assert_eq!(world.store.attachments(accepted.seq).await.unwrap().len(), MOST);
    let note = accepted.note.unwrap_or_default();
    assert_eq!(note, "2 of its 34 files are left out: their rows have no room");
}

#[tokio::test]
async fn files_go_with_the_row_that_they_are_beside() {
    let world = world().await;
    let store = &world.store;
    let old = with_files(store, "old", 2).await.seq;
    store.tell(CHAT.into(), "hello".into(), "test".into(), NOW).await.unwrap();
    let raw = rusqlite::Connection::open(store.path()).unwrap();
    let beside = "INSERT INTO attachments (outbox_id, n, name, kind, type, claimed, size, digest, chat_jid, at) VALUES (1, 1, '1.png', 'image', 'image/png', 0, 7, ?1, 'local:family', 1)";
    raw.execute(beside, [[0x0a_u8; 32]]).unwrap();
    assert_eq!(store.attachments_said(1).await.unwrap(), [file(1)]);
    assert_eq!(store.outbox(None, None).await.unwrap()[0].attachments, [file(1)]);
    assert_eq!(store.outbox_row(1).await.unwrap().unwrap().attachments, [file(1)]);

    let judged = store.unjudged(10).await.unwrap().into_iter().map(|row| Judged {
        n: row.n,
        verdict: EngageVerdict::Ignore,
        rule: Rule::Pattern,
        reason: "test".into(),
        sticks: false,
        refused: None,
    });
    store.judge(judged.collect(), NOW).await.unwrap();
    let last = with_files(store, "last", 1).await.seq;
    let NextDelivery::Now(row) = store.begin_delivery(CHAT, NOW).await.unwrap() else { panic!() };
    store.delivered(row.id, 1, "p1".into(), NOW).await.unwrap();
    let keep = Keep {
        horizon: Horizon::new(NOW.plus_ms(30 * DAY_MS), 30, 0),
        claimed: Vec::new(),
        origins: Vec::new(),
        groups: std::collections::BTreeMap::new(),
        working: Vec::new(),
    };
    store.remove_history(History::Messages, keep.clone(), vec![old]).await.unwrap();
    store.remove_history(History::Outbox, keep, vec![row.id]).await.unwrap();
    let left: Vec<i64> = raw
        .prepare("SELECT seq FROM attachments")
        .unwrap()
        .query_map([], |r| r.get("seq"))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    assert_eq!(left, [last]);
}
