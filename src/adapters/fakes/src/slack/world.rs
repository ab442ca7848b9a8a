//! What the Slack of the tests knows: people, channels, messages and sockets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

pub const APP_TOKEN: &str = "xapp-1-A900-token-of-the-app";
pub const BOT_TOKEN: &str = "xoxb-900-token-of-the-bot";
pub const TEAM: &str = "T1";
pub const BOT: &str = "U900";
pub const BOT_ID: &str = "B900";
pub const APP: &str = "A900";
/// Between two messages, µs.
const STEP: u64 = 10_000_000;
/// Messages begin on 2026-11-01, µs since 1970.
const BEGIN: u64 = 1_793_491_200_000_100;
/// The scopes that the app has at first.
const SCOPES: &str = "channels:history,channels:read,chat:write,commands,files:read,files:write,groups:history,groups:read,\
    im:history,im:read,im:write,mpim:history,mpim:read,reactions:read,reactions:write,users:read";

/// What a socket is told to write.
pub enum Write {
    Line(String),
    /// It is closed.
    Close,
    /// It goes without a word.
    Cut,
}

/// An envelope that was not taken yet.
pub struct Envelope {
    pub told: Value,
    /// The socket that it was told on.
    pub on: Option<u64>,
}

pub struct Place {
    pub name: String,
    pub person: Option<String>,
    pub messages: BTreeMap<u64, Value>,
    /// We are not in it.
    pub closed: bool,
    pub archived: bool,
}

/// What is done to the next request that fits, instead of or after serving it.
#[derive(Clone)]
pub enum Fault {
    /// A status, `Retry-After`, and a body.
    Answer(u16, Option<&'static str>, Value),
    /// The connection ends before it is served.
    CutBefore,
    /// The connection ends after it was served.
    CutAfter,
}

/// A file, and what is known of it.
pub struct File {
    pub about: Value,
    pub bytes: Vec<u8>,
}

pub struct World {
    pub rest: String,
    pub socket: String,
    pub app_token: String,
    pub bot_token: String,
    pub scopes: BTreeSet<String>,
    pub places: BTreeMap<String, Place>,
    pub people: BTreeMap<String, Value>,
    pub sockets: BTreeMap<u64, UnboundedSender<Write>>,
    pub envelopes: VecDeque<(String, Envelope)>,
    /// Envelopes that were taken, in order, each with the words that went with that.
    pub taken: Vec<(String, Value)>,
    pub tickets: BTreeSet<String>,
    pub files: BTreeMap<String, File>,
    /// Files whose bytes are there, and that nothing shows.
    pub uploads: BTreeMap<String, (String, Vec<u8>)>,
    /// What was asked, in order.
    pub asked: Vec<String>,
    pub faults: VecDeque<(String, Fault)>,
    /// What single persons were told: the person and the text.
    pub whispers: Vec<(String, String)>,
    /// Connections to the socket wait.
    pub away: bool,
    /// How many sockets were opened, and how many stood at once at most.
    pub opened: usize,
    pub most_at_once: usize,
    /// How many other programs have a connection of the app.
    pub others: usize,
    pub next: u64,
    pub step: u64,
    pub begin: u64,
    /// Whether times are made by this machine's clock.
    pub live: bool,
    /// How many answers of `files.info` do not say yet where a file is shown.
    pub slow_shares: usize,
    /// How many answers lead from a file's address to another one.
    pub moves: usize,
    /// Another server answers all but what belongs to sockets.
    pub beyond: Option<String>,
}

fn person(id: &str, name: &str, display: &str, bot: bool) -> (String, Value) {
    let about = json!({"id": id, "team_id": TEAM, "name": name, "real_name": display, "deleted": false, "is_bot": bot,
        "profile": {"display_name": display, "real_name": display}});
    (id.to_owned(), about)
}

impl World {
    #[must_use]
    pub fn new(rest: String, socket: String) -> Self {
        let people = [
            person(BOT, "g2", "G2", true),
            person("U100", "ada", "Ada", false),
            person("U101", "eve", "Evie", false),
        ];
        let mut this = Self {
            rest,
            socket,
            app_token: APP_TOKEN.into(),
            bot_token: BOT_TOKEN.into(),
            scopes: SCOPES.split(',').map(str::to_owned).collect(),
            places: BTreeMap::new(),
            people: people.into_iter().collect(),
            sockets: BTreeMap::new(),
            envelopes: VecDeque::new(),
            taken: Vec::new(),
            tickets: BTreeSet::new(),
            files: BTreeMap::new(),
            uploads: BTreeMap::new(),
            asked: Vec::new(),
            faults: VecDeque::new(),
            whispers: Vec::new(),
            away: false,
            opened: 0,
            most_at_once: 0,
            others: 0,
            next: 1,
            step: STEP,
            begin: BEGIN,
            live: false,
            slow_shares: 0,
            moves: 0,
            beyond: None,
        };
        this.open("C700", "general", None);
        this.open("C701", "random", None);
        this
    }

    pub fn open(&mut self, id: &str, name: &str, person: Option<&str>) {
        let place = Place {
            name: name.to_owned(),
            person: person.map(str::to_owned),
            messages: BTreeMap::new(),
            closed: false,
            archived: false,
        };
        self.places.insert(id.to_owned(), place);
    }

