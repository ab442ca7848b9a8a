//! The channel of the fake platform (`tests/fixtures/fake_platform.rs`), and the platform itself as a test handles it.
#![expect(clippy::disallowed_types, reason = "a test starts the platform")]

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use g2::{
    channels::{Channel, Intake, Ran},
    domain::{
        platforms::{
            addresses::Platform,
            channels::{
                Change, Connection, Format, Found, Mark, MarkKind, NotSent, Outcome, Part, Scope, SentTwice,
                TextLimit, Traits, Unit, Unsent,
            },
            chats::{ChatInfo, ChatKind},
            parcels::Takes,
        },
        rows::Inbound,
    },
};
use ipc_handlers::Time;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Mutex,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Linkage, program, wait_for};

/// The longest text that it takes, characters.
pub(super) const LONGEST: usize = 40;

/// The platform's process.
pub(super) struct Server {
    process: Child,
    dir: tempfile::TempDir,
}

impl Server {
    pub(super) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(program("fake_platform.rs", Linkage::Dynamic));
        let process = command.arg(dir.path().join("address")).stdin(Stdio::piped()).spawn().unwrap();
        let this = Self { process, dir };
        wait_for("the platform's address", || this.path().exists().then_some(()));
        this
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("address")
    }

    /// Where it listens.
    pub(super) fn address(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    /// Asks it for something, beside its channel.
    pub(super) async fn ask(&self, request: &[&str]) -> Vec<String> {
        let mut line = Wire::connect(&self.address()).await.unwrap();
        line.call(0, request).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection to it.
struct Wire {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

/// How far a call came before the connection ended.
enum Broken {
    Before,
    After,
}

impl Wire {
    async fn connect(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (input, out) = stream.into_split();
        Ok(Self { lines: BufReader::new(input).lines(), out })
    }

    /// Sends a request; what answers another one is passed over.
    async fn call(&mut self, n: u64, request: &[&str]) -> Result<Vec<String>, Broken> {
        let words: Vec<String> = request.iter().map(|word| word.replace('\n', "\u{b6}")).collect();
        let line = format!("{n}\t{}\n", words.join("\t"));
        self.out.write_all(line.as_bytes()).await.map_err(|_| Broken::Before)?;
        loop {
            let answer = self.lines.next_line().await.ok().flatten().ok_or(Broken::After)?;
            let mut words: Vec<String> = answer.split('\t').map(str::to_owned).collect();
            if words.remove(0) == n.to_string() {
                return Ok(words);
            }
        }
    }
}

impl std::fmt::Debug for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Before => "broken before it was sent",
            Self::After => "broken before it was answered",
        })
    }
}

pub(super) struct Fake {
    address: String,
    sent_twice: SentTwice,
    wire: Mutex<Option<Wire>>,
    calls: AtomicU64,
}

impl Fake {
    pub(super) fn new(server: &Server, sent_twice: SentTwice) -> Self {
        Self { address: server.address(), sent_twice, wire: Mutex::default(), calls: AtomicU64::new(1) }
    }

    async fn call(&self, request: &[&str]) -> Result<Vec<String>, Unsent> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut wire = self.wire.lock().await;
        // What is dropped in the middle leaves nothing that the next call could take for its answer.
        let mut line = match wire.take() {
            Some(line) => line,
            None => Wire::connect(&self.address).await.map_err(|error| Unsent::again(error.to_string()))?,
        };
        match line.call(n, request).await {
            Ok(answer) => {
                *wire = Some(line);
                Ok(answer)
            }
            Err(Broken::Before) => Err(Unsent::again("the connection ended")),
            Err(Broken::After) => Err(Unsent::Unknown("the connection ended before the answer".into())),
        }
    }

    /// Hands an event over; whether it could be stored.
    async fn take(&self, intake: &Intake, event: &[String]) -> bool {
        let event: Vec<&str> = event.iter().map(String::as_str).collect();
        match event.as_slice() {
            ["message", chat, key, id, sender, reply_to, text] => {
                let message = Inbound {
                    chat_jid: (*chat).to_owned(),
                    replay_key: (*key).to_owned(),
                    id: (*id).to_owned(),
                    sender: (*sender).to_owned(),
                    sender_name: (*sender).to_owned(),
                    text: (*text).to_owned(),
                    reply_to_id: (!reply_to.is_empty()).then(|| (*reply_to).to_owned()),
                    ..Inbound::default()
                };
                intake.message(message).await.is_ok()
            }
            [kind @ ("deleted" | "reaction" | "reaction_gone"), chat, key, id, sender, reaction] => {
                let mark = Mark {
                    chat_jid: (*chat).to_owned(),
                    replay_key: (*key).to_owned(),
                    message_id: (*id).to_owned(),
                    sender: (*sender).to_owned(),
                    kind: MarkKind::from_name(kind).unwrap(),
                    reaction: (*reaction).to_owned(),
                };
                intake.mark(mark).await.is_ok()
            }
            ["press", press, sender] => intake.pressed(press, &self.person(sender)).await.is_ok(),
            ["chat", chat, name, members] => {
                let members = members.parse().ok();
                let info = ChatInfo {
                    name: (*name).to_owned(),
                    kind: ChatKind::Group,
                    threaded: false,
                    members,
                    hears_all: None,
                };
                intake.chat(chat, info).await.is_ok()
            }
            other => panic!("an event of no kind: {other:?}"),
        }
    }
}

