//! From the sockets to the host: what was missed is asked for, each thing gets its place and its names, and is told in order. Slack
//! hears that an envelope was taken once the host has stored what it tells.

mod missed;
mod places;
mod presses;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use channel_protocol::{Event, EventKind, From, Light, Mention, State};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    api::Api,
    events::{self, Command, Person, Press, Told, Us},
    out,
    said::{Reader, text},
    socket::{Ack, News},
};
use crate::kit::{Ended, Gone, Host, Stored};
use missed::{Missed, Telling};
pub(super) use places::Channel;
use places::{Known, Newest, Place, Spot, cursor_name};
pub(super) use presses::Presses;

/// What somebody is told, alone, who gives a command where the bot is not.
const UNSEEN: &str = "I am not in this channel, so nothing was done. Invite me, or write to me elsewhere.";
/// What a person is told where Slack counts more connections of the app than we have.
const CROWDED: &str = "another program is connected with this app token and gets a part of the messages: stop it, or make an app of your own";
/// How many envelopes of other workspaces are named in the log.
const MOST_NAMED: u32 = 10;

/// What is known of where we stand.
pub(super) struct Inbox {
    api: Api,
    us: Us,
    /// What the workspace is called.
    team: String,
    prefix: String,
    presses: Arc<Presses>,
    known: Known,
    newest: Newest,
    missed: Missed,
    /// How many texts of ours are being looked for.
    looks: watch::Sender<usize>,
    /// How we stand, as the host was told last.
    lights: Arc<std::sync::Mutex<State>>,
    stands: bool,
    foreign: u32,
    /// How many connections in a row were greeted with more than are ours.
    crowded: u32,
}

