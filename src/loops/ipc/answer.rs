//! Settled in the store, then answered: snapshots, reply, set aside, and the claimed file's end.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::{
        Arc,
        mpsc::{self, SendError},
    },
    time::Duration,
};

use ipc_handlers::{Code, Command, Folder, Refusal};
use tokio::runtime::Handle;

use super::{
    super::{Trouble, snapshots::List},
    Mailboxes,
    fault::{Panicked, blocking},
    files::let_go,
    read::Pending,
    searches::Asked,
};
use crate::{
    domain::{shown::errors::chain, states::CommandOutcome},
    engine::rested,
    ipc::{Claimed, CommandBox, PutError, Source, Why},
    store::{Receipt, Settled, StoreError},
    system::{failpoint, world::Beside},
};

/// How often a settled command is answered before that is left to the next start.
pub(super) const ANSWER_TRIES: u32 = 12;
/// How long one waits before something is tried again for the first time, where the world is in the way. Then twice as long
/// each time.
pub(super) const REST: Duration = Duration::from_secs(1);
/// The longest of these waits.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(10);

/// Whether files that the store could not take are settled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Caught {
    Up,
    /// The daemon stops first. They stay claimed, and nothing younger of their group may go before them.
    Stopped,
}

/// Settles files that the store could not take, until it can: they stay claimed meanwhile.
///
/// # Errors
/// [`Panicked`]: the files that are left stay claimed, and nobody works on them.
pub(super) async fn settle_again(
    mail: &Arc<Mailboxes>,
    folder: &Folder,
    waiting: Vec<Pending>,
) -> Result<Caught, Panicked> {
    let mut waiting = waiting;
    let mut rest = REST;
    while !waiting.is_empty() {
        if rested(&mail.stop, rest).await {
            return Ok(Caught::Stopped);
        }
        rest = (rest * 2).min(LONGEST_REST);
        let (working, of) = (Arc::clone(mail), folder.clone());
        let again = move || settle_in_order(&working, &of, waiting);
        waiting = blocking(mail, folder, "settling again", again).await?;
    }
    Ok(Caught::Up)
}

/// Settles and answers files; returns those that have to wait.
pub(super) fn settle_in_order(mail: &Mailboxes, folder: &Folder, mut waiting: Vec<Pending>) -> Vec<Pending> {
    let mut again = Vec::new();
    while !waiting.is_empty() && again.is_empty() {
        let finished = Settling::begin(mail, waiting).finish(mail);
        again = finished.again;
        waiting = finished.later;
        again.extend(answer_all(mail, folder, finished.settled, waiting.len()).again);
    }
    again.extend(waiting);
    again
}

/// One for each file, as far as the store came; or why nothing of them was committed.
type Outcomes = Result<Vec<Result<Settled, StoreError>>, StoreError>;

/// Files that the store was given, in order, to be committed together.
pub(super) struct Settling {
    pending: Vec<Pending>,
    outcomes: Pin<Box<dyn Future<Output = Outcomes> + Send>>,
}

