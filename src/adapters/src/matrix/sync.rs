//! Stays in step with the homeserver: what is new is told, in order, and the place in its history is stored with it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use channel_protocol::{Chat, ChatKind, Event, EventKind, Light, ReplyTo, State};
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    NEW_TOKEN,
    api::{Api, ApiError, HOLD, escape, room_path},
    asked_again,
    events::{Read, Reader},
};
use crate::kit::{Doubt, Ended, Gone, Host, Rest, TRIES, Unread};

/// How much of one room is asked for after an outage; older ones are told as missed in the log.
const MOST_MISSED: usize = 5000;
/// How many messages that are answered or changed, and not remembered, are asked for at once.
const MOST_ASKED: u32 = 20;
/// How many names of people are remembered.
const NAMES: usize = 20_000;

/// The place in a homeserver's history.
pub(super) struct Sync {
    api: Api,
    reader: Reader,
    since: Option<String>,
    invites_from: Vec<String>,
    /// What people are called in a room.
    names: HashMap<(String, String), String>,
    state: State,
    /// The last answer did not come, perhaps because it was too long: less is asked for at once, and the rest by pages.
    failed: bool,
    /// Whether the last news could be read.
    unread: Unread,
    /// How many answered or changed messages may still be asked for now.
    asks: u32,
    doubt: Doubt,
}

/// Why a step failed.
enum Failed {
    Gone,
    Api(ApiError),
}

impl From<Gone> for Failed {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl Sync {
    pub(super) fn new(
        api: Api,
        reader: Reader,
        since: Option<String>,
        invites_from: Vec<String>,
        doubt: Doubt,
        unread: Unread,
    ) -> Self {
        Self {
            api,
            reader,
            since,
            invites_from,
            names: HashMap::new(),
            state: State::default(),
            failed: false,
            unread,
            asks: 0,
            doubt,
        }
    }

    /// Tells what comes in until the host is gone.
    pub(super) async fn run(&mut self, host: &Host) -> Ended {
        let mut rest = Rest::default();
        loop {
            match self.step(host).await {
                Ok(()) => {
                    (rest, self.failed) = (Rest::default(), false);
                    self.unread.read();
                }
                Err(Failed::Gone) => return Ended::Left,
                Err(Failed::Api(error)) if error.is_locked_out() => {
                    match self.who_am_i(host, &mut rest).await {
                        Ok(None) => {}
                        Ok(Some(why)) => return Ended::Failed(why),
                        Err(Gone) => return Ended::Left,
                    }
                }
                Err(Failed::Api(error)) => {
                    self.failed = true;
                    let light =
                        if matches!(error, ApiError::Spoilt(_)) { Light::Failing } else { Light::Waiting };
                    if self.stand(host, light, error.to_string(), "").await.is_err()
                        || self.pass_over(host, &error).await.is_err()
                    {
                        return Ended::Left;
                    }
                    rest.wait(error.asked_ms()).await;
                }
            }
        }
    }

    /// Asks who we are until the homeserver knows us again. Returns why it does not, if it says so for good.
    async fn who_am_i(&mut self, host: &Host, rest: &mut Rest) -> Result<Option<String>, Gone> {
        loop {
            rest.wait(None).await;
            let Err(error) = self.api.who_am_i().await else {
                self.doubt.known();
                return Ok(None);
            };
            let why = error.to_string();
            if error.is_locked_out() && self.doubt.denied(Instant::now()) {
                self.stand(host, Light::Refused, why.clone(), NEW_TOKEN).await?;
                return Ok(Some(why));
            }
            let (why, hint) =
                if error.is_locked_out() { (asked_again(&error), NEW_TOKEN) } else { (why, "") };
            self.stand(host, Light::Waiting, why, hint).await?;
        }
    }

    /// Goes behind news that could not be read however often they were asked for.
    async fn pass_over(&mut self, host: &Host, error: &ApiError) -> Result<(), Gone> {
        let ApiError::Spoilt(next) = error else { return Ok(()) };
        if self.unread.again(Instant::now()) {
            eprintln!(
                "news were asked for {TRIES} times or more and can't be read; what came before {next} is passed over"
            );
            let unread = format!("news of the homeserver before {next} can't be read");
            let event = Event { key: next.clone(), kind: EventKind::Nothing, unread, ..Event::default() };
            self.tell(host, vec![event], next, true).await?;
            self.since = Some(next.clone());
            self.unread.read();
        }
        Ok(())
    }

