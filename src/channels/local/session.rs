//! One terminal: what it asks for, and what it is told.

use std::collections::BTreeMap;

use ipc_handlers::{file::MediaKind, words};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::{
    Files, Local,
    incoming::{BadMessage, Incoming, inbound},
};
use crate::{
    channels::{Channel as _, Intake},
    domain::{
        platforms::attachments::{Attachment, Goes, Todo, told},
        platforms::{growth::Growth, typing::Signal},
        rows::{Delivery, Inbound},
        shown::{errors::chain, feed::EventKind},
    },
    store::{By, Heard, How, HowFar, News, Store, StoreError, is_disk_full},
    system::{media::InHand, tree, world::World},
};

/// The type of a file of which nothing is known.
const UNKNOWN: &str = "application/octet-stream";

/// How many texts are read for a terminal at a time, at most. More are read when it has taken these.
const SAID_AT_ONCE: usize = 100;
/// After this many bytes no further text is read with them.
const SAID_BYTES: usize = 64 << 10;
/// How much is told of the end of a text that grows, bytes.
const SO_FAR_BYTES: usize = 4 << 10;
/// The same of people's messages, which are cut to a few thousand characters each.
const HEARD_AT_ONCE: usize = 16;

/// What a terminal may ask.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// A message in.
    Send(Box<Incoming>),
    /// From now on report texts for this chat.
    Listen {
        chat: String,
        /// And whether an agent works for it.
        #[serde(default)]
        typing: bool,
        /// And what people say there, with why no agent was woken by it.
        #[serde(default)]
        people: bool,
        /// And what of a text is said before it is whole.
        #[serde(default)]
        growing: bool,
    },
    /// Tell once when everything that came in for this chat has been dealt with.
    Rest { chat: String },
    /// A button was pressed: `press` is what came with it.
    Click { press: String, sender: String },
}

/// What a terminal is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Told {
    Accepted {
        seq: i64,
        wired: usize,
        /// Another effect of it: it answered a question, or raised one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The text for the person who pressed a button, and whether it did anything.
    Answered {
        done: bool,
        says: String,
    },
    Said(Delivery),
    /// What of a text is said before it is whole, which is told by `said` with the same id: its end, so far. Empty: no more of it
    /// comes. Only for those who asked for it.
    Growing {
        id: i64,
        text: String,
        /// The text begins earlier.
        cut: bool,
    },
    /// A message of somebody, once it is judged. Only for those who asked for it. Their own messages are among them.
    Heard {
        seq: i64,
        name: String,
        text: String,
        /// The text goes on.
        cut: bool,
        /// Why no agent was woken by it; absent: one was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asleep: Option<String>,
    },
    /// Whether an agent works for the chat (in this thread; empty: none): said again every 4 s while it does. Only for
    /// those who asked for it.
    Typing {
        thread: String,
        on: bool,
    },
    Rest,
    Listening,
    /// It is asked for wrongly, or the store can't.
    Error {
        #[serde(default)]
        code: Fault,
        message: String,
    },
}

words! {
    /// Whose fault it is that something was not done.
    #[derive(Default)]
    pub enum Fault: "fault" {
        /// What was asked for is wrong.
        Invalid = "invalid",
        /// The store, or the machine.
        #[default]
        Failed = "failed",
    }
}

impl Told {
    fn invalid(error: impl std::fmt::Display) -> Self {
        Self::Error { code: Fault::Invalid, message: error.to_string() }
    }

    fn failed(doing: &str, error: &StoreError) -> Self {
        let room = match is_disk_full(error) {
            true => "; make room on the disk, then try again",
            false => "",
        };
        Self::Error { code: Fault::Failed, message: format!("{doing}: {}{room}", chain(error)) }
    }
}

/// What one terminal listens to.
pub struct Session {
    local: Local,
    intake: Intake,
    store: Store,
    /// The chat that is listened to, and the last outbox row that was told, or that grows.
    listening: Option<(String, i64)>,
    /// The texts up to that row that are not whole yet, with how much of each was told.
    grows: BTreeMap<i64, String>,
    /// Whether it is told what of them is said.
    shows_growth: bool,
    typing: broadcast::Receiver<Signal>,
    /// The chat of which it is told whether an agent works for it.
    watching: Option<String>,
    resting: Option<String>,
    /// The chat whose people are listened to, and the last message that was told.
    people: Option<(String, i64)>,
    due: Due,
}

/// What there may be to tell; it is looked at piece by piece.
#[derive(Default)]
struct Due {
    /// Whether the chat rests.
    resting: bool,
    said: bool,
    heard: bool,
    /// The chat rests, and everything that was said before is told first.
    rest: bool,
}

impl Session {
    /// A terminal that listens to nothing yet.
    #[must_use]
    pub fn new(world: World, local: &Local, store: &Store) -> Self {
        Self {
            typing: local.watch_typing(),
            local: local.clone(),
            intake: Intake::new(world, store.clone()),
            store: store.clone(),
            listening: None,
            grows: BTreeMap::new(),
            shows_growth: false,
            watching: None,
            resting: None,
            people: None,
            due: Due::default(),
        }
    }

