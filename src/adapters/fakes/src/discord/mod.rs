//! A Discord of the tests' own on loopback: its HTTP API, version 10, and its gateway. It refuses what Discord refuses.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::unbounded_channel,
};
use tokio_websockets::{CloseCode, Message, ServerBuilder};

mod rows;
pub mod world;

use world::{
    APPLICATION, BOT, BOT_ID, CONTENT, Fault, Files, GUILD, Place, Refused, Session, World, Write, refuse,
};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Fake {
    shared: Arc<(Mutex<World>, Condvar)>,
    pub base: String,
}

impl Fake {
    pub fn start() -> Self {
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (rest, gateway) = (listen(), listen());
        let base = format!("http://{}", rest.local_addr().unwrap());
        let world = World::new(base.clone(), format!("ws://{}", gateway.local_addr().unwrap()));
        let this = Self { shared: Arc::new((Mutex::new(world), Condvar::new())), base };
        let serving = this.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for socket in [&rest, &gateway] {
                    socket.set_nonblocking(true).unwrap();
                }
                let gateway = TcpListener::from_std(gateway).unwrap();
                let at_gateway = serving.clone();
                tokio::spawn(async move {
                    while let Ok((stream, _)) = gateway.accept().await {
                        tokio::spawn(at_gateway.clone().connection(stream));
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

    pub fn say(&self, channel: u64, who: u64, text: &str) -> u64 {
        self.world().say(channel, who, text, &json!({}))
    }

    pub fn edit(&self, channel: u64, id: u64, text: &str) {
        let mut world = self.world();
        let now = world.id();
        let message = world.places.get_mut(&channel).unwrap().messages.get_mut(&id).unwrap();
        message["content"] = text.into();
        message["edited_timestamp"] = World::time(now).into();
        let (message, who) = (message.clone(), message["author"]["id"].as_str().unwrap().parse().unwrap());
        let told = world.placed(channel, message, who);
        world.dispatch("MESSAGE_UPDATE", &told);
    }

    pub fn delete(&self, channel: u64, id: u64) {
        let mut world = self.world();
        world.places.get_mut(&channel).unwrap().messages.remove(&id);
        let mut told = json!({"id": id.to_string(), "channel_id": channel.to_string()});
        if world.places[&channel].person.is_none() {
            told["guild_id"] = GUILD.to_string().into();
        }
        world.dispatch("MESSAGE_DELETE", &told);
    }

    pub fn react(&self, channel: u64, id: u64, who: u64, emoji: &Value, on: bool) {
        let mut world = self.world();
        let told = json!({"user_id": who.to_string(), "channel_id": channel.to_string(), "message_id": id.to_string(),
            "emoji": emoji, "burst": false, "type": 0});
        let mut told = world.placed(channel, told, who);
        if !on {
            told.as_object_mut().unwrap().remove("member");
        }
        world.dispatch(if on { "MESSAGE_REACTION_ADD" } else { "MESSAGE_REACTION_REMOVE" }, &told);
    }

    /// Somebody says something of each kind in a channel. Returns what the kinds are called, in order.
    pub fn rows(&self, channel: u64, who: u64) -> Vec<&'static str> {
        let before = self.world().say(channel, who, "before", &json!({}));
        let rows = rows::rows(channel, before);
        rows.into_iter()
            .map(|(name, text, more)| {
                self.world().say(channel, who, text, &more);
                name
            })
            .collect()
    }

    /// Somebody presses a button below a message. Returns the press's id.
    pub fn press(&self, channel: u64, message: u64, custom_id: &str, who: u64) -> String {
        let mut world = self.world();
        let id = world.id().to_string();
        let of = world.places[&channel].messages[&message].clone();
        let told = json!({"id": id, "application_id": APPLICATION.to_string(), "type": 3, "token": format!("token-{id}"),
            "channel_id": channel.to_string(), "message": of, "data": {"custom_id": custom_id, "component_type": 2},
            "version": 1, "locale": "en-US", "attachment_size_limit": 10 << 20, "entitlements": [],
            "authorizing_integration_owners": {"0": GUILD.to_string()}, "app_permissions": "2251799813685247", "context": 0,
            "channel": world.channel(channel)});
        let mut told = world.placed(channel, told, who);
        if told.get("member").is_none() {
            told["user"] = world.people[&who].clone();
        }
        world.dispatch("INTERACTION_CREATE", &told);
        id
    }

    /// Somebody chooses a command that is listed, with what stands behind it. Returns the interaction's id.
    pub fn choose(&self, channel: u64, name: &str, given: Option<&str>, who: u64) -> String {
        let mut world = self.world();
        let id = world.id().to_string();
        let listed =
            world.commands.as_array().unwrap().iter().find(|command| command["name"] == name).cloned();
        let listed = listed.unwrap_or_else(|| panic!("no command {name} is listed: {}", world.commands));
        let options: Vec<Value> = given
            .map(|given| json!({"name": listed["options"][0]["name"], "type": 3, "value": given}))
            .into_iter()
            .collect();
        let may = if world.places[&channel].unseen { "2048" } else { "2251799813685247" };
        let told = json!({"id": id, "application_id": APPLICATION.to_string(), "type": 2, "token": format!("token-{id}"),
            "channel_id": channel.to_string(), "data": {"id": listed["id"], "name": name, "type": 1, "options": options},
            "version": 1, "locale": "en-US", "attachment_size_limit": 10 << 20, "entitlements": [],
            "authorizing_integration_owners": {"0": GUILD.to_string()}, "app_permissions": may, "context": 0,
            "channel": world.channel(channel)});
        let mut told = world.placed(channel, told, who);
        if told.get("member").is_none() {
            told["user"] = world.people[&who].clone();
        }
        world.dispatch("INTERACTION_CREATE", &told);
        id
    }

    pub fn thread(&self, parent: u64, name: &str) -> u64 {
        self.thread_of(parent, name, 11)
    }

    /// Opens a thread: 11 is read by all of its channel, 12 by those alone who are let in.
    pub fn thread_of(&self, parent: u64, name: &str, kind: u64) -> u64 {
        let mut world = self.world();
        let id = world.id();
        world.places.insert(id, Place { kind, name: name.into(), parent: Some(parent), ..Place::default() });
        let told = world.channel(id);
        world.dispatch("THREAD_CREATE", &told);
        id
    }

    pub fn dm(&self, who: u64) -> u64 {
        let mut world = self.world();
        let known = world.places.iter().find(|(_, place)| place.person == Some(who)).map(|(id, _)| *id);
        known.unwrap_or_else(|| {
            let id = world.id();
            world.places.insert(id, Place { kind: 1, person: Some(who), ..Place::default() });
            id
        })
    }

    /// What the bot said in a channel, in order.
    pub fn said(&self, channel: u64) -> Vec<Value> {
        let world = self.world();
        let all = world.places[&channel].messages.values();
        all.filter(|message| message["author"]["id"] == BOT_ID).cloned().collect()
    }

    // What goes wrong.

    pub fn fault(&self, at: &str, fault: Fault) {
        self.world().faults.push_back((at.to_owned(), fault));
    }

    /// All connections get this.
    pub fn connections(&self, write: impl Fn() -> Write) {
        for session in self.world().sessions.values_mut() {
            if let Some(connection) = &session.connection {
                let _ = connection.send(write());
            }
        }
    }

    /// The connection is gone now, for what is said next.
    pub fn cut(&self) {
        for session in self.world().sessions.values_mut() {
            if let Some(connection) = session.connection.take() {
                let _ = connection.send(Write::Cut);
            }
        }
    }

    /// Ends all connections with this. New ones wait until `come_back`. Discord tells late what was said meanwhile.
    pub fn leave(&self, with: impl Fn() -> Write) {
        let mut world = self.world();
        world.away = true;
        for session in world.sessions.values_mut() {
            if let Some(connection) = session.connection.take() {
                let _ = connection.send(with());
            }
        }
    }

    pub fn come_back(&self) {
        self.world().away = false;
    }

    pub fn forget_sessions(&self) {
        self.cut();
        self.world().sessions.clear();
    }

    // The gateway.

    async fn connection(self, stream: TcpStream) {
        while self.world().away {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Ok((_, mut socket)) = ServerBuilder::new().accept(stream).await else { return };
        let close = |code: u16| Message::close(CloseCode::try_from(code).ok(), "");
        let hello = json!({"op": 10, "s": null, "t": null, "d": {"heartbeat_interval": 41_250}});
        let _ = socket.send(Message::text(hello.to_string())).await;
        let (tell, mut lines) = unbounded_channel();
        let mut in_session = false;
        loop {
            let said = tokio::select! {
                write = lines.recv() => match write {
                    Some(Write::Line(line)) => {
                        if socket.send(Message::text(line)).await.is_err() { return }
                        continue;
                    }
                    Some(Write::Close(code)) => {
                        let _ = socket.send(close(code)).await;
                        return;
                    }
                    Some(Write::Cut) | None => return,
                },
                said = socket.next() => said,
            };
            let Some(Ok(said)) = said else { return };
            let Some(said) = said.as_text() else { continue };
            let Ok(said) = serde_json::from_str::<Value>(said) else {
                let _ = socket.send(close(4002)).await;
                return;
            };
            let answer = match said["op"].as_u64() {
                Some(1) => Ok(json!({"op": 11, "s": null, "t": null, "d": null})),
                Some(2) if in_session => Err(4005),
                Some(2) => self.identify(&said["d"], &tell),
                Some(6) => self.resume(&said["d"], &tell),
                Some(3 | 4 | 8) if in_session => Ok(Value::Null),
                Some(3 | 4 | 8) => Err(4003),
                _ => Err(4001),
            };
            self.changed();
            match answer {
                Ok(Value::Null) => in_session = true,
                Ok(answer) => {
                    let _ = socket.send(Message::text(answer.to_string())).await;
                }
                Err(code) => {
                    let _ = socket.send(close(code)).await;
                    return;
                }
            }
        }
    }

    fn identify(&self, data: &Value, tell: &tokio::sync::mpsc::UnboundedSender<Write>) -> Result<Value, u16> {
        let mut world = self.world();
        let token = data["token"].as_str().unwrap_or_default();
        let intents = data["intents"].as_u64().ok_or(4013_u16)?;
        if token.trim_start_matches("Bot ") != world.token || !data["properties"].is_object() {
            return Err(4004);
        }
        if intents & CONTENT != 0 && !world.content_allowed {
            return Err(4014);
        }
        world.identified += 1;
        let id = format!("session{}", world.identified);
        let mut session = Session { intents, connection: Some(tell.clone()), ..Session::default() };
        session.tell("READY", &json!({
            "v": 10, "user": world.people[&BOT], "guilds": [{"id": GUILD.to_string(), "unavailable": true}], "session_id": id,
            "resume_gateway_url": world.gateway, "shard": data["shard"], "private_channels": [], "relationships": [],
            "application": {"id": APPLICATION.to_string(), "flags": 1 << 19}, "session_type": "normal", "presences": [],
        }));
        session.tell("GUILD_CREATE", &world.guild());
        world.sessions.insert(id, session);
        Ok(Value::Null)
    }

    fn resume(&self, data: &Value, tell: &tokio::sync::mpsc::UnboundedSender<Write>) -> Result<Value, u16> {
        let mut world = self.world();
        if data["token"].as_str().unwrap_or_default().trim_start_matches("Bot ") != world.token {
            return Err(4004);
        }
        let id = data["session_id"].as_str().unwrap_or_default().to_owned();
        let after = usize::try_from(data["seq"].as_u64().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let Some(session) = world.sessions.get_mut(&id).filter(|session| after <= session.lines.len()) else {
            return Ok(json!({"op": 9, "s": null, "t": null, "d": false}));
        };
        for line in &session.lines[after..] {
            let _ = tell.send(Write::Line(line.clone()));
        }
        session.connection = Some(tell.clone());
        session.tell("RESUMED", &json!({"_trace": []}));
        world.resumed += 1;
        Ok(Value::Null)
    }

    // The HTTP API.

    async fn serve(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        let header = |name| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let path = parts.uri.path().to_owned();
        let fault = {
            let mut world = self.world();
            let asked = format!("{} {path}", parts.method);
            let at = world.faults.iter().position(|(at, _)| asked.contains(at.as_str()));
            world.asked.push(asked);
            at.and_then(|at| world.faults.remove(at)).map(|(_, fault)| fault)
        };
        let answer = match &fault {
            Some(Fault::CutBefore) => {
                self.changed();
                return Err(Cut);
            }
            Some(Fault::Answer(status, body)) => Err(Refused(*status, body.clone())),
            Some(Fault::CutAfter) | None => {
                if let Some(file) = self.file(&path) {
                    return Ok(Response::new(Full::new(file.into())));
                }
                let head = Head {
                    agent: header(USER_AGENT),
                    token: header(AUTHORIZATION),
                    kind: header(CONTENT_TYPE),
                };
                let query = parts.uri.query().unwrap_or_default().to_owned();
                self.answer(parts.method.as_str(), &path, &query, &head, &body)
            }
        };
        self.changed();
        if matches!(fault, Some(Fault::CutAfter)) {
            return Err(Cut);
        }
        let (status, body) = match answer {
            Ok(Value::Null) => (204, String::new()),
            Ok(body) => (200, crate::on_the_wire(&body)),
            Err(Refused(status, body)) => (status, body.to_string()),
        };
        let mut answer = Response::builder().status(status);
        if status != 204 {
            answer = answer.header(CONTENT_TYPE, "application/json");
        }
        Ok(answer.body(Full::new(body.into())).unwrap())
    }

    fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.world().files.get(path).cloned()
    }

    fn answer(
        &self,
        method: &str,
        path: &str,
        query: &str,
        head: &Head,
        body: &[u8],
    ) -> Result<Value, Refused> {
        let Some(path) = path.strip_prefix("/api/v10/") else { return refuse(404, 0, "404: Not Found") };
        let by_path = path.starts_with("interactions/") || path.starts_with("webhooks/");
        let mut world = self.world();
        if !by_path && !head.agent.starts_with("DiscordBot (") {
            return refuse(403, 40333, "internal network error");
        }
        if !by_path && head.token != format!("Bot {}", world.token) {
            return refuse(401, 0, "401: Unauthorized");
        }
        let (said, files) = parse(&head.kind, body)?;
        let pieces: Vec<&str> = path.split('/').collect();
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        if let ["channels", id, ..] = pieces[..] {
            match world.places.get(&number(id)) {
                None => return refuse(404, 10003, "Unknown Channel"),
                Some(place) if place.closed => return refuse(403, 50001, "Missing Access"),
                Some(_) => {}
            }
        }
        match (method, &pieces[..]) {
            ("GET", ["users", "@me"]) => Ok(world.people[&BOT].clone()),
            ("GET", ["gateway", "bot"]) => Ok(json!({"url": world.gateway, "shards": 1,
                "session_start_limit": {"total": 1000, "remaining": 999, "reset_after": 1, "max_concurrency": 1}})),
            ("PUT", ["applications", id, "commands"]) if number(id) == APPLICATION => {
                world.list_commands(&said)
            }
            ("GET", ["applications", id, "commands"]) if number(id) == APPLICATION => {
                Ok(world.commands.clone())
            }
            ("GET", ["oauth2", "applications", "@me"] | ["applications", "@me"]) => {
                Ok(json!({"id": APPLICATION.to_string(), "name": "G2", "icon": null,
                "description": "", "bot_public": true, "bot_require_code_grant": false, "verify_key": "", "flags": 1 << 19,
                "owner": world.people[&100], "team": null, "summary": ""}))
            }
            ("GET", ["users", "@me", "guilds"]) => Ok(json!([{"id": GUILD.to_string(), "name": "Home"}])),
            ("GET", ["guilds", _]) => Ok(world.guild()),
            ("GET", ["guilds", _, "roles"]) => Ok(world.guild()["roles"].clone()),
            ("GET", ["guilds", _, "channels"]) => Ok(world.guild()["channels"].clone()),
            ("POST", ["users", "@me", "channels"]) => {
                let who = number(said["recipient_id"].as_str().unwrap_or_default());
                if !world.people.contains_key(&who) || who == BOT {
                    return refuse(400, 50033, "Invalid Recipient(s)");
                }
                drop(world);
                let id = self.dm(who);
                Ok(self.world().channel(id))
            }
            ("GET", ["channels", id]) => Ok(world.channel(number(id))),
            ("GET", ["channels", id, "messages"]) => Ok(page(&world, number(id), query)),
            ("POST", ["channels", id, "messages"]) => {
                if said["content"].as_str().unwrap_or_default().trim().is_empty() && files.is_empty() {
                    return refuse(400, 50006, "Cannot send an empty message");
                }
                match world.places[&number(id)] {
                    Place { locked: true, .. } => return refuse(400, 50083, "Thread is archived"),
                    Place { kind: 15 | 16, .. } => {
                        return refuse(400, 50008, "Cannot send messages in a non-text channel");
                    }
                    Place { .. } => {}
                }
                world.post(number(id), &said, &files)
            }
            ("POST", ["channels", _, "typing"]) => Ok(Value::Null),
            (_, ["channels", id, "messages", of, rest @ ..]) => {
                let (channel, id) = (number(id), number(of));
                let Some(message) = world.places[&channel].messages.get(&id).cloned() else {
                    return refuse(404, 10008, "Unknown Message");
                };
                match (method, rest) {
                    ("GET", []) => Ok(message),
                    ("DELETE", []) => {
                        drop(world);
                        self.delete(channel, id);
                        Ok(Value::Null)
                    }
                    ("PATCH", []) if message["author"]["id"] != BOT_ID => {
                        refuse(403, 50005, "Cannot edit a message authored by another user")
                    }
                    ("PATCH", []) => {
                        world.check(&said, &[])?;
                        let message = world.places.get_mut(&channel).unwrap().messages.get_mut(&id).unwrap();
                        if let Some(components) = said.get("components") {
                            message["components"] = components.clone();
                        }
                        let text = said["content"]
                            .as_str()
                            .unwrap_or_else(|| message["content"].as_str().unwrap())
                            .to_owned();
                        drop(world);
                        self.edit(channel, id, &text);
                        Ok(self.world().places[&channel].messages[&id].clone())
                    }
                    ("PUT" | "DELETE", ["reactions", emoji, "@me"]) => {
                        let emoji = unescape(emoji);
                        let emoji = match emoji.split_once(':') {
                            Some((name, id)) => json!({"id": id, "name": name}),
                            None if emoji.is_ascii() => return refuse(400, 10014, "Unknown Emoji"),
                            None => json!({"id": null, "name": emoji}),
                        };
                        let on = method == "PUT";
                        let message = world.places.get_mut(&channel).unwrap().messages.get_mut(&id).unwrap();
                        let mut signs = message["reactions"].as_array().cloned().unwrap_or_default();
                        signs.retain(|sign| sign["emoji"] != emoji);
                        if on {
                            signs.push(json!({"emoji": emoji, "me": true, "count": 1}));
                        }
                        message["reactions"] = signs.into();
                        drop(world);
                        self.react(channel, id, BOT, &emoji, on);
                        Ok(Value::Null)
                    }
                    _ => refuse(405, 0, "405: Method Not Allowed"),
                }
            }
            ("POST", ["interactions", id, token, "callback"]) => {
                if world.callbacks.iter().any(|(of, _)| of == id) {
                    return refuse(400, 40060, "Interaction has already been acknowledged.");
                }
                assert_eq!(*token, format!("token-{id}"));
                world.callbacks.push(((*id).to_owned(), said));
                let told = query.contains("with_response=1") || query.contains("with_response=true");
                Ok(if told { json!({"interaction": {"id": id, "type": 3}}) } else { Value::Null })
            }
            ("POST", ["webhooks", application, token]) => {
                let id = token.trim_start_matches("token-").to_owned();
                if number(application) != APPLICATION || !world.callbacks.iter().any(|(of, _)| *of == id) {
                    return refuse(404, 10015, "Unknown Webhook");
                }
                let mut whisper = world.places[&700].messages.values().next().cloned().unwrap_or_default();
                whisper["content"] = said["content"].clone();
                world.whispers.push((id, said));
                Ok(whisper)
            }
            ("POST", ["attachments", "refresh-urls"]) => {
                let old = said["attachment_urls"][0].as_str().unwrap_or_default();
                Ok(
                    json!({"refreshed_urls": [{"original": old, "refreshed": old.replace("/expired/", "/attachments/")}]}),
                )
            }
            _ => refuse(404, 0, "404: Not Found"),
        }
    }
}

/// Ends a connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

struct Head {
    agent: String,
    token: String,
    kind: String,
}

/// A page of a channel's messages, the newest first; after an id the oldest ones are taken.
fn page(world: &World, channel: u64, query: &str) -> Value {
    let field = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")[..])?.parse::<u64>().ok())
    };
    let limit = usize::try_from(field("limit").unwrap_or(50).min(100)).unwrap();
    let all = &world.places[&channel].messages;
    let mut page: Vec<Value> = match (field("after"), field("before")) {
        (Some(after), _) => all.range(after + 1..).take(limit).map(|(_, message)| message.clone()).collect(),
        (None, before) => {
            let mut page: Vec<Value> = all
                .range(..before.unwrap_or(u64::MAX))
                .rev()
                .take(limit)
                .map(|(_, message)| message.clone())
                .collect();
            page.reverse();
            page
        }
    };
    page.reverse();
    page.into()
}

/// A request's body: JSON, or a form with files beside it.
fn parse(kind: &str, body: &[u8]) -> Result<(Value, Files), Refused> {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
    let bad = || Refused(400, json!({"message": "400: Bad Request", "code": 0}));
    let Some(boundary) = kind.strip_prefix("multipart/form-data; boundary=") else {
        return if body.is_empty() {
            Ok((Value::Null, Vec::new()))
        } else {
            Ok((read(body).map_err(|_| bad())?, Vec::new()))
        };
    };
    let line = format!("--{}", boundary.trim_matches('"')).into_bytes();
    let starts: Vec<usize> =
        (0..body.len().saturating_sub(line.len() - 1)).filter(|at| body[*at..].starts_with(&line)).collect();
    let (mut said, mut files) = (Value::Null, Vec::new());
    for pair in starts.windows(2) {
        let part = &body[pair[0] + line.len() + 2..pair[1] - 2];
        let head = part.windows(4).position(|at| at == b"\r\n\r\n").ok_or_else(bad)?;
        let (head, bytes) = (String::from_utf8_lossy(&part[..head]).into_owned(), &part[head + 4..]);
        let field = |name: &str| {
            head.split(&format!("{name}=\""))
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .map(str::to_owned)
        };
        match field("filename") {
            Some(name) => files.push((name, bytes.to_vec())),
            None if field("name").as_deref() == Some("payload_json") => {
                said = read(bytes).map_err(|_| bad())?
            }
            None => return Err(bad()),
        }
    }
    Ok((said, files))
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        if *first == b'%' && more.len() >= 2 {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&more[..2]).unwrap(), 16).unwrap());
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).unwrap()
}
