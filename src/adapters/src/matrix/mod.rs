//! Matrix, in rooms that are not encrypted: one user of a homeserver.
#![expect(
    clippy::disallowed_methods,
    reason = "the adapter reads its own spool, its own state folder and the clock"
)]

mod api;
mod events;
mod html;
mod said;
mod sync;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use channel_protocol::{
    Amend, Can, Chat, ChatKind, Fetch, File, Format, Hello, Hint, Kind, Light, LookFor, Media, Myself,
    NotSent, Pace, Send, SentTwice, Start, State, TextLimit, Unit, Went,
};
use futures_util::future::BoxFuture;
use hyper::{Method, body::Bytes};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kit::{Adapter, Doubt, Ended, Host, Look, Outcome, Rest, Unread};
use api::{Api, ApiError, escape, room_path};
use events::{Reader, display_name};

/// The longest text, bytes: with its HTML beside it, it stays below the 64 KiB of an event.
const LONGEST: usize = 12_000;
/// For so long a homeserver knows our id of an event, ms.
const WINDOW_MS: u64 = 1_800_000;
/// The largest file, bytes.
const LARGEST: u64 = 50 << 20;
/// How long a sign of typing is shown.
const TYPING: Duration = Duration::from_secs(10);
/// How many pages of a room are read to find what may have been sent.
const LOOKED_AT: usize = 10;
/// What a person can do where the homeserver says that it does not know us.
const NEW_TOKEN: &str = "the token or the password is not, or no longer, valid; get a new one";
/// Where our id of an event stands in it.
const KEY: &str = "dev.g2.key";

/// The account's settings.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    /// `https://matrix.example.org`
    homeserver: String,
    /// An access token; otherwise user and password.
    token: String,
    user: String,
    password: String,
    /// Whose invitations are accepted: ids, `*:example.org`, or `*`.
    invites_from: Vec<String>,
}

/// One user of a homeserver.
pub struct Matrix {
    api: Api,
    me: String,
    prefix: String,
    spool: PathBuf,
    sync: tokio::sync::Mutex<sync::Sync>,
}

/// Logs in and says who we are.
///
/// # Errors
/// Why that failed; where a person has to do something, the host has been told.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Matrix>, String> {
    let settings: Settings =
        serde_json::from_value(Value::Object(start.config.clone())).map_err(|error| error.to_string())?;
    let base = start.upstream.clone().unwrap_or_else(|| settings.homeserver.clone());
    let refuse = async |why: String, hint: &str| {
        let light = Light::Refused;
        let state =
            State { transport: light, inbound: light, outbound: light, why: why.clone(), hint: hint.into() };
        let _ = host.state(state).await;
        Err(why)
    };
    let api = match Api::new(&base, settings.token.clone()) {
        Ok(api) => api,
        Err(why) => {
            return refuse(format!("homeserver {base:?}: {why}"), "set `homeserver` in g2.toml").await;
        }
    };
    let mut rest = Rest::default();
    let mut doubt = Doubt::of(&start);
    let (api, me) = loop {
        let error = match log_in(&api, &settings, &start).await {
            Ok(in_as) => break in_as,
            Err(error) => error,
        };
        let is_denied = error.is_denied();
        if is_denied && doubt.denied(Instant::now()) {
            return refuse(error.to_string(), NEW_TOKEN).await;
        }
        let (why, hint) = if is_denied { (asked_again(&error), NEW_TOKEN) } else { (error.to_string(), "") };
        let light = Light::Waiting;
        let state = State { transport: light, inbound: light, outbound: light, why, hint: hint.into() };
        host.state(state).await.map_err(|gone| gone.to_string())?;
        rest.wait(error.asked_ms()).await;
    };
    doubt.known();
    let path = format!("/_matrix/client/v3/profile/{}/displayname", escape(&me));
    let shown_as = api.call(Method::GET, &path, None).await.unwrap_or_default();
    let shown_as = shown_as["displayname"].as_str().unwrap_or_default().to_owned();
    host.hello(hello(&me, &shown_as)).await.map_err(|gone| gone.to_string())?;
    let began = jiff::Timestamp::now().as_millisecond();
    let reader = Reader::new(me.clone(), &shown_as, start.prefix.clone(), began);
    let since = start.cursor.get("since").cloned();
    let sync = sync::Sync::new(api.clone(), reader, since, settings.invites_from, doubt, Unread::of(&start));
    let spool = PathBuf::from(&start.spool);
    Ok(Arc::new(Matrix { api, me, prefix: start.prefix, spool, sync: tokio::sync::Mutex::new(sync) }))
}

