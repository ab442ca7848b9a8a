//! Discord: one bot, in servers and in chats with single persons.
#![expect(clippy::disallowed_methods, reason = "the adapter reads its own spool and the clock")]

mod api;
mod events;
mod gateway;
mod inbox;
mod marks;
mod out;
mod said;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use channel_protocol::{
    Amend, Buttons, Can, Chat, ChatKind, Command, Fetch, Format, Hello, Hint, Light, LookFor, Media, Myself,
    NotSent, Pace, Send, SentTwice, Start, State, TextLimit, Unit, Went,
};
use futures_util::future::BoxFuture;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, Notify, mpsc},
    time::Instant,
};

use crate::{
    http::NoAnswer,
    kit::{Adapter, Doubt, Ended, Gone, Host, Look, Outcome, Rest},
};
use api::{Api, ApiError, Upload};
use events::{Channel, Guild, Message, User, number};
use inbox::{Channels, Inbox, Presses, list};

/// The longest text, characters.
const LONGEST: usize = 2000;
/// The largest file, bytes.
const LARGEST: u64 = 10 << 20;
/// The files of one message.
const MOST_FILES: usize = 10;
/// For so long Discord surely knows our key of a message, ms. It says "a few minutes".
const WINDOW_MS: u64 = 120_000;
/// How many pages of a channel are read to find what may have been sent.
const LOOKED_AT: usize = 10;
/// How far Discord's clock and ours may differ, ms.
const CLOCKS_MS: u64 = 600_000;
/// How many servers' channels are listed.
const MOST_SERVERS: usize = 100;
/// What a person is told where Discord says that it does not know us.
const DENIED: &str = "Discord does not take the token";
/// Where a new token is had.
const NEW_TOKEN: &str =
    "get a new token: https://discord.com/developers/applications, your application, Bot, Reset Token";

/// The account's settings.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    token: String,
}

/// One bot.
pub struct Discord {
    api: Api,
    token: String,
    gateway: String,
    me: String,
    prefix: String,
    spool: PathBuf,
    inbox: Mutex<Inbox>,
    presses: Arc<Presses>,
    channels: Channels,
    /// Discord said that it does not take the token any more.
    locked_out: Notify,
    doubt: Mutex<Doubt>,
    /// The words that Discord lists as commands, and a file for what is listed already.
    commands: (Vec<Command>, PathBuf),
}

/// Logs in and says who we are.
///
/// # Errors
/// Why that failed; where a person has to do something, the host has been told.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Discord>, String> {
    let settings: Settings =
        serde_json::from_value(Value::Object(start.config.clone())).map_err(|error| error.to_string())?;
    let token = settings.token.trim().trim_start_matches("Bot ").to_owned();
    let api = Api::new(start.upstream.as_deref(), token.clone())?;
    let mut rest = Rest::default();
    let mut doubt = Doubt::of(&start);
    let (me, gateway) = loop {
        let error = match log_in(&api).await {
            Ok(in_as) => break in_as,
            Err(error) if token.is_empty() || (error.is_locked_out() && doubt.denied(Instant::now())) => {
                host.state(locked_out()).await.map_err(|gone| gone.to_string())?;
                return Err(error.to_string());
            }
            Err(error) => error,
        };
        host.state(waits(&error)).await.map_err(|gone| gone.to_string())?;
        rest.wait(error.asked_ms()).await;
    };
    doubt.known();
    host.hello(hello(&me)).await.map_err(|gone| gone.to_string())?;
    let presses = Arc::new(Presses::default());
    let inbox = Inbox::new(
        api.clone(),
        me.id.clone(),
        start.prefix.clone(),
        Arc::clone(&presses),
        &start.cursor,
        &start.chats,
    );
    Ok(Arc::new(Discord {
        api,
        token,
        gateway,
        me: me.id,
        prefix: start.prefix,
        spool: PathBuf::from(&start.spool),
        channels: inbox.channels(),
        inbox: Mutex::new(inbox),
        presses,
        locked_out: Notify::new(),
        doubt: Mutex::new(doubt),
        commands: (start.commands, Path::new(&start.state_dir).join("commands.json")),
    }))
}

