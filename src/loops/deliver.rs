//! Says what is to be said: one worker per chat that has something to say, so a slow chat delays no other, and each
//! works strictly by outbox id.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use g2_text::Rendered;
use ipc_handlers::Time;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    channels::{Channel, Channels},
    domain::{
        machine::loops::LoopName,
        platforms::{
            attachments::{Attachment, Goes, told},
            channels::{
                Change, Doubt, Found, InThread, NotSent, Part, SentTwice, Traits, Unsent, after,
                after_in_thread, in_doubt, parts, unasked,
            },
            growth::{Growth, Step, steps},
            parcels::{Parcel, Takes, parcels},
        },
        rows::{Delivery, UnknownDeliveries},
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Error, Loop, Plan, Then, Why, until_stop},
    store::{NextDelivery, OutboxPart, Store, StoreError},
    system::{
        failpoint,
        locked::Locked as _,
        panics::{Panicked, caught},
        world::World,
    },
};

/// If a platform does not answer in this time, nobody knows whether it has the text.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for files, beside the time that slow lines take for them.
const FILES_TIMEOUT: Duration = Duration::from_secs(120);
/// What a slow line carries in a millisecond, bytes.
const SLOWEST: u64 = 100;

/// A text that is longer is cut beside the workers, bytes.
const LONG: usize = 64 << 10;

/// The parts of the daemon that this loop needs.
#[derive(Clone)]
pub struct Post {
    pub world: World,
    pub store: Store,
    pub channels: Arc<Channels>,
    /// How a text is treated that may have arrived, on a platform that does not recognise our ids.
    pub unknown: UnknownDeliveries,
    pub stop: CancellationToken,
    /// Until when platforms asked to wait.
    pub waits: Waits,
}

/// Chats whose platform asked to wait, and until when, by a clock that nobody sets. The store has it for the next daemon.
pub type Waits = Arc<Mutex<BTreeMap<String, Instant>>>;

impl Post {
    fn waits(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.waits.locked()
    }

    /// Returns how long a chat's platform still wants to be left alone.
    fn wait(&self, chat: &str) -> Option<Duration> {
        let mut waits = self.waits();
        let left = waits.get(chat)?.saturating_duration_since(self.world.monotonic());
        if left.is_zero() {
            waits.remove(chat);
        }
        (!left.is_zero()).then_some(left)
    }

