//! Says what is to be said: one worker per chat that has something to say, so a slow chat delays no other, and each
//! works strictly by outbox id.

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channel, ChannelError, Channels},
    clock,
    domain::{
        errors::chain,
        feed::{EventKind, FeedEvent},
        retry,
        rows::Delivery,
    },
    failpoint,
    store::{NextDelivery, Store, StoreError, channel_of},
};

/// A delivery that fails so often is set aside as `failed`.
const TRIES: u32 = 8;
/// A platform that does not answer in this time has failed.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// What this loop works on.
#[derive(Clone)]
pub struct Post {
    pub store: Store,
    pub channels: Arc<Channels>,
    pub stop: CancellationToken,
}

/// Runs until the daemon stops; a delivery under way is finished first.
pub async fn run(post: Post) {
    let mut feed = match post.store.follow() {
        Ok(feed) => feed,
        Err(error) => return tracing::error!(%error, "reading the feed of changes failed; nothing is said"),
    };
    let mut workers = JoinSet::new();
    // Each chat at work, with what wakes it while it rests.
    let mut busy: BTreeMap<String, Arc<Notify>> = BTreeMap::new();
    let mut look = true;
    loop {
        if look {
            match post.store.chats_with_outbox() {
                Ok(chats) => {
                    for chat in chats {
                        let post = &post;
                        if let Entry::Vacant(free) = busy.entry(chat) {
                            let (wake, chat) = (Arc::<Notify>::default(), free.key().clone());
                            workers.spawn(empty(post.clone(), chat, Arc::clone(&wake)));
                            free.insert(wake);
                        }
                    }
                }
                Err(error) => tracing::error!(%error, "reading the outbox failed"),
            }
        }
        tokio::select! {
            () = post.stop.cancelled() => break,
            news = feed.next() => {
                let said = |event: &&Arc<FeedEvent>| event.kind == EventKind::Say;
                for chat in news.events.iter().filter(said).filter_map(|event| event.chat.as_deref()) {
                    match busy.get(chat) {
                        Some(wake) => wake.notify_one(),
                        None => look = true,
                    }
                }
                look |= news.missed;
            }
            Some(done) = workers.join_next() => {
                // The workers saw nothing more; rows that came in between are seen by this look, one for all of them.
                for chat in std::iter::once(done).chain(std::iter::from_fn(|| workers.try_join_next())).flatten() {
                    busy.remove(&chat);
                }
                look = true;
            }
        }
    }
    while workers.join_next().await.is_some() {}
}

/// Says everything that a chat has to say; returns the chat when there is nothing more.
async fn empty(post: Post, chat: String, wake: Arc<Notify>) -> String {
    let mut begun = None;
    loop {
        let next = match begun.take() {
            // Marked already: it goes out whatever is asked for meanwhile.
            Some(next) => Ok(next),
            None if post.stop.is_cancelled() => return chat,
            None => post.store.begin_delivery(&chat, clock::now()).await,
        };
        match next {
            Ok(NextDelivery::Now(delivery)) => {
                failpoint::reach("deliver.sending");
                match say(&post, &delivery).await {
                    Ok(next) => begun = next,
                    Err(error) => {
                        tracing::error!(%error, outbox = delivery.id, "recording a delivery failed; it is looked at again");
                        pause(&post, &wake, 1000).await;
                    }
                }
            }
            Ok(NextDelivery::NotBefore(at)) => {
                pause(&post, &wake, at.ms_since(clock::now()).clamp(1, 60_000).unsigned_abs()).await;
            }
            Ok(NextDelivery::Nothing) => return chat,
            Err(error) => {
                tracing::error!(%error, chat, "reading a chat's outbox failed; looking again in a second");
                pause(&post, &wake, 1000).await;
            }
        }
    }
}

/// Rests, until something more is to be said to the chat.
async fn pause(post: &Post, wake: &Notify, ms: u64) {
    tokio::select! {
        () = post.stop.cancelled() => {}
        () = wake.notified() => {}
        () = tokio::time::sleep(Duration::from_millis(ms)) => {}
    }
}

/// Returns what is said, without what the channel has no place for: the text of a card says what can be answered.
fn fitting<'a>(channel: &dyn Channel, delivery: &'a Delivery) -> Cow<'a, Delivery> {
    if delivery.buttons.is_empty() || channel.has_buttons() {
        return Cow::Borrowed(delivery);
    }
    Cow::Owned(Delivery { buttons: Vec::new(), ..delivery.clone() })
}

/// Says one row; returns what the chat has to say next, where it was taken along.
async fn say(post: &Post, delivery: &Delivery) -> Result<Option<NextDelivery>, StoreError> {
    let outcome = match post.channels.get(channel_of(&delivery.chat_jid)) {
        None => Err(ChannelError::Permanent(format!("no channel of this daemon owns {}", delivery.chat_jid))),
        Some(channel) => {
            match tokio::time::timeout(SEND_TIMEOUT, channel.send(&fitting(channel, delivery))).await {
                Ok(outcome) => outcome,
                Err(_) => Err(ChannelError::Transient("the platform did not answer in 60 s".into())),
            }
        }
    };
    failpoint::reach("deliver.sent");
    match outcome {
        Ok(()) => {
            let now = clock::now();
            let next = if post.stop.is_cancelled() {
                post.store.delivered(delivery.id, now).await?;
                None
            } else {
                Some(post.store.delivered_and_next(delivery.id, &delivery.chat_jid, now).await?)
            };
            tracing::debug!(outbox = delivery.id, chat = delivery.chat_jid, "said");
            Ok(next)
        }
        Err(error) => {
            let again = match &error {
                ChannelError::Transient(_) if delivery.attempts + 1 < TRIES => {
                    Some(clock::now().plus_ms(retry::delivery_rest_ms(delivery.attempts)))
                }
                ChannelError::Transient(_) | ChannelError::Permanent(_) => None,
            };
            tracing::warn!(outbox = delivery.id, chat = delivery.chat_jid, error = %chain(&error), again = again.is_some(), "could not be said");
            post.store.delivery_failed(delivery.id, &error.to_string(), again, clock::now()).await?;
            Ok(None)
        }
    }
}
