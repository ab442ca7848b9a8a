//! The server in a test: on a port of its own, with a few chats.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

pub const TOKEN: &str = "424242:fake-token-fake-token";
/// A group with a bot, a forum, and a chat with one person.
pub const GROUP: i64 = -55;
pub const FORUM: i64 = -1_001_000;
pub const ADA: i64 = 12345;

/// The server on a port of its own, with a group, a forum, and a chat with one person.
pub struct Fake {
    pub url: String,
    /// Its end is the server's.
    runtime: Option<tokio::runtime::Runtime>,
    /// Keeps the port of a server that is gone, so that no other test's comes there.
    _kept: Option<tokio::net::TcpSocket>,
}

impl Fake {
    pub fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(super::serve(listener));
        let fake = Self { url, runtime: Some(runtime), _kept: None };
        fake.ask("chat", &json!({"id": GROUP, "type": "group", "title": "Chess"}));
        fake.ask(
            "chat",
            &json!({"id": FORUM, "type": "supergroup", "title": "Club", "is_forum": true, "topics": [42]}),
        );
        fake.ask("chat", &json!({"id": ADA, "type": "private", "title": "Ada"}));
        fake
    }

    /// One that others wrote, and that runs elsewhere.
    #[must_use]
    pub fn at(url: String) -> Self {
        Self { url, runtime: None, _kept: None }
    }

    /// Ends the server; its port refuses connections.
    pub fn gone(mut self) -> Self {
        drop(self.runtime.take());
        let kept = tokio::net::TcpSocket::new_v4().unwrap();
        kept.set_reuseaddr(true).unwrap();
        kept.bind(self.url.strip_prefix("http://").unwrap().parse().unwrap()).unwrap();
        self._kept = Some(kept);
        self
    }

    /// Runs as long as the server lives.
    #[must_use]
    pub fn runtime(&self) -> &tokio::runtime::Runtime {
        self.runtime.as_ref().unwrap()
    }

    pub fn ask(&self, what: &str, body: &Value) -> Value {
        let answer = post(&self.url, &format!("/_fake/{what}"), "", body);
        assert!(answer.get("error").is_none(), "{what}: {answer}");
        answer
    }

    /// A message of Ada's, with more fields.
    pub fn message(&self, chat: i64, more: Value) -> Value {
        let mut message = json!({
            "chat": {"id": chat},
            "from": {"id": ADA, "is_bot": false, "first_name": "Ada", "last_name": "L", "username": "ada"},
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("update", &json!({"message": message}))
    }

    pub fn text(&self, chat: i64, text: &str) -> Value {
        self.message(chat, json!({"text": text}))
    }

    pub fn fault(&self, method: &str, times: u32, what: Value) {
        self.ask("fault", &json!({"method": method, "times": times, "do": what}));
    }

    pub fn answers(&self, method: &str, times: u32, code: u16, text: &str, parameters: Value) {
        let body = json!({"ok": false, "error_code": code, "description": text, "parameters": parameters});
        self.fault(method, times, json!({"answer": {"status": code, "body": body}}));
    }

    /// Waits until this many requests of a method came, and returns what the last one said.
    pub fn wait(&self, method: &str, count: u64) -> Value {
        let calls = self.ask("wait", &json!({"method": method, "count": count}));
        calls.as_array().unwrap().last().unwrap()["params"].clone()
    }

    pub fn calls(&self, method: &str) -> usize {
        let state = self.ask("state", &json!({}));
        state["calls"].as_array().unwrap().iter().filter(|call| call["method"] == method).count()
    }

    /// What the bot has said, in order.
    pub fn said(&self) -> Vec<Value> {
        let state = self.ask("state", &json!({}));
        let messages = state["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["from"]["is_bot"] == true).cloned().collect()
    }
}

/// Posts JSON, with one header more.
pub fn post(url: &str, path: &str, header: &str, body: &Value) -> Value {
    let body = body.to_string();
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    );
    write!(stream, "{head}{header}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    // A body in pieces has their lengths on lines of their own.
    let json = body.find(['{', '[']).map_or("null", |at| &body[at..=body.rfind(['}', ']']).unwrap()]);
    serde_json::from_str(json).unwrap_or_default()
}
