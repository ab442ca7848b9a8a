//! Stores what an adapter tells, in its order, and tells it that.

use std::{path::PathBuf, sync::Arc, time::Duration};

use channel_protocol::{Down, Event, line};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{Intake, inward, talk::SHOWN, wire::Wire};
use crate::{
    domain::{
        host::errors::chain,
        mailbox::bucket::Bucket,
        platforms::{
            addresses::Platform,
            attachments::{Attachment, Todo},
        },
        rows::Inbound,
    },
    store::{Arrival, Arrived, UnknownChat},
    system::{
        clock, failpoint,
        media::{InHand, Media},
    },
};

/// The rest before something is tried again that the store could not take.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What is stored in order.
pub(super) enum Told {
    Event(Box<Event>),
    Moved { n: u64, from: String, to: String },
    Chat(channel_protocol::Chat),
}

/// How often facts about chats may be told in a minute.
const FACTS_A_MINUTE: u32 = 10_000;
/// After how many new chats their number is looked at again.
const COUNTED_EVERY: u32 = 256;
/// How long no new chat is taken in where there are too many.
const FULL: Duration = Duration::from_secs(60);

/// Bounds of the facts about chats that an adapter tells, in one life.
struct Facts {
    left: Bucket,
    new_chats: u32,
    /// When there were too many chats.
    full: Option<Instant>,
    is_said: bool,
}

impl Facts {
    fn new() -> Self {
        Self { left: Bucket::new(FACTS_A_MINUTE, clock::now()), new_chats: 0, full: None, is_said: false }
    }

    fn may_be_told(&mut self) -> bool {
        let now = clock::now();
        let may = self.left.available(now) > 0;
        if may {
            self.left.take(1, now);
        }
        may
    }

    fn unknown(&self) -> UnknownChat {
        match self.full {
            Some(at) if at.elapsed() < FULL => UnknownChat::PassedOver,
            Some(_) => UnknownChat::Counted,
            None if self.new_chats.is_multiple_of(COUNTED_EVERY) => UnknownChat::Counted,
            None => UnknownChat::Taken,
        }
    }

    /// Whether the log is still to be told.
    fn say_once(&mut self) -> bool {
        !std::mem::replace(&mut self.is_said, true)
    }
}

/// Stores what is told, one after the other.
pub(super) struct Storing {
    pub(super) platform: Platform,
    pub(super) intake: Intake,
    pub(super) wire: Wire,
    pub(super) open: watch::Sender<u64>,
    pub(super) media: Arc<Media>,
    pub(super) spool: PathBuf,
}

