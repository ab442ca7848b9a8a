//! The channel of an account whose adapter is a program of its own: a child process that speaks the channel protocol on its
//! standard input and output (`src/protocol`, `docs/channel-protocol.md`). It is supervised here: started, shut in, asked whether
//! it lives, killed with all that it started, and started anew.

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use channel_protocol::{self as protocol, Can, Done, Down, Fetch, Hello, Hint, LookFor, NotSent, Up, line};
use futures_util::future::BoxFuture;
use g2_text::Rendered;
use ipc_handlers::Time;
use serde_json::{Map, Value};
use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{Channel, Fetched, Intake, NotFetched};
use crate::{
    domain::{
        host::errors::chain,
        platforms::{
            accounts::{Account, GOOD_LIFE_MS, rest_ms},
            addresses::{Platform, kind_of},
            channels::{Change, Connection, Found, Lamp, Lights, Outcome, Part, Scope, Traits, Unsent},
            chats::{ChatInfo, ChatKind},
            growth::PACE_MS,
            pace::Gate,
            parcels::Takes,
        },
    },
    store::Store,
    system::{clock, failpoint, media::Media, process},
};

mod child;
mod inward;
mod life;
mod spool;

use child::Folders;
use life::Ended;
use spool::Spool;

/// How many requests an adapter works on at once.
const MOST_ASKED: usize = 128;
/// How many lines wait to be written to an adapter.
const MOST_LINES: usize = 256;
/// The longest text of an adapter's about itself that is kept, characters.
const LONGEST_WORDS: usize = 500;
/// How often it is looked whether a person wants an adapter started anew.
const LOOK_AT_WISHES: Duration = Duration::from_secs(1);
/// How often the settings of an account that was refused are looked at.
const LOOK_AT_SETTINGS: Duration = Duration::from_secs(10);
/// The time between two changes of a text that grows, where the adapter says nothing about it, ms.
const GROWTH_MS: u64 = 1000;
/// How often it is written down that a platform took something, at most.
const NOTE_OUT: Duration = Duration::from_secs(1);

/// How long an adapter may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To be let in by its platform, without a word.
    pub hello: Duration,
    /// From one question whether it lives to the next.
    pub ping: Duration,
    /// To answer that.
    pub pong: Duration,
    /// To leave.
    pub stop: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(120),
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(10),
            stop: Duration::from_secs(5),
        }
    }
}

/// An account with all that its adapter is given.
#[derive(Clone, PartialEq)]
pub struct Ready {
    pub account: Account,
    /// With its secrets.
    pub config: Map<String, Value>,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("account", &self.account).finish_non_exhaustive()
    }
}

/// Why an adapter can't be started: something is missing that a person has to put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotReady {
    pub why: String,
    pub hint: String,
}

/// Reads an account's settings and secrets as they are now.
pub type Load = Arc<dyn Fn() -> Result<Ready, NotReady> + Send + Sync>;

/// Where adapters live.
#[derive(Clone)]
pub struct Ground {
    /// This program, which shuts adapters in.
    pub program: PathBuf,
    /// The folder of all adapters' folders.
    pub home: PathBuf,
    /// Begins our ids of texts, so that two installations with one account never mean the same.
    pub install: String,
    pub patience: Patience,
    /// The files that go out.
    pub media: Arc<Media>,
}

/// An account on a platform.
pub struct Remote {
    platform: Platform,
    ground: Ground,
    load: Load,
    /// What the adapter said of itself last; it stays while it is away.
    hello: Mutex<Option<Hello>>,
    /// The living adapter, while it may be sent something.
    wire: watch::Sender<Option<Wire>>,
    gate: Mutex<Gate>,
    begun: Instant,
    /// How many texts that people wait for wait for the account.
    people: AtomicUsize,
    /// The account is let go, or we stop: nobody waits for its turn any more.
    over: CancellationToken,
    noted_out: Mutex<Option<Instant>>,
    store: Mutex<Option<Store>>,
    spool: Spool,
}

/// A living adapter, as it is asked.
#[derive(Clone)]
struct Wire {
    lines: mpsc::Sender<Vec<u8>>,
    open: Arc<Mutex<HashMap<u64, oneshot::Sender<Up>>>>,
    next: Arc<AtomicU64>,
    places: Arc<Semaphore>,
}

