//! One life of an adapter, from its start line to its end.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use channel_protocol::{Down, Event, Light, LineError, Lines, MOST_OPEN, Start, State, Up, VERSION, line};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Intake, MOST_LINES, Ready, Remote, Wire,
    child::{self, Folders, Pipes, Running},
    inward, words,
};
use crate::{
    domain::{
        host::errors::chain,
        platforms::{
            attachments::{Attachment, Todo},
            channels::{Connection, Lamp, Lights},
        },
        rows::Inbound,
    },
    store::{Arrival, Arrived},
    system::{
        clock, failpoint,
        media::{InHand, Media},
    },
};

/// How many lines of an adapter are read in a second; it waits with more.
const LINES_A_SECOND: u32 = 2000;
/// How many lines that can't be read are shown in the log of one life.
const SHOWN: u32 = 10;
/// The rest before something is tried again that the store could not take.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How long its last words may take after its end.
const LAST_WORDS: Duration = Duration::from_millis(300);
const CLOSED: &str = "it closed its output";
/// How often how it stands is written down, at most.
const WRITE_LIGHTS: Duration = Duration::from_millis(200);

/// How a life ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// We stop.
    Stopped,
    /// A person wants it started anew.
    Wanted,
    /// A person has to do something first.
    Refused { why: String, hint: String },
    /// A new start may help.
    Failed(String),
}

/// What is stored in order.
enum Told {
    Event(Box<Event>),
    Moved { n: u64, from: String, to: String },
    Chat(channel_protocol::Chat),
}

/// Lives once.
pub(super) async fn live(remote: &Remote, intake: &Intake, ready: &Ready, stop: &CancellationToken) -> Ended {
    let name = remote.name();
    let folders = Folders::of(&remote.ground, name);
    let start = match start_line(remote, intake, ready, &folders).await {
        Ok(start) => start,
        Err(why) => return why,
    };
    let began = child::start(&remote.ground, &ready.account, &folders);
    let (mut running, Pipes { stdin, stdout }) = match began {
        Ok(began) => began,
        Err(error) => return Ended::Failed(format!("the adapter can't be started: {error}")),
    };
    tracing::info!(channel = name, "an adapter is started");
    let (lines, to_write) = mpsc::channel(MOST_LINES);
    let wire = Wire::new(lines);
    let lights = watch::Sender::new(Lights {
        transport: Connection::Connecting,
        inbound: Lamp::Waiting,
        outbound: Lamp::Waiting,
        why: None,
        hint: None,
    });
    let (told, to_store) = mpsc::channel(usize::try_from(MOST_OPEN).unwrap_or(64) + 1);
    let open = watch::Sender::new(0_u64);
    // They end with this life, however it ends.
    let mut helpers = JoinSet::new();
    helpers.spawn(write_all(stdin, to_write));
    helpers.spawn(show(name.to_owned(), intake.clone(), lights.subscribe()));
    helpers.spawn(
        Storing {
            platform: remote.platform.clone(),
            intake: intake.clone(),
            wire: wire.clone(),
            open: open.clone(),
            media: Arc::clone(&remote.ground.media),
            spool: folders.spool.clone(),
        }
        .run(to_store),
    );
    let mut talk = Talk {
        remote,
        wire: wire.clone(),
        lights,
        told,
        open,
        folders: &folders,
        last_event: 0,
        greeted: false,
        pinged: None,
        pings: 0,
        unreadable: 0,
        refused: None,
    };
    // An empty channel takes it.
    let _ = wire.lines.try_send(start);
    let ended = {
        let listening = talk.listen(stdout);
        tokio::pin!(listening);
        tokio::select! {
            ended = &mut listening => ended,
            how = over(&mut running) => Ended::Failed(how),
            () = stop.cancelled() => {
                remote.wire.send_replace(None);
                // What is under way is heard of to its end.
                tokio::select! {
                    _ = &mut listening => {}
                    () = leave(remote, &wire, &mut running) => {}
                }
                Ended::Stopped
            }
        }
    };
    remote.wire.send_replace(None);
    let ended = match (ended, talk.refused.take()) {
        (Ended::Failed(_), Some((why, hint))) => Ended::Refused { why, hint },
        (Ended::Failed(why), None) if why == CLOSED => {
            Ended::Failed(tokio::time::timeout(LAST_WORDS, running.ended()).await.unwrap_or(why))
        }
        (ended, _) => ended,
    };
    wire.end();
    running.kill().await;
    helpers.shutdown().await;
    ended
}

