//! Texts go out in order within a chat, and no chat waits for another, whatever its platform does.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::domain::states::CommandOutcome;
use g2::domain::states::DeliveryStatus;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI32, Ordering},
};

use futures_util::future::BoxFuture;
use g2::{
    channels::{Channel, Channels},
    domain::{
        platforms::{
            addresses::Platform,
            channels::{NotSent, Outcome, Part, Scope, Traits, Unsent},
        },
        rows::UnknownDeliveries,
        time::zone::Zones,
    },
    engine::{Drive, Loops},
    loops::deliver::{Deliver, Post},
    store::{Body, CommandFile, NewGroup, Proof, Store, Transcripts, digest},
};
use ipc_handlers::{Folder, Time};
use serde_json::json;
use tokio::sync::Semaphore;

/// A platform whose chat `fake:slow` takes one message for each permit.
struct Fake {
    heard: Arc<Mutex<Vec<String>>>,
    slow: Arc<Semaphore>,
    /// How often the text [`FAULT`] has a panic come over it.
    faults: AtomicI32,
}

const FAULT: &str = "a fault";
/// A text for which the platform asks to wait for an hour.
const BUSY: &str = "not now";

impl Channel for Fake {
    fn platform(&self) -> &Platform {
        static FAKE: Platform = Platform::named("fake");
        &FAKE
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }

    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if part.text.text == FAULT && self.faults.fetch_sub(1, Ordering::Relaxed) > 0 {
                panic!("a fault of our own");
            }
            if part.text.text == BUSY {
                self.heard.lock().unwrap().push(format!("{} {BUSY}", part.of.chat_jid));
                return Err(Unsent::Not(NotSent::Busy { after_ms: 3_600_000, scope: Scope::default() }));
            }
            if part.of.chat_jid == "fake:slow" {
                self.slow.acquire().await.unwrap().forget();
            }
            self.heard.lock().unwrap().push(format!("{} {}", part.of.chat_jid, part.text.text));
            Ok(vec![part.key()])
        })
    }
}

