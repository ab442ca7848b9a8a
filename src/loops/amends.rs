//! Changes the cards of questions that are closed: they say what came of it, and lose their buttons. A row in `amends` says which,
//! so that a daemon goes on with what an earlier one left. A platform that changes no texts keeps its cards as they are.
//!
//! | on disk | a restart |
//! |---|---|
//! | the row, the card not said yet, or nobody knows | waits until that is known, and changes it if it was said |
//! | the row, the platform not asked, or nobody knows | changes it; the same change twice is one |
//! | no row | has nothing to do |

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channel, Channels},
    domain::{
        heard::approvals::wording,
        machine::loops::LoopName,
        platforms::channels::{Change, NotSent, Unsent, parts},
        shown::{errors::chain, feed::EventKind},
        states::DeliveryStatus,
    },
    engine::{self, Error, Loop, Plan, Why},
    store::{Store, StoreError},
    system::{failpoint, locked::Locked as _},
};

/// How many cards are looked after at a time.
const MOST: usize = 256;
/// How long a platform may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The rest before it is looked or tried again.
const REST: Duration = Duration::from_secs(2);
/// The least time between two looks.
const GATHER: Duration = Duration::from_millis(200);
/// A change that fails so often is given up.
const TRIES: u32 = 8;

/// Changes the cards of closed questions. The next daemon does what is left at a stop.
pub struct Amends(Arc<Cards>);

/// What the loop works with.
pub struct Cards {
    store: Store,
    channels: Arc<Channels>,
    /// How often the change of each card has failed.
    tries: Mutex<BTreeMap<i64, u32>>,
}

impl Amends {
    #[must_use]
    pub fn new(store: Store, channels: Arc<Channels>) -> Self {
        Self(Arc::new(Cards { store, channels, tries: Mutex::default() }))
    }
}

impl Loop for Amends {
    const NAME: LoopName = LoopName::Amends;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Question, EventKind::Said, EventKind::Unsaid];
    const AT_ONCE: usize = MOST;
    /// Each text that is said is news of a card that may have been it.
    const NOT_SOONER: Duration = GATHER;
    const FINISHES_WITHIN: Duration = Duration::ZERO;
    /// The number of the card's row in the outbox.
    type Key = i64;
    type Job = ();
    type Hands = Cards;

    fn hands(&self) -> Arc<Cards> {
        Arc::clone(&self.0)
    }

    async fn look(&mut self, _: &Why<i64>) -> Result<Plan<i64, ()>, Error> {
        let cards = self.0.store.amends(MOST).await?;
        // There may be more than are looked after at a time.
        let again = (cards.len() == MOST).then_some(REST);
        Ok(Plan { begin: cards.into_iter().map(|outbox| (outbox, ())).collect(), again, ..Plan::default() })
    }

    /// Changes a card, however long its platform is away.
    async fn perform(
        cards: Arc<Cards>,
        outbox: i64,
        (): (),
        _: CancellationToken,
    ) -> Result<engine::Then, Error> {
        match change(&cards.store, &cards.channels, outbox).await? {
            Then::Done => {}
            // The look that follows the news of it begins it again.
            Then::Unsaid => return Ok(engine::Then::Done),
            Then::Later(rest) => return Ok(engine::Then::After(rest)),
            Then::Again => {
                let tries = cards.count(outbox);
                if tries < TRIES {
                    return Ok(engine::Then::After(REST * 2_u32.pow(tries - 1)));
                }
                tracing::warn!(
                    outbox,
                    tries,
                    "the card of a closed question can't be changed, and stays as it is"
                );
            }
        }
        cards.store.drop_amend(outbox).await?;
        cards.tries.locked().remove(&outbox);
        Ok(engine::Then::Done)
    }
}

impl Cards {
    /// Counts a change that failed, and returns how many have.
    fn count(&self, outbox: i64) -> u32 {
        let mut tries = self.tries.locked();
        let of = tries.entry(outbox).or_default();
        *of += 1;
        *of
    }
}

/// How it goes on with a card.
enum Then {
    Done,
    /// The card is not said, or may not be.
    Unsaid,
    /// Not now, through nobody's fault.
    Later(Duration),
    /// It is tried again.
    Again,
}

async fn change(store: &Store, channels: &Channels, outbox: i64) -> Result<Then, StoreError> {
    let Some(amend) = store.amend(outbox).await? else { return Ok(Then::Done) };
    match amend.status {
        DeliveryStatus::Sent => {}
        DeliveryStatus::Failed => return Ok(Then::Done),
        DeliveryStatus::Pending | DeliveryStatus::Sending | DeliveryStatus::Unknown => {
            return Ok(Then::Unsaid);
        }
    }
    // The account may be gone, or not there yet.
    let Some(channel) = channels.of(&amend.chat_jid) else { return Ok(Then::Again) };
    if channel.reads_the_store() {
        return Ok(Then::Done);
    }
    // It is not known before what the platform can do.
    channel.turn(&amend.chat_jid, false).await;
    let traits = channel.traits();
    let (true, Some(limit)) = (traits.edits, traits.text) else { return Ok(Then::Done) };
    let (card, now) = (parts(&amend.card, false, limit), wording::closed(&amend.card, &amend.outcome));
    let now = parts(&now, false, limit);
    let known: Vec<String> =
        store.parts_of(outbox).await?.into_iter().filter_map(|part| part.platform_id).collect();
    failpoint::reach("amend.begun");
    for (n, id) in known.iter().enumerate() {
        let Some(text) = now.get(n).filter(|text| n + 1 == known.len() || card.get(n) != Some(text)) else {
            continue;
        };
        let then = amended(&*channel, &amend.chat_jid, id, Change::Text(text.clone())).await;
        if !matches!(then, Then::Done) {
            return Ok(then);
        }
    }
    failpoint::reach("amend.made");
    Ok(Then::Done)
}

async fn amended(channel: &dyn Channel, chat: &str, id: &str, change: Change) -> Then {
    let outcome = tokio::time::timeout(PATIENCE, channel.amend(chat, id, change)).await;
    let Ok(Err(error)) = outcome else { return if outcome.is_ok() { Then::Done } else { Then::Again } };
    tracing::debug!(chat, error = %chain(&error), "the card of a closed question could not be changed");
    match error {
        Unsent::Not(NotSent::Busy { after_ms, .. }) => {
            Then::Later(Duration::from_millis(after_ms.clamp(100, 3_600_000)))
        }
        Unsent::Not(NotSent::Offline) => Then::Later(REST),
        Unsent::Not(NotSent::Refused { .. } | NotSent::Gone { .. }) => Then::Done,
        Unsent::Not(NotSent::Again { .. }) | Unsent::Unknown(_) => Then::Again,
    }
}
