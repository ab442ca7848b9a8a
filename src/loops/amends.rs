//! Changes what of ours stands on platforms, chat by chat: the card of a question that is closed says what came of it, and loses its
//! buttons; the newest message that an agent has in hand has a reaction, where its group wants that (`seen`). Nothing waits for it. A
//! row in `amends` says what is to be changed, so that a daemon goes on with what an earlier one left. What a platform can't change
//! stays as it is.
//!
//! | on disk | a restart |
//! |---|---|
//! | a card's row, the question open | waits until it is closed |
//! | a card's row, the card not said yet, or nobody knows | waits until that is known, and changes it if it was said |
//! | a card's row, the platform not asked, or nobody knows | changes it; the same change twice is one |
//! | a batch in hand without a row | puts the reaction |
//! | a reaction's row, its batch in hand | waits until the agent has finished; the reaction is put once, whatever came of it |
//! | a reaction's row, its batch not in hand | takes it away; a second time changes nothing |
//! | the same, on a platform that names reactions (Matrix), and the name was not written down | gives it up; the reaction stays |
//! | no row | has nothing to do |

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channel, Channels},
    domain::{
        machine::loops::LoopName,
        platforms::{
            amends::{Amend, What},
            channels::{self, Outcome, SentTwice, Unsent, after},
        },
        rows::UnknownDeliveries,
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Error, Loop, Plan, Then, Why, rested},
    store::{Store, StoreError},
    system::{failpoint, locked::Locked as _},
};

/// How long a platform may take to change a card.
const CARD_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to put a reaction, or to take it away.
const REACTION_WITHIN: Duration = Duration::from_secs(10);
/// The rest before the name of a reaction is written down once more. A platform that is away rests as long, at least.
const REST: Duration = Duration::from_secs(2);
/// The same change twice is one.
const SHOWN_ONCE: SentTwice = SentTwice::Key { window_ms: None, readback: false };

/// Changes what is to be changed. The next daemon does what is left at a stop.
pub struct Amends(Arc<Pen>);

/// What the loop works with.
pub struct Pen {
    store: Store,
    channels: Arc<Channels>,
    /// How often the change of each row has failed.
    tries: Mutex<BTreeMap<i64, u32>>,
}

impl Amends {
    #[must_use]
    pub fn new(store: Store, channels: Arc<Channels>) -> Self {
        Self(Arc::new(Pen { store, channels, tries: Mutex::default() }))
    }
}

impl Loop for Amends {
    const NAME: LoopName = LoopName::Amends;
    const FOLLOWS: &'static [EventKind] =
        &[EventKind::Handed, EventKind::Finished, EventKind::Question, EventKind::Said, EventKind::Unsaid];
    /// A chat whose platform is away keeps no other back.
    const AT_ONCE: usize = usize::MAX;
    /// Each text that is said is news of a card that may have been it.
    const NOT_SOONER: Duration = Duration::from_millis(200);
    const FINISHES_WITHIN: Duration = Duration::ZERO;
    /// The chat.
    type Key = String;
    type Job = ();
    type Hands = Pen;

    fn hands(&self) -> Arc<Pen> {
        Arc::clone(&self.0)
    }

    async fn look(&mut self, _: &Why<String>) -> Result<Plan<String, ()>, Error> {
        let all = self.0.store.amends(None).await?;
        let chats: BTreeSet<String> = all.into_iter().map(|amend| amend.chat_jid).collect();
        Ok(Plan { begin: chats.into_iter().map(|chat| (chat, ())).collect(), ..Plan::default() })
    }

    async fn perform(pen: Arc<Pen>, chat: String, (): (), stop: CancellationToken) -> Result<Then, Error> {
        let channel = pen.channels.of(&chat);
        // It is not known before the first connection what a platform can do.
        if let Some(channel) = channel.as_ref().filter(|channel| channel.traits().text.is_none()) {
            channel.turn(&chat, false).await;
        }
        let (mut rest, mut is_other) = (None, false);
        for amend in pen.store.amends(Some(&chat)).await? {
            match pen.amend(channel.as_deref(), &amend, &stop).await? {
                Came::Nothing => {}
                Came::RowChanged => is_other = true,
                // What comes behind it does not wait for it.
                Came::RowRests(of_row) => rest = Some(rest.map_or(of_row, |rest: Duration| rest.min(of_row))),
                Came::ChatRests(of_chat) => return Ok(Then::After(of_chat)),
            }
        }
        Ok(match rest {
            Some(rest) => Then::After(rest),
            // Batches may have ended, or come back, since the list was read.
            None if is_other => Then::Again,
            None => Then::Done,
        })
    }
}

