//! The model's place: a server on loopback that answers by a script and keeps what it was asked.
#![expect(clippy::disallowed_types, reason = "tests start the model")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// A scripted model. Its program's first lines tell what a script can say.
pub(super) struct Model {
    child: Child,
    host: String,
    port: u16,
}

impl Model {
    /// Starts one that answers only to `key`.
    pub(super) fn new(key: &str) -> Self {
        Self::at("127.0.0.1", key)
    }

    /// Starts one at this address of the machine.
    pub(super) fn at(host: &str, key: &str) -> Self {
        let program =
            concat!(env!("CARGO_MANIFEST_DIR"), "/container/agent-runner/tests/fixtures/scripted_model.py");
        let mut child = Command::new("python3")
            .args([program, "--log-bodies", "--bind", host, "--require-key", key])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = serde_json::from_str::<Value>(&line).unwrap()["port"].as_u64().unwrap();
        Self { child, host: host.to_owned(), port: u16::try_from(port).unwrap() }
    }

    pub(super) fn address(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Adds turns to the script.
    pub(super) fn then(&self, turns: &Value) {
        self.call("POST", "/_/script", &turns.to_string());
    }

    /// Returns what the agent asked so far, in order: requests for an answer, not its side business.
    pub(super) fn asked(&self) -> Vec<Value> {
        let all = self.call("GET", "/_/log", "");
        let is_main = |entry: &&Value| {
            let path = entry["path"].as_str().unwrap();
            path.starts_with("/v1/messages?") && entry["tools"].as_array().is_some_and(|t| !t.is_empty())
        };
        all.as_array().unwrap().iter().filter(is_main).cloned().collect()
    }

    /// Returns every request, of whatever kind.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.call("GET", "/_/log", "").as_array().unwrap().clone()
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: model\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