/// Why a request has no answer.
enum Lost {
    /// It was not written.
    Never,
    /// It is longer than a line may be.
    TooLong,
    /// The adapter may have read it.
    Perhaps,
}

/// A request that is asked no more leaves nothing behind.
struct Forget<'a>(&'a Wire, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.0.open).remove(&self.1);
    }
}

impl Wire {
    fn new(lines: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            lines,
            open: Arc::default(),
            next: Arc::new(AtomicU64::new(1)),
            places: Arc::new(Semaphore::new(MOST_ASKED)),
        }
    }

    /// Asks for something and waits for the answer.
    async fn ask(&self, make: impl FnOnce(u64) -> Down) -> Result<Up, Lost> {
        let Ok(_place) = self.places.acquire().await else { return Err(Lost::Never) };
        let r = self.next.fetch_add(1, Ordering::Relaxed);
        let line = line(&make(r)).ok_or(Lost::TooLong)?;
        let (answer, answered) = oneshot::channel();
        lock(&self.open).insert(r, answer);
        let _forget = Forget(self, r);
        self.lines.send(line).await.map_err(|_| Lost::Never)?;
        answered.await.map_err(|_| Lost::Perhaps)
    }

    /// Hands an answer to who waits for it.
    fn answer(&self, r: u64, up: Up) {
        if let Some(waiting) = lock(&self.open).remove(&r) {
            let _ = waiting.send(up);
        }
    }

    fn is_idle(&self) -> bool {
        lock(&self.open).is_empty()
    }

    /// Nobody is answered any more.
    fn end(&self) {
        self.places.close();
        lock(&self.open).clear();
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what an adapter says, as it is kept: cut, and without what acts on a terminal.
fn words(text: &str) -> Option<String> {
    let text: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_WORDS).collect();
    (!text.trim().is_empty()).then_some(text)
}

/// Reads what became of something that was sent or changed.
fn outcome(done: Done) -> Outcome {
    let good = |id: &String| !id.is_empty() && id.len() <= 512;
    match done {
        Done { ids: Some(ids), not: None, unknown: None, .. } if ids.iter().all(good) => Ok(ids),
        Done { ids: None, not: Some(not), unknown: None, .. } => Err(Unsent::Not(not)),
        Done { ids: None, not: None, unknown: Some(why), .. } => {
            Err(Unsent::Unknown(words(&why).unwrap_or_else(|| "the adapter does not know".into())))
        }
        Done { .. } => Err(Unsent::Unknown("the adapter's answer says nothing".into())),
    }
}

/// A request without an answer, as what became of it.
fn lost(lost: Lost) -> Unsent {
    match lost {
        Lost::Never => Unsent::Not(NotSent::Offline),
        Lost::TooLong => Unsent::refused("it is longer than a line of the channel protocol may be"),
        Lost::Perhaps => Unsent::Unknown("the adapter ended before it answered".into()),
    }
}

impl Remote {
    /// The account of this name; `load` reads its settings at each start of its adapter.
    #[must_use]
    pub fn new(name: &str, ground: Ground, load: Load) -> Self {
        Self {
            platform: Platform::of_account(name),
            ground,
            load,
            hello: Mutex::default(),
            wire: watch::Sender::new(None),
            gate: Mutex::new(Gate::new(protocol::Pace::default())),
            begun: Instant::now(),
            people: AtomicUsize::new(0),
            over: CancellationToken::new(),
            noted_out: Mutex::default(),
            store: Mutex::default(),
            spool: Spool::default(),
        }
    }

