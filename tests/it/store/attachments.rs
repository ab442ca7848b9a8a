//! Files beside messages, and beside what is said.

use std::collections::BTreeMap;

use ipc_handlers::file::MediaKind;
use proptest::prelude::*;

use g2::{
    domain::{
        kept::prune::{DAY_MS, History, Horizon, Keep},
        platforms::attachments::{Attachment, BLOCK, MOST, Todo},
    },
    store::{Accepted, FilesWanted, Which},
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
        read_as: row.read_as(),
        verdict: EngageVerdict::Ignore,
        rule: Rule::Pattern,
        reason: "test".into(),
        sticks: false,
        refused: None,
        answers: None,
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

/// What happens to the files of two chats.
#[derive(Clone, Debug)]
enum Step {
    /// Files of these sizes come in, the last one to be fetched, or go out.
    Come(usize, Vec<u64>),
    Go(usize, u64),
    /// A file that was told of is fetched, and has this size.
    Fetched(u64),
    /// One message goes, with its files.
    Remove(usize),
    /// The clock goes on by this, ms, or is set back.
    Wait(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![0..9_000_u64, 1_000_000..2_000_000_u64];
    prop_oneof![
        4 => (0..2_usize, prop::collection::vec(size(), 1..4)).prop_map(|(chat, sizes)| Step::Come(chat, sizes)),
        2 => (0..2_usize, size()).prop_map(|(chat, size)| Step::Go(chat, size)),
        2 => size().prop_map(Step::Fetched),
        1 => (0..20_usize).prop_map(Step::Remove),
        4 => prop_oneof![0..60_000_i64, 60_000..4_000_000_i64].prop_map(Step::Wait),
        1 => (-5_000_000..0_i64).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

/// A file as it is to be counted.
struct Counts {
    chat: usize,
    /// The message or text that it is beside, negative for a text.
    beside: i64,
    minute: i64,
    size: u64,
}

/// The files of messages and texts, counted one by one.
#[derive(Default)]
struct Model(Vec<Counts>);

impl Model {
    fn add(&mut self, chat: usize, beside: i64, now: Time, size: u64) {
        self.0.push(Counts { chat, beside, minute: now.0.div_euclid(60_000), size });
    }

    fn of(&self, chat: usize, now: Time) -> u64 {
        let from = now.0.div_euclid(60_000) - 60;
        let counted = self.0.iter().filter(|file| file.chat == chat && file.minute >= from);
        counted.map(|file| file.size.max(BLOCK)).sum()
    }
}

async fn counts(steps: Vec<Step>) {
    let mut world = world().await;
    let chats = ["local:main", CHAT];
    let (mut model, mut now) = (Model::default(), NOW);
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Come(chat, sizes) => {
                let mut attachments: Vec<Attachment> =
                    sizes.iter().map(|size| Attachment { size: *size, ..file(1) }).collect();
                if let Some(last) = attachments.last_mut() {
                    last.digest = None;
                    last.problem = Some("not fetched yet".into());
                    last.todo = Some(Todo::Fetch("it".into()));
                }
                let inbound = Inbound {
                    chat_jid: chats[chat].into(),
                    replay_key: n.to_string(),
                    sender: "local:me".into(),
                    attachments,
                    ..Inbound::default()
                };
                let seq = world.store.accept(inbound, now).await.unwrap().seq;
                world.store.want_files(vec![FilesWanted { seq, until: now, held: None }]).await.unwrap();
                sizes.iter().for_each(|size| model.add(chat, seq, now, *size));
            }
            Step::Go(chat, size) => {
                let json = serde_json::json!({"type": "media", "chatJid": chats[chat], "filePath": "a", "mediaType": "image"});
                let mut said = command("main", i64::try_from(n).unwrap() + 1, json.to_string().as_bytes());
                said.files = Ok(vec![Attachment { size, ..file(1) }]);
                let settled = world.store.settle(said, Zones::utc(), now).await.unwrap();
                assert_eq!(settled.receipt.reason, None);
                let id = world.store.outbox(None, Some(1)).await.unwrap()[0].id;
                model.add(chat, -id, now, size);
            }
            Step::Fetched(size) => {
                let Some(work) = world.store.file_work(1).await.unwrap().into_iter().next() else { continue };
                let fetched = Attachment { size, ..file(1) };
                world.store.file_fetched(work.id, fetched, false).await.unwrap();
                if let Some(told) = model.0.iter_mut().rfind(|file| file.beside == work.seq) {
                    told.size = size;
                }
            }
            Step::Remove(nth) => {
                let beside: BTreeMap<i64, ()> = model.0.iter().map(|file| (file.beside, ())).collect();
                let Some(row) = beside.into_keys().nth(nth) else { continue };
                // As pruning does, which has a say of its own in what goes.
                let raw = rusqlite::Connection::open(world.store.path()).unwrap();
                raw.execute("DELETE FROM attachments WHERE seq = ?1 OR outbox_id = -?1", [row]).unwrap();
                model.0.retain(|file| file.beside != row);
            }
            Step::Wait(ms) => now = now.plus_ms(ms),
            Step::Restart => world.store = Store::open(&world._dir.path().join("g2.sqlite")).unwrap(),
        }
        for (chat, jid) in chats.iter().enumerate() {
            let used = world.store.media_use(jid, now).await.unwrap().chat_hour;
            assert_eq!(used, model.of(chat, now), "{jid} after step {n}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn the_bytes_that_a_chat_had_in_an_hour_are_those_of_its_files(steps in prop::collection::vec(step(), 1..60)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(counts(steps));
    }
}

#[tokio::test]
async fn however_many_minutes_had_files_and_however_large_they_are_said_to_be_a_chat_has_a_bounded_sum() {
    let world = world().await;
    let come = async |n: i64, minute: i64, size: u64| {
        let attachments = vec![Attachment { size, ..file(1) }];
        let inbound = Inbound {
            chat_jid: CHAT.into(),
            replay_key: n.to_string(),
            sender: "local:me".into(),
            attachments,
            ..Inbound::default()
        };
        world.store.accept(inbound, Time(NOW.0 + minute * 60_000)).await.unwrap();
    };
    let used = async |minute: i64| {
        world.store.media_use(CHAT, Time(NOW.0 + minute * 60_000)).await.unwrap().chat_hour
    };
    for n in 0..200 {
        come(n, n, 5000).await;
    }
    assert_eq!(used(199).await, 61 * 5000);
    let raw = rusqlite::Connection::open(world.store.path()).unwrap();
    let rows: i64 = raw.query_row("SELECT count(*) FROM media_minutes", [], |r| r.get(0)).unwrap();
    assert_eq!(rows, 128);
    // A clock that is wrong for a while takes nothing away, before or behind.
    come(200, 199 - 70, 5000).await;
    come(201, 199 + 1000, 5000).await;
    assert_eq!(used(199).await, 62 * 5000);
    for n in 300..312 {
        come(n, 199, 1 << 60).await;
    }
    assert_eq!(used(199).await, 62 * 5000 + (12 << 40));
}

#[tokio::test]
async fn a_chat_whose_files_are_removed_has_no_rows_of_their_minutes() {
    let world = world().await;
    with_files(&world.store, "a", 2).await;
    let raw = rusqlite::Connection::open(world.store.path()).unwrap();
    let rows = || raw.query_row("SELECT count(*) FROM media_minutes", [], |r| r.get::<_, i64>(0)).unwrap();
    assert_eq!(rows(), 1);
    raw.execute("DELETE FROM attachments", []).unwrap();
    assert_eq!(rows(), 0);
}
