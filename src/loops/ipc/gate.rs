//! How much of a group's boxes may be taken: at most N commands, messages and bytes a minute, at most N bytes at a time, and
//! nothing while the disk has no space for its effects. Other files wait in their box. Only if far too many wait, the newest
//! are refused.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    sync::Arc,
    time::{Duration, Instant},
};

use ipc_handlers::{Folder, Refusal, Time};

use super::{
    Mailboxes,
    answer::settle_in_order,
    flow::{AT_ONCE, Handled, TOGETHER},
    read::{Patience, Pending, Reading, claim, read},
};
use crate::{
    domain::kept::disk::{self, Admission},
    ipc::{Claimed, CommandBox, GroupBoxes},
};

/// How long a gate stays shut before the boxes are looked at again.
const REST: Duration = Duration::from_secs(1);
/// After this many that could not be claimed, no more are refused for now.
const FAILED: usize = 8;
/// How many files are refused at a time.
const REFUSED: usize = 4096;

/// How often is said that a gate is still shut for the same reason, ms.
const SAID_EVERY_MS: i64 = 60_000;

/// The gate of one group.
#[derive(Default)]
pub(super) struct Gate {
    shut_until: Option<Instant>,
    /// For what it was shut last, and when that was said.
    said: Option<(Shut, Time)>,
}

/// Why nothing is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shut {
    /// The limits of a minute, of claimed bytes that are not settled, or of searches that wait for their answer.
    Limits,
    NoSpace(Admission),
}

/// How much may be taken.
pub(super) struct Open {
    pub(super) files: usize,
    /// How many of them may be searches, which wait for their answers.
    pub(super) searches: usize,
    /// With their replies. The last one may have more.
    pub(super) bytes: usize,
}

impl Gate {
    /// Returns how much may be taken while files of `unsettled` bytes are claimed and not settled; shuts when that is
    /// none.
    pub(super) fn opens_for(&mut self, mail: &Mailboxes, folder: &Folder, unsettled: u64) -> Open {
        let now = mail.machine.world.now();
        let (commands, messages, bytes) = mail.allowances.of(folder, |left| {
            (left.commands.available(now), left.messages.available(now), left.bytes.available(now))
        });
        let free = unsettled < mail.config.now().limits.waiting_bytes && messages > 0 && bytes > 0;
        let admission = admission(mail, folder);
        let searches = mail.searches.places(folder);
        // Which of them are messages is known when they are read.
        let limit = commands.min(messages.max(TOGETHER));
        let open = if free && admission == Admission::Open && searches > 0 { limit } else { 0 };
        if open == 0 {
            let why = if admission == Admission::Open { Shut::Limits } else { Shut::NoSpace(admission) };
            self.shut(mail);
            self.say(mail, why, unsettled, now);
        }
        Open { files: open, searches, bytes }
    }

    /// Says why it is shut, once a minute.
    fn say(&mut self, mail: &Mailboxes, why: Shut, unsettled: u64, now: Time) {
        let last =
            self.said.filter(|(said, at)| *said == why && (0..SAID_EVERY_MS).contains(&now.ms_since(*at)));
        if last.is_some() {
            return;
        }
        self.said = Some((why, now));
        match why {
            Shut::Limits => {
                tracing::warn!(unsettled, "more commands than the limits allow; the rest waits in the box");
            }
            Shut::NoSpace(admission) => {
                tracing::warn!(
                    ?admission,
                    "there is no room for what commands bring about; they wait in the box"
                );
                // The watch over the disk tells people, and stops the group that fills it.
                mail.machine.look_again.notify_one();
            }
        }
    }

    /// Whether it was shut last for want of space.
    pub(super) fn waits_for_space(&self) -> bool {
        self.shut_until.is_some() && matches!(self.said, Some((Shut::NoSpace(_), _)))
    }

    /// Shuts for a while: a file could not be claimed, and younger files must not go before it.
    pub(super) fn shut(&mut self, mail: &Mailboxes) {
        self.shut_until = Some(mail.machine.world.monotonic() + REST);
    }

    /// Returns until when it is shut.
    pub(super) fn shut_until(&self) -> Option<Instant> {
        self.shut_until
    }

    /// Waiting files may be looked at again.
    pub(super) fn open(&mut self) {
        self.shut_until = None;
    }
}

/// What was taken of a group's limits.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) files: usize,
    messages: usize,
    bytes: usize,
}

impl Used {
    /// What `files` files took that were claimed, and are `handled` so far.
    pub(super) fn by(files: usize, handled: &Handled) -> Self {
        Self { files, messages: handled.messages, bytes: handled.bytes }
    }

