//! What comes in: told to the daemon, and only after `took` to WhatsApp as received.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use adapter_kit::{Gone, Host, Stored};
use async_trait::async_trait;
use channel_protocol::{Chat, ChatKind, Event, EventKind};
use tokio::sync::{mpsc, watch};
use whatsapp_rust::{
    Client, InboundDurabilityHook, Jid, anyhow,
    anyhow::anyhow,
    types::{events::InboundMessage, message::MessageInfo},
    wacore_binary::JidExt as _,
};

use crate::{
    known::{Known, Unread},
    lights::Change,
    places::{Places, home, is_chat, person},
    read::{Spot, Us, by_admin, event},
    said::{Said, is_id, said, told_id},
};

/// How many facts about chats may wait to be asked for.
const MOST_ASKED: usize = 256;
/// How many deletions may wait for the facts that say whether they are an admin's.
const MOST_WAITING: usize = 256;
/// How many chats have facts here.
const MOST_FACTS: usize = 5000;
/// For how long facts about a chat hold, s.
const HOLDS_S: u64 = 86_400;
/// After how long facts that WhatsApp did not tell are asked for again, s.
const FAILED_S: u64 = 600;
/// A sign that goes and is not known.
const SOME_SIGN: &str = "✖";

/// Where what comes in is told.
pub(crate) struct Inbox {
    host: Host,
    places: Places,
    /// Who we are, once WhatsApp has let us in and the daemon knows it. Nothing is told before.
    us: watch::Sender<Option<Us>>,
    known: Arc<Mutex<Known>>,
    facts: Mutex<Facts>,
    /// Groups whose facts are asked for, one after the other.
    ask: mpsc::Sender<Jid>,
    changes: mpsc::UnboundedSender<Change>,
    /// The last message could not be read.
    unreadable: AtomicBool,
}

/// What WhatsApp tells of a group.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) chat: Chat,
    /// Its admins, by all ids of theirs.
    pub(crate) admins: HashSet<String>,
}

impl Found {
    fn has_admin(&self, id: &str, also: &[String]) -> bool {
        self.admins.contains(id) || also.iter().any(|also| self.admins.contains(also))
    }
}

#[derive(Default)]
struct Facts {
    /// `None`: WhatsApp did not tell them.
    known: HashMap<String, (Option<Found>, tokio::time::Instant)>,
    asked: HashSet<String>,
    /// Deletions that are told if their senders are admins.
    waiting: VecDeque<Event>,
}

impl Facts {
    /// Returns what was told lately of a group, or that nothing was.
    fn fresh(&self, address: &str) -> Option<&Option<Found>> {
        let (found, at) = self.known.get(address)?;
        let holds = if found.is_some() { HOLDS_S } else { FAILED_S };
        (at.elapsed().as_secs() < holds).then_some(found)
    }
}

impl Inbox {
    pub(crate) fn new(
        host: Host,
        places: Places,
        known: Arc<Mutex<Known>>,
        changes: mpsc::UnboundedSender<Change>,
    ) -> (Arc<Self>, mpsc::Receiver<Jid>) {
        let (ask, asked) = mpsc::channel(MOST_ASKED);
        let us = watch::Sender::new(None);
        (
            Arc::new(Self {
                host,
                places,
                us,
                known,
                facts: Mutex::default(),
                ask,
                changes,
                unreadable: AtomicBool::new(false),
            }),
            asked,
        )
    }

