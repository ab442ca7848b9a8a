//! signal-cli's daemon of the tests' own on loopback: JSON-RPC and events. It refuses what signal-cli refuses, and a parameter that it
//! does not know. Messages wait while nobody listens to its events, as with `--receive-mode on-connection`; what is told, is told once.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    header::CONTENT_TYPE,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

const PATIENCE: Duration = Duration::from_secs(60);

/// The account, and its id.
pub const US: &str = "+4930900000";
pub const OUR_ACI: &str = "90000000-0000-4000-8000-000000000900";
/// People, by their ids, and their numbers.
pub const ADA: &str = "a0000000-0000-4000-8000-000000000100";
pub const EVE: &str = "e0000000-0000-4000-8000-000000000101";
pub const ADAS_NUMBER: &str = "+4930100000";
/// A group, as signal-cli names it.
pub const GROUP: &str = "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=";

/// What goes wrong the next time that a method is asked.
#[derive(Clone)]
pub enum Fault {
    /// An error of JSON-RPC; it is not done.
    Error(i64, String, Value),
    Status(u16),
    /// It is done, and the connection ends without an answer.
    CutAfter,
}

/// What it knows.
pub struct World {
    /// The accounts that it has. `None`: it was started for one alone.
    pub accounts: Option<Vec<String>>,
    /// What was asked, in order: the method, and its parameters.
    pub asked: Vec<(String, Value)>,
    /// Texts of everybody, by their times and authors.
    pub messages: BTreeMap<(u64, String), Value>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub contacts: Vec<Value>,
    pub groups: Vec<Value>,
    faults: VecDeque<(String, Fault)>,
    /// Who listens to events, by their connections.
    pub listeners: BTreeMap<u64, mpsc::UnboundedSender<Bytes>>,
    /// How many streams were opened, and which event each heard last.
    pub opened: usize,
    pub last: Vec<String>,
    waiting: VecDeque<Bytes>,
    clock: u64,
    connections: u64,
}

impl World {
    fn new() -> Self {
        let person = |uuid: &str, number: Value, name: &str, username: Value| {
            json!({"number": number, "uuid": uuid, "username": username, "name": "", "givenName": null, "isBlocked": false,
                "profile": {"lastUpdateTimestamp": 0, "givenName": name, "familyName": null}})
        };
        Self {
            accounts: Some(vec![US.into(), "+4930900001".into()]),
            asked: Vec::new(),
            messages: BTreeMap::new(),
            files: BTreeMap::new(),
            contacts: vec![
                person(OUR_ACI, json!(US), "G2", Value::Null),
                person(ADA, json!(ADAS_NUMBER), "Ada", json!("ada.01")),
                person(EVE, Value::Null, "Evie", Value::Null),
            ],
            groups: vec![
                json!({"id": GROUP, "name": "Plans", "description": "", "isMember": true, "isBlocked": false,
                "messageExpirationTime": 0, "members": [{"number": US, "uuid": OUR_ACI}, {"number": null, "uuid": ADA}]}),
            ],
            faults: VecDeque::new(),
            listeners: BTreeMap::new(),
            opened: 0,
            last: Vec::new(),
            waiting: VecDeque::new(),
            clock: 4_000_000_000_000,
            connections: 0,
        }
    }

    /// The next time; no two are the same.
    pub fn time(&mut self) -> u64 {
        self.clock += 1000;
        self.clock
    }

    /// signal-cli tells something: each listener gets it, or it waits for the next one.
    pub fn tell(&mut self, told: &Value) {
        let line: Bytes = format!("event:receive\ndata:{}\n\n", crate::on_the_wire(told)).into();
        self.raw(line);
    }

    /// Puts bytes on the stream as they are.
    pub fn raw(&mut self, line: Bytes) {
        self.listeners.retain(|_, listener| !listener.is_closed());
        if self.listeners.is_empty() {
            self.waiting.push_back(line);
            return;
        }
        for listener in self.listeners.values() {
            let _ = listener.send(line.clone());
        }
    }

    /// An envelope of somebody's, with what it carries under its name.
    pub fn envelope(&mut self, who: &str, at: u64, carries: &str, what: Value) {
        let number = (who == ADA).then_some(ADAS_NUMBER);
        let known = self.contacts.iter().find(|contact| contact["uuid"] == who);
        let name = known.map_or(Value::Null, |contact| contact["profile"]["givenName"].clone());
        self.tell(&json!({"account": US, "envelope": {"source": number.unwrap_or(who), "sourceNumber": number,
            "sourceUuid": who, "sourceName": name, "sourceDevice": 1, "timestamp": at, "serverReceivedTimestamp": at + 20,
            "serverDeliveredTimestamp": at + 30, carries: what}}));
    }

