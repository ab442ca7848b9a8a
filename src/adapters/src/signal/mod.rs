//! Signal, by the user's own `signal-cli daemon --http`: one account. `docs/signal.md` is the page for people.
//!
//! signal-cli takes a message from Signal's servers before it tells it; up to 0.14.6 it tells it once. So `hearing` keeps what it is told in a file
//! (`journal`) before anything else, and tells the daemon from there, again after a death. What signal-cli writes
//! between a death and the first write that fails, half a minute at most, is lost with those versions; newer ones tell it again.
#![expect(clippy::disallowed_methods, reason = "the adapter reads its own spool, its journal and the clock")]

mod events;
mod files;
mod hearing;
mod journal;
mod people;
mod rpc;
mod said;
mod sse;
mod styles;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use channel_protocol::{
    Addresses, Amend, Can, Chat, ChatKind, Fetch, Format, Hello, Hint, Kind, Light, Media, Myself, Pace,
    Send, SentTwice, Start, State, TextLimit, Unit,
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::Instant};

use crate::kit::{Adapter, Doubt, Ended, Gone, Host, Outcome, Rest};
use events::Reader;
use journal::Journal;
use people::{People, Target, Who, one_line};
use rpc::{Rpc, RpcError};

/// Where signal-cli listens if nobody says otherwise.
const USUAL: &str = "http://127.0.0.1:8080";
/// The longest text, characters: of most texts it is what Signal sends without a file.
const LONGEST: usize = 2000;
/// The largest file, bytes.
const LARGEST: u64 = 50 << 20;
/// The files of one message.
const TOGETHER: usize = 10;
/// How long a file may be on its way from signal-cli.
const FILE: Duration = Duration::from_secs(120);
/// How many reactions of ours are remembered, to be taken back.
const MOST_SIGNS: usize = 256;
/// The longest answer with all chats, and how many of its people are told.
const MOST_LISTED: usize = 16 << 20;

/// The account's settings.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    /// Where signal-cli listens.
    url: String,
    /// The account's number or id.
    account: String,
    /// Of a proxy in front of signal-cli.
    token: String,
    /// `url` may be another machine without TLS.
    plain_http: bool,
    /// signal-cli's folder of files.
    attachments: Option<PathBuf>,
    /// People see that their messages were taken.
    read_receipts: bool,
}

/// One account.
pub struct Signal {
    rpc: Rpc,
    account: String,
    spool: PathBuf,
    attachments: Option<PathBuf>,
    receipts: bool,
    journal: Arc<Journal>,
    reader: Mutex<Reader>,
    state: Mutex<State>,
    standing: tokio::sync::Mutex<()>,
    /// Our reactions, by the messages' ids.
    signs: Mutex<VecDeque<(String, String)>>,
    /// signal-cli told its contacts.
    known: AtomicBool,
    /// One file at a time is held in memory.
    files: Semaphore,
    doubt: Doubt,
    host: Host,
}

/// Somebody whom signal-cli knows.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Contact {
    number: Value,
    uuid: Value,
    username: Option<String>,
    name: Option<String>,
    #[serde(rename = "isBlocked")]
    is_blocked: bool,
    profile: Option<Profile>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Profile {
    given_name: Option<String>,
    family_name: Option<String>,
}

/// A group of the account's.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Group {
    id: String,
    name: Option<String>,
    #[serde(rename = "isMember")]
    is_member: bool,
    members: Vec<serde::de::IgnoredAny>,
}

impl Contact {
    fn shown(&self) -> String {
        let name = self.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let profile = self.profile.as_ref().map(|profile| {
            let parts = [&profile.given_name, &profile.family_name];
            parts.into_iter().flatten().map(|part| part.trim()).collect::<Vec<_>>().join(" ")
        });
        name.map(str::to_owned).or(profile).unwrap_or_default().trim().to_owned()
    }
}

