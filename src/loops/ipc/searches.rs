//! Searches. One that is the only command of its group is made before it is settled, and its answer is committed with it. Any
//! other is settled like other commands, and answered while later ones go on, one search of a group at a time. A search
//! changes nothing, so one that a crash left without its answer is made again.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipc_handlers::{Command, Envelope, Folder, Refusal, Unsearched, commands::SearchSessions, reply};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
    task::{self, JoinSet},
};
use tracing::Instrument as _;

use super::{
    super::starts::What,
    Mailboxes,
    answer::{ANSWER_TRIES, Placed, is_asked_for, put_reply, set_aside},
    fault::{Panicked, blocking},
    read::Pending,
    span,
};
use crate::{
    domain::{host::errors::chain, mailbox::search::Words, states::CommandOutcome},
    ipc::Claimed,
    store::{Found, Proof, Receipt, Settled, Stop, StoreError},
    system::{clock, failpoint},
};

/// How many are made at a time, each of another group.
const AT_ONCE: usize = 2;
/// How long a search waits until what was archived before it is indexed.
const WAITS: Duration = Duration::from_secs(2);
/// How long it looks at most.
const LOOKS: Duration = Duration::from_secs(3);
/// How long each of both takes at most before the search is settled; if it takes longer, it is made behind its receipt.
const SOON: Duration = Duration::from_millis(10);
/// How long to wait before an answer is tried again; twice as long each time.
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How many of a group may wait before nothing more of it is taken in.
const WAITING: usize = 1024;

/// A search that is settled and waits for its answer.
pub(super) struct Asked {
    claimed: Claimed,
    envelope: Envelope,
    search: SearchSessions,
    receipt: Receipt,
}

impl Asked {
    /// Returns the search of a settled command, if it was not refused and somebody waits for its answer.
    pub(super) fn of(pending: &Pending, settled: &Settled) -> Option<Self> {
        let envelope = pending.file.envelope()?;
        let Command::SearchSessions(search) = &envelope.command else { return None };
        let receipt = &settled.receipt;
        let is_asked = receipt.outcome == CommandOutcome::Applied
            && receipt.reply.is_none()
            && receipt.request_id.is_some();
        is_asked.then(|| Self {
            claimed: pending.claimed.clone(),
            envelope: envelope.clone(),
            search: search.clone(),
            receipt: receipt.clone(),
        })
    }

    fn target(&self) -> &Folder {
        self.search.target(&self.claimed.folder)
    }
}

/// The searches that wait, in order, by group. The first of each may be under way.
pub struct Searches {
    lines: Mutex<BTreeMap<Folder, VecDeque<Arc<Asked>>>>,
    added: Notify,
    /// One for each that reads the index.
    places: Semaphore,
}

impl Default for Searches {
    fn default() -> Self {
        Self { lines: Mutex::default(), added: Notify::new(), places: Semaphore::new(AT_ONCE) }
    }
}

impl Searches {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<Folder, VecDeque<Arc<Asked>>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one at the end of its group's line, unless it is there already.
    pub(super) fn add(&self, asked: Asked) {
        let mut lines = self.lines();
        let line = lines.entry(asked.claimed.folder.clone()).or_default();
        if line.iter().all(|other| other.claimed.id != asked.claimed.id) {
            line.push_back(Arc::new(asked));
        }
        drop(lines);
        self.added.notify_one();
    }

    /// Returns how many more of a group may come.
    pub(super) fn places(&self, folder: &Folder) -> usize {
        WAITING.saturating_sub(self.lines().get(folder).map_or(0, VecDeque::len))
    }

    /// Whether one of a group waits.
    pub(super) fn has(&self, folder: &Folder) -> bool {
        self.lines().contains_key(folder)
    }

    fn folders(&self) -> Vec<Folder> {
        self.lines().keys().cloned().collect()
    }

    fn first(&self, folder: &Folder) -> Option<Arc<Asked>> {
        self.lines().get(folder).and_then(|line| line.front().cloned())
    }

    fn done(&self, folder: &Folder) {
        let mut lines = self.lines();
        if let Some(line) = lines.get_mut(folder) {
            line.pop_front();
            if line.is_empty() {
                lines.remove(folder);
            }
        }
    }
}