    async fn stand(&mut self, host: &Host, light: Light, why: String, hint: &str) -> Result<(), Gone> {
        let state = State { transport: light, inbound: light, outbound: light, why, hint: hint.into() };
        if state != self.state {
            self.state = state.clone();
            host.state(state).await?;
        }
        Ok(())
    }

    /// Asks once for news, and returns when the host has stored all of it.
    async fn step(&mut self, host: &Host) -> Result<(), Failed> {
        let filter = json!({
            "presence": {"types": []}, "account_data": {"types": []},
            "room": {
                "timeline": {"limit": if self.since.is_none() || self.failed { 1 } else { 50 }},
                "state": {"lazy_load_members": true, "types": ["m.room.name", "m.room.member"]},
                "ephemeral": {"types": []}, "account_data": {"types": []},
            },
        });
        // The first answer comes at once, so that a connection that works is seen to.
        let hold = if self.state.transport == Light::Ok { HOLD } else { Duration::ZERO };
        let news = self.api.sync(self.since.as_deref(), &filter.to_string(), hold).await?;
        if self.state.transport != Light::Ok {
            self.reader.connected();
        }
        let next = news["next_batch"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            return Err(ApiError::Unreadable("it does not say where it ends".into()).into());
        }
        let first = self.since.is_none();
        self.asks = MOST_ASKED;
        let mut events = Vec::new();
        for (room, joined) in news["rooms"]["join"].as_object().into_iter().flatten() {
            self.learn(host, room, joined).await?;
            if first {
                continue;
            }
            let (new, timeline) = self.timeline(room, joined).await?;
            if new && let Some(from) = self.predecessor(room).await? {
                host.moved(self.reader.chat(&from), self.reader.chat(room)).await?;
            }
            for event in timeline {
                let mut read = self.reader.read(room, &event);
                if let Read::Unknown(of) = &read {
                    self.ask(room, of).await;
                    read = self.reader.read(room, &event);
                }
                match read {
                    Read::Event(mut event) => {
                        event.from.name = self.name(room, &event.from.id);
                        if let Some(to) = &mut event.reply_to {
                            self.find(room, to).await;
                            to.from = self.name(room, &to.from);
                        }
                        events.push(*event);
                    }
                    Read::Moved(to) => self.follow(room, &to).await?,
                    Read::Encrypted => {
                        eprintln!("{room}: a message is encrypted; G2 reads rooms that are not")
                    }
                    // Nobody knows whether its sender may change that.
                    Read::Unknown(_) | Read::Nothing => {}
                }
            }
        }
        self.tell(host, events, &next, first).await?;
        for (room, invited) in news["rooms"]["invite"].as_object().into_iter().flatten() {
            self.invited(room, invited).await?;
        }
        self.since = Some(next);
        self.stand(host, Light::Ok, String::new(), "").await?;
        Ok(())
    }

    /// Returns what somebody is called in a room.
    fn name(&self, room: &str, user: &str) -> String {
        let known = self.names.get(&(room.to_owned(), user.to_owned()));
        known.cloned().unwrap_or_else(|| super::events::display_name(user))
    }

    /// Finds out what is answered, where it is not remembered.
    async fn find(&mut self, room: &str, to: &mut ReplyTo) {
        if to.from.is_empty() {
            self.ask(room, &to.id).await;
            self.reader.answered(room, to);
        }
    }

    /// Takes in a message that is not remembered. A homeserver that does not tell it soon is not asked again now.
    async fn ask(&mut self, room: &str, id: &str) {
        if self.asks == 0 {
            return;
        }
        self.asks -= 1;
        match self.api.event(room, id).await {
            Ok(event) => self.reader.learn(room, &event),
            Err(ApiError::Refused { status: 400..=428 | 430..=499, .. }) => {}
            Err(_) => self.asks = 0,
        }
    }

