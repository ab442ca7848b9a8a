//! Searches. One that is the only command of its group is made before it is settled, and its answer is committed with it. Any
//! other is settled like other commands, and answered while later ones go on, one search of a group at a time. A search
//! changes nothing, so one that a crash left without its answer is made again.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ipc_handlers::{Command, Envelope, Folder, Refusal, Unsearched, commands::SearchSessions, reply};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{
    super::starts::What,
    Mailboxes,
    answer::{ANSWER_TRIES, Placed, is_asked_for, put_reply, set_aside},
    read::Pending,
    span,
};
use crate::{
    domain::{
        machine::loops::LoopName, mailbox::search::Words, shown::errors::chain, states::CommandOutcome,
    },
    engine::{Blame, Error, Loop, Plan, Then, Why},
    ipc::Claimed,
    store::{Found, Proof, Receipt, Settled, Stop, StoreError},
    system::{failpoint, locked::Locked as _},
};

/// How many are made at a time, each of another group.
const AT_ONCE: usize = 2;
/// How long a search waits until what was archived before it is indexed.
const WAITS: Duration = Duration::from_secs(2);
/// How long it looks at most.
const LOOKS: Duration = Duration::from_secs(3);
/// How long each of both takes at most before the search is settled; if it takes longer, it is made behind its receipt.
const SOON: Duration = Duration::from_millis(10);
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

/// How far a search is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Asked,
    /// It is made, and its answer is to be written down: the reply, and why it is a refusal. So often that failed by our own fault.
    Found(Arc<Vec<u8>>, Option<Refusal>, u32),
    /// The answer is written down and is to be placed. So often that failed.
    Kept(Arc<Receipt>, u32),
}

/// The searches of a group that wait, in order. The first may be under way.
#[derive(Default)]
struct Line {
    asked: VecDeque<Arc<Asked>>,
    /// How far the first is.
    stage: Stage,
}

/// The searches that wait, by group.
pub struct Searches {
    lines: Mutex<BTreeMap<Folder, Line>>,
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
    fn lines(&self) -> MutexGuard<'_, BTreeMap<Folder, Line>> {
        self.lines.locked()
    }

    /// Puts one at the end of its group's line, unless it is there already.
    pub(super) fn add(&self, asked: Asked) {
        let mut lines = self.lines();
        let line = lines.entry(asked.claimed.folder.clone()).or_default();
        if line.asked.iter().all(|other| other.claimed.id != asked.claimed.id) {
            line.asked.push_back(Arc::new(asked));
        }
        drop(lines);
        self.added.notify_one();
    }

    /// Returns how many more of a group may come.
    pub(super) fn places(&self, folder: &Folder) -> usize {
        WAITING.saturating_sub(self.lines().get(folder).map_or(0, |line| line.asked.len()))
    }

    /// Whether one of a group waits.
    pub(super) fn has(&self, folder: &Folder) -> bool {
        self.lines().contains_key(folder)
    }

    fn folders(&self) -> Vec<Folder> {
        self.lines().keys().cloned().collect()
    }

    fn first(&self, folder: &Folder) -> Option<(Arc<Asked>, Stage)> {
        let lines = self.lines();
        let line = lines.get(folder)?;
        Some((Arc::clone(line.asked.front()?), line.stage.clone()))
    }

    /// The first of a group is so far.
    fn is_at(&self, folder: &Folder, stage: Stage) {
        if let Some(line) = self.lines().get_mut(folder) {
            line.stage = stage;
        }
    }

    /// The first of a group is through.
    fn done(&self, folder: &Folder) {
        let mut lines = self.lines();
        if let Some(line) = lines.get_mut(folder) {
            line.asked.pop_front();
            line.stage = Stage::default();
            if line.asked.is_empty() {
                lines.remove(folder);
            }
        }
    }
}

/// Answers searches. Those that are left at a stop stay claimed, and the next start takes them up: a run that goes on without us has
/// its answer then.
pub struct Answering(Arc<Mailboxes>);

impl Answering {
    #[must_use]
    pub const fn new(mail: Arc<Mailboxes>) -> Self {
        Self(mail)
    }
}

impl Loop for Answering {
    const NAME: LoopName = LoopName::Searches;
    /// Each takes one of the places only while it reads the index.
    const AT_ONCE: usize = usize::MAX;
    /// The group that asks.
    type Key = Folder;
    type Job = ();
    type Hands = Mailboxes;