/// What came of a change.
enum Came {
    Nothing,
    /// The row is made, or gone: the platform shows the change, or it is given up.
    RowChanged,
    /// It failed, and is tried again.
    RowRests(Duration),
    /// The platform can't be asked now.
    ChatRests(Duration),
}

impl Pen {
    /// Makes a change.
    async fn amend(
        &self,
        channel: Option<&dyn Channel>,
        amend: &Amend,
        stop: &CancellationToken,
    ) -> Result<Came, StoreError> {
        let chat = &amend.chat_jid;
        let (row, is_put) = match &amend.what {
            // It was never said.
            What::Close { row, ids, .. } if ids.is_empty() => return self.drop(*row).await,
            What::TakeAway { row, .. } | What::Close { row, .. } => (*row, false),
            What::Put { batch, message_id, .. } => {
                if channel.is_none_or(|channel| amend.what.changes(&channel.traits()).is_empty()) {
                    return Ok(Came::Nothing);
                }
                (self.store.put_sign(*batch, chat, message_id).await?, true)
            }
        };
        match tell(channel, amend).await {
            Ok(ids) if is_put => {
                self.name(row, ids, stop).await?;
                return Ok(Came::RowChanged);
            }
            Ok(_) => {}
            Err(unsent) => {
                tracing::debug!(row, chat, error = %chain(&unsent), "a change of ours was not made");
                let tries = self.tries.locked().get(&row).copied().unwrap_or_default();
                match after(&unsent, tries, SHOWN_ONCE, UnknownDeliveries::Leave) {
                    channels::Then::Again { after_ms, counts: false } => {
                        return Ok(Came::ChatRests(Duration::from_millis(after_ms.unsigned_abs()).max(REST)));
                    }
                    // It is put once.
                    _ if is_put => return Ok(Came::RowChanged),
                    channels::Then::Again { after_ms, counts: true } => {
                        self.tries.locked().insert(row, tries + 1);
                        return Ok(Came::RowRests(Duration::from_millis(after_ms.unsigned_abs())));
                    }
                    channels::Then::AgainUnknown { .. }
                    | channels::Then::WithoutThread
                    | channels::Then::GiveUp
                    | channels::Then::Gone(_)
                        if matches!(amend.what, What::Close { .. }) =>
                    {
                        tracing::warn!(row, chat, error = %chain(&unsent), "the card of a closed question can't be changed, and stays as it is");
                    }
                    channels::Then::AgainUnknown { .. }
                    | channels::Then::WithoutThread
                    | channels::Then::GiveUp
                    | channels::Then::Gone(_) => {}
                }
            }
        }
        self.drop(row).await
    }

    /// The platform shows a change, or it is given up.
    async fn drop(&self, row: i64) -> Result<Came, StoreError> {
        self.store.drop_amend(row).await?;
        self.tries.locked().remove(&row);
        Ok(Came::RowChanged)
    }

    /// Writes down what the platform calls a reaction. It is told once, so a full disk is waited for.
    async fn name(&self, row: i64, ids: Vec<String>, stop: &CancellationToken) -> Result<(), StoreError> {
        let Some(id) = ids.into_iter().next().filter(|id| !id.is_empty()) else { return Ok(()) };
        while let Err(error) = self.store.name_sign(row, id.clone()).await {
            if !error.is_worlds_fault() || rested(stop, REST).await {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Has the platform make a change. Returns its id of what is new there.
async fn tell(channel: Option<&dyn Channel>, amend: &Amend) -> Outcome {
    // The account may be gone, or not there yet.
    let Some(channel) = channel else { return Err(Unsent::again("no channel of this daemon owns the chat")) };
    let within = match amend.what {
        What::Close { .. } => {
            channel.turn(&amend.chat_jid, false).await;
            failpoint::reach("amend.begun");
            CARD_WITHIN
        }
        // A reaction takes no text's turn.
        What::Put { .. } | What::TakeAway { .. } => REACTION_WITHIN,
    };
    let mut ids = Vec::new();
    for (id, change) in amend.what.changes(&channel.traits()) {
        let made = tokio::time::timeout(within, channel.amend(&amend.chat_jid, id, change)).await;
        ids = made.unwrap_or_else(|_| Err(Unsent::again("the platform did not answer in time")))?;
    }
    failpoint::reach("amend.made");
    Ok(ids)
}