/// Takes up an account, once signal-cli has it.
///
/// # Errors
/// Why that failed; where a person has to do something, the host has been told.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Signal>, String> {
    let settings: Settings =
        serde_json::from_value(Value::Object(start.config.clone())).map_err(|error| error.to_string())?;
    let base = [start.upstream.as_deref().unwrap_or_default(), &settings.url, USUAL];
    let base = base.into_iter().find(|url| !url.is_empty()).unwrap_or(USUAL);
    let refuse = async |why: String, hint: &str| {
        let light = Light::Refused;
        let state =
            State { transport: light, inbound: light, outbound: light, why: why.clone(), hint: hint.into() };
        let _ = host.state(state).await;
        Err(why)
    };
    let rpc = match Rpc::new(base, settings.plain_http, &settings.token) {
        Ok(rpc) => rpc,
        Err(why) => {
            // A password may stand in it.
            let shown = if base.contains('@') { String::new() } else { format!(" {base:?}") };
            return refuse(format!("url{shown}: {why}"), "set `url` in g2.toml").await;
        }
    };
    let asked = Some(settings.account.trim()).filter(|account| !account.is_empty());
    if asked.is_some_and(|account| Who::read(account).is_none()) {
        let why = format!("account {:?} is no number such as +4930123456", settings.account);
        return refuse(why, "set `account` in g2.toml").await;
    }
    let mut rest = Rest::default();
    let mut doubt = Doubt::of(&start);
    let (rpc, us) = loop {
        let (why, hint) = match account(&rpc, asked).await {
            Ok(us) => break (rpc.of(us.clone()), Who::read(&us).unwrap_or_default()),
            Err(No::Account(why)) if doubt.denied(Instant::now()) => {
                let hint = "link or register it (docs/signal.md), or set `account` in g2.toml; then `g2 channels restart`";
                return refuse(why, hint).await;
            }
            Err(No::Account(why)) => (format!("{why}; it is asked again"), ""),
            Err(No::Answer(error)) => (error.to_string(), error.hint()),
        };
        let light = Light::Waiting;
        let state = State { transport: light, inbound: light, outbound: light, why, hint: hint.into() };
        host.state(state).await.map_err(|gone| gone.to_string())?;
        rest.wait(None).await;
    };
    doubt.known();
    let journal = Journal::open(std::path::Path::new(&start.state_dir), events::stored(&start))
        .map_err(|error| format!("what signal-cli tells can't be kept: {error}"))?;
    let reader = Reader::new(People::new(start.prefix.clone(), us), &start, now_ms());
    let signal = Signal {
        account: asked.unwrap_or_default().to_owned(),
        spool: PathBuf::from(&start.spool),
        attachments: settings.attachments,
        receipts: settings.read_receipts,
        journal: Arc::new(journal),
        reader: Mutex::new(reader),
        state: Mutex::new(State { outbound: Light::Ok, ..State::default() }),
        standing: tokio::sync::Mutex::default(),
        signs: Mutex::default(),
        known: AtomicBool::new(false),
        files: Semaphore::new(1),
        rpc,
        doubt,
        host: host.clone(),
    };
    // Names are as good later; without them people are called by their numbers.
    let known = signal.learn(true).await;
    if let Err(error) = &known {
        eprintln!("signal-cli does not tell its contacts and groups, and is asked again: {error}");
    }
    signal.known.store(known.is_ok(), Ordering::Relaxed);
    let hello = signal.hello();
    host.hello(hello).await.map_err(|gone| gone.to_string())?;
    Ok(Arc::new(signal))
}

/// Why an account can't be taken up.
enum No {
    Answer(RpcError),
    /// signal-cli does not have it.
    Account(String),
}

