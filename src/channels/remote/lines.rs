//! The lines of an adapter: within bounds, and in an order that the protocol allows.

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

use super::{Patience, Remote, child::Folders, life::Ended, pace::Share, storing::Told, wire::Wire, words};
use crate::{
    domain::{
        platforms::channels::{Connection, Lamp, Lights},
        shown::{errors::chain, screen},
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
    pub(super) stage: Stage,
    pub(super) pings: u64,
    pub(super) unreadable: u32,
    pub(super) pairs: u32,
    /// What it may not say again.
    pub(super) secrets: Vec<String>,
}

/// How far an adapter is, as its silence is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not said who it is, and may be silent until then.
    Begins { until: Instant },
    /// It is asked then whether it lives.
    Lives { ask: Instant },
    /// It was asked, and is to answer until then. It is asked again after `ask`.
    Asked { r: u64, until: Instant, ask: Instant },
}

/// What follows from a silence.
#[derive(Debug)]
enum Silence {
    /// It is asked whether it lives.
    Asks,
    /// It has been silent for too long.
    Ends(Ended),
}

impl Stage {
    /// One that has just been started.
    pub(super) fn new(patience: Patience) -> Self {
        Self::Begins { until: Instant::now() + patience.hello }
    }

    fn is_greeted(self) -> bool {
        !matches!(self, Self::Begins { .. })
    }

    /// Returns until when it may be silent.
    fn due(self) -> Instant {
        match self {
            Self::Begins { until } | Self::Asked { until, .. } => until,
            Self::Lives { ask } => ask,
        }
    }

    /// It has said something.
    fn heard(&mut self, now: Instant, patience: Patience) {
        if let Self::Begins { until } = self {
            *until = now + patience.hello;
        }
    }

    /// It has said who it is.
    fn greeted(&mut self, now: Instant, patience: Patience) {
        if let Self::Begins { .. } = self {
            *self = Self::Lives { ask: now + patience.ping };
        }
    }

    /// It has answered a question.
    fn answered(&mut self, answer: u64) {
        if let Self::Asked { r, ask, .. } = *self
            && r == answer
        {
            *self = Self::Lives { ask };
        }
    }

    /// It was silent for as long as it may be. `r`: the number of the next question.
    fn silent(&mut self, r: u64, now: Instant, patience: Patience) -> Silence {
        match *self {
            Self::Begins { .. } => {
                Silence::Ends(Ended::Failed(format!("it said nothing in {} s", patience.hello.as_secs())))
            }
            Self::Asked { .. } => Silence::Ends(Ended::Failed(format!(
                "it did not answer in {} s whether it lives",
                patience.pong.as_secs_f32()
            ))),
            Self::Lives { .. } => {
                *self = Self::Asked { r, until: now + patience.pong, ask: now + patience.ping };
                Silence::Asks
            }
        }
    }
}