    fn name(&self) -> &str {
        &self.platform.channel
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn can(&self, what: Can) -> bool {
        lock(&self.hello).as_ref().is_some_and(|hello| hello.can.contains(&what))
    }

    fn living(&self) -> Option<Wire> {
        self.wire.borrow().clone()
    }

    /// The adapter has said who it is: from now on it may be sent something.
    fn greet(&self, hello: Hello) {
        *lock(&self.gate) = Gate::new(hello.pace);
        *lock(&self.hello) = Some(hello);
    }

    /// Notes that the platform took something, soon and not too often.
    fn note_out(&self) {
        let mut noted = lock(&self.noted_out);
        if noted.is_some_and(|at| at.elapsed() < NOTE_OUT) {
            return;
        }
        *noted = Some(Instant::now());
        let Some(store) = lock(&self.store).clone() else { return };
        let name = self.name().to_owned();
        tokio::spawn(async move {
            if let Err(error) = store.note_out(&name, clock::now()).await {
                tracing::debug!(error = %chain(&error), "noting when a platform took something failed");
            }
        });
    }

    async fn perform(&self, make: impl FnOnce(u64) -> Down) -> Outcome {
        let Some(wire) = self.living() else { return Err(Unsent::Not(NotSent::Offline)) };
        self.perform_by(&wire, make).await
    }

    async fn perform_by(&self, wire: &Wire, make: impl FnOnce(u64) -> Down) -> Outcome {
        let outcome = match wire.ask(make).await {
            Ok(Up::Done(done)) => outcome(done),
            Ok(_) => Err(Unsent::Unknown("the adapter answered something else".into())),
            Err(error) => Err(lost(error)),
        };
        match &outcome {
            Ok(_) => self.note_out(),
            Err(Unsent::Not(NotSent::Busy { after_ms, scope: Scope::Account })) => {
                let ms = i64::try_from(*after_ms).unwrap_or(i64::MAX);
                lock(&self.gate).rest(ms.min(3_600_000), self.now_ms());
            }
            Err(_) => {}
        }
        outcome
    }

    fn key(&self, part: &Part<'_>) -> String {
        format!("{}.{}", self.ground.install, part.key())
    }

    /// Returns once a person wants the adapter started anew, after `seen` such wishes.
    async fn wanted(&self, store: &Store, seen: i64) {
        loop {
            match store.connection_of(self.name()).await {
                Ok(Some(state)) if state.wanted > seen => return,
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(LOOK_AT_WISHES).await;
        }
    }

    /// Returns once the settings of the account are others than these.
    async fn changed(&self, known: Option<&Ready>) {
        loop {
            tokio::time::sleep(LOOK_AT_SETTINGS).await;
            if (self.load)().ok().as_ref() != known {
                return;
            }
        }
    }

    async fn say(&self, store: &Store, transport: Connection, why: Option<String>, hint: Option<String>) {
        let lamp = match transport {
            Connection::Connected => Lamp::Ok,
            Connection::Connecting => Lamp::Waiting,
            Connection::Offline => Lamp::Failing,
            Connection::Refused => Lamp::Refused,
        };
        let lights = Lights { transport, inbound: lamp, outbound: lamp, why, hint };
        if let Err(error) = store.set_lights(self.name().to_owned(), lights, clock::now()).await {
            tracing::warn!(channel = self.name(), error = %chain(&error), "how an account stands can't be written down");
        }
    }

    /// Keeps the adapter alive until `stop`.
    async fn supervise(&self, intake: &Intake, stop: &CancellationToken) {
        let store = intake.store();
        *lock(&self.store) = Some(store.clone());
        let mut failures = 0;
        loop {
            let seen = store.connection_of(self.name()).await.ok().flatten().map_or(0, |state| state.wanted);
            let ready = (self.load)();
            let began = Instant::now();
            let ended = match &ready {
                Ok(ready) => tokio::select! {
                    ended = life::live(self, intake, ready, stop) => ended,
                    () = self.wanted(store, seen) => Ended::Wanted,
                },
                Err(error) => Ended::Refused { why: error.why.clone(), hint: error.hint.clone() },
            };
            self.wire.send_replace(None);
            let channel = self.name();
            match ended {
                Ended::Stopped => return,
                Ended::Wanted => {
                    tracing::info!(channel, "the adapter is started anew, as a person wants");
                    failures = 0;
                }
                Ended::Refused { why, hint } => {
                    tracing::error!(
                        channel,
                        why,
                        hint,
                        "an account was refused; it is tried again when its settings change, or by `g2 channels restart`"
                    );
                    self.say(store, Connection::Refused, words(&why), words(&hint)).await;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.wanted(store, seen) => {}
                        () = self.changed(ready.as_ref().ok()) => {}
                    }
                    failures = 0;
                }
                Ended::Failed(why) => {
                    if i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX) >= GOOD_LIFE_MS {
                        failures = 0;
                    }
                    let rest = rest_ms(failures, process::chance());
                    failures = failures.saturating_add(1);
                    tracing::warn!(
                        channel,
                        why,
                        failures,
                        rest_ms = rest,
                        "an adapter ended; it is started anew after a rest"
                    );
                    self.say(store, Connection::Offline, words(&why), None).await;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.wanted(store, seen) => {}
                        () = tokio::time::sleep(Duration::from_millis(rest)) => {}
                    }
                }
            }
        }
    }
}

