//! The conformance suite of channels: whatever a platform does, nothing is lost, nothing is said twice where that can be known,
//! and what nobody can know is told. Each promise is tried on `local` and on a fake platform in a program of its own.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_types, reason = "a test asks where Python lies")]
#![expect(clippy::disallowed_methods, reason = "a test looks into an adapter's folders")]

use std::{path::PathBuf, sync::Arc, time::Duration};

use g2::{
    channels::{
        Channel, Channels,
        local::{Ask, Incoming, Local, Session, Told},
        remote::{Ground, Patience, Ready, Remote},
    },
    domain::{
        heard::engage::{EngageVerdict, Rule},
        platforms::{accounts::Account, addresses::Platform, channels::SentTwice},
        rows::{OutboxRow, UnknownDeliveries},
        states::{CommandOutcome, DeliveryStatus},
        time::zone::Zones,
    },
    engine::{Drive, Loops},
    loops::{
        accounts::Accounts,
        amends::Amends,
        deliver::{Deliver, Post},
    },
    store::{Asking, Body, CommandFile, Judged, NewGroup, NewWiring, Proof, Store, Transcripts, digest},
    system::media::Media,
};
use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::DEADLINE;

mod adapter;
mod bots;
mod fake;
mod faster;
mod files;
mod files_in;
pub(crate) mod folder;
mod hooks;
mod inward;
mod left;
mod lists;
mod neighbours;
mod outward;
mod reach;
mod trials;
mod walls;

use fake::{Fake, Server};

const NOW: Time = Time(1_800_000_000_000);

/// A platform that the suite is run on.
enum Rig {
    Local(Local),
    Fake {
        server: Server,
        sent_twice: SentTwice,
    },
    /// The same, by an adapter that is a program of its own.
    Adapter {
        server: Server,
        account: Account,
        home: tempfile::TempDir,
    },
}

impl Rig {
    /// The platforms, each as a daemon finds it that never spoke to it.
    fn all() -> [Self; 3] {
        [Self::Local(Local::default()), Self::fake(false), Self::adapter(SentTwice::Never)]
    }

    /// The fake platform as it treats texts that are sent twice, by a channel in this process and by an adapter.
    fn fakes(sent_twice: SentTwice) -> [Self; 2] {
        [Self::fake_that(sent_twice), Self::adapter(sent_twice)]
    }

    fn adapter(sent_twice: SentTwice) -> Self {
        Self::adapter_that(sent_twice, "")
    }

    /// An adapter that takes texts in a format.
    fn adapter_with(format: &str) -> Self {
        let mut rig = Self::adapter(SentTwice::Key { window_ms: None, readback: false });
        if let Self::Adapter { account, .. } = &mut rig {
            account.config.insert("format".into(), format.into());
        }
        rig
    }

    /// `misbehave`: the harm that the adapter does.
    fn adapter_that(sent_twice: SentTwice, misbehave: &str) -> Self {
        let server = Server::start();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/bridge_adapter.py");
        let home = tempfile::tempdir().unwrap();
        let config = serde_json::json!({
            "address": server.address(), "sent_twice": sent_twice, "misbehave": misbehave,
            "store": home.path().join("store"), "token": "s3cret",
        });
        std::fs::write(home.path().join("store"), "private").unwrap();
        let account = Account {
            name: "fake".into(),
            command: vec!["/usr/bin/env".into(), "python3".into(), "-u".into(), script.into()],
            reads: python(),
            config: config.as_object().unwrap().clone(),
            ..Account::default()
        };
        Self::Adapter { server, account, home }
    }

    fn fake(knows_our_ids: bool) -> Self {
        let key = SentTwice::Key { window_ms: None, readback: false };
        Self::fake_that(if knows_our_ids { key } else { SentTwice::Never })
    }

    fn fake_that(sent_twice: SentTwice) -> Self {
        Self::Fake { server: Server::start(), sent_twice }
    }

    /// Where adapters have their folders.
    fn home(&self) -> &std::path::Path {
        match self {
            Self::Adapter { home, .. } => home.path(),
            Self::Local(_) | Self::Fake { .. } => panic!("there is no adapter"),
        }
    }

