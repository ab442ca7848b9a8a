//! Slack: one app with a bot, in channels and in chats with single persons of one workspace.
#![expect(clippy::disallowed_methods, reason = "the adapter reads its own spool, its notes and the clock")]

mod api;
mod asked;
mod events;
mod inbox;
mod login;
mod marks;
mod out;
mod said;
mod signs;
mod socket;
mod uploads;

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
};

use channel_protocol::{Amend, Chat, Fetch, Light, LookFor, NotSent, Send, Start, State};
use futures_util::future::BoxFuture;
use hyper::Uri;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    sync::{Mutex, Notify, mpsc, watch},
    time::Instant,
};

use crate::{
    http::NoAnswer,
    kit::{Adapter, Doubt, Ended, Gone, Host, Look, Outcome, Rest},
};
use api::{Api, ApiError, Tokens};
use events::{Us, is_id, is_time};
use inbox::{Inbox, Presses};
use login::{NEW_TOKENS, Token, all_lights, hello, lacking, locked_out, log_in, waits};
use said::{all, text};
use uploads::{Notes, Shown, Unsent, Upload};

/// The longest text, characters: a piece that buttons stand below has no more.
const LONGEST: usize = 3000;
/// The largest file, bytes.
const LARGEST: u64 = 50 << 20;
/// The files of one message.
const MOST_FILES: usize = 10;
/// The account's settings: both tokens with a space between, or the app token beside the bot's.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    token: String,
    app_token: String,
}

/// One app.
pub struct Slack {
    api: Api,
    us: Us,
    /// Where the first socket is opened.
    first: std::sync::Mutex<Option<Uri>>,
    team: String,
    prefix: String,
    spool: PathBuf,
    notes: Notes,
    inbox: Mutex<Inbox>,
    presses: Arc<Presses>,
    /// How many texts are being looked for: that goes before asking for what was missed.
    looks: watch::Sender<usize>,
    /// Slack said that it does not take a token any more.
    locked_out: Notify,
    doubt: Mutex<Doubt>,
}

/// Logs in and says who we are.
///
/// # Errors
/// Why that failed; where a person has to do something, the host has been told.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Slack>, String> {
    let settings: Settings =
        serde_json::from_value(Value::Object(start.config.clone())).map_err(|error| error.to_string())?;
    let tokens = Tokens::read(&format!("{} {}", settings.app_token, settings.token));
    let refuse = async |state: State| {
        let why = state.why.clone();
        host.state(state).await.map_err(|gone| gone.to_string())?;
        Err(why)
    };
    let missing = if tokens.app.is_empty() { Some("app token (xapp-…)") } else { None };
    let missing = if tokens.bot.is_empty() { Some("bot token (xoxb-…)") } else { missing };
    if let Some(missing) = missing {
        return refuse(all_lights(Light::Refused, &format!("the {missing} is missing"), NEW_TOKENS)).await;
    }
    let api = Api::new(start.upstream.as_deref(), tokens)?;
    let mut rest = Rest::default();
    let mut doubt = Doubt::of(&start);
    let (me, scopes, first) = loop {
        let (token, error) = match log_in(&api).await {
            Ok(in_as) => break in_as,
            Err(failed) => failed,
        };
        match error {
            error if error.is_locked_out() && doubt.denied(Instant::now()) => {
                return refuse(locked_out(token, &error)).await;
            }
            error if error.is_final() => {
                let state = match token {
                    Token::App => socket::refused(&error),
                    Token::Bot => all_lights(Light::Refused, &error.to_string(), &error.hint()),
                };
                return refuse(state).await;
            }
            error => {
                host.state(waits(token, &error)).await.map_err(|gone| gone.to_string())?;
                rest.wait(error.asked_ms()).await;
            }
        }
    };
    doubt.known();
    for missing in lacking(&scopes) {
        eprintln!("the bot has no scope {missing}: add it on OAuth & Permissions, and install the app again");
    }
    let field = |name: &str| text(&me, name).to_owned();
    let us = Us {
        id: field("user_id"),
        bot: field("bot_id"),
        team: field("team_id"),
        enterprise: field("enterprise_id"),
    };
    let team = field("team");
    host.hello(hello(&us.id, text(&me, "user"))).await.map_err(|gone| gone.to_string())?;
    let presses = Arc::new(Presses::default());
    let inbox = Inbox::new(
        api.clone(),
        us.clone(),
        team.clone(),
        start.prefix.clone(),
        Arc::clone(&presses),
        &start.cursor,
        &start.chats,
    );
    let looks = inbox.looks();
    Ok(Arc::new(Slack {
        api,
        us,
        first: std::sync::Mutex::new(Some(first)),
        team,
        prefix: start.prefix,
        spool: PathBuf::from(&start.spool),
        notes: Notes::read(&start.state_dir),
        inbox: Mutex::new(inbox),
        presses,
        looks,
        locked_out: Notify::new(),
        doubt: Mutex::new(doubt),
    }))
}