impl Inbox {
    pub(super) fn new(
        api: Api,
        us: Us,
        team: String,
        prefix: String,
        presses: Arc<Presses>,
        cursor: &BTreeMap<String, String>,
        chats: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            api,
            us,
            team,
            prefix,
            presses,
            known: Known::default(),
            newest: Newest::read(cursor, chats),
            missed: Missed::read(cursor),
            looks: watch::Sender::new(0),
            lights: Arc::default(),
            stands: false,
            foreign: 0,
            crowded: 0,
        }
    }

    /// Tells what happens until the host is gone.
    pub(super) async fn work(&mut self, host: &Host, mut news: mpsc::Receiver<News>) -> Ended {
        match self.attend(host, &mut news).await {
            Ok(()) => Ended::Failed("our own fault: nobody listens to Slack".into()),
            Err(Gone) => Ended::Left,
        }
    }

    async fn attend(&mut self, host: &Host, news: &mut mpsc::Receiver<News>) -> Result<(), Gone> {
        loop {
            let asks = self.stands && !self.missed.is_over();
            let at = self.missed.resumes.unwrap_or_else(Instant::now);
            let mut looking = self.looks.subscribe();
            let free = async {
                tokio::time::sleep_until(at).await;
                // Slack counts both alike, and the host waits for what is looked for.
                let _ = looking.wait_for(|looks| *looks == 0).await;
            };
            tokio::select! {
                next = news.recv() => match next {
                    None => return Ok(()),
                    Some(News::Stands { gap, others }) => {
                        self.stands = true;
                        self.count(others);
                        if gap {
                            let now = jiff::Timestamp::now().as_microsecond();
                            self.missed.begin(&self.newest, u64::try_from(now).unwrap_or(0));
                        }
                        self.stand(host, "").await?;
                    }
                    Some(News::Lost(why)) => {
                        self.stands = false;
                        let waits = Light::Waiting;
                        let hint = String::new();
                        let state = State { transport: waits, inbound: waits, outbound: Light::Ok, why, hint };
                        self.light(host, state).await?;
                    }
                    Some(News::Told { envelope, ack }) => self.envelope(host, &envelope, ack).await?,
                },
                () = free, if asks => self.step(host, None, u64::MAX).await?,
            }
        }
    }

    /// Says how we stand: `trouble` is what Slack says to a question for what was missed.
    async fn stand(&self, host: &Host, trouble: &str) -> Result<(), Gone> {
        if !self.stands {
            return Ok(());
        }
        let (inbound, why) = match (self.missed.is_over(), trouble) {
            // Slack may count a connection for a while that is gone.
            (true, _) if self.crowded > 1 => (Light::Ok, CROWDED),
            (true, _) => (Light::Ok, ""),
            (false, "") => (Light::Waiting, "asking for what was missed"),
            (false, why) => (Light::Waiting, why),
        };
        let hint = String::new();
        let state = State { transport: Light::Ok, inbound, outbound: Light::Ok, why: why.into(), hint };
        self.light(host, state).await
    }

    /// Takes in how many connections of the app are not ours.
    fn count(&mut self, others: u64) {
        self.crowded = if others > 0 { self.crowded.saturating_add(1) } else { 0 };
        if others > 0 {
            eprintln!("Slack counts {others} more connections of this app than are ours");
        }
    }

    /// Counts the texts that are being looked for: that goes before asking for what was missed.
    pub(super) fn looks(&self) -> watch::Sender<usize> {
        self.looks.clone()
    }

    /// How we stand, as the host was told last by what comes in.
    pub(super) fn lights(&self) -> Arc<std::sync::Mutex<State>> {
        Arc::clone(&self.lights)
    }

    async fn light(&self, host: &Host, state: State) -> Result<(), Gone> {
        self.lights.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&state);
        host.state(state).await
    }

    async fn envelope(&mut self, host: &Host, envelope: &Value, ack: Ack) -> Result<(), Gone> {
        let again = envelope["retry_attempt"].as_u64().unwrap_or(0) > 0;
        let telling = if again { Telling::Again } else { Telling::Live };
        let (channel, told) = events::read(envelope, &self.us);
        let stored = match told {
            Told::Message(message) => {
                let spot = (channel.clone(), events::thread_of(&message).to_owned());
                // What Slack tells again may be older than what was missed.
                let before = if again { u64::MAX } else { events::micros(text(&message, "ts")) };
                self.catch_up(host, &spot, before).await?;
                self.message(host, &channel, &message, telling).await?
            }
            Told::Edited { message, before, at } => {
                self.edited(host, &channel, (&message, &before), &at, telling).await?
            }
            Told::Deleted { ts, thread } => self.deleted(host, &channel, ts, thread, telling).await?,
            Told::Reaction { user, ts, name, on, key } => {
                self.learn(std::slice::from_ref(&user)).await;
                let event = Event {
                    key,
                    kind: EventKind::Reaction,
                    id: ts.clone(),
                    of: ts,
                    from: self.who(&user, ""),
                    emoji: events::sign(&name),
                    on,
                    late: telling != Telling::Live,
                    ..Event::default()
                };
                self.place_and_tell(host, &channel, "", event).await?
            }
            Told::Press(press) => self.pressed(host, &channel, press, telling).await?,
            Told::Command(command) => return self.commanded(host, &channel, command, ack).await,
            Told::Unreadable(why) => {
                let unread = format!("Slack told something that can't be read: {why}");
                let event = Event { kind: EventKind::Nothing, unread, ..Event::default() };
                Some(host.begin(event).await?)
            }
            Told::Foreign => {
                self.foreign = self.foreign.saturating_add(1);
                if self.foreign <= MOST_NAMED {
                    eprintln!("an envelope of another workspace than the bot's is passed over");
                }
                // Slack tells it to another connection of the app, which may be that workspace's.
                return Ok(());
            }
            Told::Nothing => None,
        };
        match stored {
            None => ack.taken(),
            // A host that is gone has not stored it: Slack tells it again.
            Some(stored) => drop(tokio::spawn(async move {
                if stored.wait().await.is_ok() {
                    ack.taken();
                }
            })),
        }
        Ok(())
    }

    /// Asks for what was missed in a place before a message that is said there now, unless Slack wants to be left alone.
    async fn catch_up(&mut self, host: &Host, spot: &Spot, before: u64) -> Result<(), Gone> {
        self.missed.foresee(&spot.0, &self.newest);
        while !self.missed.rests()
            && let Some(owed) = self.missed.owed(spot, &self.newest)
        {
            self.step(host, Some(&owed), before).await?;
        }
        Ok(())
    }

    /// Tells a message. `None`: there is nothing to tell.
    async fn message(
        &mut self,
        host: &Host,
        channel: &str,
        message: &Value,
        telling: Telling,
    ) -> Result<Option<Stored>, Gone> {
        let at = events::micros(text(message, "ts"));
        if at == 0 {
            return Ok(None);
        }
        let thread = events::thread_of(message).to_owned();
        let spot = (channel.to_owned(), thread.clone());
        // Before all that was missed there is told, no place is stored: going on from it would miss the rest.
        let is_whole = match telling {
            Telling::Missed => true,
            Telling::Beside => false,
            Telling::Live | Telling::Again => self.missed.owed(&spot, &self.newest).is_none(),
        };
        let mut cursor = BTreeMap::new();
        if is_whole {
            let gone = self.newest.told(&spot, at);
            cursor.extend(gone.iter().map(|spot| (cursor_name(spot), String::new())));
            // What was told before is stored before.
            let newest = self.newest.of(&spot).unwrap_or(at);
            cursor.insert(cursor_name(&spot), events::time(newest));
        }
        if ["channel_name", "group_name"].contains(&text(message, "subtype")) {
            self.forget_channel(channel);
        }
        if events::is_own(message, &self.us) {
            if text(message, "subtype").ends_with("_join") {
                self.forget_channel(channel);
            }
            return Ok(None);
        }
        self.learn(&events::people(message)).await;
        let reader = Reader { me: &self.us.id, names: &self.known };
        let author = self.known.of(text(message, "user"));
        let Some(event) = events::event(message, &reader, author) else { return Ok(None) };
        self.missed.note(&mut cursor);
        let event = Event { cursor, late: telling != Telling::Live, ..event };
        self.place_and_tell(host, channel, &thread, event).await
    }

    async fn edited(
        &mut self,
        host: &Host,
        channel: &str,
        (message, before): (&Value, &Value),
        at: &str,
        telling: Telling,
    ) -> Result<Option<Stored>, Gone> {
        if events::is_own(message, &self.us) {
            return Ok(None);
        }
        self.learn(&events::people(message)).await;
        let reader = Reader { me: &self.us.id, names: &self.known };
        let author = self.known.of(text(message, "user"));
        let Some(event) = events::edit(message, before, at, &reader, author) else { return Ok(None) };
        let event = Event { late: telling != Telling::Live, ..event };
        let thread = events::thread_of(message).to_owned();
        self.place_and_tell(host, channel, &thread, event).await
    }

    async fn deleted(
        &mut self,
        host: &Host,
        channel: &str,
        ts: String,
        thread: String,
        telling: Telling,
    ) -> Result<Option<Stored>, Gone> {
        let event = Event {
            key: format!("x{ts}"),
            kind: EventKind::Delete,
            id: ts.clone(),
            of: ts,
            late: telling != Telling::Live,
            ..Event::default()
        };
        self.place_and_tell(host, channel, &thread, event).await
    }

    async fn pressed(
        &mut self,
        host: &Host,
        channel: &str,
        press: Press,
        telling: Telling,
    ) -> Result<Option<Stored>, Gone> {
        self.learn(std::slice::from_ref(&press.user)).await;
        self.presses.add(channel, &press);
        let event = Event {
            key: press.key,
            kind: EventKind::Press,
            id: press.ts.clone(),
            of: press.ts,
            from: self.who(&press.user, &press.name),
            press: press.value,
            late: telling != Telling::Live,
            ..Event::default()
        };
        self.place_and_tell(host, channel, &press.thread, event).await
    }

    /// A command is a message to us. Its sender alone sees the words that it stands for. It waits neither for what was missed, for
    /// it has no place among messages, nor for its sender's name, for Slack tells one with it.
    async fn commanded(
        &mut self,
        host: &Host,
        channel: &str,
        command: Command,
        ack: Ack,
    ) -> Result<(), Gone> {
        let mut place = self.place(channel).await;
        if !place.seen {
            // We may be in it since a moment.
            self.forget_channel(channel);
            place = self.place(channel).await;
        }
        if !place.seen {
            ack.answered(UNSEEN);
            return Ok(());
        }
        let event = Event {
            key: command.key.clone(),
            kind: EventKind::Message,
            id: command.key,
            from: self.who(&command.user, &command.name),
            text: command.words.clone(),
            mention: Mention::Me,
            ..Event::default()
        };
        let stored = self.tell(host, place, "", event).await?;
        tokio::spawn(async move {
            if stored.wait().await.is_ok() {
                ack.answered(&out::plain(&command.words));
            }
        });
        self.learn(std::slice::from_ref(&command.user)).await;
        Ok(())
    }

    fn who(&self, id: &str, name: &str) -> From {
        let known = self.known.of(id).cloned().unwrap_or_default();
        let Person { name: shown, handle, bot } = known;
        let name = [&shown[..], name, id].into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        From { id: id.to_owned(), name: name.to_owned(), handle, bot, ..From::default() }
    }

    async fn place_and_tell(
        &mut self,
        host: &Host,
        channel: &str,
        thread: &str,
        event: Event,
    ) -> Result<Option<Stored>, Gone> {
        let place = self.place(channel).await;
        self.tell(host, place, thread, event).await.map(Some)
    }

    async fn tell(&self, host: &Host, place: Place, thread: &str, event: Event) -> Result<Stored, Gone> {
        let thread = thread.to_owned();
        host.begin(Event { chat: place.chat, thread, about: Some(place.about), ..event }).await
    }
}
