//! How much of a group's boxes may be taken: so many commands and messages a minute, so many bytes at a time. What may
//! not be taken waits where it lies. Only when far too much waits is the newest of it refused.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, PoisonError},
    time::Duration,
};

use ipc_handlers::{Folder, Refusal, Time};
use tokio::time::Instant;

use super::{
    super::Host,
    answer::answer_all,
    chain,
    flow::TOGETHER,
    read::{Patience, Reading, claim, read},
};
use crate::{clock, domain::bucket::Bucket, ipc::CommandBox};

/// How long a gate stays shut before the boxes are looked at again.
const REST: Duration = Duration::from_secs(1);
/// How many files are refused at a time.
const REFUSED: usize = 4096;

/// The gate of one group.
pub(super) struct Gate {
    commands: Bucket,
    messages: Bucket,
    shut_until: Option<Instant>,
}

impl Gate {
    pub(super) fn new(host: &Host, now: Time) -> Self {
        Self {
            commands: Bucket::new(host.config.commands_per_minute, now),
            messages: Bucket::new(host.config.messages_per_minute, now),
            shut_until: None,
        }
    }

    /// Returns how many files may be taken while files of `unsettled` bytes are claimed and not settled; shuts when that is
    /// none.
    pub(super) fn opens_for(&mut self, host: &Host, folder: &Folder, unsettled: u64) -> usize {
        let now = clock::now();
        let messages = self.messages.available(now);
        let free = unsettled < host.config.waiting_bytes && messages > 0;
        // Which of them are messages is known when they are read.
        let open = if free { self.commands.available(now).min(messages.max(TOGETHER)) } else { 0 };
        if open == 0 {
            if self.shut_until.is_none() {
                tracing::warn!(group = %folder, unsettled, "more commands than the limits allow; the rest waits in the box");
            }
            self.shut_until = Some(Instant::now() + REST);
        }
        open
    }

    /// Notes what was taken, and how many of the files were messages.
    pub(super) fn took(&mut self, files: usize, messages: usize) {
        let now = clock::now();
        self.commands.take(files, now);
        self.messages.take(messages, now);
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

/// Refuses the newest of what waits beyond the most that may. On a thread that may block.
pub(super) fn refuse_excess(host: &Arc<Host>, folder: &Folder) {
    // What a person holds is not looked at.
    if host.is_held(folder) {
        return;
    }
    let Ok(boxes) = host.boxes(folder) else { return };
    let most = host.config.waiting_files;
    let waiting =
        |limit| CommandBox::ALL.map(|in_box| boxes.list(in_box, limit).map(|found| (in_box, found)));
    let count: usize = waiting(1).iter().flatten().map(|(_, found)| found.waiting).sum();
    if count <= most {
        return;
    }
    let mut all: Vec<_> = waiting(usize::MAX)
        .into_iter()
        .flatten()
        .flat_map(|(in_box, found)| found.entries.into_iter().map(move |entry| (entry, in_box)))
        .collect();
    let holds = host.holds.read().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(entry, in_box)| !holds.file(folder, in_box.as_str(), entry.name.as_bytes()));
    drop(holds);
    all.sort();
    let excess: Vec<(CommandBox, OsString)> =
        all.into_iter().skip(most).take(REFUSED).map(|(entry, in_box)| (in_box, entry.name)).collect();
    tracing::warn!(group = %folder, waiting = count, refused = excess.len(), "far too many commands wait; the newest are refused");
    let runtime = tokio::runtime::Handle::current();
    let mut answers = Vec::new();
    for (in_box, name) in excess {
        let Some((claimed, refusal)) = claim(host, &boxes, in_box, &name) else { continue };
        let Reading::Ready(pending) = read(host, claimed, refusal, None, Patience::None, Duration::ZERO)
        else {
            continue;
        };
        match runtime.block_on(host.store.refuse(
            pending.file.clone(),
            Refusal::rate_limited(most),
            clock::now(),
        )) {
            Ok(settled) => answers.push((*pending, settled)),
            // It stays claimed: the next start decides it.
            Err(error) => {
                return tracing::error!(group = %folder, error = %chain(&error), "a refusal can't be written down");
            }
        }
    }
    let _unanswered = answer_all(host, folder, answers, 0);
}