    fn chat(&self) -> &'static str {
        match self {
            Self::Local(_) => "local:main",
            Self::Fake { .. } | Self::Adapter { .. } => "fake:1",
        }
    }

    fn channel(&self) -> Box<dyn Channel> {
        match self {
            Self::Local(local) => Box::new(local.clone()),
            Self::Fake { server, sent_twice } => Box::new(Fake::new(server, *sent_twice)),
            Self::Adapter { account, home, .. } => {
                let ready = Ready {
                    account: account.clone(),
                    config: account.config.clone(),
                    variables: Vec::new(),
                    secrets: Vec::new(),
                    commands: Vec::new(),
                };
                let ground = Ground {
                    world: g2::system::world::World::real(),
                    program: env!("CARGO_BIN_EXE_g2").into(),
                    home: home.path().join("channels"),
                    notes: home.path().join("children"),
                    install: "t".into(),
                    patience: Patience {
                        ping: Duration::from_secs(1),
                        pong: Duration::from_secs(5),
                        ..Patience::default()
                    },
                    media: Media::open(home.path()).unwrap(),
                };
                Box::new(Remote::new(Platform::named("fake"), ground, Arc::new(move || Ok(ready.clone()))))
            }
        }
    }
}

/// Where this machine's Python lies, if not where systems have theirs: an adapter reads only what it is let.
pub(super) fn python() -> Vec<PathBuf> {
    let found = std::process::Command::new("python3")
        .args(["-c", "import sys; print(sys.prefix); print(sys.executable)"])
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// A daemon's half: the store, the loop that says things, and the channel.
struct World {
    rig: Rig,
    path: PathBuf,
    store: Store,
    channels: Arc<Channels>,
    stop: CancellationToken,
    loops: JoinSet<()>,
    unknown: UnknownDeliveries,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new(rig: Rig) -> Self {
        Self::with(rig, UnknownDeliveries::Resend).await
    }

    async fn with(rig: Rig, unknown: UnknownDeliveries) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let store = Store::open(&path).unwrap();
        let folder = Folder::parse("main").unwrap();
        let group =
            NewGroup { folder: folder.clone(), name: "Main".into(), is_main: true, trigger: "@G2".into() };
        let wiring = NewWiring {
            group: folder,
            chat_jid: rig.chat().into(),
            engage_mode: EngageMode::Pattern,
            engage_pattern: Some(".".into()),
            sender_scope: SenderScope::All,
            ignored_message_policy: IgnoredMessages::Drop,
        };
        store.add_group(group, vec![wiring], NOW).await.unwrap();
        let (channels, stop) = (Arc::new(Channels::new(Vec::new())), CancellationToken::new());
        let mut this = Self { rig, path, store, channels, stop, loops: JoinSet::new(), unknown, _dir: dir };
        this.start().await;
        this
    }

    /// A daemon starts: another connection to the store, another channel, the same platform.
    async fn start(&mut self) {
        let channels = Arc::new(Channels::new(vec![self.rig.channel()]));
        let asking = Asking { channels: channels.names().into(), ..Asking::default() };
        self.store = Store::open(&self.path).unwrap().asking(asking);
        self.store.recover_deliveries(channels.that_know_our_ids()).await.unwrap();
        self.stop = CancellationToken::new();
        self.channels = Arc::clone(&channels);
        let (store, stop) = (self.store.clone(), self.stop.clone());
        let world = g2::system::world::World::real();
        let post = Post {
            world: world.clone(),
            store: store.clone(),
            channels: Arc::clone(&channels),
            unknown: self.unknown,
            stop: stop.clone(),
            waits: Default::default(),
        };
        let drive =
            Drive { store: store.clone(), loops: Arc::new(Loops::new(world.clone())), stop: stop.clone() };
        self.loops.spawn(drive.clone().run(Deliver::new(post, true)));
        self.loops.spawn(drive.clone().run(Amends::new(store.clone(), Arc::clone(&channels))));
        self.loops.spawn(drive.clone().run(g2::loops::typing::Typing::new(
            world.clone(),
            store.clone(),
            Arc::clone(&channels),
        )));
        self.loops.spawn(drive.run(Accounts::new(world, store, channels)));
    }

    /// The daemon stops in order, whatever is under way, and another one starts.
    async fn restart(&mut self) {
        self.stop.cancel();
        let stopped = async { while self.loops.join_next().await.is_some() {} };
        tokio::time::timeout(DEADLINE, stopped).await.unwrap();
        self.start().await;
    }

    /// The daemon dies where it stands, and another one starts.
    async fn die(&mut self) {
        self.loops.shutdown().await;
        self.start().await;
    }

    /// Waits until something holds, looking whenever something changed.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let mut feed = self.store.follow().await.unwrap();
        let waiting = async {
            while !holds().await {
                // The platform's own state is in no feed.
                let _ = tokio::time::timeout(std::time::Duration::from_millis(20), feed.next()).await;
            }
        };
        if tokio::time::timeout(DEADLINE, waiting).await.is_err() {
            let (rows, came) = (self.rows().await, self.store.messages(None, None).await.unwrap());
            panic!("waited for: {what}; {rows:?} {came:?}");
        }
    }

    async fn rows(&self) -> Vec<OutboxRow> {
        self.store.outbox(Some(self.rig.chat()), None).await.unwrap()
    }

    /// Has something said.
    async fn say(&self, text: &str) -> i64 {
        self.store.tell(self.rig.chat().into(), text.into(), "test".into(), NOW).await.unwrap();
        self.rows().await.last().unwrap().id
    }

    /// Has an agent say something.
    async fn agent_says(&self, claim: i64, text: &str) -> i64 {
        let json = serde_json::json!({"type": "send_message", "chatJid": self.rig.chat(), "text": text});
        let file = CommandFile {
            claim,
            group: Folder::parse("main").unwrap(),
            box_name: "messages".into(),
            name: "x.json".into(),
            origin: claim.to_le_bytes().to_vec(),
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
        let settled = self.store.settle(file, Zones::utc(), NOW).await.unwrap();
        assert_eq!(settled.receipt.outcome, CommandOutcome::Applied);
        self.rows().await.last().unwrap().id
    }

    async fn until_row(&self, id: i64, status: DeliveryStatus) {
        self.until(&format!("row {id} to be {status}"), async || {
            self.rows().await.iter().any(|row| row.id == id && row.status == status)
        })
        .await;
    }

    /// What the platform shows in the chat, in order.
    async fn shown(&self) -> Vec<String> {
        match &self.rig {
            Rig::Local(_) => {
                let said = self.store.said_since(self.rig.chat(), 0, usize::MAX, usize::MAX).await.unwrap();
                said.into_iter().map(|delivery| delivery.text).collect()
            }
            Rig::Fake { .. } | Rig::Adapter { .. } => {
                let shown = self.platform(&["shown"]).await;
                let text = |message: &String| message.split_once('=').unwrap().1.replace('\u{b6}', "\n");
                shown.iter().filter(|message| !message.is_empty()).map(text).collect()
            }
        }
    }

    /// Asks the fake platform for something.
    async fn platform(&self, request: &[&str]) -> Vec<String> {
        match &self.rig {
            Rig::Fake { server, .. } | Rig::Adapter { server, .. } => server.ask(request).await,
            Rig::Local(_) => panic!("`local` has no platform of its own"),
        }
    }

    /// Somebody says something on the platform; `key` tells the event from others.
    async fn hears(&self, key: &str, id: &str, text: &str, reply_to: Option<&str>) {
        let chat = self.rig.chat();
        match &self.rig {
            Rig::Fake { .. } | Rig::Adapter { .. } => {
                let event = ["happens", "message", chat, key, id, "ada", reply_to.unwrap_or_default(), text];
                self.platform(&event).await;
            }
            Rig::Local(local) => {
                let message = Incoming {
                    chat: chat.into(),
                    sender: "ada".into(),
                    text: text.into(),
                    key: key.into(),
                    id: Some(id.into()),
                    reply_to: reply_to.map(Into::into),
                    ..Incoming::default()
                };
                let mut session = Session::new(g2::system::world::World::real(), local, &self.store);
                let told = session.handle(Ask::Send(Box::new(message))).await;
                assert!(matches!(told.as_slice(), [Told::Accepted { .. }]), "{told:?}");
            }
        }
    }

    /// The texts that came in, in order.
    async fn came(&self) -> Vec<String> {
        let messages = self.store.messages(Some(self.rig.chat()), None).await.unwrap();
        messages.into_iter().map(|message| message.text).collect()
    }

    async fn until_came(&self, texts: &[&str]) {
        self.until(&format!("{texts:?}"), async || self.came().await == texts).await;
    }

    /// Judges what came in: everything wakes.
    async fn judge(&self) {
        let rows = self.store.unjudged(100).await.unwrap();
        let judged = rows.iter().map(|row| Judged {
            n: row.n,
            read_as: row.read_as(),
            verdict: EngageVerdict::Wake,
            rule: Rule::Pattern,
            reason: "test".into(),
            sticks: false,
            refused: None,
            answers: None,
        });
        self.store.judge(judged.collect(), NOW).await.unwrap();
    }
}