    /// Counts it against the limits of this minute, but for what was `counted` before. Returns all that is counted.
    pub(super) fn count(self, mail: &Mailboxes, folder: &Folder, counted: Self) -> Self {
        let now = mail.machine.world.now();
        mail.allowances.of(folder, |left| {
            left.commands.take(self.files - counted.files, now);
            left.messages.take(self.messages - counted.messages, now);
            left.bytes.take(self.bytes - counted.bytes, now);
        });
        self
    }
}

/// Returns whether the disk has space for the effects of a group's commands. If a size can't be read, nobody waits for it.
pub(super) fn admission(mail: &Mailboxes, folder: &Folder) -> Admission {
    if mail.machine.without_space().contains_key(folder) {
        return Admission::Over;
    }
    let stored = mail.store.stored_by(folder).unwrap_or(0);
    let most = mail.config.now().limits.stored_bytes;
    match disk::admission(stored, most, &mail.machine.disk()) {
        Admission::Open => Admission::Open,
        // This look also reads the store, which takes longer.
        Admission::Low | Admission::Ahead | Admission::Over => {
            disk::admission(stored, most, &mail.machine.whole_disk())
        }
    }
}

/// Files that were claimed to be refused, and are not.
#[derive(Default)]
pub(super) struct Unrefused {
    /// It can't be read yet.
    pub(super) unread: Vec<Claimed>,
    /// The store can't take the refusals now.
    pub(super) waiting: Vec<Pending>,
}

/// Refuses the newest of what waits beyond the most that may. On a thread that may block.
pub(super) fn refuse_excess(mail: &Arc<Mailboxes>, folder: &Folder) -> Unrefused {
    let mut left = Unrefused::default();
    // Held files are not looked at.
    if mail.held.group(folder) {
        return left;
    }
    let Ok(boxes) = mail.boxes.of(folder) else { return left };
    let mut excess = excess_of(mail, &boxes).into_iter().peekable();
    let mut failed = 0;
    // At most as many files are in memory at a time as are settled together.
    while failed < FAILED && left.waiting.is_empty() && excess.peek().is_some() {
        let mut some = Vec::new();
        let mut bytes = 0;
        while some.len() < TOGETHER
            && bytes < AT_ONCE
            && failed < FAILED
            && let Some((in_box, name)) = excess.next()
        {
            let taken = match claim(mail, &boxes, in_box, &name) {
                Ok(Some(taken)) => taken,
                Ok(None) => continue,
                Err(_) => {
                    failed += 1;
                    continue;
                }
            };
            match read(mail, taken, None, Patience::None) {
                Reading::Ready(pending) => {
                    bytes += pending.kept.len();
                    some.push(*pending);
                }
                Reading::NotYet(claimed, _) => left.unread.push(claimed),
                Reading::Nothing => {}
            }
        }
        left.waiting = refuse(mail, folder, some);
    }
    left
}

/// Returns the newest files that are more than may wait, oldest first, as many as are refused at a time: no more of them are in
/// memory, however many there are.
fn excess_of(mail: &Mailboxes, boxes: &GroupBoxes) -> Vec<(CommandBox, OsString)> {
    let most = mail.config.now().limits.waiting_files;
    let newest =
        CommandBox::ALL.map(|in_box| boxes.list_newest(in_box, REFUSED).map(|found| (in_box, found)));
    let count: usize = newest.iter().flatten().map(|(_, found)| found.waiting).sum();
    let mut excess: Vec<_> = newest
        .into_iter()
        .flatten()
        .flat_map(|(in_box, found)| found.entries.into_iter().map(move |entry| (entry, in_box)))
        .collect();
    excess.sort_by(|a, b| b.cmp(a));
    excess.truncate(count.saturating_sub(most).min(REFUSED));
    excess.reverse();
    if excess.is_empty() {
        return Vec::new();
    }
    let holds = mail.held.now();
    excess.retain(|(entry, in_box)| !holds.file(boxes.folder(), in_box.as_str(), entry.name.as_bytes()));
    drop(holds);
    tracing::warn!(
        waiting = count,
        refused = excess.len(),
        "far too many commands wait; the newest are refused"
    );
    excess.into_iter().map(|(entry, in_box)| (in_box, entry.name)).collect()
}

/// Refuses these, committed together, and answers them; returns those that have to wait.
fn refuse(mail: &Mailboxes, folder: &Folder, pending: Vec<Pending>) -> Vec<Pending> {
    let refusal = Refusal::rate_limited(mail.config.now().limits.waiting_files);
    let refused = pending.into_iter().map(|one| one.refused_for(refusal.clone())).collect();
    settle_in_order(mail, folder, refused)
}
