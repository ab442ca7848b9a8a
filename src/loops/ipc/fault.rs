//! Work on a group's files that panics: a fault of ours. It is logged, its files are looked at again one by one, and one
//! over which it happens again is refused, so that all others go on.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ipc_handlers::{Folder, Refusal};

use super::{
    Mailboxes,
    answer::{LONGEST_REST, REST, answer_all, note_stranded, record_our_fault},
    flow::{Handled, Slow, handle},
    read::{Patience, Pending, Taken},
};
use crate::{domain::shown::errors::chain, engine::rested, ipc::Claimed};

/// Work panicked, or the daemon ends; which is logged.
pub(super) struct Panicked;

/// Does work on a group's files on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    mail: &Mailboxes,
    folder: &Folder,
    doing: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    let span = tracing::Span::current();
    mail.machine.world.blocking(move || span.in_scope(work)).await.map_err(|fault| {
        tracing::error!(group = %folder, doing, fault = %chain(&fault), "our own fault: work on a group's commands panicked; they are looked at again, one by one");
        Panicked
    })
}

/// Returns the claimed files of a group that nobody works on any more: all but those that are `kept` somewhere, oldest first.
pub(super) async fn stranded(mail: &Arc<Mailboxes>, folder: &Folder, kept: &[i64]) -> Vec<Claimed> {
    let kept: BTreeSet<i64> = kept.iter().copied().collect();
    let mut rest = REST;
    let found = loop {
        let looking = Arc::clone(mail);
        match mail.machine.world.blocking(move || looking.claims.left_over()).await {
            Ok(Ok(found)) => break found.claims,
            Ok(Err(error)) => {
                tracing::error!(error = %chain(&error), "reading data/claimed failed; it is tried again");
            }
            Err(_) => return Vec::new(),
        }
        if rested(&mail.stop, rest).await {
            return Vec::new();
        }
        rest = (rest * 2).min(LONGEST_REST);
    };
    found.into_iter().filter(|claimed| claimed.folder == *folder && !kept.contains(&claimed.id)).collect()
}

/// Handles claimed files of a group one by one, in order. One over which we panic again is refused as a fault of ours. Where
/// one has to wait for the world, those behind it are left to be looked at again after it.
pub(super) async fn one_by_one(
    mail: &Arc<Mailboxes>,
    folder: &Folder,
    claims: Vec<Claimed>,
    patience: Patience,
) -> Handled {
    let mut all = Handled::default();
    for claimed in claims {
        if all.left || !all.waiting.is_empty() {
            all.left = true;
            all.growing.push(claimed);
            continue;
        }
        let (working, of, taken) =
            (Arc::clone(mail), folder.clone(), vec![Taken::before(claimed.clone(), Duration::ZERO)]);
        let work = move || handle(&working, &of, taken, patience, Slow::Now);
        match blocking(mail, folder, "one command", work).await {
            Ok(handled) => all.add(handled),
            Err(Panicked) if mail.stop.is_cancelled() => break,
            Err(Panicked) => all.waiting.extend(refuse(mail, folder, claimed).await),
        }
    }
    all
}

/// Refuses a command unread: reading or deciding it is what panics. Returns it where the store can't take the refusal now.
async fn refuse(mail: &Arc<Mailboxes>, folder: &Folder, claimed: Claimed) -> Option<Pending> {
    let (working, of) = (Arc::clone(mail), folder.clone());
    let work = move || {
        let pending = Pending::refused(&working, claimed, Refusal::internal())?;
        match working.machine.world.wait(record_our_fault(&working, &pending)) {
            Ok(settled) => answer_all(&working, &of, vec![(pending, settled)], 0).again.pop(),
            Err(error) if error.is_worlds_fault() => Some(pending.refused_for(Refusal::internal())),
            Err(error) => {
                note_stranded(&working, &pending, &error);
                None
            }
        }
    };
    blocking(mail, folder, "refusing one command", work).await.ok().flatten()
}
