//! Files of messages that are heard: fetches them, and has hooks read them. A message waits meanwhile, and goes on without what
//! can't be had.
//!
//! | crash after | a restart |
//! |---|---|
//! | the message is held | asks for its files |
//! | a file is in the adapter's spool | asks for it again; the spool is empty |
//! | it is kept, no row names it | removes it, and asks for it again |
//! | its row says so | has a hook read it, or judges the message |
//! | a hook runs | kills nothing, for the hook died with the daemon; has it read again |

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc, time::Duration};

use ipc_handlers::file::FileFault;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channels, Fetched, NotFetched},
    config::Live,
    domain::{
        host::{errors::chain, feed::EventKind},
        platforms::attachments::{BLOCK, MediaUse, NOT_FETCHED, shown_at, size},
    },
    store::{FileRead, FileStep, FileWork, Store, StoreError},
    system::{
        clock,
        confine::Reach,
        failpoint,
        hook::{self, Hook},
        media::{Media, NotKept},
    },
};

/// How many files are worked on at once, and how many of one chat.
const AT_ONCE: usize = 16;
const OF_A_CHAT: usize = 2;
/// How many hooks run at once; of one group one.
const HOOKS: usize = 2;
/// How long a channel may take to fetch a file.
const FETCH: Duration = Duration::from_secs(120);
/// How often a file is tried.
const TRIES: u32 = 3;
/// The rest after a try that failed, and after one without a connection, ms.
const REST_MS: i64 = 2000;
const OFFLINE_MS: i64 = 1000;
/// How often it is looked, whatever is heard.
const LOOK: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The parts of the daemon that this loop needs.
pub struct Files {
    pub config: Arc<Live>,
    /// The folder of hooks' folders.
    pub work: PathBuf,
    /// This program, which shuts hooks in.
    pub program: PathBuf,
    /// The folder in which hooks' process groups are noted.
    pub notes: PathBuf,
    pub store: Store,
    pub media: Arc<Media>,
    pub channels: Arc<Channels>,
    pub stop: CancellationToken,
}

/// Runs until the daemon stops. What is under way then is begun anew by the next one.
pub async fn run(files: Arc<Files>) {
    hook::clean(&files.work);
    let mut feed = files.store.follow_kinds(&[EventKind::Inbox]).await;
    let mut workers = JoinSet::new();
    let mut busy = BTreeMap::new();
    loop {
        let next = match files.store.file_work(OF_A_CHAT).await {
            Ok(work) => files.begin(work, &mut workers, &mut busy),
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading which files are wanted failed");
                LOOK_AGAIN
            }
        };
        tokio::select! {
            () = files.stop.cancelled() => break,
            _ = feed.next() => {}
            Some(done) = workers.join_next_with_id() => {
                let id = match done {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(error = %chain(&error), "our own fault: the work on a file failed");
                        error.id()
                    }
                };
                busy.remove(&id);
            }
            () = tokio::time::sleep(next) => {}
        }
    }
    workers.shutdown().await;
}

type Busy = BTreeMap<tokio::task::Id, FileWork>;

impl Files {
    /// Begins what can be begun, and returns when to look again.
    fn begin(self: &Arc<Self>, work: Vec<FileWork>, workers: &mut JoinSet<()>, busy: &mut Busy) -> Duration {
        let now = clock::now();
        let mut next = LOOK;
        for work in work {
            if busy.values().any(|other| other.id == work.id) {
                continue;
            }
            if let Some(at) = work.next_at.filter(|at| *at > now && work.until > now) {
                let wait = at.ms_since(now).clamp(1, REST_MS).unsigned_abs();
                next = next.min(Duration::from_millis(wait));
                continue;
            }
            let reads = |other: &&FileWork| other.step == FileStep::Read;
            let has_place = busy.len() < AT_ONCE
                && busy.values().filter(|other| other.chat_jid == work.chat_jid).count() < OF_A_CHAT;
            let has_hook = work.step == FileStep::Fetch
                || (busy.values().filter(reads).count() < HOOKS
                    && !busy.values().filter(reads).any(|other| other.whose == work.whose));
            // The end of another looks again.
            if has_place && has_hook {
                let (this, of) = (Arc::clone(self), work.clone());
                let task = workers.spawn(async move { this.work_on(&of).await });
                busy.insert(task.id(), work);
            }
        }
        next
    }