    /// Looks what an earlier daemon was sending; nothing is said before. Whether that is written down: a disk may be full.
    ///
    /// # Errors
    /// The store's, but for what may pass.
    pub async fn recover(&self) -> Result<bool, StoreError> {
        match self.recover_now().await {
            Ok(()) => Ok(true),
            Err(error) if error.is_worlds_fault() => {
                tracing::warn!(error = %chain(&error), "what an earlier daemon was sending can't be written down yet; nothing is said until then");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn recover_now(&self) -> Result<(), StoreError> {
        self.store.recover_deliveries(self.channels.that_know_our_ids()).await.map(drop)
    }
}

/// A row that is being said: its number, how often it was tried before, and since when it may have arrived.
type InHand = (i64, u32, Time);

/// What the loop works with.
pub struct Counter {
    post: Post,
    /// The row of each chat that is being said, or was when a fault of ours came over it.
    in_hand: Mutex<BTreeMap<String, InHand>>,
    /// Chats whose last delivery could not be written down. While the disk takes nothing, a text is not sent again and again.
    unwritten: Mutex<BTreeSet<String>>,
}

/// Says what is to be said, each chat by itself.
pub struct Deliver {
    counter: Arc<Counter>,
    is_recovered: bool,
}

impl Deliver {
    /// `is_recovered`: [`Post::recover`] is through.
    #[must_use]
    pub fn new(post: Post, is_recovered: bool) -> Self {
        let counter = Counter { post, in_hand: Mutex::default(), unwritten: Mutex::default() };
        Self { counter: Arc::new(counter), is_recovered }
    }
}

impl Loop for Deliver {
    const NAME: LoopName = LoopName::Deliver;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Say, EventKind::Unsaid];
    const AT_ONCE: usize = usize::MAX;
    /// A delivery under way is finished.
    const FINISHES_WITHIN: Duration = Duration::from_secs(45);
    const RESTS_AT_MOST: Duration = Duration::from_secs(8);
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(4);
    type Key = String;
    type Job = ();
    type Hands = Counter;

    fn hands(&self) -> Arc<Counter> {
        Arc::clone(&self.counter)
    }

    async fn look(&mut self, why: &Why<String>) -> Result<Plan<String, ()>, Error> {
        let post = &self.counter.post;
        if !self.is_recovered {
            post.recover_now().await?;
            self.is_recovered = true;
        }
        let mut wake: Vec<(String, ())> =
            why.events.iter().filter_map(|event| Some((event.chat.clone()?, ()))).collect();
        wake.dedup();
        let begin = match why.all {
            true => post.store.chats_with_outbox().await?,
            false => Vec::new(),
        };
        Ok(Plan { begin: begin.into_iter().map(|chat| (chat, ())).collect(), wake, ..Plan::default() })
    }

    /// Says everything that a chat has to say. Where a fault of ours comes over a row, it counts as one that may have arrived, so
    /// it is given up as any that fails so often.
    async fn perform(
        counter: Arc<Counter>,
        chat: String,
        (): (),
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        let post = &counter.post;
        let in_hand = counter.in_hand().get(&chat).copied();
        if let Some(row) = in_hand {
            not_said(post, &chat, row).await?;
            counter.in_hand().remove(&chat);
        }
        while !stop.is_cancelled() {
            if let Some(rest) = post.wait(&chat) {
                return Ok(Then::After(rest));
            }
            let mark = if counter.unwritten().contains(&chat) { Mark::First } else { Mark::Soon };
            match turn(post, &chat, mark).await? {
                None => {}
                Some(NextDelivery::Now(delivery)) => {
                    // A panic counts as a try of this row, and does not set the chat aside.
                    let said = caught(counter.say(&chat, &delivery)).await;
                    said.map_err(|fault| Error::ours(&fault))??;
                    counter.in_hand().remove(&chat);
                    // A row of failures ends with what is said.
                    if counter.unwritten().remove(&chat) {
                        return Ok(Then::Again);
                    }
                }
                Some(NextDelivery::NotBefore(at)) => {
                    let ms = at.ms_since(post.world.now()).clamp(1, 60_000).unsigned_abs();
                    return Ok(Then::After(Duration::from_millis(ms)));
                }
                Some(NextDelivery::Nothing) => return Ok(Then::Done),
            }
        }
        Ok(Then::Done)
    }

    fn span(chat: &String, (): &()) -> Span {
        tracing::error_span!("chat", chat)
    }
}

impl Counter {
    fn in_hand(&self) -> MutexGuard<'_, BTreeMap<String, InHand>> {
        self.in_hand.locked()
    }

    fn unwritten(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unwritten.locked()
    }

    /// Says a row that is marked as being sent, and stays in hand.
    async fn say(&self, chat: &str, delivery: &Delivery) -> Result<(), StoreError> {
        let since = delivery.in_doubt_since.unwrap_or_else(|| self.post.world.now());
        self.in_hand().insert(chat.to_owned(), (delivery.id, delivery.attempts, since));
        failpoint::reach("deliver.sending");
        let said = say(&self.post, delivery).await;
        if let Err(error) = &said {
            self.unwritten().insert(chat.to_owned());
            // Otherwise it stays in hand: the try counts, so that a row over which we always fail is given up one day.
            if error.is_worlds_fault() {
                self.in_hand().remove(chat);
            }
        }
        said
    }
}

/// Writes down that a fault of ours came over a row: it may have arrived, or not.
async fn not_said(post: &Post, chat: &str, (id, tries, since): InHand) -> Result<(), StoreError> {
    let sent_twice = post.channels.of(chat).map_or(SentTwice::Never, |channel| channel.traits().sent_twice);
    let unsent = Unsent::Unknown("a fault of our own came over it; the log says more".into());
    let (then, now) = (after(&unsent, tries, sent_twice, post.unknown), post.world.now());
    post.store.delivery_failed(id, &unsent.to_string(), then, Some(since), now).await
}

/// How a row is marked as being sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Before it is sent.
    First,
    /// While it is sent, where the platform always knows our ids: if the mark is lost, the text is sent again and shown once.
    Soon,
}

