//! A group's claimed files on their way to their answers: while the store is at work on some, those before them are
//! answered and those behind them are claimed and read. On threads that may block.

use std::{sync::Arc, time::Duration};

use ipc_handlers::{Command, Folder};

use super::{
    Mailboxes,
    answer::{Answered, Answering, Finished, Settling, answer_all},
    files::{self, Ahead, Copied, Copying},
    read::{Patience, Pending, Reading, Taken, read},
    searches,
    transcripts::{self, Archives},
};
use crate::{
    ipc::Claimed,
    store::{Settled, Transcripts},
    system::failpoint,
};

/// This many are read before they are settled together: a commit writes hardly more pages for twice as many. Not
/// acknowledged are three times as many (some are read, some settled and some answered), and what waits for an answer.
pub(super) const TOGETHER: usize = 128;
/// Or so much, bytes: a group's files are in memory one or two at a time where they are large, and all at once where
/// they are small.
pub(super) const AT_ONCE: usize = 1 << 20;
/// How much of newly claimed files is read before it is looked at, bytes.
pub(super) const CLAIMED_AT_ONCE: usize = 1 << 18;
/// The time that a command may take to show its changes. Slower work is done for more commands at once.
const SHOWN_IN: Duration = Duration::from_micros(50);
/// The most settled ones that wait to be answered together.
const UNANSWERED: usize = 1024;
/// This many are answered on a thread of their own: for fewer it would take longer to change threads.
const BESIDE: usize = 32;
/// How long a command waits for the chats that platforms tell of.
const LISTING: Duration = Duration::from_secs(5);
/// How long one is given whose writer still has it open.
pub(super) const WRITER_LIMIT: Duration = Duration::from_secs(60);

/// The rest of files that were handled.
#[derive(Default)]
pub(super) struct Handled {
    /// Those that may not be whole yet.
    pub(super) growing: Vec<Claimed>,
    /// How large those are together, bytes.
    pub(super) unsettled: u64,
    /// Those that the store could not take, or that could not be answered.
    pub(super) waiting: Vec<Pending>,
    /// How many were messages to chats.
    pub(super) messages: usize,
    /// How large commands and replies were, bytes.
    pub(super) bytes: usize,
    /// Slow work was left for later, with the files behind it.
    pub(super) left: bool,
}

impl Handled {
    /// Adds what is left of files that were handled after these.
    pub(super) fn add(&mut self, later: Self) {
        self.growing.extend(later.growing);
        self.unsettled += later.unsettled;
        self.waiting.extend(later.waiting);
        self.messages += later.messages;
        self.bytes += later.bytes;
        self.left |= later.left;
    }
}

/// When slow work is done: transcripts and files, which can take seconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slow {
    Now,
    /// The first one is left for later, with all that is behind it: nobody waits for it.
    Later,
    /// One was left.
    Left,
}

/// Files of one group under way. In order, whatever happens: what has to wait for the world is overtaken by nothing.
pub(super) struct Flow<'a> {
    mail: &'a Arc<Mailboxes>,
    folder: &'a Folder,
    patience: Patience,
    slow: Slow,
    read: Vec<Pending>,
    read_bytes: usize,
    /// Commands that were read or are being settled, counted against the bounds of files.
    ahead: Ahead,
    settling: Option<Settling>,
    settled: Vec<(Pending, Settled)>,
    settled_bytes: usize,
    /// How many are answered at a time.
    answered_together: usize,
    answering: Option<Answering>,
    handled: Handled,
}

impl<'a> Flow<'a> {
    pub(super) fn new(mail: &'a Arc<Mailboxes>, folder: &'a Folder, patience: Patience, slow: Slow) -> Self {
        Self {
            mail,
            folder,
            patience,
            slow,
            read: Vec::new(),
            read_bytes: 0,
            ahead: Ahead::default(),
            settling: None,
            settled: Vec::new(),
            settled_bytes: 0,
            answered_together: 1,
            answering: None,
            handled: Handled::default(),
        }
    }

    /// Whether slow work was left for later: the files behind it wait for it.
    pub(super) fn has_left(&self) -> bool {
        self.slow == Slow::Left
    }

    /// What was handled so far.
    pub(super) fn so_far(&self) -> &Handled {
        &self.handled
    }