/// Answers searches until the daemon stops. Those that are left then stay claimed, and the next start takes them up: a run
/// that goes on without us has its answer then.
pub async fn run(mail: Arc<Mailboxes>) {
    let mut serving = JoinSet::new();
    let mut served: BTreeMap<Folder, task::Id> = BTreeMap::new();
    loop {
        for folder in mail.searches.folders() {
            if let Entry::Vacant(free) = served.entry(folder) {
                let folder = free.key().clone();
                let span = span(&folder);
                let serve = serve(Arc::clone(&mail), folder);
                free.insert(serving.spawn(serve.instrument(span)).id());
            }
        }
        tokio::select! {
            () = mail.stop.cancelled() => break,
            () = mail.searches.added.notified() => {}
            Some(ended) = serving.join_next() => match ended {
                Ok(folder) => drop(served.remove(&folder)),
                Err(fault) => {
                    let of = served.extract_if(.., |_, task| *task == fault.id()).map(|(folder, _)| folder).last();
                    tracing::error!(group = ?of, fault = %chain(&fault), "our own fault: a search stays without an answer until a restart");
                    if let Some(folder) = of {
                        mail.searches.done(&folder);
                    }
                }
            },
        }
    }
    while serving.join_next().await.is_some() {}
}

/// Answers the searches of one group, one after the other, and returns which group.
async fn serve(mail: Arc<Mailboxes>, folder: Folder) -> Folder {
    while let Some(asked) = mail.searches.first(&folder) {
        tokio::select! {
            () = mail.stop.cancelled() => return folder,
            () = answer(&mail, &folder, &asked) => mail.searches.done(&folder),
        }
    }
    // Nothing that an earlier daemon had claimed is left.
    mail.starts.taken(&folder, What::Claims);
    folder
}

/// Answers one. It takes one of the places only while it reads the index.
async fn answer(mail: &Arc<Mailboxes>, folder: &Folder, asked: &Arc<Asked>) {
    let is_whole = tokio::select! {
        () = mail.stop.cancelled() => false,
        indexed = tokio::time::timeout(WAITS, mail.store.indexed(asked.target())) => matches!(indexed, Ok(Ok(()))),
    };
    let at_work = mail.searches.places.acquire().await;
    mail.starts.taking(folder, What::Claims);
    let (of, wanted) = (Arc::clone(mail), Arc::clone(asked));
    let found = blocking(folder, "searching", move || search(&of, &wanted, is_whole)).await;
    drop(at_work);
    let found = found.unwrap_or_else(|Panicked| Err(Refusal::internal()));
    let refused = |refusal: &Refusal| reply::refused(asked.envelope.request_id.as_ref(), refusal);
    let (reply, refusal) = match found {
        Ok(reply) => (reply, None),
        Err(refusal) => (refused(&refusal), Some(refusal)),
    };
    failpoint::reach("ipc.searched");
    mail.allowances.of(folder, |left| left.bytes.take(reply.len(), clock::now()));
    let Some(receipt) = keep(mail, folder, asked, Arc::new(reply), refusal).await else { return };
    let receipt = Arc::new(receipt);
    failpoint::reach("ipc.answered");
    let mut rest = REST;
    for tries in 1..=ANSWER_TRIES {
        let (of, wanted, receipt) = (Arc::clone(mail), Arc::clone(asked), Arc::clone(&receipt));
        let placing = move || place(&of, &wanted, &receipt, tries == ANSWER_TRIES);
        if blocking(folder, "answering a search", placing).await.ok() != Some(Placed::NotNow) {
            return;
        }
        tokio::time::sleep(rest).await;
        rest = (rest * 2).min(LONGEST_REST);
    }
}

/// Writes the answer down before it is seen, so that the same request has the same answer. `None`: it can't be, and the
/// search stays claimed.
async fn keep(
    mail: &Mailboxes,
    folder: &Folder,
    asked: &Asked,
    reply: Arc<Vec<u8>>,
    refusal: Option<Refusal>,
) -> Option<Receipt> {
    let mut rest = REST;
    loop {
        let (of, claim) = (folder.clone(), asked.claimed.id);
        match mail.store.answered(claim, of, Arc::clone(&reply), refusal.clone()).await {
            // A reply may be longer than what is kept.
            Ok(Some(receipt)) => {
                return Some(Receipt { reply: receipt.reply.or_else(|| Some(reply.to_vec())), ..receipt });
            }
            // Nothing is kept of it any more.
            Ok(None) => {
                return Some(Receipt { reply: Some(reply.to_vec()), ..asked.receipt.clone() });
            }
            Err(error) if error.is_worlds_fault() => {
                tracing::warn!(claim, error = %chain(&error), "the store can't take an answer now; it is tried again");
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(LONGEST_REST);
            }
            Err(error) => {
                tracing::error!(claim, error = %chain(&error), "our own fault: an answer can't be written down; the next start searches again");
                return None;
            }
        }
    }
}