impl Talk<'_> {
    /// Listens until there is a reason to end it.
    pub(super) async fn listen(&mut self, mut stdout: ChildStdout) -> Ended {
        let patience = self.remote.ground.patience;
        let mut lines = Lines::default();
        let mut buffer = vec![0; 64 << 10];
        let (mut lines_left, mut bytes_left) =
            (Share::a_second(LINES_A_SECOND), Share::a_second(BYTES_A_SECOND));
        loop {
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
                () = tokio::time::sleep_until(self.stage.due()) => {
                    self.pings += 1;
                    match self.stage.silent(self.pings, Instant::now(), patience) {
                        Silence::Ends(ended) => return ended,
                        Silence::Asks => {
                            let ping = line(&Down::Ping { r: self.pings }).unwrap_or_default();
                            // If it does not read, it does not answer.
                            let _ = self.wire.lines.try_send(ping);
                        }
                    }
                    continue;
                }
            }
            while let Some(read) = lines.next_line::<Up>() {
                // It waits; nobody else does.
                lines_left.take(1).await;
                let ended = match read {
                    Ok(up) => {
                        self.stage.heard(Instant::now(), patience);
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
                                let unread = format!("a line of the adapter: {why}");
                                let nothing =
                                    Event { n, kind: EventKind::Nothing, unread, ..Event::default() };
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
            Up::Pong { r } => self.stage.answered(r),
            Up::Event(event) => {
                let n = event.n;
                return self.tell(n, Told::Event(event)).await;
            }
            Up::ChatMoved { n, from, to } => return self.tell(n, Told::Moved { n, from, to }).await,
            Up::PersonIs { n, id, also } => return self.tell(n, Told::Person { n, id, also }).await,
            // Facts are told again in the next life; who stores them ends with this one.
            Up::Chat(chat) => drop(self.told.send(Told::Chat(chat)).await),
            Up::Pair(pair) => {
                self.pairs += 1;
                if self.pairs > MOST_PAIRS {
                    return Some(Ended::Failed(format!(
                        "it told more than {MOST_PAIRS} ways to link the account"
                    )));
                }
                let text = serde_json::to_vec(&pair).map_err(io::Error::other);
                match text.and_then(|text| self.folders.keep_pair(&text)) {
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
            Up::ChatOf { r, .. }
            | Up::Chats { r, .. }
            | Up::Fetched { r, .. }
            | Up::Response(channel_protocol::Response { r, .. }) => self.wire.answer(r, up),
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
        if !self.stage.is_greeted() {
            let shown = words(&hello.adapter).unwrap_or_default();
            tracing::info!(channel = self.remote.name(), adapter = shown, "an adapter is connected");
        }
        let hears_all = Some(hello.hears_all.unwrap_or(true));
        self.remote.greet(hello);
        self.lights
            .send_if_modified(|lights| std::mem::replace(&mut lights.hears_all, hears_all) != hears_all);
        self.stage.greeted(Instant::now(), self.remote.ground.patience);
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
        let said = |text: &str| words(&screen::without(text, &self.secrets));
        let (why, hint) = (said(&state.why), said(&state.hint));
        if state.transport == Light::Refused {
            let (why, hint) = (why.unwrap_or_default(), hint.unwrap_or_default());
            return Some(Ended::Refused { why, hint });
        }
        let transport = match state.transport {
            Light::Ok => Connection::Connected,
            Light::Unknown if self.stage.is_greeted() => Connection::Connected,
            Light::Waiting | Light::Unknown => Connection::Connecting,
            Light::Failing => Connection::Offline,
            Light::Refused => Connection::Refused,
        };
        // As it said in `hello`; a state says nothing about it.
        let hears_all = self.lights.borrow().hears_all;
        let lights = Lights {
            transport,
            inbound: lamp(state.inbound),
            outbound: lamp(state.outbound),
            why,
            hint,
            hears_all,
        };
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
        let open = self.stage.is_greeted()
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
        // Who stores it ends before us once the adapter reads nothing more. The next life is told it again.
        let is_taken = self.told.send(told).await.is_ok();
        (!is_taken).then(|| Ended::Failed("it reads nothing more of what it is told".into()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PATIENCE: Patience = Patience {
        hello: Duration::from_secs(120),
        ping: Duration::from_secs(30),
        pong: Duration::from_secs(10),
        stop: Duration::from_secs(5),
    };

    #[tokio::test(start_paused = true)]
    async fn an_adapter_is_asked_each_half_minute_whether_it_lives_and_ends_where_it_is_silent() {
        let began = Instant::now();
        let at = |secs| began + Duration::from_secs(secs);
        let mut stage = Stage::new(PATIENCE);
        assert_eq!((stage.due(), stage.is_greeted()), (at(120), false));
        stage.heard(at(7), PATIENCE);
        assert_eq!(stage.due(), at(127), "each word of it counts");
        let mut silent = stage;
        assert!(matches!(silent.silent(1, at(127), PATIENCE), Silence::Ends(Ended::Failed(_))));
        stage.greeted(at(8), PATIENCE);
        stage.heard(at(9), PATIENCE);
        stage.greeted(at(9), PATIENCE);
        assert_eq!((stage.due(), stage.is_greeted()), (at(38), true));
        assert!(matches!(stage.silent(1, at(38), PATIENCE), Silence::Asks));
        assert_eq!((stage.due(), stage.is_greeted()), (at(48), true));
        stage.answered(7);
        assert_eq!(stage.due(), at(48), "that was another question");
        let mut silent = stage;
        assert!(matches!(silent.silent(2, at(48), PATIENCE), Silence::Ends(Ended::Failed(_))));
        stage.answered(1);
        assert_eq!(stage.due(), at(68));
    }
}
