//! Telegram, by its Bot API: `docs/telegram.md` is the page for people.
//!
//! In: one long poll at a time. The next one names the last update, and so tells Telegram to forget it; it is made once all
//! updates of the one before are stored. Out: Telegram knows no key of ours and can't be asked what it has, so a request that
//! broke off after it was written has an unknown end.
//!
//! | state | how it ends |
//! |---|---|
//! | not known yet | `getMe` answers: `hello`; the token is wrong: refused |
//! | polling | the connection fails: tried again, at first after 1 s, later after 30 s |
//! | another program polls | three times in a row: refused |
//! | refused | the program ends; a person has to do something |

mod api;
mod body;
mod judge;
mod read;
mod spans;
mod wire;
mod write;

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use channel_protocol::{
    Amend, Buttons, Can, Event, EventKind, Fetch, File, Format, Hello, Hint, Light, Media, Myself, NotSent,
    Pace, Scope, Send, SentTwice, Start, State, TextLimit, Unit,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::{
    api::{ANSWER, Answer, Api},
    body::Part,
    judge::Fault,
    read::{Item, LARGEST_IN, Us},
    write::{Call, Ways},
};
use crate::kit::{Adapter, Ended, Gone, Host, Outcome, Rest};

/// How long Telegram holds a poll open when there is nothing.
const POLL: Duration = Duration::from_secs(50);
/// How long further pieces of an album are waited for, and how often while some come.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLES: usize = 3;
/// After this many polls in a row that another program ended, we leave it the bot.
const MOST_CONFLICTS: u32 = 3;
/// How many presses wait for an answer.
const MOST_PRESSES: usize = 256;
/// How often a change is tried again whose end is unknown: done twice it is the same.
const AMEND_TRIES: usize = 3;

/// One bot.
pub struct Telegram {
    api: Api,
    host: Host,
    start: Start,
    ways: Ways,
    lights: tokio::sync::Mutex<Option<State>>,
    us: OnceLock<Us>,
    /// The key of a press, and the id by which the presser is answered.
    presses: Mutex<VecDeque<(String, String)>>,
    /// The chat that has to wait, and until when.
    busy: Mutex<Option<(String, Instant)>>,
}

/// Takes up an account. It is reached for in `run`, so that the host is heard meanwhile.
///
/// # Errors
/// The account can't be reached as it is set up.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Telegram>, String> {
    let token = start.config.get("token").and_then(Value::as_str).unwrap_or_default();
    let ways =
        Ways { previews: start.config.get("link_previews").and_then(Value::as_bool).unwrap_or_default() };
    match Api::new(token, start.upstream.as_deref()) {
        Ok(api) => Ok(Arc::new(Telegram {
            api,
            host,
            start,
            ways,
            lights: tokio::sync::Mutex::default(),
            us: OnceLock::new(),
            presses: Mutex::default(),
            busy: Mutex::default(),
        })),
        Err(why) => {
            let why = why.to_string();
            let _ = host.state(refused(&why, &token_hint(&start.instance))).await;
            Err(why)
        }
    }
}

fn refused(why: &str, hint: &str) -> State {
    let light = Light::Refused;
    State { transport: light, inbound: light, outbound: light, why: why.into(), hint: hint.into() }
}

fn token_hint(instance: &str) -> String {
    format!(
        "@BotFather shows the bot's token (/mybots, API Token); set it, then `g2 channels restart {instance}`"
    )
}

