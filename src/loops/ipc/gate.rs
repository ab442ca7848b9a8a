//! How much of a group's boxes may be taken: so many commands and messages a minute, so many bytes at a time. What may
//! not be taken waits where it lies. Only when far too much waits is the newest of it refused.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use ipc_handlers::{Folder, Refusal};
use tokio::time::Instant;

use super::{
    super::Host,
    answer::answer_all,
    chain,
    flow::{AT_ONCE, TOGETHER},
    read::{Patience, Pending, Reading, claim, read},
};
use crate::{
    clock,
    ipc::{Claimed, CommandBox, GroupBoxes},
};

/// How long a gate stays shut before the boxes are looked at again.
const REST: Duration = Duration::from_secs(1);
/// How many files are refused at a time.
const REFUSED: usize = 4096;

/// The gate of one group.
#[derive(Default)]
pub(super) struct Gate {
    shut_until: Option<Instant>,
}

impl Gate {
    /// Returns how many files may be taken while files of `unsettled` bytes are claimed and not settled; shuts when that is
    /// none.
    pub(super) fn opens_for(&mut self, host: &Host, folder: &Folder, unsettled: u64) -> usize {
        let now = clock::now();
        let (commands, messages) =
            host.allow(folder, |left| (left.commands.available(now), left.messages.available(now)));
        let free = unsettled < host.config.waiting_bytes && messages > 0;
        // Which of them are messages is known when they are read.
        let open = if free { commands.min(messages.max(TOGETHER)) } else { 0 };
        if open == 0 {
            if self.shut_until.is_none() {
                tracing::warn!(group = %folder, unsettled, "more commands than the limits allow; the rest waits in the box");
            }
            self.shut_until = Some(Instant::now() + REST);
        }
        open
    }

    /// Shuts for a while: a file could not be claimed, and what is younger must not go before it.
    pub(super) fn shut(&mut self) {
        self.shut_until = Some(Instant::now() + REST);
    }

    /// Notes what was taken, and how many of the files were messages.
    pub(super) fn took(&self, host: &Host, folder: &Folder, files: usize, messages: usize) {
        let now = clock::now();
        host.allow(folder, |left| {
            left.commands.take(files, now);
            left.messages.take(messages, now);
        });
    }

    /// Returns until when it is shut.
    pub(super) fn shut_until(&self) -> Option<Instant> {
        self.shut_until
    }

    /// What waits may be looked at again.
    pub(super) fn open(&mut self) {
        self.shut_until = None;
    }
}

/// Refuses the newest of what waits beyond the most that may; returns what was claimed and can't be read yet. On a thread
/// that may block.
pub(super) fn refuse_excess(host: &Arc<Host>, folder: &Folder) -> Vec<Claimed> {
    let mut unread = Vec::new();
    // What a person holds is not looked at.
    if host.is_held(folder) {
        return unread;
    }
    let Ok(boxes) = host.boxes(folder) else { return unread };
    let mut excess = excess_of(host, &boxes).into_iter().peekable();
    // Of these no more are in memory at a time than of those that are settled.
    while excess.peek().is_some() {
        let mut some = Vec::new();
        let mut bytes = 0;
        while some.len() < TOGETHER
            && bytes < AT_ONCE
            && let Some((in_box, name)) = excess.next()
        {
            let Ok(claimed) = claim(host, &boxes, in_box, &name) else { return unread };
            let Some(taken) = claimed else { continue };
            match read(host, taken, None, Patience::None) {
                Reading::Ready(pending) => {
                    bytes += pending.kept.len();
                    some.push(*pending);
                }
                Reading::NotYet(claimed, _) => unread.push(claimed),
                Reading::Nothing => {}
            }
        }
        if !refuse(host, folder, some) {
            return unread;
        }
    }
    unread
}

/// Returns the newest files that are more than may wait, as many as are refused at a time: no more of them are in memory,
/// however many there are.
fn excess_of(host: &Host, boxes: &GroupBoxes) -> Vec<(CommandBox, OsString)> {
    let most = host.config.waiting_files;
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
    if excess.is_empty() {
        return Vec::new();
    }
    let holds = host.holds.read().unwrap_or_else(PoisonError::into_inner);
    excess.retain(|(entry, in_box)| !holds.file(boxes.folder(), in_box.as_str(), entry.name.as_bytes()));
    drop(holds);
    tracing::warn!(group = %boxes.folder(), waiting = count, refused = excess.len(), "far too many commands wait; the newest are refused");
    excess.into_iter().map(|(entry, in_box)| (in_box, entry.name)).collect()
}

/// Refuses these, committed together, and answers them; returns whether the store could take it.
fn refuse(host: &Arc<Host>, folder: &Folder, pending: Vec<Pending>) -> bool {
    let now = clock::now();
    let most = host.config.waiting_files;
    let refused = pending.iter().map(|p| host.store.refuse(p.file.clone(), Refusal::rate_limited(most), now));
    let outcomes = tokio::runtime::Handle::current().block_on(join_all(refused));
    let mut answers = Vec::new();
    let mut all = true;
    for (pending, outcome) in pending.into_iter().zip(outcomes) {
        match outcome {
            Ok(settled) => answers.push((pending, settled)),
            // It stays claimed: the next start decides it.
            Err(error) => {
                all = false;
                tracing::error!(group = %folder, error = %chain(&error), "a refusal can't be written down");
            }
        }
    }
    let _unanswered = answer_all(host, folder, answers, 0);
    all
}