    pub(crate) fn begins(&self, us: Us) {
        self.us.send_replace(Some(us));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells messages in their order. Returns once the daemon has all of them.
    ///
    /// # Errors
    /// The daemon is gone; WhatsApp tells them again.
    pub(crate) async fn take(&self, client: &Client, batch: &[InboundMessage]) -> Result<(), Gone> {
        // What waited comes before WhatsApp's word that all is in step, which waits for what waited to be received.
        if self.us.borrow().is_none() {
            let _ = self.changes.send(Change::Connected);
        }
        if self.unreadable.swap(false, Ordering::Relaxed) {
            let _ = self.changes.send(Change::Readable);
        }
        let us = self.us.subscribe().wait_for(Option::is_some).await.map_err(|_| Gone)?.clone();
        let Some(us) = us else { return Err(Gone) };
        let mut open = Vec::new();
        for one in batch {
            let chat = home(&one.info.source.chat);
            if is_chat(&chat) {
                open.extend(self.begin(client, one, &us).await?);
            } else if !chat.is_status_broadcast() && !chat.is_newsletter() {
                open.push(
                    self.host.begin(nothing(&one.info, "it is in no chat that can be answered")).await?,
                );
            }
        }
        for stored in open {
            stored.wait().await?;
        }
        Ok(())
    }

    async fn begin(&self, client: &Client, one: &InboundMessage, us: &Us) -> Result<Option<Stored>, Gone> {
        if !is_id(&one.info.id) {
            return self.host.begin(nothing(&one.info, "its id can't be read")).await.map(Some);
        }
        let mut spot = self.spot(client, &one.info).await?;
        spot.is_admin = self.is_admin(&spot);
        let waits = by_admin(&one.info, &spot).is_none();
        if waits {
            spot.is_admin = Some(true);
        }
        let said = said(&one.message);
        let Some(told) = self.told(said, one, &spot, us) else { return Ok(None) };
        let waits = waits && told.kind == EventKind::Delete;
        let address = spot.chat;
        if waits {
            let mut facts = self.facts();
            if facts.waiting.len() >= MOST_WAITING {
                facts.waiting.pop_front();
            }
            facts.waiting.push_back(told.clone());
        }
        if spot.is_group {
            self.ask_for(&one.info.source.chat, &address);
        }
        if waits { Ok(None) } else { self.host.begin(told).await.map(Some) }
    }

    /// Whether somebody is an admin of a group. `None`: its facts are not here.
    fn is_admin(&self, spot: &Spot) -> Option<bool> {
        let also: Vec<String> = spot.also.iter().map(person).collect();
        let facts = self.facts();
        let found = facts.fresh(&spot.chat)?;
        Some(found.as_ref().is_some_and(|found| found.has_admin(&person(&spot.sender), &also)))
    }

    /// Finds where a message stands and whose it is, by the numbers where they are known.
    async fn spot(&self, client: &Client, info: &MessageInfo) -> Result<Spot, Gone> {
        let source = &info.source;
        let (sender, also) = whose(client, &source.sender, source.sender_alt.as_ref()).await;
        let (is_group, stands) = (source.chat.is_group(), home(&source.chat));
        let chat = if is_group {
            stands.clone()
        } else if source.is_from_me {
            whose(client, &source.chat, source.recipient_alt.as_ref()).await.0
        } else {
            sender.clone()
        };
        let address = self.places.address(&chat);
        if !is_group && stands.is_lid() && chat.is_pn() {
            self.moved(&self.places.address(&stands), &address).await?;
        }
        Ok(Spot { chat: address, is_group, sender, also, is_admin: None })
    }

    /// Tells that a chat has another address, if it was known by the old one.
    pub(crate) async fn moved(&self, from: &str, to: &str) -> Result<(), Gone> {
        let was = self.known().moved(from, to);
        if was { self.host.moved(from.to_owned(), to.to_owned()).await } else { Ok(()) }
    }

    fn told(&self, said: Said, one: &InboundMessage, spot: &Spot, us: &Us) -> Option<Event> {
        let (info, source) = (&one.info, &one.info.source);
        let id = person(&spot.sender);
        let mut known = self.known();
        if !source.is_from_me {
            known.named(&id, &info.push_name);
        }
        let sign = match &said {
            Said::Reaction { of, sign } => Some((known.sign(&spot.chat, of, &id, sign), sign.is_empty())),
            _ => None,
        };
        let mut told = event(said, info, spot, us, &known)?;
        match sign {
            Some((before, true)) => told.emoji = before.unwrap_or_else(|| SOME_SIGN.into()),
            Some((_, false)) => {}
            None if told.kind == EventKind::Message => {
                let by = if source.is_from_me { "" } else { &id[..] };
                if let Err(error) = known.note(&spot.chat, &info.id, by, &told.text) {
                    eprintln!("who wrote a message can't be noted: {error}");
                }
                known.timed(&spot.chat, info.ephemeral_expiration.unwrap_or(0));
                if !source.is_from_me {
                    known.wrote(&spot.chat);
                    let (chat, by) = (source.chat.clone(), source.sender.clone());
                    known.unread(&spot.chat, Unread { chat, by, id: info.id.clone() });
                }
            }
            None => {}
        }
        drop(known);
        if told.about.is_none() {
            let facts = self.facts();
            let found = facts.known.get(&spot.chat).and_then(|(found, _)| found.as_ref());
            told.about = found.map(|found| found.chat.clone());
        }
        Some(told)
    }

    /// Asks for the facts about a group once a day.
    fn ask_for(&self, group: &Jid, address: &str) {
        let mut facts = self.facts();
        if facts.fresh(address).is_some() || facts.asked.contains(address) || facts.asked.len() >= MOST_ASKED
        {
            return;
        }
        if self.ask.try_send(group.clone()).is_ok() {
            facts.asked.insert(address.to_owned());
        }
    }

    /// Asks for the facts about a group now, because they have changed.
    pub(crate) fn ask_anew(&self, group: &Jid) {
        let address = self.places.address(group);
        self.facts().known.remove(&address);
        self.ask_for(group, &address);
    }

    /// Tells the facts about a group, and the deletions that waited for them. `None`: WhatsApp did not tell them.
    pub(crate) async fn about(&self, group: &Jid, found: Option<Found>) -> Result<(), Gone> {
        let address = self.places.address(group);
        let waiting: Vec<Event> = {
            let mut facts = self.facts();
            facts.asked.remove(&address);
            if facts.known.len() >= MOST_FACTS {
                facts.known.clear();
            }
            let (here, others): (VecDeque<Event>, _) =
                std::mem::take(&mut facts.waiting).into_iter().partition(|event| event.chat == address);
            facts.waiting = others;
            facts.known.insert(address, (found.clone(), tokio::time::Instant::now()));
            here.into()
        };
        let Some(found) = found else { return Ok(()) };
        for event in waiting {
            if found.has_admin(&event.from.id, &event.from.also) {
                self.host.event(event).await?;
            }
        }
        self.host.tell(&channel_protocol::Up::Chat(found.chat)).await
    }

    /// A person has another number.
    pub(crate) async fn has_moved(&self, old: &Jid, new: &Jid, lid: Option<&Jid>) -> Result<(), Gone> {
        // The old number is the next person's who gets it, and not this one's any more.
        let also = lid.into_iter().map(person).collect();
        self.host.person(person(new), also).await?;
        self.moved(&self.places.address(old), &self.places.address(new)).await
    }

    /// A message could not be read; the next one that can be is told.
    pub(crate) fn not_read(&self) {
        self.unreadable.store(true, Ordering::Relaxed);
        let _ = self.changes.send(Change::Unreadable);
    }

    /// What nobody can read is told as that.
    pub(crate) async fn unread(&self, info: &MessageInfo, why: &str) -> Result<(), Gone> {
        self.host.event(nothing(info, why)).await
    }
}

/// Returns what is told of a message of which nobody sees anything here.
fn nothing(info: &MessageInfo, why: &str) -> Event {
    Event {
        key: format!("{}.{}", told_id(&info.id), person(&info.source.sender)),
        kind: EventKind::Nothing,
        unread: why.to_owned(),
        ..Event::default()
    }
}

/// Returns a person by their number, where that is known, and another id of theirs.
async fn whose(client: &Client, jid: &Jid, also: Option<&Jid>) -> (Jid, Option<Jid>) {
    let jid = home(jid);
    let also = also.map(home).filter(|also| (also.is_pn() || also.is_lid()) && *also != jid);
    let other = match also {
        Some(also) => Some(also),
        None => {
            // A map that can't be read is one that does not know it; the next message asks again.
            let entry = client.get_lid_pn_entry(&jid).await.ok().flatten();
            entry
                .map(|entry| if jid.is_lid() { Jid::pn(&*entry.phone_number) } else { Jid::lid(&*entry.lid) })
        }
    };
    match other {
        Some(other) if jid.is_lid() && other.is_pn() => (other, Some(jid)),
        other => (jid, other),
    }
}

/// Returns the facts about a group.
pub(crate) fn facts(places: &Places, group: &Jid, subject: &str, members: usize) -> Chat {
    Chat {
        chat: places.address(group),
        name: adapter_kit::cut(subject, 256),
        kind: ChatKind::Group,
        members: u32::try_from(members).ok(),
        ..Chat::default()
    }
}

/// Hands messages to the daemon before WhatsApp is told that they are here.
pub(crate) struct Took(pub(crate) Arc<Inbox>);

#[async_trait]
impl InboundDurabilityHook for Took {
    async fn on_messages(&self, client: Arc<Client>, batch: &[InboundMessage]) -> anyhow::Result<()> {
        self.0.take(&client, batch).await.map_err(|gone| anyhow!("{gone}"))
    }
}
