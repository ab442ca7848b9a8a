//! The other end of `data/g2.sock`: one JSON object a line, both ways.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

/// A connection to the daemon.
pub(crate) struct Client {
    lines: BufReader<UnixStream>,
    out: UnixStream,
    /// Tells the connections of one run apart.
    connected: usize,
    sent: u64,
}

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

impl Client {
    pub(crate) fn connect(root: &Path) -> Self {
        let out = UnixStream::connect(root.join("data/g2.sock")).unwrap();
        let connected = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Self { lines: BufReader::new(out.try_clone().unwrap()), out, connected, sent: 0 }
    }

    fn ask(&mut self, request: &Value) {
        self.out.write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    /// Waits for a line of this kind; others are passed over.
    pub(crate) fn hear(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the daemon has stopped");
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_ne!(answer["is"], "error", "{answer}");
            if answer["is"] == kind {
                return answer;
            }
        }
    }

    /// Sends a message in, and returns when it is stored.
    pub(crate) fn send(&mut self, chat: &str, text: &str) {
        self.sent += 1;
        let key = format!("bench {chat} {} {}", self.connected, self.sent);
        self.ask(&json!({ "op": "send", "chat": chat, "sender": "bench", "text": text, "key": key }));
        self.hear("accepted");
    }

    /// From now on texts for this chat are reported.
    pub(crate) fn listen(&mut self, chat: &str) {
        self.ask(&json!({ "op": "listen", "chat": chat }));
        self.hear("listening");
    }

    /// Waits until everything that came in for this chat has been dealt with.
    pub(crate) fn rest(&mut self, chat: &str) {
        self.ask(&json!({ "op": "rest", "chat": chat }));
        self.hear("rest");
    }
}