    async fn work_on(&self, work: &FileWork) {
        let done = match work.step {
            FileStep::Fetch => self.fetch(work).await,
            FileStep::Read => self.read(work).await,
        };
        if let Err(error) = done {
            tracing::error!(error = %chain(&error), seq = work.seq, "writing down what became of a file failed; it is tried again");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn left(work: &FileWork) -> Duration {
        Duration::from_millis(work.until.ms_since(clock::now()).max(0).unsigned_abs())
    }

    async fn fetch(&self, work: &FileWork) -> Result<(), StoreError> {
        let limits = self.config.now().media.limits();
        let own = work.file.size.max(BLOCK);
        let used = self.store.media_use(&work.chat_jid, clock::now()).await?;
        // What it is told to have counts already.
        let used = MediaUse { chat_hour: used.chat_hour.saturating_sub(own), ..used };
        let too_large = |is: u64| format!("{}, the limit is {} MiB", size(is), limits.largest >> 20);
        if work.file.size > limits.largest {
            return self.missing(work, &too_large(work.file.size)).await;
        }
        if let Some(fault) = limits.fault(used, own) {
            return self.missing(work, &fault.to_string()).await;
        }
        let left = Self::left(work);
        if left.is_zero() {
            return self.missing(work, "there was no connection, or it took too long").await;
        }
        let Some(channel) = self.channels.of(&work.chat_jid) else {
            return self.missing(work, "no channel of this daemon owns its chat").await;
        };
        let most = limits.largest.min(limits.chat_hour - used.chat_hour).min(limits.all - used.all);
        let fetched = timeout(FETCH.min(left), channel.fetch(&work.chat_jid, &work.what, most)).await;
        let Fetched { folder, place } = match fetched {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(NotFetched::Offline)) => {
                let next = clock::now().plus_ms(OFFLINE_MS);
                return self.store.file_again(work.id, next, false).await;
            }
            Ok(Err(NotFetched::Failed(why))) => return self.failed(work, &why).await,
            Err(_) => return self.failed(work, "the platform took too long").await,
        };
        failpoint::reach("file.fetched");
        let (media, from, at) = (Arc::clone(&self.media), folder.clone(), place.clone());
        let kept = spawn_blocking(move || media.take(&from, &at, most)).await;
        match kept.map_err(|error| NotKept::World(io::Error::other(error))).and_then(|kept| kept) {
            Ok(hand) => {
                let file = work.file.clone().kept(hand.digest, hand.size, hand.mime);
                let reads = self.config.now().media.hooks.of(file.kind).is_some();
                self.store.file_fetched(work.id, file, reads).await?;
                failpoint::reach("file.settled");
                Ok(())
            }
            Err(error) => {
                self.media.discard(&folder, &place);
                match error {
                    NotKept::Fault(FileFault::TooLarge { size, .. }) => {
                        self.missing(work, &too_large(size)).await
                    }
                    NotKept::Fault(fault) => {
                        self.failed(work, &format!("what came is no file ({fault:?})")).await
                    }
                    NotKept::World(error) => {
                        tracing::warn!(error = %chain(&error), "a file that was fetched can't be kept");
                        self.failed(work, "the host could not keep it").await
                    }
                }
            }
        }
    }

    /// A try failed; after some of them there is no file.
    async fn failed(&self, work: &FileWork, why: &str) -> Result<(), StoreError> {
        tracing::info!(
            chat = work.chat_jid,
            seq = work.seq,
            why,
            tries = work.tries + 1,
            "a file was not fetched"
        );
        if work.tries + 1 >= TRIES {
            return self.missing(work, why).await;
        }
        self.store.file_again(work.id, clock::now().plus_ms(REST_MS), true).await
    }

    async fn missing(&self, work: &FileWork, why: &str) -> Result<(), StoreError> {
        self.store.file_missing(work.id, format!("{NOT_FETCHED}: {why}")).await
    }

    /// Has a hook read a file, where there is one for its kind.
    async fn read(&self, work: &FileWork) -> Result<(), StoreError> {
        let config = self.config.now();
        let hooks = &config.media.hooks;
        let (Some(command), Some(digest)) = (hooks.of(work.file.kind), work.file.digest) else {
            return self.store.file_read(work.id, FileRead::Nobody).await;
        };
        let within = hooks.within.min(Self::left(work));
        let hook = Hook {
            program: &self.program,
            notes: &self.notes,
            command,
            reads: &hooks.reads,
            work: self.work.join(work.id.to_string()),
            // Its name ends as the sender's does, which tells programs its type.
            place: shown_at("in", work.seq, 1, &work.file.name),
            within,
            reach: if hooks.network { Reach::Network } else { Reach::Nobody },
        };
        let read = hook.run(&self.media, digest).await;
        failpoint::reach("file.heard");
        let read = match read {
            Ok(words) => FileRead::Words(words),
            Err(error) => {
                tracing::warn!(chat = work.chat_jid, seq = work.seq, kind = %work.file.kind, error = %chain(&error), "a hook did not read a file");
                FileRead::Unread(error.to_string())
            }
        };
        self.store.file_read(work.id, read).await
    }
}