/// Takes what is said next to a chat, once its platform may be sent something; `None`: we stop, or it is to be asked again.
async fn turn(post: &Post, chat: &str, mark: Mark) -> Result<Option<NextDelivery>, StoreError> {
    let channel = post.channels.of(chat);
    if channel.as_deref().is_some_and(Channel::reads_the_store) {
        failpoint::reach("deliver.saying");
        let more = post.store.said_all(chat, post.world.now()).await?;
        failpoint::reach("deliver.said");
        return Ok((!more).then_some(NextDelivery::Nothing));
    }
    let Some(channel) = channel else {
        return post.store.begin_delivery(chat, post.world.now()).await.map(Some);
    };
    // Nothing is marked before: a text that waits for its turn has certainly not arrived.
    let found = match post.store.next_delivery(chat, post.world.now()).await? {
        NextDelivery::Now(delivery) => delivery,
        later => return Ok(Some(later)),
    };
    let mut turn = channel.turn(chat, found.for_people);
    if post.stop.is_cancelled() {
        return Ok(None);
    }
    let at_once = (&mut turn).now_or_never().is_some();
    if at_once && mark == Mark::Soon && channel.traits().knows_our_ids() && found.growth.is_none() {
        let is_marked = post.store.mark_delivery(found.id, chat, post.world.now()).await?;
        // If it is not, a person gave it up, or its chat moved.
        return Ok(is_marked.then_some(NextDelivery::Now(found)));
    }
    // The text may be long, and so may the wait.
    let for_people = found.for_people;
    drop(found);
    if !at_once && until_stop(&post.stop, turn).await.is_none() {
        return Ok(None);
    }
    Ok(Some(match post.store.begin_delivery(chat, post.world.now()).await? {
        NextDelivery::Now(delivery) => NextDelivery::Now(Delivery { for_people, ..delivery }),
        other => other,
    }))
}

/// How long a platform may take for a part.
fn patience(part: &Part<'_>) -> Duration {
    match part.files.iter().map(|file| file.size).sum::<u64>() {
        0 => SEND_TIMEOUT,
        bytes => FILES_TIMEOUT + Duration::from_millis(bytes / SLOWEST),
    }
}

/// Returns the delivery as the channel can take it: without buttons if it has none, for the text of a card lists the answers
/// too; and with a line for each file that it does not take.
fn fitting<'a>(channel: &dyn Channel, delivery: &'a Delivery) -> Cow<'a, Delivery> {
    let traits = channel.traits();
    let goes =
        |file: &Attachment| if file.size <= traits.files.largest { Goes::Along } else { Goes::Nowhere };
    let files_fit = delivery.attachments.iter().all(|file| goes(file) == Goes::Along);
    if files_fit && (delivery.buttons.is_empty() || traits.buttons) {
        return Cow::Borrowed(delivery);
    }
    let buttons = if traits.buttons { delivery.buttons.clone() } else { Vec::new() };
    Cow::Owned(Delivery {
        buttons,
        text: told(&delivery.text, &delivery.attachments, goes),
        ..delivery.clone()
    })
}

/// Says one row.
async fn say(post: &Post, delivery: &Delivery) -> Result<(), StoreError> {
    let Some(channel) = post.channels.of(&delivery.chat_jid) else {
        let nobody = Unsent::refused(format!("no channel of this daemon owns {}", delivery.chat_jid));
        return not_taken(post, delivery, &nobody, SentTwice::Never, None).await;
    };
    let channel = &*channel;
    let delivery = &*fitting(channel, delivery);
    if delivery.growth == Some(Growth::Growing) && !channel.traits().edits {
        // It is said when it is whole; others do not wait for that.
        return post.store.shown_so_far(delivery, post.world.now(), post.world.now()).await;
    }
    let (mut first, mut in_doubt) = (true, delivery.in_doubt_since);
    let mut parts = parts_of(post, channel, delivery).await?;
    loop {
        match send_all(post, channel, delivery, parts, &mut first, in_doubt.take()).await? {
            Sent::Ended => return Ok(()),
            Sent::All => {}
        }
        if !change(post, channel, delivery, &mut first).await? {
            return Ok(());
        }
        parts = post.store.parts_of(delivery.id).await?;
    }
}