    /// Tells events in order. The place in the history goes with the last one, once the others are stored.
    async fn tell(&self, host: &Host, mut events: Vec<Event>, next: &str, first: bool) -> Result<(), Gone> {
        let last = match events.pop() {
            Some(last) => last,
            None if first => Event { key: next.to_owned(), kind: EventKind::Nothing, ..Event::default() },
            None => return Ok(()),
        };
        let mut open = Vec::with_capacity(events.len());
        for event in events {
            open.push(host.begin(event).await?);
        }
        for stored in open {
            stored.wait().await?;
        }
        let cursor = BTreeMap::from([("since".to_owned(), next.to_owned())]);
        host.event(Event { cursor, ..last }).await
    }

    /// Returns whether we came into a room since the last time, and what was written there, in order, with what the
    /// homeserver left out.
    async fn timeline(&self, room: &str, joined: &Value) -> Result<(bool, Vec<Value>), ApiError> {
        let timeline = &joined["timeline"];
        let mut events = array(&timeline["events"]).to_vec();
        let came_now = |events: &[Value]| events.iter().any(|event| self.is_our_coming(event));
        let new = came_now(array(&joined["state"]["events"])) || came_now(&events);
        if timeline["limited"] == true
            && let Some(mut from) = timeline["prev_batch"].as_str().map(str::to_owned)
        {
            let mut missed = Vec::new();
            while missed.len() < MOST_MISSED && !(new && came_now(&missed)) {
                let mut page = self.api.back(room, &from, self.since.as_deref()).await;
                for _ in 1..TRIES {
                    if matches!(page, Err(ApiError::Unreadable(_))) {
                        page = self.api.back(room, &from, self.since.as_deref()).await;
                    }
                }
                let page = match page {
                    // One room must not keep all others waiting.
                    Err(error @ ApiError::Unreadable(_)) => {
                        eprintln!("{room}: what was missed there was asked for {TRIES} times: {error}");
                        break;
                    }
                    Err(error @ ApiError::Refused { .. }) if !error.is_busy() && !error.is_locked_out() => {
                        eprintln!("{room}: what was missed there can't be read: {error}");
                        break;
                    }
                    page => page?,
                };
                missed.extend_from_slice(array(&page["chunk"]));
                match page["end"].as_str() {
                    Some(end) if end != from && !array(&page["chunk"]).is_empty() => from = end.to_owned(),
                    _ => break,
                }
            }
            if missed.len() >= MOST_MISSED {
                eprintln!(
                    "{room}: more than {MOST_MISSED} events were missed; the oldest of them are not told"
                );
            }
            missed.reverse();
            missed.append(&mut events);
            events = missed;
        }
        // What was written before we came is not for us; what was written after the invitation is.
        if new && let Some(at) = events.iter().position(|event| self.is_our_coming(event)) {
            events.drain(..=at);
        }
        Ok((new, events))
    }

    /// Whether an event is our invitation to a room, or our joining it.
    fn is_our_coming(&self, event: &Value) -> bool {
        let was = &event["unsigned"]["prev_content"]["membership"];
        event["type"] == "m.room.member"
            && event["state_key"] == *self.reader.me
            && (event["content"]["membership"] == "invite"
                || (event["content"]["membership"] == "join" && was != "join"))
    }

    /// Takes in what people and the room are called.
    async fn learn(&mut self, host: &Host, room: &str, joined: &Value) -> Result<(), Gone> {
        let state = array(&joined["state"]["events"]).iter().chain(array(&joined["timeline"]["events"]));
        let (mut named, mut name) = (false, String::new());
        for event in state {
            let content = &event["content"];
            match (event["type"].as_str(), event["state_key"].as_str()) {
                (Some("m.room.member"), Some(user)) => {
                    if self.names.len() >= NAMES {
                        self.names.clear();
                    }
                    if let Some(shown) = content["displayname"].as_str() {
                        self.names.insert((room.to_owned(), user.to_owned()), shown.to_owned());
                    }
                }
                (Some("m.room.name"), Some("")) => {
                    (named, name) = (true, content["name"].as_str().unwrap_or_default().to_owned());
                }
                _ => {}
            }
        }
        let members = joined["summary"]["m.joined_member_count"].as_u64();
        if !named && members.is_none() {
            return Ok(());
        }
        let alone = members == Some(2) && name.is_empty();
        let kind = if alone { ChatKind::Direct } else { ChatKind::Group };
        if name.is_empty() {
            let heroes = array(&joined["summary"]["m.heroes"]).iter().filter_map(Value::as_str);
            let heroes = heroes.map(|hero| {
                let known = self.names.get(&(room.to_owned(), hero.to_owned()));
                known.cloned().unwrap_or_else(|| super::events::display_name(hero))
            });
            name = heroes.take(5).collect::<Vec<_>>().join(", ");
        }
        let chat = Chat {
            chat: self.reader.chat(room),
            name,
            kind,
            threaded: false,
            members: members.and_then(|members| u32::try_from(members).ok()),
            hears_all: None,
        };
        host.tell(&channel_protocol::Up::Chat(chat)).await
    }