impl Settling {
    /// Gives files to the store, which is at work on them from now on.
    pub(super) fn begin(mail: &Mailboxes, pending: Vec<Pending>) -> Self {
        let files = pending.iter().map(|p| p.file.clone()).collect();
        let (zones, now) = (mail.config.now().zones.clone(), mail.machine.world.now());
        Self { outcomes: Box::pin(mail.store.settle_all(files, zones, now)), pending }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Waits until they are settled, as far as the store came. On a thread that may block.
    pub(super) fn finish(self, mail: &Mailboxes) -> Finished {
        let world = &mail.machine.world;
        let settling = world.wait(self.outcomes);
        let mut outcomes = settling.unwrap_or_else(|error| vec![Err(error)]).into_iter();
        let (mut answers, mut again, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for pending in self.pending {
            match outcomes.next() {
                Some(Ok(settled)) => answers.push((pending, settled)),
                None if again.is_empty() => later.push(pending),
                // It waits for one before it.
                None => again.push(pending),
                Some(Err(error)) if error.is_worlds_fault() => {
                    tracing::warn!(claim = pending.claimed.id, error = %chain(&error), "the store can't take a command now; it stays claimed and is tried again");
                    again.push(pending);
                }
                Some(Err(error)) => {
                    tracing::error!(claim = pending.claimed.id, error = %chain(&error), "our own fault: a command could not be decided");
                    match world.wait(record_our_fault(mail, &pending)) {
                        Ok(settled) => answers.push((pending, settled)),
                        Err(error) if error.is_worlds_fault() => {
                            again.push(pending.refused_for(Refusal::internal()));
                        }
                        Err(error) => note_stranded(mail, &pending, &error),
                    }
                }
            }
        }
        // The result may not hold any more when they are settled: the search is made behind their receipts.
        again.iter_mut().chain(&mut later).for_each(|pending: &mut Pending| pending.file.found = None);
        failpoint::reach("ipc.committed");
        Finished { settled: answers, again, later }
    }
}

/// Notes a command that can be neither decided nor refused, by a fault of ours.
pub(super) fn note_stranded(mail: &Mailboxes, pending: &Pending, error: &StoreError) {
    let Claimed { id, folder, .. } = &pending.claimed;
    let why = format!("command {id} stays claimed until the next start: {}", chain(error));
    tracing::error!(claim = id, group = %folder, error = %chain(error), "our own fault: a command can be neither decided nor refused; it stays claimed until the next start");
    mail.machine.troubles.note(Trouble::Stranded(folder.clone()), why);
}

/// The files after the store was given them.
pub(super) struct Finished {
    pub(super) settled: Vec<(Pending, Settled)>,
    /// Those that the store can't take now.
    pub(super) again: Vec<Pending>,
    /// Those that are to be given to it once these are answered: their replies would be too much at a time.
    pub(super) later: Vec<Pending>,
}

/// Writes down that a command met a fault of ours, so that it is answered and not tried for ever.
///
/// # Errors
/// It could not be written, which is told; the file stays claimed.
pub(super) async fn record_our_fault(mail: &Mailboxes, pending: &Pending) -> Result<Settled, StoreError> {
    let refused =
        mail.store.refuse(pending.file.clone(), Refusal::internal(), mail.machine.world.now()).await;
    refused.inspect_err(|error| {
        tracing::error!(claim = pending.claimed.id, error = %chain(error), "the receipt could not be written either; the file stays claimed");
    })
}

/// Snapshots, replies, `done/` and `dead/`, and at last the claimed files' end. Searches are answered beside.
/// The world may be in the way (a full disk): what could not be answered is returned, to be tried again. Of the same
/// group `later` more are known to wait.
pub(super) fn answer_all(
    mail: &Mailboxes,
    folder: &Folder,
    mut answers: Vec<(Pending, Settled)>,
    later: usize,
) -> Answered {
    let mut again = Vec::new();
    if answers.is_empty() {
        return Answered { again, shown_in: Duration::ZERO };
    }
    let began = mail.machine.world.monotonic();
    show(mail, folder, &answers);
    let shown_in = mail.machine.world.monotonic().duration_since(began);
    tell_all(&answers);
    answers.iter_mut().for_each(|(pending, settled)| let_go(mail, pending, settled));
    let mut rest = Vec::new();
    for (pending, settled) in answers {
        match Asked::of(&pending, &settled) {
            Some(asked) => mail.searches.add(asked),
            None => rest.push((pending, settled)),
        }
    }
    let answers = rest;
    let mut unplaced = BTreeSet::new();
    for (pending, settled) in &answers {
        let reply = settled.receipt.reply.as_deref();
        // It may be an earlier group's: no later one of its name asked, and none of its commands is obeyed now.
        let is_new = settled.fresh && settled.receipt.outcome == CommandOutcome::Applied;
        let placed = match is_new || is_asked_for(mail, &pending.claimed) {
            true => put_reply(mail, &pending.claimed, &settled.receipt, reply),
            false => Placed::Done,
        };
        if placed == Placed::NotNow {
            unplaced.insert(pending.claimed.id);
        }
        if let Some(taken) = pending.file.taken.filter(|_| settled.fresh) {
            let ms = mail.machine.world.now().ms_since(taken).max(0);
            mail.times.took(Duration::from_millis(ms.unsigned_abs()));
        }
        failpoint::reach("ipc.replied");
    }
    mail.snapshots.write_rest();
    mail.store.wake_readers();
    let count = answers.len();
    for (n, (mut pending, settled)) in answers.into_iter().enumerate() {
        let receipt = &settled.receipt;
        let aside = if unplaced.contains(&pending.claimed.id) && pending.unanswered < ANSWER_TRIES {
            false
        } else {
            let (bytes, reply) = (pending.kept.as_slice(), receipt.reply.as_deref());
            let kept = set_aside(mail, &pending.claimed, bytes, receipt, reply, later + count - 1 - n);
            if let Err(error) = &kept {
                tracing::warn!(claim = receipt.claim, error = %chain(error), "setting a settled command aside failed; its receipt holds");
            }
            kept.is_ok()
        };
        if !aside && pending.unanswered < ANSWER_TRIES {
            pending.unanswered += 1;
            again.push(pending);
        }
    }
    Answered { again, shown_in }
}

/// Settled files that a thread of their own answers. To drop it waits for that thread, so no two threads answer one file.
///
/// The thread is not one of the runtime's, of which at most 32 may block: all of them may be waiting here.
pub(super) struct Answering(Option<Beside<Answered>>);

impl Answering {
    /// Answers as [`answer_all`] does.
    ///
    /// # Errors
    /// No thread is to be had: the files, unanswered.
    pub(super) fn begin(
        mail: &Arc<Mailboxes>,
        folder: &Folder,
        answers: Vec<(Pending, Settled)>,
        later: usize,
    ) -> Result<Self, Vec<(Pending, Settled)>> {
        let (working, folder) = (Arc::clone(mail), folder.clone());
        let (runtime, span) = (Handle::current(), tracing::Span::current());
        // What could not be handed over comes back.
        let (hand, theirs) = mpsc::channel();
        let answer = move || {
            let _runtime = runtime.enter();
            let answers = theirs.recv().unwrap_or_default();
            span.in_scope(|| answer_all(&working, &folder, answers, later))
        };
        match mail.machine.world.beside("answers", answer) {
            Ok(beside) => match hand.send(answers) {
                Ok(()) => Ok(Self(Some(beside))),
                Err(SendError(answers)) => Err(answers),
            },
            Err(_) => Err(answers),
        }
    }

    /// Waits until they are answered. On a thread that may block.
    ///
    /// # Panics
    /// Where answering did.
    pub(super) fn finish(mut self) -> Option<Answered> {
        self.0.take().map(Beside::finish)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // It is dropped unfinished by a panic only, which is told. A second one, of the answers, is not.
        drop(self.0.take().map(Beside::outcome));
    }
}

/// If more commands are answered together, the log says of those that were obeyed how many of each kind they are.
const TOLD_SINGLY: usize = 16;

/// Says in the log what came of commands.
fn tell_all(answers: &[(Pending, Settled)]) {
    let mut obeyed: BTreeMap<&str, Obeyed> = BTreeMap::new();
    for (pending, settled) in answers {
        let receipt = &settled.receipt;
        let is_obeyed = settled.fresh && receipt.outcome == CommandOutcome::Applied;
        if answers.len() <= TOLD_SINGLY || !is_obeyed {
            tell(pending, settled);
            continue;
        }
        let kind = receipt.kind.as_deref().unwrap_or("-");
        let of_kind =
            obeyed.entry(kind).or_insert(Obeyed { count: 0, first: receipt.claim, last: receipt.claim });
        of_kind.count += 1;
        of_kind.first = of_kind.first.min(receipt.claim);
        of_kind.last = of_kind.last.max(receipt.claim);
    }
    for (kind, Obeyed { count, first, last }) in obeyed {
        tracing::info!(kind, outcome = %CommandOutcome::Applied, count, first, last, "commands settled");
    }
}

/// Commands of one kind that were obeyed.
struct Obeyed {
    count: usize,
    /// The claims of the first and the last of them.
    first: i64,
    last: i64,
}

fn tell(pending: &Pending, settled: &Settled) {
    let receipt = &settled.receipt;
    tracing::info!(
        claim = receipt.claim, kind = receipt.kind.as_deref().unwrap_or("-"),
        outcome = %receipt.outcome, code = receipt.code.map_or("-", Code::as_str), again = !settled.fresh,
        run = pending.file.run.unwrap_or(0), "command settled"
    );
    if receipt.code == Some(Code::NotAuthorized) {
        let reason = receipt.reason.as_deref().unwrap_or_default();
        tracing::warn!(claim = receipt.claim, reason, "a command was not authorized");
    }
}

/// Brings what the commands of a group changed to where it is looked at: before the reply, where somebody waits for it.
fn show(mail: &Mailboxes, folder: &Folder, answers: &[(Pending, Settled)]) {
    let (mut asked, mut registered) = (false, false);
    for (pending, settled) in answers {
        let applied = settled.receipt.outcome == CommandOutcome::Applied;
        let command = pending.file.envelope().map(|envelope| &envelope.command).filter(|_| applied);
        match command {
            Some(Command::RefreshGroups(_)) => {
                // The list says when it was made.
                mail.snapshots.soon(folder, &[List::GroupsAnew]);
                asked |= settled.receipt.request_id.is_some();
            }
            Some(
                Command::ScheduleTask(_)
                | Command::UpdateTask(_)
                | Command::PauseTask(_)
                | Command::ResumeTask(_)
                | Command::CancelTask(_)
                | Command::ClearSession(_)
                | Command::ResumeSession(_)
                | Command::ArchiveSession(_),
            ) => asked |= settled.receipt.request_id.is_some(),
            Some(Command::RegisterGroup(_)) => registered |= settled.receipt.request_id.is_some(),
            Some(
                Command::SendMessage(_)
                | Command::Media(_)
                | Command::AskUser(_)
                | Command::ListTasks(_)
                | Command::SearchSessions(_),
            )
            | None => {}
        }
    }
    let own = asked.then_some(folder);
    // It takes in what all groups changed.
    tracing::error_span!(parent: None, "snapshots").in_scope(|| {
        mail.snapshots.write_awaited(own.as_slice());
        // The list that shows a registered group is written in any case; another thread may be at it.
        if registered && !asked {
            mail.snapshots.write_at_once(folder);
        }
    });
}

/// What came of answering.
pub(super) struct Answered {
    /// Those that could not be answered.
    pub(super) again: Vec<Pending>,
    /// How long it took to show what they changed.
    pub(super) shown_in: Duration,
}

/// Whether a reply was placed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is there, nobody asked for one, or it never can be.
    Done,
    /// The world was in the way.
    NotNow,
}

/// Whether the group that asked is there still. A later group of that name is another one. If this can't be read, the answer is yes.
pub(super) fn is_asked_for(mail: &Mailboxes, claimed: &Claimed) -> bool {
    mail.store.is_of(claimed.id, &claimed.folder).unwrap_or(true)
}

pub(super) fn put_reply(
    mail: &Mailboxes,
    claimed: &Claimed,
    receipt: &Receipt,
    reply: Option<&[u8]>,
) -> Placed {
    let (Some(id), Some(reply)) = (&receipt.request_id, reply) else { return Placed::Done };
    let placed = match mail.boxes.of(&claimed.folder) {
        Ok(boxes) => boxes.put_reply(id, reply),
        // Nobody reads it.
        Err(_) if matches!(mail.store.has_group(&claimed.folder), Ok(false)) => return Placed::Done,
        Err(error) => Err(PutError::World(error)),
    };
    match placed {
        Ok(()) => Placed::Done,
        Err(PutError::World(error)) => {
            tracing::warn!(claim = claimed.id, error = %chain(&error), "a reply could not be placed; it is tried again");
            Placed::NotNow
        }
        Err(error) => {
            tracing::warn!(claim = claimed.id, error = %chain(&error), "a reply could not be placed and is given up");
            Placed::Done
        }
    }
}

/// Returns a claim with where its command stood. A file that came back, as a rename that was not synced does, may have lost the
/// note of it; its receipt has it from the first claim.
fn with_source<'a>(claimed: &'a Claimed, receipt: &Receipt) -> Cow<'a, Claimed> {
    let in_box = CommandBox::parse(receipt.box_name.as_bytes()).filter(|_| claimed.source.is_none());
    match in_box {
        Some(in_box) => {
            let source = Some(Source { in_box, name: receipt.name.clone() });
            Cow::Owned(Claimed { source, ..claimed.clone() })
        }
        None => Cow::Borrowed(claimed),
    }
}

/// Keeps a settled command for people, unless the `later` ones would put it out at once; then it has an end.
pub(super) fn set_aside(
    mail: &Mailboxes,
    claimed: &Claimed,
    bytes: &[u8],
    receipt: &Receipt,
    reply: Option<&[u8]>,
    later: usize,
) -> Result<(), crate::ipc::WorldFault> {
    let claimed = &with_source(claimed, receipt);
    let why = || Why {
        receipt: receipt.claim,
        code: receipt.code,
        message: receipt.reason.clone().unwrap_or_default(),
        hint: receipt.hint.clone(),
        at: receipt.at,
    };
    match receipt.outcome {
        CommandOutcome::Malformed => mail.claims.settle_dead(claimed, bytes, &why())?,
        CommandOutcome::Applied | CommandOutcome::Refused if later >= crate::ipc::DONE_FILES => {}
        CommandOutcome::Applied => mail.claims.settle_applied(claimed, bytes, reply)?,
        CommandOutcome::Refused => mail.claims.settle_refused(claimed, bytes, &why())?,
    }
    failpoint::reach("ipc.set_aside");
    mail.claims.acknowledge(claimed)
}