    /// Somebody writes to us, or into a group; `more` is beside the text. Returns its time.
    pub fn say(&mut self, who: &str, group: Option<&str>, text: &str, more: &Value) -> u64 {
        let at = self.time();
        let mut message = json!({"timestamp": at, "message": text, "expiresInSeconds": 0, "viewOnce": false});
        if let Some(group) = group {
            message["groupInfo"] =
                json!({"groupId": group, "groupName": "Plans", "revision": 3, "type": "DELIVER"});
        }
        if let (Some(message), Some(more)) = (message.as_object_mut(), more.as_object()) {
            message.extend(more.clone());
        }
        self.messages.insert((at, who.to_owned()), message.clone());
        self.envelope(who, at, "dataMessage", message);
        at
    }
}

/// signal-cli, as long as the test lives.
#[derive(Clone)]
pub struct Fake {
    shared: Arc<(Mutex<World>, Condvar)>,
    pub base: String,
}

type Answer = Response<BoxBody<Bytes, io::Error>>;
/// An error: its number, its words, and what came of the receivers.
type No = (i64, String, Value);

fn no<T>(code: i64, text: impl Into<String>) -> Result<T, No> {
    Err((code, text.into(), Value::Null))
}

impl Fake {
    #[must_use]
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let this = Self { shared: Arc::new((Mutex::new(World::new()), Condvar::new())), base };
        let serving = this.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let serving = serving.clone();
                    tokio::spawn(async move {
                        let id = {
                            let mut world = serving.world();
                            world.connections += 1;
                            world.connections
                        };
                        let of = serving.clone();
                        let service =
                            hyper::service::service_fn(move |request| of.clone().serve(id, request));
                        let _ = hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
                        serving.world().listeners.remove(&id);
                        serving.shared.1.notify_all();
                    });
                }
            });
        });
        this
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.shared.0.lock().unwrap()
    }

    /// Waits until it is so.
    pub fn wait(&self, what: &str, mut is: impl FnMut(&mut World) -> bool) {
        let waited = self.shared.1.wait_timeout_while(self.world(), PATIENCE, |world| !is(world)).unwrap();
        assert!(!waited.1.timed_out(), "{what}: {:?}", waited.0.asked);
    }

    /// Somebody writes to us.
    pub fn say(&self, who: &str, text: &str) -> u64 {
        self.world().say(who, None, text, &json!({}))
    }

    /// The next request of a method goes wrong.
    pub fn fault(&self, method: &str, fault: Fault) {
        self.world().faults.push_back((method.to_owned(), fault));
    }

    /// All streams of events end.
    pub fn cut(&self) {
        self.world().listeners.clear();
    }

    /// What was asked of a method, in order.
    #[must_use]
    pub fn asked(&self, method: &str) -> Vec<Value> {
        let world = self.world();
        world.asked.iter().filter(|(of, _)| of == method).map(|(_, params)| params.clone()).collect()
    }

    async fn serve(self, connection: u64, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        let last = request.headers().get("last-event-id").and_then(|last| last.to_str().ok());
        let last = last.unwrap_or_default().to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        let answer = match (method.as_str(), &path[..]) {
            ("GET", "/api/v1/check") => whole(200, ""),
            ("GET", "/api/v1/events") => self.events(connection, &query, last),
            ("POST", "/api/v1/rpc") => self.rpc(&body).await,
            _ => whole(404, ""),
        };
        self.shared.1.notify_all();
        Ok(answer)
    }

    fn events(&self, connection: u64, query: &str, last: String) -> Answer {
        let mut world = self.world();
        if let Some(Fault::Status(status)) = fault(&mut world, "events") {
            return whole(status, "");
        }
        let asked = query.strip_prefix("account=").map(|account| account.replace("%2B", "+"));
        let has = |asked: &String| {
            asked == OUR_ACI || world.accounts.as_ref().is_none_or(|accounts| accounts.contains(asked))
        };
        if !asked.as_ref().is_none_or(has) {
            return whole(400, "");
        }
        let (tell, told) = mpsc::unbounded_channel::<Bytes>();
        for line in std::mem::take(&mut world.waiting) {
            let _ = tell.send(line);
        }
        world.listeners.insert(connection, tell);
        world.opened += 1;
        world.last.push(last);
        let lines = futures_util::stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
        let frames = lines.map(|line| Ok::<_, io::Error>(Frame::data(line)));
        let answer = Response::builder().status(200).header(CONTENT_TYPE, "text/event-stream");
        answer.body(http_body_util::BodyExt::boxed(StreamBody::new(frames))).unwrap()
    }

    async fn rpc(&self, body: &[u8]) -> Answer {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        let method = asked["method"].as_str().unwrap_or_default().to_owned();
        let mut params = asked["params"].clone();
        let (fault, done) = {
            let mut world = self.world();
            world.asked.push((method.clone(), params.clone()));
            match fault(&mut world, &method) {
                Some(Fault::Status(status)) => return whole(status, "no"),
                Some(Fault::Error(code, text, data)) => (None, Err((code, text, data))),
                fault => (fault, world.account(&mut params).and_then(|()| world.perform(&method, &params))),
            }
        };
        if fault.is_some() {
            // The body ends before it is whole.
            let broken = futures_util::stream::once(async { Err(io::Error::other("cut")) });
            return Response::new(http_body_util::BodyExt::boxed(StreamBody::new(broken)));
        }
        let answer = match done {
            Ok(result) => json!({"jsonrpc": "2.0", "result": result, "id": asked["id"]}),
            Err((code, message, data)) => {
                json!({"jsonrpc": "2.0", "error": {"code": code, "message": message, "data": data}, "id": asked["id"]})
            }
        };
        whole(200, &crate::on_the_wire(&answer))
    }
}