/// How far the parts of a row came.
enum Sent {
    /// The row is said, or it is known how it goes on with it.
    Ended,
    /// The platform has all parts of a text that was said before it was whole; they may be others now.
    All,
}

/// Sends the parts that the platform does not have. `first`: something may be sent at once. `in_doubt`: since when the first of
/// them may have arrived.
async fn send_all(
    post: &Post,
    channel: &dyn Channel,
    delivery: &Delivery,
    parts: Vec<OutboxPart>,
    first: &mut bool,
    mut in_doubt: Option<Time>,
) -> Result<Sent, StoreError> {
    let sent_twice = channel.traits().sent_twice;
    let count = parts.len();
    for (n, part) in (1..).zip(parts) {
        // An earlier try, or an earlier daemon, had it sent.
        if part.platform_id.is_some() {
            continue;
        }
        let text = &part.text.unwrap_or_else(|| bare(delivery));
        let last = usize::try_from(n).is_ok_and(|n| n == count);
        let files = part.files.and_then(|(first, last)| delivery.attachments.get(first - 1..last));
        let part = Part { of: delivery, n, text, files: files.unwrap_or_default(), last };
        let may_at_once = std::mem::take(first);
        // Nothing of this part is sent yet: where we stop, a restart begins with it.
        let turn = channel.turn(&delivery.chat_jid, delivery.for_people);
        if !may_at_once && until_stop(&post.stop, turn).await.is_none() {
            return Ok(Sent::Ended);
        }
        if !may_at_once || (delivery.growth.is_some() && in_doubt.is_none()) {
            post.store.part_begins(delivery.id, post.world.now()).await?;
        }
        let begun = in_doubt.unwrap_or_else(|| post.world.now());
        let outcome = match found(post, channel, part, in_doubt).await {
            Looked::Has(ids) => Ok(ids),
            Looked::Leave(why) => {
                let unsent = Unsent::Unknown(why);
                not_taken(post, delivery, &unsent, SentTwice::Never, in_doubt).await?;
                return Ok(Sent::Ended);
            }
            Looked::Send { doubtful } => {
                if !doubtful {
                    in_doubt = None;
                }
                let patience = patience(&part);
                tokio::time::timeout(patience, channel.send(part)).await.unwrap_or_else(|_| {
                    let why = format!("the platform did not answer in {} s", patience.as_secs());
                    Err(Unsent::Unknown(why))
                })
            }
        };
        failpoint::reach("deliver.sent");
        let (platform_id, more) = match outcome.map(Vec::into_iter) {
            // A platform that has no ids for texts calls it as we do.
            Ok(mut ids) => (ids.next().unwrap_or_else(|| part.key()), ids.collect::<Vec<_>>()),
            Err(unsent) => {
                let since = match &unsent {
                    Unsent::Unknown(_) => Some(begun),
                    Unsent::Not(_) => in_doubt,
                };
                not_taken(post, delivery, &unsent, sent_twice, since).await?;
                return Ok(Sent::Ended);
            }
        };
        tracing::debug!(outbox = delivery.id, part = n, platform_id, "said");
        if !more.is_empty() {
            post.store.more_ids(delivery.id, more).await?;
        }
        in_doubt = None;
        let now = post.world.now();
        if !last || delivery.growth.is_some() {
            post.store.part_sent(delivery.id, n, platform_id, now).await?;
        } else {
            post.store.delivered(delivery.id, n, platform_id, now).await?;
        }
    }
    Ok(if delivery.growth.is_some() { Sent::All } else { Sent::Ended })
}