impl Adapter for Telegram {
    fn run(self: Arc<Self>, _: Host) -> BoxFuture<'static, Ended> {
        async move { self.live().await.unwrap_or(Ended::Left) }.boxed()
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        async move { self.put(&send).await.unwrap_or_else(|refused| refused) }.boxed()
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        async move { self.change(&amend).await.unwrap_or_else(|refused| refused) }.boxed()
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        async move {
            if hint.typing
                && !self.has_to_wait(&hint.chat)
                && let Ok(call) = write::typing(&self.start.prefix, &hint.chat, &hint.thread)
                && let Err(Fault::Told(told)) = self.api.call(call.method, &call.params).await
            {
                self.note_busy(&hint.chat, told.parameters.retry_after);
            }
        }
        .boxed()
    }

    fn told(&self, event_key: String, text: String) -> BoxFuture<'_, ()> {
        async move {
            let query = {
                let mut presses = self.presses.lock().unwrap_or_else(PoisonError::into_inner);
                let at = presses.iter().position(|(key, _)| *key == event_key);
                at.and_then(|at| presses.remove(at))
            };
            let Some((_, query)) = query else { return };
            let call = write::told(&query, &text);
            if let Err(fault) = self.api.call(call.method, &call.params).await {
                eprintln!("who pressed a button was not answered: {fault}");
            }
        }
        .boxed()
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        async move {
            // The chat with a person has the person's number, and is there once the person wrote to the bot.
            let id = user.rsplit(':').next().and_then(|id| id.parse::<i64>().ok());
            let id = id.ok_or("a person of Telegram is a number")?;
            let chat = json!({"chat_id": id}).as_object().cloned().unwrap_or_default();
            match self.api.call("getChat", &chat).await {
                Ok(_) => Ok(format!("{}:{id}", self.start.prefix)),
                Err(Fault::Told(_)) => Err("the person has to write to the bot first".into()),
                Err(fault) => Err(fault.to_string()),
            }
        }
        .boxed()
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        async move { self.bring(&what).await }.boxed()
    }
}

/// In.
impl Telegram {
    async fn live(&self) -> Result<Ended, Gone> {
        let since = match self.log_in().await? {
            Ok(since) => since,
            Err(ended) => return Ok(ended),
        };
        let us = self.us.get().cloned().unwrap_or_default();
        let us = Us { since, ..us };
        self.poll(us).await
    }

    /// Asks who we are until there is an answer, and says it to the host. Returns the time of Telegram's clock.
    async fn log_in(&self) -> Result<Result<Option<i64>, Ended>, Gone> {
        let mut rest = Rest::default();
        loop {
            let fault = match self.api.ask("getMe", &Map::new(), Vec::new(), ANSWER).await {
                Ok(answer) => {
                    let me: wire::User = serde_json::from_value(answer.result).unwrap_or_default();
                    if let Err(fault) = self.api.call("deleteWebhook", &Map::new()).await {
                        eprintln!("the webhook was not removed: {fault}");
                    }
                    let hello = hello(&me);
                    let handle = me.username.unwrap_or_default();
                    let _ =
                        self.us.set(Us { prefix: self.start.prefix.clone(), id: me.id, handle, since: None });
                    self.host.hello(hello).await?;
                    self.light(|state| {
                        *state = State {
                            transport: Light::Ok,
                            inbound: Light::Waiting,
                            outbound: Light::Ok,
                            ..State::default()
                        };
                    })
                    .await?;
                    return Ok(Ok(answer.at));
                }
                Err(fault) => fault,
            };
            if let Some(ended) = self.refused(&fault).await? {
                return Ok(Err(ended));
            }
            self.waits(&fault, Light::Waiting).await?;
            rest.wait(fault.asked_ms()).await;
        }
    }

    /// Takes updates in, for ever.
    async fn poll(&self, mut us: Us) -> Result<Ended, Gone> {
        let mut offset =
            self.start.cursor.get("updates").and_then(|last| last.parse::<i64>().ok()).map(|last| last + 1);
        let (mut rest, mut conflicts, mut hold, mut is_first) = (Rest::default(), 0, Duration::ZERO, true);
        let mut was_away = false;
        loop {
            let mut params = json!({
                "timeout": hold.as_secs(), "limit": 100, "allowed_updates": wire::KINDS,
            });
            if let Some(offset) = offset {
                params["offset"] = offset.into();
            }
            let params = params.as_object().cloned().unwrap_or_default();
            match self.updates(params, hold).await {
                Ok(answer) => {
                    // A short poll ends another program's poll and is ended by none: only a long one shows that we are alone.
                    if !hold.is_zero() {
                        conflicts = 0;
                    }
                    (rest, hold) = (Rest::default(), POLL);
                    if std::mem::take(&mut was_away) {
                        us.since = answer.at.or(us.since);
                    }
                    self.light(|state| {
                        let outbound = state.outbound;
                        *state =
                            State { transport: Light::Ok, inbound: Light::Ok, outbound, ..State::default() };
                    })
                    .await?;
                    if let Some(last) = self.take(&us, answer.result).await? {
                        offset = Some(last + 1);
                    }
                    if std::mem::take(&mut is_first) {
                        self.set_commands().await;
                    }
                }
                Err(fault) => {
                    (hold, was_away) = (Duration::ZERO, true);
                    if let Some(ended) = self.refused(&fault).await? {
                        return Ok(ended);
                    }
                    if matches!(&fault, Fault::Told(told) if told.error_code == 409) {
                        conflicts += 1;
                        if conflicts >= MOST_CONFLICTS {
                            return self.leave_to_other(&fault).await;
                        }
                        let _ = self.api.call("deleteWebhook", &Map::new()).await;
                    }
                    self.waits(&fault, Light::Waiting).await?;
                    rest.wait(fault.asked_ms()).await;
                }
            }
        }
    }

