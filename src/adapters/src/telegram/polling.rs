//! The way in: one long poll at a time. The lights say how it goes.

use std::{
    fs,
    path::Path,
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use channel_protocol::{
    Addresses, Buttons, Can, Event, EventKind, Format, Hello, Light, Media, Myself, Pace, SentTwice, Start,
    State, TextLimit, Unit,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    Telegram,
    api::{ANSWER, Answer},
    judge::Fault,
    read::{self, Item, LARGEST_IN, Us},
    refused,
    stuck::Stuck,
    token_hint, wire, write,
};
use crate::kit::{Doubt, Ended, Gone, Rest, Unread};

/// How long Telegram holds a poll open when there is nothing.
const POLL: Duration = Duration::from_secs(50);
/// How long further pieces of an album are waited for, and how often while some come.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLES: usize = 3;
/// After this many polls in a row that another program ended, we leave it the bot.
const MOST_CONFLICTS: u32 = 3;
/// How many presses wait for an answer.
const MOST_PRESSES: usize = 256;
/// What a person is told where Telegram says that it does not know us.
const DENIED: &str = "Telegram does not know the bot's token";
/// Of how many groups it is asked at a start whether the bot is an admin there, and how long is waited between two.
const MOST_STANDINGS: usize = 100;
const BETWEEN_STANDINGS: Duration = Duration::from_millis(100);
/// How many commands Telegram lists.
const MOST_COMMANDS: usize = 100;
/// How many updates that can't be read are named in the log; of further ones each thousandth.
const SHOWN: u64 = 10;

/// Returns the menu beside the text field: the words of the settings, and those that the account's table adds or describes anew.
/// `None`: it stays as it is.
fn menu(start: &Start) -> Option<Vec<Value>> {
    let own = start.config.get("commands");
    if own == Some(&Value::Bool(false)) {
        return None;
    }
    let mut all: Vec<(&str, &str)> =
        start.commands.iter().map(|command| (command.name.as_str(), command.does.as_str())).collect();
    for (name, does) in own.and_then(Value::as_object).into_iter().flatten() {
        let Some(does) = does.as_str() else { continue };
        match all.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = does,
            None => all.push((name, does)),
        }
    }
    let item = |(command, does)| json!({"command": command, "description": does});
    Some(all.into_iter().take(MOST_COMMANDS).map(item).collect())
}

impl Telegram {
    pub(super) async fn live(&self) -> Result<Ended, Gone> {
        let mut doubt = Doubt::of(&self.start);
        let answer = match self.who_am_i(&mut doubt).await? {
            Ok(answer) => answer,
            Err(ended) => return Ok(ended),
        };
        if let Err(fault) = self.api.call("deleteWebhook", &Map::new()).await {
            eprintln!("the webhook was not removed: {fault}");
        }
        let me = &answer.result;
        let us = Us {
            prefix: self.start.prefix.clone(),
            id: wire::number(me, "id").unwrap_or(0),
            handle: wire::text(me, "username").to_owned(),
            since: answer.at,
        };
        let _ = self.us.set(us.clone());
        let hello = hello(me);
        let is_private = hello.hears_all == Some(false);
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
        let asking = async {
            if is_private {
                self.ask_standings(&us).await?;
            }
            std::future::pending().await
        };
        tokio::select! {
            ended = self.poll(us.clone(), doubt) => ended,
            gone = asking => gone,
        }
    }

