//! Changes the cards of questions that are closed: they say what came of it, and lose their buttons. A row in `amends` says which,
//! so that a daemon goes on with what an earlier one left. A platform that changes no texts keeps its cards as they are.
//!
//! | on disk | a restart |
//! |---|---|
//! | the row, the card not said yet | waits until it is said, and changes it |
//! | the row, the platform not asked, or nobody knows | changes it; the same change twice is one |
//! | no row | has nothing to do |

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channel, Channels},
    domain::{
        heard::approvals::wording,
        host::{errors::chain, feed::EventKind},
        platforms::channels::{Change, NotSent, Unsent, parts},
        states::DeliveryStatus,
    },
    store::{Store, StoreError},
    system::{failpoint, panics::caught},
};

/// How many cards are looked after at a time.
const MOST: usize = 256;
/// How long a platform may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The rest before it is looked or tried again.
const REST: Duration = Duration::from_secs(2);
/// A change that fails so often is given up.
const TRIES: u32 = 8;

/// Runs until the daemon stops. The next daemon does the rest.
pub async fn run(store: Store, channels: Arc<Channels>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        never = follow(&store, &channels) => match never {},
    }
}

async fn follow(store: &Store, channels: &Arc<Channels>) -> Infallible {
    let mut feed = store.follow_kinds(&[EventKind::Question]).await;
    let (mut known, mut at_work) = (BTreeSet::new(), JoinSet::new());
    let mut is_unread = false;
    loop {
        match store.amends(MOST).await {
            Ok(cards) => {
                is_unread = false;
                for outbox in cards.into_iter().filter(|outbox| known.insert(*outbox)) {
                    at_work.spawn(look_after_one(store.clone(), Arc::clone(channels), outbox));
                }
            }
            // Said once, however long the world is in the way.
            Err(error) => {
                if !std::mem::replace(&mut is_unread, true) {
                    tracing::error!(error = %chain(&error), "reading closed questions failed, so their cards stay as they are; it is tried again");
                }
            }
        }
        tokio::select! {
            _ = feed.next() => {}
            Some(done) = at_work.join_next() => drop(done.map(|outbox| known.remove(&outbox))),
            () = tokio::time::sleep(REST), if is_unread => {}
        }
    }
}

/// Looks after a card, and returns it. If something is in the way it is looked for again; a card over which we panic is given up.
async fn look_after_one(store: Store, channels: Arc<Channels>, outbox: i64) -> i64 {
    let failed = match caught(look_after(&store, &channels, outbox)).await {
        Ok(done) => done,
        Err(fault) => {
            tracing::error!(outbox, fault = %chain(&fault), "our own fault: the card of a closed question stays as it is");
            store.drop_amend(outbox).await
        }
    };
    if let Err(error) = failed {
        tracing::warn!(outbox, error = %chain(&error), "the card of a closed question can't be looked after now; it is tried again");
        tokio::time::sleep(REST).await;
    }
    outbox
}

/// How it goes on with a card.
enum Then {
    Done,
    /// Not now, through nobody's fault.
    Later(Duration),
    /// It is tried again.
    Again,
}

/// Changes a card, however long its platform is away.
async fn look_after(store: &Store, channels: &Channels, outbox: i64) -> Result<(), StoreError> {
    let mut tries = 0;
    while tries < TRIES && store.amend(outbox).await?.is_some() {
        match change(store, channels, outbox).await? {
            Then::Done => break,
            Then::Later(rest) => tokio::time::sleep(rest).await,
            Then::Again => {
                tokio::time::sleep(REST * 2_u32.pow(tries)).await;
                tries += 1;
            }
        }
    }
    if store.amend(outbox).await?.is_some() {
        store.drop_amend(outbox).await?;
    }
    Ok(())
}

async fn change(store: &Store, channels: &Channels, outbox: i64) -> Result<Then, StoreError> {
    let Some(amend) = store.amend(outbox).await? else { return Ok(Then::Done) };
    match amend.status {
        DeliveryStatus::Sent => {}
        DeliveryStatus::Failed => return Ok(Then::Done),
        DeliveryStatus::Pending | DeliveryStatus::Sending | DeliveryStatus::Unknown => {
            return Ok(Then::Later(REST));
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