impl Channel for Fake {
    fn platform(&self) -> &Platform {
        static FAKE: Platform = Platform::named("fake");
        &FAKE
    }

    fn traits(&self) -> Traits {
        Traits {
            sent_twice: self.sent_twice,
            buttons: true,
            typing: true,
            edits: true,
            growth_ms: 1,
            reacts: true,
            threads: false,
            text: Some(TextLimit { max: LONGEST, unit: Unit::Chars, format: Format::Discord }),
            files: Takes::default(),
        }
    }

    fn run(&self, intake: Intake, stop: CancellationToken) -> BoxFuture<'_, Ran> {
        let polling = async move {
            let mut offset = 0_u64;
            let say = async |state, why| drop(intake.connection("fake", state, why).await);
            loop {
                let Ok(mut wire) = Wire::connect(&self.address).await else {
                    say(Connection::Offline, Some("nobody listens".into())).await;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                say(Connection::Connected, None).await;
                while let Ok(event) = wire.call(offset, &["poll", &offset.to_string()]).await {
                    // Only what is stored is never asked for again.
                    if self.take(&intake, &event[2..]).await {
                        offset += 1;
                    }
                }
            }
        };
        Box::pin(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = polling => {}
            }
            Ran::Stopped
        })
    }

    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let buttons = if part.last { part.of.buttons.as_slice() } else { &[] };
            let buttons: Vec<&str> = buttons.iter().map(|button| button.press.as_str()).collect();
            let (key, buttons) = (part.key(), buttons.join(","));
            let answer = self.call(&["send", &key, &part.of.chat_jid, &buttons, &part.text.text]).await?;
            let answer: Vec<&str> = answer.iter().map(String::as_str).collect();
            match answer.as_slice() {
                ["ok", id] => Ok(vec![(*id).to_owned()]),
                ["busy", ms] => {
                    Err(Unsent::Not(NotSent::Busy { after_ms: ms.parse().unwrap(), scope: Scope::Chat }))
                }
                ["offline"] => Err(Unsent::Not(NotSent::Offline)),
                ["away"] => Err(Unsent::again("the platform is away")),
                _ => Err(Unsent::refused("the platform refuses it")),
            }
        })
    }

    fn look_for<'a>(&'a self, part: Part<'a>, _: Time) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            match self.call(&["look", &part.key()]).await.as_deref() {
                Ok([found, id]) if found == "has" => Found::Has(vec![id.clone()]),
                Ok([found, ..]) if found == "not" => Found::HasNot,
                Ok(_) | Err(_) => Found::CannotTell("the platform does not say".into()),
            }
        })
    }

    fn amend<'a>(&'a self, _: &'a str, platform_id: &'a str, change: Change) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let done = match change {
                Change::Text(text) => self.call(&["edit", platform_id, &text.text]).await,
                Change::Deleted => self.call(&["delete", platform_id]).await,
                Change::Reaction(sign) => self.call(&["react", platform_id, &sign]).await,
            };
            match done?.first().map(String::as_str) {
                Some("ok") => Ok(Vec::new()),
                Some("busy") => Err(Unsent::Not(NotSent::Busy { after_ms: 1, scope: Scope::Chat })),
                _ => Err(Unsent::refused("the platform refuses it")),
            }
        })
    }

    fn typing<'a>(&'a self, chat: &'a str, _: &'a str, on: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move { drop(self.call(&["typing", chat, if on { "on" } else { "off" }]).await) })
    }
}
