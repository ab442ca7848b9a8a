//! The way in: one long poll at a time. The lights say how it goes.

use std::{
    fs,
    path::Path,
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use channel_protocol::{
    Buttons, Can, Event, EventKind, Format, Hello, Light, Media, Myself, Pace, SentTwice, State, TextLimit,
    Unit,
};
use serde_json::{Map, Value, json};

use super::{
    Telegram,
    api::{ANSWER, Answer},
    judge::Fault,
    read::{self, Item, LARGEST_IN, Us},
    refused, token_hint, wire, write,
};
use crate::kit::{Ended, Gone, Rest};

/// How long Telegram holds a poll open when there is nothing.
const POLL: Duration = Duration::from_secs(50);
/// How long further pieces of an album are waited for, and how often while some come.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLES: usize = 3;
/// After this many polls in a row that another program ended, we leave it the bot.
const MOST_CONFLICTS: u32 = 3;
/// How many presses wait for an answer.
const MOST_PRESSES: usize = 256;
/// How many updates that can't be read are named in the log; of further ones each thousandth.
const SHOWN: u64 = 10;

/// What a poll brought.
enum Taken {
    Nothing,
    /// Updates, of which the last one has this number.
    Upto(i64),
    /// No updates, or none that has a number.
    Unnumbered,
}

impl Telegram {
    pub(super) async fn live(&self) -> Result<Ended, Gone> {
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
                    hold = POLL;
                    if std::mem::take(&mut was_away) {
                        us.since = answer.at.or(us.since);
                    }
                    self.light(|state| {
                        let outbound = state.outbound;
                        *state =
                            State { transport: Light::Ok, inbound: Light::Ok, outbound, ..State::default() };
                    })
                    .await?;
                    match self.take(&us, answer.result).await? {
                        Taken::Upto(last) => (offset, rest) = (Some(last.saturating_add(1)), Rest::default()),
                        Taken::Nothing => rest = Rest::default(),
                        // The next answer would be the same.
                        Taken::Unnumbered => rest.wait(None).await,
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

    /// Tells what came in, each update by itself, and returns once all of it is stored.
    async fn take(&self, us: &Us, updates: Value) -> Result<Taken, Gone> {
        let Value::Array(updates) = updates else { return Ok(Taken::Unnumbered) };
        let (mut last, mut items) = (None, Vec::new());
        let none_came = updates.is_empty();
        for update in updates {
            let Some(id) = update.get("update_id").and_then(Value::as_i64) else {
                self.pass_over("an update without a number");
                continue;
            };
            last = Some(id);
            items.extend(match serde_json::from_value::<wire::Update>(update) {
                Ok(update) => us.read(update),
                Err(_) => {
                    self.pass_over(&format!("update {id}"));
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
        Ok(match last {
            Some(last) => Taken::Upto(last),
            None if none_came => Taken::Nothing,
            None => Taken::Unnumbered,
        })
    }

    /// Says that something can't be read, as long as that is rare.
    fn pass_over(&self, what: &str) {
        let count = self.passed_over.fetch_add(1, Ordering::Relaxed) + 1;
        if count <= SHOWN || count.is_multiple_of(1000) {
            eprintln!("{what} can't be read and is passed over; it is number {count} since the start");
        }
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
    pub(super) async fn light(&self, change: impl FnOnce(&mut State)) -> Result<(), Gone> {
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
