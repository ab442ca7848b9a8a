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

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ipc_handlers::{Time, file::FileFault};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channels, Fetched, NotFetched},
    config::Live,
    domain::{
        machine::loops::LoopName,
        platforms::attachments::{BLOCK, MediaUse, NOT_FETCHED, shown_at, size},
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Error, Loop, Plan, Then, Why},
    store::{FileRead, FileStep, FileWork, Store, StoreError},
    system::{
        confine::Reach,
        failpoint,
        hook::{self, Hook},
        locked::Locked as _,
        media::{Media, NotKept},
        panics::caught,
        world::World,
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
/// The rest of a file that is tried again and finds no place.
const NO_PLACE: Duration = Duration::from_secs(1);

/// The parts of the daemon that this loop needs.
pub struct Files {
    pub world: World,
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
}

/// Fetches files and has them read. Work under way at a stop is begun anew by the next daemon.
pub struct Fetching {
    desk: Arc<Desk>,
    /// What hooks of an earlier daemon have left is removed.
    is_clean: bool,
}

/// What the loop works with.
pub struct Desk {
    files: Files,
    places: Mutex<Places>,
}

/// Which files are worked on, and which are the engine's to try again.
#[derive(Default)]
struct Places {
    busy: BTreeMap<i64, FileWork>,
    failing: BTreeSet<i64>,
}

impl Places {
    /// Takes a place for a file, if there is one for it.
    fn take(&mut self, work: &FileWork) -> bool {
        let reads = |other: &&FileWork| other.step == FileStep::Read;
        let has_place = self.busy.len() < AT_ONCE
            && self.busy.values().filter(|other| other.chat_jid == work.chat_jid).count() < OF_A_CHAT;
        let has_hook = work.step == FileStep::Fetch
            || (self.busy.values().filter(reads).count() < HOOKS
                && !self.busy.values().filter(reads).any(|other| other.whose == work.whose));
        let has = has_place && has_hook;
        if has {
            self.busy.insert(work.id, work.clone());
        }
        has
    }

    /// Takes places for what can be begun now. Returns which files those are, and when to look again: the end of each looks, too.
    fn begin(&mut self, work: Vec<FileWork>, now: Time) -> (Vec<i64>, Duration) {
        let (mut begun, mut next) = (Vec::new(), LOOK);
        for work in work {
            if self.busy.contains_key(&work.id) || self.failing.contains(&work.id) {
                continue;
            }
            if let Some(at) = work.next_at.filter(|at| *at > now && work.until > now) {
                let wait = at.ms_since(now).clamp(1, REST_MS).unsigned_abs();
                next = next.min(Duration::from_millis(wait));
            } else if self.take(&work) {
                begun.push(work.id);
            }
        }
        (begun, next)
    }
}

/// A file's place, until this is dropped. Unless it is done by then, the engine tries it again.
struct Place<'a> {
    desk: &'a Desk,
    id: i64,
    done: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.desk.places();
        places.busy.remove(&self.id);
        match self.done {
            true => drop(places.failing.remove(&self.id)),
            false => drop(places.failing.insert(self.id)),
        }
    }
}

impl Fetching {
    #[must_use]
    pub fn new(files: Files) -> Self {
        Self { desk: Arc::new(Desk { files, places: Mutex::default() }), is_clean: false }
    }
}

impl Loop for Fetching {
    const NAME: LoopName = LoopName::Files;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Inbox];
    const AT_ONCE: usize = AT_ONCE;
    const LOOKS_AT_ENDS: bool = true;
    /// The number of the file's row.
    type Key = i64;
    type Job = ();
    type Hands = Desk;

    fn hands(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }

    async fn look(&mut self, _: &Why<i64>) -> Result<Plan<i64, ()>, Error> {
        if !self.is_clean {
            let Files { world, work, .. } = &self.desk.files;
            let work = work.clone();
            if let Err(error) = world.tried(move || hook::clean(&work)).await {
                // Each hook removes what is in its way.
                tracing::warn!(error = %chain(&error), "what hooks of an earlier daemon have left can't be removed");
            }
            self.is_clean = true;
        }
        let work = self.desk.files.store.file_work(OF_A_CHAT).await?;
        let (begun, next) = self.desk.places().begin(work, self.desk.files.world.now());
        let wake = begun.into_iter().map(|id| (id, ())).collect();
        Ok(Plan { wake, again: Some(next), ..Plan::default() })
    }

    async fn perform(desk: Arc<Desk>, id: i64, (): (), stop: CancellationToken) -> Result<Then, Error> {
        let known = desk.places().busy.get(&id).cloned();
        let mut place = Place { desk: &desk, id, done: false };
        let work = match known {
            Some(work) => work,
            // It failed before. Meanwhile it may have become another step, or nobody's wish.
            None => {
                let all = desk.files.store.file_work(OF_A_CHAT).await?;
                let Some(work) = all.into_iter().find(|work| work.id == id) else {
                    place.done = true;
                    return Ok(Then::Done);
                };
                if !desk.places().take(&work) {
                    return Ok(Then::After(NO_PLACE));
                }
                work
            }
        };
        // The next daemon begins it anew.
        if let Some(worked) = stop.run_until_cancelled(desk.files.work_on(&work)).await {
            worked?;
        }
        place.done = true;
        Ok(Then::Done)
    }
}