    /// Does what the terminal asks; returns what it is told at once. More may be due: see [`Session::piece`].
    pub async fn handle(&mut self, ask: Ask) -> Vec<Told> {
        match ask {
            Ask::Send(message) => vec![self.accept(*message).await],
            Ask::Listen { chat, typing, people, growing } => {
                vec![self.listen(chat, (typing, people, growing)).await]
            }
            Ask::Rest { chat } => {
                self.resting = Some(chat);
                self.due.resting = true;
                Vec::new()
            }
            Ask::Click { press, sender } => {
                let by = self.local.person(&sender);
                vec![match self.intake.pressed(&press, &by).await {
                    Ok(decided) => Told::Answered { done: decided.how == How::Done, says: decided.says },
                    Err(error @ (StoreError::Refused { .. } | StoreError::NotFound { .. })) => {
                        Told::invalid(error)
                    }
                    Err(error) => Told::failed("the answer could not be stored", &error),
                }]
            }
        }
    }

    /// Stores a message; the sender is told once it is durable.
    async fn accept(&self, message: Incoming) -> Told {
        let (files, key) = (message.files.clone(), message.key.clone());
        let mut message = match inbound(&self.intake, message, self.intake.world().now()).await {
            Ok(message) => message,
            Err(BadMessage::Unread(error)) => {
                return Told::failed("what the message answers can't be read", &error);
            }
            Err(bad) => return Told::invalid(bad),
        };
        // Held until the message names them.
        let hands = match self.take_files(&mut message, files, &key).await {
            Ok(hands) => hands,
            Err(told) => return told,
        };
        let told = match self.intake.message(message).await {
            Ok(accepted) => Told::Accepted { seq: accepted.seq, wired: accepted.wired, note: accepted.note },
            Err(error) => Told::failed("the message could not be stored", &error),
        };
        drop(hands);
        told
    }