    fn hands(&self) -> Arc<Mailboxes> {
        Arc::clone(&self.0)
    }

    async fn asked(&mut self) {
        self.0.searches.added.notified().await;
    }

    async fn look(&mut self, _: &Why<Folder>) -> Result<Plan<Folder, ()>, Error> {
        let begin = self.0.searches.folders().into_iter().map(|folder| (folder, ())).collect();
        Ok(Plan { begin, ..Plan::default() })
    }

    /// Answers the first search of a group.
    async fn perform(
        mail: Arc<Mailboxes>,
        folder: Folder,
        (): (),
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        loop {
            let Some((asked, stage)) = mail.searches.first(&folder) else {
                // Nothing that an earlier daemon had claimed is left.
                mail.starts.taken(&folder, What::Claims);
                return Ok(Then::Done);
            };
            let next = match stage {
                Stage::Asked => Some(find(&mail, &folder, &asked).await),
                Stage::Found(reply, refusal, tries) => {
                    keep(&mail, &folder, &asked, reply, refusal, tries).await?
                }
                Stage::Kept(receipt, tries) => put(&mail, &folder, &asked, receipt, tries).await?,
            };
            match next {
                // The answer of a search that the stop cut short is kept by nobody.
                _ if stop.is_cancelled() => return Ok(Then::Done),
                Some(stage) => mail.searches.is_at(&folder, stage),
                None => {
                    mail.searches.done(&folder);
                    return Ok(Then::Again);
                }
            }
        }
    }

    fn span(folder: &Folder, (): &()) -> Span {
        span(folder)
    }
}

/// Makes a search. It takes one of the places only while it reads the index.
async fn find(mail: &Arc<Mailboxes>, folder: &Folder, asked: &Arc<Asked>) -> Stage {
    let indexed = tokio::time::timeout(WAITS, mail.store.indexed(asked.target()));
    // Where that can't be told, the answer says that not all is indexed.
    let is_whole = matches!(mail.stop.run_until_cancelled(indexed).await, Some(Ok(Ok(()))));
    let at_work = mail.searches.places.acquire().await;
    mail.starts.taking(folder, What::Claims);
    let (of, wanted) = (Arc::clone(mail), Arc::clone(asked));
    let span = Span::current();
    let found = mail.machine.world.blocking(move || span.in_scope(|| search(&of, &wanted, is_whole))).await;
    drop(at_work);
    let found = found.unwrap_or_else(|fault| {
        tracing::error!(group = %folder, claim = asked.claimed.id, fault = %chain(&fault), "our own fault: a search panicked; it is refused");
        Err(Refusal::internal())
    });
    let (reply, refusal) = match found {
        Ok(reply) => (reply, None),
        Err(refusal) => (reply::refused(asked.envelope.request_id.as_ref(), &refusal), Some(refusal)),
    };
    failpoint::reach("ipc.searched");
    mail.allowances.of(folder, |left| left.bytes.take(reply.len(), mail.machine.world.now()));
    Stage::Found(Arc::new(reply), refusal, 0)
}

/// Writes the answer down before it is seen, so that the same request has the same answer. `None`: it can't be, and the
/// search stays claimed.
async fn keep(
    mail: &Mailboxes,
    folder: &Folder,
    asked: &Asked,
    reply: Arc<Vec<u8>>,
    refusal: Option<Refusal>,
    tries: u32,
) -> Result<Option<Stage>, Error> {
    let (of, claim) = (folder.clone(), asked.claimed.id);
    let receipt = match mail.store.answered(claim, of, Arc::clone(&reply), refusal.clone()).await {
        // A reply may be longer than what is kept.
        Ok(Some(receipt)) => Receipt { reply: receipt.reply.or_else(|| Some(reply.to_vec())), ..receipt },
        // Nothing is kept of it any more.
        Ok(None) => Receipt { reply: Some(reply.to_vec()), ..asked.receipt.clone() },
        Err(error) if error.is_worlds_fault() => return Err(error.into()),
        Err(error) if tries + 1 < ANSWER_TRIES => {
            mail.searches.is_at(folder, Stage::Found(reply, refusal, tries + 1));
            return Err(error.into());
        }
        Err(error) => {
            tracing::error!(claim, error = %chain(&error), "our own fault: an answer can't be written down; the next start searches again");
            return Ok(None);
        }
    };
    failpoint::reach("ipc.answered");
    Ok(Some(Stage::Kept(Arc::new(receipt), 0)))
}

