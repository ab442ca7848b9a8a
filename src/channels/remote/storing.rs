//! Stores what an adapter tells, in its order, and tells it that.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use channel_protocol::{Down, Event, line};
use ipc_handlers::Time;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    super::intake::NOT_KEPT, Intake, LONGEST_WORDS, Remote, child::append, inward, lines::SHOWN, lock,
    wire::Wire,
};
use crate::{
    domain::{
        mailbox::bucket::Bucket,
        platforms::attachments::{Attachment, Todo},
        rows::Inbound,
        shown::errors::chain,
    },
    store::{Arrival, Arrived, StoreError, UnknownChat},
    system::{
        failpoint,
        media::InHand,
        panics::{Panicked, caught},
    },
};

/// The rest before something is tried again that the store could not take.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Events to be stored, in order.
pub(super) enum Told {
    Event(Box<Event>),
    Moved { n: u64, from: String, to: String },
    Person { n: u64, id: String, also: Vec<String> },
    Chat(channel_protocol::Chat),
}

impl Told {
    /// Returns its number, if it is to be answered.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Event(event) => Some(event.n),
            Self::Moved { n, .. } | Self::Person { n, .. } => Some(*n),
            Self::Chat(_) => None,
        }
    }

    /// Returns what tells it from all others, in another life too.
    fn name(&self) -> String {
        match self {
            Self::Event(event) => format!("{} {}", event.chat, event.key),
            Self::Moved { from, to, .. } => format!("{from} {to}"),
            Self::Person { id, also, .. } => format!("person {id} {}", also.join(" ")),
            Self::Chat(chat) => chat.chat.clone(),
        }
    }
}

/// After this many faults of ours an event is passed over.
const MOST_FAULTS: u32 = 3;
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
    fn new(now: Time) -> Self {
        Self { left: Bucket::new(FACTS_A_MINUTE, now), new_chats: 0, full: None, is_said: false }
    }

    fn may_be_told(&mut self, now: Time) -> bool {
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
pub(super) struct Storing<'a> {
    pub(super) remote: &'a Remote,
    pub(super) intake: Intake,
    pub(super) wire: Wire,
    pub(super) open: watch::Sender<u64>,
    pub(super) spool: PathBuf,
    /// The account's own log.
    pub(super) log: PathBuf,
}

/// The events of one life, as far as they are known.
struct Seen {
    unusable: u32,
    unknown_kinds: u32,
    facts: Facts,
}

/// The longest word of a kind that its adapter does not know, as it is shown, characters.
const LONGEST_KIND: usize = 64;

/// Faults of ours over something that was told, by what it is. The next life is told it again. One over which we always fail
/// would keep all others waiting, so it is passed over one day.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeMap<String, u32>);