    /// Goes where a room went. Where that needs an invitation, it is waited for.
    async fn follow(&self, room: &str, to: &str) -> Result<(), ApiError> {
        match self.join(to).await {
            Err(error @ ApiError::Refused { .. }) if !error.is_busy() && !error.is_locked_out() => {
                eprintln!("{room} went on as {to}, which we have to be invited to: {error}");
                Ok(())
            }
            joined => joined,
        }
    }

    /// Returns the room that this one goes on for. Anybody can claim that of a room of theirs; so the other one has to
    /// say the same.
    async fn predecessor(&self, room: &str) -> Result<Option<String>, ApiError> {
        let content = async |room: &str, kind: &str| {
            let path = format!("{}/state/{kind}/", room_path(room));
            match self.api.call(Method::GET, &path, None).await {
                Err(error @ ApiError::Refused { .. }) if !error.is_busy() && !error.is_locked_out() => {
                    Ok(Value::Null)
                }
                content => content,
            }
        };
        let made = content(room, "m.room.create").await?;
        let Some(from) = made["predecessor"]["room_id"].as_str() else { return Ok(None) };
        let went = content(from, "m.room.tombstone").await?;
        Ok((went["replacement_room"] == *room).then(|| from.to_owned()))
    }

    async fn join(&self, room: &str) -> Result<(), ApiError> {
        let path = format!("/_matrix/client/v3/join/{}", escape(room));
        self.api.call(Method::POST, &path, Some(&json!({}))).await.map(drop)
    }

    /// Joins a room if we were invited by somebody who may.
    async fn invited(&self, room: &str, invited: &Value) -> Result<(), ApiError> {
        let ours = array(&invited["invite_state"]["events"])
            .iter()
            .find(|event| event["type"] == "m.room.member" && event["state_key"] == *self.reader.me);
        let by = ours.and_then(|event| event["sender"].as_str()).unwrap_or_default();
        if !may_invite(&self.invites_from, by) {
            eprintln!("{room}: {by} invited us, and is not one of `invites_from`; the invitation stays open");
            return Ok(());
        }
        match self.join(room).await {
            // It is over, or the server of the room can't be reached: the next invitation is another one.
            Err(error @ ApiError::Refused { .. }) if !error.is_busy() && !error.is_locked_out() => {
                eprintln!("{room}: joining failed: {error}");
                let path = format!("{}/leave", room_path(room));
                self.api.call(Method::POST, &path, Some(&json!({}))).await.map(drop).or(Ok(()))
            }
            joined => joined,
        }
    }
}

/// Whether somebody's invitations are accepted.
fn may_invite(from: &[String], by: &str) -> bool {
    let server = by.split_once(':').map_or("", |(_, server)| server);
    !server.is_empty()
        && from
            .iter()
            .any(|one| one == "*" || one == by || one.strip_prefix("*:").is_some_and(|of| of == server))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitations_are_accepted_from_who_is_named() {
        let from = ["@ada:example.org".to_owned(), "*:home.example".to_owned()];
        for (by, may) in [
            ("@ada:example.org", true),
            ("@bob:example.org", false),
            ("@bob:home.example", true),
            ("@bob:evil.home.example", false),
            ("", false),
        ] {
            assert_eq!(may_invite(&from, by), may, "{by}");
        }
        assert!(may_invite(&["*".to_owned()], "@x:y") && !may_invite(&[], "@x:y"));
    }
}
