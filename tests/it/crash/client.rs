//! A platform at the daemon's socket: it names its messages, and repeats one until it was accepted.
#![expect(clippy::disallowed_methods, reason = "a test waits between two attempts")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Root, wait_for};

/// One connection.
pub(super) struct Client {
    lines: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon of `root`.
    pub(super) fn connect(root: &Root) -> io::Result<Self> {
        let stream = UnixStream::connect(root.data("g2.sock"))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(Self { lines: BufReader::new(stream) })
    }

    /// Asks for something and returns the first line that comes back.
    pub(super) fn call(&mut self, request: &Value) -> io::Result<Value> {
        self.lines.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(serde_json::from_str(&line).unwrap()),
        }
    }

    /// Sends a message once. An error leaves it open whether the daemon has it.
    pub(super) fn send(&mut self, chat: &str, key: &str, text: &str) -> io::Result<i64> {
        let answer =
            self.call(&json!({"op": "send", "chat": chat, "sender": "me", "text": text, "key": key}))?;
        match answer["is"].as_str() {
            Some("accepted") => Ok(answer["seq"].as_i64().unwrap()),
            _ => Err(io::Error::other(answer.to_string())),
        }
    }
}

/// Sends a message, whatever becomes of the daemon, and returns whether it was accepted.
pub(super) fn send_once(root: &Root, chat: &str, text: &str) -> bool {
    Client::connect(root).and_then(|mut client| client.send(chat, text, text)).is_ok()
}

/// Sends a message to a daemon that may die of it.
pub(super) fn tell(root: &Root, chat: &str, text: &str) {
    send_once(root, chat, text);
}

/// Sends a message under its own text as key until a daemon has accepted it; returns its sequence number.
pub(super) fn send(root: &Root, chat: &str, text: &str) -> i64 {
    let mut client = None;
    wait_for(&format!("{text} to be accepted"), || {
        if client.is_none() {
            client = Client::connect(root).ok();
        }
        match client.as_mut()?.send(chat, text, text) {
            Ok(seq) => Some(seq),
            Err(_) => {
                client = None;
                std::thread::sleep(Duration::from_millis(2));
                None
            }
        }
    })
}

/// Waits until everything that came in for `chat` has been dealt with.
pub(super) fn rest(root: &Root, chat: &str) {
    let mut client = Client::connect(root).unwrap();
    let answer = client.call(&json!({"op": "rest", "chat": chat})).unwrap();
    assert_eq!(answer["is"], "rest", "{answer}; log:\n{}", root.log());
}
