//! Webhooks: requests of other programs are messages, and answers are requests to them: `docs/webhooks.md` is the page for people.
//!
//! In: the daemon's listener hands a POST on. It is answered 202 once the daemon has stored the message. What is answered 503 may be
//! stored all the same, and its sender tries again with the same id; with any other answer nothing is. Out: a signed POST with our key, for the receiver to know a second one by.
//!
//! | request | answer |
//! |---|---|
//! | of nobody who has the secret | 401, and why |
//! | whose body is no message | 400 or 415, and why |
//! | that came before, by its id | 202: the daemon knows its key |
//! | more than its name, all names or new names may send (`pace.rs`) | 429 |
//! | beyond 64 that are not stored yet | 503 |
//! | while the daemon leaves | 503 |

mod out;
mod pace;
mod proof;
mod read;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use channel_protocol::{
    Addresses, Can, Chat, ChatKind, Event, EventKind, Format, From, Hello, Light, Mention, Request, Send,
    SentTwice, Start, State, TextLimit, Unit,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use self::{
    out::Way,
    pace::{Paces, Used},
    proof::Secret,
};
use crate::kit::{Adapter, Ended, Host, Outcome};

/// How many requests may be told and not stored.
const MOST_OPEN: usize = 64;
/// The longest text that goes out at once, characters.
const LONGEST_TEXT: usize = 16_000;

/// An account: a secret, and where answers go.
pub struct Webhook {
    host: Host,
    prefix: String,
    secret: Secret,
    way: Option<Way>,
    /// Tells messages apart whose senders name no id.
    count: AtomicU64,
    paces: Mutex<Paces>,
    /// Of requests that are not answered.
    places: Semaphore,
    /// The names that may write, if the owner lists them.
    names: Option<BTreeSet<String>>,
}

/// Takes up an account.
///
/// # Errors
/// Its secret is none, or its answers can't go where they should.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Webhook>, String> {
    let config = |key: &str| start.config.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = &start.instance;
    let names = start.config.get("names").and_then(Value::as_array);
    let names = names.map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let behind = |chat: &String| Some(chat.strip_prefix(&start.prefix)?.strip_prefix(':')?.to_owned());
    let known = start.chats.keys().filter_map(behind).collect();
    let made = match (Secret::new(config("token")), config("reply_url")) {
        (Err(why), _) => {
            Err((why, format!("`g2 channels remove {name}`, and add it again with a longer secret")))
        }
        (Ok(secret), "") => Ok((secret, None)),
        (Ok(secret), url) => {
            let plain = start.config.get("plain_http").and_then(Value::as_bool).unwrap_or_default();
            let way = Way::new(url, plain).map_err(|why| {
                (format!("reply_url: {why}"), format!("mend it in g2.toml, [channels.{name}]"))
            });
            way.map(|way| (secret, Some(way)))
        }
    };
    match made {
        Ok((secret, way)) => Ok(Arc::new(Webhook {
            host,
            prefix: start.prefix,
            secret,
            way,
            count: AtomicU64::new(0),
            paces: Mutex::new(Paces::new(known, Instant::now())),
            places: Semaphore::new(MOST_OPEN),
            names,
        })),
        Err((why, hint)) => {
            let light = Light::Refused;
            let state = State { transport: light, inbound: light, outbound: light, why: why.clone(), hint };
            let _ = host.state(state).await;
            Err(why)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an adapter is the shell: what it decides is given the time")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl Adapter for Webhook {
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended> {
        async move {
            let hello = Hello {
                adapter: concat!("g2-channels webhook ", env!("CARGO_PKG_VERSION")).into(),
                // A program and the agent.
                addresses: Some(Addresses { direct: ".*".into(), programs: true, ..Addresses::default() }),
                text: TextLimit { max: LONGEST_TEXT, unit: Unit::Chars, format: Format::Plain },
                // It is nobody whom people write to. Receivers know a second one by `webhook-id`, as Standard Webhooks ask of them.
                sent_twice: SentTwice::Key { window_ms: None, readback: false },
                can: vec![Can::Requests, Can::Threads, Can::Reply],
                ..Hello::default()
            };
            let ok =
                State { transport: Light::Ok, inbound: Light::Ok, outbound: Light::Ok, ..State::default() };
            if host.hello(hello).await.is_err() || host.state(ok).await.is_err() {
                return Ended::Left;
            }
            std::future::pending().await
        }
        .boxed()
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        async move {
            // The owner names no receiver: answers are read here.
            let Some(way) = &self.way else { return Outcome::Sent(vec![send.key]) };
            let name = send.chat.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix(':'));
            let name = name.and_then(|name| read::path(name)).map(|(name, _)| name.to_owned());
            match name {
                Some(name) => way.send(&self.secret, &name, &send, now()).await,
                None => Outcome::refused("no_hook", "no webhook can be called so", ""),
            }
        }
        .boxed()
    }

    fn request(&self, request: Request) -> BoxFuture<'_, (u16, String)> {
        async move {
            // The end of a path may be the secret.
            let name = read::path(&request.path).map_or("?", |(name, _)| name).to_owned();
            self.take(request).await.unwrap_or_else(|(status, why)| {
                eprintln!("a request for {name} is refused with {status}: {why}");
                (status, why)
            })
        }
        .boxed()
    }
}