    /// Takes the files of a message from its folder, which is removed.
    async fn take_files(
        &self,
        message: &mut Inbound,
        files: Vec<String>,
        key: &str,
    ) -> Result<Vec<InHand>, Told> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let Some(Files { media, spool }) = &self.local.files else {
            return Err(Told::invalid(BadMessage::NoFiles));
        };
        let (folder, mut hands) = (spool.join(key), Vec::new());
        for name in files {
            let told = Attachment { name: name.clone(), mime: UNKNOWN.into(), ..Attachment::default() };
            let at = (folder.clone(), name);
            let (kept, hand) = match self.intake.file(media, &message.chat_jid, at, told).await {
                Ok(kept) => kept,
                Err(error) => return Err(Told::failed("a file could not be kept", &error)),
            };
            let kind = MediaKind::of_type(&kept.mime);
            message.attachments.push(Attachment { kind, todo: hand.is_some().then_some(Todo::Read), ..kept });
            hands.extend(hand);
        }
        let gone = self.intake.world().tried(move || tree::remove(&folder)).await;
        if let Err(error) = gone {
            tracing::warn!(error = %chain(&error), "the folder of a message's files can't be removed; the next start does it");
        }
        Ok(hands)
    }

    async fn listen(&mut self, chat: String, (typing, people, growing): (bool, bool, bool)) -> Told {
        let newest = async || -> Result<(i64, i64, Vec<i64>), StoreError> {
            Ok((
                self.store.newest_message(&chat).await?.unwrap_or_default(),
                self.store.last_sent(&chat).await?,
                // Looked for behind it: what grows later has a later number.
                self.store.growing_in(&chat).await?,
            ))
        };
        // From a wrong place everything would be told again.
        let (message, said, grows) = match newest().await {
            Ok(newest) => newest,
            Err(error) => return Told::failed("the chat can't be read", &error),
        };
        self.watching = typing.then(|| chat.clone());
        self.people = people.then(|| (chat.clone(), message));
        self.typing = self.local.watch_typing();
        // What began behind it is found with what is said from now on.
        self.grows = grows.into_iter().filter(|id| *id <= said).map(|id| (id, String::new())).collect();
        self.shows_growth = growing;
        // Rows that are still to be said have not been told to anybody.
        self.listening = Some((chat, said));
        Told::Listening
    }

    /// Notes what of the news concerns the terminal; [`Session::piece`] tells it.
    pub fn note(&mut self, news: &News) {
        let in_chat =
            |place: &Option<(String, i64)>| place.as_ref().is_some_and(|(chat, _)| news.in_chat(chat));
        self.due.said |= in_chat(&self.listening) && news.any(&[EventKind::Said]);
        self.due.heard |= in_chat(&self.people);
        self.due.resting |= self.resting.as_ref().is_some_and(|chat| news.in_chat(chat));
    }

    /// Returns the next piece of what the terminal is told, in order; it is bounded, however much there is. Empty: that is
    /// all for now.
    ///
    /// # Errors
    /// The store's; it is still due then.
    pub async fn piece(&mut self) -> Result<Vec<Told>, StoreError> {
        if self.due.resting {
            if self.is_at_rest().await? {
                self.resting = None;
                self.due.said = true;
                self.due.rest = true;
            }
            self.due.resting = false;
        }
        if self.due.said {
            let said = self.said().await?;
            if !said.is_empty() {
                return Ok(said);
            }
            self.due.said = false;
        }
        if self.due.heard {
            let heard = self.heard().await?;
            if !heard.is_empty() {
                return Ok(heard);
            }
            self.due.heard = false;
        }
        Ok(match std::mem::take(&mut self.due.rest) {
            true => vec![Told::Rest],
            false => Vec::new(),
        })
    }

    /// Waits until an agent begins or ends to work for the chat that is watched. Safe to cancel.
    pub async fn typing(&mut self) -> Told {
        loop {
            let signal = match self.typing.recv().await {
                Ok(signal) => signal,
                // What was missed is said again.
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            };
            let Signal { place, on } = signal;
            if self.watching.as_ref() == Some(&place.chat_jid) {
                return Told::Typing { thread: place.thread, on };
            }
        }
    }

    /// What was said to its chat since, a piece; and how far the texts are that grow.
    async fn said(&mut self) -> Result<Vec<Told>, StoreError> {
        let mut told = self.grown().await?;
        let Some((chat, last)) = &mut self.listening else { return Ok(told) };
        loop {
            let said = self.intake.said_since(chat, *last, SAID_AT_ONCE, SAID_BYTES).await?;
            let Some(newest) = said.last().map(|delivery| delivery.id) else { return Ok(told) };
            *last = newest;
            for delivery in said {
                match delivery.growth {
                    Some(Growth::Growing) => {
                        let known = self.grows.entry(delivery.id).or_default();
                        told.extend(self.shows_growth.then(|| so_far(&delivery, known)).flatten());
                    }
                    Some(Growth::Grown) | None => told.push(shown(delivery)),
                }
            }
            if !told.is_empty() {
                return Ok(told);
            }
        }
    }

    /// How far the texts are that were growing at the last look.
    async fn grown(&mut self) -> Result<Vec<Told>, StoreError> {
        let mut told = Vec::new();
        for id in self.grows.keys().copied().collect::<Vec<_>>() {
            match self.store.how_far(id).await? {
                HowFar::Growing(delivery) => {
                    if let Some(known) = self.grows.get_mut(&id).filter(|_| self.shows_growth) {
                        told.extend(so_far(&delivery, known));
                    }
                }
                HowFar::Whole(delivery) => {
                    self.grows.remove(&id);
                    told.push(shown(delivery));
                }
                HowFar::Waits => {}
                HowFar::Gone => {
                    self.grows.remove(&id);
                    told.extend(self.shows_growth.then(|| Told::Growing {
                        id,
                        text: String::new(),
                        cut: false,
                    }));
                }
            }
        }
        Ok(told)
    }

    /// What people have said since, a piece, as far as it is judged.
    async fn heard(&mut self) -> Result<Vec<Told>, StoreError> {
        let Some((chat, last)) = &mut self.people else { return Ok(Vec::new()) };
        loop {
            let heard = self.store.heard_since(chat, *last, HEARD_AT_ONCE).await?;
            let Some(newest) = heard.last() else { return Ok(Vec::new()) };
            *last = newest.seq;
            let told: Vec<Told> = heard.into_iter().filter_map(told_of).collect();
            if !told.is_empty() {
                return Ok(told);
            }
        }
    }

    async fn is_at_rest(&self) -> Result<bool, StoreError> {
        match &self.resting {
            Some(chat) => self.store.chat_at_rest(chat).await,
            None => Ok(false),
        }
    }
}

/// A terminal shows where the files are.
fn shown(said: Delivery) -> Told {
    let text = told(&said.text, &said.attachments, |_| Goes::ToFolder);
    Told::Said(Delivery { text, ..said })
}

/// The end of a text that grows, where it is another one than was told last.
fn so_far(said: &Delivery, known: &mut String) -> Option<Told> {
    let begin = said.text.ceil_char_boundary(said.text.len().saturating_sub(SO_FAR_BYTES));
    let text = &said.text[begin..];
    if text == known {
        return None;
    }
    known.clear();
    known.push_str(text);
    Some(Told::Growing { id: said.id, text: text.to_owned(), cut: begin > 0 })
}

fn told_of(heard: Heard) -> Option<Told> {
    let Heard { seq, line, asleep } = heard;
    match line.by {
        By::Person { name, .. } => Some(Told::Heard { seq, name, text: line.text, cut: line.cut, asleep }),
        By::Agent(_) => None,
    }
}