/// Waits until the process has ended, and until its last words should have been read.
async fn over(running: &mut Running) -> String {
    let how = running.ended().await;
    tokio::time::sleep(LAST_WORDS).await;
    how
}

/// Waits for the answers to what was asked, then asks the adapter to leave, and gives it time to.
async fn leave(remote: &Remote, wire: &Wire, running: &mut Running) {
    let answered = async {
        while !wire.is_idle() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(remote.ground.patience.stop, answered).await;
    if let Some(stop) = line(&Down::Stop {}) {
        let _ = wire.lines.try_send(stop);
    }
    let _ = tokio::time::timeout(remote.ground.patience.stop, running.ended()).await;
}

/// Makes the first line.
async fn start_line(
    remote: &Remote,
    intake: &Intake,
    ready: &Ready,
    folders: &Folders,
) -> Result<Vec<u8>, Ended> {
    let store = intake.store();
    let failed = |error: crate::store::StoreError| {
        Ended::Failed(format!("where the adapter goes on can't be read: {}", chain(&error)))
    };
    store.note_start(remote.name(), clock::now()).await.map_err(failed)?;
    let start = Start {
        v: VERSION,
        instance: remote.name().to_owned(),
        prefix: remote.platform.prefix().to_owned(),
        config: ready.config.clone(),
        cursor: store.cursor_of(remote.name()).await.map_err(failed)?,
        chats: store.newest_ids(remote.name()).await.map_err(failed)?,
        spool: folders.spool.display().to_string(),
        state_dir: folders.state.display().to_string(),
        upstream: ready.account.upstream.clone(),
    };
    let long = || Ended::Refused {
        why: "the settings of this account are longer than a line of the channel protocol may be".into(),
        hint: "shorten its table in g2.toml".into(),
    };
    let without_chats = |start: Start| Start { chats: Default::default(), ..start };
    line(&Down::Start(Box::new(start.clone())))
        .or_else(|| line(&Down::Start(Box::new(without_chats(start)))))
        .ok_or_else(long)
}

/// Writes lines until nobody has any, then closes the adapter's input.
async fn write_all(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Writes down how it stands.
async fn show(name: String, intake: Intake, mut lights: watch::Receiver<Lights>) {
    let mut shown = None;
    loop {
        let now = lights.borrow_and_update().clone();
        if shown.as_ref() != Some(&now) {
            tracing::info!(channel = name, connection = %now.transport, inbound = %now.inbound, outbound = %now.outbound,
                why = now.why.as_deref().unwrap_or("-"), "how an account stands");
            match intake.store().set_lights(name.clone(), now.clone(), clock::now()).await {
                Ok(()) => shown = Some(now),
                Err(error) => {
                    tracing::warn!(channel = name, error = %chain(&error), "how an account stands can't be written down");
                }
            }
        }
        tokio::time::sleep(WRITE_LIGHTS).await;
        if lights.changed().await.is_err() {
            return;
        }
    }
}

/// Stores what is told, one after the other.
struct Storing {
    platform: crate::domain::platforms::addresses::Platform,
    intake: Intake,
    wire: Wire,
    open: watch::Sender<u64>,
    media: Arc<Media>,
    spool: PathBuf,
}

impl Storing {
    async fn run(self, mut told: mpsc::Receiver<Told>) {
        while let Some(what) = told.recv().await {
            let (n, press, cursor, arrival) = match what {
                Told::Event(event) => {
                    let (n, press, cursor) =
                        (event.n, event.kind == channel_protocol::EventKind::Press, cursor_of(&event));
                    (Some(n), press, cursor, inward::arrival(&self.platform, *event, clock::now()))
                }
                Told::Moved { n, from, to } => {
                    let both = inward::chat(&self.platform, &from)
                        .and_then(|_| inward::chat(&self.platform, &to))
                        .map(|_| Arrival::Moved { from: from.clone(), to: to.clone() });
                    (Some(n), false, Default::default(), both)
                }
                Told::Chat(chat) => {
                    let info = inward::info(&chat);
                    let known = inward::chat(&self.platform, &chat.chat)
                        .map(|jid| Arrival::Chat { jid: jid.to_owned(), info });
                    (None, false, Default::default(), known)
                }
            };
            let arrival = arrival.unwrap_or_else(|error| {
                tracing::error!(channel = %self.platform.channel, error = %chain(&error), "an adapter told something that can't be used; it is passed over");
                Arrival::Nothing
            });
            let arrival = self.with_quoted(arrival).await;
            // They stay until the rows that name them are stored.
            let (arrival, _hands) = self.with_files(arrival).await;
            let arrived = loop {
                match self.intake.arrival(&self.platform.channel, cursor.clone(), arrival.clone()).await {
                    Ok(arrived) => break Some(arrived),
                    Err(error) if error.is_worlds_fault() => {
                        tracing::warn!(channel = %self.platform.channel, error = %chain(&error), "an event can't be stored yet; it is tried again");
                        tokio::time::sleep(TRY_AGAIN).await;
                    }
                    // The same event would fail for ever, and keep all others waiting.
                    Err(error) => {
                        tracing::error!(channel = %self.platform.channel, error = %chain(&error), "an event can't be stored; it is passed over");
                        break None;
                    }
                }
            };
            let Some(n) = n else { continue };
            failpoint::reach("channel.stored");
            let told = match arrived {
                Some(Arrived::Pressed(decided)) => Some(decided.says),
                Some(_) if press => Some("this button is no longer in use".to_owned()),
                Some(_) | None => None,
            };
            self.open.send_modify(|open| *open = open.saturating_sub(1));
            let answers = [Some(Down::Took { n }), told.map(|text| Down::Told { n, text })];
            for answer in answers.into_iter().flatten() {
                if let Some(line) = line(&answer)
                    && self.wire.lines.send(line).await.is_err()
                {
                    return;
                }
            }
        }
    }

    /// Takes the files that came with a message at once.
    async fn with_files(&self, mut arrival: Arrival) -> (Arrival, Vec<InHand>) {
        let mut hands = Vec::new();
        if let Arrival::Message(inbound) = &mut arrival {
            for file in &mut inbound.attachments {
                let Some(Todo::Take(place)) = file.todo.clone() else { continue };
                let at = (self.spool.clone(), place);
                let (kept, hand) = self.intake.file(&self.media, &inbound.chat_jid, at, file.clone()).await;
                *file = Attachment { todo: hand.is_some().then_some(Todo::Read), ..kept };
                hands.extend(hand);
            }
        }
        (arrival, hands)
    }

    /// Adds what the message that it answers says, where the platform does not tell.
    async fn with_quoted(&self, arrival: Arrival) -> Arrival {
        let Arrival::Message(inbound) = &arrival else { return arrival };
        let Inbound { chat_jid, reply_to_id: Some(id), reply_to_text: None, .. } = &**inbound else {
            return arrival;
        };
        match self.intake.quoted(chat_jid, id).await {
            Ok(Some(quoted)) => Arrival::Message(Box::new(Inbound {
                reply_to_text: Some(quoted.text),
                reply_to_sender: Some(quoted.sender_name),
                ..(**inbound).clone()
            })),
            Ok(None) | Err(_) => arrival,
        }
    }
}

/// Returns the values that came with an event, as far as they can be kept.
fn cursor_of(event: &Event) -> std::collections::BTreeMap<String, String> {
    let fits = |(key, value): &(&String, &String)| !key.is_empty() && key.len() <= 128 && value.len() <= 4096;
    event.cursor.iter().filter(fits).take(64).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What is heard of an adapter.
struct Talk<'a> {
    remote: &'a Remote,
    wire: Wire,
    lights: watch::Sender<Lights>,
    told: mpsc::Sender<Told>,
    /// How many events are not stored yet.
    open: watch::Sender<u64>,
    folders: &'a Folders,
    last_event: u64,
    greeted: bool,
    /// The question that is not answered yet, and since when.
    pinged: Option<(u64, Instant)>,
    pings: u64,
    unreadable: u32,
    /// It said that it was refused.
    refused: Option<(String, String)>,
}

impl Talk<'_> {
    /// Listens until there is a reason to end it.
    async fn listen(&mut self, mut stdout: ChildStdout) -> Ended {
        let patience = self.remote.ground.patience;
        let mut lines = Lines::default();
        let mut buffer = vec![0; 64 << 10];
        let mut heard = Instant::now();
        let mut next_ping = heard + patience.ping;
        let (mut second, mut count) = (Instant::now(), 0_u32);
        loop {
            let due = match (self.greeted, self.pinged) {
                (false, _) => heard + patience.hello,
                (true, Some((_, since))) => since + patience.pong,
                (true, None) => next_ping,
            };
            tokio::select! {
                read = stdout.read(&mut buffer) => match read {
                    Ok(0) => return self.closed(),
                    Ok(read) => lines.push(&buffer[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => return self.closed(),
                },
                () = tokio::time::sleep_until(due) => match (self.greeted, self.pinged) {
                    (false, _) => return Ended::Failed(format!("it said nothing in {} s", patience.hello.as_secs())),
                    (true, Some(_)) => return Ended::Failed(format!("it did not answer in {} s whether it lives", patience.pong.as_secs_f32())),
                    (true, None) => {
                        self.pings += 1;
                        let ping = line(&Down::Ping { r: self.pings }).unwrap_or_default();
                        // If it does not read, it does not answer.
                        let _ = self.wire.lines.try_send(ping);
                        let now = Instant::now();
                        self.pinged = Some((self.pings, now));
                        next_ping = now + patience.ping;
                        continue;
                    }
                },
            }
            while let Some(read) = lines.next_line::<Up>() {
                count += 1;
                if count >= LINES_A_SECOND {
                    // It waits; nobody else does.
                    tokio::time::sleep_until(second + Duration::from_secs(1)).await;
                    (second, count) = (Instant::now(), 0);
                }
                heard = Instant::now();
                let ended = match read {
                    Ok(up) => self.hear(up).await,
                    Err(LineError::Unreadable(why)) => {
                        self.unreadable += 1;
                        if self.unreadable <= SHOWN {
                            tracing::warn!(
                                channel = self.remote.name(),
                                why,
                                "a line of an adapter can't be read; it is passed over"
                            );
                        }
                        None
                    }
                    Err(LineError::TooLong) => Some(Ended::Failed(LineError::TooLong.to_string())),
                };
                if let Some(ended) = ended {
                    return ended;
                }
            }
        }
    }

    fn closed(&self) -> Ended {
        Ended::Failed(CLOSED.into())
    }

    async fn hear(&mut self, up: Up) -> Option<Ended> {
        match up {
            Up::Hello(hello) => return self.greet(*hello),
            Up::State(state) => return self.stands(&state),
            Up::Pong { r } => {
                if self.pinged.is_some_and(|(asked, _)| asked == r) {
                    self.pinged = None;
                }
            }
            Up::Event(event) => {
                let n = event.n;
                return self.tell(n, Told::Event(event)).await;
            }
            Up::ChatMoved { n, from, to } => return self.tell(n, Told::Moved { n, from, to }).await,
            Up::Chat(chat) => drop(self.told.send(Told::Chat(chat)).await),
            Up::Pair(pair) => {
                let text = serde_json::to_vec(&pair).unwrap_or_default();
                match self.folders.keep_pair(&text) {
                    Ok(()) => tracing::info!(
                        channel = self.remote.name(),
                        "the account is to be linked: `g2 channels pair` shows how"
                    ),
                    Err(error) => {
                        tracing::warn!(channel = self.remote.name(), error = %chain(&error), "what links the account can't be kept")
                    }
                }
            }
            Up::Done(ref done) => self.wire.answer(done.r, up.clone()),
            Up::Found(ref found) => self.wire.answer(found.r, up.clone()),
            Up::ChatOf { r, .. } | Up::Chats { r, .. } | Up::Fetched { r, .. } => self.wire.answer(r, up),
            Up::Unknown => {}
        }
        None
    }

    fn greet(&mut self, hello: channel_protocol::Hello) -> Option<Ended> {
        if hello.v != VERSION {
            return Some(Ended::Refused {
                why: format!(
                    "the adapter speaks version {} of the channel protocol, and G2 version {VERSION}",
                    hello.v
                ),
                hint: "install the adapter of this version of G2".into(),
            });
        }
        let shown = words(&hello.adapter).unwrap_or_default();
        tracing::info!(channel = self.remote.name(), adapter = shown, "an adapter is connected");
        self.remote.greet(hello);
        self.greeted = true;
        if self.lights.borrow().transport == Connection::Connecting {
            self.lights.send_modify(|lights| {
                (lights.transport, lights.inbound, lights.outbound) =
                    (Connection::Connected, Lamp::Ok, Lamp::Ok);
            });
        }
        self.open_or_close();
        None
    }

    fn stands(&mut self, state: &State) -> Option<Ended> {
        let lamp = |light| match light {
            Light::Ok => Lamp::Ok,
            Light::Waiting => Lamp::Waiting,
            Light::Failing => Lamp::Failing,
            Light::Refused => Lamp::Refused,
            Light::Unknown => Lamp::Unknown,
        };
        let (why, hint) = (words(&state.why), words(&state.hint));
        if state.transport == Light::Refused {
            self.refused = Some((why.unwrap_or_default(), hint.unwrap_or_default()));
            return Some(Ended::Failed("it was refused".into()));
        }
        let transport = match state.transport {
            Light::Ok => Connection::Connected,
            Light::Unknown if self.greeted => Connection::Connected,
            Light::Waiting | Light::Unknown => Connection::Connecting,
            Light::Failing => Connection::Offline,
            Light::Refused => Connection::Refused,
        };
        let lights =
            Lights { transport, inbound: lamp(state.inbound), outbound: lamp(state.outbound), why, hint };
        self.lights.send_replace(lights);
        self.open_or_close();
        None
    }

    /// Lets texts go out while it is connected, and keeps them otherwise.
    fn open_or_close(&self) {
        let (transport, outbound) = {
            let lights = self.lights.borrow();
            (lights.transport, lights.outbound)
        };
        let open = self.greeted
            && transport == Connection::Connected
            && !matches!(outbound, Lamp::Refused | Lamp::Failing);
        let is_open = self.remote.wire.borrow().is_some();
        if open != is_open {
            self.remote.wire.send_replace(open.then(|| self.wire.clone()));
        }
    }

    /// Has something stored that is answered by `took`.
    async fn tell(&mut self, n: u64, told: Told) -> Option<Ended> {
        if n <= self.last_event {
            return Some(Ended::Failed(format!("its event {n} came after {}", self.last_event)));
        }
        self.last_event = n;
        if *self.open.borrow() >= MOST_OPEN {
            return Some(Ended::Failed(format!(
                "it told more than {MOST_OPEN} events that were not stored yet"
            )));
        }
        failpoint::reach("channel.told");
        self.open.send_modify(|open| *open += 1);
        let _ = self.told.send(told).await;
        None
    }
}