    /// Whether no file is under way or waits.
    fn has_nothing(&self) -> bool {
        let Handled { growing, waiting, .. } = &self.handled;
        self.read.is_empty()
            && self.settling.is_none()
            && self.settled.is_empty()
            && self.answering.is_none()
            && growing.is_empty()
            && waiting.is_empty()
    }

    /// Takes claimed files in, in order. Of the same group `later` more are known to wait behind them.
    pub(super) fn take(&mut self, taken: Vec<Taken>, later: usize) {
        // Where it can't be read, its token says which run wrote a command, or the command counts as nobody's.
        let run = self.mail.store.active_run_of(self.folder).unwrap_or_default();
        let mut left = taken.len();
        for taken in taken {
            left -= 1;
            // What could never be a command is gone already and changes nothing: only now can its receipt be written.
            if self.slow == Slow::Left && taken.refusal.is_none() {
                self.handled.growing.push(taken.claimed);
                continue;
            }
            let patience = if taken.age >= WRITER_LIMIT { Patience::None } else { self.patience };
            // It was claimed just now, and no command of its group is before or behind it.
            let is_alone = taken.read.is_some() && later + left == 0 && self.has_nothing();
            match read(self.mail, taken, run, patience) {
                Reading::Ready(mut ready) => {
                    if let Some(archives) = &ready.archives {
                        let said = match self.slow {
                            Slow::Later => None,
                            Slow::Now | Slow::Left => self.said(&ready, archives, later + left + 1),
                        };
                        let Some(said) = said else {
                            self.slow = Slow::Left;
                            self.handled.growing.push(ready.claimed);
                            continue;
                        };
                        // It is settled at once: nobody waits for the transcript of the next one.
                        self.read_bytes += AT_ONCE;
                        ready.file.transcripts = said;
                    }
                    let mut copied = None;
                    if ready.sends.is_some() {
                        copied = match self.slow {
                            Slow::Later => None,
                            Slow::Now | Slow::Left => self.copy(&ready, later + left),
                        };
                        if copied.is_none() {
                            self.slow = Slow::Left;
                            self.handled.growing.push(ready.claimed);
                            continue;
                        }
                    }
                    if self.wants_chats(&ready) {
                        // Nobody else waits for a platform.
                        self.settle_all(later + left);
                        chats_are_listed(self.mail);
                    }
                    self.ahead.read(&ready, copied.as_ref());
                    if let Some(copied) = copied {
                        self.read_bytes += copied.weight();
                        self.handled.bytes += copied.bytes;
                        ready.file.files = copied.files;
                        ready.hands = copied.hands;
                    }
                    if is_alone {
                        ready.file.found = searches::at_once(self.mail, &ready).map(Arc::new);
                    }
                    self.read_bytes += ready.kept.len();
                    self.handled.messages += usize::from(ready.is_message);
                    self.handled.bytes += ready.kept.len();
                    self.read.push(*ready);
                }
                Reading::NotYet(claimed, bytes) => {
                    self.handled.growing.push(claimed);
                    self.handled.unsettled += bytes;
                }
                Reading::Nothing => {}
            }
            if self.read.len() >= TOGETHER || self.read_bytes >= AT_ONCE {
                self.settle(later + left);
            }
        }
    }

    /// Returns the words of the sessions that a command archives. `None`: the daemon stops, the store can't be read, or it can't take
    /// the commands before this one.
    fn said(&mut self, ready: &Pending, archives: &Archives, later: usize) -> Option<Transcripts> {
        if archives.what_there_is() {
            // A command before it may take a session up.
            self.settle_all(later);
            if !self.handled.waiting.is_empty() {
                return None;
            }
        }
        transcripts::read(self.mail, ready, archives)
    }

    /// Whether a command asks for the chats of platforms, which are asked for them before it is decided.
    fn wants_chats(&self, ready: &Pending) -> bool {
        let command = ready.file.envelope().map(|envelope| &envelope.command);
        // Where that can't be read, it is answered with what is known.
        matches!(command, Some(Command::RefreshGroups(_)))
            && self.mail.listings.may_be_old()
            && matches!(self.mail.store.is_main(self.folder), Ok(Some(true)))
    }

