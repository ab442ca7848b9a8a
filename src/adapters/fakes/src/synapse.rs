//! A homeserver of the tests' own, and people on it.

use std::{
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use g2_channels::http::{Answer, Ask, Http, NoAnswer};
use serde_json::{Value, json};

/// How long a homeserver may take to be back.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Synapse {
    port: u16,
    process: Mutex<Child>,
    dir: tempfile::TempDir,
}

/// Somebody on it.
#[derive(Clone)]
pub struct Person {
    pub id: String,
    pub token: String,
    pub base: String,
}

/// Returns the homeserver that all tests share; `None`: there is no Synapse on this machine.
pub fn synapse() -> Option<&'static Synapse> {
    static SERVER: OnceLock<Option<Synapse>> = OnceLock::new();
    let server = SERVER.get_or_init(Synapse::start).as_ref();
    if server.is_none() {
        assert!(std::env::var_os("G2_REQUIRE_SYNAPSE").is_none(), "there is no Synapse: run tests/peers.sh");
        eprintln!("skipped: no Synapse");
    }
    server
}

/// Where `tests/peers.sh` puts it.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("G2_SYNAPSE")
        .map_or_else(|| crate::peers::peers().join("synapse/bin/python"), PathBuf::from);
    python.exists().then_some(python)
}

/// Starts a process that ends with this one, whatever thread asks for it.
fn spawn(mut command: Command) -> Child {
    let (tell, started) = std::sync::mpsc::channel();
    // The child ends with the thread that starts it: with one that never ends.
    std::thread::spawn(move || {
        tell.send(command.spawn().unwrap()).unwrap();
        loop {
            std::thread::park();
        }
    });
    started.recv().unwrap()
}