/// Asks who we are, and where the gateway is. A bot that used up its sessions of a day waits for the next ones.
async fn log_in(api: &Api) -> Result<(User, String), ApiError> {
    let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
    let me: User =
        serde_json::from_value(api.call(Method::GET, "/users/@me", None).await?).map_err(unreadable)?;
    let gateway = api.call(Method::GET, "/gateway/bot", None).await?;
    let left = &gateway["session_start_limit"];
    if left["remaining"] == 0 {
        return Err(ApiError::Refused {
            status: 429,
            code: 0,
            text: "the sessions of a day are used up".into(),
            after_ms: left["reset_after"].as_u64().or(Some(60_000)),
            global: true,
        });
    }
    let url = gateway["url"].as_str().unwrap_or("wss://gateway.discord.gg");
    Ok((me, url.to_owned()))
}

fn all(light: Light, why: &str, hint: &str) -> State {
    State { transport: light, inbound: light, outbound: light, why: why.into(), hint: hint.into() }
}

fn waits(error: &ApiError) -> State {
    match error.is_locked_out() {
        true => all(Light::Waiting, &format!("{DENIED}; it is asked again"), NEW_TOKEN),
        false => all(Light::Waiting, &error.to_string(), ""),
    }
}

fn locked_out() -> State {
    all(Light::Refused, DENIED, NEW_TOKEN)
}

fn hello(me: &User) -> Hello {
    let name = if me.global_name.is_empty() { &me.username } else { &me.global_name };
    Hello {
        adapter: format!("g2-channels discord {}", env!("CARGO_PKG_VERSION")),
        myself: Myself { id: me.id.clone(), name: name.clone(), handle: me.username.clone() },
        text: TextLimit { max: LONGEST, unit: Unit::Chars, format: Format::Discord },
        caption_max: LONGEST,
        sent_twice: SentTwice::Key { window_ms: Some(WINDOW_MS), readback: true },
        can: vec![
            Can::Typing,
            Can::Edit,
            Can::Delete,
            Can::React,
            Can::Buttons,
            Can::Reply,
            Can::Threads,
            Can::MediaIn,
            Can::MediaOut,
            Can::OpenDm,
            Can::ListChats,
        ],
        buttons: Buttons { max: 25, per_row: 5, press_bytes: 100 },
        media: Media { out_max: LARGEST, in_max: 50 << 20, together: MOST_FILES },
        pace: Pace { chat_ms: 1000, account_per_s: 40, ..Pace::default() },
        typing_ms: 8000,
        draft_ms: 1500,
        ..Hello::default()
    }
}

impl Discord {
    /// Returns the channel that an address names: a thread is one of its own.
    fn channel(&self, chat: &str, thread: &str) -> Result<u64, Outcome> {
        let id = chat.strip_prefix(&self.prefix[..]).and_then(|rest| rest.strip_prefix(':')).map(number);
        let id = if thread.is_empty() { id } else { id.map(|_| number(thread)) };
        id.filter(|id| *id != 0).ok_or_else(|| {
            Outcome::refused("no_channel", format!("{chat} {thread} is no channel of Discord"), "")
        })
    }

    /// Says what became of what was asked. A token that does not hold is asked about.
    fn outcome(&self, error: &ApiError) -> Outcome {
        if error.is_locked_out() {
            self.locked_out.notify_one();
        }
        error.outcome()
    }

    async fn say(&self, send: &Send) -> Result<Vec<String>, Outcome> {
        let channel = self.channel(&send.chat, &send.thread)?;
        if send.text.is_empty() && send.attachments.is_empty() {
            return Err(Outcome::refused("empty", "there is nothing to send", ""));
        }
        if send.attachments.len() > MOST_FILES {
            return Err(Outcome::refused("too_many", "Discord takes at most 10 files with a message", ""));
        }
        let path = format!("/channels/{channel}/messages");
        let sent = if send.attachments.is_empty() {
            self.api.call(Method::POST, &path, Some(&out::message(send, &[]))).await
        } else {
            let files = self.files(send).await?;
            let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
            self.api.with_files(&path, &out::message(send, &names), &files).await
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return Err(self.unsent(send, &error).await),
        };
        match sent["id"].as_str() {
            Some(id) => Ok(vec![id.to_owned()]),
            None => Err(Outcome::Unknown("Discord's answer names no message".into())),
        }
    }

