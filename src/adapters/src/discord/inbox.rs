//! From the gateway to the host: what was missed is asked for, each thing gets its place, and is told in order.

mod places;
mod presses;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError},
    time::Duration,
};

use channel_protocol::{Event, EventKind, Light, Mention, State};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};

use super::{
    api::Api,
    events::{self, Channel, Deleted, Guild, Interaction, Message, Reaction, Role, Told, Us, User, number},
    gateway::{Mark, News},
};
pub(super) use places::Channels;
use places::Place;
pub(super) use presses::Presses;

use crate::kit::{Ended, Gone, Host, Stored};

/// How many messages of one channel are asked for after an outage.
const MOST_MISSED: usize = 5000;
/// How many messages one answer has.
const PAGE: usize = 100;
/// Two messages of a channel may come in another order than their ids; for so long it is asked before the newest one, ms.
const OVERLAP_MS: u64 = 5000;
/// In how many places is looked that the gateway does not list: chats with one person, and threads at rest.
const MOST_UNLISTED: usize = 500;
/// How long the gateway may take to list its servers.
const LISTING: Duration = Duration::from_secs(10);
/// In how many channels the place of the newest message is kept, and how many are forgotten with one message.
const MOST_PLACES: usize = 1000;
const FORGOTTEN: usize = 8;
/// Discord wants to hear of a press within 3 s; it hears of it once the press is stored, but not later than this.
const PRESS: Duration = Duration::from_secs(2);
/// What somebody is told, alone, who chooses a command where the bot is shut out.
const UNSEEN: &str =
    "I can't see this channel, so nothing was done. Let me view it, or write to me elsewhere.";

/// What is known of where we stand.
pub(super) struct Inbox {
    api: Api,
    me: String,
    prefix: String,
    presses: Arc<Presses>,
    /// The newest message of each channel that was told.
    newest: HashMap<u64, u64>,
    /// The newest message of all when we began: what is newer in another channel was missed.
    floor: u64,
    /// Channels in which something may have been missed.
    behind: BTreeSet<u64>,
    /// Servers that the gateway has not listed yet.
    unlisted: BTreeSet<u64>,
    listed_by: Instant,
    /// When the session began, or this process where it goes on with one, ms since 1970. What was edited before is late.
    began: i64,
    channels: Channels,
    guilds: HashMap<u64, String>,
    /// The role of each server that is ours alone, where it is known whether there is one.
    roles: HashMap<u64, Option<Role>>,
    /// How we stand, as the host was told last.
    lights: Arc<std::sync::Mutex<State>>,
    mark: Option<Mark>,
    /// There was a session in this life.
    begun: bool,
    /// The gateway's session stands. Before, nobody knows what was missed.
    in_session: bool,
    /// Everything that was missed was told. Before, no place in a session is stored: going on from there would miss it.
    whole: bool,
}

impl Inbox {
    pub(super) fn new(
        api: Api,
        me: String,
        prefix: String,
        presses: Arc<Presses>,
        cursor: &BTreeMap<String, String>,
        chats: &BTreeMap<String, String>,
    ) -> Self {
        let mut newest = HashMap::new();
        let of_chats = chats.iter().map(|(chat, id)| (chat.rsplit(':').next().unwrap_or_default(), id));
        let of_cursor = cursor.iter().filter_map(|(key, id)| Some((key.strip_prefix('c')?, id)));
        for (channel, id) in of_chats.chain(of_cursor) {
            if let (channel @ 1.., id @ 1..) = (number(channel), number(id)) {
                let known = newest.entry(channel).or_insert(id);
                *known = id.max(*known);
            }
        }
        let floor = newest.values().copied().max().unwrap_or(0);
        let behind = newest.keys().copied().collect();
        Self {
            api,
            me,
            prefix,
            presses,
            newest,
            floor,
            behind,
            unlisted: BTreeSet::new(),
            listed_by: Instant::now(),
            began: jiff::Timestamp::now().as_millisecond(),
            channels: Channels::default(),
            guilds: HashMap::new(),
            roles: HashMap::new(),
            lights: Arc::default(),
            mark: cursor.get("session").and_then(|text| Mark::read(text)),
            begun: false,
            in_session: false,
            whole: false,
        }
    }

    /// Where the gateway's session stood, as the host stored it.
    pub(super) const fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// Tells the host what comes, until one of both is gone.
    pub(super) async fn work(&mut self, host: &Host, mut news: mpsc::Receiver<News>) -> Ended {
        match self.all(host, &mut news).await {
            Ok(()) => Ended::Failed("the connection to Discord ended".into()),
            Err(Gone) => Ended::Left,
        }
    }