/// Places an answer, and gives that up after some tries. `None`: that is over.
async fn put(
    mail: &Arc<Mailboxes>,
    folder: &Folder,
    asked: &Arc<Asked>,
    receipt: Arc<Receipt>,
    tries: u32,
) -> Result<Option<Stage>, Error> {
    let is_last = tries + 1 >= ANSWER_TRIES;
    let (of, wanted, kept) = (Arc::clone(mail), Arc::clone(asked), Arc::clone(&receipt));
    let span = Span::current();
    let placing = move || span.in_scope(|| place(&of, &wanted, &kept, is_last));
    let error = match mail.machine.world.blocking(placing).await {
        Ok(Placed::Done) => return Ok(None),
        // Why is in the log.
        Ok(Placed::NotNow) => Error {
            blame: Blame::World,
            why: "the answer of a search can't be placed or set aside now".into(),
        },
        Err(fault) => fault.into(),
    };
    if is_last {
        tracing::error!(group = %folder, claim = asked.claimed.id, error = %chain(&error), "placing the answer of a search is given up; its receipt holds");
        return Ok(None);
    }
    mail.searches.is_at(folder, Stage::Kept(receipt, tries + 1));
    Err(error)
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
    let (world, stop) = (mail.machine.world.clone(), mail.stop.clone());
    let began = world.monotonic();
    let is_late = move || world.monotonic().duration_since(began) >= most;
    let stop: Stop = Arc::new(move || stop.is_cancelled() || is_late());
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
    // Whatever is in the way, it is made behind its receipt, which says why. Mostly there is nothing to wait for.
    if !mail.store.is_indexed(folder).ok()? {
        let indexed = async { tokio::time::timeout(SOON, mail.store.indexed(folder)).await };
        mail.machine.world.wait(indexed).ok()?.ok()?;
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
    // Its bytes were not held meanwhile. Where they can't be read, its receipt tells of it without them.
    let bytes = mail.claims.read(claimed).map_or_else(|_| Vec::new(), |read| read.bytes);
    match set_aside(mail, claimed, &bytes, receipt, reply, 0) {
        Ok(()) => Placed::Done,
        Err(error) => {
            tracing::warn!(claim = claimed.id, error = %chain(&error), "setting a settled command aside failed; its receipt holds");
            Placed::NotNow
        }
    }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Time;

    use super::*;

    fn asked(id: i64, group: &str) -> Asked {
        let folder = Folder::parse(group).unwrap();
        let search = SearchSessions { query: "word".into(), limit: 1, target_folder: None };
        let command = Command::SearchSessions(search.clone());
        let (path, box_name) = (std::path::Path::new("x").into(), "tasks".to_owned());
        Asked {
            claimed: Claimed { id, folder, source: None, path, written: None, taken: None },
            envelope: Envelope { schema_version: None, request_id: None, token: None, command },
            search,
            receipt: Receipt {
                claim: id,
                box_name,
                name: "x".into(),
                kind: None,
                request_id: None,
                outcome: CommandOutcome::Applied,
                code: None,
                reason: None,
                hint: None,
                reply: None,
                at: Time(0),
            },
        }
    }

    #[test]
    fn searches_of_a_group_are_in_line_each_once_and_how_far_one_is_lasts_until_it_is_through() {
        let searches = Searches::default();
        for id in [1, 2, 1] {
            searches.add(asked(id, "a"));
        }
        searches.add(asked(3, "b"));
        let [a, b] = ["a", "b"].map(|group| Folder::parse(group).unwrap());
        let first = |group| searches.first(group).map(|(asked, stage)| (asked.claimed.id, stage));
        assert_eq!((searches.places(&a), searches.folders()), (WAITING - 2, vec![a.clone(), b.clone()]));
        let found = Stage::Found(Arc::new(b"reply".to_vec()), None, 1);
        searches.is_at(&a, found.clone());
        assert_eq!((first(&a), first(&b)), (Some((1, found)), Some((3, Stage::Asked))));
        searches.done(&a);
        assert_eq!(first(&a), Some((2, Stage::Asked)));
        searches.done(&a);
        assert_eq!((searches.has(&a), first(&a), searches.places(&a)), (false, None, WAITING));
        searches.is_at(&a, Stage::Asked);
        assert!(!searches.has(&a), "nothing is put in a line by how far it is");
    }
}
