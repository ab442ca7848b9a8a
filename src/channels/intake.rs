//! The one way in. A channel hands over what its platform tells: a message, an edit, a deletion, a reaction, a pressed
//! button, the facts about a chat, and whether the platform is connected. When a method returns, that is durable, and
//! the platform may be told so; the loops read it from the feed.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use ipc_handlers::file::FileFault;

use crate::{
    domain::{
        platforms::{
            attachments::{Attachment, BLOCK, size},
            channels::{Connection, Mark},
            chats::ChatInfo,
        },
        rows::{Delivery, Inbound, Quoted},
    },
    store::{Accepted, Arrival, Arrived, Decided, Store, StoreError},
    system::{
        failpoint,
        media::{InHand, Media, NotKept},
        world::World,
    },
};

/// Why a file is missing, where the reason is in the log.
pub(super) const NOT_KEPT: &str = "the host could not keep it";

/// What came in goes here. Clones store in the same place.
#[derive(Clone)]
pub struct Intake {
    world: World,
    store: Store,
}

impl Intake {
    /// Takes everything into this store.
    #[must_use]
    pub fn new(world: World, store: Store) -> Self {
        Self { world, store }
    }

    /// Takes a message in, or an edit of one: that is an event of its own, with a key of its own and the id of the first
    /// message. An event that came before changes nothing.
    ///
    /// # Errors
    /// The store's; then nothing is stored, and the platform is to tell it again.
    pub async fn message(&self, message: Inbound) -> Result<Accepted, StoreError> {
        let accepted = self.store.accept(message, self.world.now()).await?;
        failpoint::reach("message.stored");
        if let Some(what) = &accepted.note {
            tracing::info!(seq = accepted.seq, what, "a message was no prompt, or not yet");
        }
        if accepted.made.is_some() {
            failpoint::reach("approval.made");
        }
        Ok(accepted)
    }

    /// Keeps a file that came with a message of `chat`: it lies at `path` below a folder of the channel's own, and is gone there
    /// afterwards. A file that can't be kept is told of with the reason. Hold the hand until the message is taken in.
    ///
    /// # Errors
    /// The store's; then the file is where it was.
    pub async fn file(
        &self,
        media: &Arc<Media>,
        chat: &str,
        (folder, path): (PathBuf, String),
        told: Attachment,
    ) -> Result<(Attachment, Option<InHand>), StoreError> {
        let limits = self.store.media_limits();
        let used = self.store.media_use(chat, self.world.now()).await?;
        let media = Arc::clone(media);
        let kept = self.world.blocking(move || media.take(&folder, &path, limits.largest)).await;
        let problem = match kept {
            Ok(Ok(hand)) => match limits.fault(used, hand.size.max(BLOCK)) {
                None => return Ok((told.kept(hand.digest, hand.size, hand.mime), Some(hand))),
                Some(fault) => fault.to_string(),
            },
            Ok(Err(NotKept::Fault(FileFault::TooLarge { size: is, most }))) => {
                format!("not kept: {}, the limit is {} MiB", size(is), most >> 20)
            }
            kept => {
                tracing::warn!(chat, ?kept, "a file that came in can't be kept");
                NOT_KEPT.to_owned()
            }
        };
        Ok((Attachment { digest: None, problem: Some(problem), ..told }, None))
    }

    /// Takes in that a message was deleted, or that a reaction was put to it or taken back. Returns whether the event is new.
    ///
    /// # Errors
    /// The store's.
    pub async fn mark(&self, mark: Mark) -> Result<bool, StoreError> {
        self.store.mark_message(mark, self.world.now()).await
    }

    /// Takes in that a button was pressed: `press` is what came with it, `user` the presser's id. Returns what they are told,
    /// and nobody else.
    ///
    /// # Errors
    /// The store's.
    pub async fn pressed(&self, press: &str, user: &str) -> Result<Decided, StoreError> {
        let decided = self.store.click(press, user, self.world.now()).await?;
        if decided.made.is_some() {
            failpoint::reach("approval.made");
        }
        Ok(decided)
    }

    /// Takes in what the platform knows of a chat.
    ///
    /// # Errors
    /// The store's.
    pub async fn chat(&self, jid: &str, info: ChatInfo) -> Result<(), StoreError> {
        self.store.know_chat(jid.to_owned(), info, self.world.now()).await
    }

    /// Takes in whether the platform is connected, and where it is not, why.
    ///
    /// # Errors
    /// The store's.
    pub async fn connection(
        &self,
        channel: &str,
        state: Connection,
        why: Option<String>,
    ) -> Result<(), StoreError> {
        tracing::info!(channel, %state, why = why.as_deref().unwrap_or("-"), "a platform's connection");
        self.store.set_connection(channel.to_owned(), state, why, self.world.now()).await
    }

    /// Notes for people that an account tells of more chats that nobody uses than are kept.
    ///
    /// # Errors
    /// The store's.
    pub async fn too_many_chats(&self, channel: &str) -> Result<(), StoreError> {
        self.store.note_too_many_chats(channel, self.world.now()).await
    }

    /// Takes in what an adapter tells, together with where it goes on after it.
    ///
    /// # Errors
    /// The store's; then nothing is stored, and it is to be told again.
    pub async fn arrival(
        &self,
        channel: &str,
        cursor: BTreeMap<String, String>,
        arrival: Arrival,
    ) -> Result<Arrived, StoreError> {
        let is_message = match &arrival {
            Arrival::By { then, .. } => matches!(**then, Arrival::Message(_)),
            other => matches!(other, Arrival::Message(_)),
        };
        let arrived = self.store.arrive(channel, cursor, arrival, self.world.now()).await?;
        if is_message {
            failpoint::reach("message.stored");
        }
        let made = match &arrived {
            Arrived::Message(accepted) => {
                if let Some(what) = &accepted.note {
                    tracing::info!(seq = accepted.seq, what, "a message was no prompt, or not yet");
                }
                accepted.made.is_some()
            }
            Arrived::Pressed(decided) => decided.made.is_some(),
            Arrived::NewChat | Arrived::TooManyChats | Arrived::Stored => false,
        };
        if made {
            failpoint::reach("approval.made");
        }
        Ok(arrived)
    }

    /// Returns the world that it was given.
    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// The store, for what only adapters of accounts keep there.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns what a chat has under the platform's id, for what quotes it.
    ///
    /// # Errors
    /// The store's.
    pub async fn quoted(&self, chat: &str, id: &str) -> Result<Option<Quoted>, StoreError> {
        self.store.quoted(chat, id).await
    }

    /// Returns what was said to a chat after the outbox row `after`, and what is being said, for a platform that reads it from us: at
    /// most `rows` texts, and no more after `bytes` bytes of them.
    ///
    /// # Errors
    /// The store's.
    pub async fn said_since(
        &self,
        chat: &str,
        after: i64,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.store.said_since(chat, after, rows, bytes).await
    }
}