    async fn all(&mut self, host: &Host, news: &mut mpsc::Receiver<News>) -> Result<(), Gone> {
        loop {
            // Not all servers may list their channels.
            let next = if self.in_session && !self.whole {
                tokio::time::timeout_at(self.listed_by, news.recv()).await.ok()
            } else {
                Some(news.recv().await)
            };
            match next {
                Some(None) => return Ok(()),
                Some(Some(News::Lost(why))) => {
                    self.in_session = false;
                    let waits = Light::Waiting;
                    let hint = String::new();
                    let state = State { transport: waits, inbound: waits, outbound: Light::Ok, why, hint };
                    self.light(host, state).await?;
                }
                Some(Some(News::Told { told, mark, late })) => {
                    self.mark = Some(mark);
                    self.handle(host, told, late).await?;
                }
                None => {}
            }
            let listed = self.unlisted.is_empty() || Instant::now() >= self.listed_by;
            if self.in_session && listed && !self.whole {
                self.catch_up_rest(host).await?;
            }
        }
    }

    /// A new session: what happened since the last one was not told.
    async fn new_session(&mut self, host: &Host, guilds: BTreeSet<u64>) -> Result<(), Gone> {
        (self.begun, self.in_session, self.whole) = (true, true, false);
        self.behind = self.newest.keys().copied().collect();
        self.unlisted = guilds;
        self.listed_by = Instant::now() + LISTING;
        self.began = jiff::Timestamp::now().as_millisecond();
        self.stand(host).await
    }

    /// The session goes on, and everything was told again.
    async fn resumed(&mut self, host: &Host) -> Result<(), Gone> {
        if !self.begun {
            self.behind.clear();
            self.whole = true;
        }
        (self.begun, self.in_session) = (true, true);
        self.stand(host).await
    }

    async fn stand(&self, host: &Host) -> Result<(), Gone> {
        let (inbound, why) =
            if self.whole { (Light::Ok, "") } else { (Light::Waiting, "asking for what was missed") };
        let hint = String::new();
        let state = State { transport: Light::Ok, inbound, outbound: Light::Ok, why: why.into(), hint };
        self.light(host, state).await
    }

    /// The channels that are known, for what goes out.
    pub(super) fn channels(&self) -> Channels {
        self.channels.clone()
    }

    /// How we stand, as the host was told last by what comes in.
    pub(super) fn lights(&self) -> Arc<std::sync::Mutex<State>> {
        Arc::clone(&self.lights)
    }