    /// Returns the next time, µs: later than all before.
    pub fn time(&mut self) -> u64 {
        self.next += 1;
        if self.live {
            let now = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap();
            self.begin = now.max(self.begin + 1);
            return self.begin;
        }
        self.begin + self.next * self.step
    }

    #[must_use]
    pub fn ts(at: u64) -> String {
        format!("{}.{:06}", at / 1_000_000, at % 1_000_000)
    }

    #[must_use]
    pub fn at(ts: &str) -> u64 {
        let (seconds, rest) = ts.split_once('.').unwrap_or((ts, ""));
        let rest = format!("{rest:0<6}");
        seconds.parse::<u64>().unwrap_or(0) * 1_000_000 + rest.parse::<u64>().unwrap_or(0)
    }

    /// Returns what Slack says of a channel.
    #[must_use]
    pub fn channel(&self, id: &str) -> Value {
        let place = &self.places[id];
        let direct = place.person.is_some();
        let mut about = json!({"id": id, "created": BEGIN / 1_000_000, "is_im": direct, "is_mpim": false, "is_archived": place.archived,
            "is_channel": !direct, "is_group": false, "is_private": direct});
        match &place.person {
            Some(person) => about["user"] = person.as_str().into(),
            None => {
                about["name"] = place.name.as_str().into();
                about["is_member"] = (!place.closed).into();
            }
        }
        about
    }

    /// Somebody says something. Returns its time.
    pub fn say(&mut self, channel: &str, who: &str, text: &str, more: &Value) -> String {
        let at = self.time();
        let ts = Self::ts(at);
        let mut message = json!({"type": "message", "user": who, "text": text, "ts": ts, "team": TEAM,
            "client_msg_id": format!("m-{at}")});
        message.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.keep(channel, at, message.clone());
        let told = self.told(channel, message);
        self.dispatch(told);
        ts
    }

    /// Keeps a message, and notes it at the root of its thread.
    pub fn keep(&mut self, channel: &str, at: u64, message: Value) {
        let place = self.places.get_mut(channel).unwrap_or_else(|| panic!("no channel {channel}"));
        if let Some(root) = message["thread_ts"].as_str().filter(|root| *root != message["ts"])
            && let Some(root) = place.messages.get_mut(&Self::at(root))
        {
            root["thread_ts"] = root["ts"].clone();
            root["reply_count"] = (root["reply_count"].as_u64().unwrap_or(0) + 1).into();
            root["latest_reply"] = message["ts"].clone();
        }
        place.messages.insert(at, message);
    }

    /// Returns a message as an event tells it.
    #[must_use]
    pub fn told(&self, channel: &str, mut message: Value) -> Value {
        message["channel"] = channel.into();
        message["event_ts"] = message["ts"].clone();
        message["channel_type"] = if self.places[channel].person.is_some() { "im" } else { "channel" }.into();
        if let Some(root) = message["thread_ts"].as_str() {
            let root = self.places[channel].messages.get(&Self::at(root)).cloned().unwrap_or_default();
            message["parent_user_id"] = root["user"].clone();
        }
        message.as_object_mut().unwrap().remove("metadata");
        message
    }

    /// Tells an event.
    pub fn dispatch(&mut self, event: Value) {
        self.next += 1;
        let payload = json!({"token": "verification", "team_id": TEAM, "api_app_id": APP, "event": event, "type": "event_callback",
            "event_id": format!("Ev{}", self.next), "event_time": self.begin / 1_000_000, "is_ext_shared_channel": false,
            "authorizations": [{"enterprise_id": null, "team_id": TEAM, "user_id": BOT, "is_bot": true, "is_enterprise_install": false}]});
        self.envelope("events_api", payload);
    }

    /// Puts something into an envelope and tells it on the newest socket; without one it waits.
    pub fn envelope(&mut self, kind: &str, payload: Value) -> String {
        self.next += 1;
        let id = format!("envelope-{}", self.next);
        let mut told = json!({"envelope_id": id, "type": kind, "payload": payload,
            "accepts_response_payload": kind != "events_api"});
        if kind == "events_api" {
            told["retry_attempt"] = 0.into();
            told["retry_reason"] = "".into();
        }
        let on = self.write(crate::on_the_wire(&told));
        self.envelopes.push_back((id.clone(), Envelope { told, on }));
        id
    }

    /// Writes a line to the newest socket that stands.
    fn write(&mut self, line: String) -> Option<u64> {
        while let Some((id, socket)) = self.sockets.last_key_value() {
            let id = *id;
            if socket.send(Write::Line(line.clone())).is_ok() {
                return Some(id);
            }
            self.sockets.remove(&id);
        }
        None
    }

    /// Tells again what was not taken: all of it, or what a socket that is gone was told.
    pub fn again(&mut self, gone: Option<u64>) {
        let all: Vec<usize> = (0..self.envelopes.len())
            .filter(|n| {
                gone.is_none() || self.envelopes[*n].1.on == gone || self.envelopes[*n].1.on.is_none()
            })
            .collect();
        for n in all {
            let told = &mut self.envelopes[n].1.told;
            // Presses and commands are told once.
            if told["type"] == "events_api" {
                told["retry_attempt"] = (told["retry_attempt"].as_u64().unwrap_or(0) + 1).into();
                told["retry_reason"] = "timeout".into();
                let line = crate::on_the_wire(told);
                let on = self.write(line);
                self.envelopes[n].1.on = on;
            }
        }
    }
}