impl Desk {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.locked()
    }
}

impl Files {
    /// Works on a file. A panic counts as a try: its message is not to wait for ever.
    async fn work_on(&self, work: &FileWork) -> Result<(), StoreError> {
        let worked = async {
            match work.step {
                FileStep::Fetch => self.fetch(work).await,
                FileStep::Read => self.read(work).await,
            }
        };
        let fault = match caught(worked).await {
            Ok(done) => return done,
            Err(fault) => fault,
        };
        tracing::error!(seq = work.seq, fault = %chain(&fault), "our own fault: the work on a file panicked");
        let why = "a fault of our own came over it; the log says more";
        match work.step {
            FileStep::Fetch => self.failed(work, why).await,
            FileStep::Read => self.store.file_read(work.id, FileRead::Unread(why.into())).await,
        }
    }

    fn left(&self, work: &FileWork) -> Duration {
        Duration::from_millis(work.until.ms_since(self.world.now()).max(0).unsigned_abs())
    }

    async fn fetch(&self, work: &FileWork) -> Result<(), StoreError> {
        let limits = self.config.now().media.limits();
        let own = work.file.size.max(BLOCK);
        let used = self.store.media_use(&work.chat_jid, self.world.now()).await?;
        // The size that the platform told counts already.
        let used = MediaUse { chat_hour: used.chat_hour.saturating_sub(own), ..used };
        let too_large = |is: u64| format!("{}, the limit is {} MiB", size(is), limits.largest >> 20);
        if work.file.size > limits.largest {
            return self.missing(work, &too_large(work.file.size)).await;
        }
        if let Some(fault) = limits.fault(used, own) {
            return self.missing(work, &fault.to_string()).await;
        }
        let left = self.left(work);
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
                let next = self.world.now().plus_ms(OFFLINE_MS);
                return self.store.file_again(work.id, next, false).await;
            }
            Ok(Err(NotFetched::Failed(why))) => return self.failed(work, &why).await,
            Err(_) => return self.failed(work, "the platform took too long").await,
        };
        failpoint::reach("file.fetched");
        let (media, from, at) = (Arc::clone(&self.media), folder.clone(), place.clone());
        // A panic counts as a try, as what the world does.
        let kept = self.world.blocking(move || media.take(&from, &at, most)).await;
        match kept.unwrap_or_else(|panicked| Err(NotKept::World(io::Error::other(panicked)))) {
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
        self.store.file_again(work.id, self.world.now().plus_ms(REST_MS), true).await
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
        let within = hooks.within.min(self.left(work));
        let hook = Hook {
            world: &self.world,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::platforms::attachments::Attachment;

    const NOW: Time = Time(1_000_000);

    fn wanted(id: i64, chat: &str, step: FileStep) -> FileWork {
        FileWork {
            id,
            seq: id,
            chat_jid: chat.to_owned(),
            whose: chat.to_owned(),
            step,
            what: "x".into(),
            until: NOW.plus_ms(60_000),
            tries: 0,
            next_at: None,
            file: Attachment::default(),
        }
    }

    fn begun(places: &mut Places, work: &[FileWork]) -> Vec<i64> {
        places.begin(work.to_vec(), NOW).0
    }

    #[test]
    fn files_are_fetched_within_bounds_and_each_end_makes_room() {
        let mut places = Places::default();
        let of_one: Vec<FileWork> = (0..4).map(|id| wanted(id, "a", FileStep::Fetch)).collect();
        assert_eq!(begun(&mut places, &of_one), [0, 1]);
        assert_eq!(begun(&mut places, &of_one), Vec::<i64>::new(), "what is under way is not begun again");
        places.busy.remove(&0);
        assert_eq!(begun(&mut places, &of_one[1..]), [2]);
        let others: Vec<FileWork> = (10..40).map(|id| wanted(id, &id.to_string(), FileStep::Fetch)).collect();
        assert_eq!(begun(&mut places, &others).len(), AT_ONCE - OF_A_CHAT);
    }

    #[test]
    fn two_hooks_run_at_a_time_and_one_of_a_group() {
        let mut places = Places::default();
        let read = |id, chat| wanted(id, chat, FileStep::Read);
        assert_eq!(begun(&mut places, &[read(1, "a"), read(2, "a"), read(3, "b"), read(4, "c")]), [1, 3]);
        assert_eq!(begun(&mut places, &[wanted(5, "c", FileStep::Fetch)]), [5], "no hook is needed to fetch");
    }

    #[test]
    fn a_file_waits_for_its_time_unless_it_is_over_and_one_that_fails_is_the_engines() {
        let mut places = Places::default();
        let later = FileWork { next_at: Some(NOW.plus_ms(700)), ..wanted(1, "a", FileStep::Fetch) };
        assert_eq!(places.begin(vec![later.clone()], NOW), (vec![], Duration::from_millis(700)));
        let over = FileWork { until: NOW, ..later };
        assert_eq!(begun(&mut places, std::slice::from_ref(&over)), [1]);
        places = Places { failing: [1].into(), ..Places::default() };
        assert_eq!(begun(&mut places, &[over]), Vec::<i64>::new());
    }
}
