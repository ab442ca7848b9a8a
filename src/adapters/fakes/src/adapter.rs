//! An adapter's process, as the daemon handles it.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use channel_protocol::{Done, Event, EventKind, Hello, Light, Lines, Response, State, Up};
use serde_json::{Value, json};

/// A process that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Adapter {
    program: &'static str,
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Up>,
    start: Value,
    dir: tempfile::TempDir,
    /// What its environment has.
    variables: Vec<(&'static str, String)>,
    /// Events that came while something else was waited for.
    waiting: Vec<Event>,
}

impl Adapter {
    /// Starts `g2-channels` for an account: `instance`, `prefix`, `config`, `cursor`, `upstream`.
    #[must_use]
    pub fn start(program: &'static str, account: Value) -> Self {
        Self::start_in(program, account, Vec::new())
    }

    /// The same with an environment.
    #[must_use]
    pub fn start_in(program: &'static str, account: Value, variables: Vec<(&'static str, String)>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut start = account;
        start["op"] = "start".into();
        start["v"] = 1.into();
        for (name, folder) in [("spool", "spool/in"), ("spool", "spool/out"), ("state_dir", "state")] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
            let at = dir.path().join(folder.split('/').next().unwrap());
            start[name] = at.to_str().unwrap().into();
        }
        Self::run(program, start, dir, variables)
    }

    fn run(
        program: &'static str,
        start: Value,
        dir: tempfile::TempDir,
        variables: Vec<(&'static str, String)>,
    ) -> Self {
        let mut process = Command::new(program)
            .arg(start["instance"].as_str().unwrap())
            .env_clear()
            .envs(variables.clone())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        let mut stdout = process.stdout.take().unwrap();
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            use std::io::Read as _;
            let (mut found, mut buffer) = (Lines::default(), [0; 4096]);
            while let Ok(read @ 1..) = stdout.read(&mut buffer) {
                found.push(&buffer[..read]);
                while let Some(line) = found.next_line::<Up>() {
                    if tell.send(line.unwrap()).is_err() {
                        return;
                    }
                }
            }
        });
        let mut this = Self { program, process, stdin, lines, start, dir, variables, waiting: Vec::new() };
        let start = this.start.clone();
        this.say(&start);
        this
    }

    /// Starts it anew where it was, as after a death, from a place in the history.
    pub fn again(mut self, cursor: &BTreeMap<String, String>) -> Self {
        self.kill();
        let mut start = std::mem::take(&mut self.start);
        start["cursor"] = json!(cursor);
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        let variables = std::mem::take(&mut self.variables);
        Self::run(self.program, start, dir, variables)
    }

    /// How much memory it takes for itself now, KiB: without the program, which is larger where it is built for tests.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub fn spool(&self) -> PathBuf {
        Path::new(self.start["spool"].as_str().unwrap()).to_owned()
    }

    pub fn say(&mut self, line: &Value) {
        let _ = self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes());
    }

    pub fn took(&mut self, n: u64) {
        self.say(&json!({"op": "took", "n": n}));
    }

    /// Waits for a line.
    pub fn line(&mut self) -> Up {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits until it is connected and has asked for what was missed, or for what was missed. That is kept; what tells of
    /// nothing but a place is taken.
    pub fn ready(&mut self) {
        loop {
            match self.line() {
                Up::State(State { inbound: Light::Ok, .. }) => return,
                Up::State(state) => assert_ne!(state.transport, Light::Refused, "{state:?}"),
                Up::Event(event) if event.kind == EventKind::Nothing => self.took(event.n),
                Up::Event(event) => {
                    self.waiting.push(*event);
                    return;
                }
                _ => {}
            }
        }
    }

    /// Waits for the first line.
    pub fn hello(&mut self) -> Hello {
        loop {
            if let Up::Hello(hello) = self.line() {
                return *hello;
            }
        }
    }

    /// Waits for a state.
    pub fn state(&mut self) -> State {
        loop {
            if let Up::State(state) = self.line() {
                return state;
            }
        }
    }

    /// Waits for an event, and does not take it.
    pub fn event(&mut self) -> Event {
        if !self.waiting.is_empty() {
            return self.waiting.remove(0);
        }
        loop {
            match self.line() {
                Up::Event(event) => return *event,
                Up::Chat(_) | Up::State(_) | Up::Hello(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for an event, which it takes.
    pub fn next_event(&mut self) -> Event {
        let event = self.event();
        self.took(event.n);
        event
    }

    /// Waits for this number of events, which it takes.
    pub fn events(&mut self, count: usize) -> Vec<Event> {
        (0..count).map(|_| self.next_event()).collect()
    }

    /// Waits for a chat that has a new address; other events are taken.
    pub fn moved(&mut self) -> (String, String) {
        loop {
            match self.line() {
                Up::ChatMoved { n, from, to } => {
                    self.took(n);
                    return (from, to);
                }
                Up::Event(event) => self.took(event.n),
                _ => {}
            }
        }
    }

    /// Asks for something, and waits for the answer to it.
    pub fn ask(&mut self, line: &Value) -> Up {
        self.say(line);
        let asked = line["r"].as_u64();
        loop {
            let up = self.line();
            let r = match &up {
                Up::Done(Done { r, .. })
                | Up::ChatOf { r, .. }
                | Up::Chats { r, .. }
                | Up::Fetched { r, .. }
                | Up::Response(Response { r, .. })
                | Up::Pong { r } => Some(*r),
                Up::Found(found) => Some(found.r),
                _ => None,
            };
            match up {
                Up::Event(event) => self.waiting.push(*event),
                up if r.is_some() && r == asked => return up,
                _ => {}
            }
        }
    }

    pub fn done(&mut self, line: &Value) -> Done {
        match self.ask(line) {
            Up::Done(done) => done,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for its end; returns its code.
    pub fn exit(&mut self) -> Option<i32> {
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        self.process.wait().unwrap().code()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.kill();
    }
}