/// Makes what the platform shows of a text that grows into what there is of it now; whether there are parts that are to be sent.
async fn change(
    post: &Post,
    channel: &dyn Channel,
    delivery: &Delivery,
    first: &mut bool,
) -> Result<bool, StoreError> {
    let id = delivery.id;
    let shown: Vec<(Rendered, Option<String>)> = post
        .store
        .parts_of(id)
        .await?
        .into_iter()
        .map(|part| (part.text.unwrap_or_default(), part.platform_id))
        .collect();
    let texts: Vec<Rendered> = shown.iter().map(|(text, _)| text.clone()).collect();
    let mut more = Vec::new();
    for step in steps(&texts, cut(post, channel, delivery).await) {
        let (n, what) = match step {
            Step::Add(_, text) => {
                more.push(text);
                continue;
            }
            Step::Change(n, text) => (n, Change::Text(text)),
            Step::Remove(n) => (n, Change::Deleted),
        };
        let Some((_, Some(platform_id))) = shown.get(n as usize - 1) else { continue };
        let turn = channel.turn(&delivery.chat_jid, delivery.for_people);
        if !std::mem::take(first) && until_stop(&post.stop, turn).await.is_none() {
            return Ok(false);
        }
        let changing = channel.amend(&delivery.chat_jid, platform_id, what.clone());
        let outcome = tokio::time::timeout(SEND_TIMEOUT, changing).await;
        match outcome.unwrap_or_else(|_| Err(Unsent::again("the platform did not answer in 60 s"))) {
            Ok(_) => {}
            // A text that is there already can stay; a later part is worth more than its removal.
            Err(Unsent::Not(NotSent::Refused { .. } | NotSent::Gone { .. })) if what == Change::Deleted => {}
            Err(unsent @ Unsent::Not(NotSent::Refused { .. } | NotSent::Gone { .. }))
                if delivery.growth == Some(Growth::Growing) =>
            {
                tracing::debug!(outbox = id, error = %chain(&unsent), "a text could not be changed while it grows");
                break;
            }
            Err(unsent) => {
                // To change it twice does no harm.
                let again = match unsent {
                    Unsent::Unknown(why) => Unsent::again(why),
                    not => not,
                };
                not_taken(post, delivery, &again, SentTwice::Never, None).await?;
                return Ok(false);
            }
        }
        match what {
            Change::Text(text) => post.store.part_changed(id, n, text).await?,
            Change::Deleted | Change::Reaction(_) => post.store.part_removed(id, n).await?,
        }
    }
    if !more.is_empty() {
        let part = |text| OutboxPart { text: Some(text), files: None, platform_id: None };
        post.store.lay_parts(id, more.into_iter().map(part).collect()).await?;
        return Ok(true);
    }
    let now = post.world.now();
    let pace = i64::try_from(channel.traits().growth_ms).unwrap_or(i64::MAX);
    post.store.shown_so_far(delivery, now.plus_ms(pace), now).await?;
    Ok(false)
}

/// How it goes on with a part, once it is known whether the platform has it.
enum Looked {
    Has(Vec<String>),
    /// `doubtful`: it may be there already, and that is no harm or is wished for.
    Send {
        doubtful: bool,
    },
    Leave(String),
}

/// Finds out whether a part that may have arrived has.
async fn found(post: &Post, channel: &dyn Channel, part: Part<'_>, since: Option<Time>) -> Looked {
    let Some(since) = since else { return Looked::Send { doubtful: false } };
    let age = post.world.now().ms_since(since).max(0);
    let sent_twice = channel.traits().sent_twice;
    let mut doubt = in_doubt(sent_twice, age, post.unknown);
    let mut why = "a try before this one may have arrived".to_owned();
    if doubt == Doubt::LookFirst {
        let looked = tokio::time::timeout(SEND_TIMEOUT, channel.look_for(part, since)).await;
        match looked.unwrap_or_else(|_| Found::CannotTell("the platform did not answer in 60 s".into())) {
            Found::Has(ids) => return Looked::Has(ids),
            Found::HasNot => return Looked::Send { doubtful: false },
            Found::CannotTell(told) => {
                tracing::warn!(
                    outbox = part.of.id,
                    why = told,
                    "the platform can't tell whether it has this text"
                );
                why = told;
            }
        }
        doubt = unasked(sent_twice, age, post.unknown);
    }
    match doubt {
        Doubt::Leave => Looked::Leave(why),
        Doubt::SendAgain | Doubt::LookFirst => Looked::Send { doubtful: true },
    }
}