/// What a person is told while a homeserver that does not know us is asked again.
fn asked_again(error: &ApiError) -> String {
    format!("{error}; it is asked again")
}

/// Logs in by the token, by the one of an earlier start, or by the password.
async fn log_in(api: &Api, settings: &Settings, start: &Start) -> Result<(Api, String), ApiError> {
    if !settings.token.is_empty() || settings.user.is_empty() {
        return Ok((api.clone(), api.who_am_i().await?));
    }
    // The same device each time: its ids of events are known to the homeserver.
    let kept = PathBuf::from(&start.state_dir).join("token");
    if let Ok(token) = std::fs::read_to_string(&kept) {
        let api = api.with_token(token.trim().to_owned());
        match api.who_am_i().await {
            Err(error) if error.is_locked_out() => {}
            answer => return Ok((api, answer?)),
        }
    }
    let device = format!("G2-{}", start.instance);
    let token = api.log_in(&settings.user, &settings.password, &device).await?;
    if let Err(error) = keep_secret(&kept, &token) {
        eprintln!("keeping the token failed, so each start is a new login: {error}");
    }
    let api = api.with_token(token);
    let me = api.who_am_i().await?;
    Ok((api, me))
}

fn keep_secret(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn hello(me: &str, shown_as: &str) -> Hello {
    let name = if shown_as.is_empty() { display_name(me) } else { shown_as.to_owned() };
    Hello {
        adapter: format!("g2-channels matrix {}", env!("CARGO_PKG_VERSION")),
        myself: Myself { id: me.to_owned(), name, handle: me.to_owned() },
        text: TextLimit { max: LONGEST, unit: Unit::Bytes, format: Format::Matrix },
        sent_twice: SentTwice::Key { window_ms: Some(WINDOW_MS), readback: true },
        can: vec![
            Can::Typing,
            Can::Edit,
            Can::Delete,
            Can::React,
            Can::Reply,
            Can::Threads,
            Can::MediaIn,
            Can::MediaOut,
            Can::OpenDm,
            Can::ListChats,
        ],
        caption_max: LONGEST,
        media: Media { out_max: LARGEST, in_max: LARGEST, together: 1 },
        pace: Pace { account_per_s: 5, ..Pace::default() },
        typing_ms: 8000,
        draft_ms: 2000,
        ..Hello::default()
    }
}

impl Matrix {
    /// Returns the room that an address names.
    fn room<'a>(&self, chat: &'a str) -> Result<&'a str, Outcome> {
        let room = chat.strip_prefix(&self.prefix[..]).and_then(|rest| rest.strip_prefix(':'));
        room.filter(|room| room.starts_with('!'))
            .ok_or_else(|| Outcome::refused("no_room", format!("{chat} is no room of Matrix"), ""))
    }

    async fn say(&self, send: &Send) -> Result<Vec<String>, Outcome> {
        let room = self.room(&send.chat)?;
        let relation = relation(&send.thread, send.reply_to.as_deref());
        let mut ids = Vec::new();
        let captioned = send.attachments.iter().position(|file| file.caption);
        if !send.text.is_empty() && captioned.is_none() {
            ids.push(
                self.event(room, &send.key, content(&send.text, send.html.as_deref()), &relation).await?,
            );
        }
        for (n, file) in send.attachments.iter().enumerate() {
            let caption = (captioned == Some(n)).then_some(&send.text[..]).filter(|text| !text.is_empty());
            let said = self.file(file, caption, send.html.as_deref()).await?;
            ids.push(self.event(room, &format!("{}.{n}", send.key), said, &relation).await?);
        }
        if ids.is_empty() { Err(Outcome::refused("empty", "there is nothing to send", "")) } else { Ok(ids) }
    }

    async fn event(
        &self,
        room: &str,
        key: &str,
        mut content: Value,
        relation: &Value,
    ) -> Result<String, Outcome> {
        content[KEY] = key.into();
        if !relation.is_null() {
            content["m.relates_to"] = relation.clone();
        }
        let sent = self.api.send(room, "m.room.message", key, &content).await;
        let sent = match sent {
            Err(error) if error.is_too_long() && content.get("formatted_body").is_some() => {
                // The text alone fits; the same id is no obstacle, for nothing came of it.
                if let Some(fields) = content.as_object_mut() {
                    fields.remove("formatted_body");
                    fields.remove("format");
                }
                self.api.send(room, "m.room.message", key, &content).await
            }
            sent => sent,
        };
        match sent {
            Ok(id) => Ok(id),
            Err(error) => Err(self.unsent(room, relation, &error).await),
        }
    }

    /// Says what became of an event. A homeserver that forbids it may mean that we are not in the room, or a right there.
    async fn unsent(&self, room: &str, relation: &Value, error: &ApiError) -> Outcome {
        if relation["rel_type"] == "m.thread" && error.is_thread_gone() {
            return Outcome::gone(Went::Thread, error.to_string(), "");
        }
        if !error.is_forbidden() {
            return error.outcome();
        }
        match self.api.call(Method::GET, "/_matrix/client/v3/joined_rooms", None).await {
            Ok(rooms)
                if rooms["joined_rooms"].as_array().is_some_and(|all| all.iter().any(|one| one == room)) =>
            {
                let hint = "give the account a power level in the room that may send messages";
                Outcome::refused("M_FORBIDDEN", error.to_string(), hint)
            }
            Ok(_) => error.outcome(),
            // Certainly nothing was sent.
            Err(asking) if asking.is_busy() || asking.is_locked_out() => asking.outcome(),
            Err(_) => Outcome::NotSent(NotSent::Again { text: error.to_string() }),
        }
    }

    async fn file(&self, file: &File, caption: Option<&str>, html: Option<&str>) -> Result<Value, Outcome> {
        let path = self.spool.join(&file.file);
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(Outcome::refused("no_file", error.to_string(), "")),
            Err(_) => return Err(Outcome::refused("no_file", "our own fault: reading it failed", "")),
        };
        let size = bytes.len();
        let url = self.api.upload(&file.name, &file.mime, bytes.into()).await.map_err(|error| match error
            .outcome()
        {
            // A file that nothing names is nobody's message.
            Outcome::Unknown(why) => Outcome::NotSent(NotSent::Again { text: why }),
            // It is the file that is not taken: no room was named.
            Outcome::NotSent(NotSent::Gone { text, .. }) => Outcome::refused("M_FORBIDDEN", text, ""),
            other => other,
        })?;
        let msgtype = match file.kind {
            Kind::Image => "m.image",
            Kind::Video => "m.video",
            Kind::Audio | Kind::Voice => "m.audio",
            Kind::Document => "m.file",
        };
        let mut said = json!({
            "msgtype": msgtype, "body": caption.unwrap_or(&file.name), "filename": file.name, "url": url,
            "info": {"mimetype": file.mime, "size": size}, "m.mentions": {},
        });
        if let (Some(_), Some(html)) = (caption, html) {
            said["format"] = "org.matrix.custom.html".into();
            said["formatted_body"] = html.into();
        }
        if file.kind == Kind::Voice {
            said["org.matrix.msc3245.voice"] = json!({});
        }
        Ok(said)
    }

    async fn change(&self, amend: &Amend) -> Result<Vec<String>, Outcome> {
        let room = self.room(&amend.chat)?;
        let txn = &amend.key;
        let done = if amend.delete {
            let path = format!("{}/redact/{}/{}", room_path(room), escape(&amend.id), escape(txn));
            self.api.call(Method::PUT, &path, Some(&json!({}))).await.map(|_| Vec::new())
        } else if let Some(emoji) = amend.react.as_deref().filter(|emoji| !emoji.is_empty()) {
            let relation = json!({"rel_type": "m.annotation", "event_id": amend.id, "key": emoji});
            let content = json!({"m.relates_to": relation, KEY: txn});
            self.api.send(room, "m.reaction", txn, &content).await.map(|id| vec![id])
        } else if let Some(text) = &amend.text {
            let new = content(text, amend.html.as_deref());
            let mut said = content(&format!("* {text}"), None);
            said["m.new_content"] = new;
            said["m.relates_to"] = json!({"rel_type": "m.replace", "event_id": amend.id});
            said[KEY] = txn.as_str().into();
            self.api.send(room, "m.room.message", txn, &said).await.map(|_| Vec::new())
        } else {
            return Err(Outcome::refused("unsupported", "a reaction is taken back by deleting it", ""));
        };
        match done {
            // Reacting with the same sign again changes nothing.
            Err(ApiError::Refused { code, .. }) if code == "M_DUPLICATE_ANNOTATION" => Ok(Vec::new()),
            done => done.map_err(|error| error.outcome()),
        }
    }

    /// Looks for an event of ours by its key, backwards from the end of the room.
    async fn search(&self, what: &LookFor) -> Result<Look, ApiError> {
        let Ok(room) = self.room(&what.chat) else { return Ok(Look::HasNot) };
        let since = what.since.parse::<jiff::Timestamp>().map_or(i64::MIN, jiff::Timestamp::as_millisecond);
        let first = format!("{}/messages?dir=b&limit=100", room_path(room));
        let mut page = self.api.call(Method::GET, &first, None).await?;
        let mut ids = Vec::new();
        for _ in 0..LOOKED_AT {
            let events = page["chunk"].as_array().map_or(&[][..], Vec::as_slice);
            for event in events {
                let key = event["content"][KEY].as_str().unwrap_or_default();
                let ours = event["sender"] == *self.me
                    && (key == what.key
                        || key.strip_prefix(&what.key[..]).is_some_and(|rest| rest.starts_with('.')));
                if ours && let Some(id) = event["event_id"].as_str() {
                    ids.insert(0, id.to_owned());
                }
            }
            if !ids.is_empty() {
                return Ok(Look::Has(ids));
            }
            // The homeserver's clock and ours may differ by some minutes.
            let oldest = events.last().and_then(|event| event["origin_server_ts"].as_i64());
            let beyond = oldest.is_none_or(|oldest| oldest < since.saturating_sub(600_000));
            let Some(from) = page["end"].as_str().filter(|_| !beyond).map(str::to_owned) else {
                return Ok(Look::HasNot);
            };
            page = self.api.back(room, &from, None).await?;
        }
        Ok(Look::CannotTell("the room has too many messages since then".into()))
    }

    fn direct_path(&self) -> String {
        format!("/_matrix/client/v3/user/{}/account_data/m.direct", escape(&self.me))
    }

    /// Returns the rooms with one person each, by that person.
    async fn direct_rooms(&self) -> Result<Value, ApiError> {
        match self.api.call(Method::GET, &self.direct_path(), None).await {
            Err(ApiError::Refused { status: 404, .. }) => Ok(json!({})),
            known => known,
        }
    }

    async fn dm(&self, user: &str) -> Result<String, ApiError> {
        let user = if user.starts_with('@') { user.to_owned() } else { format!("@{user}") };
        let known = self.direct_rooms().await?;
        if let Some(room) = known[&user].as_array().and_then(|rooms| rooms.last()).and_then(Value::as_str) {
            return Ok(format!("{}:{room}", self.prefix));
        }
        let body = json!({"is_direct": true, "invite": [user], "preset": "trusted_private_chat"});
        let made = self.api.call(Method::POST, "/_matrix/client/v3/createRoom", Some(&body)).await?;
        let room = made["room_id"].as_str().unwrap_or_default().to_owned();
        let mut known = known;
        known[&user] = json!([room]);
        self.api.call(Method::PUT, &self.direct_path(), Some(&known)).await?;
        Ok(format!("{}:{room}", self.prefix))
    }

    async fn chats(&self) -> Result<Vec<Chat>, ApiError> {
        // Also those in which the other person has not joined yet.
        let direct = self.direct_rooms().await?;
        let direct: BTreeSet<&str> = direct
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values)
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let rooms = self.api.call(Method::GET, "/_matrix/client/v3/joined_rooms", None).await?;
        let mut all = Vec::new();
        for room in rooms["joined_rooms"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let name = format!("{}/state/m.room.name", room_path(room));
            let name = self.api.call(Method::GET, &name, None).await.unwrap_or_default();
            let members = format!("{}/joined_members", room_path(room));
            let members = self.api.call(Method::GET, &members, None).await.unwrap_or_default();
            let count = members["joined"].as_object().map(serde_json::Map::len);
            let named = name["name"].as_str().unwrap_or_default().to_owned();
            let alone = direct.contains(room) || (count == Some(2) && named.is_empty());
            all.push(Chat {
                chat: format!("{}:{room}", self.prefix),
                name: named,
                kind: if alone { ChatKind::Direct } else { ChatKind::Group },
                threaded: false,
                members: count.and_then(|count| u32::try_from(count).ok()),
                hears_all: None,
            });
        }
        Ok(all)
    }

    async fn get(&self, what: &Fetch) -> Result<String, String> {
        let most = usize::try_from(what.most.min(LARGEST)).unwrap_or(usize::MAX);
        let bytes: Bytes = self.api.download(&what.what, most).await.map_err(|error| error.to_string())?;
        let name = format!("in/{}", what.r);
        let path = self.spool.join(&name);
        let written = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            std::fs::write(path, bytes)
        });
        match written.await {
            Ok(Ok(())) => Ok(name),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("our own fault: writing it failed".into()),
        }
    }
}