    async fn light(&self, host: &Host, state: State) -> Result<(), Gone> {
        self.lights.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&state);
        host.state(state).await
    }

    async fn handle(&mut self, host: &Host, told: Told, late: bool) -> Result<(), Gone> {
        match told {
            Told::Ready(ready) => {
                self.new_session(host, ready.guilds.iter().map(|guild| number(&guild.id)).collect()).await
            }
            Told::Resumed => self.resumed(host).await,
            Told::Guild(guild) => self.guild(host, *guild).await,
            Told::Channel(channel) => {
                self.know(*channel);
                Ok(())
            }
            Told::Role(told) => {
                self.role_told(*told);
                Ok(())
            }
            Told::Message(message) => {
                let channel = number(&message.channel_id);
                if self.in_session && self.behind.remove(&channel) {
                    self.catch_up(host, channel, message.id.parse().ok()).await?;
                }
                self.message(host, &message, late).await
            }
            Told::Edited(message) => self.edited(host, &message, late).await,
            Told::Deleted(deleted) => self.deleted(host, &deleted, late).await,
            Told::Reaction(reaction, on) => self.reaction(host, &reaction, on, late).await,
            Told::Interaction(press) => {
                if press.words().is_none() {
                    return self.pressed(host, &press, late).await;
                }
                if !press.is_seen() {
                    let answered = self.presses.add(&press, Some(UNSEEN));
                    let api = self.api.clone();
                    tokio::spawn(async move { answered.hear(&api).await });
                    return Ok(());
                }
                // It is a message: what was missed before it would not be asked for any more.
                let channel = number(&press.channel_id);
                if self.in_session && self.behind.remove(&channel) {
                    self.catch_up(host, channel, None).await?;
                }
                self.pressed(host, &press, late).await
            }
        }
    }

    /// A server lists its channels: what has news that we were not told of is asked for.
    async fn guild(&mut self, host: &Host, guild: Guild) -> Result<(), Gone> {
        if guild.unavailable {
            return Ok(());
        }
        let id = number(&guild.id);
        self.guilds.insert(id, guild.name);
        self.know_roles(id, &guild.roles);
        // A server that we came to just now has no past for us.
        let known = self.unlisted.remove(&id);
        let joined = guild.joined_at.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond);
        let floor = self.floor.max(events::id_at(u64::try_from(joined).unwrap_or(0)));
        for channel in guild.channels.0.into_iter().chain(guild.threads.0) {
            let (at, last) = (number(&channel.id), number(&channel.last_message_id));
            let asked = channel.has_messages();
            self.know(Channel { guild_id: guild.id.clone(), ..channel });
            let was_behind = self.behind.remove(&at);
            let missed = match self.newest.get(&at) {
                Some(newest) => was_behind && last > *newest,
                None => known && self.floor > 0 && last > floor,
            };
            if missed && asked {
                self.newest.entry(at).or_insert(floor);
                self.catch_up(host, at, None).await?;
            }
        }
        Ok(())
    }

    /// Looks where the gateway lists nothing: in chats with one person, and in threads that are at rest.
    async fn catch_up_rest(&mut self, host: &Host) -> Result<(), Gone> {
        let mut rest: Vec<u64> = std::mem::take(&mut self.behind).into_iter().collect();
        rest.sort_unstable_by_key(|channel| std::cmp::Reverse(self.newest.get(channel).copied()));
        if rest.len() > MOST_UNLISTED {
            eprintln!("{} channels at rest are not asked for what was missed", rest.len() - MOST_UNLISTED);
            rest.truncate(MOST_UNLISTED);
        }
        for channel in rest {
            self.catch_up(host, channel, None).await?;
        }
        self.unlisted.clear();
        self.whole = true;
        self.stand(host).await
    }

    /// Tells what a channel has after the newest message that was told, before one that is told anyway.
    async fn catch_up(&mut self, host: &Host, channel: u64, before: Option<u64>) -> Result<(), Gone> {
        let Some(newest) = self.newest.get(&channel).copied() else { return Ok(()) };
        let mut after = events::id_at(events::at_ms(newest).saturating_sub(OVERLAP_MS)).max(1);
        let before = before.unwrap_or(u64::MAX);
        for _ in 0..MOST_MISSED / PAGE {
            let path = format!("/channels/{channel}/messages?after={after}&limit={PAGE}");
            let Some(page) = self.insist::<Value>(host, &path).await? else { return Ok(()) };
            let mut page: Vec<Message> = list(page);
            page.sort_by_key(|message| number(&message.id));
            let whole = page.len() < PAGE;
            for message in page {
                let id = number(&message.id);
                if id >= before {
                    return Ok(());
                }
                after = after.max(id);
                if id != newest {
                    self.message(host, &message, true).await?;
                }
            }
            if whole {
                return Ok(());
            }
        }
        eprintln!(
            "channel {channel} has more than {MOST_MISSED} messages that were missed; the newest are not read"
        );
        Ok(())
    }

    async fn message(&mut self, host: &Host, message: &Message, late: bool) -> Result<(), Gone> {
        let (channel, id) = (number(&message.channel_id), number(&message.id));
        if channel == 0 || id == 0 {
            return Ok(());
        }
        let newest = self.newest.entry(channel).or_insert(id);
        *newest = id.max(*newest);
        let newest = newest.to_string();
        if message.author.id == self.me {
            return Ok(());
        }
        let role = self.our_role(host, message).await?;
        let from = self.name_of(&message.message_reference.channel_id);
        let Some(event) = message.event(Us { id: &self.me, role: role.as_ref() }, &from) else {
            return Ok(());
        };
        let place = self.place(host, &message.channel_id, &message.guild_id, Some(&message.author)).await?;
        let mut cursor = self.cursor();
        cursor.insert(format!("c{channel}"), newest);
        self.forget_oldest(&mut cursor);
        self.tell(host, place, Event { cursor, late, ..event }).await.map(drop)
    }

    async fn edited(&mut self, host: &Host, message: &Message, late: bool) -> Result<(), Gone> {
        if message.author.id == self.me {
            return Ok(());
        }
        let role = self.our_role(host, message).await?;
        let from = self.name_of(&message.message_reference.channel_id);
        let Some(event) = message.edit(Us { id: &self.me, role: role.as_ref() }, &from) else {
            return Ok(());
        };
        let late = late || message.was_edited_before(self.began);
        let place = self.place(host, &message.channel_id, &message.guild_id, Some(&message.author)).await?;
        self.tell(host, place, Event { cursor: self.cursor(), late, ..event }).await.map(drop)
    }

    async fn deleted(&mut self, host: &Host, deleted: &Deleted, late: bool) -> Result<(), Gone> {
        for id in deleted.ids.iter().chain([&deleted.id]).filter(|id| !id.is_empty()) {
            let place = self.place(host, &deleted.channel_id, &deleted.guild_id, None).await?;
            let event = Event {
                key: format!("x{id}"),
                kind: EventKind::Delete,
                id: id.clone(),
                of: id.clone(),
                cursor: self.cursor(),
                late,
                ..Event::default()
            };
            self.tell(host, place, event).await?;
        }
        Ok(())
    }

    async fn reaction(&mut self, host: &Host, reaction: &Reaction, on: bool, late: bool) -> Result<(), Gone> {
        if reaction.user_id == self.me {
            return Ok(());
        }
        let place = self.place(host, &reaction.channel_id, &reaction.guild_id, None).await?;
        let user = User { id: reaction.user_id.clone(), ..reaction.member.user.clone() };
        let event = Event {
            key: self.key(),
            kind: EventKind::Reaction,
            id: reaction.message_id.clone(),
            of: reaction.message_id.clone(),
            from: user.is(&reaction.member),
            emoji: reaction.emoji.shown(),
            on,
            cursor: self.cursor(),
            late,
            ..Event::default()
        };
        self.tell(host, place, event).await.map(drop)
    }

    async fn pressed(&mut self, host: &Host, press: &Interaction, late: bool) -> Result<(), Gone> {
        let user = if press.user.id.is_empty() { &press.member.user } else { &press.user };
        let base = Event {
            key: press.id.clone(),
            id: press.id.clone(),
            from: user.is(&press.member),
            cursor: self.cursor(),
            late,
            ..Event::default()
        };
        let words = press.words();
        let event = match (&words, press.r#type) {
            // A command that is chosen from the list is a message to us.
            (Some(words), _) => Event {
                kind: EventKind::Message,
                text: words.clone(),
                mention: Mention::Me,
                at: events::time_of(&press.id),
                ..base
            },
            // 3: a button or a list below a message.
            (None, 3) => Event {
                kind: EventKind::Press,
                of: press.message.id.clone(),
                press: press.data.custom_id.clone(),
                ..base
            },
            (None, _) => return Ok(()),
        };
        let answered = self.presses.add(press, words.as_deref());
        let place = self.place(host, &press.channel_id, &press.guild_id, Some(user)).await?;
        let stored = self.tell(host, place, event).await?;
        let api = self.api.clone();
        tokio::spawn(async move {
            // A host that is gone has not stored it: the person sees that it failed, and presses again.
            if let Ok(Ok(())) | Err(_) = tokio::time::timeout(PRESS, stored.wait()).await {
                answered.hear(&api).await;
            }
        });
        Ok(())
    }

    async fn tell(&self, host: &Host, place: Place, event: Event) -> Result<Stored, Gone> {
        host.begin(Event { chat: place.chat, thread: place.thread, about: Some(place.about), ..event }).await
    }

    fn cursor(&self) -> BTreeMap<String, String> {
        self.mark.iter().filter(|_| self.whole).map(|mark| ("session".to_owned(), mark.write())).collect()
    }

    /// Forgets where it was in the channels in which nothing was written for longest, a few at a time: in each of them, what is
    /// missed later is newer than all that was told.
    fn forget_oldest(&mut self, cursor: &mut BTreeMap<String, String>) {
        let many = self.newest.len().saturating_sub(MOST_PLACES).min(FORGOTTEN);
        for _ in 0..many {
            let Some(oldest) = self.newest.iter().min_by_key(|(_, id)| **id).map(|(channel, _)| *channel)
            else {
                return;
            };
            self.newest.remove(&oldest);
            cursor.insert(format!("c{oldest}"), String::new());
        }
    }

    /// The key of something that has no id: its place in the session, which is the same where it is told again.
    fn key(&self) -> String {
        self.mark.as_ref().map_or_else(String::new, |mark| format!("s{}.{}", mark.session, mark.sequence))
    }
}

/// Reads a list of Discord's, where it is one.
pub(super) fn list<T: DeserializeOwned>(of: Value) -> Vec<T> {
    let Value::Array(all) = of else { return Vec::new() };
    let read = |one| {
        serde_json::from_value(one).inspect_err(|error| eprintln!("Discord's answer can't be read: {error}"))
    };
    all.into_iter().filter_map(|one| read(one).ok()).collect()
}