/// Returns the parts of a row: those that an earlier try had cut, or as the platform takes them.
async fn parts_of(
    post: &Post,
    channel: &dyn Channel,
    delivery: &Delivery,
) -> Result<Vec<OutboxPart>, StoreError> {
    let whole = OutboxPart { text: None, files: None, platform_id: None };
    let Traits { text: limit, files, .. } = channel.traits();
    if delivery.is_laid {
        let known = post.store.parts_of(delivery.id).await?;
        if !known.is_empty() {
            return Ok(known);
        }
    }
    let Some(limit) = limit else { return Ok(vec![whole]) };
    let own = |text: &str| parts(text, delivery.is_markdown, limit);
    // A message of several files has no buttons.
    let takes = if delivery.buttons.is_empty() { files } else { Takes { together: 1, ..files } };
    let texts = cut(post, channel, delivery).await;
    let length = |text: &Rendered| text.size(limit.unit);
    let parcels = parcels(texts, &delivery.attachments, takes, own, length);
    let is_bare =
        |parcel: &Parcel<Rendered>| parcel.files.is_none() && parcel.text.as_ref() == Some(&bare(delivery));
    if delivery.growth.is_none() && (parcels.is_empty() || matches!(&parcels[..], [only] if is_bare(only))) {
        return Ok(vec![whole]);
    }
    let part = |parcel: Parcel<Rendered>| OutboxPart {
        text: Some(parcel.text.unwrap_or_default()),
        files: parcel.files,
        platform_id: None,
    };
    let parts: Vec<OutboxPart> = parcels.into_iter().map(part).collect();
    post.store.lay_parts(delivery.id, parts.clone()).await?;
    failpoint::reach("deliver.laid");
    Ok(parts)
}

/// Returns a row's text as the parts that the platform takes.
async fn cut(post: &Post, channel: &dyn Channel, delivery: &Delivery) -> Vec<Rendered> {
    let Some(limit) = channel.traits().text else { return vec![bare(delivery)] };
    let (text, is_markdown) = (delivery.text.clone(), delivery.is_markdown);
    let cut = move || parts(&text, is_markdown, limit);
    if delivery.text.len() <= LONG {
        return cut();
    }
    // A long text takes its time, in which others go on. Its panic is that of the delivery, as a short one's is.
    let panicked = |panicked: Panicked| std::panic::resume_unwind(Box::new(panicked.to_string()));
    post.world.blocking(cut).await.unwrap_or_else(panicked)
}

/// Returns a row's text as it is.
fn bare(delivery: &Delivery) -> Rendered {
    Rendered { text: delivery.text.clone(), ..Rendered::default() }
}

/// Writes down that the platform did not take a part, and decides how it goes on.
async fn not_taken(
    post: &Post,
    delivery: &Delivery,
    unsent: &Unsent,
    sent_twice: SentTwice,
    in_doubt: Option<Time>,
) -> Result<(), StoreError> {
    let then = after(unsent, delivery.attempts, sent_twice, post.unknown);
    let then = after_in_thread(then, unsent, InThread::of(delivery), in_doubt.is_some());
    tracing::warn!(outbox = delivery.id, error = %unsent, ?then, "could not be said");
    let noted =
        post.store.delivery_failed(delivery.id, &unsent.to_string(), then, in_doubt, post.world.now()).await;
    // The store may not take it, and the clock by which it says so may be set.
    if let Unsent::Not(NotSent::Busy { after_ms, .. }) = unsent {
        let until = post.world.monotonic().checked_add(Duration::from_millis(*after_ms));
        post.waits().extend(until.map(|until| (delivery.chat_jid.clone(), until)));
    }
    noted
}