    /// Asks for updates. Where they end within an album, its other pieces are waited for: no update is confirmed by that.
    async fn updates(&self, mut params: Map<String, Value>, hold: Duration) -> Result<Answer, Fault> {
        let mut answer =
            self.api.ask("getUpdates", &params, Vec::new(), hold + Duration::from_secs(20)).await?;
        params.insert("timeout".into(), 0.into());
        for _ in 0..SETTLES {
            if !read::ends_in_album(&answer.result) {
                break;
            }
            tokio::time::sleep(SETTLE).await;
            let known = answer.result.as_array().map_or(0, Vec::len);
            answer = self.api.ask("getUpdates", &params, Vec::new(), Duration::from_secs(20)).await?;
            if answer.result.as_array().map_or(0, Vec::len) <= known {
                break;
            }
        }
        Ok(answer)
    }

    /// Tells what came in, and returns the last update's id once all of it is stored.
    async fn take(&self, us: &Us, updates: Value) -> Result<Option<i64>, Gone> {
        let Value::Array(updates) = updates else { return Ok(None) };
        let (mut last, mut items) = (None, Vec::new());
        for update in updates {
            let Some(id) = update.get("update_id").and_then(Value::as_i64) else { continue };
            last = Some(id);
            items.extend(match serde_json::from_value::<wire::Update>(update) {
                Ok(update) => us.read(update),
                Err(error) => {
                    eprintln!("update {id} can't be read: line {} column {}", error.line(), error.column());
                    us.read(wire::Update { update_id: id, ..wire::Update::default() })
                }
            });
        }
        let mut stored = Vec::new();
        for item in read::joined(items) {
            match item {
                Item::Event(event) => stored.push(self.host.begin(*event).await?),
                Item::Press(event, query) => {
                    self.keep_press(&event, query);
                    stored.push(self.host.begin(*event).await?);
                }
                Item::Moved { from, to } => self.host.moved(from, to).await?,
                Item::Chat(chat) => self.host.tell(&channel_protocol::Up::Chat(chat)).await?,
            }
        }
        for event in stored {
            event.wait().await?;
        }
        Ok(last)
    }

    fn keep_press(&self, event: &Event, query: String) {
        debug_assert_eq!(event.kind, EventKind::Press);
        let mut presses = self.presses.lock().unwrap_or_else(PoisonError::into_inner);
        presses.push_back((event.key.clone(), query));
        while presses.len() > MOST_PRESSES {
            presses.pop_front();
        }
    }

    /// Sets the menu of commands, where the account's table has one that is not set yet: a bot that sets it at each start is
    /// locked out for minutes.
    #[expect(clippy::disallowed_methods, reason = "its own folder, which the daemon made")]
    async fn set_commands(&self) {
        let Some(Value::Object(wanted)) = self.start.config.get("commands") else { return };
        let list: Vec<Value> = wanted
            .iter()
            .filter_map(|(command, says)| Some(json!({"command": command, "description": says.as_str()?})))
            .collect();
        let params = json!({"commands": list}).as_object().cloned().unwrap_or_default();
        let text = Value::Object(params.clone()).to_string();
        let kept = Path::new(&self.start.state_dir).join("commands.json");
        if fs::read(&kept).is_ok_and(|set| set == text.as_bytes()) {
            return;
        }
        match self.api.call("setMyCommands", &params).await {
            Ok(_) => {
                if let Err(error) = fs::write(&kept, text) {
                    eprintln!("the commands were set, and can't be noted as set: {error}");
                }
            }
            Err(fault) => eprintln!("the commands were not set: {fault}"),
        }
    }

