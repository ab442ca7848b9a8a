//! A Slack of the tests' own on loopback: its Web API and Socket Mode. It refuses what Slack refuses.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use g2_channels::http::{Ask, Http};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::unbounded_channel,
};
use tokio_websockets::{Message, ServerBuilder};

mod methods;
pub mod world;

use methods::{Given, Refused};
use world::{APP, BOT, Fault, TEAM, World, Write};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Fake {
    shared: Arc<(Mutex<World>, Condvar)>,
    pub base: String,
}

impl Fake {
    #[must_use]
    pub fn start() -> Self {
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (rest, sockets) = (listen(), listen());
        let base = format!("http://{}", rest.local_addr().unwrap());
        let world = World::new(base.clone(), format!("ws://{}", sockets.local_addr().unwrap()));
        let this = Self { shared: Arc::new((Mutex::new(world), Condvar::new())), base };
        let serving = this.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for socket in [&rest, &sockets] {
                    socket.set_nonblocking(true).unwrap();
                }
                let sockets = TcpListener::from_std(sockets).unwrap();
                let at_sockets = serving.clone();
                tokio::spawn(async move {
                    while let Ok((stream, _)) = sockets.accept().await {
                        tokio::spawn(at_sockets.clone().socket(stream));
                    }
                });
                let rest = TcpListener::from_std(rest).unwrap();
                while let Ok((stream, _)) = rest.accept().await {
                    let serving = serving.clone();
                    let service = hyper::service::service_fn(move |request| serving.clone().serve(request));
                    tokio::spawn(async move {
                        let _ = hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
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

    fn changed(&self) {
        self.shared.1.notify_all();
    }

    // What people do.

    #[must_use = "its time is its id"]
    pub fn say(&self, channel: &str, who: &str, text: &str) -> String {
        self.world().say(channel, who, text, &json!({}))
    }

    /// Somebody answers in the thread below a message.
    #[must_use = "its time is its id"]
    pub fn reply(&self, channel: &str, root: &str, who: &str, text: &str) -> String {
        self.world().say(channel, who, text, &json!({"thread_ts": root}))
    }

    /// Somebody presses a button below a message. Returns the envelope.
    pub fn press(&self, channel: &str, ts: &str, value: &str, who: &str) -> String {
        let mut world = self.world();
        let at = world.time();
        let message = world.places[channel].messages[&World::at(ts)].clone();
        let blocks = message["blocks"].as_array().cloned().unwrap_or_default();
        let buttons =
            blocks.iter().flat_map(|block| block["elements"].as_array().cloned().unwrap_or_default());
        let pressed = buttons.into_iter().find(|button| button["value"] == value);
        let pressed = pressed.unwrap_or_else(|| panic!("no button {value}: {message}"));
        let name = world.people[who]["name"].clone();
        let payload = json!({"type": "block_actions", "user": {"id": who, "username": name, "name": name, "team_id": TEAM},
            "api_app_id": APP, "token": "verification", "team": {"id": TEAM, "domain": "home"}, "enterprise": null,
            "container": {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false},
            "trigger_id": format!("{at}.1"), "channel": {"id": channel, "name": "x"}, "message": message,
            "response_url": "https://hooks.slack.com/actions/T1/1/x",
            "actions": [{"action_id": pressed["action_id"], "block_id": "x", "text": pressed["text"], "value": value,
                "type": "button", "action_ts": World::ts(at)}]});
        world.envelope("interactive", payload)
    }

    /// Somebody gives a command. Returns the envelope.
    pub fn command(&self, channel: &str, command: &str, text: &str, who: &str) -> String {
        let mut world = self.world();
        let at = world.time();
        let name = world.people[who]["name"].clone();
        let payload = json!({"token": "verification", "team_id": TEAM, "team_domain": "home", "channel_id": channel,
            "channel_name": "x", "user_id": who, "user_name": name, "command": command, "text": text, "api_app_id": APP,
            "is_enterprise_install": "false", "response_url": "https://hooks.slack.com/commands/T1/1/x", "trigger_id": format!("{at}.2")});
        world.envelope("slash_commands", payload)
    }

    /// What the bot said in a channel, in order.
    #[must_use]
    pub fn said(&self, channel: &str) -> Vec<Value> {
        let world = self.world();
        let all = world.places[channel].messages.values();
        all.filter(|message| message["user"] == BOT).cloned().collect()
    }

    // What goes wrong.

    pub fn fault(&self, at: &str, fault: Fault) {
        self.world().faults.push_back((at.to_owned(), fault));
    }

    /// Slack says that it ends the sockets soon.
    pub fn warn(&self) {
        self.line(&json!({"type": "disconnect", "reason": "warning", "debug_info": {"host": "fake"}}));
    }

    /// All sockets get this line.
    pub fn line(&self, line: &Value) {
        for socket in self.world().sockets.values() {
            let _ = socket.send(Write::Line(line.to_string()));
        }
    }

    /// The sockets are gone now, for what is said next. What was not taken is told again on the next one.
    pub fn cut(&self) {
        for (_, socket) in std::mem::take(&mut self.world().sockets) {
            let _ = socket.send(Write::Cut);
        }
    }

    /// The oldest socket is closed.
    pub fn close_oldest(&self) {
        if let Some((_, socket)) = self.world().sockets.pop_first() {
            let _ = socket.send(Write::Close);
        }
    }

    /// The sockets are gone, and new ones wait until `come_back`.
    pub fn leave(&self) {
        self.world().away = true;
        self.cut();
    }

    pub fn come_back(&self) {
        self.world().away = false;
    }

    /// Slack does not tell again what was not taken.
    pub fn forget(&self) {
        self.world().envelopes.clear();
    }

    // Sockets.

    async fn socket(self, stream: TcpStream) {
        while self.world().away {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Ok((request, mut socket)) = ServerBuilder::new().accept(stream).await else { return };
        let query = request.uri().query().unwrap_or_default().to_owned();
        let ticket =
            query.split('&').find_map(|pair| pair.strip_prefix("ticket=")).unwrap_or_default().to_owned();
        let (tell, mut lines) = unbounded_channel();
        let id = {
            let mut world = self.world();
            if !world.tickets.remove(&ticket) {
                return;
            }
            world.opened += 1;
            let id = world.opened as u64;
            let hello = json!({"type": "hello", "num_connections": world.sockets.len() + 1 + world.others, "connection_info": {"app_id": APP},
                "debug_info": {"host": "fake", "build_number": 1, "approximate_connection_time": 18060}});
            let _ = tell.send(Write::Line(hello.to_string()));
            world.sockets.insert(id, tell);
            world.most_at_once = world.most_at_once.max(world.sockets.len());
            world.again(Some(0));
            id
        };
        self.changed();
        loop {
            let said = tokio::select! {
                write = lines.recv() => match write {
                    Some(Write::Line(line)) => {
                        if socket.send(Message::text(line)).await.is_err() { break }
                        continue;
                    }
                    Some(Write::Close) => {
                        let _ = socket.close().await;
                        break;
                    }
                    Some(Write::Cut) | None => break,
                },
                said = socket.next() => said,
            };
            let Some(Ok(said)) = said else { break };
            let Some(said) = said.as_text() else { continue };
            let said: Value = serde_json::from_str(said).unwrap();
            let of =
                said["envelope_id"].as_str().unwrap_or_else(|| panic!("{said} takes no envelope")).to_owned();
            let mut world = self.world();
            if let Some(at) = world.envelopes.iter().position(|(id, _)| *id == of) {
                world.envelopes.remove(at);
            }
            world.taken.push((of, said["payload"].clone()));
            drop(world);
            self.changed();
        }
        let mut world = self.world();
        world.sockets.remove(&id);
        world.again(Some(id));
        drop(world);
        self.changed();
    }

    // The Web API.

    async fn serve(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        let header = |name| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let path = parts.uri.path().to_owned();
        let (fault, beyond) = {
            let mut world = self.world();
            world.asked.push(path.clone());
            let at = world.faults.iter().position(|(at, _)| path.contains(at.as_str()));
            let fault = at.and_then(|at| world.faults.remove(at)).map(|(_, fault)| fault);
            (fault, world.beyond.clone().filter(|_| path != "/api/apps.connections.open"))
        };
        let json = |status: u16, after: Option<&str>, body: String| {
            let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
            let scopes: Vec<String> = self.world().scopes.iter().cloned().collect();
            let answer = answer.header("x-oauth-scopes", scopes.join(","));
            let answer = if let Some(after) = after { answer.header("retry-after", after) } else { answer };
            answer.body(Full::new(body.into())).unwrap()
        };
        match &fault {
            Some(Fault::CutBefore) => {
                self.changed();
                return Err(Cut);
            }
            Some(Fault::Answer(status, after, body)) => {
                self.changed();
                return Ok(json(*status, *after, body.to_string()));
            }
            Some(Fault::CutAfter) | None => {}
        }
        let token = header(AUTHORIZATION).strip_prefix("Bearer ").unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        if let Some(base) = beyond {
            return self
                .beyond(&base, &parts.method, &path, &query, &token, &header(CONTENT_TYPE), body)
                .await;
        }
        if let Some(id) = path.strip_prefix("/upload/v1/") {
            let mut world = self.world();
            let Some(upload) = world.uploads.get_mut(id) else { return Ok(json(404, None, "{}".into())) };
            upload.1 = body.to_vec();
            if matches!(fault, Some(Fault::CutAfter)) {
                return Err(Cut);
            }
            return Ok(Response::new(Full::new("OK".into())));
        }
        if let Some(file) = path.strip_prefix("/files-pri/") {
            let id = file.split('/').next().and_then(|id| id.split('-').nth(1)).unwrap_or_default();
            let mut world = self.world();
            if world.moves > 0 {
                world.moves -= 1;
                let next = format!("{}{path}", world.rest);
                return Ok(Response::builder()
                    .status(302)
                    .header("location", next)
                    .body(Full::default())
                    .unwrap());
            }
            let is_let_in = token == world.bot_token && world.scopes.contains("files:read");
            let answer = match world.files.get(id) {
                // Without the right Slack shows the page where people log in.
                Some(_) if !is_let_in => Response::builder()
                    .header(CONTENT_TYPE, "text/html; charset=utf-8")
                    .body(Full::new("<html>log in</html>".into())),
                Some(file) => Response::builder().body(Full::new(file.bytes.clone().into())),
                None => Response::builder().status(404).body(Full::default()),
            };
            return Ok(answer.unwrap());
        }
        let given = read(&header(CONTENT_TYPE), &query, &body);
        let answer = self.answer(path.strip_prefix("/api/").unwrap_or_default(), &token, &given);
        self.changed();
        if matches!(fault, Some(Fault::CutAfter)) {
            return Err(Cut);
        }
        Ok(json(200, None, crate::on_the_wire(&answer)))
    }

    fn answer(&self, method: &str, token: &str, given: &Given) -> Value {
        let mut world = self.world();
        let token = match given.get("token").and_then(Value::as_str) {
            Some(given) if token.is_empty() => given.to_owned(),
            _ => token.to_owned(),
        };
        let answer = match method {
            _ if token.is_empty() => Err(Refused("not_authed", None)),
            "apps.connections.open" if token == world.app_token => Ok(world.socket_url()),
            "apps.connections.open" if token.starts_with("xoxb-") => {
                Err(Refused("not_allowed_token_type", None))
            }
            _ if token != world.bot_token => Err(Refused("invalid_auth", None)),
            _ => world.asked_as_bot(method, given),
        };
        match answer {
            Ok(mut answer) => {
                answer["ok"] = true.into();
                answer
            }
            Err(Refused(word, None)) => json!({"ok": false, "error": word}),
            Err(Refused(word, Some(scope))) => {
                let has: Vec<String> = world.scopes.iter().cloned().collect();
                json!({"ok": false, "error": word, "needed": scope, "provided": has.join(",")})
            }
        }
    }

    /// Hands a request on to another server.
    #[expect(clippy::too_many_arguments, reason = "a request has that many parts")]
    async fn beyond(
        self,
        base: &str,
        method: &Method,
        path: &str,
        query: &str,
        token: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>, Cut> {
        // It lists all channels, and not those of the bot alone.
        let path = path.replace("users.conversations", "conversations.list");
        let http: Http = Http::new(base).unwrap();
        let ask = Ask {
            method: method.clone(),
            url: format!("{base}{path}?{query}"),
            bearer: Some(token.to_owned()).filter(|token| !token.is_empty()),
            content_type: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
            body,
            within: PATIENCE,
            most: 64 << 20,
        };
        let answer = http.ask(ask).await.map_err(|_| Cut)?;
        let kind = answer.headers.get(CONTENT_TYPE).cloned();
        self.changed();
        let response = Response::builder().status(answer.status);
        let response = match kind {
            Some(kind) => response.header(CONTENT_TYPE, kind),
            None => response,
        };
        Ok(response.body(Full::new(answer.body)).unwrap())
    }
}

/// Ends a connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

/// What a request is given: by its query, by a form, or as JSON.
fn read(kind: &str, query: &str, body: &[u8]) -> Given {
    let body = String::from_utf8_lossy(body).into_owned();
    let mut given: Given = pairs(query);
    if kind.starts_with("application/json") {
        if let Ok(Value::Object(said)) = serde_json::from_str(&body) {
            given.extend(said);
        }
    } else {
        given.extend(pairs(&body));
    }
    given
}

fn pairs(text: &str) -> Given {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((unescape(name), Value::from(unescape(value))))
    };
    text.split('&').filter_map(pair).collect()
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        match (*first, more.get(..2).and_then(|hex| std::str::from_utf8(hex).ok())) {
            (b'%', Some(hex)) => {
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = &more[2..];
            }
            (byte, _) => {
                bytes.push(if byte == b'+' { b' ' } else { byte });
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
