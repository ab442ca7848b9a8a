//! A homeserver of a script's on loopback, for what Synapse never does: it denies us once, and tells what nobody can read.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, body::Incoming, header::CONTENT_TYPE, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify};

/// The room in which everything happens.
pub const ROOM: &str = "!room:example.org";
/// Who logs in, and who speaks.
pub const BOT: &str = "@g2:example.org";
pub const ADA: &str = "@ada:example.org";

/// What it knows.
#[derive(Default)]
pub struct World {
    /// Events of the room's timeline; each is news of its own.
    news: Vec<Value>,
    /// Events that are told when they are asked for, by their id.
    pub events: BTreeMap<String, Value>,
    /// A part of `METHOD path`, and what is answered to the next request that has it.
    faults: VecDeque<(String, u16, Value)>,
    /// `METHOD path` of what was asked, in order.
    pub asked: Vec<String>,
}

/// The server, as long as it lives.
#[derive(Clone)]
pub struct Homeserver {
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
    pub base: String,
}

impl Homeserver {
    #[must_use]
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let this = Self { world: Arc::default(), changed: Arc::default(), base };
        let serving = this.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let serving = serving.clone();
                    let service = service_fn(move |request| serving.clone().serve(request));
                    tokio::spawn(async move {
                        let io = TokioIo::new(stream);
                        let _ =
                            hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                    });
                }
            });
        });
        this
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// What is answered to the next request whose `METHOD path` has this part.
    pub fn fault(&self, part: &str, status: u16, body: Value) {
        self.world().faults.push_back((part.to_owned(), status, body));
    }

    /// It denies that it knows the token.
    pub fn denies(&self, part: &str) {
        self.fault(part, 401, json!({"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown access token"}));
    }

    /// Somebody does something in the room. Returns the event's id.
    pub fn event(&self, sender: &str, kind: &str, content: Value) -> String {
        let mut world = self.world();
        let id = format!("$event{}", world.news.len());
        world.news.push(json!({"type": kind, "event_id": id, "sender": sender, "content": content,
            "origin_server_ts": 4_000_000_000_000_u64}));
        drop(world);
        self.changed.notify_waiters();
        id
    }

    pub fn say(&self, text: &str) -> String {
        self.event(ADA, "m.room.message", json!({"msgtype": "m.text", "body": text}))
    }

    async fn serve(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let asked = format!("{} {path}", request.method());
        let fault = {
            let mut world = self.world();
            world.asked.push(asked.clone());
            let at = world.faults.iter().position(|(part, ..)| asked.contains(&part[..]));
            at.and_then(|at| world.faults.remove(at))
        };
        let (status, body) = match fault {
            Some((_, status, body)) => (status, body),
            None => self.answer(&path, &query).await,
        };
        let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
        Ok(answer.body(Full::new(crate::on_the_wire(&body).into())).unwrap())
    }

    async fn answer(&self, path: &str, query: &str) -> (u16, Value) {
        let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")[..]));
        if path.ends_with("/account/whoami") {
            return (200, json!({"user_id": BOT}));
        }
        if path.ends_with("/displayname") {
            return (200, json!({"displayname": "G2"}));
        }
        if let Some((_, id)) = path.split_once("/event/") {
            let event = self.world().events.get(&id.replace("%24", "$")).cloned();
            let none = json!({"errcode": "M_NOT_FOUND", "error": "Event not found"});
            return event.map_or((404, none), |event| (200, event));
        }
        if !path.ends_with("/sync") {
            return (404, json!({"errcode": "M_UNRECOGNIZED", "error": "Unrecognized request"}));
        }
        let hold = field("timeout").and_then(|ms| ms.parse().ok()).unwrap_or(0);
        let late = tokio::time::sleep(Duration::from_millis(hold));
        tokio::pin!(late);
        let since = field("since").and_then(|since| since.strip_prefix('s')?.parse::<usize>().ok());
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (next, event) = {
                let world = self.world();
                let next = since.unwrap_or(world.news.len());
                (next, world.news.get(next).cloned())
            };
            if let Some(event) = event {
                let timeline = json!({"events": [event], "limited": false, "prev_batch": "p"});
                return (
                    200,
                    json!({"next_batch": format!("s{}", next + 1), "rooms": {"join": {ROOM: {"timeline": timeline}}}}),
                );
            }
            let nothing = json!({"next_batch": format!("s{next}"), "rooms": {}});
            if since.is_none() {
                return (200, nothing);
            }
            tokio::select! {
                () = &mut changed => {}
                () = &mut late => return (200, nothing),
            }
        }
    }
}
