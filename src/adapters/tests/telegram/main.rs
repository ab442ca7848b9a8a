//! The real program against the strict server: what comes in, what goes out, and how the account stands.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "starts the program, and reads its spool"
)]

mod account;
mod foreign;
mod incoming;
mod outgoing;
#[path = "../suite/mod.rs"]
mod suite;
#[path = "../texts/mod.rs"]
mod texts;
mod tls;
#[path = "../suite/told.rs"]
mod told;

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use channel_protocol::{Done, Event, EventKind, Hello, Light, State, Up};
use g2_fakes::{
    BROKEN, HALF,
    telegram::{ADA, FORUM, Fake, GROUP, TOKEN},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, and the part of the daemon.
struct Account {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Up>,
    log: Receiver<String>,
    home: TempDir,
    /// As the daemon would have it.
    cursor: BTreeMap<String, String>,
    states: Vec<State>,
    r: u64,
}

impl Account {
    fn start(fake: &Fake) -> Self {
        Self::start_with(fake, json!({"token": TOKEN}), BTreeMap::new(), tempfile::tempdir().unwrap())
    }

    /// Starts, and waits until it polls.
    fn polling(fake: &Fake) -> (Self, Hello) {
        let mut account = Self::start(fake);
        let hello = account.hello();
        account.until_polling();
        (account, hello)
    }

    fn start_with(fake: &Fake, config: Value, cursor: BTreeMap<String, String>, home: TempDir) -> Self {
        Self::start_at(&fake.url, &[], config, cursor, home)
    }

    /// Starts with chats that the daemon knows.
    fn start_in(fake: &Fake, chats: Value) -> Self {
        let (config, home) = (json!({"token": TOKEN}), tempfile::tempdir().unwrap());
        let mut this = Self::spawn(&[], BTreeMap::new(), home);
        this.begin(&fake.url, config, chats);
        this
    }

    /// Starts with these variables in its environment.
    fn start_at(
        url: &str,
        variables: &[(&str, &str)],
        config: Value,
        cursor: BTreeMap<String, String>,
        home: TempDir,
    ) -> Self {
        let mut this = Self::spawn(variables, cursor, home);
        this.begin(url, config, json!({}));
        this
    }

    fn spawn(variables: &[(&str, &str)], cursor: BTreeMap<String, String>, home: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2-adapters"));
        command.arg("telegram").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let (tell, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                let up = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if tell.send(up).is_err() {
                    return;
                }
            }
        });
        let (say, log) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| drop(say.send(line))));
        for folder in ["spool/in", "spool/out", "state"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let input = child.stdin.take();
        Self { child, input, lines, log, home, cursor, states: Vec::new(), r: 0 }
    }

    /// Says the first line.
    fn begin(&mut self, url: &str, config: Value, chats: Value) {
        let start = json!({
            "op": "start", "v": 1, "instance": "telegram", "prefix": "tg", "config": config, "cursor": self.cursor, "chats": chats,
            "spool": self.home.path().join("spool"), "state_dir": self.home.path().join("state"), "upstream": url,
        });
        self.say(&start);
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line that is no state.
    fn next(&mut self) -> Up {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(Up::State(state)) => self.states.push(state),
                Ok(up) => return up,
                Err(error) => {
                    panic!("{error}: {:?} {:?}", self.states, self.log.try_iter().collect::<Vec<_>>())
                }
            }
        }
    }

    fn hello(&mut self) -> Hello {
        match self.next() {
            Up::Hello(hello) => *hello,
            other => panic!("{other:?}"),
        }
    }

    fn state(&mut self, is: impl Fn(&State) -> bool) -> State {
        loop {
            if let Some(state) = self.states.iter().rev().find(|state| is(state)) {
                return state.clone();
            }
            match self.lines.recv_timeout(PATIENCE) {
                Ok(Up::State(state)) => self.states.push(state),
                other => panic!("{other:?} after {:?}", self.states),
            }
        }
    }

    fn until_polling(&mut self) {
        self.state(|state| state.inbound == Light::Ok);
    }

    /// The next event, which is not stored yet.
    fn told(&mut self) -> Event {
        loop {
            match self.next() {
                Up::Event(event) => return *event,
                Up::Chat(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn took(&mut self, event: &Event) {
        self.cursor.extend(event.cursor.clone());
        self.say(&json!({"op": "took", "n": event.n}));
    }

    /// The next event that means something; each is stored.
    fn event(&mut self) -> Event {
        loop {
            let event = self.told();
            self.took(&event);
            if event.kind != EventKind::Nothing {
                return event;
            }
        }
    }

    /// Gives an order, and returns how it ended.
    fn order(&mut self, order: &Value) -> Done {
        self.r += 1;
        let mut order = order.clone();
        order["r"] = self.r.into();
        order["key"] = format!("k.{}", self.r).into();
        self.say(&order);
        match self.next() {
            Up::Done(done) if done.r == self.r => done,
            other => panic!("{other:?}"),
        }
    }

    fn send(&mut self, chat: i64, more: Value) -> Done {
        let mut send = json!({"op": "send", "chat": format!("tg:{chat}"), "text": ""});
        send.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.order(&send)
    }

    /// Sends a text that must go, and returns its id.
    fn sent(&mut self, chat: i64, text: &str) -> String {
        self.send(chat, json!({"text": text})).ids.unwrap().remove(0)
    }

    fn amend(&mut self, chat: i64, id: &str, more: Value) -> Done {
        let mut amend = json!({"op": "amend", "chat": format!("tg:{chat}"), "id": id});
        amend.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.order(&amend)
    }

    /// Kills it, and starts it again with what the daemon has stored.
    fn killed(mut self, fake: &Fake) -> Self {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let home = std::mem::replace(&mut self.home, tempfile::tempdir().unwrap());
        let mut next =
            Self::start_with(fake, json!({"token": TOKEN}), std::mem::take(&mut self.cursor), home);
        next.hello();
        next
    }

    /// One that is connected, and passes over what it can't read after three tries, without the minute.
    fn soon_sure(fake: &Fake) -> Self {
        let config = json!({"token": TOKEN, "sure_after_s": 0});
        let home = tempfile::tempdir().unwrap();
        let mut account = Self::start_with(fake, config, BTreeMap::new(), home);
        account.hello();
        account.until_polling();
        account
    }

    /// Waits for a line of its log.
    fn logs(&self, part: &str) {
        while !self.log.recv_timeout(PATIENCE).unwrap().contains(part) {}
    }

    fn exit(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
