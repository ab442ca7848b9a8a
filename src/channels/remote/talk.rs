//! What is heard of an adapter, line by line: within bounds, and in an order that the protocol allows.

use std::io;

use channel_protocol::{
    Down, Event, EventKind, Light, LineError, Lines, MOST_OPEN, State, Up, VERSION, line,
};
use tokio::{
    io::AsyncReadExt as _,
    process::ChildStdout,
    sync::{mpsc, watch},
    time::Instant,
};

use super::{Remote, child::Folders, life::Ended, pace::Share, storing::Told, wire::Wire, words};
use crate::{
    domain::{
        host::errors::chain,
        platforms::channels::{Connection, Lamp, Lights},
    },
    system::failpoint,
};

/// How many lines of an adapter are read in a second; it waits with more.
const LINES_A_SECOND: u64 = 2000;
/// How many bytes of them.
const BYTES_A_SECOND: u64 = 16 << 20;
/// How many lines of one kind of fault are shown in the log of one life; the same of links.
pub(super) const SHOWN: u32 = 10;
/// How many ways to link the account one life may tell. Platforms give a new one each 20 s or so.
const MOST_PAIRS: u32 = 1000;
/// How a life ends whose adapter says nothing more.
pub(super) const CLOSED: &str = "it closed its output";

/// What is heard of an adapter.
pub(super) struct Talk<'a> {
    pub(super) remote: &'a Remote,
    pub(super) wire: Wire,
    pub(super) lights: watch::Sender<Lights>,
    pub(super) told: mpsc::Sender<Told>,
    /// How many events are not stored yet.
    pub(super) open: watch::Sender<u64>,
    pub(super) folders: &'a Folders,
    pub(super) last_event: u64,
    pub(super) greeted: bool,
    /// The question that is not answered yet, and since when.
    pub(super) pinged: Option<(u64, Instant)>,
    pub(super) pings: u64,
    pub(super) unreadable: u32,
    pub(super) pairs: u32,
    /// It said that it was refused.
    pub(super) refused: Option<(String, String)>,
}

impl Talk<'_> {
    /// Listens until there is a reason to end it.
    pub(super) async fn listen(&mut self, mut stdout: ChildStdout) -> Ended {
        let patience = self.remote.ground.patience;
        let mut lines = Lines::default();
        let mut buffer = vec![0; 64 << 10];
        let mut heard = Instant::now();
        let mut next_ping = heard + patience.ping;
        let (mut lines_left, mut bytes_left) =
            (Share::a_second(LINES_A_SECOND), Share::a_second(BYTES_A_SECOND));
        loop {
            let due = match (self.greeted, self.pinged) {
                (false, _) => heard + patience.hello,
                (true, Some((_, since))) => since + patience.pong,
                (true, None) => next_ping,
            };
            tokio::select! {
                read = stdout.read(&mut buffer) => match read {
                    Ok(0) => return self.closed(),
                    Ok(read) => {
                        lines.push(&buffer[..read]);
                        bytes_left.take(read as u64).await;
                    }
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
                // It waits; nobody else does.
                lines_left.take(1).await;
                let ended = match read {
                    Ok(up) => {
                        heard = Instant::now();
                        self.hear(up).await
                    }
                    Err(LineError::Unreadable { why, event }) => {
                        self.unreadable += 1;
                        if self.unreadable <= SHOWN {
                            tracing::warn!(
                                channel = self.remote.name(),
                                why,
                                "a line of an adapter can't be read; it is passed over"
                            );
                        }
                        // Its adapter waits for the answer, and tells nothing more after 64 of them.
                        match event {
                            Some(n) => {
                                let nothing = Event { n, kind: EventKind::Nothing, ..Event::default() };
                                self.tell(n, Told::Event(Box::new(nothing))).await
                            }
                            None => None,
                        }
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
                self.pairs += 1;
                if self.pairs > MOST_PAIRS {
                    return Some(Ended::Failed(format!(
                        "it told more than {MOST_PAIRS} ways to link the account"
                    )));
                }
                let text = serde_json::to_vec(&pair).unwrap_or_default();
                match self.folders.keep_pair(&text) {
                    _ if self.pairs > SHOWN => {}
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
        if !self.greeted {
            let shown = words(&hello.adapter).unwrap_or_default();
            tracing::info!(channel = self.remote.name(), adapter = shown, "an adapter is connected");
        }
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
        // Who stores it ends before us by a fault of our own alone. The next life is told it again.
        let is_taken = self.told.send(told).await.is_ok();
        (!is_taken).then(|| Ended::Failed("a fault of our own came over an event; the log says more".into()))
    }
}