    /// Says that a person has to do something, where a fault means that.
    async fn refused(&self, fault: &Fault) -> Result<Option<Ended>, Gone> {
        let Fault::Told(told) = fault else { return Ok(None) };
        if !matches!(told.error_code, 401 | 404) {
            return Ok(None);
        }
        let why = "Telegram does not know the bot's token";
        self.light(|state| *state = refused(why, &token_hint(&self.start.instance))).await?;
        Ok(Some(Ended::Failed(why.into())))
    }

    async fn leave_to_other(&self, fault: &Fault) -> Result<Ended, Gone> {
        let why = format!("another program reads this bot's messages: {fault}");
        let hint = format!(
            "stop the other program, or make a new token (@BotFather, /revoke); then `g2 channels restart {}`",
            self.start.instance
        );
        self.light(|state| *state = refused(&why, &hint)).await?;
        Ok(Ended::Failed(why))
    }

    async fn waits(&self, fault: &Fault, light: Light) -> Result<(), Gone> {
        let connected = matches!(fault, Fault::Told(_));
        self.light(|state| {
            state.transport = if connected { Light::Ok } else { light };
            state.inbound = light;
            state.why = fault.to_string();
        })
        .await
    }

    /// Changes the lights, and tells the host if they are others than before.
    async fn light(&self, change: impl FnOnce(&mut State)) -> Result<(), Gone> {
        let mut lights = self.lights.lock().await;
        let mut state = lights.clone().unwrap_or_default();
        change(&mut state);
        if lights.as_ref() != Some(&state) {
            self.host.state(state.clone()).await?;
            *lights = Some(state);
        }
        Ok(())
    }
}

fn hello(me: &wire::User) -> Hello {
    Hello {
        adapter: concat!("g2-channels telegram ", env!("CARGO_PKG_VERSION")).into(),
        myself: Myself {
            id: me.id.to_string(),
            name: me.first_name.clone(),
            handle: me.username.as_ref().map(|name| format!("@{name}")).unwrap_or_default(),
        },
        text: TextLimit { max: write::LONGEST_TEXT, unit: Unit::Utf16, format: Format::Spans },
        caption_max: write::LONGEST_CAPTION,
        sent_twice: SentTwice::Never,
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
        ],
        buttons: Buttons {
            max: write::MOST_BUTTONS,
            per_row: write::MOST_IN_ROW,
            press_bytes: write::LONGEST_PRESS,
        },
        media: Media { out_max: write::LARGEST_OUT, in_max: LARGEST_IN, together: write::MOST_FILES },
        pace: Pace { chat_ms: 1000, group_per_min: 20, account_per_s: 25 },
        typing_ms: 4000,
        draft_ms: 2000,
        ..Hello::default()
    }
}

/// Out.
impl Telegram {
    async fn put(&self, send: &Send) -> Result<Outcome, Outcome> {
        let size =
            send.attachments.first().map(|file| self.open(file)).transpose()?.map_or(0, |(_, size)| size);
        let call = write::send(&self.start.prefix, send, size, self.ways)?;
        let mut done = self.ask(&call).await?;
        if let Err(fault) = &done
            && judge::takes_as_document(fault)
            && let Some(plain) = write::as_document(&call)
        {
            done = self.ask(&plain).await?;
        }
        Ok(match done {
            Ok(result) => Outcome::Sent(ids(&result)),
            Err(fault) => self.judge(&send.chat, &fault).await,
        })
    }