impl Channel for Remote {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn traits(&self) -> Traits {
        let hello = lock(&self.hello);
        let Some(hello) = hello.as_ref() else { return Traits::default() };
        let can = |what| hello.can.contains(&what);
        Traits {
            sent_twice: hello.sent_twice,
            buttons: can(Can::Buttons),
            typing: can(Can::Typing),
            edits: can(Can::Edit),
            growth_ms: if hello.draft_ms == 0 {
                GROWTH_MS
            } else {
                hello.draft_ms.clamp(*PACE_MS.start(), *PACE_MS.end())
            },
            reacts: can(Can::React),
            threads: can(Can::Threads),
            text: Some(hello.text),
            files: Takes {
                largest: if can(Can::MediaOut) { hello.media.out_max } else { 0 },
                together: hello.media.together,
                caption: hello.caption_max,
            },
        }
    }

    fn run(&self, intake: Intake, stop: CancellationToken) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _over = self.over.clone().drop_guard();
            self.supervise(&intake, &stop).await;
        })
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn turn<'a>(&'a self, chat: &'a str, for_people: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let is_group = kind_of(chat) == ChatKind::Group;
            // Counted while it waits for the account; tasks' texts then wait behind it.
            let mut counted = None;
            loop {
                let mut wire = self.wire.subscribe();
                tokio::select! {
                    () = self.over.cancelled() => return,
                    _ = wire.wait_for(Option::is_some) => {}
                }
                let yields = !for_people && self.people.load(Ordering::Relaxed) > 0;
                let passed = lock(&self.gate).pass(chat, is_group, yields, self.now_ms());
                let Err(wait) = passed else { return };
                if for_people && wait.account && counted.is_none() {
                    counted = Some(Counted::new(&self.people));
                } else if !wait.account {
                    counted = None;
                }
                tokio::time::sleep(Duration::from_millis(wait.ms.clamp(1, 60_000).unsigned_abs())).await;
            }
        })
    }

    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            // What is laid out for one life of the adapter is asked of that one.
            let Some(wire) = self.living() else { return Err(Unsent::Not(NotSent::Offline)) };
            let laid = self.spool.lay_out(&self.ground, self.name(), &part).await?;
            if !laid.files.is_empty() {
                failpoint::reach("deliver.spooled");
            }
            let buttons = if part.last { part.of.buttons.as_slice() } else { &[] };
            let button = |button: &crate::domain::rows::Button| {
                vec![protocol::Button { label: button.label.clone(), press: button.press.clone() }]
            };
            let send = protocol::Send {
                key: self.key(&part),
                chat: part.of.chat_jid.clone(),
                thread: part.of.thread.clone(),
                reply_to: part.of.reply_to.clone().filter(|_| part.n == 1),
                text: part.text.text.clone(),
                spans: part.text.spans.clone(),
                html: part.text.html.clone(),
                attachments: laid.files.clone(),
                buttons: buttons.iter().map(button).collect(),
                said_as: part.of.sender.clone(),
                ..protocol::Send::default()
            };
            self.perform_by(&wire, |r| Down::Send(Box::new(protocol::Send { r, ..send }))).await
        })
    }

    fn look_for<'a>(&'a self, part: Part<'a>, since: Time) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let Some(wire) = self.living() else { return Found::CannotTell("there is no connection".into()) };
            let look = LookFor {
                key: self.key(&part),
                chat: part.of.chat_jid.clone(),
                thread: part.of.thread.clone(),
                since: since.to_string(),
                text: part.text.text.clone(),
                ..LookFor::default()
            };
            match wire.ask(|r| Down::LookFor(LookFor { r, ..look })).await {
                Ok(Up::Found(protocol::Found {
                    ids: Some(ids), not_sent: false, cannot_tell: None, ..
                })) => Found::Has(ids),
                Ok(Up::Found(protocol::Found { ids: None, not_sent: true, cannot_tell: None, .. })) => {
                    Found::HasNot
                }
                Ok(Up::Found(protocol::Found { cannot_tell: Some(why), .. })) => Found::CannotTell(why),
                Ok(_) => Found::CannotTell("the adapter's answer says nothing".into()),
                Err(_) => Found::CannotTell("the adapter ended before it answered".into()),
            }
        })
    }

    fn amend<'a>(&'a self, chat: &'a str, platform_id: &'a str, change: Change) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let needed = match &change {
                Change::Text(_) => Can::Edit,
                Change::Deleted => Can::Delete,
                Change::Reaction(_) => Can::React,
            };
            if !self.can(needed) {
                return Err(Unsent::refused("this platform does not change messages so"));
            }
            let amend = protocol::Amend {
                key: format!("{}.{}", self.ground.install, change.key(platform_id)),
                chat: chat.to_owned(),
                id: platform_id.to_owned(),
                delete: change == Change::Deleted,
                ..protocol::Amend::default()
            };
            let amend = match change {
                Change::Text(Rendered { text, spans, html }) => {
                    protocol::Amend { text: Some(text), spans, html, ..amend }
                }
                Change::Reaction(emoji) => protocol::Amend { react: Some(emoji), ..amend },
                Change::Deleted => amend,
            };
            self.perform(|r| Down::Amend(protocol::Amend { r, ..amend })).await
        })
    }

    fn chats(&self) -> BoxFuture<'_, Result<Vec<(String, ChatInfo)>, Unsent>> {
        Box::pin(async move {
            if !self.can(Can::ListChats) {
                return Ok(Vec::new());
            }
            let Some(wire) = self.living() else { return Err(Unsent::Not(NotSent::Offline)) };
            match wire.ask(|r| Down::ListChats { r }).await {
                Ok(Up::Chats { chats, .. }) => {
                    let own = chats.iter().filter(|chat| inward::chat(&self.platform, &chat.chat).is_ok());
                    Ok(own.map(|chat| (chat.chat.clone(), inward::info(chat))).collect())
                }
                Ok(_) => Err(Unsent::again("the adapter answered something else")),
                Err(error) => Err(lost(error)),
            }
        })
    }

    fn fetch<'a>(
        &'a self,
        chat: &'a str,
        what: &'a str,
        most: u64,
    ) -> BoxFuture<'a, Result<Fetched, NotFetched>> {
        Box::pin(async move {
            let Some(wire) = self.living() else { return Err(NotFetched::Offline) };
            let fetch = Fetch { r: 0, chat: chat.to_owned(), what: what.to_owned(), most };
            match wire.ask(|r| Down::Fetch(Fetch { r, ..fetch })).await {
                Ok(Up::Fetched { file: Some(place), problem: None, .. }) => {
                    Ok(Fetched { folder: Folders::of(&self.ground, self.name()).spool, place })
                }
                Ok(Up::Fetched { problem: Some(why), .. }) => Err(NotFetched::Failed(
                    words(&why).unwrap_or_else(|| "the platform does not say why".into()),
                )),
                Ok(_) => Err(NotFetched::Failed("the adapter's answer says nothing".into())),
                Err(Lost::Never) => Err(NotFetched::Offline),
                Err(_) => Err(NotFetched::Failed("the adapter ended before it answered".into())),
            }
        })
    }

    fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !self.can(Can::Typing) {
                return;
            }
            let hint =
                Hint { chat: chat.to_owned(), thread: thread.to_owned(), typing: on, ..Hint::default() };
            if let (Some(wire), Some(line)) = (self.living(), line(&Down::Show(hint))) {
                // It is asked for again soon; a full line is no reason to wait.
                let _ = wire.lines.try_send(line);
            }
        })
    }
}

/// Counts one as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(of: &'a AtomicUsize) -> Self {
        of.fetch_add(1, Ordering::Relaxed);
        Self(of)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_two_things_or_none_says_nothing() {
        let ids = || Some(vec!["7".to_owned()]);
        assert_eq!(outcome(Done { ids: ids(), ..Done::default() }), Ok(vec!["7".into()]));
        assert_eq!(
            outcome(Done { not: Some(NotSent::Offline), ..Done::default() }),
            Err(Unsent::Not(NotSent::Offline))
        );
        for done in [
            Done::default(),
            Done { ids: ids(), not: Some(NotSent::Offline), ..Done::default() },
            Done { ids: Some(vec![String::new()]), ..Done::default() },
            Done { ids: ids(), unknown: Some("x".into()), ..Done::default() },
        ] {
            assert!(matches!(outcome(done), Err(Unsent::Unknown(_))));
        }
    }
}