    /// Asks whether we are an admin of the groups that the host knows: there we are told everything.
    async fn ask_standings(&self, us: &Us) -> Result<(), Gone> {
        let groups = self.start.chats.keys().filter_map(|chat| write::chat_id(&us.prefix, chat).ok());
        for id in groups.filter(|id| *id < 0).take(MOST_STANDINGS) {
            let ask = async |method: &str, more: Value| {
                let mut params = json!({"chat_id": id});
                if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
                    params.extend(more);
                }
                self.api.call(method, params.as_object().unwrap_or(&Map::new())).await
            };
            let asked = async {
                let chat = ask("getChat", Value::Null).await?;
                Ok::<_, Fault>((chat, ask("getChatMember", json!({"user_id": us.id})).await?))
            };
            match asked.await {
                Ok((chat, member)) => {
                    if let Some(chat) = us.standing(&chat, &member) {
                        self.host.tell(&channel_protocol::Up::Chat(chat)).await?;
                    }
                }
                // The others are asked about at the next start; what changes is told.
                Err(fault) if fault.asked_ms().is_some() => return Ok(()),
                Err(fault) => eprintln!("whether the bot is an admin of chat {id} is not known: {fault}"),
            }
            tokio::time::sleep(BETWEEN_STANDINGS).await;
        }
        Ok(())
    }

    /// Asks who we are until there is an answer, or Telegram has said for good that it does not know us.
    async fn who_am_i(&self, doubt: &mut Doubt) -> Result<Result<Answer, Ended>, Gone> {
        let mut rest = Rest::default();
        loop {
            match self.api.ask("getMe", &Map::new(), Vec::new(), ANSWER).await {
                Ok(answer) => {
                    doubt.known();
                    return Ok(Ok(answer));
                }
                Err(fault) if fault.is_denied() && doubt.denied(Instant::now()) => {
                    self.light(|state| *state = refused(DENIED, &token_hint(&self.start.instance))).await?;
                    return Ok(Err(Ended::Failed(DENIED.into())));
                }
                Err(fault) => {
                    self.waits(&fault).await?;
                    rest.wait(fault.asked_ms()).await;
                }
            }
        }
    }

    /// Takes updates in, for ever.
    async fn poll(&self, mut us: Us, mut doubt: Doubt) -> Result<Ended, Gone> {
        let mut offset =
            self.start.cursor.get("updates").and_then(|last| last.parse::<i64>().ok()).map(|last| last + 1);
        let (mut rest, mut conflicts, mut hold, mut is_first) = (Rest::default(), 0, Duration::ZERO, true);
        let (mut was_away, mut stuck, mut unnumbered) =
            (false, Stuck::of(&self.start), Unread::of(&self.start));
        loop {
            let mut params = json!({
                "timeout": hold.as_secs(), "limit": stuck.limit(), "allowed_updates": wire::KINDS,
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
                    stuck.read();
                    if let Some(count) = without_numbers(&answer.result) {
                        self.waits(&Fault::Unreadable("no update has a number", None)).await?;
                        if count > 0 && unnumbered.again(Instant::now()) {
                            unnumbered.read();
                            offset = self.pass_over(&us, Some(last_of(offset, count))).await?;
                        }
                        // The next answer may be the same.
                        rest.wait(None).await;
                        continue;
                    }
                    unnumbered.read();
                    if std::mem::take(&mut was_away) {
                        us.since = answer.at.or(us.since);
                    }
                    self.light(|state| {
                        let outbound = state.outbound;
                        *state =
                            State { transport: Light::Ok, inbound: Light::Ok, outbound, ..State::default() };
                    })
                    .await?;
                    let last =
                        self.take(&us, answer.result.as_array().map_or(&[][..], Vec::as_slice)).await?;
                    rest = Rest::default();
                    offset = last.map(|last| last.saturating_add(1)).or(offset);
                    if std::mem::take(&mut is_first) {
                        self.set_commands(us.id).await;
                    }
                }
                Err(fault) => {
                    (hold, was_away) = (Duration::ZERO, true);
                    if fault.is_denied() {
                        self.waits(&fault).await?;
                        rest.wait(None).await;
                        match self.who_am_i(&mut doubt).await? {
                            Ok(_) => continue,
                            Err(ended) => return Ok(ended),
                        }
                    }
                    if let Fault::Unreadable(_, first) = &fault {
                        let passed_over = stuck.unread(*first, Instant::now());
                        offset = self.pass_over(&us, passed_over).await?.or(offset);
                    }
                    if matches!(&fault, Fault::Told(told) if told.error_code == 409) {
                        conflicts += 1;
                        if conflicts >= MOST_CONFLICTS {
                            return self.leave_to_other(&fault).await;
                        }
                        let _ = self.api.call("deleteWebhook", &Map::new()).await;
                    }
                    self.waits(&fault).await?;
                    rest.wait(fault.asked_ms()).await;
                }
            }
        }
    }

    /// Goes behind an update that could not be read however often it was asked for. Returns where the next one begins.
    async fn pass_over(&self, us: &Us, number: Option<i64>) -> Result<Option<i64>, Gone> {
        let Some(number) = number else { return Ok(None) };
        self.note(&format!("update {number} was asked for three times or more and"));
        for item in us.read(number, &Value::Null) {
            if let Item::Event(event) = item {
                let unread = format!("update {number} can't be read");
                self.host.event(Event { unread, ..*event }).await?;
            }
        }
        Ok(number.checked_add(1))
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

    /// Tells what came in, each update by itself, and returns once all of it is stored: the number of the last one.
    async fn take(&self, us: &Us, updates: &[Value]) -> Result<Option<i64>, Gone> {
        let (mut last, mut items) = (None, Vec::new());
        for update in updates {
            let Some(number) = wire::number(update, "update_id") else {
                self.note("an update without a number");
                continue;
            };
            last = Some(number);
            let read = us.read(number, update);
            let is_lost =
                |of: &str| wire::number(&update[of]["chat"], "id").is_none() && !update[of].is_null();
            if wire::KINDS.iter().any(|kind| *kind != "callback_query" && is_lost(kind)) {
                self.note(&format!("update {number} names no chat, so it"));
            }
            items.extend(read);
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

    /// Says that something can't be read, as long as that is rare.
    fn note(&self, what: &str) {
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

    /// Sets the menu of commands, where it is not set yet: a bot that sets it at each start is locked out for minutes.
    #[expect(clippy::disallowed_methods, reason = "its own folder, which the daemon made")]
    async fn set_commands(&self, bot: i64) {
        let Some(list) = menu(&self.start) else { return };
        let list_is_empty = list.is_empty();
        let params = json!({"commands": list}).as_object().cloned().unwrap_or_default();
        // Another bot of the same account has its own menu.
        let text = json!({"bot": bot, "commands": params["commands"]}).to_string();
        let kept = Path::new(&self.start.state_dir).join("commands.json");
        let set = fs::read(&kept).ok();
        // A menu that is not ours stays.
        if set.as_deref() == Some(text.as_bytes()) || (set.is_none() && list_is_empty) {
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

    async fn leave_to_other(&self, fault: &Fault) -> Result<Ended, Gone> {
        let why = format!("another program reads this bot's messages: {fault}");
        let hint = format!(
            "stop the other program, or make a new token (@BotFather, /revoke); then `g2 channels restart {}`",
            self.start.instance
        );
        self.light(|state| *state = refused(&why, &hint)).await?;
        Ok(Ended::Failed(why))
    }

    async fn waits(&self, fault: &Fault) -> Result<(), Gone> {
        let connected = matches!(fault, Fault::Told(_) | Fault::Unreadable(..));
        self.light(|state| {
            state.transport = if connected { Light::Ok } else { Light::Waiting };
            state.inbound =
                if matches!(fault, Fault::Unreadable(..)) { Light::Failing } else { Light::Waiting };
            (state.why, state.hint) = match fault.is_denied() {
                true => (format!("{DENIED}; it is asked again"), token_hint(&self.start.instance)),
                false => (fault.to_string(), String::new()),
            };
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

/// Returns how many updates an answer has if none of them has a number; 0: it is no list of them.
fn without_numbers(updates: &Value) -> Option<i64> {
    let Value::Array(updates) = updates else { return Some(0) };
    let none =
        !updates.is_empty() && updates.iter().all(|update| wire::number(update, "update_id").is_none());
    none.then(|| i64::try_from(updates.len()).unwrap_or(i64::MAX))
}

/// Returns the number that the last of `count` updates without one has, as numbers go up by one; `offset`: where they begin.
fn last_of(offset: Option<i64>, count: i64) -> i64 {
    offset.unwrap_or(1).saturating_add(count - 1)
}

fn hello(me: &Value) -> Hello {
    Hello {
        adapter: concat!("g2-channels telegram ", env!("CARGO_PKG_VERSION")).into(),
        myself: Myself {
            id: wire::number(me, "id").unwrap_or(0).to_string(),
            name: wire::text(me, "first_name").to_owned(),
            handle: wire::handle(me),
        },
        // People have positive numbers; 1 is General of a forum.
        addresses: Some(Addresses {
            direct: "[0-9]+".into(),
            main_thread: "1".into(),
            ..Addresses::default()
        }),
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
        // The privacy mode of a bot: it is told what mentions it, answers it or is a command.
        hears_all: me["can_read_all_group_messages"].as_bool(),
        ..Hello::default()
    }
}

#[cfg(test)]
mod tests {
    use channel_protocol::Command;

    use super::*;

    #[test]
    fn chats_of_people_have_positive_numbers_and_general_is_the_main_line() {
        let told = hello(&json!({"id": 1})).addresses.unwrap();
        assert_eq!((&*told.direct, &*told.main_thread, told.programs), ("[0-9]+", "1", false));
    }

    #[test]
    fn the_menu_has_the_words_of_the_settings_and_what_the_account_s_table_adds() {
        let command =
            |name: &str| Command { name: name.into(), does: format!("does {name}"), ..Command::default() };
        let menu_of = |own: Value, commands: Vec<Command>| {
            let config = json!({"commands": own}).as_object().cloned().unwrap_or_default();
            let config = config.into_iter().filter(|(_, own)| !own.is_null()).collect();
            menu(&Start { config, commands, ..Start::default() }).map(|list| Value::from(list).to_string())
        };
        let item = |name: &str, does: &str| json!({"command": name, "description": does});
        let both = vec![command("stop"), command("help")];
        let stop = item("stop", "does stop");
        assert_eq!(menu_of(json!(false), both.clone()), None, "it stays as it is");
        assert_eq!(menu_of(Value::Null, Vec::new()), Some("[]".into()));
        assert_eq!(
            menu_of(Value::Null, both.clone()),
            Some(json!([stop, item("help", "does help")]).to_string())
        );
        assert_eq!(
            menu_of(json!({"help": "other words", "more": "x", "odd": 1}), both),
            Some(json!([stop, item("help", "other words"), item("more", "x")]).to_string())
        );
        let many = (0..MOST_COMMANDS + 1).map(|n| command(&format!("c{n}"))).collect();
        let listed: Vec<Value> = serde_json::from_str(&menu_of(Value::Null, many).unwrap()).unwrap();
        assert_eq!(listed.len(), MOST_COMMANDS);
    }
}
