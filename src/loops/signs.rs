//! Puts a reaction to the newest message that an agent has in hand, where its group wants that (`seen`), and takes it away once
//! the agent has finished with it. Best effort: nothing waits for it, and nothing fails by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    channels::Channels,
    domain::{
        machine::loops::LoopName,
        platforms::{
            channels::Change,
            signs::{MOST, Sign, TRIES},
        },
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Error, Loop, Plan, Then, Why},
    store::{Store, StoreError},
    system::locked::Locked as _,
};

/// How long a platform may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The rest before it is tried again to take a reaction away; it doubles each time.
const REST: Duration = Duration::from_secs(2);

/// Puts reactions, and takes them away. One that is put at a stop is taken away by the next daemon.
pub struct Signs {
    board: Arc<Board>,
    /// The batches for which a reaction was to be put, at most [`MOST`].
    put: BTreeSet<i64>,
}

/// What the loop works with.
pub struct Board {
    store: Store,
    channels: Arc<Channels>,
    /// How often it was tried to take a reaction away.
    tries: Mutex<BTreeMap<i64, u32>>,
    /// What the platform calls reactions, where that could not be written down.
    unnamed: Mutex<BTreeMap<i64, String>>,
}

/// The work for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    Put,
    /// The agent has finished with it.
    TakeAway,
}

impl Signs {
    #[must_use]
    pub fn new(store: Store, channels: Arc<Channels>) -> Self {
        let board = Board { store, channels, tries: Mutex::default(), unnamed: Mutex::default() };
        Self { board: Arc::new(board), put: BTreeSet::new() }
    }
}

impl Loop for Signs {
    const NAME: LoopName = LoopName::Signs;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Handed, EventKind::Finished];
    const AT_ONCE: usize = MOST;
    const FINISHES_WITHIN: Duration = Duration::ZERO;
    /// The number of the batch.
    type Key = i64;
    type Job = Job;
    type Hands = Board;

    fn hands(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    async fn look(&mut self, why: &Why<i64>) -> Result<Plan<i64, Job>, Error> {
        let mut wake = Vec::new();
        let mut put = self.put.clone();
        if why.all {
            let now: BTreeSet<i64> =
                self.board.store.in_hand()?.into_iter().map(|(batch, _)| batch).collect();
            let left = self.board.store.signs().await?.into_iter().map(|(batch, _)| batch);
            // Those of an earlier daemon, and those whose end was missed.
            let over: BTreeSet<i64> =
                left.chain(put.iter().copied()).filter(|batch| !now.contains(batch)).collect();
            put.retain(|batch| !over.contains(batch));
            wake.extend(over.into_iter().map(|batch| (batch, Job::TakeAway)));
            for batch in now {
                if put.len() < MOST && put.insert(batch) {
                    wake.push((batch, Job::Put));
                }
            }
        }
        for event in &why.events {
            let Ok(batch) = event.subject.parse() else { continue };
            if event.kind == EventKind::Handed {
                if put.len() < MOST && put.insert(batch) {
                    wake.push((batch, Job::Put));
                }
            } else if put.remove(&batch) {
                wake.push((batch, Job::TakeAway));
            }
        }
        self.put = put;
        Ok(Plan { wake, ..Plan::default() })
    }

    async fn perform(board: Arc<Board>, batch: i64, job: Job, _: CancellationToken) -> Result<Then, Error> {
        match job {
            Job::Put => Ok(board.put(batch).await?),
            Job::TakeAway => Ok(board.take_away(batch).await?),
        }
    }
}

impl Board {
    /// Puts the reaction, where there is to be one.
    async fn put(&self, batch: i64) -> Result<Then, StoreError> {
        if self.store.sign_put(batch).await?.is_some() {
            return self.name(batch).await;
        }
        let Some(sign) = self.store.sign_of(batch).await? else { return Ok(Then::Done) };
        let Some(channel) = self.channels.of(&sign.chat_jid).filter(|channel| channel.traits().reacts) else {
            return Ok(Then::Done);
        };
        self.store.put_sign(batch, sign.clone()).await?;
        let put = channel.amend(&sign.chat_jid, &sign.message_id, Change::Reaction(sign.sign.clone()));
        match tokio::time::timeout(PATIENCE, put).await {
            Ok(Ok(ids)) => {
                if let Some(id) = ids.into_iter().next().filter(|id| !id.is_empty()) {
                    self.unnamed.locked().insert(batch, id);
                }
            }
            Ok(Err(error)) => tracing::debug!(batch, error = %chain(&error), "a reaction could not be put"),
            Err(_) => tracing::debug!(batch, "a reaction was not put in time"),
        }
        self.name(batch).await
    }

    /// Writes down what the platform calls a reaction, where that is not done yet.
    async fn name(&self, batch: i64) -> Result<Then, StoreError> {
        let id = self.unnamed.locked().get(&batch).cloned();
        if let Some(id) = id {
            self.store.name_sign(batch, id).await?;
            self.unnamed.locked().remove(&batch);
        }
        Ok(Then::Done)
    }

    /// Takes the reaction away, if there is one, and tries that some times.
    async fn take_away(&self, batch: i64) -> Result<Then, StoreError> {
        let Some(mut sign) = self.store.sign_put(batch).await? else { return Ok(Then::Done) };
        let unnamed = self.unnamed.locked().get(&batch).cloned();
        sign.sign_id = sign.sign_id.or(unnamed);
        if !self.is_away(batch, &sign).await {
            let mut tries = self.tries.locked();
            let n = tries.entry(batch).or_default();
            *n += 1;
            if *n < TRIES {
                return Ok(Then::After(REST * 2_u32.pow(*n - 1)));
            }
        }
        self.store.drop_sign(batch).await?;
        self.tries.locked().remove(&batch);
        self.unnamed.locked().remove(&batch);
        Ok(Then::Done)
    }

    /// Tries to take a reaction away; whether there is nothing more to try.
    async fn is_away(&self, batch: i64, sign: &Sign) -> bool {
        let Some(channel) = self.channels.of(&sign.chat_jid) else { return true };
        let (id, change) = sign.gone();
        match tokio::time::timeout(PATIENCE, channel.amend(&sign.chat_jid, id, change)).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => {
                tracing::debug!(batch, error = %chain(&error), "a reaction could not be taken away")
            }
            Err(_) => tracing::debug!(batch, "a reaction was not taken away in time"),
        }
        false
    }
}