/// Makes a search and returns its reply, or why there is none. On a thread that may block.
fn search(mail: &Mailboxes, asked: &Asked, is_whole: bool) -> Result<Vec<u8>, Refusal> {
    let envelope = &asked.envelope;
    match look(mail, asked.target(), &asked.search, is_whole, LOOKS) {
        Ok(found) => {
            let why = |why| if mail.stop.is_cancelled() { Unsearched::NotNow } else { why };
            reply::found(envelope, found.sessions, found.unsearched.map(why))
        }
        Err(error) => {
            tracing::warn!(error = %chain(&error), "searching failed");
            let why = match mail.store.index_fault() {
                Some(_) => Unsearched::NoIndex,
                None if error.is_worlds_fault() => Unsearched::NotNow,
                None => return Err(Refusal::internal()),
            };
            reply::found(envelope, Vec::new(), Some(why))
        }
    }
}

fn look(
    mail: &Mailboxes,
    target: &Folder,
    wanted: &SearchSessions,
    is_whole: bool,
    most: Duration,
) -> Result<Found, StoreError> {
    let (began, stop) = (clock::monotonic(), mail.stop.clone());
    let stop: Stop = Arc::new(move || stop.is_cancelled() || began.elapsed() >= most);
    mail.store.search(target, &wanted.query, wanted.limit, is_whole, &stop)
}

/// Makes the search of a command that is to be settled, and returns its reply. `None`: it is none, searches another group, or is
/// not made soon; it is made behind its receipt then. On a thread that may block.
pub(super) fn at_once(mail: &Mailboxes, pending: &Pending) -> Option<Vec<u8>> {
    let (folder, envelope) = (&pending.claimed.folder, pending.file.envelope()?);
    let Command::SearchSessions(wanted) = &envelope.command else { return None };
    let is_allowed =
        wanted.target(folder) == folder && matches!(pending.file.proof, Proof::None | Proof::Claims(_));
    if !is_allowed || envelope.request_id.is_none() || mail.searches.has(folder) {
        return None;
    }
    // Without words the texts themselves are read, which nothing stops.
    if Words::of(&wanted.query).is_everything() {
        return None;
    }
    // Mostly there is nothing to wait for.
    if !mail.store.is_indexed(folder).ok()? {
        let indexed = async { tokio::time::timeout(SOON, mail.store.indexed(folder)).await };
        Handle::current().block_on(indexed).ok()?.ok()?;
    }
    let _at_work = mail.searches.places.try_acquire().ok()?;
    let found = look(mail, folder, wanted, true, SOON).ok().filter(|found| found.unsearched.is_none())?;
    let reply = reply::found(envelope, found.sessions, None).ok()?;
    failpoint::reach("ipc.searched");
    Some(reply)
}

/// Puts a reply where it is waited for, and the command aside; `is_last`: aside in any case. On a thread that may block.
fn place(mail: &Mailboxes, asked: &Asked, receipt: &Receipt, is_last: bool) -> Placed {
    let (claimed, reply) = (&asked.claimed, receipt.reply.as_deref());
    // Its group may be gone, and another one have its name.
    if is_asked_for(mail, claimed) && put_reply(mail, claimed, receipt, reply) == Placed::NotNow && !is_last {
        return Placed::NotNow;
    }
    failpoint::reach("ipc.replied");
    // Its bytes were not held meanwhile.
    let bytes = mail.claims.read(claimed).map_or_else(|_| Vec::new(), |read| read.bytes);
    match set_aside(mail, claimed, &bytes, receipt, reply, 0) {
        Ok(()) => Placed::Done,
        Err(error) => {
            tracing::warn!(claim = claimed.id, error = %chain(&error), "setting a settled command aside failed; its receipt holds");
            Placed::NotNow
        }
    }
}