fn fault(world: &mut World, method: &str) -> Option<Fault> {
    let at = world.faults.iter().position(|(of, _)| of == method)?;
    world.faults.remove(at).map(|(_, fault)| fault)
}

fn whole(status: u16, body: &str) -> Answer {
    let body = Full::new(Bytes::from(body.to_owned())).map_err(|never| match never {});
    let body = http_body_util::BodyExt::boxed(body);
    Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

/// What each method may be given, beside the account.
const PARAMETERS: [(&str, &[&str]); 9] = [
    ("listAccounts", &[]),
    ("listContacts", &["allRecipients"]),
    ("listGroups", &[]),
    (
        "send",
        &[
            "recipient",
            "groupId",
            "noteToSelf",
            "message",
            "attachments",
            "textStyle",
            "quoteTimestamp",
            "quoteAuthor",
            "quoteMessage",
            "editTimestamp",
            "noUrgent",
            "voiceNote",
        ],
    ),
    (
        "sendReaction",
        &["recipient", "groupId", "noteToSelf", "emoji", "remove", "targetAuthor", "targetTimestamp"],
    ),
    ("remoteDelete", &["recipient", "groupId", "noteToSelf", "targetTimestamp"]),
    ("sendTyping", &["recipient", "groupId", "stop"]),
    ("sendReceipt", &["recipient", "targetTimestamp", "type"]),
    ("getAttachment", &["id", "recipient", "groupId"]),
];

impl World {
    fn account(&self, params: &mut Value) -> Result<(), No> {
        let asked = params.as_object_mut().and_then(|params| params.remove("account"));
        match (&self.accounts, asked.as_ref().and_then(Value::as_str)) {
            (Some(all), Some(asked)) if asked != OUR_ACI && !all.iter().any(|one| one == asked) => {
                no(-32602, "Specified account does not exist")
            }
            _ => Ok(()),
        }
    }

    fn perform(&mut self, method: &str, params: &Value) -> Result<Value, No> {
        if method == "getUserStatus" {
            let known = |contact: &&Value| {
                params["recipient"][0] == contact["number"] && !contact["number"].is_null()
                    || params["username"][0] == contact["username"] && !contact["username"].is_null()
            };
            let found = self.contacts.iter().find(known);
            return Ok(
                json!([{"recipient": "x", "isRegistered": found.is_some(), "uuid": found.map(|one| one["uuid"].clone())}]),
            );
        }
        let Some((_, names)) = PARAMETERS.iter().find(|(of, _)| *of == method) else {
            return no(-32601, "Method not implemented");
        };
        let given = params.as_object().into_iter().flatten();
        if let Some((strange, _)) = given.into_iter().find(|(name, _)| !names.contains(&&name[..])) {
            return no(-32600, format!("the tests know no parameter {strange} of {method}"));
        }
        match method {
            "listAccounts" => match &self.accounts {
                Some(all) => Ok(all.iter().map(|number| json!({"number": number})).collect()),
                None => no(-32601, "Method not implemented"),
            },
            "listContacts" => Ok(json!(self.contacts)),
            "listGroups" => Ok(json!(self.groups)),
            "getAttachment" => match self.files.get(params["id"].as_str().unwrap_or_default()) {
                _ if params["recipient"].is_string() == params["groupId"].is_string() => {
                    no(-1, "one of the arguments --recipient -g/--group-id is required")
                }
                Some(bytes) => Ok(json!({"data": STANDARD.encode(bytes)})),
                None => no(-1, "Could not find attachment"),
            },
            "sendReceipt" => self.results(&json!([params["recipient"]])),
            _ => self.send(method, params),
        }
    }

    /// Says what comes of sending to people.
    fn results(&mut self, people: &Value) -> Result<Value, No> {
        let at = self.time();
        let known = |id: &Value| {
            let of = |field: &str| self.contacts.iter().any(|contact| contact[field] == *id && !id.is_null());
            of("uuid") || of("number")
        };
        let to = people.as_array().cloned().unwrap_or_default();
        let kind = |id: &Value| if known(id) { "SUCCESS" } else { "UNREGISTERED_FAILURE" };
        let results: Value = to
            .iter()
            .map(|id| json!({"recipientAddress": {"uuid": id, "number": null}, "type": kind(id)}))
            .collect();
        let sent = json!({"timestamp": at, "results": results});
        if to.is_empty() {
            return no(-1, "No recipients given");
        }
        if to.iter().any(known) {
            Ok(sent)
        } else {
            Err((-1, "Failed to send message".into(), json!({"response": sent})))
        }
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<Value, No> {
        let places =
            ["recipient", "groupId", "noteToSelf"].iter().filter(|of| !params[**of].is_null()).count();
        if places != 1 {
            return no(-1, "No recipients given");
        }
        let sent = match (params["groupId"].as_str(), &params["recipient"]) {
            (Some(group), _) => match self.groups.iter().find(|one| one["id"] == group) {
                None => return no(-1, format!("Group not found: {group}")),
                Some(group) if group["isMember"] != true => {
                    return no(-1, "User is not a group member: Plans");
                }
                Some(_) => self.results(&json!([ADA]))?,
            },
            (None, Value::Array(people)) => self.results(&json!(people))?,
            (None, _) => self.results(&json!([OUR_ACI]))?,
        };
        let ours =
            |at: &Value| at.as_u64().is_some_and(|at| self.messages.contains_key(&(at, US.to_owned())));
        let target = |at: &Value, by: &Value| {
            let author = by.as_str().map(|by| if [US, OUR_ACI].contains(&by) { US } else { by });
            at.as_u64().zip(author).is_some_and(|(at, by)| self.messages.contains_key(&(at, by.to_owned())))
        };
        match method {
            "sendReaction" if params["emoji"].as_str().is_none_or(str::is_empty) => {
                return no(-1, "argument -e/--emoji is required");
            }
            "sendReaction" if !target(&params["targetTimestamp"], &params["targetAuthor"]) => {
                return no(-32600, "the tests know no such message");
            }
            "remoteDelete" if !ours(&params["targetTimestamp"]) => {
                return no(-32600, "the tests know no such message of ours");
            }
            "send" => {
                let text = params["message"].as_str().unwrap_or_default();
                if text.is_empty() && params["attachments"].as_array().is_none_or(Vec::is_empty) {
                    return no(-1, "Sending empty message is not allowed");
                }
                let units = text.encode_utf16().count();
                let fits = |style: &str| {
                    let parts: Vec<&str> = style.splitn(3, ':').collect();
                    let [start, length, style] = parts[..] else { return false };
                    let range = start.parse::<usize>().ok().zip(length.parse::<usize>().ok());
                    let known = ["BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE"].contains(&style);
                    known && range.is_some_and(|(start, length)| length > 0 && start + length <= units)
                };
                let styles = params["textStyle"].as_array().cloned().unwrap_or_default();
                if let Some(style) = styles.iter().find(|style| !style.as_str().is_some_and(fits)) {
                    return no(-1, format!("Invalid textStyle syntax ({style})"));
                }
                let quoted = &params["quoteTimestamp"];
                if !quoted.is_null() && !target(quoted, &params["quoteAuthor"]) {
                    return no(-32600, "the tests know no such message to quote");
                }
                if !params["editTimestamp"].is_null() && !ours(&params["editTimestamp"]) {
                    return no(-32600, "the tests know no such message of ours to edit");
                }
                for file in params["attachments"].as_array().into_iter().flatten() {
                    if data(file.as_str().unwrap_or_default()).is_none() {
                        return no(-32603, "Failed to send message: x (AttachmentInvalidException)");
                    }
                }
                let at = sent["timestamp"].as_u64().unwrap_or_default();
                self.messages.insert((at, US.to_owned()), params.clone());
            }
            _ => {}
        }
        Ok(if method == "sendTyping" { json!({}) } else { sent })
    }
}

/// Reads a file that stands in an address: its kind, its name as it is escaped, and what it holds.
#[must_use]
pub fn data(address: &str) -> Option<(String, String, Vec<u8>)> {
    let (head, data) = address.strip_prefix("data:")?.split_once(',')?;
    let (kind, name) = head.strip_suffix(";base64")?.split_once(";filename=")?;
    let is_plain = !name.contains([';', '=', ',', ' ']) && kind.contains('/');
    is_plain.then_some((kind.to_owned(), name.to_owned(), STANDARD.decode(data).ok()?))
}