impl Storing {
    pub(super) async fn run(self, mut told: mpsc::Receiver<Told>) {
        let mut unusable = 0_u32;
        let mut facts = Facts::new();
        while let Some(what) = told.recv().await {
            let (n, press, cursor, arrival) = match what {
                Told::Event(event) => {
                    let (n, press, cursor) =
                        (event.n, event.kind == channel_protocol::EventKind::Press, cursor_of(&event));
                    (Some(n), press, cursor, inward::arrival(&self.platform, *event, clock::now()))
                }
                Told::Moved { n, from, to } => {
                    let both = inward::chat(&self.platform, &from)
                        .and_then(|_| inward::chat(&self.platform, &to))
                        .map(|_| Arrival::Moved { from: from.clone(), to: to.clone() });
                    (Some(n), false, Default::default(), both)
                }
                Told::Chat(_) if !facts.may_be_told() => {
                    if facts.say_once() {
                        tracing::warn!(channel = %self.platform.channel, "an adapter tells of chats more often than 10000 times a minute; the rest is passed over");
                    }
                    continue;
                }
                Told::Chat(chat) => {
                    let info = inward::info(&chat);
                    let known = inward::chat(&self.platform, &chat.chat).map(|jid| Arrival::Chat {
                        jid: jid.to_owned(),
                        info,
                        unknown: facts.unknown(),
                    });
                    (None, false, Default::default(), known)
                }
            };
            let arrival = match arrival {
                Ok(arrival) => arrival,
                Err(error) => {
                    unusable = unusable.saturating_add(1);
                    if unusable <= SHOWN {
                        tracing::error!(channel = %self.platform.channel, error = %chain(&error), "an adapter told something that can't be used; it is passed over");
                    }
                    // What is not answered leaves nothing to store.
                    if n.is_none() {
                        continue;
                    }
                    Arrival::Nothing
                }
            };
            let arrival = self.with_quoted(arrival).await;
            // They stay until the rows that name them are stored.
            let (arrival, _hands) = self.with_files(arrival).await;
            let arrived = loop {
                match self.intake.arrival(&self.platform.channel, cursor.clone(), arrival.clone()).await {
                    Ok(arrived) => break Some(arrived),
                    Err(error) if error.is_worlds_fault() => {
                        tracing::warn!(channel = %self.platform.channel, error = %chain(&error), "an event can't be stored yet; it is tried again");
                        tokio::time::sleep(TRY_AGAIN).await;
                    }
                    // The same event would fail for ever, and keep all others waiting.
                    Err(error) => {
                        tracing::error!(channel = %self.platform.channel, error = %chain(&error), "an event can't be stored; it is passed over");
                        break None;
                    }
                }
            };
            match arrived {
                Some(Arrived::NewChat) => facts.new_chats = facts.new_chats.wrapping_add(1),
                Some(Arrived::TooManyChats) => {
                    facts.full = Some(Instant::now());
                    if let Err(error) = self.intake.too_many_chats(&self.platform.channel).await {
                        tracing::error!(channel = %self.platform.channel, error = %chain(&error), "noting that an account tells of too many chats failed");
                    }
                    if facts.say_once() {
                        tracing::warn!(channel = %self.platform.channel, "an adapter told of more chats that nobody uses than are kept; further ones are passed over");
                    }
                }
                Some(Arrived::Message(_) | Arrived::Pressed(_) | Arrived::Stored) | None => {}
            }
            let Some(n) = n else { continue };
            failpoint::reach("channel.stored");
            let told = match arrived {
                Some(Arrived::Pressed(decided)) => Some(decided.says),
                Some(_) if press => Some("this button is no longer in use".to_owned()),
                Some(_) | None => None,
            };
            self.open.send_modify(|open| *open = open.saturating_sub(1));
            let answers = [Some(Down::Took { n }), told.map(|text| Down::Told { n, text })];
            for answer in answers.into_iter().flatten() {
                if let Some(line) = line(&answer)
                    && self.wire.lines.send(line).await.is_err()
                {
                    return;
                }
            }
        }
    }

    /// Takes the files that came with a message at once.
    async fn with_files(&self, mut arrival: Arrival) -> (Arrival, Vec<InHand>) {
        let mut hands = Vec::new();
        if let Arrival::Message(inbound) = &mut arrival {
            for file in &mut inbound.attachments {
                let Some(Todo::Take(place)) = file.todo.clone() else { continue };
                let at = (self.spool.clone(), place);
                let (kept, hand) = self.intake.file(&self.media, &inbound.chat_jid, at, file.clone()).await;
                *file = Attachment { todo: hand.is_some().then_some(Todo::Read), ..kept };
                hands.extend(hand);
            }
        }
        (arrival, hands)
    }

    /// Adds what the message that it answers says, where the platform does not tell.
    async fn with_quoted(&self, arrival: Arrival) -> Arrival {
        let Arrival::Message(inbound) = &arrival else { return arrival };
        let Inbound { chat_jid, reply_to_id: Some(id), reply_to_text: None, .. } = &**inbound else {
            return arrival;
        };
        match self.intake.quoted(chat_jid, id).await {
            Ok(Some(quoted)) => Arrival::Message(Box::new(Inbound {
                reply_to_text: Some(quoted.text),
                reply_to_sender: Some(quoted.sender_name),
                ..(**inbound).clone()
            })),
            Ok(None) | Err(_) => arrival,
        }
    }
}

/// Returns the values that came with an event, as far as they can be kept.
fn cursor_of(event: &Event) -> std::collections::BTreeMap<String, String> {
    let fits = |(key, value): &(&String, &String)| !key.is_empty() && key.len() <= 128 && value.len() <= 4096;
    event.cursor.iter().filter(fits).take(64).map(|(key, value)| (key.clone(), value.clone())).collect()
}
