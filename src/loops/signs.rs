//! Puts a reaction to the newest message that an agent has in hand, where its group wants that (`seen`), and takes it away once
//! the agent has finished with it. Best effort: nothing waits for it, and nothing fails by it.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    channels::Channels,
    domain::{
        host::{errors::chain, feed::EventKind},
        platforms::{
            channels::Change,
            signs::{MOST, Sign, TRIES},
        },
    },
    store::{Store, StoreError},
    system::panics::caught,
};

/// How long a platform may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The rest before it is tried again to take a reaction away; it doubles each time.
const REST: Duration = Duration::from_secs(2);

/// Runs until the daemon stops. What is put then is taken away by the next daemon.
pub async fn run(store: Store, channels: Arc<Channels>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        never = follow(&store, &channels) => match never {},
    }
}

async fn follow(store: &Store, channels: &Arc<Channels>) -> Infallible {
    let mut feed = store.follow_kinds(&[EventKind::Handed, EventKind::Finished]).await;
    let mut at_work: JoinSet<i64> = JoinSet::new();
    // Each batch that is looked after, with what says that it is finished with.
    let mut known: BTreeMap<i64, CancellationToken> = BTreeMap::new();
    // Said once, however long the world is in the way.
    let mut is_unread = false;
    let failed = |error: StoreError, is_unread: &mut bool| {
        if !std::mem::replace(is_unread, true) {
            tracing::error!(error = %chain(&error), "reading what agents have in hand failed, so no reactions are put or taken away; it is tried again");
        }
    };
    let left = loop {
        match store.signs().await {
            Ok(left) => break left,
            Err(error) => failed(error, &mut is_unread),
        }
        tokio::time::sleep(REST).await;
    };
    for (batch, sign) in left {
        let (store, channels, over) = (store.clone(), Arc::clone(channels), CancellationToken::new());
        known.insert(batch, over.clone());
        at_work.spawn(async move {
            over.cancelled().await;
            if let Err(fault) = caught(take_away(&store, &channels, batch, &sign)).await {
                tracing::error!(batch, fault = %chain(&fault), "our own fault: a reaction stays until a restart");
            }
            batch
        });
    }
    let mut missed = true;
    loop {
        if missed {
            match store.in_hand() {
                Ok(now) => {
                    (missed, is_unread) = (false, false);
                    let now: Vec<i64> = now.into_iter().map(|(batch, _)| batch).collect();
                    known
                        .iter()
                        .filter(|(batch, _)| !now.contains(batch))
                        .for_each(|(_, over)| over.cancel());
                    now.iter().for_each(|batch| begin(store, channels, *batch, &mut known, &mut at_work));
                }
                Err(error) => failed(error, &mut is_unread),
            }
        }
        tokio::select! {
            news = feed.next() => {
                missed |= news.missed;
                for event in &news.events {
                    let Ok(batch) = event.subject.parse() else { continue };
                    if event.kind == EventKind::Handed {
                        begin(store, channels, batch, &mut known, &mut at_work);
                    } else if let Some(over) = known.get(&batch) {
                        over.cancel();
                    }
                }
            }
            Some(done) = at_work.join_next() => drop(done.map(|batch| known.remove(&batch))),
            () = tokio::time::sleep(REST), if missed => {}
        }
    }
}

/// Looks after a batch, if there is room for it and nobody does.
fn begin(
    store: &Store,
    channels: &Arc<Channels>,
    batch: i64,
    known: &mut BTreeMap<i64, CancellationToken>,
    at_work: &mut JoinSet<i64>,
) {
    if known.len() >= MOST || known.contains_key(&batch) {
        return;
    }
    let (store, channels, over) = (store.clone(), Arc::clone(channels), CancellationToken::new());
    known.insert(batch, over.clone());
    at_work.spawn(async move {
        loop {
            match caught(look_after(&store, &channels, batch, &over)).await {
                Ok(Ok(())) => return batch,
                Ok(Err(error)) => {
                    tracing::warn!(batch, error = %chain(&error), "a reaction can't be written down, and is not put; it is tried again");
                }
                Err(fault) => {
                    tracing::error!(batch, fault = %chain(&fault), "our own fault: a reaction is not put, or stays until a restart");
                    return batch;
                }
            }
            tokio::select! {
                () = over.cancelled() => return batch,
                () = tokio::time::sleep(REST) => {}
            }
        }
    });
}

/// Puts the reaction, and takes it away when the batch is finished with.
async fn look_after(
    store: &Store,
    channels: &Channels,
    batch: i64,
    over: &CancellationToken,
) -> Result<(), StoreError> {
    let Some(mut sign) = store.sign_of(batch).await? else { return Ok(()) };
    let Some(channel) = channels.of(&sign.chat_jid).filter(|channel| channel.traits().reacts) else {
        return Ok(());
    };
    store.put_sign(batch, sign.clone()).await?;
    let change = Change::Reaction(sign.sign.clone());
    let put = channel.amend(&sign.chat_jid, &sign.message_id, change);
    match tokio::time::timeout(PATIENCE, put).await {
        Ok(Ok(ids)) => {
            if let Some(id) = ids.into_iter().next().filter(|id| !id.is_empty()) {
                sign.sign_id = Some(id.clone());
                // It is there: it is taken away by what is known of it here.
                if let Err(error) = store.name_sign(batch, id).await {
                    tracing::warn!(batch, error = %chain(&error), "the platform's id of a reaction can't be written down");
                }
            }
        }
        Ok(Err(error)) => tracing::debug!(batch, error = %chain(&error), "a reaction could not be put"),
        Err(_) => tracing::debug!(batch, "a reaction was not put in time"),
    }
    over.cancelled().await;
    take_away(store, channels, batch, &sign).await;
    Ok(())
}

/// Takes the reaction away, and tries that again some times.
async fn take_away(store: &Store, channels: &Channels, batch: i64, sign: &Sign) {
    for n in 0..TRIES {
        let Some(channel) = channels.of(&sign.chat_jid) else { break };
        let (id, change) = sign.gone();
        match tokio::time::timeout(PATIENCE, channel.amend(&sign.chat_jid, id, change)).await {
            Ok(Ok(_)) => break,
            Ok(Err(error)) => {
                tracing::debug!(batch, error = %chain(&error), "a reaction could not be taken away")
            }
            Err(_) => tracing::debug!(batch, "a reaction was not taken away in time"),
        }
        if n + 1 < TRIES {
            tokio::time::sleep(REST * 2_u32.pow(n)).await;
        }
    }
    if let Err(error) = store.drop_sign(batch).await {
        tracing::warn!(batch, error = %chain(&error), "that a reaction is gone can't be written down");
    }
}
