//! One terminal: what it asks for, and what it is told.

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::{
    Local,
    incoming::{Incoming, inbound},
};
use crate::{
    channels::{Channel as _, Intake},
    domain::{
        host::{errors::chain, feed::EventKind},
        platforms::typing::Signal,
        rows::Delivery,
    },
    store::{By, Heard, How, News, Store, StoreError},
    system::clock,
};

/// How many messages of people are read at a time.
const HEARD_AT_ONCE: usize = 100;

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
        message: String,
    },
}

impl Told {
    fn error(error: impl std::fmt::Display) -> Self {
        Self::Error { message: error.to_string() }
    }
}

/// What one terminal listens to.
pub struct Session {
    local: Local,
    intake: Intake,
    store: Store,
    /// The chat that is listened to, and the last outbox row that was told.
    listening: Option<(String, i64)>,
    typing: broadcast::Receiver<Signal>,
    /// The chat of which it is told whether an agent works for it.
    watching: Option<String>,
    resting: Option<String>,
    /// The chat whose people are listened to, and the last message that was told.
    people: Option<(String, i64)>,
}

impl Session {
    /// A terminal that listens to nothing yet.
    #[must_use]
    pub fn new(local: &Local, store: &Store) -> Self {
        Self {
            typing: local.watch_typing(),
            local: local.clone(),
            intake: Intake::new(store.clone()),
            store: store.clone(),
            listening: None,
            watching: None,
            resting: None,
            people: None,
        }
    }

    /// Does what the terminal asks; returns what it is told at once.
    pub async fn handle(&mut self, ask: Ask) -> Vec<Told> {
        match ask {
            Ask::Send(message) => vec![self.accept(*message).await],
            Ask::Listen { chat, typing, people } => vec![self.listen(chat, typing, people).await],
            Ask::Rest { chat } => {
                self.resting = Some(chat);
                self.rested().await
            }
            Ask::Click { press, sender } => {
                let by = self.local.person("local:", &sender);
                vec![match self.intake.pressed(&press, &by).await {
                    Ok(decided) => Told::Answered { done: decided.how == How::Done, says: decided.says },
                    Err(error) => Told::error(error),
                }]
            }
        }
    }

    /// Stores a message; the sender is told once it is durable.
    async fn accept(&self, message: Incoming) -> Told {
        let message = match inbound(&self.intake, message, clock::now()).await {
            Ok(message) => message,
            Err(bad) => return Told::Error { message: bad.to_string() },
        };
        match self.intake.message(message).await {
            Ok(accepted) => Told::Accepted { seq: accepted.seq, wired: accepted.wired, note: accepted.note },
            Err(error) => Told::error(format!("the message could not be stored: {}", chain(&error))),
        }
    }

    async fn listen(&mut self, chat: String, typing: bool, people: bool) -> Told {
        let newest = async || -> Result<(i64, i64), StoreError> {
            Ok((
                self.store.newest_message(&chat).await?.unwrap_or_default(),
                self.store.last_sent(&chat).await?,
            ))
        };
        // From a wrong place everything would be told again.
        let (message, said) = match newest().await {
            Ok(newest) => newest,
            Err(error) => return Told::error(format!("the chat can't be read: {}", chain(&error))),
        };
        self.watching = typing.then(|| chat.clone());
        self.people = people.then(|| (chat.clone(), message));
        self.typing = self.local.watch_typing();
        // Rows that are still to be said have not been told to anybody.
        self.listening = Some((chat, said));
        Told::Listening
    }

    /// Returns what of the news the terminal is told, in order.
    pub async fn read(&mut self, news: &News) -> Vec<Told> {
        let mut told = Vec::new();
        if self.listening.as_ref().is_some_and(|(chat, _)| news.in_chat(chat)) && news.any(&[EventKind::Said])
        {
            told.extend(self.said().await);
        }
        if self.people.as_ref().is_some_and(|(chat, _)| news.in_chat(chat)) {
            told.extend(self.heard().await);
        }
        if self.resting.as_ref().is_some_and(|chat| news.in_chat(chat)) {
            told.extend(self.rested().await);
        }
        told
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

    /// What was said to its chat since.
    async fn said(&mut self) -> Vec<Told> {
        let Some((chat, last)) = &mut self.listening else { return Vec::new() };
        let said = self.intake.said_since(chat, *last).await.unwrap_or_default();
        *last = said.last().map_or(*last, |delivery| delivery.id);
        said.into_iter().map(Told::Said).collect()
    }

    /// What people have said since, as far as it is judged.
    async fn heard(&mut self) -> Vec<Told> {
        let Some((chat, last)) = &mut self.people else { return Vec::new() };
        let mut told = Vec::new();
        for Heard { seq, line, asleep } in
            self.store.heard_since(chat, *last, HEARD_AT_ONCE).await.unwrap_or_default()
        {
            *last = seq;
            if let By::Person { name, .. } = line.by {
                told.push(Told::Heard { seq, name, text: line.text, cut: line.cut, asleep });
            }
        }
        told
    }

    /// What was said before the rest, and the rest, once it is there.
    async fn rested(&mut self) -> Vec<Told> {
        let rests = match &self.resting {
            Some(chat) => self.store.chat_at_rest(chat).await.unwrap_or(false),
            None => false,
        };
        if !rests {
            return Vec::new();
        }
        self.resting = None;
        let mut told = self.said().await;
        told.push(Told::Rest);
        told
    }
}