    /// Says what became of a text; of one for a thread that is gone, whether the channel above it has the same readers.
    async fn unsent(&self, send: &Send, error: &ApiError) -> Outcome {
        let thread = number(&send.thread);
        match self.outcome(error) {
            Outcome::NotSent(NotSent::Gone { text, hint, .. }) if thread != 0 && error.is_place_gone() => {
                let known = match self.channels.get(thread) {
                    None if error.is_thread_shut() => self.look_at(thread).await,
                    known => known,
                };
                let above = match known.as_ref().map(|thread| number(&thread.parent_id)) {
                    None | Some(0) => None,
                    Some(above) => match self.channels.get(above) {
                        None => self.look_at(above).await,
                        above => above,
                    },
                };
                let shared = known.is_some_and(|thread| thread.is_open_thread())
                    && above.is_some_and(|above| above.has_messages());
                let what = if shared { Went::Thread } else { Went::ClosedThread };
                Outcome::NotSent(NotSent::Gone { text, hint, what })
            }
            outcome => outcome,
        }
    }

    /// Asks what kind of channel something is. `None`: that can't be told now.
    async fn look_at(&self, channel: u64) -> Option<Channel> {
        let asked = self.api.call(Method::GET, &format!("/channels/{channel}"), None).await;
        serde_json::from_value(asked.ok()?).ok()
    }

    async fn files(&self, send: &Send) -> Result<Vec<Upload>, Outcome> {
        let places: Vec<PathBuf> = send.attachments.iter().map(|file| self.spool.join(&file.file)).collect();
        let read = tokio::task::spawn_blocking(move || {
            places.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()
        });
        let all = match read.await {
            Ok(Ok(all)) => all,
            Ok(Err(error)) => return Err(Outcome::refused("no_file", error.to_string(), "")),
            Err(_) => return Err(Outcome::refused("no_file", "our own fault: reading it failed", "")),
        };
        if all.iter().any(|bytes| bytes.len() as u64 > LARGEST) {
            return Err(Outcome::refused("too_large", "Discord takes files of at most 10 MiB", ""));
        }
        let named = send.attachments.iter().zip(all);
        Ok(named
            .map(|(file, bytes)| Upload { name: file.name.clone(), mime: file.mime.clone(), bytes })
            .collect())
    }

    async fn change(&self, amend: &Amend) -> Result<Vec<String>, Outcome> {
        let channel = self.channel(&amend.chat, &amend.thread)?;
        let path = format!("/channels/{channel}/messages/{}", number(&amend.id));
        let done = if amend.delete {
            match self.api.call(Method::DELETE, &path, None).await {
                // It is gone already.
                Err(ApiError::Refused { code: 10_008, .. }) => Ok(()),
                done => done.map(drop),
            }
        } else {
            match amend.react.as_deref() {
                None => self.api.call(Method::PATCH, &path, Some(&out::edit(amend))).await.map(drop),
                Some("") => self.take_back(&path).await,
                Some(emoji) => {
                    let path = format!("{path}/reactions/{}/@me", escape(emoji));
                    self.api.call(Method::PUT, &path, None).await.map(drop)
                }
            }
        };
        done.map(|()| Vec::new()).map_err(|error| self.changed_or_not(&error))
    }

    /// A change that may or may not have arrived is made again: it is the same afterwards.
    fn changed_or_not(&self, error: &ApiError) -> Outcome {
        match error {
            ApiError::NoAnswer(NoAnswer::Unknown(why)) => {
                Outcome::NotSent(NotSent::Again { text: why.clone() })
            }
            error => self.outcome(error),
        }
    }