/// Returns the account as signal-cli has it.
async fn account(rpc: &Rpc, asked: Option<&str>) -> Result<String, No> {
    #[derive(Deserialize)]
    struct Has {
        number: Option<String>,
    }
    rpc.check().await.map_err(No::Answer)?;
    let has: Vec<Has> = match rpc.call("listAccounts", json!({})).await {
        Ok(has) => has,
        // It was started for one account, and ignores which one is asked for.
        Err(error) if error.is_no_method() => {
            let why =
                "signal-cli was started for one account and does not say which: `account` has to name it";
            return asked.map(str::to_owned).ok_or_else(|| No::Account(why.into()));
        }
        Err(error) => return Err(No::Answer(error)),
    };
    let all: Vec<String> = has.into_iter().filter_map(|one| one.number).collect();
    match asked {
        Some(asked) if !asked.starts_with('+') || all.iter().any(|one| one == asked) => Ok(asked.to_owned()),
        Some(asked) => Err(No::Account(format!("signal-cli does not have the account {asked}"))),
        None => <[String; 1]>::try_from(all).map(|[one]| one).map_err(|all| {
            No::Account(match all.len() {
                0 => "signal-cli has no account".into(),
                several => format!("signal-cli has {several} accounts, and `account` names none"),
            })
        }),
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signal {
    fn reader(&self) -> MutexGuard<'_, Reader> {
        lock(&self.reader)
    }

    fn account_shown(&self) -> &str {
        if self.account.is_empty() { "any more" } else { &self.account }
    }

    fn hello(&self) -> Hello {
        let people = &self.reader().people;
        let number = people.us.number.clone().unwrap_or_default();
        let name = people.name(&people.us);
        Hello {
            adapter: concat!("g2-channels signal ", env!("CARGO_PKG_VERSION")).into(),
            myself: Myself { id: people.us.id().to_owned(), name, handle: number },
            text: TextLimit { max: LONGEST, unit: Unit::Chars, format: Format::Spans },
            caption_max: LONGEST,
            // Nothing of a text tells Signal that it came before, and signal-cli has no history.
            sent_twice: SentTwice::Never,
            can: vec![
                Can::Typing,
                Can::Edit,
                Can::Delete,
                Can::React,
                Can::Reply,
                Can::MediaIn,
                Can::MediaOut,
                Can::OpenDm,
                Can::ListChats,
            ],
            media: Media { out_max: LARGEST, in_max: LARGEST, together: TOGETHER },
            pace: Pace { chat_ms: 500, account_per_s: 5, ..Pace::default() },
            typing_ms: 10_000,
            // Each change is a message of its own, which people may look up.
            draft_ms: 60_000,
            addresses: Some(Addresses {
                direct: r"\+[0-9]{3,20}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".into(),
                ..Addresses::default()
            }),
            ..Hello::default()
        }
    }

    /// Says how the account stands, where that is another way than before.
    async fn stand(&self, host: &Host, change: impl FnOnce(&mut State)) -> Result<(), Gone> {
        // Two at once would tell in any order, and the older one would stay.
        let _order = self.standing.lock().await;
        let new = {
            let mut state = lock(&self.state);
            let before = state.clone();
            change(&mut state);
            (*state != before).then(|| state.clone())
        };
        match new {
            Some(state) => host.state(state).await,
            None => Ok(()),
        }
    }

    /// Says whether the account can send.
    async fn sends(&self, error: Option<&RpcError>) {
        let stops = error.filter(|error| error.stops_all());
        let change = |state: &mut State| match stops {
            Some(error) => {
                state.outbound = Light::Failing;
                (state.why, state.hint) = (error.why(), error.hint().to_owned());
            }
            None if error.is_none() && state.outbound != Light::Ok => {
                state.outbound = Light::Ok;
                if state.inbound == Light::Ok {
                    (state.why, state.hint) = (String::new(), String::new());
                }
            }
            None => {}
        };
        // Without a host nobody reads it.
        let _ = self.stand(&self.host, change).await;
    }

    /// Takes in who is who, and which groups there are; returns them as chats. `all`: also those who are no contacts.
    async fn learn(&self, all: bool) -> Result<Vec<Chat>, RpcError> {
        let groups: Vec<Group> = self.rpc.call_within("listGroups", json!({}), FILE, MOST_LISTED).await?;
        let whom = if all { json!({"allRecipients": true}) } else { json!({}) };
        let mut contacts: Vec<Contact> =
            self.rpc.call_within("listContacts", whom, FILE, MOST_LISTED).await?;
        if all {
            // Where there is no room for all, those without another id need none.
            contacts.sort_by_key(|contact| (contact.username.is_none(), contact.number.is_null()));
        }
        let mut reader = self.reader();
        let people = &mut reader.people;
        let (mut chats, mut fit) = (Vec::new(), true);
        for group in groups {
            let name = group.name.unwrap_or_default();
            people.learn_group(&group.id, &name);
            if let Some(chat) = people.group(&group.id).filter(|_| group.is_member) {
                let members = u32::try_from(group.members.len()).ok();
                chats.push(Chat {
                    chat,
                    name: one_line(&name, 256),
                    kind: ChatKind::Group,
                    members,
                    ..Chat::default()
                });
            }
        }
        for contact in contacts {
            let Some(who) = Who::of(&contact.uuid, &contact.number, &Value::Null) else { continue };
            let name = contact.shown();
            fit &= people.learn_listed(&who, &name, contact.username.as_deref());
            if !contact.is_blocked && !people.us.is(&who) {
                let chat = people.direct(who.id());
                let name = people.name(&who);
                chats.push(Chat { chat, name, kind: ChatKind::Direct, ..Chat::default() });
            }
        }
        people.all_listed |= all && fit;
        Ok(chats)
    }

    /// Returns whom an order is for, as signal-cli takes it.
    fn to(&self, chat: &str) -> Result<Value, Outcome> {
        match self.reader().people.target(chat) {
            Some(Target::Person(id)) => Ok(json!({"recipient": [id]})),
            Some(Target::Group(id)) => Ok(json!({"groupId": id})),
            Some(Target::Ourselves) => Ok(json!({"noteToSelf": true})),
            None => Err(Outcome::refused("no_chat", format!("{chat} is no chat of Signal"), "")),
        }
    }

    /// Returns when a message was written, and by whom.
    fn written(&self, id: &str) -> Result<(u64, String), Outcome> {
        let written = self.reader().people.written(id);
        written.ok_or_else(|| Outcome::refused("no_message", format!("{id} is no message of Signal"), ""))
    }

    /// Sends something; returns when it was sent, which is its name.
    async fn sent(&self, method: &str, params: Value) -> Result<u64, Outcome> {
        #[derive(Deserialize)]
        struct Sent {
            timestamp: Option<u64>,
        }
        let to_a_person = !params["recipient"].is_null();
        let sent: Result<Sent, RpcError> = self.rpc.call(method, params).await;
        self.sends(sent.as_ref().err()).await;
        match sent {
            Ok(Sent { timestamp: Some(at) }) => Ok(at),
            Ok(_) => Err(Outcome::Unknown("signal-cli does not say when it sent it".into())),
            Err(error) => Err(error.outcome(to_a_person)),
        }
    }

    async fn say(&self, send: &Send) -> Result<Vec<String>, Outcome> {
        let mut params = self.to(&send.chat)?;
        let styled = styles::styled(&send.text, &send.spans);
        if !styled.text.is_empty() {
            params["message"] = styled.text.into();
        }
        if !styled.styles.is_empty() {
            params["textStyle"] = styled.styles.into();
        }
        // Where it names no message of Signal, the text is worth more than its quote.
        if let Some(to) = &send.reply_to
            && let Ok((at, by)) = self.written(to)
        {
            params["quoteTimestamp"] = at.into();
            params["quoteAuthor"] = by.into();
            params["quoteMessage"] = self.reader().heard(to).into();
        }
        if send.silent {
            params["noUrgent"] = true.into();
        }
        if send.attachments.iter().any(|file| file.kind == Kind::Voice) {
            params["voiceNote"] = true.into();
        }
        let mut files = Vec::new();
        let _place = match send.attachments.is_empty() {
            true => None,
            false => self.files.acquire().await.ok(),
        };
        for file in &send.attachments {
            files.push(self.data(file).await?);
        }
        if !files.is_empty() {
            params["attachments"] = files.into();
        }
        let id = People::ours(self.sent("send", params).await?);
        self.reader().hear(id.clone(), &send.text);
        Ok(vec![id])
    }

    async fn change(&self, amend: &Amend) -> Result<(), Outcome> {
        let mut params = self.to(&amend.chat)?;
        if amend.delete {
            let (at, _) = self.written(&amend.id)?;
            params["targetTimestamp"] = at.into();
            return self.sent("remoteDelete", params).await.map(drop);
        }
        if let Some(sign) = &amend.react {
            let (at, by) = self.written(&amend.id)?;
            let before = {
                let mut signs = lock(&self.signs);
                let at = signs.iter().position(|(id, _)| *id == amend.id);
                at.and_then(|at| signs.remove(at)).map(|(_, sign)| sign)
            };
            // A person has one reaction to a message: which one goes, Signal does not ask.
            let shown = if sign.is_empty() { before.as_deref().unwrap_or("👍") } else { sign };
            params["emoji"] = shown.into();
            params["remove"] = sign.is_empty().into();
            params["targetAuthor"] = by.into();
            params["targetTimestamp"] = at.into();
            self.sent("sendReaction", params).await?;
            if !sign.is_empty() {
                let mut signs = lock(&self.signs);
                if signs.len() >= MOST_SIGNS {
                    signs.pop_front();
                }
                signs.push_back((amend.id.clone(), sign.clone()));
            }
            return Ok(());
        }
        let Some(text) = &amend.text else {
            return Err(Outcome::refused("unsupported", "there is nothing to change", ""));
        };
        let newest = self.reader().people.newest(&amend.id).to_owned();
        let (at, _) = self.written(&newest)?;
        let styled = styles::styled(text, &amend.spans);
        params["message"] = styled.text.into();
        if !styled.styles.is_empty() {
            params["textStyle"] = styled.styles.into();
        }
        params["editTimestamp"] = at.into();
        let new = People::ours(self.sent("send", params).await?);
        let mut reader = self.reader();
        reader.changed(new, amend.id.clone());
        reader.hear(amend.id.clone(), text);
        Ok(())
    }

    async fn dm(&self, user: &str) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Status {
            uuid: Option<String>,
        }
        let who = Who::read(user);
        if let Some(aci) = who.as_ref().and_then(|who| who.aci.as_deref()) {
            return Ok(self.reader().people.direct(aci));
        }
        let params = match &who {
            Some(who) => json!({"recipient": [who.id()]}),
            None if (1..=64).contains(&user.len()) => json!({"username": [user]}),
            None => return Err("it is no number, username or id of Signal".into()),
        };
        let found: Vec<Status> =
            self.rpc.call("getUserStatus", params).await.map_err(|error| error.to_string())?;
        let aci = found.into_iter().find_map(|one| Who::read(&one.uuid?));
        let aci = aci.ok_or("nobody on Signal has this number or username")?;
        Ok(self.reader().people.direct(aci.id()))
    }
}

impl Adapter for Signal {
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended> {
        let doubt = self.doubt.clone();
        Box::pin(hearing::run(self, host, doubt))
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.say(&send).await.map_or_else(|outcome| outcome, Outcome::Sent) })
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            self.change(&amend).await.map_or_else(|outcome| outcome, |()| Outcome::Sent(Vec::new()))
        })
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Ok(mut params) = self.to(&hint.chat) else { return };
            if params["noteToSelf"] == true {
                return;
            }
            params["stop"] = (!hint.typing).into();
            // It is a sign of life alone.
            let _ = self.rpc.call::<Value>("sendTyping", params).await;
        })
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.dm(&user).await })
    }

    fn list_chats(&self) -> BoxFuture<'_, Result<Vec<Chat>, String>> {
        Box::pin(async move { self.learn(false).await.map_err(|error| error.to_string()) })
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.get(&what).await })
    }
}
