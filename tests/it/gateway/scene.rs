//! A gateway in a folder of its own, and an agent's end of its socket.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use g2::{
    config::{Config, Environment},
    domain::runs::{
        outside::Rules,
        usage::{Page, Sum},
    },
    gateway::{Credentials, Gateway, Limits, Looks, NAME, OUTSIDE, OutsideLimits, Upstream},
    system::world::World,
};
use ipc_handlers::Folder;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{
    super::support::DEADLINE,
    host::{Host, header, read_chunk, read_chunks},
};

/// The real key of every scene.
pub(crate) const KEY: &str = "sk-ant-api03-the-real-one";

fn main() -> Folder {
    Folder::parse("main").unwrap()
}

/// A gateway to one model's host.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) gateway: Gateway,
    runtime: Runtime,
}

impl Scene {
    pub(crate) fn new(host: &Host) -> Self {
        Self::with(&host.url(), Limits::default())
    }

    pub(crate) fn with(upstream: &str, limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".env"), format!("ANTHROPIC_API_KEY={KEY}\n")).unwrap();
        Self::of(dir, None, upstream, limits)
    }

    /// Behind a proxy.
    pub(crate) fn behind(host: &Host, proxy: &str) -> Self {
        let mut scene = Self::new(host);
        let environment = Environment::with(&[("ANTHROPIC_BASE_URL", &host.url()), ("HTTPS_PROXY", proxy)]);
        let upstream = Upstream::of(&Config::load(scene.path(), &environment).unwrap()).unwrap();
        let credentials = Credentials::new(scene.path().join(".env"), None);
        scene.gateway = Gateway::new(World::real(), upstream, credentials, Limits::default());
        scene
    }

    /// With its key in a file of its own.
    pub(crate) fn with_token_file(host: &Host, token: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("token"), token).unwrap();
        let file = dir.path().join("token");
        Self::of(dir, Some(file), &host.url(), Limits::default())
    }

    fn of(dir: tempfile::TempDir, token: Option<PathBuf>, upstream: &str, limits: Limits) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let credentials = Credentials::new(dir.path().join(".env"), token);
        let gateway = Gateway::new(World::real(), Upstream::parse(upstream).unwrap(), credentials, limits);
        Self { dir, gateway, runtime }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of a run's socket.
    pub(crate) fn folder(&self, run: i64) -> PathBuf {
        self.path().join(format!("runs/{run}/gateway"))
    }

    /// Opens a run's socket and returns its path.
    pub(crate) fn open(&self, run: i64) -> PathBuf {
        let folder = self.folder(run);
        self.open_in(run, &folder);
        folder.join(NAME)
    }

    /// Opens the socket of a group's run, and returns its path.
    pub(crate) fn open_of(&self, run: i64, group: &str) -> PathBuf {
        let _inside = self.runtime.enter();
        let (folder, group) = (self.folder(run), Folder::parse(group).unwrap());
        self.gateway.open(run, &folder, None, (&group, Looks::Inside)).unwrap();
        folder.join(NAME)
    }

    pub(crate) fn open_in(&self, run: i64, folder: &Path) {
        let _inside = self.runtime.enter();
        self.gateway.open(run, folder, None, (&main(), Looks::Inside)).unwrap();
    }

    /// Opens the socket of a run whose requests are not looked into, and returns its path.
    pub(crate) fn open_unseen(&self, run: i64) -> PathBuf {
        let _inside = self.runtime.enter();
        let folder = self.folder(run);
        self.gateway.open(run, &folder, None, (&main(), Looks::Away)).unwrap();
        folder.join(NAME)
    }

    /// Opens a run's socket for another user.
    pub(crate) fn open_for(&self, run: i64, folder: &Path, owner: (u32, u32)) {
        let _inside = self.runtime.enter();
        self.gateway.open(run, folder, Some(owner), (&main(), Looks::Inside)).unwrap();
    }

    /// Opens the socket of a group's run to hosts outside, and returns its path.
    pub(crate) fn open_outside(&self, run: i64, group: &str, rules: Rules) -> PathBuf {
        let _inside = self.runtime.enter();
        let (folder, group) = (self.folder(run), Folder::parse(group).unwrap());
        self.gateway.open_outside(run, &folder, None, &group).unwrap();
        self.gateway.read_rules(&group, || Ok::<_, ()>(rules)).unwrap();
        folder.join(OUTSIDE)
    }

    pub(crate) fn bounded_outside(host: &Host, limits: OutsideLimits) -> Self {
        let mut scene = Self::new(host);
        scene.gateway = Gateway::new(
            World::real(),
            Upstream::parse(&host.url()).unwrap(),
            Credentials::new(scene.path().join(".env"), None),
            Limits::default(),
        );
        scene.gateway.bound_outside(limits);
        scene
    }

    pub(crate) fn close(&self, run: i64) {
        self.runtime.block_on(self.gateway.close(run));
    }

    /// Closes a run and returns what it used and was refused.
    pub(crate) fn page(&self, run: i64) -> Page {
        self.close(run);
        self.pages().remove(&run).unwrap_or_default()
    }

    pub(crate) fn pages(&self) -> BTreeMap<i64, Page> {
        self.gateway.books().take()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.runtime.block_on(self.gateway.stop());
    }
}