    /// Takes our own signs back from a message.
    async fn take_back(&self, path: &str) -> Result<(), ApiError> {
        let message = self.api.call(Method::GET, path, None).await?;
        for sign in message["reactions"].as_array().into_iter().flatten().filter(|sign| sign["me"] == true) {
            let emoji: events::Emoji = serde_json::from_value(sign["emoji"].clone()).unwrap_or_default();
            let path = format!("{path}/reactions/{}/@me", escape(&emoji.shown()));
            self.api.call(Method::DELETE, &path, None).await?;
        }
        Ok(())
    }

    /// Looks for a message of ours, backwards from the end of the channel: by its key, which Discord shows for a while only,
    /// otherwise by its text.
    async fn search(&self, what: &LookFor) -> Result<Look, ApiError> {
        let Ok(channel) = self.channel(&what.chat, &what.thread) else { return Ok(Look::HasNot) };
        let since = what.since.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond);
        let since = events::id_at(u64::try_from(since).unwrap_or(0).saturating_sub(CLOCKS_MS));
        let mut before = String::new();
        let mut same_text = None;
        for _ in 0..LOOKED_AT {
            let path = format!("/channels/{channel}/messages?limit=100{before}");
            let page: Vec<Message> = list(self.api.call(Method::GET, &path, None).await?);
            let ours =
                page.iter().filter(|message| message.author.id == self.me && number(&message.id) >= since);
            for message in ours {
                if message.nonce == what.key {
                    return Ok(Look::Has(vec![message.id.clone()]));
                }
                let text = message.content.as_deref().unwrap_or_default().trim();
                if message.nonce.is_null() && !text.is_empty() && text == what.text.trim() {
                    same_text = Some(message.id.clone());
                }
            }
            let oldest = page.iter().map(|message| number(&message.id)).min();
            match oldest {
                Some(oldest) if oldest >= since && page.len() == 100 => before = format!("&before={oldest}"),
                _ => {
                    return Ok(match same_text {
                        Some(id) => Look::Has(vec![id]),
                        None if what.text.trim().is_empty() => {
                            Look::CannotTell("a file without a text can't be looked for".into())
                        }
                        None => Look::HasNot,
                    });
                }
            }
        }
        Ok(same_text.map_or_else(
            || Look::CannotTell("the channel has too many messages since then".into()),
            |id| Look::Has(vec![id]),
        ))
    }

    async fn chats(&self) -> Result<Vec<Chat>, ApiError> {
        let servers: Vec<Guild> = list(self.api.call(Method::GET, "/users/@me/guilds", None).await?);
        let mut all = Vec::new();
        for server in servers.iter().take(MOST_SERVERS) {
            let channels =
                self.api.call(Method::GET, &format!("/guilds/{}/channels", server.id), None).await?;
            for channel in list::<Channel>(channels).iter().filter(|channel| channel.has_messages()) {
                all.push(Chat {
                    chat: format!("{}:{}", self.prefix, channel.id),
                    name: format!("#{} ({})", channel.name, server.name),
                    kind: ChatKind::Group,
                    threaded: true,
                    members: None,
                    hears_all: None,
                });
            }
        }
        Ok(all)
    }

    async fn get(&self, what: &Fetch) -> Result<String, String> {
        let most = usize::try_from(what.most).unwrap_or(usize::MAX);
        let bytes = self.api.download(&what.what, most).await.map_err(|error| error.to_string())?;
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

    /// Listens until the host is gone, or Discord wants no more of us.
    async fn listen(&self, host: &Host) -> Ended {
        let mut inbox = self.inbox.lock().await;
        let (tell, news) = mpsc::channel(gateway::MOST_WAITING);
        let shard = |after: Option<&gateway::Mark>| gateway::shard(&self.token, &self.gateway, after);
        let mut after = inbox.mark().cloned();
        let lights = inbox.lights();
        let connection = async {
            let mut denials = gateway::Denials::default();
            loop {
                match gateway::listen(shard(after.as_ref()), &tell, shard).await? {
                    gateway::Left::Refused(state) => return Ok(state),
                    gateway::Left::Denied { mark, stood } => {
                        tokio::time::sleep(denials.denied(mark.as_ref(), stood)).await;
                        let denied = self.denied(host, &mut denials.rest).await;
                        if let Some(state) = denied.map_err(|_| Ended::Left)? {
                            return Ok(state);
                        }
                        after = mark;
                    }
                }
            }
        };
        let texts = async {
            loop {
                self.locked_out.notified().await;
                let denied = self.denied(host, &mut Rest::default()).await;
                if let Some(state) = denied.map_err(|_| Ended::Left)? {
                    return Ok(state);
                }
                let before = lights.lock().unwrap_or_else(PoisonError::into_inner).clone();
                host.state(before).await.map_err(|_| Ended::Left)?;
            }
        };
        let listing = async {
            self.list_commands().await;
            std::future::pending().await
        };
        let refused: Result<State, Ended> = tokio::select! {
            ended = inbox.work(host, news) => return ended,
            never = listing => never,
            left = connection => left,
            left = texts => left,
        };
        let refused = match refused {
            Ok(refused) => refused,
            Err(ended) => return ended,
        };
        let why = refused.why.clone();
        match host.state(refused).await {
            Ok(()) => Ended::Failed(why),
            Err(_) => Ended::Left,
        }
    }

    /// Has Discord list the words that are commands, where it does not yet.
    async fn list_commands(&self) {
        let (commands, kept) = &self.commands;
        let wanted = out::commands(commands);
        // Another bot of the same account has its own list.
        let text = json!({"bot": self.me, "commands": wanted}).to_string();
        let set = std::fs::read(kept).ok();
        // A list that is not ours stays.
        if set.as_deref() == Some(text.as_bytes()) || (set.is_none() && commands.is_empty()) {
            return;
        }
        let listed = async {
            let us = self.api.call(Method::GET, "/applications/@me", None).await?;
            let path = format!("/applications/{}/commands", number(us["id"].as_str().unwrap_or_default()));
            self.api.call(Method::PUT, &path, Some(&wanted)).await
        };
        match listed.await {
            Ok(_) => {
                if let Err(error) = std::fs::write(kept, text) {
                    eprintln!("the commands are listed, and can't be noted as listed: {error}");
                }
            }
            Err(error) => eprintln!("the commands are not listed: {error}"),
        }
    }

    /// Asks who we are until Discord knows us again. Returns what a person has to do, if it says for good that it does not.
    async fn denied(&self, host: &Host, rest: &mut Rest) -> Result<Option<State>, Gone> {
        loop {
            rest.wait(None).await;
            let error = match self.api.call(Method::GET, "/users/@me", None).await {
                Ok(_) => {
                    self.doubt.lock().await.known();
                    return Ok(None);
                }
                Err(error) if error.is_locked_out() && self.doubt.lock().await.denied(Instant::now()) => {
                    return Ok(Some(locked_out()));
                }
                Err(error) => error,
            };
            host.state(waits(&error)).await?;
        }
    }
}

/// Writes a text as a piece of a path.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

impl Adapter for Discord {
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended> {
        Box::pin(async move { self.listen(&host).await })
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
            if let (Ok(channel), true) = (self.channel(&hint.chat, &hint.thread), hint.typing) {
                let path = format!("/channels/{channel}/typing");
                let _ = self.api.call(Method::POST, &path, Some(&json!({}))).await;
            }
        })
    }

    fn told(&self, event_key: String, text: String) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.presses.answer(&self.api, &event_key, &text).await })
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let body = json!({"recipient_id": user});
            let made = self.api.call(Method::POST, "/users/@me/channels", Some(&body)).await;
            let made = made.map_err(|error| error.to_string())?;
            let id = made["id"].as_str().ok_or("Discord's answer names no channel")?;
            Ok(format!("{}:{id}", self.prefix))
        })
    }

    fn list_chats(&self) -> BoxFuture<'_, Result<Vec<Chat>, String>> {
        Box::pin(async move { self.chats().await.map_err(|error| error.to_string()) })
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.get(&what).await })
    }
}