/// A text as an event has it. It names nobody, so it pings nobody.
fn content(text: &str, html: Option<&str>) -> Value {
    let mut content = json!({"msgtype": "m.text", "body": text, "m.mentions": {}});
    if let Some(html) = html {
        content["format"] = "org.matrix.custom.html".into();
        content["formatted_body"] = html.into();
    }
    content
}

/// How an event belongs to a thread, and what it answers.
fn relation(thread: &str, reply_to: Option<&str>) -> Value {
    match (thread, reply_to) {
        ("", None) => Value::Null,
        ("", Some(to)) => json!({"m.in_reply_to": {"event_id": to}}),
        (root, to) => json!({
            "rel_type": "m.thread", "event_id": root, "is_falling_back": to.is_none(),
            "m.in_reply_to": {"event_id": to.unwrap_or(root)},
        }),
    }
}

impl Adapter for Matrix {
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended> {
        Box::pin(async move { self.sync.lock().await.run(&host).await })
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.say(&send).await.map_or_else(|outcome| outcome, Outcome::Sent) })
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.change(&amend).await.map_or_else(|outcome| outcome, Outcome::Sent) })
    }

    fn look_for(&self, what: LookFor) -> BoxFuture<'_, Look> {
        Box::pin(async move {
            self.search(&what).await.unwrap_or_else(|error| Look::CannotTell(error.to_string()))
        })
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Ok(room) = self.room(&hint.chat) else { return };
            let path = format!("{}/typing/{}", room_path(room), escape(&self.me));
            let body = if hint.typing {
                json!({"typing": true, "timeout": u64::try_from(TYPING.as_millis()).unwrap_or(10_000)})
            } else {
                json!({"typing": false})
            };
            let _ = self.api.call(Method::PUT, &path, Some(&body)).await;
        })
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.dm(&user).await.map_err(|error| error.to_string()) })
    }

    fn list_chats(&self) -> BoxFuture<'_, Result<Vec<Chat>, String>> {
        Box::pin(async move { self.chats().await.map_err(|error| error.to_string()) })
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.get(&what).await })
    }
}