impl Faults {
    fn came_over(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Whether it is tried no more. It counts as new then.
    fn gives_up(&mut self, what: &str) -> bool {
        let gives_up = self.0.get(what).is_some_and(|faults| *faults >= MOST_FAULTS);
        if gives_up {
            self.0.remove(what);
        }
        gives_up
    }

    fn is_through(&mut self, what: &str) {
        self.0.remove(what);
    }
}

impl Storing<'_> {
    /// Stores until the adapter takes no answers any more.
    ///
    /// # Errors
    /// A fault of ours came over something, which ends this life.
    pub(super) async fn run(self, mut told: mpsc::Receiver<Told>) -> Result<(), Panicked> {
        let mut seen = Seen { unusable: 0, unknown_kinds: 0, facts: Facts::new(self.intake.world().now()) };
        let faults = &self.remote.faults;
        while let Some(what) = told.recv().await {
            let (number, name) = (what.number(), what.name());
            let says = if lock(faults).gives_up(&name) {
                tracing::error!(
                    channel = self.remote.name(),
                    what = name,
                    "our own fault: work on an event fails again and again; it is passed over"
                );
                self.is_passed_over(&mut seen, "our own fault came over it three times").await;
                None
            } else {
                match caught(self.store(what, &mut seen)).await {
                    Ok(says) => says,
                    Err(fault) => {
                        lock(faults).came_over(name);
                        return Err(fault);
                    }
                }
            };
            lock(faults).is_through(&name);
            let Some(n) = number else { continue };
            self.open.send_modify(|open| *open = open.saturating_sub(1));
            let answers = [Some(Down::Took { n }), says.map(|text| Down::Told { n, text })];
            for answer in answers.into_iter().flatten() {
                if let Some(line) = line(&answer)
                    && self.wire.lines.send(line).await.is_err()
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Does work of the store, once the world is not in its way.
    ///
    /// # Errors
    /// The store's, which would be the same for ever.
    async fn once_it_can<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        mut work: impl FnMut() -> F,
    ) -> Result<T, StoreError> {
        loop {
            match work().await {
                Err(error) if error.is_worlds_fault() => {
                    tracing::warn!(channel = self.remote.name(), error = %chain(&error), "an event can't be stored yet; it is tried again");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                done => return done,
            }
        }
    }

    /// Stores something that was told; returns the words for the presser of a button.
    async fn store(&self, what: Told, seen: &mut Seen) -> Option<String> {
        let is_numbered = what.number().is_some();
        if is_numbered {
            failpoint::reach("channel.taken");
        }
        let (press, cursor, arrival) = match what {
            Told::Event(event) => {
                let (press, cursor) = (event.kind == channel_protocol::EventKind::Press, cursor_of(&event));
                if !event.unknown_kind.is_empty() {
                    let kind = shown(&event.unknown_kind, LONGEST_KIND);
                    let text = format!("a message is of the kind {kind:?}, which the adapter does not know");
                    self.note(&mut seen.unknown_kinds, &text);
                }
                if !event.unread.is_empty() {
                    let why = shown(&event.unread, LONGEST_WORDS);
                    self.note(
                        &mut seen.unusable,
                        &format!("something can't be read, and is passed over: {why}"),
                    );
                }
                (press, cursor, inward::arrival(&self.remote.platform, *event, self.intake.world().now()))
            }
            Told::Moved { from, to, .. } => {
                let both = inward::chat(&self.remote.platform, &from)
                    .and_then(|_| inward::chat(&self.remote.platform, &to))
                    .map(|_| Arrival::Moved { from: from.clone(), to: to.clone() });
                (false, Default::default(), both)
            }
            Told::Person { .. } => (false, Default::default(), Ok(Arrival::Nothing)),
            Told::Chat(_) if !seen.facts.may_be_told(self.intake.world().now()) => {
                if seen.facts.say_once() {
                    tracing::warn!(
                        channel = self.remote.name(),
                        "an adapter tells of chats more often than 10000 times a minute; the rest is passed over"
                    );
                }
                return None;
            }
            Told::Chat(chat) => {
                let info = inward::info(&chat);
                let known = inward::chat(&self.remote.platform, &chat.chat).map(|jid| Arrival::Chat {
                    jid: jid.to_owned(),
                    info,
                    unknown: seen.facts.unknown(),
                });
                (false, Default::default(), known)
            }
        };
        let arrival = match arrival {
            Ok(arrival) => arrival,
            Err(error) => {
                if seen.unusable < SHOWN {
                    tracing::error!(channel = self.remote.name(), error = %chain(&error), "an adapter told something that can't be used; it is passed over");
                }
                let text = format!("something can't be taken in, and is passed over: {}", chain(&error));
                self.note(&mut seen.unusable, &text);
                // Where nothing is answered, there is nothing to store.
                if !is_numbered {
                    return None;
                }
                Arrival::PassedOver
            }
        };
        let arrival = self.with_quoted(arrival).await;
        // They stay until the rows that name them are stored.
        let (arrival, _hands) = self.with_files(arrival).await;
        let channel = self.remote.name();
        let arrived =
            self.once_it_can(|| self.intake.arrival(channel, cursor.clone(), arrival.clone())).await;
        let arrived = arrived.inspect_err(|error| {
            // The same event would fail for ever, and keep all others waiting.
            tracing::error!(channel, error = %chain(error), "an event can't be stored; it is passed over");
        });
        if let Err(error) = &arrived {
            self.is_passed_over(seen, &format!("it can't be stored: {}", chain(error))).await;
        }
        let arrived = arrived.ok();
        match arrived {
            Some(Arrived::NewChat) => seen.facts.new_chats = seen.facts.new_chats.wrapping_add(1),
            Some(Arrived::TooManyChats) => {
                seen.facts.full = Some(Instant::now());
                // It is noted again with the next one.
                if let Err(error) = self.intake.too_many_chats(channel).await {
                    tracing::error!(channel = self.remote.name(), error = %chain(&error), "noting that an account tells of too many chats failed");
                }
                if seen.facts.say_once() {
                    tracing::warn!(
                        channel = self.remote.name(),
                        "an adapter told of more chats that nobody uses than are kept; further ones are passed over"
                    );
                }
            }
            Some(Arrived::Message(_) | Arrived::Pressed(_) | Arrived::Stored) | None => {}
        }
        if is_numbered {
            failpoint::reach("channel.stored");
        }
        match arrived {
            Some(Arrived::Pressed(decided)) => Some(decided.says),
            Some(_) if press => Some("this button is no longer in use".to_owned()),
            Some(_) | None => None,
        }
    }

    /// Writes a line of one kind to the account's log, where not too many of it stand there.
    fn note(&self, written: &mut u32, text: &str) {
        *written = written.saturating_add(1);
        if *written <= SHOWN {
            append(&self.log, self.intake.world().now(), text);
        }
    }

    /// Counts an event that is passed over, and notes why.
    async fn is_passed_over(&self, seen: &mut Seen, why: &str) {
        self.note(&mut seen.unusable, &format!("an event is passed over: {why}"));
        let channel = self.remote.name();
        if let Err(error) = self.intake.arrival(channel, BTreeMap::new(), Arrival::PassedOver).await {
            tracing::error!(channel, error = %chain(&error), "counting an event that is passed over failed");
        }
    }

    /// Takes the files that came with a message at once.
    async fn with_files(&self, mut arrival: Arrival) -> (Arrival, Vec<InHand>) {
        let mut hands = Vec::new();
        if let Arrival::Message(inbound) = &mut arrival {
            for file in &mut inbound.attachments {
                let Some(Todo::Take(place)) = file.todo.clone() else { continue };
                let at = (self.spool.clone(), place);
                let chat = &inbound.chat_jid;
                let keeping = || self.intake.file(&self.remote.ground.media, chat, at.clone(), file.clone());
                let (kept, hand) = match self.once_it_can(keeping).await {
                    Ok(kept) => kept,
                    Err(error) => {
                        tracing::error!(channel = self.remote.name(), error = %chain(&error), "a file that came in can't be kept");
                        (Attachment { problem: Some(NOT_KEPT.to_owned()), ..file.clone() }, None)
                    }
                };
                *file = Attachment { todo: hand.is_some().then_some(Todo::Read), ..kept };
                hands.extend(hand);
            }
        }
        (arrival, hands)
    }

    /// Adds what the message that it answers says, where the platform does not tell.
    async fn with_quoted(&self, mut arrival: Arrival) -> Arrival {
        let Arrival::Message(inbound) = &mut arrival else { return arrival };
        let Inbound { chat_jid, reply_to_id: Some(id), reply_to_text: None, answered, .. } = &**inbound
        else {
            return arrival;
        };
        // Another chat's ids are not this one's.
        if answered.chat.is_some() {
            return arrival;
        }
        match self.once_it_can(|| self.intake.quoted(chat_jid, id)).await {
            Ok(Some(quoted)) => {
                inbound.answered.own |= quoted.own;
                inbound.answered.kind = inbound.answered.kind.or(quoted.kind);
                inbound.reply_to_text = Some(quoted.text);
                let told = inbound.reply_to_sender.take().filter(|name| !name.is_empty());
                inbound.reply_to_sender = told.or(Some(quoted.sender_name));
                arrival
            }
            Ok(None) => arrival,
            // The message is worth more than what it answers.
            Err(error) => {
                tracing::error!(channel = self.remote.name(), error = %chain(&error), "what a message answers can't be read; it is taken in without");
                arrival
            }
        }
    }
}

/// Returns words of an adapter as they are written to a log, cut.
fn shown(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

/// Returns the values that came with an event, as far as they can be kept.
fn cursor_of(event: &Event) -> std::collections::BTreeMap<String, String> {
    let fits = |(key, value): &(&String, &String)| !key.is_empty() && key.len() <= 128 && value.len() <= 4096;
    event.cursor.iter().filter(fits).take(64).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_over_which_we_fail_three_times_is_passed_over_and_counts_as_new_then() {
        let mut faults = Faults::default();
        for _ in 0..MOST_FAULTS {
            assert!(!faults.gives_up("a 1"));
            faults.came_over("a 1".into());
            assert!(!faults.gives_up("a 2"), "others are stored meanwhile");
            faults.is_through("a 2");
        }
        assert!(faults.gives_up("a 1") && !faults.gives_up("a 1"));
        faults.came_over("a 1".into());
        faults.is_through("a 1");
        assert!(faults.0.is_empty());
    }
}