    /// Copies the files of a command. Where there may be no room for them, those before it are settled first. `None`: not now.
    fn copy(&mut self, ready: &Pending, later: usize) -> Option<Copied> {
        let sends = ready.sends.as_ref()?;
        loop {
            match files::copy(self.mail, ready, sends, &mut self.ahead) {
                Copying::Done(copied) => return Some(copied),
                Copying::Unsure => self.settle_all(later),
                Copying::NotNow => return None,
            }
        }
    }

    /// Gives what was read to the store, once what went there before is settled; answers that meanwhile.
    fn settle(&mut self, later: usize) {
        failpoint::reach("ipc.read");
        self.wait();
        let mut read = std::mem::take(&mut self.read);
        self.read_bytes = 0;
        self.ahead.given();
        if !self.handled.waiting.is_empty() {
            self.handled.waiting.append(&mut read);
        } else if !read.is_empty() {
            self.settling = Some(Settling::begin(self.mail, read));
        }
        if self.settled.len() >= self.answered_together || self.settled_bytes >= AT_ONCE {
            self.answer(later);
        }
    }

    /// Waits for the store, and for the answers before.
    fn wait(&mut self) {
        while let Some(settling) = self.settling.take() {
            let Finished { settled, again, mut later } = settling.finish(self.mail);
            self.wait_for_answers();
            let replied: usize = settled.iter().map(|(_, settled)| settled.receipt.reply_bytes()).sum();
            self.handled.bytes += replied;
            self.settled_bytes +=
                replied + settled.iter().map(|(pending, _)| pending.kept.len()).sum::<usize>();
            self.settled.extend(settled);
            self.handled.waiting.extend(again);
            if later.is_empty() {
                break;
            }
            // The replies go out of memory before there are more of them.
            self.answer(later.len());
            if self.handled.waiting.is_empty() {
                self.settling = Some(Settling::begin(self.mail, later));
            } else {
                self.handled.waiting.append(&mut later);
            }
        }
        self.wait_for_answers();
        self.ahead.settled();
    }

    /// Answers the settled files. Where they are many and the store is at work on the next ones, another thread does it.
    fn answer(&mut self, later: usize) {
        self.wait_for_answers();
        let mut settled = std::mem::take(&mut self.settled);
        self.settled_bytes = 0;
        let later = later + self.settling.as_ref().map_or(0, Settling::len);
        if self.settling.is_some() && settled.len() >= BESIDE {
            match Answering::begin(self.mail, self.folder, settled, later) {
                Ok(answering) => return self.answering = Some(answering),
                Err(unanswered) => settled = unanswered,
            }
        }
        let answered = answer_all(self.mail, self.folder, settled, later);
        self.answered(answered);
    }

    fn wait_for_answers(&mut self) {
        if let Some(answered) = self.answering.take().and_then(Answering::finish) {
            self.answered(answered);
        }
    }

    fn answered(&mut self, Answered { again, shown_in }: Answered) {
        let worth = shown_in.as_micros() / SHOWN_IN.as_micros();
        self.answered_together = usize::try_from(worth).unwrap_or(UNANSWERED).clamp(1, UNANSWERED);
        self.handled.waiting.extend(again);
    }

    /// Settles all that was read. Of the same group `later` more are known to wait behind it.
    pub(super) fn settle_all(&mut self, later: usize) {
        self.settle(later);
        self.wait();
    }

    /// Settles and answers what is under way. Of the same group `later` more are taken in behind it at once.
    pub(super) fn end(mut self, later: usize) -> Handled {
        self.settle(later);
        self.wait();
        self.answer(later);
        self.handled.left = self.has_left();
        self.handled
    }
}

/// Has the accounts on platforms asked for their chats, unless they were lately, and waits a little for what they tell.
fn chats_are_listed(mail: &Mailboxes) {
    let listed = mail.stop.run_until_cancelled(mail.listings.want_all(LISTING));
    // The answer has what is known.
    let _ = mail.machine.world.wait(listed);
}

/// Reads claimed files of a group, settles and answers them, in order.
pub(super) fn handle(
    mail: &Arc<Mailboxes>,
    folder: &Folder,
    taken: Vec<Taken>,
    patience: Patience,
    slow: Slow,
) -> Handled {
    let mut flow = Flow::new(mail, folder, patience, slow);
    flow.take(taken, 0);
    flow.end(0)
}
