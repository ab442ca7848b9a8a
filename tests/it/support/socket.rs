//! A client of the daemon's socket, as any program could be one.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use super::{DEADLINE, Root};

pub(crate) struct Socket {
    lines: BufReader<UnixStream>,
    out: UnixStream,
}

impl Socket {
    pub(crate) fn connect(root: &Root) -> Self {
        let out = UnixStream::connect(root.data("g2.sock")).unwrap();
        out.set_read_timeout(Some(DEADLINE)).unwrap();
        out.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { lines: BufReader::new(out.try_clone().unwrap()), out }
    }

    /// Writes bytes as they are; that nobody reads them any more is no error.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.out.write_all(bytes);
    }

    pub(crate) fn ask(&mut self, request: &Value) {
        self.write(format!("{request}\n").as_bytes());
    }

    /// Returns the next line, or nothing at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("hearing the daemon: {error}"),
        }
    }

    pub(crate) fn hear(&mut self) -> Value {
        self.next().expect("the daemon goes on talking")
    }

    pub(crate) fn call(&mut self, request: &Value) -> Value {
        self.ask(request);
        self.hear()
    }

    pub(crate) fn send(&mut self, chat: &str, text: &str, key: &str) -> Value {
        self.call(&json!({"op": "send", "chat": chat, "sender": "me", "text": text, "key": key}))
    }

    /// Sends a message to a daemon that may die of it.
    pub(crate) fn send_unheard(&mut self, chat: &str, text: &str) {
        self.ask(&json!({"op": "send", "chat": chat, "sender": "me", "text": text, "key": text}));
        let _ = self.next();
    }

    /// Sends a message that has to be taken in; returns its number.
    pub(crate) fn accepted(&mut self, chat: &str, text: &str, key: &str) -> i64 {
        let answer = self.send(chat, text, key);
        answer["seq"].as_i64().unwrap_or_else(|| panic!("{answer}"))
    }

    /// Waits until everything that came in for a chat was dealt with.
    pub(crate) fn rest(&mut self, chat: &str) {
        assert_eq!(self.call(&json!({"op": "rest", "chat": chat})), json!({"is": "rest"}));
    }
}
