//! The adapter's process, as the daemon handles it.

use std::{
    io::Write as _,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use channel_protocol::{Done, Event, EventKind, Hello, Light, Lines, Pair, State, Up};
use serde_json::{Value, json};

use crate::fake::Fake;

/// A process that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Adapter {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Up>,
    start: Value,
    dir: tempfile::TempDir,
    /// Lines that came while another one was waited for.
    waiting: Vec<Up>,
    r: u64,
}

impl Adapter {
    /// Starts it for an account with these settings, in folders of its own.
    pub(crate) fn start(fake: &Fake, config: Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut start = json!({"op": "start", "v": 1, "instance": "whatsapp", "prefix": "whatsapp", "config": config,
            "upstream": fake.url()});
        for (name, folder) in [("spool", "spool"), ("state_dir", "state")] {
            let at = dir.path().join(folder);
            std::fs::create_dir_all(at.join("in")).unwrap();
            std::fs::create_dir_all(at.join("out")).unwrap();
            start[name] = at.to_str().unwrap().into();
        }
        Self::run(start, dir)
    }

    /// Starts it, links it, and waits until it is there.
    pub(crate) fn linked(fake: &Fake, config: Value) -> Self {
        let mut adapter = Self::start(fake, config);
        let pair = adapter.pair();
        assert_eq!(pair.kind, "qr");
        fake.scan(&pair.data);
        let hello = adapter.hello();
        assert_eq!(hello.myself.id, format!("{}@s.whatsapp.net", crate::fake::NUMBER));
        fake.until_live();
        adapter
    }

    fn run(start: Value, dir: tempfile::TempDir) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_g2-whatsapp"))
            .arg("whatsapp")
            .env_clear()
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
        let mut this = Self { process, stdin, lines, start, dir, waiting: Vec::new(), r: 0 };
        let start = this.start.clone();
        this.say(&start);
        this
    }

    /// Starts it anew where it was, as after a death. `chats`: those in which somebody has written.
    pub(crate) fn again(mut self, chats: &[&str]) -> Self {
        self.kill();
        let mut start = std::mem::take(&mut self.start);
        start["chats"] = chats.iter().map(|chat| ((*chat).to_owned(), json!("x"))).collect();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        Self::run(start, dir)
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn say(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for a line that is wanted; others wait.
    pub(crate) fn next<T>(&mut self, what: &str, wanted: impl Fn(&Up) -> Option<T>) -> T {
        if let Some((at, found)) =
            self.waiting.iter().enumerate().find_map(|(at, up)| Some((at, wanted(up)?)))
        {
            self.waiting.remove(at);
            return found;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(up) = self.lines.recv_timeout(left) else {
                panic!("no {what}; it said {:?}", self.waiting)
            };
            match wanted(&up) {
                Some(found) => return found,
                None => self.waiting.push(up),
            }
        }
    }

    pub(crate) fn pair(&mut self) -> Pair {
        self.next("pair", |up| if let Up::Pair(pair) = up { Some(pair.clone()) } else { None })
    }

    pub(crate) fn hello(&mut self) -> Hello {
        self.next("hello", |up| if let Up::Hello(hello) = up { Some((**hello).clone()) } else { None })
    }

    pub(crate) fn state(&mut self, transport: Light) -> State {
        self.next("state", |up| match up {
            Up::State(state) if state.transport == transport => Some(state.clone()),
            _ => None,
        })
    }

    /// Waits for the next event, and leaves it open.
    pub(crate) fn event(&mut self) -> Event {
        self.next("event", |up| match up {
            Up::Event(event) if event.kind != EventKind::Nothing => Some((**event).clone()),
            _ => None,
        })
    }

    /// Waits for the next event, and stores it.
    pub(crate) fn stored(&mut self) -> Event {
        let event = self.event();
        self.took(event.n);
        event
    }

    pub(crate) fn took(&mut self, n: u64) {
        self.say(&json!({"op": "took", "n": n}));
    }

    /// Gives an order, and returns its number.
    pub(crate) fn order(&mut self, mut order: Value) -> u64 {
        self.r += 1;
        order["r"] = self.r.into();
        self.say(&order);
        self.r
    }

    pub(crate) fn done(&mut self, r: u64) -> Done {
        self.next("done", |up| match up {
            Up::Done(done) if done.r == r => Some(done.clone()),
            _ => None,
        })
    }

    /// Sends a text, and returns what became of it.
    pub(crate) fn sends(&mut self, chat: &str, key: &str, more: Value) -> Done {
        let mut order = json!({"op": "send", "key": key, "chat": chat});
        for (name, value) in more.as_object().unwrap() {
            order[name] = value.clone();
        }
        let r = self.order(order);
        self.done(r)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ends(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.success();
            }
            std::thread::yield_now();
        }
        panic!("it does not end");
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.kill();
    }
}