impl Slack {
    /// Returns the channel that an address names, and the thread.
    fn spot<'a>(&self, chat: &'a str, thread: &str) -> Result<&'a str, Outcome> {
        let id = chat.strip_prefix(&self.prefix[..]).and_then(|rest| rest.strip_prefix(':'));
        id.filter(|id| is_id(id) && (thread.is_empty() || is_time(thread))).ok_or_else(|| {
            Outcome::refused("no_channel", format!("{chat} {thread} is no channel of Slack"), "")
        })
    }

    /// Says what became of what was asked. A token that does not hold is asked about.
    fn outcome(&self, error: &ApiError, in_thread: bool) -> Outcome {
        if error.is_locked_out() {
            self.locked_out.notify_one();
        }
        error.outcome(in_thread)
    }

    async fn say(&self, send: &Send) -> Result<Vec<String>, Outcome> {
        let channel = self.spot(&send.chat, &send.thread)?;
        if !send.attachments.is_empty() {
            return self.say_with_files(channel, send).await;
        }
        if send.text.trim().is_empty() {
            return Err(Outcome::refused("empty", "there is nothing to send", ""));
        }
        let given = out::message(channel, send);
        let given: Vec<(&str, &str)> = given.iter().map(|(name, value)| (*name, &value[..])).collect();
        match self.api.call("chat.postMessage", &given).await {
            Ok(sent) if is_time(text(&sent, "ts")) => {
                if !send.thread.is_empty() && text(&sent["message"], "thread_ts") != send.thread {
                    eprintln!("a thread's first message is deleted: its answer stands in the channel itself");
                }
                Ok(vec![text(&sent, "ts").to_owned()])
            }
            Ok(_) => Err(Outcome::Unknown("Slack's answer names no message".into())),
            Err(error) => Err(self.outcome(&error, !send.thread.is_empty())),
        }
    }

    async fn say_with_files(&self, channel: &str, send: &Send) -> Result<Vec<String>, Outcome> {
        if send.attachments.len() > MOST_FILES {
            return Err(Outcome::refused("too_many", "Slack is given at most 10 files with a message", ""));
        }
        let shown = Shown { key: &send.key, channel, thread: &send.thread, text: &send.text };
        let files = self.files(send).await?;
        let in_thread = !send.thread.is_empty();
        uploads::send(&self.api, &self.notes, &shown, files).await.map_err(|unsent| match unsent {
            Unsent::Asked(error) => self.outcome(&error, in_thread),
            Unsent::Note(error) => {
                Outcome::NotSent(NotSent::Again { text: format!("our own note of it: {error}") })
            }
            Unsent::Before(error) => match self.outcome(&error, in_thread) {
                // Whatever Slack has of it, it shows nothing.
                Outcome::Unknown(text) => Outcome::NotSent(NotSent::Again { text }),
                outcome => outcome,
            },
        })
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
        if all.iter().map(|bytes| bytes.len() as u64).sum::<u64>() > LARGEST {
            return Err(Outcome::refused("too_large", "Slack is given files of at most 50 MiB", ""));
        }
        let named = send.attachments.iter().zip(all);
        Ok(named.map(|(file, bytes)| Upload { name: file.name.clone(), bytes }).collect())
    }

    async fn change(&self, amend: &Amend) -> Result<Vec<String>, Outcome> {
        let channel = self.spot(&amend.chat, &amend.thread)?;
        let id = &amend.id[..];
        let of_message = [("channel", channel), ("timestamp", id)];
        let is_known = is_time(id) || (amend.delete && is_id(id));
        if !is_known {
            return Err(Outcome::refused("no_message", format!("{id} is no message of Slack"), ""));
        }
        let done = if amend.delete && !is_time(id) {
            self.api.call("files.delete", &[("file", id)]).await
        } else if amend.delete {
            self.api.call("chat.delete", &[("channel", channel), ("ts", id)]).await
        } else {
            match amend.react.as_deref() {
                None => {
                    let words = amend.text.clone().unwrap_or_default();
                    let blocks = out::blocks(&words, &amend.buttons).to_string();
                    let mut given =
                        vec![("channel", channel), ("ts", id), ("blocks", &blocks), ("parse", "none")];
                    if amend.text.is_some() {
                        given.push(("text", &words));
                    }
                    self.api.call("chat.update", &given).await
                }
                Some("") => {
                    return self.take_back(channel, id).await.map_err(|error| self.changed_or_not(&error));
                }
                Some(sign) => {
                    let Some(name) = signs::name(sign) else {
                        let hint = "a sign that Slack has no name for here can be written as its name, such as :eyes:";
                        return Err(Outcome::refused(
                            "invalid_name",
                            format!("{sign} is no reaction of Slack"),
                            hint,
                        ));
                    };
                    self.api.call("reactions.add", &[of_message[0], of_message[1], ("name", &name)]).await
                }
            }
        };
        match done {
            Ok(_) => Ok(Vec::new()),
            // It is so already.
            Err(error) if error.is("already_reacted") => Ok(Vec::new()),
            Err(error) if amend.delete && (error.is("message_not_found") || error.is("file_not_found")) => {
                Ok(Vec::new())
            }
            Err(error) => Err(self.changed_or_not(&error)),
        }
    }

    /// A change that may or may not have arrived is made again: it is the same afterwards.
    fn changed_or_not(&self, error: &ApiError) -> Outcome {
        match error {
            ApiError::NoAnswer(NoAnswer::Unknown(why)) => {
                Outcome::NotSent(NotSent::Again { text: why.clone() })
            }
            error => self.outcome(error, false),
        }
    }

    /// Takes our own signs back from a message.
    async fn take_back(&self, channel: &str, id: &str) -> Result<Vec<String>, ApiError> {
        let given = [("channel", channel), ("timestamp", id), ("full", "true")];
        let answer = self.api.call("reactions.get", &given).await?;
        for sign in all(&answer["message"], "reactions") {
            if all(sign, "users").iter().any(|user| *user == self.us.id) {
                let given = [("channel", channel), ("timestamp", id), ("name", text(sign, "name"))];
                match self.api.call("reactions.remove", &given).await {
                    Err(error) if !error.is("no_reaction") => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(Vec::new())
    }

    /// Listens until the host is gone, or Slack wants no more of us.
    async fn listen(&self, host: &Host) -> Ended {
        let mut inbox = self.inbox.lock().await;
        let (tell, news) = mpsc::channel(socket::MOST_WAITING);
        let lights = inbox.lights();
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sockets = async {
            let mut first = first;
            loop {
                match socket::listen(&self.api, first.take(), &tell).await? {
                    socket::Left::Refused(state) => return Ok(state),
                    socket::Left::Denied(error) => {
                        match self.denied(host, Token::App, error).await.map_err(|_| Ended::Left)? {
                            Known::Not(state) => return Ok(state),
                            Known::Again(uri) => first = uri,
                        }
                    }
                }
            }
        };
        let texts = async {
            loop {
                self.locked_out.notified().await;
                let Err(error) = self.api.myself().await else { continue };
                if let Known::Not(state) =
                    self.denied(host, Token::Bot, error).await.map_err(|_| Ended::Left)?
                {
                    return Ok(state);
                }
                let before = lights.lock().unwrap_or_else(PoisonError::into_inner).clone();
                host.state(before).await.map_err(|_| Ended::Left)?;
            }
        };
        let refused: Result<State, Ended> = tokio::select! {
            ended = inbox.work(host, news) => return ended,
            left = sockets => left,
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

    /// Asks by a token until Slack knows it again, or says for good that it does not.
    async fn denied(&self, host: &Host, token: Token, mut error: ApiError) -> Result<Known, Gone> {
        let mut rest = Rest::default();
        loop {
            if error.is_locked_out() && self.doubt.lock().await.denied(Instant::now()) {
                return Ok(Known::Not(locked_out(token, &error)));
            }
            host.state(waits(token, &error)).await?;
            rest.wait(error.asked_ms()).await;
            let asked = match token {
                Token::App => self.api.socket().await.map(Some),
                Token::Bot => self.api.myself().await.map(|_| None),
            };
            match asked {
                Ok(uri) => {
                    self.doubt.lock().await.known();
                    return Ok(Known::Again(uri));
                }
                Err(failed) => error = failed,
            }
        }
    }
}

/// Whether Slack knows a token after all.
enum Known {
    /// It does, and may have named a socket.
    Again(Option<Uri>),
    /// It does not: what a person has to do.
    Not(State),
}

impl Adapter for Slack {
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
            self.looks.send_modify(|looks| *looks += 1);
            let look = self.find(&what).await;
            self.looks.send_modify(|looks| *looks = looks.saturating_sub(1));
            look
        })
    }

    fn told(&self, event_key: String, text: String) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.presses.answer(&self.api, &event_key, &text).await })
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let made = self.api.call("conversations.open", &[("users", &user)]).await;
            let made = made.map_err(|error| error.to_string())?;
            let id = text(&made["channel"], "id");
            if is_id(id) {
                Ok(format!("{}:{id}", self.prefix))
            } else {
                Err("Slack's answer names no channel".into())
            }
        })
    }

    fn list_chats(&self) -> BoxFuture<'_, Result<Vec<Chat>, String>> {
        Box::pin(async move { self.chats().await.map_err(|error| error.to_string()) })
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.get(&what).await })
    }
}
