//! The store's steps, one transaction each: what a replay, a race or a wrong order must not change.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::{
    domain::{
        heard::engage::{EngageVerdict, Rule},
        rows::{Inbound, WiringChanges},
        runs::judge::{Cause, End},
        states::SandboxName,
        time::zone::Zones,
    },
    store::{
        Body, CommandFile, EndOfRun, Handed, HandoverLimits, Judged, NewGroup, NewWiring, NextDelivery,
        Recorded, Store, StoreError, Transcripts, Unjudged, digest,
    },
};
use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
    wire::{Kind, Record, Status},
};

mod attachments;
mod budgets;
mod clocks;
mod commands;
mod day;
mod feed;
mod hindrances;
mod meant;
mod messages;
mod outbox;
mod prune;
mod put_off;
mod runs;
mod slots;
mod stored;
mod tasks;

const NOW: Time = Time(1_800_000_000_000);
const LIMITS: HandoverLimits = HandoverLimits { messages: 200, bytes: 256 << 10, context: 10 };

struct World {
    _dir: tempfile::TempDir,
    store: Store,
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

async fn world() -> World {
    world_in(tempfile::tempdir().unwrap()).await
}

async fn world_in(dir: tempfile::TempDir) -> World {
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    for name in ["main", "family"] {
        add_group(&store, name).await.unwrap();
    }
    World { _dir: dir, store }
}

/// Makes a group, wired to a chat of its name.
async fn add_group(store: &Store, name: &str) -> Result<(), StoreError> {
    let group =
        NewGroup { folder: folder(name), name: name.into(), is_main: name == "main", trigger: "@G2".into() };
    let wiring = NewWiring {
        group: folder(name),
        chat_jid: format!("local:{name}"),
        engage_mode: EngageMode::Pattern,
        engage_pattern: Some(".".into()),
        sender_scope: SenderScope::All,
        ignored_message_policy: IgnoredMessages::Drop,
    };
    store.add_group(group, vec![wiring], NOW).await
}

impl World {
    /// Stores a message and judges every row that waits to be.
    async fn message(&self, chat: &str, key: &str, text: &str, verdict: EngageVerdict) -> i64 {
        let inbound = Inbound {
            chat_jid: chat.into(),
            replay_key: key.into(),
            id: key.into(),
            sender: "local:me".into(),
            sender_name: "me".into(),
            text: text.into(),
            at: Some(NOW),
            ..Inbound::default()
        };
        let seq = self.store.accept(inbound, NOW).await.unwrap().seq;
        let judged = self
            .store
            .unjudged(100)
            .await
            .unwrap()
            .into_iter()
            .map(|row| Judged {
                n: row.n,
                read_as: row.read_as(),
                verdict,
                rule: Rule::Pattern,
                reason: "test".into(),
                sticks: false,
                refused: None,
                answers: None,
            })
            .collect();
        self.store.judge(judged, NOW).await.unwrap();
        seq
    }

    fn lane(&self) -> i64 {
        self.store.waiting_lanes().unwrap()[0].lane
    }

    async fn start(&self, lane: i64) -> Handed {
        self.store.start_run(lane, SandboxName::Process, "me", LIMITS, NOW).await.unwrap().unwrap()
    }

    async fn ready(&self, run: i64) {
        self.store.run_created(run, "c").await.unwrap();
        self.store.run_started(run, NOW).await.unwrap();
        let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
        self.store.record(run, 1, ready, NOW).await.unwrap();
    }

    async fn end(&self, run: i64, end: End, cause: Cause) {
        let end = EndOfRun {
            run,
            end,
            cause,
            input: None,
            files_bytes: 777,
            retry_base_ms: 5000,
            tell_retry_ms: None,
        };
        self.store.end_run(end, Zones::utc(), NOW).await.unwrap();
    }

    async fn texts(&self, chat: &str) -> Vec<String> {
        self.store.outbox(Some(chat), None).await.unwrap().into_iter().map(|row| row.text).collect()
    }

    fn prompt(&self, batch: i64) -> String {
        self.store.batch_content(batch, LIMITS).unwrap().unwrap().prompt(&Zones::utc().of(None))
    }
}

fn say(text: &str, handled: &[i64]) -> Record {
    Record {
        result: Some(text.into()),
        handled: handled.iter().map(ToString::to_string).collect(),
        ..Record::default()
    }
}

fn command(group: &str, claim: i64, bytes: &[u8]) -> CommandFile {
    CommandFile {
        claim,
        group: folder(group),
        box_name: "tasks".into(),
        name: "x.json".into(),
        origin: format!("file {claim}").into_bytes(),
        run: None,
        written: None,
        taken: None,
        proof: g2::store::Proof::None,
        digest: digest(bytes),
        body: Ok(std::sync::Arc::new(Body::of(bytes))),
        refused: None,
        transcripts: Transcripts::new(),
        files: Ok(Vec::new()),
        found: None,
    }
}