impl Webhook {
    /// Takes a request in. `Err`: it is refused, with HTTP's number.
    async fn take(&self, request: Request) -> Result<(u16, String), (u16, String)> {
        let Request { path, headers, body, .. } = request;
        let (name, in_address) = read::path(&path).ok_or((
            404,
            "the address goes on with the name of a webhook: a-z, 0-9, and behind the first one -, _ and ., at most 64 of them"
                .to_owned(),
        ))?;
        if self.names.as_ref().is_some_and(|names| !names.contains(name)) {
            return Err((404, "there is no webhook of this name".into()));
        }
        let at = now();
        let id = proof::check(&self.secret, in_address, &headers, body.as_bytes(), at.as_second())
            .map_err(|doubt| (401, doubt.to_string()))?;
        // Only those who have the secret are counted: nobody else uses a bound up.
        let passed = self.paces.lock().unwrap_or_else(PoisonError::into_inner).passes(name, Instant::now());
        passed.map_err(|used| {
            let why = match used {
                Used::Name => {
                    "at most 120 requests of one name are taken at once, and one more in each half second"
                }
                Used::All => {
                    "at most 1200 requests of one account are taken at once, and 20 more in each second"
                }
                Used::NewNames => "at most 20 new names are taken at once, and one more in three minutes",
            };
            (429, why.to_owned())
        })?;
        let Ok(_place) = self.places.try_acquire() else {
            return Err((503, "the messages before it are not stored yet; send it again".into()));
        };
        let said = read::body(&headers, &body).map_err(|unread| (unread.status(), unread.to_string()))?;
        let own = || format!("t-{}-{}", at.as_nanosecond(), self.count.fetch_add(1, Ordering::Relaxed));
        let key = id.unwrap_or_else(own);
        let chat = format!("{}:{name}", self.prefix);
        let event = Event {
            kind: EventKind::Message,
            id: key.clone(),
            key,
            thread: said.thread,
            from: From {
                id: name.to_owned(),
                name: said.from.unwrap_or_else(|| name.to_owned()),
                ..From::default()
            },
            text: said.text,
            mention: Mention::Unknown,
            about: Some(Chat {
                chat: chat.clone(),
                name: name.to_owned(),
                kind: ChatKind::Direct,
                ..Chat::default()
            }),
            chat,
            ..Event::default()
        };
        match self.host.event(event).await {
            Ok(()) => Ok((202, "the message is stored".into())),
            Err(gone) => Err((503, format!("{gone}; send it again"))),
        }
    }
}