    async fn change(&self, amend: &Amend) -> Result<Outcome, Outcome> {
        let mut call = write::amend(&self.start.prefix, amend, self.ways)?;
        let mut outcome = Outcome::Unknown(String::new());
        for _ in 0..AMEND_TRIES {
            let mut done = self.api.call(call.method, &call.params).await;
            if let Err(fault) = &done
                && judge::is_caption(fault)
                && let Some(beside) = write::as_caption(&call)
            {
                call = beside;
                done = self.api.call(call.method, &call.params).await;
            }
            outcome = match done {
                Ok(_) => Outcome::Sent(Vec::new()),
                Err(fault) => self.judge(&amend.chat, &fault).await,
            };
            if !matches!(outcome, Outcome::Unknown(_)) {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes a request with its files.
    async fn ask(&self, call: &Call) -> Result<Result<Value, Fault>, Outcome> {
        let mut parts = Vec::new();
        let mut bytes = 0;
        for (field, file) in &call.files {
            let (open, size) = self.open(file)?;
            bytes += size;
            let (name, mime) = (file.name.clone(), file.mime.clone());
            parts.push(Part { field: field.clone(), name, mime, file: open, size });
        }
        let most = write::LARGEST_OUT;
        if bytes > most {
            let text = format!("it has {bytes} bytes, and Telegram takes at most {most} from a bot");
            return Err(Outcome::refused("too_large", text, "send a link, or a smaller file"));
        }
        // Slow lines have 100 kB a second.
        let within = ANSWER + Duration::from_millis(bytes / 100);
        Ok(self.api.ask(call.method, &call.params, parts, within).await.map(|answer| answer.result))
    }

    /// Says what a failed request means, and does what follows from it.
    async fn judge(&self, chat: &str, fault: &Fault) -> Outcome {
        let mut scope = Scope::Chat;
        if let Fault::Told(told) = fault {
            if let Some(to) = told.parameters.migrate_to_chat_id {
                let to = format!("{}:{to}", self.start.prefix);
                let _ = self.host.moved(chat.to_owned(), to).await;
            }
            scope = self.note_busy(chat, told.parameters.retry_after);
        }
        let outcome = judge::outcome(fault, scope);
        let offline = matches!(outcome, Outcome::NotSent(NotSent::Offline));
        let outbound = if offline { Light::Waiting } else { Light::Ok };
        let _ = self.light(|state| state.outbound = outbound).await;
        outcome
    }

    /// Notes that Telegram wants to be left alone. Telegram does not say by whom: if a second chat is told so while the first
    /// one waits, it means the account.
    fn note_busy(&self, chat: &str, seconds: Option<u64>) -> Scope {
        let Some(seconds) = seconds else { return Scope::Chat };
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let other = busy.as_ref().is_some_and(|(waits, until)| waits != chat && *until > now);
        *busy = Some((chat.to_owned(), now + Duration::from_secs(seconds.min(86_400))));
        if other { Scope::Account } else { Scope::Chat }
    }

    fn has_to_wait(&self, chat: &str) -> bool {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.as_ref().is_some_and(|(waits, until)| waits == chat && *until > Instant::now())
    }

    /// Opens a file of the spool, and returns its size.
    fn open(&self, file: &File) -> Result<(fs::File, u64), Outcome> {
        let opened = rustix::fs::open(
            &self.start.spool,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .and_then(|spool| {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(spool, &file.file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), how)
        })
        .map_err(std::io::Error::from)
        .and_then(|fd| {
            let open = fs::File::from(fd);
            let size = open.metadata()?.len();
            Ok((open, size))
        });
        opened.map_err(|error| {
            Outcome::refused("no_file", format!("{:?} can't be read: {error}", file.file), "")
        })
    }

    /// Fetches a file into the spool.
    async fn bring(&self, what: &Fetch) -> Result<String, String> {
        let params = json!({"file_id": what.what}).as_object().cloned().unwrap_or_default();
        let file = self.api.call("getFile", &params).await.map_err(|fault| fault.to_string())?;
        let path = file.get("file_path").and_then(Value::as_str).ok_or("Telegram says no place of it")?;
        let most = what.most.min(LARGEST_IN);
        if file.get("file_size").and_then(Value::as_u64).is_some_and(|size| size > most) {
            return Err(format!("it has more than {most} bytes"));
        }
        let name = format!("in/{}", what.r);
        let place: PathBuf = Path::new(&self.start.spool).join(&name);
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place);
        let mut into = made.map_err(|error| format!("it can't be stored: {error}"))?;
        let brought =
            tokio::time::timeout(Duration::from_secs(300), self.api.download(path, &mut into, most)).await;
        match brought.unwrap_or_else(|_| Err("it took more than 5 minutes".into())) {
            Ok(()) => Ok(name),
            Err(why) => {
                let _ = rustix::fs::unlink(&place);
                Err(why)
            }
        }
    }
}

/// The ids of what was sent: one message, or several of an album.
fn ids(result: &Value) -> Vec<String> {
    let id = |message: &Value| message.get("message_id").and_then(Value::as_i64).map(|id| id.to_string());
    match result {
        Value::Array(messages) => messages.iter().filter_map(id).collect(),
        message => id(message).into_iter().collect(),
    }
}