/// What the requests of a page came to: how many, how many errors, tokens in and out.
pub(crate) fn figures(page: &Page, model: &str) -> (u64, u64, u64, u64) {
    let sum = page.models.get(model).copied().unwrap_or_else(Sum::default);
    (sum.requests, sum.errors, sum.tokens.input, sum.tokens.output)
}

/// An agent's connection.
pub(crate) struct Agent {
    input: BufReader<UnixStream>,
    out: UnixStream,
}

/// An answer's head.
pub(crate) struct Reply {
    /// In small letters.
    pub(crate) head: String,
    pub(crate) status: u16,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: String,
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Whole {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The kind and the text of an error in the shape of the Messages API.
    pub(crate) fn error(&self) -> (String, String) {
        let json = self.json();
        assert_eq!(json["type"], "error", "{self:?}");
        let text = |name: &str| json["error"][name].as_str().unwrap().to_owned();
        (text("type"), text("message"))
    }
}

impl Agent {
    pub(crate) fn connect(socket: &Path) -> Self {
        let out = UnixStream::connect(socket).unwrap();
        out.set_read_timeout(Some(DEADLINE)).unwrap();
        out.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { input: BufReader::new(out.try_clone().unwrap()), out }
    }

    /// Writes bytes as they are; that they are not wanted any more is no error.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.out.write_all(bytes);
    }

    /// Asks the model as the CLI does.
    pub(crate) fn ask(&mut self, body: &str) {
        self.request("POST /v1/messages?beta=true", "", body);
    }

    pub(crate) fn request(&mut self, target: &str, headers: &str, body: &str) {
        let head = format!(
            "{target} HTTP/1.1\r\nhost: model\r\nx-api-key: placeholder\r\ncontent-type: application/json\r\n{headers}"
        );
        self.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    /// Reads the head of an answer; nothing when there is none.
    pub(crate) fn head(&mut self) -> Option<Reply> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.input.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.trim_end().to_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Reply { head, status })
    }

    /// Reads the next piece of a chunked body: `Some(None)` at its end, nothing when it breaks off.
    pub(crate) fn piece(&mut self) -> Option<Option<String>> {
        Some(read_chunk(&mut self.input)?.map(|bytes| String::from_utf8(bytes).unwrap()))
    }

    /// Reads an answer to its end, which has to come.
    pub(crate) fn answer(&mut self) -> Whole {
        let Reply { head, status } = self.head().expect("an answer");
        let body = if let Some(length) = header(&head, "content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            self.input.read_exact(&mut body).unwrap();
            body
        } else {
            assert_eq!(
                header(&head, "transfer-encoding"),
                Some("chunked"),
                "a body has to be framed: {head}"
            );
            read_chunks(&mut self.input).expect("a whole body")
        };
        Whole { head, status, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the other side ends the connection, and nothing comes before that.
    pub(crate) fn is_cut(&mut self) -> bool {
        match self.input.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A request's body of at least this many bytes.
pub(crate) fn long(bytes: usize) -> String {
    format!("{{\"system\":\"{}\"}}", "x".repeat(bytes))
}

/// Asks the model over a connection of its own and returns the answer.
pub(crate) fn ask(socket: &Path, body: &str) -> Whole {
    let mut agent = Agent::connect(socket);
    agent.ask(body);
    agent.answer()
}

/// Sends bytes over a connection of their own, which the gateway has to end, and returns the answer, if there is one.
pub(crate) fn send(socket: &Path, bytes: &[u8]) -> Option<Whole> {
    let mut agent = Agent::connect(socket);
    agent.write(bytes);
    let Reply { head, status } = agent.head()?;
    let mut body = String::new();
    let _ = agent.input.read_to_string(&mut body);
    Some(Whole { head, status, body })
}