struct World {
    _dir: tempfile::TempDir,
    post: Post,
    loops: Arc<Loops>,
    heard: Arc<Mutex<Vec<String>>>,
    slow: Arc<Semaphore>,
    claims: i64,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let folder = Folder::parse("main").unwrap();
        let group = NewGroup { folder, name: "Main".into(), is_main: true, trigger: "@G2".into() };
        store.add_group(group, Vec::new(), Time(0)).await.unwrap();
        let (heard, slow) = (Arc::default(), Arc::new(Semaphore::new(0)));
        let fake = Fake { heard: Arc::clone(&heard), slow: Arc::clone(&slow), faults: AtomicI32::new(1) };
        let channels = Arc::new(Channels::new(vec![Box::new(fake)]));
        let world = g2::system::world::World::real();
        let loops = Arc::new(Loops::new(world.clone()));
        let post = Post {
            world,
            store,
            channels,
            unknown: UnknownDeliveries::Resend,
            stop: Default::default(),
            waits: Default::default(),
        };
        Self { _dir: dir, post, loops, heard, slow, claims: 0 }
    }

    /// Delivers until the stop.
    fn deliver(&self) -> impl Future<Output = ()> + use<> {
        let (store, stop) = (self.post.store.clone(), self.post.stop.clone());
        let drive = Drive { store, loops: Arc::clone(&self.loops), stop };
        drive.run(Deliver::new(self.post.clone(), true))
    }

    /// Has something said.
    async fn say(&mut self, chat: &str, text: &str) {
        self.claims += 1;
        let json = json!({"type": "send_message", "chatJid": chat, "text": text});
        let file = CommandFile {
            claim: self.claims,
            group: Folder::parse("main").unwrap(),
            box_name: "messages".into(),
            name: "x.json".into(),
            origin: self.claims.to_le_bytes().to_vec(),
            run: None,
            written: None,
            taken: None,
            proof: Proof::None,
            digest: digest(json.to_string().as_bytes()),
            body: Ok(Arc::new(Body::of(json.to_string().as_bytes()))),
            refused: None,
            transcripts: Transcripts::new(),
            files: Ok(Vec::new()),
            found: None,
        };
        let settled = self.post.store.settle(file, Zones::utc(), Time(0)).await.unwrap();
        assert_eq!(settled.receipt.outcome, CommandOutcome::Applied);
    }

    /// Waits until this many of a chat's rows are said.
    async fn said(&self, chat: &str, count: usize) {
        let mut bell = self.post.store.bell();
        let said = async || {
            let rows = self.post.store.outbox(Some(chat), None).await.unwrap();
            rows.iter().filter(|row| row.status == DeliveryStatus::Sent).count()
        };
        let waiting = async {
            while said().await < count {
                bell.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(crate::support::DEADLINE, waiting).await.is_err() {
            panic!("{chat}: {}", said().await);
        }
    }

    fn heard(&self, chat: &str) -> Vec<String> {
        self.heard
            .lock()
            .unwrap()
            .iter()
            .filter_map(|line| line.strip_prefix(chat))
            .map(str::to_owned)
            .collect()
    }
}

#[tokio::test]
async fn a_text_over_which_we_panic_is_said_in_its_turn_after_a_rest() {
    let mut world = World::new().await;
    for text in ["first", FAULT, "last"] {
        world.say("fake:a", text).await;
    }
    let delivering = tokio::spawn(world.deliver());
    world.said("fake:a", 3).await;
    assert_eq!(world.heard("fake:a "), ["first", FAULT, "last"]);
    assert_eq!(world.loops.problems(), []);
    world.post.stop.cancel();
    delivering.await.unwrap();
}

#[tokio::test]
async fn a_text_whose_delivery_we_fail_to_record_is_not_said_without_end_and_status_names_its_chat() {
    let mut world = World::new().await;
    let outside = rusqlite::Connection::open(world._dir.path().join("g2.sqlite")).unwrap();
    outside
        .execute_batch(
            "CREATE TRIGGER never_sent BEFORE UPDATE OF status ON outbox WHEN new.status = 'sent' AND new.chat_jid = 'fake:a'
             BEGIN SELECT RAISE(ABORT, 'a fault of ours'); END",
        )
        .unwrap();
    world.say("fake:a", "first").await;
    world.say("fake:b", "beside").await;
    let delivering = tokio::spawn(world.deliver());
    world.said("fake:b", 1).await;
    let troubled = async {
        while world.loops.problems().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, troubled).await.unwrap();
    outside.execute_batch("DROP TRIGGER never_sent").unwrap();
    world.said("fake:a", 1).await;
    // Each time counts as a try, with the rest after it.
    let row = world.post.store.outbox(Some("fake:a"), None).await.unwrap().remove(0);
    assert!(row.attempts > 1, "{row:?}");
    // The row is written down before the loop hears of it.
    let mended = async {
        while !world.loops.problems().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, mended).await.unwrap();
    world.post.stop.cancel();
    delivering.await.unwrap();
}

#[tokio::test]
async fn a_chat_whose_platform_takes_its_time_delays_no_other() {
    let mut world = World::new().await;
    let delivering = tokio::spawn(world.deliver());
    for n in 0..5 {
        world.say("fake:slow", &n.to_string()).await;
    }
    for n in 0..50 {
        world.say(&format!("fake:quick{}", n % 5), &n.to_string()).await;
    }
    // The slow one has taken nothing yet.
    for chat in 0..5 {
        world.said(&format!("fake:quick{chat}"), 10).await;
        let expected: Vec<String> = (0..10).map(|n| format!(" {}", n * 5 + chat)).collect();
        assert_eq!(world.heard(&format!("fake:quick{chat}")), expected);
    }
    assert!(world.heard("fake:slow").is_empty());
    // While it goes on taking its time, what comes later for others goes out too, and its own in order.
    world.slow.add_permits(2);
    world.said("fake:slow", 2).await;
    world.say("fake:quick0", "later").await;
    world.said("fake:quick0", 11).await;
    assert_eq!(world.heard("fake:slow"), [" 0", " 1"]);
    world.slow.add_permits(3);
    world.said("fake:slow", 5).await;
    assert_eq!(world.heard("fake:slow"), [" 0", " 1", " 2", " 3", " 4"]);
    world.post.stop.cancel();
    delivering.await.unwrap();
}

#[tokio::test]
async fn a_platform_that_asks_to_wait_is_left_alone_though_that_cannot_be_written_down() {
    let mut world = World::new().await;
    let other = rusqlite::Connection::open(world._dir.path().join("g2.sqlite")).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE UPDATE OF next_try_at ON outbox WHEN new.next_try_at IS NOT NULL
             BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .unwrap();
    let running = tokio::spawn(world.deliver());
    world.say("fake:busy", BUSY).await;
    let asked = async {
        while world.post.waits.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, asked).await.unwrap();
    other.execute_batch("DROP TRIGGER full").unwrap();
    // Each has the chat looked at again.
    for text in ["one", "two"] {
        world.say("fake:busy", text).await;
        world.say("fake:quick", text).await;
    }
    world.said("fake:quick", 2).await;
    assert_eq!(world.heard("fake:busy "), [BUSY]);
    world.post.stop.cancel();
    running.await.unwrap();
}