impl Synapse {
    /// Starts a homeserver; `None`: there is none on this machine.
    #[must_use]
    pub fn start() -> Option<Self> {
        let python = python()?;
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let mut generate = Command::new(&python);
        // It says in a file where the log goes: beside it.
        generate
            .current_dir(dir.path())
            .args(["-m", "synapse.app.homeserver", "-c", &path("hs.yaml"), "--generate-config"])
            .args(["--server-name", "example.test", "--report-stats", "no"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        assert!(generate.status().unwrap().success());
        let fast = json!({"per_second": 10_000, "burst_count": 10_000});
        let settings = json!({
            "listeners": [{"port": port, "type": "http", "bind_addresses": ["127.0.0.1"],
                "resources": [{"names": ["client"]}]}],
            "database": {"name": "sqlite3", "args": {"database": path("hs.sqlite")}},
            "media_store_path": path("media"), "pid_file": path("pid"),
            "registration_shared_secret": "shared", "trusted_key_servers": [],
            "rc_message": fast, "rc_registration": fast, "rc_admin_redaction": fast, "rc_room_creation": fast,
            "rc_login": {"address": fast, "account": fast, "failed_attempts": fast},
            "rc_joins": {"local": fast, "remote": fast}, "rc_joins_per_room": fast,
            "rc_invites": {"per_room": fast, "per_user": fast, "per_issuer": fast},
            "rc_presence": {"per_user": fast},
        });
        // JSON is YAML; a later file wins.
        std::fs::write(path("more.yaml"), settings.to_string()).unwrap();
        let process = Mutex::new(Self::process(dir.path()));
        let this = Self { port, process, dir };
        this.until_ready();
        Some(this)
    }

    fn process(dir: &Path) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let mut server = Command::new("setpriv");
        server.args(["--pdeathsig", "KILL"]).arg(python().unwrap());
        server.args(["-m", "synapse.app.homeserver", "-c", "hs.yaml", "-c", "more.yaml"]);
        server.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        spawn(server)
    }

    fn until_ready(&self) {
        while request(&self.base(), "GET", "/_matrix/client/versions", "", None).is_err() {
            let ended = self.process.lock().unwrap().try_wait().unwrap();
            let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap();
            assert!(ended.is_none(), "Synapse ended: {}", log());
        }
    }

    /// Kills it where it stands.
    pub fn kill(&self) {
        let mut process = self.process.lock().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Starts it again with all that it knew.
    pub fn again(&self) {
        self.kill();
        *self.process.lock().unwrap() = Self::process(self.dir.path());
        self.until_ready();
    }

    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes somebody.
    pub fn person(&self, name: &str) -> Person {
        let base = self.base();
        let path = "/_synapse/admin/v1/register";
        let nonce =
            json_of(request(&base, "GET", path, "", None).unwrap())["nonce"].as_str().unwrap().to_owned();
        let signed = format!("{nonce}\0{name}\0secret\0notadmin");
        let body = json!({"nonce": nonce, "username": name, "password": "secret", "admin": false,
            "mac": hmac_sha1(b"shared", signed.as_bytes())});
        let made = json_of(request(&base, "POST", path, "", Some(body)).unwrap());
        let text = |field: &str| made[field].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        Person { id: text("user_id"), token: text("access_token"), base }
    }
}

/// Synapse wants its shared secret proven by an HMAC of SHA-1; `openssl` and Python have one.
fn hmac_sha1(key: &[u8], text: &[u8]) -> String {
    let program =
        "import hmac,sys; print(hmac.new(sys.argv[1].encode(), sys.stdin.buffer.read(), 'sha1').hexdigest())";
    let mut python = Command::new(python().unwrap())
        .args(["-c", program, std::str::from_utf8(key).unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(text).unwrap();
    String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

fn request(
    base: &str,
    method: &str,
    path: &str,
    token: &str,
    body: Option<Value>,
) -> Result<Answer, NoAnswer> {
    let body = body.map(|body| ("application/json", body.to_string().into_bytes()));
    raw(base, method, path, token, body)
}

fn raw(
    base: &str,
    method: &str,
    path: &str,
    token: &str,
    body: Option<(&str, Vec<u8>)>,
) -> Result<Answer, NoAnswer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (kind, body) = body.map_or((None, Vec::new()), |(kind, body)| (Some(kind.to_owned()), body));
    let ask = Ask {
        method: method.parse().unwrap(),
        url: format!("{base}{path}"),
        bearer: (!token.is_empty()).then(|| token.to_owned()),
        content_type: kind,
        body: body.into(),
        within: Duration::from_secs(60),
        most: 64 << 20,
    };
    runtime.block_on(async { Http::new(base).unwrap().ask(ask).await })
}

fn json_of(answer: Answer) -> Value {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status.is_success(), "{}: {text}", answer.status);
    serde_json::from_str(&text).unwrap()
}

/// Returns an id that no other request has.
fn txn() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

impl Person {
    /// Asks until there is an answer: the homeserver may be killed meanwhile, and knows an event by its id.
    fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let path = format!("/_matrix/client/v3{path}");
        let since = Instant::now();
        loop {
            match request(&self.base, method, &path, &self.token, body.clone()) {
                Ok(answer) if !answer.status.is_server_error() => return json_of(answer),
                answer => assert!(since.elapsed() < PATIENCE, "{path}: {answer:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes a room with these people invited.
    pub fn room(&self, with: &[&str]) -> String {
        let body = json!({"preset": "private_chat", "name": "A room", "invite": with});
        self.call("POST", "/createRoom", Some(body))["room_id"].as_str().unwrap().to_owned()
    }

    /// Makes a room for two, as clients do for a chat with one person.
    pub fn direct(&self, with: &str) -> String {
        let body = json!({"preset": "trusted_private_chat", "is_direct": true, "invite": [with]});
        self.call("POST", "/createRoom", Some(body))["room_id"].as_str().unwrap().to_owned()
    }

    pub fn quiet_room(&self) -> String {
        self.room(&[])
    }

    /// Makes a room that says it goes on for another one, which does not say so.
    pub fn successor_by_claim(&self, of: &str, with: &str) -> String {
        let body = json!({"preset": "private_chat", "invite": [with], "creation_content": {"predecessor": {"room_id": of, "event_id": "$x"}}});
        self.call("POST", "/createRoom", Some(body))["room_id"].as_str().unwrap().to_owned()
    }

    pub fn invite(&self, room: &str, whom: &str) {
        self.call("POST", &format!("/rooms/{room}/invite"), Some(json!({"user_id": whom})));
    }

    pub fn kick(&self, room: &str, whom: &str) {
        self.call("POST", &format!("/rooms/{room}/kick"), Some(json!({"user_id": whom})));
    }

    /// From now on only who made the room may write there.
    pub fn silence(&self, room: &str) {
        let levels = self.call("GET", &format!("/rooms/{room}/state/m.room.power_levels"), None);
        let mut levels = levels;
        levels["events_default"] = 50.into();
        self.call("PUT", &format!("/rooms/{room}/state/m.room.power_levels"), Some(levels));
    }

    pub fn upgrade(&self, room: &str) -> String {
        let to = self.call("POST", &format!("/rooms/{room}/upgrade"), Some(json!({"new_version": "11"})));
        to["replacement_room"].as_str().unwrap().to_owned()
    }

    pub fn send(&self, room: &str, kind: &str, content: Value) -> String {
        let sent = self.call("PUT", &format!("/rooms/{room}/send/{kind}/{}", txn()), Some(content));
        sent["event_id"].as_str().unwrap().to_owned()
    }

    pub fn say(&self, room: &str, text: &str) -> String {
        self.send(room, "m.room.message", json!({"msgtype": "m.text", "body": text}))
    }

    pub fn redact(&self, room: &str, event: &str) {
        self.call("PUT", &format!("/rooms/{room}/redact/{event}/{}", txn()), Some(json!({})));
    }

    pub fn event(&self, room: &str, event: &str) -> Value {
        self.call("GET", &format!("/rooms/{room}/event/{event}"), None)
    }

    /// Returns the newest messages of somebody in a room, in order.
    #[must_use]
    pub fn newest_by(&self, room: &str, who: &str) -> Vec<Value> {
        let page = self.call("GET", &format!("/rooms/{room}/messages?dir=b&limit=10"), None);
        let mut said = page["chunk"].as_array().unwrap().clone();
        said.retain(|event| event["sender"] == who && event["type"] == "m.room.message");
        said.reverse();
        said
    }

    /// Returns the messages of somebody in a room, in order.
    pub fn said_by(&self, room: &str, who: &str) -> Vec<Value> {
        let (mut said, mut from) = (Vec::new(), String::new());
        loop {
            let page = self.call("GET", &format!("/rooms/{room}/messages?dir=b&limit=500{from}"), None);
            let chunk = page["chunk"].as_array().unwrap();
            said.extend(chunk.iter().cloned());
            match page["end"].as_str() {
                Some(end) if !chunk.is_empty() => from = format!("&from={end}"),
                _ => break,
            }
        }
        said.retain(|event| event["sender"] == who && event["type"] == "m.room.message");
        said.reverse();
        said
    }

    pub fn joined(&self) -> Vec<String> {
        let rooms = self.call("GET", "/joined_rooms", None);
        rooms["joined_rooms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|room| room.as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until somebody is in a room.
    pub fn wait_for_member(&self, room: &str, who: &str) {
        while self.call("GET", &format!("/rooms/{room}/joined_members"), None)["joined"].get(who).is_none() {}
    }

    /// Waits until somebody types in a room; returns who.
    pub fn typing(&self, room: &str) -> Vec<String> {
        loop {
            let news = self.call("GET", "/sync?timeout=0", None);
            let signs =
                news["rooms"]["join"][room]["ephemeral"]["events"].as_array().cloned().unwrap_or_default();
            let typing = signs.into_iter().find(|event| event["type"] == "m.typing");
            let who: Vec<String> = typing
                .and_then(|event| serde_json::from_value(event["content"]["user_ids"].clone()).ok())
                .unwrap_or_default();
            if !who.is_empty() {
                return who;
            }
        }
    }

    pub fn upload(&self, bytes: &[u8]) -> String {
        let answer = raw(
            &self.base,
            "POST",
            "/_matrix/media/v3/upload?filename=a.png",
            &self.token,
            Some(("image/png", bytes.to_vec())),
        );
        json_of(answer.unwrap())["content_uri"].as_str().unwrap().to_owned()
    }

    pub fn download(&self, mxc: &str) -> Vec<u8> {
        let path = format!("/_matrix/client/v1/media/download/{}", mxc.trim_start_matches("mxc://"));
        raw(&self.base, "GET", &path, &self.token, None).unwrap().body.to_vec()
    }
}

impl Drop for Synapse {
    fn drop(&mut self) {
        self.kill();
    }
}
